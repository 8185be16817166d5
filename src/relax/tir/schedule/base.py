"""Base class of Schedule that primitives work on, and the decorators that define primitives.

    @primitive
    def parallel(sch: ScheduleBase, loop: LoopRV) -> None:
        node = sch.state.loop(loop)
        ...
        sch.state.replace(node, node.replace(kind=ForKind.PARALLEL), loop.function)

Random integers among the arguments are replaced by their values. A primitive that raises leaves the program unchanged.
Primitives called by a primitive are not recorded separately in the trace. A sampling primitive sets `decision`; one
whose argument cannot be saved in a trace, such as a Buffer or ``lambda *indices: …``, sets a replacement in `recorded`.
"""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypeVar, cast

from ...ir import DiagnosticError, IRModule, Node
from ...prim import IntImm, PrimExpr, Var, const, free_vars, simplify, substitute
from ..index_map import IndexMap
from ..stmt import PrimFunc
from ..usage import shape_vars_bound_by
from ..well_formed import verify_well_formed
from .argument_types import ArgumentType, plain
from .error import ARGUMENT, EXPIRED, Level, ScheduleError
from .instruction import PRIMITIVES, Instruction, InstructionKind, map_leaves
from .rv import BlockRV, LoopRV
from .state import ScheduleState
from .trace import Trace

F = TypeVar("F", bound="Callable[..., Any]")
DebugMask: TypeAlias = 'int | Literal["all", "none"]'


class ScheduleBase:
    """A program, the trace of applied primitives, the random number generator, and the values of random integers."""

    def __init__(self, mod: IRModule, seed: int | None, debug_mask: DebugMask, error_render_level: Level) -> None:
        self.state = ScheduleState(mod)
        self.random = random.Random()
        self.seed(seed)
        self.debug_mask: DebugMask = debug_mask
        self.error_render_level: Level = error_render_level
        self._trace = Trace()
        self._integers: dict[Var, int] = {}
        self._loose_integers: frozenset[Var] = frozenset()
        """Integers that are not an output of an instruction: the trace records their values."""
        self._removed: frozenset[BlockRV | LoopRV] = frozenset()
        self._depth = 0
        self._family = object()
        """Identity shared by a schedule and its copies; the blocks and loops they return are marked with it."""
        self.working_on: str | None = None
        """Name of the function in which blocks are searched; None: the only function, or main."""
        self.decision: Any = None
        """Decision of the sampling primitive being applied, for its instruction."""
        self.recorded: dict[str, Any] = {}
        """Arguments to record in place of the given ones, set by the primitive being applied: for ``lambda *indices:
        …``, an IndexMap with the buffer's number of dimensions.
        """

    def seed(self, seed: int | None) -> None:
        """Reseed the random number generator; None or -1 chooses a random seed."""
        self.random.seed(random.SystemRandom().randrange(1, 1 << 31) if seed in (None, -1) else seed)

    def fork_seed(self) -> int:
        """Return a seed for another schedule, whose random numbers are independent of this schedule's."""
        return self.random.randrange(1, 1 << 31)

    @property
    def mod(self) -> IRModule:
        """The current program."""
        return self.state.mod

    # ------------------------------------------------------------------ random integers

    def new_integer(self, value: int) -> Var:
        """Create a random variable for a sampled integer."""
        var = Var("v", "int32")
        self._integers = {**self._integers, var: value}
        if not self._depth:
            self._loose_integers |= {var}
        return var

    def remove_rv(self, rand_var: Any) -> None:
        """Invalidate a random variable: later uses raise ScheduleError."""
        if isinstance(rand_var, (BlockRV, LoopRV)):
            self._removed |= {rand_var}
        elif isinstance(rand_var, Var) and rand_var in self._integers:
            self._integers = {var: value for var, value in self._integers.items() if var is not rand_var}
        else:
            raise ScheduleError(ARGUMENT, f"{rand_var!r} is no random variable of this schedule")

    def integer(self, expr: Any) -> int:
        """Evaluate an integer or an expression of random integers. Raises ScheduleError for other values."""
        if isinstance(expr, int):
            return expr
        if not isinstance(expr, PrimExpr):
            raise ScheduleError(ARGUMENT, f"an integer or an expression of random integers is needed, found {expr!r}")
        values = {var: const(self._integers[var], var.dtype) for var in free_vars(expr) if var in self._integers}
        result = simplify(substitute(expr, values))
        if not isinstance(result, IntImm):
            raise ScheduleError(EXPIRED, f"the integer {expr} is not one of this schedule's")
        return result.value

    def get_size(self, name: str, func_name: str | None = None) -> Var:
        """Return the variable of a size or scalar parameter by its name, for factors such as ``n // 4``.

        Without `func_name`, searches the function set by `work_on`, or all functions of the module. Raises
        ScheduleError unless exactly one variable has this name.
        """
        function = func_name if func_name is not None else self.working_on
        matched = {
            var: None
            for global_var, func in self.mod.functions.items()
            if isinstance(func, PrimFunc) and function in (None, global_var.name_hint)
            for var in sizes_of(func)
            if var.name == name
        }
        if len(matched) != 1:
            count = "no size" if not matched else f"{len(matched)} sizes"
            raise ScheduleError(EXPIRED, f"there is {count} of the name {name!r} in {function or 'the module'}")
        return next(iter(matched))

    def evaluated(self, value: Any) -> Any:
        """Replace random integers in an argument by their values."""
        return map_leaves(value, self._evaluated_leaf)

    def _evaluated_leaf(self, value: Any) -> Any:
        if isinstance(value, PrimExpr):
            return self._with_values(value, self._integers)
        if isinstance(value, (BlockRV, LoopRV)):
            if value in self._removed:
                raise ScheduleError(EXPIRED, f"{value!r} was removed", hint="ask for it again")
            if value.family not in (None, self._family):
                raise ScheduleError(
                    EXPIRED,
                    f"{value!r} is of another schedule",
                    hint="ask this schedule for it, or apply the other one's trace to this one",
                )
        return value

    def _owned(self, value: Any) -> Any:
        """Mark a block or loop returned by a primitive as belonging to this schedule and its copies."""
        if not isinstance(value, (BlockRV, LoopRV)) or value.family is self._family:
            return value
        return replace(value, family=self._family)

    def _with_values(self, expr: PrimExpr, variables: Container[Var]) -> PrimExpr | int:
        """Substitute the values of random integers in `variables`; returns an int if the result is constant."""
        values = {
            var: const(self._integers[var], var.dtype)
            for var in free_vars(expr)
            if var in variables and var in self._integers
        }
        if not values:
            return expr
        result = simplify(substitute(expr, values))
        return result.value if isinstance(result, IntImm) else result

    def _for_trace(self, value: Any) -> Any:
        """Convert an argument for the trace: functions to index maps, integers that are no instruction's output to
        numbers.
        """
        if isinstance(value, PrimExpr):
            return self._with_values(value, self._loose_integers)
        if callable(value) and not isinstance(value, (BlockRV, LoopRV, Node)):
            try:
                return IndexMap.from_func(value)
            except (TypeError, ValueError, DiagnosticError):
                return value  # it can be replayed, but not be saved
        return value

    # ------------------------------------------------------------------ applying primitives

    def replay(self, kind: InstructionKind, arguments: dict[str, Any]) -> Any:
        """Apply a primitive to arguments given by name."""
        args: list[Any] = []
        rest = dict(arguments)
        for name in kind.by_position:
            value = rest.pop(name)
            variadic = kind.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
            args += value if variadic else [value]
        return self.apply(kind, tuple(args), rest)

    def apply(self, kind: InstructionKind, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Apply a primitive; if it raises, restore the previous state."""
        bound = self._bound(kind, args, options)
        if self._depth:
            return self._run(kind, bound)
        for name, value in list(bound.arguments.items())[1:]:
            bound.arguments[name] = map_leaves(value, plain)
        given = dict(list(bound.arguments.items())[1:])
        before, outer, working_on = self.state.copy(), self.mod, self.working_on
        self._depth, self.decision, self.recorded = 1, None, {}
        try:
            self._require_types(kind, bound)
            result = map_leaves(self._run(kind, bound), self._owned)
            self._verify(outer)
        except ScheduleError as error:
            self.state.restore(before)
            self.working_on = working_on
            func = self._function_in_question(given, outer)
            raise error.located(kind.method, func, self.error_render_level) from None
        except BaseException:
            self.state.restore(before)
            self.working_on = working_on
            raise
        finally:
            self._depth = 0
        self._record(kind, given, result)
        return result

    def _bound(self, kind: InstructionKind, args: tuple[Any, ...], options: dict[str, Any]) -> inspect.BoundArguments:
        """Bind the arguments to the parameters. Raises TypeError if they do not fit the signature."""
        try:
            bound = kind.signature.bind(self, *args, **options)
        except TypeError as error:
            raise TypeError(f"{kind.method}: {error}; the arguments are {kind.usage}") from None
        bound.apply_defaults()
        return bound

    def _require_types(self, kind: InstructionKind, bound: inspect.BoundArguments) -> None:
        """Substitute random integers, and raise ScheduleError for arguments of a wrong type."""
        for name, expected in kind.argument_types.items():
            value = self.evaluated(bound.arguments[name])
            if kind.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                value = tuple(_require_one(expected, name, item) for item in value)
            else:
                value = expected.require(name, value)
            bound.arguments[name] = value

    def _run(self, kind: InstructionKind, bound: inspect.BoundArguments) -> Any:
        for name, value in list(bound.arguments.items())[1:]:
            bound.arguments[name] = self.evaluated(value)
        return kind.function(*bound.args, **bound.kwargs)

    def _record(self, kind: InstructionKind, given: dict[str, Any], result: Any) -> None:
        given.pop("decision", None)
        arguments = {**given, **self.recorded}
        arguments = {name: map_leaves(value, self._for_trace) for name, value in arguments.items()}
        several = isinstance(result, (list, tuple))
        self._trace.append(Instruction(kind, arguments, _outputs(result), several), self.decision)

    def _verify(self, before: IRModule) -> None:
        """Check that changed functions are well-formed, if a debug mask is set."""
        if self.debug_mask in (0, "none"):
            return
        for global_var, func in self.mod.functions.items():
            if isinstance(func, PrimFunc) and before.functions.get(global_var) is not func:
                verify_well_formed(func)

    def _function_in_question(self, arguments: Mapping[str, Any], mod: IRModule) -> PrimFunc | None:
        for value in arguments.values():
            for item in cast("list[Any]", value) if isinstance(value, (list, tuple)) else (value,):
                if isinstance(item, (BlockRV, LoopRV)) and item.function in mod:
                    func = mod[item.function]
                    return func if isinstance(func, PrimFunc) else None
        return None


def primitive(function: F) -> F:
    """Decorator that makes a function a primitive: a method of `Schedule`, recorded in the trace."""
    return _method(function, is_pure=False)


def query(function: F) -> F:
    """Decorator for primitives that change nothing: simplified traces keep them only if their results are used."""
    return _method(function, is_pure=True)


def _method(function: F, is_pure: bool) -> F:
    signature = inspect.signature(function)
    kind = PRIMITIVES[function.__name__] = InstructionKind(function, signature, is_pure)

    @functools.wraps(function)
    def method(self: ScheduleBase, *args: Any, **options: Any) -> Any:
        return self.apply(kind, args, options)

    return cast(F, method)


def sizes_of(func: PrimFunc) -> list[Var]:
    """Return the variables of the sizes and scalar parameters of a function."""
    bound = [var for buffer in func.buffer_map.values() for var in shape_vars_bound_by(buffer)]
    return list(dict.fromkeys([*(param for param in func.params if param not in func.buffer_map), *bound]))


def _require_one(expected: ArgumentType, name: str, value: Any) -> Any:
    """Check a single argument of ``*loops``."""
    if isinstance(value, (list, tuple)):
        message = f"{name} must be given one by one, not as a list"
        raise ScheduleError(ARGUMENT, message, hint=f"write a star before the list: *{name}")
    return expected.require(name, value)


def _outputs(result: Any) -> tuple[Any, ...]:
    if result is None:
        return ()
    return tuple(cast("list[Any]", result)) if isinstance(result, (list, tuple)) else (result,)
