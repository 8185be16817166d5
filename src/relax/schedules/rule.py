"""The form of a schedule rule, and the choice among several.

    class MyRule(ScheduleRule):
        def apply(self, func, target, tunable):
            ...
            return scheduled        # None if the rule is not for this function

A function that is scheduled has the attribute ``tir.is_scheduled``; no rule is asked about it again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import numpy as np

from ..ir import BaseFunc, Diagnostic, DiagnosticError, GlobalVar, IRModule
from ..target import Target
from ..tir import PrimFunc, Schedule

IS_SCHEDULED: Final = "tir.is_scheduled"
"""The attribute of functions whose loops are as they shall be."""


Packing: TypeAlias = Callable[["np.ndarray[Any, Any]"], "np.ndarray[Any, Any]"]
"""A constant's elements in another order. Equal packings are equal, so that equal constants need be packed once."""


@dataclass(frozen=True)
class PackedFunction:
    """A function with its loops arranged, of which some parameters have their elements in another order."""

    func: PrimFunc
    packings: Mapping[int, Packing]
    """By the position of the parameter."""


class ScheduleRule:
    """The base of schedule rules. `apply` returns a PrimFunc, a Schedule, a list of schedules, or None."""

    complements: bool = False
    """True for a rule that is asked also about a function that another one has arranged: for the nests it left."""

    @abstractmethod
    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> Any:
        """The function with its loops arranged; None if the rule is not for it.

        `target` is resolved. `tunable` is True where several schedules to choose from may be returned.
        """

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | None:
        """The function for constants in another order; None if the rule has none, as most.

        `constants` are the positions of parameters whose arguments are known while compiling. See `packing`.
        """
        del func, target, constants
        return None

    def __repr__(self) -> str:
        return type(self).__name__


def schedule(func: PrimFunc, target: Target, rules: Iterable[ScheduleRule]) -> PrimFunc:
    """The function as the first rule that is for it arranges it, and then those that complement others.

    Itself if there is none, or it is scheduled.
    """
    if func.attrs.get(IS_SCHEDULED):
        return func
    result = func
    for rule in rules:
        if result is func or rule.complements:
            arranged = _as_function(rule, rule.apply(result, target, False))
            result = result if arranged is None else arranged
    return func if result is func else result.with_attr(IS_SCHEDULED, True)


def _as_function(rule: ScheduleRule, result: Any) -> PrimFunc | None:
    if isinstance(result, (list, tuple)):
        several = cast("list[Any]", result)
        result = several[0] if several else None
    if isinstance(result, Schedule):
        functions = [f for f in result.mod.functions.values() if isinstance(f, PrimFunc)]
        result = functions[0]
    if result is None or isinstance(result, PrimFunc):
        return result
    found = type(result).__name__
    raise DiagnosticError(
        Diagnostic("E4008", f"{rule!r} must return a PrimFunc, a Schedule or None, found {found}")
    )


Scheduled: TypeAlias = Callable[[str, PrimFunc], object]
"""Is told each function by its name as soon as its loops are as they shall be."""


def schedule_module(
    mod: IRModule, target: Target, rules: Iterable[ScheduleRule], scheduled: Scheduled | None = None
) -> IRModule:
    """A module in which every PrimFunc is arranged by the first rule that is for it."""
    chosen = tuple(rules)
    functions: dict[GlobalVar, BaseFunc] = {}
    for global_var, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            func = schedule(func, target, chosen)
            if scheduled is not None:
                scheduled(global_var.name_hint, func)
        functions[global_var] = func
    return mod.with_functions(functions)


__all__ = [
    "IS_SCHEDULED",
    "PackedFunction",
    "Packing",
    "ScheduleRule",
    "Scheduled",
    "schedule",
    "schedule_module",
]
