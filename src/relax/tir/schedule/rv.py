"""Random variables: names by which a schedule's user holds blocks, loops and integers.

A BlockRV stands for the block of its name in a function, a LoopRV for the loop of its variable. Rewrites of a program
keep both, so that a random variable stays good as long as its block or loop exists. An ExprRV is an integer that a
sampling primitive chose: a variable, of which the schedule knows the value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ...prim import PrimExpr, Var

ExprRV: TypeAlias = PrimExpr
"""An integer chosen by a sampling primitive, or an expression of such integers."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockRV:
    """A block of a function, by its name, which is unique there."""

    function: str
    name: str

    def __repr__(self) -> str:
        return f"BlockRV({self.name} in {self.function})"


@dataclass(frozen=True, slots=True, eq=False)
class LoopRV:
    """A loop of a function, by its variable."""

    function: str
    var: Var

    def __repr__(self) -> str:
        return f"LoopRV({self.var.name} in {self.function})"


__all__ = ["BlockRV", "ExprRV", "LoopRV"]
