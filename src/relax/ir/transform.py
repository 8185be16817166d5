"""Passes: named transformations of an IRModule, and their context.

    @module_pass
    def MyPass(mod: IRModule) -> IRModule: ...

    mod = Sequential([MyPass(), Other(option=3)])(mod)

    with PassContext(instruments=[VerifyInstrument(assert_well_formed), TimingInstrument()]):
        mod = pipeline(mod)

A pass without an effect returns the same module object, and instruments are informed of that.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from typing_extensions import Self

from ..runtime.records import dataclass
from .deep import nested_too_deeply
from .diagnostics import DiagnosticError
from .expr import BaseFunc, GlobalVar
from .module import IRModule


@dataclass(frozen=True, slots=True)
class Property:
    """A property of modules that passes require, establish or break, by name; `PROPERTIES` lists all.

    `violation` describes the first violation in a module; empty if the module has the property.
    """

    name: str
    violation: Callable[[IRModule], str] = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        PROPERTIES.append(self)


PROPERTIES: list[Property] = []

FAST_ALGORITHMS: Final = "relax.fast_algorithms"
"""Configuration: True (the default) permits algorithms with other rounding than the operators' definitions."""


Properties = Iterable[Property]


@dataclass(frozen=True, slots=True)
class PassInfo:
    """Name of a pass, its minimum optimisation level, its properties, and the passes that must run right before it.

    `required` lists declared names; see `pass_by_name`. For a module with the properties `needs`, the pass returns one
    with the properties `gives`, and all others the module had except those it `breaks`. If `breaks` is None, no
    property is guaranteed.
    """

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()
    needs: frozenset[Property] = frozenset()
    gives: frozenset[Property] = frozenset()
    breaks: frozenset[Property] | None = None

    @staticmethod
    def of(
        name: str,
        opt_level: int = 0,
        required: Sequence[str] | None = None,
        needs: Properties = (),
        gives: Properties = (),
        breaks: Properties | None = None,
    ) -> PassInfo:
        """Info of a pass from the arguments of its decorator."""
        kept = None if breaks is None else frozenset(breaks)
        return PassInfo(name, opt_level, tuple(required or ()), frozenset(needs), frozenset(gives), kept)


_DECLARED: dict[str, Callable[[], Pass]] = {}


def _key(name: str) -> str:
    """Name under which a pass is declared: without its prefix, unless that is Relay's.

    Relax and Relay have passes of the same name, such as ``FoldConstant`` and ``relay.FoldConstant``.
    """
    return name if name.startswith("relay.") else name.rpartition(".")[2]


def declare_pass(name: str, make: Callable[[], Pass]) -> None:
    """Declare the factory of a pass, for passes that require it; a later declaration replaces an earlier one."""
    _DECLARED[_key(name)] = make


def pass_by_name(name: str) -> Pass:
    """Create the pass last declared under a name, with default options; of ``relax.LambdaLift`` the last part counts.

    A name without a prefix falls back to Relay's pass of that name. Raises ValueError if there is none.
    """
    make = _DECLARED.get(_key(name)) or _DECLARED.get(f"relay.{name}")
    if make is None:
        close = ", ".join(difflib.get_close_matches(name, _DECLARED, 3)) or "none is close"
        raise ValueError(f"there is no pass {name!r} (similar: {close})")
    return make()


class PassInstrument:
    """Hooks called around every pass; all are optional."""

    needs_passes: ClassVar[bool] = True
    """False if the instrument only displays progress: the build may then come from the cache."""

    def enter_pass_ctx(self) -> None:
        """Called on entering the PassContext."""

    def exit_pass_ctx(self) -> None:
        """Called on leaving the PassContext."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Return False to skip the pass."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called before a pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo, changed: bool) -> None:
        """Called after a pass, with its result and whether it changed the module."""


class PassContext:
    """Options and instruments for the passes run inside a ``with``."""

    _stack: ClassVar[threading.local] = threading.local()

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = (),
        disabled_pass: Sequence[str] | None = (),
        instruments: Sequence[PassInstrument] | None = (),
        config: dict[str, Any] | None = None,
    ) -> None:
        self.opt_level = opt_level
        self.required_pass = tuple(required_pass or ())
        self.disabled_pass = tuple(disabled_pass or ())
        self.instruments = tuple(instruments or ())
        self.config = dict(config or {})
        self.trace: list[str] = []
        """Names of the passes run so far, in order; an outermost Sequential starts it anew."""
        self.depth = 0
        """The number of passes running, one inside the other."""

    @classmethod
    def current(cls) -> PassContext:
        """Innermost context; outside of any, a default one."""
        stack: list[PassContext] = getattr(cls._stack, "contexts", [])
        return stack[-1] if stack else PassContext()

    @classmethod
    @contextmanager
    def configured(cls, key: str, value: Any) -> Generator[None]:
        """Context manager: set an entry of the current context's `config`, unless it is set."""
        context = cls.current()
        if key in context.config:
            yield
            return
        context.config[key] = value
        stack: list[PassContext] = getattr(cls._stack, "contexts", [])
        try:
            if stack:
                yield
            else:
                with context:
                    yield
        finally:
            del context.config[key]

    def __enter__(self) -> Self:
        stack: list[PassContext] | None = getattr(self._stack, "contexts", None)
        if stack is None:
            stack = self._stack.contexts = []
        for instrument in self.instruments:
            instrument.enter_pass_ctx()
        stack.append(self)  # last: an instrument that fails to start leaves no context behind
        return self

    def override_instruments(self, instruments: Sequence[PassInstrument] | None) -> None:
        """Replace the context's instruments: exit the old ones and enter the new ones."""
        for instrument in self.instruments:
            instrument.exit_pass_ctx()
        self.instruments = tuple(instruments or ())
        for instrument in self.instruments:
            instrument.enter_pass_ctx()

    def __exit__(self, *_: object) -> None:
        self._stack.contexts.pop()
        for instrument in self.instruments:
            instrument.exit_pass_ctx()

    def runs(self, info: PassInfo) -> bool:
        """True if this context runs a pass. Its name is matched with or without ``relay.``."""
        names = {info.name, info.name.removeprefix("relay.")}
        if not names.isdisjoint(self.disabled_pass):
            return False
        return not names.isdisjoint(self.required_pass) or self.opt_level >= info.opt_level


class Pass:
    """A transformation of IRModules; call it on a module."""

    def __init__(self, info: PassInfo, options: Mapping[str, Any] | None = None) -> None:
        self.info = info
        self.options: Mapping[str, Any] = dict(options or {})
        """The options by name, defaults included; each is an attribute of the pass as well."""

    def __getattr__(self, name: str) -> Any:
        if name != "options" and name in self.options:
            return self.options[name]
        raise AttributeError(f"the pass {type(self).__name__} has no attribute {name!r}")

    def transform(self, mod: IRModule) -> IRModule:
        """The transformation; subclasses override it."""
        raise NotImplementedError(type(self).__name__)

    def __call__(self, mod: IRModule) -> IRModule:
        context = PassContext.current()
        info = self.info
        if not isinstance(mod, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"pass {info.name} takes an IRModule, found {type(mod).__name__}"
                " (IRModule.from_expr makes one of a function)"
            )
        if not context.runs(info) or not all(i.should_run(mod, info) for i in context.instruments):
            return mod
        mod = self._prepared(mod)
        for instrument in context.instruments:
            instrument.run_before_pass(mod, info)
        context.depth += 1
        try:
            result = self.transform(mod)
        except RecursionError:
            raise DiagnosticError(nested_too_deeply("the program", f"rewritten by {info.name}")) from None
        except Exception as error:
            _name_the_pass(error, info.name, context.trace)
            raise
        finally:
            context.depth -= 1
        if not isinstance(result, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"pass {info.name} returned a {type(result).__name__}, expected an IRModule")
        context.trace.append(info.name)
        for instrument in context.instruments:
            instrument.run_after_pass(result, info, result is not mod)
        return result

    def _prepared(self, mod: IRModule) -> IRModule:
        """Module after running the required passes."""
        info = self.info
        if not info.required:
            return mod
        waiting = _WAITING.get()
        if info.name in waiting:
            circle = " -> ".join([*waiting[waiting.index(info.name) :], info.name])
            raise ValueError(f"passes require each other: {circle}")
        token = _WAITING.set((*waiting, info.name))
        try:
            for name in info.required:
                try:
                    step = pass_by_name(name)
                except ValueError as error:
                    raise ValueError(f"pass {info.name} requires {name}: {error}") from None
                mod = step(mod)
        finally:
            _WAITING.reset(token)
        return mod

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{self.info.name}({options})"


_WAITING: ContextVar[tuple[str, ...]] = ContextVar("passes whose required passes are being run", default=())


def _name_the_pass(error: Exception, name: str, before: list[str]) -> None:
    """Add to an exception a note of the pass that raised it and the passes before it (from Python 3.11 on)."""
    add_note: Callable[[str], None] | None = getattr(error, "add_note", None)
    if add_note is not None:
        add_note(f"in pass {name} (passes before it: {' -> '.join(before) or 'none'})")


class Sequential(Pass):
    """Passes run in sequence. `traceable` is accepted for TVM and ignored."""

    def __init__(
        self,
        passes: Iterable[Pass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None:
        super().__init__(PassInfo.of(name, opt_level, required))
        self.passes = tuple(passes or ())

    def transform(self, mod: IRModule) -> IRModule:
        context = PassContext.current()
        if context.depth == 1:  # another build in the same context is another story
            context.trace.clear()
        for step in self.passes:
            mod = step(mod)
        return mod

    def __repr__(self) -> str:
        return f"Sequential([{', '.join(map(repr, self.passes))}], name={self.info.name!r})"


class Step(NamedTuple):
    """One step of a pipeline: a factory of the pass, and the reason for its position."""

    make: Callable[[], Pass]
    reason: str


class ModulePass(Pass):
    """A pass given by a function from modules to modules."""

    def __init__(
        self, info: PassInfo, rewrite: Callable[[IRModule], IRModule], options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(info, options)
        self._rewrite = rewrite

    def transform(self, mod: IRModule) -> IRModule:
        return self._rewrite(mod)


_CONTEXTS = frozenset({"ctx", "_ctx", "_", "context", "_context", "pass_ctx"})


def without_context(function: Callable[..., Any], subjects: int) -> Callable[..., Any]:
    """Return a function of the subjects and options; a parameter for the context receives the current one.

    That parameter follows the `subjects` parameters for the transformed objects, and is recognised by name. A method
    has no options: any further parameter is the context.
    """
    parameters = list(inspect.signature(function).parameters.values())
    names = [parameter.name for parameter in parameters[subjects : subjects + 1]]
    if not names or not (names[0] in _CONTEXTS or inspect.ismethod(function)):
        return function

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        return function(*args[:subjects], PassContext.current(), *args[subjects:], **options)

    del parameters[subjects]
    setattr(call, "__signature__", inspect.Signature(parameters))  # noqa: B010
    return call


def pass_class(
    target: type,
    info: PassInfo,
    cls: type[ModulePass],
    method: str,
    subjects: int,
    rewrite: Callable[[Callable[..., Any]], Callable[[IRModule], IRModule]],
) -> type[ModulePass]:
    """Pass class for the decorated class, whose method `method` performs the transformation."""
    if not hasattr(target, method):
        raise TypeError(f"{target.__name__}: a {cls.__name__} class needs a method {method}")

    class Made(cls):
        def __init__(self, *args: Any, **options: Any) -> None:
            self.inst: Any = target(*args, **options)
            super().__init__(info, rewrite(without_context(getattr(self.inst, method), subjects)))

        def __getattr__(self, attribute: str) -> Any:
            if attribute == "inst":
                raise AttributeError(attribute)
            return getattr(self.inst, attribute)

    Made.__name__ = Made.__qualname__ = target.__name__
    Made.__doc__ = target.__doc__
    Made.__module__ = target.__module__
    declare_pass(info.name, Made)
    return Made


def module_pass(
    pass_func: Any = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
    *,
    needs: Properties = (),
    gives: Properties = (),
    breaks: Properties | None = None,
) -> Any:
    """Turn a function ``(mod, ctx, **options) -> IRModule``, or a class with `transform_module`, into a pass.

    `ctx`, the PassContext, and options may be omitted; `pass_factory` describes the use of such a pass. `traceable` is
    accepted for TVM and ignored. For `needs`, `gives` and `breaks` see PassInfo.
    """

    def decorate(target: Any) -> Any:
        info = PassInfo.of(name or target.__name__, opt_level, required, needs, gives, breaks)
        if inspect.isclass(target):
            return pass_class(target, info, ModulePass, "transform_module", 1, lambda method: method)
        inner = without_context(target, 1)
        return pass_factory(inner, info, lambda mod, options: inner(mod, **options), subjects=1)

    return decorate if pass_func is None else decorate(pass_func)


def function_pass(
    function: Callable[..., BaseFunc] | None = None,
    *,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] | None = None,
    kind: type[BaseFunc] = BaseFunc,
) -> Any:
    """Turn ``f(func, mod, ctx, **options) -> function`` into a pass, run on each function of class `kind`.

    `ctx` and options may be omitted; see `pass_factory`.
    """

    def decorate(target: Callable[..., BaseFunc]) -> Any:
        inner = without_context(target, 2)
        info = PassInfo.of(name or target.__name__, opt_level, required)
        return pass_factory(inner, info, on_functions(inner, kind))

    return decorate if function is None else decorate(function)


def on_functions(
    inner: Callable[..., BaseFunc], kind: type[BaseFunc]
) -> Callable[[IRModule, dict[str, Any]], IRModule]:
    """Module transformation that calls ``inner(func, mod, **options)`` for each function of class `kind`."""

    def run(mod: IRModule, options: dict[str, Any]) -> IRModule:
        updated: dict[GlobalVar, BaseFunc] = {}
        for global_var, func in mod.functions.items():
            updated[global_var] = inner(func, mod, **options) if isinstance(func, kind) else func
        return mod.with_functions(updated)

    return run


def pass_factory(
    inner: Callable[..., Any],
    info: PassInfo,
    run: Callable[[IRModule, dict[str, Any]], IRModule],
    cls: type[ModulePass] = ModulePass,
    subjects: int = 2,
) -> Any:
    """Pass for a function, whose parameters after the first `subjects` are the options of the pass.

    ``P(mod)`` runs it with its defaults; ``P()`` and ``P(option=value)`` create passes of the same kind. (A pass with a
    mandatory option must get it first.)
    """
    signature = inspect.signature(inner)
    parameters = list(signature.parameters.values())[subjects:]
    options_signature = signature.replace(parameters=parameters)
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    complete = all(p.name in defaults or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)

    class Declared(cls):
        def __call__(self, *args: Any, **options: Any) -> Any:
            if len(args) == 1 and not options and (isinstance(args[0], IRModule) or not parameters):
                if not complete:
                    needed = ", ".join(f"{p.name}=…" for p in parameters if p.name not in defaults)
                    raise TypeError(f"pass {name} needs an option before it runs: {name}({needed})(mod)")
                return super().__call__(args[0])
            bound = options_signature.bind(*args, **options)
            bound.apply_defaults()
            return cls(info, lambda mod: run(mod, bound.arguments), bound.arguments)

    name = info.name.rpartition(".")[2]
    Declared.__name__ = Declared.__qualname__ = name
    Declared.__doc__, Declared.__module__ = inner.__doc__, inner.__module__
    declared: Any = Declared(info, lambda mod: run(mod, defaults), defaults)
    declared.__name__ = declared.__qualname__ = name
    declared.__doc__, declared.__signature__ = inner.__doc__, options_signature
    declare_pass(info.name, declared)
    return declared


class VerifyInstrument(PassInstrument):
    """Runs a check after every pass, and verifies the pass's properties; failures name the passes run so far."""

    def __init__(self, check: Callable[[IRModule], None]) -> None:
        self.check = check
        self._before: list[dict[Property, str]] = []
        self._last: tuple[IRModule, dict[Property, str]] | None = None

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._before.append({} if info.breaks is None else self._violations(mod))

    def run_after_pass(self, mod: IRModule, info: PassInfo, changed: bool) -> None:
        before = self._before.pop()
        if changed:
            try:
                self.check(mod)
            except Exception as error:
                raise self._failure(info, str(error)) from error
        if info.breaks is None or any(before.get(needed) for needed in info.needs):
            return
        for prop, violation in self._violations(mod).items():
            if violation and prop in info.gives:
                raise self._failure(info, f"it promises {prop.name}: {violation}")
            if violation and not before[prop] and prop not in info.breaks:
                raise self._failure(info, f"it breaks {prop.name}, which it does not declare: {violation}")

    def _violations(self, mod: IRModule) -> dict[Property, str]:
        if self._last is None or self._last[0] is not mod:
            self._last = mod, {prop: prop.violation(mod) for prop in PROPERTIES}
        return self._last[1]

    @staticmethod
    def _failure(info: PassInfo, message: str) -> PassError:
        before = " -> ".join(PassContext.current().trace[:-1]) or "none"
        return PassError(f"after pass {info.name} (passes before it: {before}): {message}")


class PassError(Exception):
    """A pass violated its guarantees: its output is not well-formed, or lacks a property."""


@dataclass
class TimingInstrument(PassInstrument):
    """Records the duration of each pass: `times` is a list of (name, seconds, changed)."""

    times: list[tuple[str, float, bool]] = field(default_factory=list[tuple[str, float, bool]])
    _started: list[float] = field(default_factory=list[float])

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._started.append(time.perf_counter())

    def run_after_pass(self, mod: IRModule, info: PassInfo, changed: bool) -> None:
        self.times.append((info.name, time.perf_counter() - self._started.pop(), changed))

    def render(self) -> str:
        """Table with a line per pass."""
        return "\n".join(f"{s * 1e3:9.2f} ms  {'' if c else '(no change) '}{n}" for n, s, c in self.times)


class DumpInstrument(PassInstrument):
    """Writes the module after every pass that changed it to ``NN_PassName.py`` in a directory."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._count = 0

    def run_after_pass(self, mod: IRModule, info: PassInfo, changed: bool) -> None:
        self._count += 1
        if changed:
            self.directory.mkdir(parents=True, exist_ok=True)
            path = self.directory / f"{self._count:02d}_{info.name}.py"
            path.write_text(mod.script(show_meta=True) + "\n", encoding="utf-8")


class PrintIRBeforeAll(PassInstrument):
    """Prints the module before every pass."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        print(f"# before {info.name}\n{mod.script()}\n")  # noqa: T201


class PrintIRAfterAll(PassInstrument):
    """Prints the module after every pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo, changed: bool) -> None:
        print(f"# after {info.name}{'' if changed else ' (no change)'}\n{mod.script()}\n")  # noqa: T201
