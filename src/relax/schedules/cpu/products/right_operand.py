"""Right operands of products, as register tiles read them: block by block of the depth of a panel of columns.

    InPlace      memory holds a single panel of the operand's columns, which tiles read where it is
    Packed       a constant was packed into panels when the program was built (`packed_panels`)
    Copied       a task copies each block into a panel; columns contiguous along the depth are transposed in registers
    Computed     an expression of other arrays, such as scaled integers, evaluated as tiles read it (`computed_operand`)

A new kind of operand is a class with `block` and `vectors`; the loops of `product_loops` stay as they are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ....prim import IntImm, PrimExpr, Select, Var, const, is_const, simplify
from ....prim.intrin import floordiv, floormod
from ....runtime.records import dataclass
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, IfThenElse, Stmt
from ....tir.buffer import decl_buffer
from ...build import block, int64, loop, scratch, spread, vector_load, vector_store
from ..tile import prefetched
from ..tile.division import Tile
from ..tile.transposes import turned
from .column_panels import ColumnPanel, each_vector, mask_of
from .operands import Matrices, Values, tile_view

QUARTERS: Final = 4
"""Number of tiles that together prefetch the next block of packed panels, one cache line per step each."""


@dataclass(frozen=True)
class DepthBlock:
    """Depth block of a panel: first k and number of k."""

    panel: ColumnPanel
    start: PrimExpr
    depth: PrimExpr


@dataclass(frozen=True)
class BlockInMemory(DepthBlock):
    """Depth block whose columns are in memory as (depth, width)."""

    source: Buffer


@dataclass(frozen=True)
class Share:
    """A tile's part of prefetching packed panels: its number among the tiles that prefetch the next block."""

    number: PrimExpr
    tiles: PrimExpr
    """Number of tiles that prefetch; 1 means none does."""
    low: bool = False
    """True if there are too few tiles to hide the memory latency."""

    def behind(self, count: PrimExpr | int) -> Share:
        """Return the share of the tile `count` tiles later."""
        return replace(self, number=simplify(self.number + count))


@dataclass(frozen=True)
class Readers:
    """Tiles that read a depth block."""

    tiles: Callable[[DepthBlock], Stmt]
    few: Callable[[DepthBlock], Stmt]
    """The same tiles, where there are few rows (`are_few`)."""
    are_few: PrimExpr
    """Condition: at most `LOW` rows, or those of one remainder, read the block."""


class RightOperand:
    """Right operand of a product, as tiles read it. Subclasses are kinds of operands."""

    is_packed = False
    """True if memory holds panels, which are read in sequence."""
    is_copied = False
    """True if a task makes each block that it reads, which pays for many rows."""
    stays_in_l1 = False
    """True if few rows read each block, which stays in the L1 cache."""

    def __init__(self, operands: Matrices, tile: Tile) -> None:
        self.operands, self.tile = operands, tile
        self.depth, self.dtype = operands.depth, str(operands.total.dtype)
        self.vector = str(operands.total.dtype.with_lanes(tile.lanes))

    @abstractmethod
    def block(self, panel: ColumnPanel, start: PrimExpr, depth: PrimExpr, most: int, readers: Readers) -> Stmt:
        """Return the tiles that read a depth block of at most `most` rows, with what makes the block before them."""

    def vectors(self, part: DepthBlock, k: PrimExpr) -> Callable[[PrimExpr], PrimExpr]:
        """Return the function from first columns to the vectors of a row of a block, in the dtype of the sums."""
        assert isinstance(part, BlockInMemory)
        return lambda c: vector_load(part.source, (k, c), self.tile.lanes).astype(self.vector)

    def has_numbered_columns(self, part: DepthBlock) -> bool:
        """True if `vectors` must know the columns of a block as numbers."""
        del part
        return False

    def asked(self, part: DepthBlock, k: PrimExpr, share: Share) -> list[Stmt]:
        """Prefetches of the operand in one step of a tile."""
        del part, k, share
        return []

    def width(self, panel: ColumnPanel) -> int:
        """Columns of a panel."""
        return panel.vectors * self.tile.lanes


class InPlace(RightOperand):
    """Operand whose columns are those of a single panel."""

    @staticmethod
    def fits(operands: Matrices, width: int) -> bool:
        """True if memory holds the operand as one panel of `width` columns."""
        right = operands.right
        return (
            is_const(operands.columns, width)
            and operands.packed is None
            and right.dtype == operands.total.dtype
            and len(right.indices) >= 2
            and right.indices[-1] is operands.column
            and right.indices[-2] is operands.k
            and is_const(right.buffer.shape[-1], width)
        )

    def block(self, panel: ColumnPanel, start: PrimExpr, depth: PrimExpr, most: int, readers: Readers) -> Stmt:
        del most
        at = {**panel.values, self.operands.k: start, self.operands.column: panel.start}
        sizes = ((self.operands.k, depth), (self.operands.column, int64(self.width(panel))))
        view = tile_view(self.operands.right, at, sizes)
        return DeclBuffer(view, readers.tiles(BlockInMemory(panel, start, depth, view)))


class Packed(RightOperand):
    """Operand in packed panels."""

    is_packed = True

    def block(self, panel: ColumnPanel, start: PrimExpr, depth: PrimExpr, most: int, readers: Readers) -> Stmt:
        del most
        assert self.operands.packed is not None
        view = packed_block(self.operands, self.operands.packed, panel, start, depth, self.width(panel))
        return DeclBuffer(view, readers.tiles(BlockInMemory(panel, start, depth, view)))

    def asked(self, part: DepthBlock, k: PrimExpr, share: Share) -> list[Stmt]:
        """Prefetch a cache line of the tile's quarter of the next block, and of the quarter two further on.

        Four tiles cover all lines without the second prefetch. A single tile prefetches nothing: its reads are
        sequential, which hardware prefetching covers, and software prefetches slowed products of one or two rows by
        weights in L3 by a fifth.
        """
        number, tiles = share.number, share.tiles
        if is_const(tiles, 1):
            return []
        assert isinstance(part, BlockInMemory)
        quarter, other = floormod(number, QUARTERS), floormod(number + 2, QUARTERS)
        if isinstance(tiles, IntImm):
            quarters = [quarter] if tiles.value >= QUARTERS else [quarter, other]
        else:
            quarters = [quarter, Select(tiles < QUARTERS, other, quarter)]
        rows = [part.depth + floordiv(part.depth, QUARTERS) * each for each in quarters]
        return [prefetched(part.source, (row, k * self.tile.lanes)) for row in rows]


class Copied(RightOperand):
    """Operand whose blocks are copied into panels."""

    is_copied = True

    def block(self, panel: ColumnPanel, start: PrimExpr, depth: PrimExpr, most: int, readers: Readers) -> Stmt:
        def copied(buffer: Buffer) -> Stmt:
            part = BlockInMemory(panel, start, depth, buffer)
            return block([self.copy(part), readers.tiles(part)])

        return scratch("panel", (most, self.width(panel)), self.dtype, copied)

    def copy(self, part: BlockInMemory) -> Stmt:
        """Copy a depth block of a panel, padded with zero columns."""
        panel, operands, lanes = part.panel, self.operands, self.tile.lanes
        width = int64(self.width(panel))
        at = {**panel.values, operands.k: part.start, operands.column: panel.start}
        inside = width if panel.inside is None else panel.inside
        view = tile_view(operands.right, at, ((operands.k, part.depth), (operands.column, inside)))

        def vectors(k: Var) -> Stmt:
            return each_vector(panel, lanes, lambda c: vector_store(part.source, (k, c), vector_load(
                view, (k, c), lanes, mask_of(panel, c, lanes)).astype(self.vector)))  # fmt: skip

        def column(c: Var) -> Stmt:
            """Copy one column, which is contiguous along the depth."""
            copy = loop("k", part.depth, lambda k: BufferStore(
                part.source, BufferLoad(view, (k, c)).astype(self.dtype), (k, c)))  # fmt: skip
            if panel.inside is None:
                return copy
            zero = const(0, self.dtype)
            rest = loop("k", part.depth, lambda k: BufferStore(part.source, zero, (k, c)))
            return IfThenElse(c < panel.inside, copy, rest)

        if operands.right.indices[-1] is operands.column:
            return DeclBuffer(view, loop("k", part.depth, vectors))
        if operands.right.indices[-1] is operands.k:
            return self._turned(part, at, inside)
        return DeclBuffer(view, loop("c", width, column))

    def _turned(self, part: BlockInMemory, at: Values, inside: PrimExpr) -> Stmt:
        """Copy a depth block of a right operand contiguous along the depth, by register transposes; pad with zero
        columns.
        """
        operands, panel = self.operands, part.panel
        view = tile_view(operands.right, at, ((operands.column, inside), (operands.k, part.depth)))

        def wide(value: PrimExpr) -> PrimExpr:
            return value.astype(str(operands.total.dtype.with_lanes(value.dtype.lanes)))

        copy = turned(view, part.source, inside, part.depth, self.tile.lanes, wide)
        if panel.inside is None:
            return DeclBuffer(view, copy)
        zero = spread(const(0, self.dtype), self.tile.lanes)
        cleared = loop(
            "k",
            part.depth,
            lambda k: each_vector(panel, self.tile.lanes, lambda c: vector_store(part.source, (k, c), zero)),
        )
        return DeclBuffer(view, block([cleared, copy]))


def packed_block(
    operands: Matrices, packed: BufferLoad, panel: ColumnPanel, start: PrimExpr, depth: PrimExpr, width: int
) -> Buffer:
    """View of a depth block of a panel of `width` columns in packed panels."""
    row = int64(width)
    at = {**panel.values, operands.column: simplify(panel.start * operands.depth + start * row)}
    view = tile_view(packed, at, ((operands.column, depth * row),))
    return decl_buffer((depth, row), str(view.dtype), "panel", data=view.data, elem_offset=view.elem_offset)


def right_operand_of(operands: Matrices, tile: Tile, widest: int) -> RightOperand:
    """Return the operand as it is in memory: packed, one panel of `widest` vectors, or to be copied."""
    if operands.packed is not None:
        return Packed(operands, tile)
    return (InPlace if InPlace.fits(operands, widest * tile.lanes) else Copied)(operands, tile)
