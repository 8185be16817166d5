"""The division of a product's result among register tiles and tasks.

Columns are dealt out in *panels*, rows in *blocks*; a panel and a block meet in a tile, whose sums are in registers.

    columns   257 = 17 vectors = 4 + 4 + 3 + 3 + 3     panels of at most 4 vectors, as equal as they can be
    rows      512 = 85 · 6 + 2                         blocks of at most 6 rows, and what is left
    rows       13 = 5 + 4 + 4                          few rows as equal as they can be
    rows        m = m // 6 · 6 + (3, 4 or 5)           of an unknown number
    rows        m = (m // 6 - 1) · 6 + 4 + (3 or 4)     where it leaves 1 or 2

A *task* is a panel and a group of blocks: what a thread takes at a time. There is one group unless panels are few, or
the rows of A do not fit the second-level cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...prim import IntImm, PrimExpr, const, simplify
from ...prim.intrin import ceildiv, floordiv
from ...prim.intrin import max as maximum
from ...prim.intrin import min as minimum
from ...target import Target
from ...tir import Stmt
from ..build import named
from .shares import parts_of_tasks

EVEN: Final = 8
"""Blocks of equal depth are a multiple of so many rows."""
FEW_ROWS: Final = 48
"""With fewer rows than this, blocks are as equal as they can be."""
MASKED_BITS: Final = 512
"""The width of vectors whose instructions all take masks."""
LOW: Final = 4
"""The most rows of a low block."""
STREAMED_ROWS: Final = 12
"""With fewer rows than this, a product of packed panels takes as long as memory takes to deliver them."""
TASKS_PER_CORE: Final = 4
"""With so many tasks, all cores are busy for nearly as long."""


@dataclass(frozen=True)
class Tile:
    """The shape of a register tile: rows, vectors to a row, and elements to a vector."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def tile_for(target: Target, bits: int) -> Tile:
    """The tile for which a machine has registers: rows × vectors accumulators, a row of vectors, one broadcast."""
    machine = target.machine
    lanes = max(machine.vector_bits // bits, 1)
    return Tile(6, 4, lanes) if machine.vector_registers >= 32 else Tile(6, 2, lanes)


def has_masks(target: Target) -> bool:
    """True for machines where loading some lanes of a vector costs what loading all of them does."""
    return target.vector_bits >= MASKED_BITS


@dataclass(frozen=True)
class Segment:
    """Pieces of one size that follow each other: blocks of so many rows, or panels of so many vectors."""

    start: PrimExpr
    """The row or vector with which the first piece begins."""
    count: PrimExpr
    size: int

    @property
    def number(self) -> int:
        """The number of pieces, where it is known."""
        assert isinstance(self.count, IntImm)
        return self.count.value


def panels(columns: int, tile: Tile) -> list[Segment]:
    """The panels of a known number of columns, the last of which may be filled up."""
    vectors = -(-columns // tile.lanes)
    return even_pieces(vectors, -(-vectors // tile.vectors))


def with_panels(columns: PrimExpr, tile: Tile, body: Callable[[list[Segment], PrimExpr], Stmt]) -> Stmt:
    """`body` of the panels of a number of columns, the last of which may be filled up, and of how many they are.

    Sizes that are not known have names around the body: proofs about them need not look at what they are.
    """
    most, vectors = tile.vectors, simplify(ceildiv(columns, tile.lanes))
    if isinstance(columns, IntImm):
        segments = panels(columns.value, tile)
        return body(segments, simplify(sum((segment.count for segment in segments), _int64(0))))

    def of_width(count: PrimExpr, wide: PrimExpr) -> Stmt:
        narrow = Segment(wide * most, count - wide, most - 1)
        return body([Segment(_int64(0), wide, most), narrow], count)

    return named("panels", ceildiv(columns, tile.columns), lambda count: named(
        "wide", count - minimum(count * most - vectors, count), lambda wide: of_width(count, wide)))  # fmt: skip


def blocks(rows: int, tile: Tile) -> list[Segment]:
    """The blocks of a known number of rows."""
    most = tile.rows
    if rows < FEW_ROWS:
        return even_pieces(rows, -(-rows // most))
    whole, left = divmod(rows, most)
    return [
        Segment(_int64(start), _int64(count), size)
        for start, count, size in ((0, whole, most), (whole * most, 1, left))
        if size
    ]


def even_pieces(total: int, count: int) -> list[Segment]:
    """So many pieces of two neighbouring sizes, the larger ones first."""
    if not count:
        return []
    size, larger = divmod(total, count)
    parts = ((0, larger, size + 1), (larger * (size + 1), count - larger, size))
    return [Segment(_int64(start), _int64(number), each) for start, number, each in parts if number]


def groups(
    blocks: PrimExpr, others: PrimExpr, least: int, cores: int, most: PrimExpr | None = None
) -> PrimExpr:
    """The number of groups of blocks: enough for all cores, as far as each has at least `least` blocks.

    There are more if one would have more than `most` blocks, or if cores would not have as many tasks as each other.
    """
    number: PrimExpr = _int64(1)
    if most is not None:
        number = maximum(number, ceildiv(blocks, most))
    if cores > 1:
        missing = floordiv(_int64(TASKS_PER_CORE * cores), maximum(others, _int64(1)))
        even = parts_of_tasks(others * number, cores) * number
        number = maximum(number, minimum(floordiv(blocks, least), maximum(missing, even)))
    return simplify(number)


def depth_of_block(target: Target, tile: Tile, bits: int, is_deep: bool) -> int:
    """The rows of a panel that fill two thirds of the first-level cache, or, of a deep block, a quarter of the second.

    Tiles read rows from the second level as fast as they multiply; there are fewer of them to begin and to end. The
    copy of a panel for few rows is read a few times only, and stays in the first level.
    """
    caches = target.machine.caches
    size = max(caches.l1 * 2 // 3, caches.l2 // 4 if is_deep else 0)
    return max(size // (tile.columns * bits // 8) // 32 * 32, 32)


def even_block(depth: PrimExpr, most: int) -> int:
    """The depth of blocks of at most so many rows: equal blocks where it can be, else nearly equal ones."""
    if not isinstance(depth, IntImm) or depth.value <= most:
        return most
    sizes = range(most // EVEN * EVEN, most // 2, -EVEN)
    nearly = -(-depth.value // -(-depth.value // most) // EVEN) * EVEN
    return next((size for size in sizes if depth.value % size == 0), min(nearly, most))


def _int64(value: int) -> PrimExpr:
    return const(value, "int64")


__all__ = [
    "FEW_ROWS",
    "LOW",
    "STREAMED_ROWS",
    "Segment",
    "Tile",
    "blocks",
    "depth_of_block",
    "even_block",
    "even_pieces",
    "groups",
    "has_masks",
    "panels",
    "tile_for",
    "with_panels",
]
