"""Products of matrices, of float32 or float64: register tiles over packed panels.

    for i, j, k in T.grid(M, N, K):          for jo in T.parallel(ceildiv(N, 64)):        panels of 64 columns
        with T.block("C"):                       P = T.alloc_buffer((K, 64))              copied
            with T.init():                       for io in range(blocks):                 rows, six at a time
                C[i, j] = 0                          acc = T.alloc_buffer((6, 64), scope="local")      in registers
            C[i, j] += A[i, k] * B[k, j]             for k in range(K):
                                                         acc[p, :] += A[row + p, k] * P[k, :]   for p in 0 .. 5
                                                     C[row + p, jo * 64 + :] = acc[p, :]

The tile has as many rows and columns as there are registers for (6 × 4 vectors with 32 of them). Rows are dealt out
evenly where their number is known, 13 as 5 + 4 + 4; else the last row stands for those that the last tile lacks. The
last panel is padded with zeros, and its results go through memory. With few rows, copying costs more than it brings:
the panels are read where they are. Register-blocked outer products over packed panels are those of K. Goto and
R. van de Geijn, *Anatomy of High-Performance Matrix Multiplication*, 2008, without cache blocking of k: a panel of 64
columns stays in the second-level cache for the depths that occur.

Refused: other dtypes, a function that does not promise that its arguments are apart (tir.noalias), several variables
for the columns, and products that are small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...prim import Add, IntImm, Mul, PrimExpr, Var, const, is_const, simplify
from ...prim.intrin import ceildiv, floormod
from ...prim.intrin import min as minimum
from ...target import Target
from ...tir import (
    Buffer,
    BufferLoad,
    BufferStore,
    ForKind,
    IfThenElse,
    PrimFunc,
    Stmt,
)
from ..build import alloc, block, let, loop, spread, vector_load, vector_store
from ..contraction import Nest, rewritten_nests
from ..rule import ScheduleRule
from .operands import Matrices, Operands, float_product_of

UNPACKED_ROWS: Final = 24
"""With fewer rows than this, copying a panel takes longer than it saves."""


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


class Product(ScheduleRule):
    """The rule for products of matrices."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del tunable
        if not func.attrs.get("tir.noalias"):
            return None

        def rewrite(nest: Nest) -> Stmt | None:
            product = float_product_of(nest)
            return None if product is None else tiled(Operands(product), target)

        return rewritten_nests(func, rewrite)


def tiled(operands: Matrices, target: Target) -> Stmt:
    """A product in register tiles."""
    writer = _Writer(operands, tile_for(target, operands.out.dtype.bits))
    return operands.batches(writer.panels)


@dataclass(frozen=True)
class _Panel:
    """A panel of columns: for which values of the batch, from which column on, how many are in the matrix, its copy."""

    values: dict[Var, PrimExpr]
    start: PrimExpr
    left: Var | None
    """The columns that are in the matrix; None: all."""
    copy: Buffer | None
    """The packed columns; None: the matrix itself is read."""


Row = Callable[[PrimExpr], PrimExpr]
"""The row of the matrix that is a given row of a tile."""


class _Writer:
    """Writes the loops of one product."""

    def __init__(self, operands: Matrices, tile: Tile) -> None:
        self.operands, self.tile = operands, tile
        self.out = operands.out
        self.dtype = str(self.out.dtype)
        self.rows, self.columns, self.depth = operands.rows, operands.columns, operands.depth
        self.vectors = _vectors_of_a_panel(self.columns, tile)
        self.width = self.vectors * tile.lanes

    # ------------------------------------------------------------------ panels

    def panels(self, values: dict[Var, PrimExpr]) -> Stmt:
        """The loop over panels of columns."""
        width = self.width
        exact = is_const(simplify(floormod(self.columns, width)), 0)

        def panel(jo: Var) -> Stmt:
            start = simplify(jo * width)
            if exact:
                return self.panel(values, start, None)
            columns = minimum(const(width, "int64"), self.columns - start)
            return let("columns", columns, lambda left: self.panel(values, start, left))

        kind = ForKind.SERIAL if values else ForKind.PARALLEL
        return loop("jo", simplify(ceildiv(self.columns, width)), panel, kind)

    def panel(self, values: dict[Var, PrimExpr], start: PrimExpr, left: Var | None) -> Stmt:
        """All rows of a panel, copied first unless the rows are few."""

        def copied(buffer: Buffer) -> Stmt:
            panel = _Panel(values, start, left, buffer)
            return block([self.pack(panel, buffer), self.row_blocks(panel)])

        packed = alloc("panel", (self.depth, self.width), self.dtype, "global", copied)
        low = isinstance(self.rows, IntImm) and self.rows.value < UNPACKED_ROWS
        if not low or not self.operands.b_is_contiguous():
            return packed
        direct = self.row_blocks(_Panel(values, start, None, None))
        return direct if left is None else IfThenElse(left.equal(self.width), direct, packed)

    def pack(self, panel: _Panel, buffer: Buffer) -> Stmt:
        """Copy the columns of a panel; those beyond the matrix become 0."""
        if not self.operands.b_is_contiguous():
            return self.operands.pack(panel.values, buffer, panel.start, panel.left)
        whole = loop("k", self.depth, lambda k: self._pack_row(panel, buffer, k))
        if panel.left is None:
            return whole
        part = self.operands.pack(panel.values, buffer, panel.start, panel.left)
        return IfThenElse(panel.left.equal(self.width), whole, part)

    def _pack_row(self, panel: _Panel, buffer: Buffer, k: Var) -> Stmt:
        lanes = self.tile.lanes

        def copy(v: Var) -> Stmt:
            source = self.operands.b(panel.values, k, panel.start + v * lanes)
            return vector_store(buffer, (k, v * lanes), vector_load(source.buffer, source.indices, lanes))

        return loop("v", self.vectors, copy, ForKind.UNROLLED)

    # ------------------------------------------------------------------ rows

    def row_blocks(self, panel: _Panel) -> Stmt:
        """The loop over blocks of rows, the last row standing for those that the last block lacks."""
        most = self.tile.rows
        blocks = simplify(ceildiv(self.rows, most))
        if isinstance(self.rows, IntImm):
            return self._equal_blocks(panel, self.rows.value)

        last = self.rows - 1
        return loop(
            "io", blocks, lambda io: self.tile_of(panel, lambda p: minimum(io * most + p, last), most)
        )

    def _equal_blocks(self, panel: _Panel, rows: int) -> Stmt:
        """Blocks of one height if there is one that divides the rows; else the first ones are one row higher."""
        most = self.tile.rows
        exact = next((h for h in range(most, most // 2, -1) if rows % h == 0), 0)
        blocks = rows // exact if exact else -(-rows // most)
        if not blocks:
            return block([])
        height, higher = divmod(rows, blocks)
        split = higher * (height + 1)
        parts = [
            loop("io", higher, lambda io: self.tile_of(panel, lambda p: io * (height + 1) + p, height + 1)),
            loop(
                "io",
                blocks - higher,
                lambda io: self.tile_of(panel, lambda p: simplify(io * height + split) + p, height),
            ),
        ]
        return block(parts if higher else parts[1:])

    # ------------------------------------------------------------------ the register tile

    def tile_of(self, panel: _Panel, row: Row, height: int) -> Stmt:
        """The sums of some rows and a panel's columns, kept in registers over the whole depth."""

        def body(acc: Buffer) -> Stmt:
            zero = spread(const(0, self.dtype), self.tile.lanes)
            init = self._each(height, lambda p, c: vector_store(acc, (p, c), zero))
            sums = loop("k", self.depth, lambda k: self._step(panel, acc, row, height, k))
            return block([init, sums, self._results(panel, acc, row, height)])

        return alloc("acc", (height, self.width), self.dtype, "local", body)

    def _each(self, height: int, body: Callable[[Var, PrimExpr], Stmt]) -> Stmt:
        """A statement for each vector of a tile, told its row and its first column; written out."""
        lanes = self.tile.lanes

        def row(p: Var) -> Stmt:
            return loop("v", self.vectors, lambda v: body(p, v * lanes), ForKind.UNROLLED)

        return loop("p", height, row, ForKind.UNROLLED)

    def _step(self, panel: _Panel, acc: Buffer, row: Row, height: int, k: Var) -> Stmt:
        """One rank-one update of the tile."""
        lanes = self.tile.lanes

        def update(p: Var, c: PrimExpr) -> Stmt:
            left = spread(self.operands.a(panel.values, row(p), k), lanes)
            if panel.copy is not None:
                right = vector_load(panel.copy, (k, c), lanes)
            else:
                element = self.operands.b(panel.values, k, panel.start + c)
                right = vector_load(element.buffer, element.indices, lanes)
            return vector_store(acc, (p, c), Add(vector_load(acc, (p, c), lanes), Mul(left, right)))

        return self._each(height, update)

    def _results(self, panel: _Panel, acc: Buffer, row: Row, height: int) -> Stmt:
        """Store the tile; of a panel that is not whole, through memory, as many columns as there are."""
        lanes = self.tile.lanes

        def store(p: Var, c: PrimExpr) -> Stmt:
            place = self.operands.place(panel.values, row(p), panel.start + c)
            return vector_store(self.out, place, vector_load(acc, (p, c), lanes))

        whole = self._each(height, store)
        if panel.left is None:
            return whole
        return IfThenElse(
            panel.left.equal(self.width), whole, self._edge(panel, panel.left, acc, row, height)
        )

    def _edge(self, panel: _Panel, left: Var, acc: Buffer, row: Row, height: int) -> Stmt:
        lanes = self.tile.lanes

        def copy(edge: Buffer, p: Var, c: Var) -> Stmt:
            place = self.operands.place(panel.values, row(p), panel.start + c)
            return BufferStore(self.out, BufferLoad(edge, (p, c)), place)

        def body(edge: Buffer) -> Stmt:
            def spill(p: Var, c: PrimExpr) -> Stmt:
                return vector_store(edge, (p, c), vector_load(acc, (p, c), lanes))

            copies = loop("p", height, lambda p: loop("c", left, lambda c: copy(edge, p, c)))
            return block([self._each(height, spill), copies])

        return alloc("edge", (height, self.width), self.dtype, "global", body)


def _vectors_of_a_panel(columns: PrimExpr, tile: Tile) -> int:
    """The vectors to a row of a panel: if the columns are known, as few as share them out evenly."""
    if not isinstance(columns, IntImm):
        return tile.vectors
    vectors = max(-(-columns.value // tile.lanes), 1)
    panels = -(-vectors // tile.vectors)
    return -(-vectors // panels)


__all__ = ["Product", "Tile", "tile_for"]
