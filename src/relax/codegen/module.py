"""PrimFuncs to LLVM IR: an inner function and a packed wrapper for each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from ..farm.kernel_contents import contents_of
from ..farm.kernel_text import KernelText, symbol_name
from ..farm.worker import AS_WRITTEN, IN_ORDER, IN_VECTORS
from ..ir import Diagnostic, DiagnosticError
from ..native.builder import FunctionBuilder, ModuleBuilder
from ..native.formula import Val
from ..native.small_floats import SmallFloats
from ..native.types import register_type
from ..prim.cells import REGISTERS
from ..runtime.native import CELLS
from ..runtime.threads import LAUNCH
from ..target import Target
from ..target.isa import BfloatRounding
from ..tir import PrimFunc
from ..tir.signature import Signature
from ..tir.transform import PARALLEL_BODY
from . import expr, intrinsics, memory
from .calls import inner_symbol
from .context import Context, Rule, Unit
from .entry import write_entry
from .matching import checked_signature
from .stmt import write
from .supported_attributes import FUNCTION_ATTRIBUTES, LOWER_FIRST, UNKNOWN, unknown_among
from .views import declare_memory
from .wrapper import Wrapper

_BATCH: Final = 80
"""Maximum number of registers of the compiled Relax functions in one LLVM module; a function of one call has five."""

_MANY: Final = 64
"""Number of parameters above which LLVM is told that an inner function may be replaced at link time (it never is). Its
interprocedural passes then derive nothing about the parameters; they rescan all operands of a call for each parameter
they learn about. The wrapper is not optimised, so nothing is lost.
"""
_AT_ONCE: Final = 4
"""Number of kernels lowered together: each run of the passes has an overhead of half a millisecond."""

_LARGE: Final = 2_000
"""Number of nodes from which a kernel is lowered by itself (0.2 s), leaving others to other processes."""

_RULES: Final[dict[type, Rule]] = {**expr.RULES, **memory.RULES, **intrinsics.RULES}


def module_text(funcs: Mapping[str, PrimFunc], target: Target) -> str:
    """Human-readable LLVM IR of lowered functions. Raises DiagnosticError with all errors."""
    return "\n".join(kernel.shown(kernel.text) for kernel in kernel_texts(funcs, target))


def kernel_texts(funcs: Mapping[str, PrimFunc], target: Target, *, mark_loops: bool = False) -> list[KernelText]:
    """LLVM IR of lowered functions, a text per group of functions that call each other, or per batch of small ones.

    With `mark_loops`, the instructions of loops end in ``!dbg !loop<number>``, which LLVM does not parse. Raises
    DiagnosticError with all errors.
    """
    return list(written_kernels(funcs, target, mark_loops=mark_loops))


class LaterFunctions(NamedTuple):
    """Compiled Relax functions created while others are being written."""

    names: Sequence[str] = ()
    made: Iterable[tuple[str, PrimFunc]] = ()
    """(Name, function) pairs in order; iterated once."""


NONE_LATER: Final = LaterFunctions()

Lowering: TypeAlias = "Callable[[dict[str, PrimFunc]], dict[str, PrimFunc]]"
"""Lowers functions together with the functions they call; appends the functions of their parallel loops."""


class Elsewhere(Protocol):
    """Kernels lowered and written by other processes."""

    def has_begun(self, name: str, func: PrimFunc) -> bool:
        """True if another process has begun with a function; if False, no process will."""
        ...

    def has_ended(self, name: str) -> bool:
        """True if the text of a function that was begun is available without waiting."""
        ...

    def text(self, name: str) -> KernelText | None:
        """Wait for the text of a function that was begun; None if it cannot be written."""
        ...


def written_kernels(
    funcs: Mapping[str, PrimFunc],
    target: Target,
    *,
    mark_loops: bool = False,
    later: LaterFunctions = NONE_LATER,
    lowering: Lowering | None = None,
    elsewhere: Elsewhere | None = None,
) -> Iterator[KernelText]:
    """Yield the texts of `kernel_texts` as they are written; after an error, only raise DiagnosticError.

    `later` functions are created once the functions before them have been written. With `lowering`, `funcs` are lowered
    as well, a few at a time; those written `elsewhere` are yielded when they arrive.
    """
    writer = _Writer(target, [*funcs, *later.names], mark_loops)
    if lowering is None:
        yield from writer.texts(_groups(funcs))
        yield from writer.texts(_batches(later.made))
    else:
        lowered = _Lowered(funcs, writer, lowering, elsewhere)
        yield from lowered.texts()
        yield from writer.texts(_batches(later.made))
        yield from lowered.last_texts()
    writer.finish()


def _bfloat_rounding(target: Target) -> BfloatRounding | None:
    """The target's instruction for rounding to bfloat16 (implied by bfloat16 dot products); None if it has none."""
    rounding = target.isa.bfloat_rounding
    if rounding is None or "bf16" not in target.machine.dot_products or target.vector_bits < rounding.bits:
        return None
    return rounding


class _Writer:
    """Writes functions and collects their errors."""

    def __init__(self, target: Target, names: Sequence[str], mark_loops: bool) -> None:
        self._target, self._mark_loops = target, mark_loops
        self._small_floats = SmallFloats(target.has_half_conversion, _bfloat_rounding(target))
        self._symbols = frozenset(map(symbol_name, names))
        self._places = {name: place for place, name in enumerate(names)}
        self._wrong: dict[str, list[Diagnostic]] = {}
        self._not_lowered: dict[str, list[Diagnostic]] = {}

    def texts(self, groups: Iterable[dict[str, PrimFunc]]) -> Iterator[KernelText]:
        """Text of each group of functions that call each other; stops at the first error."""
        for group in groups:
            text = self._text(group)
            if self.is_right:
                yield text

    @property
    def is_right(self) -> bool:
        """True if there has been no error."""
        return not (self._wrong or self._not_lowered)

    def _text(self, group: dict[str, PrimFunc]) -> KernelText:
        diagnostics: list[Diagnostic] = []
        unit = Unit(ModuleBuilder(), self._target, self._small_floats, group, self._symbols, diagnostics)
        instructions = self._target.isa.math
        if instructions is not None and self._target.vector_bits >= instructions.bits:
            unit.module.math = instructions
        unit.loops = [] if self._mark_loops else None
        for name in sorted(group, key=self._place):
            _write(unit, name, group[name])
            if diagnostics:
                self._wrong[name] = diagnostics[:]
                diagnostics.clear()
        return _text(unit, self._target)

    def lowered(self, groups: Sequence[dict[str, PrimFunc]], lowering: Lowering) -> list[dict[str, PrimFunc]]:
        """Lower groups of functions together; if that fails, one by one, skipping those that fail."""
        try:
            return _groups(lowering({name: func for group in groups for name, func in group.items()}))
        except DiagnosticError as error:
            if len(groups) > 1:
                return [one for group in groups for one in self.lowered([group], lowering)]
            self._not_lowered[next(iter(groups[0]))] = list(error.diagnostics)
            return []

    def finish(self) -> None:
        """Raise DiagnosticError with all errors, if any."""
        for errors in (self._not_lowered, self._wrong):
            if errors:
                raise DiagnosticError([d for name in sorted(errors, key=self._place) for d in errors[name]])

    def _place(self, name: str) -> int:
        return self._places.get(name, len(self._places))


class _Lowered:
    """Functions lowered in this process, a few at a time, and functions lowered elsewhere."""

    def __init__(
        self, funcs: Mapping[str, PrimFunc], writer: _Writer, lowering: Lowering, elsewhere: Elsewhere | None
    ) -> None:
        groups = _joined(funcs)
        groups.sort(key=_size, reverse=True)
        self._large = [group for group in groups if _size(group) >= _LARGE]
        """Groups lowered first, one at a time, largest first."""
        self._small = groups[len(self._large) :]
        self._writer, self._lowering, self._elsewhere = writer, lowering, elsewhere
        self._begun: dict[str, dict[str, PrimFunc]] = {}
        """Groups, of one function each, lowered elsewhere."""

    def texts(self) -> Iterator[KernelText]:
        """Texts of the functions that no other process has begun, and of others that have already arrived."""
        for groups, at_once in ((self._large, 1), (self._small, _AT_ONCE)):
            waiting = filter(self._is_here, groups)
            while some := list(itertools.islice(waiting, at_once)):
                yield from self._written(some)
                if self._elsewhere is not None:
                    ended = list(filter(self._elsewhere.has_ended, self._begun))
                    yield from self._arrived(self._elsewhere, ended)

    def last_texts(self) -> Iterator[KernelText]:
        """Texts of all remaining functions."""
        if self._elsewhere is not None:
            yield from self._arrived(self._elsewhere, list(self._begun))

    def _is_here(self, group: dict[str, PrimFunc]) -> bool:
        name, func = next(iter(group.items()))
        if len(group) > 1 or self._elsewhere is None or not self._elsewhere.has_begun(name, func):
            return True
        self._begun[name] = group
        return False

    def _arrived(self, elsewhere: Elsewhere, names: Iterable[str]) -> Iterator[KernelText]:
        for name in names:
            group = self._begun.pop(name)
            text = elsewhere.text(name)
            if text is None:
                yield from self._written([group])
            elif self._writer.is_right:
                yield text

    def _written(self, groups: Sequence[dict[str, PrimFunc]]) -> Iterator[KernelText]:
        return self._writer.texts(self._writer.lowered(groups, self._lowering))


def _text(unit: Unit, target: Target) -> KernelText:
    head = f'target triple = "{target.triple}"\n'
    if unit.module.has_loops and not (unit.module.has_scalar_loops or unit.module.has_wide_tiles):
        head = f"{IN_VECTORS}\n{head}"
    head = f"{IN_ORDER}\n{head}" if unit.module.in_order else head
    if all(REGISTERS in func.attrs for func in unit.functions.values()):
        head = f"{AS_WRITTEN}\n{head}"
    text = head + unit.module.text()
    support = tuple(symbol for symbol in (LAUNCH, CELLS) if symbol in text)
    names, bodies = _names(unit.functions)
    return KernelText(text, names, bodies, unit.module.messages, tuple(unit.loops or ()), support)


def _names(funcs: Mapping[str, PrimFunc]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (names of callable functions, names of bodies of parallel loops); the latter come last in `funcs`."""
    bodies = tuple(name for name, func in funcs.items() if PARALLEL_BODY in func.attrs)
    return tuple(funcs)[: len(funcs) - len(bodies)], bodies


def _groups(funcs: Mapping[str, PrimFunc]) -> list[dict[str, PrimFunc]]:
    """Group functions so that no group calls another, in their order, bodies of parallel loops last.

    Compiled Relax functions call others by symbol. Small ones are batched, since each LLVM module takes as long as a
    small function.
    """
    ordered = dict(sorted(funcs.items(), key=lambda item: PARALLEL_BODY in item[1].attrs))
    host = {name: func for name, func in ordered.items() if REGISTERS in func.attrs}
    if not host:
        return _joined(ordered)
    groups = [*_joined({name: f for name, f in ordered.items() if name not in host}), *_batches(host.items())]
    places = {name: place for place, name in enumerate(ordered)}
    return sorted(groups, key=lambda group: places[next(iter(group))])


def _batches(funcs: Iterable[tuple[str, PrimFunc]]) -> Iterator[dict[str, PrimFunc]]:
    """Batch compiled Relax functions, with at most `_BATCH` registers per batch unless it is a single function."""
    batch: dict[str, PrimFunc] = {}
    total = 0
    for name, func in funcs:
        registers = int(func.attrs[REGISTERS]) + 1
        if batch and total + registers > _BATCH:
            yield batch
            batch, total = {}, 0
        batch[name] = func
        total += registers
    if batch:
        yield batch


def _size(group: Mapping[str, PrimFunc]) -> int:
    """Number of nodes in functions."""
    return sum(contents_of(func).size for func in group.values())


def _joined(funcs: Mapping[str, PrimFunc]) -> list[dict[str, PrimFunc]]:
    """Group functions that call each other."""
    leaders = {name: name for name in funcs}

    def leader(name: str) -> str:
        while leaders[name] != name:
            name = leaders[name] = leaders[leaders[name]]
        return name

    for name, func in funcs.items():
        for callee in contents_of(func).callees & leaders.keys():
            leaders[leader(callee)] = leader(name)
    groups: dict[str, dict[str, PrimFunc]] = {}
    for name, func in funcs.items():
        groups.setdefault(leader(name), {})[name] = func
    return list(groups.values())


def _write(unit: Unit, name: str, func: PrimFunc) -> None:
    """Write a function and its wrapper, or report its errors."""
    _refuse_unknown(unit, name, func)
    try:
        known = checked_signature(unit, name, func)
        _write_inner(unit, name, func, known)
        if REGISTERS in func.attrs:
            write_entry(unit, name, func.attrs)
        elif PARALLEL_BODY not in func.attrs:
            Wrapper(unit, name, known, _RULES).write()
    except DiagnosticError as error:
        for diagnostic in error.diagnostics:
            unit.report(name, diagnostic)


def _refuse_unknown(unit: Unit, name: str, func: PrimFunc) -> None:
    for key, hint in unknown_among(func.attrs, FUNCTION_ATTRIBUTES):
        message = f"code generation does not know the function attribute {key}"
        unit.report(name, Diagnostic(UNKNOWN, message, func.span, hint=hint))
    if func.preconditions:
        message = "a precondition must be lowered to an assertion first"
        unit.report(name, Diagnostic("E5904", message, func.preconditions[0].span, hint=LOWER_FIRST))


def _write_inner(unit: Unit, name: str, func: PrimFunc, known: Signature) -> None:
    """Write the inner function ``i32 body(ptr a, …, i64 n, …)``; it returns 0, or -1 with the error set."""
    alias = " noalias" if func.attrs.get("tir.noalias") else ""
    parameters: list[str] = []
    for i, (param, buffer) in enumerate(known.params):
        text = register_type(param.dtype) if buffer is None else f"ptr{alias}"
        parameters.append(f"{text} %p{i}")
    parameters += [f"i64 %s{i}" for i in range(len(known.bound))]
    attributes = f'nounwind %s "prefer-vector-width"="{unit.target.vector_bits}"'
    group = unit.module.attribute_group(attributes % "noinline")
    inline = unit.module.attribute_group(attributes % "alwaysinline") if PARALLEL_BODY in func.attrs else group
    # A kernel's body is called by compiled Relax functions too, which are in other modules.
    linkage = "hidden" if PARALLEL_BODY not in func.attrs and REGISTERS not in func.attrs else "internal"
    if linkage == "hidden" and len(parameters) > _MANY:
        linkage = "weak hidden"
    head = f"define {linkage} i32 {inner_symbol(unit, name)}({', '.join(parameters)}) #{inline}"
    b = FunctionBuilder(unit.module, head)
    b.share()
    cx = Context(unit, b, name, _RULES)
    cx.attributes = group
    cx.title = unit.title(name)
    cx.checked = cx.exact = bool(func.attrs.get("tir.is_host_func"))
    for i, var in enumerate(known.bound):
        cx.wide[var] = Val(b, "i64", 1, f"%s{i}")
    for i, (param, buffer) in enumerate(known.params):
        if buffer is None:
            cx.vars[param] = cx.val(param.dtype, f"%p{i}")
        else:
            cx.vars[buffer.data] = cx.vars[param] = Val(b, "ptr", 1, f"%p{i}")
            cx.distinct.update([f"%p{i}"] if alias else [])
    for _, buffer in known.params:
        if buffer is not None:
            cx.facts.sizes(buffer)
    for i, (param, buffer) in enumerate(known.params):
        if buffer is not None:
            declare_memory(cx, buffer, f"%p{i}", max(buffer.dtype.bits // 8, 1))
            cx.memory[param] = cx.memory[buffer.data]
    write(cx, func.body)
    b.end("ret i32 0")
    with b.cold("error"):
        b.end("ret i32 -1")
    unit.module.define(b)
