"""Products of matrices, of float32 or float64: register tiles over packed panels.

    for i, j, k in T.grid(M, N, K):          for jo in T.parallel(ceildiv(N, 64)):        panels of 64 columns
        with T.block("C"):                       P = T.alloc_buffer((K, 64))              copied
            with T.init():                       for io in range(blocks):                 rows, six at a time
                C[i, j] = 0                          acc = T.alloc_buffer((6, 64), scope="local")      in registers
            C[i, j] += A[i, k] * B[k, j]             for k in range(K):
                                                         acc[p, :] += A[row + p, k] * P[k, :]   for p in 0 .. 5
                                                     C[row + p, jo * 64 + :] = acc[p, :]

The tile has as many rows and columns as there are registers for (6 × 4 vectors with 32 of them). Rows are dealt out
evenly where their number is known, 13 as 5 + 4 + 4; else as many as there are, 6 + 6 + 1, with code for each height.
The last panel is padded with zeros, and its results go through memory. With few rows, copying costs more than it
brings: the panels are read where they are. Register-blocked outer products over packed panels are those of K. Goto and
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
from ..contraction import contraction_of
from ..rule import ScheduleRule
from .operands import Operands, is_float_product

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
        product = contraction_of(func)
        if product is None or not is_float_product(product, func):
            return None
        operands = Operands(product)
        writer = _Writer(operands, tile_for(target, product.out.buffer.dtype.bits))
        return func.replace(body=operands.batches(writer.panels))


class _Writer:
    """Writes the loops of one product."""

    def __init__(self, operands: Operands, tile: Tile) -> None:
        self.operands, self.tile = operands, tile
        self.out: Buffer = operands.product.out.buffer
        self.dtype = str(self.out.dtype)
        self.rows, self.columns, self.depth = operands.rows, operands.columns, operands.depth
        self.vectors = _vectors_of_a_panel(self.columns, tile)
        self.width = self.vectors * tile.lanes

    # ------------------------------------------------------------------ loops

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
        """All rows of a panel of columns, of which `left` are in the matrix; None: all."""
        shape = (self.depth, self.width)
        packed = alloc("panel", shape, self.dtype, "global", lambda buffer: block(
            [self.pack(values, buffer, start, left), self.row_blocks(values, start, left, buffer)]))  # fmt: skip
        if not self.operands.b_is_contiguous() or not self._is_low():
            return packed
        direct = self.row_blocks(values, start, None, None)
        return direct if left is None else IfThenElse(left.equal(self.width), direct, packed)

    def _is_low(self) -> bool:
        return isinstance(self.rows, IntImm) and self.rows.value < UNPACKED_ROWS

    def pack(self, values: dict[Var, PrimExpr], panel: Buffer, start: PrimExpr, left: Var | None) -> Stmt:
        """Copy the columns of a panel; those beyond the matrix become 0."""
        whole = loop("k", self.depth, lambda k: self._copy_row(values, panel, start, k))
        if left is None and self.operands.b_is_contiguous():
            return whole

        def column(c: Var) -> Stmt:
            copy = loop(
                "k", self.depth, lambda k: BufferStore(panel, self.operands.b(values, k, start + c), (k, c))
            )
            if left is None:
                return copy
            zeros = loop("k", self.depth, lambda k: BufferStore(panel, const(0, self.dtype), (k, c)))
            return IfThenElse(c < left, copy, zeros)

        single = loop("c", self.width, column)
        if left is None or not self.operands.b_is_contiguous():
            return single
        return IfThenElse(left.equal(self.width), whole, single)

    def _copy_row(self, values: dict[Var, PrimExpr], panel: Buffer, start: PrimExpr, k: Var) -> Stmt:
        lanes = self.tile.lanes

        def copy(v: Var) -> Stmt:
            source = self.operands.b(values, k, start + v * lanes)
            return vector_store(panel, (k, v * lanes), vector_load(source.buffer, source.indices, lanes))

        return loop("v", self.vectors, copy, ForKind.UNROLLED)

    def row_blocks(
        self, values: dict[Var, PrimExpr], start: PrimExpr, left: Var | None, panel: Buffer | None
    ) -> Stmt:
        """The loop over blocks of rows, which share the rows out evenly."""
        most = self.tile.rows
        blocks = simplify(ceildiv(self.rows, most))
        if isinstance(self.rows, IntImm) and isinstance(blocks, IntImm):
            if blocks.value == 0:
                return block([])
            base, more = divmod(self.rows.value, blocks.value)
            parts = [
                loop("io", count, lambda io, first=first, height=height: self.tile_of(
                    values, simplify(io * height + first), height, start, left, panel))
                for first, count, height in ((0, more, base + 1), (more * (base + 1), blocks.value - more, base))
                if count
            ]  # fmt: skip
            return block(parts)

        def rows_of(io: Var) -> Stmt:
            first = simplify(io * most)
            height = minimum(const(most, "int64"), self.rows - first)
            return let(
                "height", height, lambda h: self._of_height(values, first, h, most, start, left, panel)
            )

        return loop("io", blocks, rows_of)

    def _of_height(
        self, values: dict[Var, PrimExpr], row: PrimExpr, height: Var, most: int, start: PrimExpr,
        left: Var | None, panel: Buffer | None,
    ) -> Stmt:  # fmt: skip
        """A choice by the number of rows, the greatest first: it is what most blocks have."""
        tile = self.tile_of(values, row, most, start, left, panel)
        if most == 1:
            return tile
        less = self._of_height(values, row, height, most - 1, start, left, panel)
        return IfThenElse(height.equal(most), tile, less)

    # ------------------------------------------------------------------ the register tile

    def tile_of(
        self, values: dict[Var, PrimExpr], row: PrimExpr, height: int, start: PrimExpr,
        left: Var | None, panel: Buffer | None,
    ) -> Stmt:  # fmt: skip
        """The sums of `height` rows and a panel's columns, kept in registers over the whole depth."""

        def body(acc: Buffer) -> Stmt:
            zero = spread(const(0, self.dtype), self.tile.lanes)
            init = self._each(height, lambda p, c: vector_store(acc, (p, c), zero))
            sums = loop("k", self.depth, lambda k: self._step(values, acc, row, height, start, panel, k))
            return block([init, sums, self._results(values, acc, row, height, start, left)])

        return alloc("acc", (height, self.width), self.dtype, "local", body)

    def _each(self, height: int, body: Callable[[Var, PrimExpr], Stmt]) -> Stmt:
        """A statement for each vector of a tile, told its row and its first column; written out."""
        lanes = self.tile.lanes

        def row(p: Var) -> Stmt:
            return loop("v", self.vectors, lambda v: body(p, v * lanes), ForKind.UNROLLED)

        return loop("p", height, row, ForKind.UNROLLED)

    def _step(
        self, values: dict[Var, PrimExpr], acc: Buffer, row: PrimExpr, height: int,
        start: PrimExpr, panel: Buffer | None, k: Var,
    ) -> Stmt:  # fmt: skip
        """One rank-one update of the tile."""
        lanes = self.tile.lanes

        def update(p: Var, c: PrimExpr) -> Stmt:
            left = spread(self.operands.a(values, row + p, k), lanes)
            if panel is not None:
                right = vector_load(panel, (k, c), lanes)
            else:
                element = self.operands.b(values, k, start + c)
                right = vector_load(element.buffer, element.indices, lanes)
            return vector_store(acc, (p, c), Add(vector_load(acc, (p, c), lanes), Mul(left, right)))

        return self._each(height, update)

    def _results(
        self, values: dict[Var, PrimExpr], acc: Buffer, row: PrimExpr, height: int,
        start: PrimExpr, left: Var | None,
    ) -> Stmt:  # fmt: skip
        """Store the tile; of a panel that is not whole, through memory, as many columns as there are."""
        out, lanes = self.out, self.tile.lanes

        def store(p: Var, c: PrimExpr) -> Stmt:
            return vector_store(
                out, self.operands.place(values, row + p, start + c), vector_load(acc, (p, c), lanes)
            )

        whole = self._each(height, store)
        if left is None:
            return whole
        edge = self._edge(values, acc, row, height, start, left)
        return IfThenElse(left.equal(self.width), whole, edge)

    def _edge(
        self, values: dict[Var, PrimExpr], acc: Buffer, row: PrimExpr, height: int,
        start: PrimExpr, left: Var,
    ) -> Stmt:  # fmt: skip
        lanes, out = self.tile.lanes, self.out

        def copy(edge: Buffer, p: Var, c: Var) -> Stmt:
            return BufferStore(out, BufferLoad(edge, (p, c)), self.operands.place(values, row + p, start + c))

        def body(edge: Buffer) -> Stmt:
            spill = self._each(
                height, lambda p, c: vector_store(edge, (p, c), vector_load(acc, (p, c), lanes))
            )
            return block([spill, loop("p", height, lambda p: loop("c", left, lambda c: copy(edge, p, c)))])

        return alloc("edge", (height, self.width), self.dtype, "global", body)


def _vectors_of_a_panel(columns: PrimExpr, tile: Tile) -> int:
    """The vectors to a row of a panel: if the columns are known, as few as share them out evenly."""
    if not isinstance(columns, IntImm):
        return tile.vectors
    vectors = max(-(-columns.value // tile.lanes), 1)
    panels = -(-vectors // tile.vectors)
    return -(-vectors // panels)


__all__ = ["Product", "Tile", "tile_for"]
