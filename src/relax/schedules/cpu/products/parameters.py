"""Parameters of the loops of a product, and their space."""

from __future__ import annotations

from ....runtime.records import dataclass
from ....target import Target
from ...space import Space
from ..tile.division import shapes_of_tiles
from ..tile.parameters import TALLEST


@dataclass(frozen=True)
class ProductParameters:
    """Numbers that a product's loops may choose; None stands for what is computed from the target's caches."""

    tile: tuple[int, int] | None = None
    """Rows and vectors of a register tile."""
    depth: int | None = None
    """Most rows of a depth block."""
    chunk: int | None = None
    """Row blocks whose sums are in memory at a time."""
    group: int | None = None
    """Fewest rows of a task."""
    strassen: bool = True
    """True if Strassen's algorithm is used where it pays; it needs the default tile."""


def space_of_products(target: Target, has_strassen: bool = False) -> Space[ProductParameters]:
    """Return the parameters of products for a target; `has_strassen` says that the rule knows Strassen's algorithm."""
    tiles = shapes_of_tiles(target, TALLEST)

    def is_valid(point: ProductParameters) -> bool:
        return point.tile is None or not (has_strassen and point.strassen)

    return Space(
        ProductParameters,
        {
            "tile": (None, *tiles),
            "depth": (None, 32, 64, 128, 256, 512, 1024),
            "chunk": (None, 10, 40, 160),
            "group": (None, 12, 24, 48, 96, 192),
            "strassen": (True, False) if has_strassen else (True,),
        },
        is_valid,
    )
