"""Base class of schedule rules; `apply.schedule` chooses among several.

    class MyRule(ScheduleRule):
        def apply(self, func, target, tunable):
            ...
            return scheduled        # a Refusal, or None, if the rule is not for this function

A scheduled function has the attribute ``tir.is_scheduled``; no further rule is tried on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

import numpy as np

from .. import tir
from ..ir import Diagnostic, DiagnosticError
from ..runtime.records import dataclass
from ..target import Target
from ..tir import PrimFunc
from .space import Space, single_point

IS_SCHEDULED: Final = "tir.is_scheduled"
"""Attribute of functions whose loops are in their final form."""


Packing: TypeAlias = Callable[["np.ndarray[Any, Any]"], "np.ndarray[Any, Any]"]
"""Reorders a constant's elements. Packings are hashable: equal ones let equal constants be packed once."""


RuleT = TypeVar("RuleT", bound="ScheduleRule")


@dataclass(frozen=True)
class PackedFunction:
    """Scheduled function with the packings of its constant parameters."""

    func: PrimFunc
    packings: Mapping[int, Packing]
    """Packings by parameter position."""


@dataclass(frozen=True)
class Refusal:
    """Reason why a rule does not take a function: a sentence without a full stop. It is false."""

    reason: str
    unrelated: bool = False
    """True if the function has no loop nest of the rule's kind: `tir.explain` hides such refusals."""

    def __bool__(self) -> Literal[False]:
        return False

    def __str__(self) -> str:
        return self.reason


ALIASED: Final = Refusal("parameters may share memory: the function lacks tir.noalias")


def refused(answers: Iterable[object], otherwise: str) -> Refusal:
    """Return the first refusal among the answers about a function's nests, those of the rule's kind before others.

    Without any, the function has no nest of the rule's kind: `otherwise` says what it lacks.
    """
    refusals = (answer for answer in answers if isinstance(answer, Refusal))
    return min(refusals, key=lambda refusal: refusal.unrelated, default=Refusal(otherwise, unrelated=True))


class ScheduleRule:
    """Base class of schedule rules. `apply` returns a PrimFunc, a Schedule, a list of schedules, or None."""

    complements: bool = False
    """True if the rule also applies to functions scheduled by another rule, for the nests it left unchanged."""

    parameters: Any = None
    """Point of the rule's space that it uses; the class has the default."""

    def space(self, target: Target) -> Space[Any]:
        """Return the parameters that the rule may choose for a resolved target; a single point by default."""
        del target
        return single_point()

    def at(self: RuleT, parameters: Any) -> RuleT:
        """Return this rule with other parameters of its space."""
        rule = copy(self)
        rule.parameters = parameters
        return rule

    def accepts(self, func: PrimFunc, target: Target | None, constants: Sequence[int] = ()) -> Any:
        """Return what the rule recognises in a function that it takes, else a `Refusal`.

        `constants` are the positions of parameters with constant arguments; without a target, the answer is that for
        some target. Passes of `relax.optimize` ask before they arrange calls for a rule. Default: apply the rule.
        """
        if target is None:
            return Refusal(f"{self!r} needs a target")
        packed = self.pack(func, target, constants)
        if isinstance(packed, PackedFunction):
            return packed.func
        arranged = applied(self, func, target)
        return arranged or refused((arranged, packed), "the rule does not match the function")

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> Any:
        """Return the scheduled function, or a `Refusal` if the rule does not match; None gives no reason.

        `target` is resolved. `tunable` is True where several schedules to choose from may be returned. Default: None,
        for rules that need constants (`pack`).
        """
        del func, target, tunable

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal | None:
        """Return the function for packed constants, or a `Refusal`; None if the rule packs none (the default).

        `constants` are the positions of parameters with constant arguments. See `packing`.
        """
        del func, target, constants
        return None

    def __repr__(self) -> str:
        return type(self).__name__


def applied(rule: ScheduleRule, func: PrimFunc, target: Target) -> PrimFunc | Refusal | None:
    """Return the function that a rule returns (the first of several schedules), or its refusal."""
    result = rule.apply(func, target, False)
    if isinstance(result, (list, tuple)):
        several = cast("list[Any]", result)
        result = several[0] if several else None
    if result is None or isinstance(result, (PrimFunc, Refusal)):
        return result
    if isinstance(result, tir.Schedule):
        return next(f for f in result.mod.functions.values() if isinstance(f, PrimFunc))
    message = f"{rule!r} must return a PrimFunc, a Schedule, a Refusal or None, found {type(result).__name__}"
    raise DiagnosticError(Diagnostic("E4008", message))
