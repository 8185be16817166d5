"""Division of a product's result into register tiles and tasks.

Columns are divided into *panels*, rows into *blocks*; a panel and a block meet in a register tile.

    columns   257 = 17 vectors = 4 + 4 + 3 + 3 + 3     panels of at most 4 vectors, as equal as possible
    rows      512 = 85 · 6 + 2                         blocks of at most 6 rows, and a remainder
    rows       13 = 5 + 4 + 4                          few rows: as equal as possible
    rows        m = m // 6 · 6 + (3, 4 or 5)           a dynamic number of rows
    rows        m = (m // 6 - 1) · 6 + 4 + (3 or 4)     with a remainder of 1 or 2

A *task* is a panel and a group of blocks, the unit of work of a thread. There is one group unless panels are few or the
rows of A do not fit the L2 cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....prim import IntImm, PrimExpr, const, simplify
from ....prim.intrin import ceildiv, floordiv
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Stmt
from ...build import named
from .shares import parts_of_tasks

EVEN: Final = 8
"""Granularity of the depth of equal blocks, in rows."""
FEW_ROWS: Final = 48
"""Number of rows below which row blocks are made as equal as possible."""
MASKED_BITS: Final = 512
"""Vector width at which all instructions accept masks."""
LOW: Final = 4
"""Rows of a low block."""
STREAMED_ROWS: Final = 12
"""Number of rows below which a product of packed panels is bound by memory bandwidth."""
TASKS_PER_CORE: Final = 4
"""Tasks per core that keep all cores busy for nearly the same time."""


@dataclass(frozen=True)
class Tile:
    """Shape of a register tile: rows, vectors per row, lanes per vector."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def tile_for(target: Target, bits: int, shape: tuple[int, int] | None = None) -> Tile:
    """Register tile that fits the target: rows × vectors accumulators, a row of vectors, and one broadcast.

    `shape` has the rows and vectors if they are chosen otherwise.
    """
    machine = target.machine
    lanes = max(machine.vector_bits // bits, 1)
    if shape is not None:
        return Tile(*shape, lanes)
    return Tile(6, 4, lanes) if machine.vector_registers >= 32 else Tile(6, 2, lanes)


def shapes_of_tiles(target: Target, tallest: int) -> list[tuple[int, int]]:
    """Return the rows and vectors of all tiles of up to `tallest` rows that fit the target's registers."""
    registers = target.machine.vector_registers
    return [
        (rows, vectors)
        for rows in range(1, tallest + 1)
        for vectors in range(1, registers // (rows + 1) + 1)
        if rows * vectors + vectors < registers
    ]


def has_masks(target: Target) -> bool:
    """True for targets on which masked loads are as fast as plain ones."""
    return target.vector_bits >= MASKED_BITS


@dataclass(frozen=True)
class Segment:
    """Consecutive pieces of one size: row blocks of `size` rows, or panels of `size` vectors."""

    start: PrimExpr
    """First row or vector of the first piece."""
    count: PrimExpr
    size: int

    @property
    def number(self) -> int:
        """Static number of pieces."""
        assert isinstance(self.count, IntImm)
        return self.count.value


def panels(columns: int, tile: Tile) -> list[Segment]:
    """Panels of a static number of columns; the last one may be padded."""
    vectors = -(-columns // tile.lanes)
    return even_pieces(vectors, -(-vectors // tile.vectors))


def with_panels(columns: PrimExpr, tile: Tile, body: Callable[[list[Segment], PrimExpr], Stmt]) -> Stmt:
    """Call `body` with the panels of the columns, the last of which may be padded, and their number.

    Dynamic sizes are bound to names around the body, which proofs treat as opaque.
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
    """Row blocks of a static number of rows."""
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
    """Split `total` into `count` pieces of two consecutive sizes, the larger ones first."""
    if not count:
        return []
    size, larger = divmod(total, count)
    parts = ((0, larger, size + 1), (larger * (size + 1), count - larger, size))
    return [Segment(_int64(start), _int64(number), each) for start, number, each in parts if number]


def groups(blocks: PrimExpr, others: PrimExpr, least: int, cores: int, most: PrimExpr | None = None) -> PrimExpr:
    """Number of groups of row blocks: enough for all cores, with at least `least` blocks per group.

    It is higher if a group would exceed `most` blocks, or to balance the number of tasks per core.
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
    """Depth of a block: it fills two thirds of the L1 cache or, if deep, a quarter of the L2 cache.

    Tiles read from L2 as fast as they multiply, and deep blocks start and finish fewer tiles. A panel copied for few
    rows is read only a few times and stays in L1.
    """
    caches = target.machine.caches
    size = max(caches.l1 * 2 // 3, caches.l2 // 4 if is_deep else 0)
    return max(size // (tile.columns * bits // 8) // 32 * 32, 32)


def even_block(depth: PrimExpr, most: int) -> int:
    """Depth of equal (or nearly equal) blocks of at most `most` rows."""
    if not isinstance(depth, IntImm) or depth.value <= most:
        return most
    sizes = range(most // EVEN * EVEN, most // 2, -EVEN)
    nearly = -(-depth.value // -(-depth.value // most) // EVEN) * EVEN
    return next((size for size in sizes if depth.value % size == 0), min(nearly, most))


def _int64(value: int) -> PrimExpr:
    return const(value, "int64")
