"""The part of a schedule that primitives work on, and the decorator that makes a function one.

    @primitive
    def parallel(sch: ScheduleBase, loop: LoopRV) -> None:
        node = sch.state.loop(loop)
        ...
        sch.state.replace(node, node.replace(kind=ForKind.PARALLEL), loop.function)

Random integers among the arguments arrive as their values. A primitive that raises leaves the program as it was. What
one primitive does by calling others is one instruction of the trace.
"""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from ...ir import IRModule
from ...prim import IntImm, PrimExpr, Var, const, free_vars, simplify, substitute
from ..stmt import PrimFunc
from ..well_formed import verify_well_formed
from .error import ARGUMENT, EXPIRED, Level, ScheduleError
from .rv import BlockRV, LoopRV
from .state import ScheduleState
from .trace import Instruction, Trace

F = TypeVar("F", bound="Callable[..., Any]")
DebugMask: TypeAlias = 'int | Literal["all", "none"]'


@dataclass(frozen=True)
class Primitive:
    """A primitive: its function and the function's signature."""

    function: Callable[..., Any]
    signature: inspect.Signature

    @property
    def name(self) -> str:
        return self.function.__name__


PRIMITIVES: Final[dict[str, Primitive]] = {}
"""All primitives by their names, which are those of instructions in traces."""


class ScheduleBase:
    """A program, the trace of what was done to it, random numbers, and the values of random integers."""

    def __init__(
        self, mod: IRModule, seed: int | None, debug_mask: DebugMask, error_render_level: Level
    ) -> None:
        self.state = ScheduleState(mod)
        self.seed = seed if seed not in (None, -1) else random.SystemRandom().randrange(1, 1 << 31)
        self.random = random.Random(self.seed)
        self.debug_mask: DebugMask = debug_mask
        self.error_render_level: Level = error_render_level
        self._trace = Trace()
        self._integers: dict[Var, int] = {}
        self._depth = 0
        self.working_on: str | None = None
        """The function in which blocks are looked for; None: the only one, or main."""
        self.decision: Any = None
        """The choice of the sampling primitive that is being applied, for its instruction."""
        self.recorded: dict[str, Any] = {}
        """Arguments as the trace shall have them, set by the primitive that is being applied: an IndexMap, say, of
        the dimensions that a buffer turned out to have, for ``lambda *indices: …``."""

    @property
    def mod(self) -> IRModule:
        """The program as it is now."""
        return self.state.mod

    # ------------------------------------------------------------------ random integers

    def new_integer(self, value: int) -> Var:
        """A random variable for an integer that was chosen."""
        var = Var("v", "int32")
        self._integers = {**self._integers, var: value}
        return var

    def integer(self, expr: Any) -> int:
        """The value of an integer or of an expression of random integers. Raises ScheduleError for another."""
        if isinstance(expr, int):
            return expr
        values = {
            var: const(self._integers[var], var.dtype) for var in free_vars(expr) if var in self._integers
        }
        result = simplify(substitute(expr, values))
        if not isinstance(result, IntImm):
            raise ScheduleError(EXPIRED, f"the integer {expr} is not one of this schedule's")
        return result.value

    def evaluated(self, value: Any) -> Any:
        """An argument with the values of random integers in their places."""
        if isinstance(value, PrimExpr):
            known = any(var in self._integers for var in free_vars(value))
            return self.integer(value) if known else value
        if isinstance(value, (list, tuple)):
            items = cast("list[Any]", value)
            result = [self.evaluated(item) for item in items]
            return tuple(result) if isinstance(value, tuple) else result
        return value

    # ------------------------------------------------------------------ applying primitives

    def apply(self, kind: Primitive, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Apply a primitive, or leave everything as it was and raise."""
        bound = kind.signature.bind(self, *args, **options)
        bound.apply_defaults()
        given = dict(list(bound.arguments.items())[1:])
        values = {name: self.evaluated(value) for name, value in given.items()}
        if self._depth:
            return kind.function(self, **values)
        before, outer = self.state.copy(), self.mod
        self._depth, self.decision = 1, None
        try:
            result = kind.function(self, **values)
            self._verify(outer)
        except ScheduleError as error:
            self.state.restore(before)
            func = self._function_in_question(given, outer)
            raise error.located(kind.name, func, self.error_render_level) from None
        except BaseException:
            self.state.restore(before)
            raise
        finally:
            self._depth = 0
        self._trace.append(Instruction(kind.name, given, _outputs(result), self.decision))
        return result

    def _verify(self, before: IRModule) -> None:
        """With a debug mask, check that every function that was changed is well-formed."""
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
    """Make a function a primitive: a method of `Schedule` whose applications are recorded in the trace."""
    kind = PRIMITIVES[function.__name__] = Primitive(function, inspect.signature(function))

    @functools.wraps(function)
    def method(self: ScheduleBase, *args: Any, **options: Any) -> Any:
        return self.apply(kind, args, options)

    return cast(F, method)


def _outputs(result: Any) -> tuple[Any, ...]:
    if result is None:
        return ()
    return tuple(cast("list[Any]", result)) if isinstance(result, (list, tuple)) else (result,)


def require_loop(value: Any, name: str) -> LoopRV:
    """An argument that must be a loop."""
    if not isinstance(value, LoopRV):
        raise ScheduleError(ARGUMENT, f"{name} must be a loop, found {value!r}")
    return value


def require_block(value: Any, name: str) -> BlockRV:
    """An argument that must be a block."""
    if not isinstance(value, BlockRV):
        raise ScheduleError(ARGUMENT, f"{name} must be a block, found {value!r}")
    return value


__all__ = ["PRIMITIVES", "Primitive", "ScheduleBase", "primitive", "require_block", "require_loop"]
