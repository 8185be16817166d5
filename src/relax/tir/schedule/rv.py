"""Random variables: names by which a schedule's user holds blocks, loops and integers.

A BlockRV stands for the block of its name in a function, a LoopRV for the loop of its variable. Rewrites of a program
keep both, so that a random variable stays good as long as its block or loop exists. An ExprRV is an integer that a
sampling primitive chose: a variable, of which the schedule knows the value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from ...prim import PrimExpr, Var

ExprRV: TypeAlias = PrimExpr
"""An integer chosen by a sampling primitive, or an expression of such integers."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockRV:
    """A block of a function, by its name, which is unique there."""

    function: str
    name: str
    family: object | None = None
    """The mark of the schedule, and its copies, that gave it to its user; None for one inside of a primitive."""

    def __repr__(self) -> str:
        return f"BlockRV({self.name} in {self.function})"


@dataclass(frozen=True, slots=True, eq=False)
class LoopRV:
    """A loop of a function, by its variable."""

    function: str
    var: Var
    family: object | None = None
    """The mark of the schedule, and its copies, that gave it to its user; None for one inside of a primitive."""

    def __repr__(self) -> str:
        return f"LoopRV({self.var.name} in {self.function})"

    @staticmethod
    def root_mark() -> LoopRV:
        """No loop: the place at which a block is, which `compute_at` leaves alone."""
        return LoopRV("", _ROOT)

    @staticmethod
    def inline_mark() -> LoopRV:
        """No loop: for `compute_at`, the place of a block that is to be inlined."""
        return LoopRV("", _INLINE)

    @property
    def is_root_mark(self) -> bool:
        """True for a `root_mark`."""
        return self.var is _ROOT

    @property
    def is_inline_mark(self) -> bool:
        """True for an `inline_mark`."""
        return self.var is _INLINE


_ROOT: Final = Var("root", "handle")
_INLINE: Final = Var("inline", "handle")

__all__ = ["BlockRV", "ExprRV", "LoopRV"]
