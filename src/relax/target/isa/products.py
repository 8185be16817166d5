"""Products of narrow numbers as instructions compute them: one definition for evaluation, schedules and code.

A *dot product* adds to each 32-bit lane the products of the narrow numbers in the same lane of two other vectors.
Four bytes or two numbers of 16 bits in a lane are a *word*, with the first one in the lowest bits:

    dot_u8s8      total[i] + Σ left[4 i + k] · right[4 i + k], k < 4        left unsigned, right signed bytes

A *product of tiles* adds the product of two matrices of words to a matrix of 32-bit sums.

The language has an intrinsic for each kind in `DOTS` (``T.dot_u8s8``) and in `TILES` (``T.tile_dot_u8s8``), on every
target; `relax.target.isa.description.DotInstruction` says which instruction of an architecture computes it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final, cast

import numpy as np

from ...ir import DataType
from ...runtime.records import dataclass


@dataclass(frozen=True)
class Dot:
    """A kind of dot product: dtypes of its packed operands and of the sums."""

    left: str
    right: str
    sums: str = "int32"
    limit: int = 0
    """Limit below which the numbers on the left are; 0: all numbers of the dtype."""

    @property
    def group(self) -> int:
        """Number of elements in a packed group."""
        return 32 // DataType(self.left).bits

    @property
    def wide(self) -> Any:
        """NumPy type in which sums are exact."""
        return np.float64 if self.sums == "float32" else np.int64

    def value(self, total: Any, left: Any, right: Any) -> Any:
        """Return `total` plus the products of two packed groups; exact, so that it is rounded once."""
        numbers: list[Any] = [
            cast("Any", np.reshape(word, (1,))).view(DataType(dtype).numpy()).astype(self.wide)
            for word, dtype in ((left, self.left), (right, self.right))
        ]
        if self.limit and (numbers[0] >= self.limit).any():
            raise ValueError(f"dot_{kind_of(self)}: a number on the left is not below {self.limit}")
        with np.errstate(all="ignore"):
            return self.wide(total) + (numbers[0] * numbers[1]).sum()


U8S8: Final = Dot("uint8", "int8")
U7S8: Final = Dot("uint8", "int8", limit=128)
"""Bytes of 7 bits by signed bytes: what more machines have, as sums of two products fit int16."""
S8S8: Final = Dot("int8", "int8")
U8U8: Final = Dot("uint8", "uint8")
S8U8: Final = Dot("int8", "uint8")
S16S16: Final = Dot("int16", "int16")
BF16: Final = Dot("bfloat16", "bfloat16", "float32")

DOTS: Final = MappingProxyType({"u8s8": U8S8, "u7s8": U7S8, "s8s8": S8S8, "s16s16": S16S16, "bf16": BF16})
"""Kinds of dot products: ``T.dot_u8s8`` multiplies unsigned by signed bytes."""

TILES: Final = MappingProxyType({"bf16": BF16, "u8s8": U8S8, "s8s8": S8S8, "u8u8": U8U8, "s8u8": S8U8})
"""Kinds of tile products: ``T.tile_dot_bf16``."""
TILE_ROWS: Final = 32
"""Maximum number of rows and columns of a tile product."""
TILE_WORDS: Final = 16
"""Packed groups per row in one step of a tile product."""

_KINDS: Final = {dot: kind for kind, dot in (*TILES.items(), *DOTS.items())}


def kind_of(dot: Dot) -> str:
    """Return the name of a kind of dot product, ``"u8s8"``; empty if there is none."""
    return _KINDS.get(dot, "")


def tile_dot_value(
    kind: str, sums: Any, distance: int, left: Any, left_distance: int, right: Any, right_distance: int, rows: int,
    columns: int, steps: int,
) -> None:  # fmt: skip
    """Add a tile product to the matrix in `sums`; operands are flat arrays.

    `distance`, `left_distance` and `right_distance` are row strides in packed groups. `left` has `rows` rows of 16 ·
    `steps` groups, `right` has 16 · `steps` rows of `columns` groups.
    """
    dot, words = TILES[kind], TILE_WORDS * steps

    def numbers(memory: Any, start: int, count: int, dtype: str) -> Any:
        held = memory.view(np.uint8)[4 * start : 4 * (start + count)]
        return held.view(DataType(dtype).numpy()).astype(dot.wide)

    a = [numbers(left, r * left_distance, words, dot.left) for r in range(rows)]
    b = [numbers(right, w * right_distance, columns, dot.right) for w in range(words)]
    matrix: Any = (
        cast("Any", np).reshape(np.array(b), (words, columns, dot.group)).transpose(0, 2, 1).reshape(-1, columns)
    )
    product: Any = cast("Any", np).reshape(np.array(a), (rows, -1)) @ matrix
    for r in range(rows):
        line = sums[r * distance : r * distance + columns]
        line[:] = (line.astype(dot.wide) + product[r]).astype(line.dtype)
