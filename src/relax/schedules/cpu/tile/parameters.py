"""Parameters of rules that choose nothing but the shape of their register tiles, and their space."""

from __future__ import annotations

from typing import Final

from ....runtime.records import dataclass
from ....target import Target
from ...space import Space
from .division import shapes_of_tiles

TALLEST: Final = 8
"""Most rows of a tile: remainders of more would need more than two low tiles."""


@dataclass(frozen=True)
class TileParameters:
    """Shape of a register tile."""

    tile: tuple[int, int] | None = None
    """Rows and vectors; None: what the rule computes from the target's registers and the sizes."""


def space_of_tiles(target: Target) -> Space[TileParameters]:
    """Return the shapes of the tiles that fit a target's registers."""
    return Space(TileParameters, {"tile": (None, *shapes_of_tiles(target, TALLEST))})
