"""Random variables: handles of blocks, loops and sampled integers.

A BlockRV identifies a block by its name in a function, a LoopRV a loop by its variable. Rewrites preserve both, so a
random variable is valid as long as its block or loop exists. An ExprRV is an integer chosen by a sampling primitive: a
variable whose value the schedule knows.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ...prim import PrimExpr, Var
from ...runtime.records import dataclass

ExprRV: TypeAlias = PrimExpr
"""A sampled integer, or an expression of sampled integers."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockRV:
    """A block of a function, identified by its name, which is unique there."""

    function: str
    name: str
    family: object | None = None
    """Identity of the schedule (and its copies) that returned it; None within a primitive."""

    def __repr__(self) -> str:
        return f"BlockRV({self.name} in {self.function})"


@dataclass(frozen=True, slots=True, eq=False)
class LoopRV:
    """A loop of a function, identified by its variable."""

    function: str
    var: Var
    family: object | None = None
    """Identity of the schedule (and its copies) that returned it; None within a primitive."""

    def __repr__(self) -> str:
        return f"LoopRV({self.var.name} in {self.function})"

    @staticmethod
    def root_mark() -> LoopRV:
        """Return the marker for "do not move": `compute_at` leaves the block at its place."""
        return LoopRV("", _ROOT)

    @staticmethod
    def inline_mark() -> LoopRV:
        """Return the marker for "inline": `compute_at` inlines the block."""
        return LoopRV("", _INLINE)

    @property
    def is_root_mark(self) -> bool:
        """True for the marker `root_mark`."""
        return self.var is _ROOT

    @property
    def is_inline_mark(self) -> bool:
        """True for the marker `inline_mark`."""
        return self.var is _INLINE


_ROOT: Final = Var("root", "handle")
_INLINE: Final = Var("inline", "handle")
