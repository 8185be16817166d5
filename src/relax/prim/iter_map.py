"""Affine iteration maps (placeholder, replaced by the branch itermap)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from .expr import PrimExpr, Var
from .functor import free_vars


class IterMapLevel(enum.IntEnum):
    Bijective = 0
    Surjective = 1
    Injective = 2
    NoCheck = 3


@dataclass
class IterMapResult:
    indices: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    padding_predicate: Any = None


def detect_iter_map(
    indices: list[PrimExpr],
    input_iters: dict[Var, Any],
    predicate: Any = True,
    check_level: IterMapLevel = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> IterMapResult:
    seen: set[Var] = set()
    for index in indices:
        used = set(free_vars(index)) & set(input_iters)
        if used & seen:
            return IterMapResult([], [f"{index} uses a loop twice"])
        seen |= used
    return IterMapResult(list(indices), [], True)
