"""Remainder columns of a product, too few to fill a vector: their accumulators are vectorised along the depth.

    for i, j, k in T.grid(M, 257, K):        for i, j, k in T.grid(M, 256, K): …           the loops of `product`
        with T.block("C"):                   for task in T.parallel(ceildiv(M, 96)):      96 rows
            with T.init():                       columns[0, 0:K] = B[0:K, 256]             zero-padded
                C[i, j] = 0                      for io in range(24):                      four rows at a time
            C[i, j] += A[i, k] * B[k, j]             for j in range(1):
                                                         acc[0:4, :] = 0                   in registers
                                                         for v in range(0, K, 16):
                                                             acc[p, :] += A[row + p, v : v + 16] * columns[j, v …]
                                                         C[row + p, 256 + j] = the sum of the lanes of acc[p, :]

A tile takes as long for one column of a vector as for a full vector: with 257 columns, 5.5 % of the time is lost. Along
the depth, one column takes a sixteenth of that, plus the sums of its lanes.

Used only if rows of A are contiguous, rows and depth are large, and instructions take masks (see `number_of_last`).
"""

from __future__ import annotations

from typing import Final

from ....prim import LE, LT, Add, And, Mul, PrimExpr, Select, Var, const, is_const, simplify
from ....prim.instructions import vector_reduce_add
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import min as minimum
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, ForKind, IfThenElse, Stmt
from ...build import alloc, block, digits, int64, loop, named, ramp, scratch, size_of, spread, vector_load, vector_store
from ..tile.division import has_masks, tile_for
from .operands import Matrices, Results, Values, tile_view

SHARE: Final = 4
"""Columns are summed along the depth if they fill at most 1 / SHARE of a vector."""
LEAST_ROWS: Final = 48
"""Fewest rows for which copying a column costs little."""
LEAST_DEPTH: Final = 128
"""Least depth for which summing the lanes costs little."""
ROWS: Final = 4
"""Rows of a tile: enough accumulators to hide the latency of a multiply-add."""
ROWS_OF_A_TASK: Final = 96


def number_of_last(operands: Matrices, target: Target) -> PrimExpr:
    """Number of remainder columns that are summed along the depth."""
    dtypes = {str(access.dtype) for access in (operands.left, operands.right, operands.total)}
    lanes = tile_for(target, operands.total.dtype.bits).lanes
    is_along = operands.left.indices[-1] is operands.k and len(dtypes) == 1
    if not is_along or operands.packed is not None or not has_masks(target):
        return int64(0)
    rest = floormod(operands.columns, lanes)
    is_large = And(LE(int64(LEAST_ROWS), operands.rows), LE(int64(LEAST_DEPTH), operands.depth))
    is_few = And(LE(rest, int64(lanes // SHARE)), LT(int64(lanes), operands.columns))
    return simplify(Select(And(is_large, is_few), rest, int64(0)))


class LastColumns:
    """Writes the loops of `count` columns of a product from column `first` on."""

    def __init__(self, operands: Matrices, target: Target, first: PrimExpr, count: PrimExpr) -> None:
        self.operands, self.first, self.count = operands, first, count
        self.dtype = str(operands.total.dtype)
        self.lanes = tile_for(target, operands.total.dtype.bits).lanes
        self.most = self.lanes // SHARE
        self.depth = operands.depth
        self.whole = simplify(floordiv(self.depth, self.lanes))
        """Number of whole vectors of the depth."""

    def loops(self) -> Stmt:
        """Return the parallel loop over the batch and groups of rows."""
        operands = self.operands
        names = [*(v.var.name for v in operands.batch), "go"]
        sizes = [*map(size_of, operands.batch), simplify(ceildiv(operands.rows, ROWS_OF_A_TASK))]
        total: PrimExpr = Select(self.count > 0, int64(1), int64(0))
        for size in sizes:
            total = total * size
        return loop("task", simplify(total), lambda var: digits(var, names, sizes, self._task), ForKind.PARALLEL)

    def _task(self, parts: list[PrimExpr]) -> Stmt:
        """Copy the columns and compute them for some rows."""
        *outer, go = parts
        values: Values = dict(zip((v.var for v in self.operands.batch), outer, strict=True))
        width = simplify((self.whole + 1) * self.lanes)
        first = simplify(go * ROWS_OF_A_TASK)
        rows = simplify(minimum(int64(ROWS_OF_A_TASK), self.operands.rows - first))

        def tiles(columns: Buffer, rows: PrimExpr) -> Stmt:
            number = simplify(floordiv(rows + (ROWS - 1), ROWS))
            return block([
                self._copied(values, columns),
                loop("io", number, lambda io: self._tile(values, columns, first + io * ROWS, rows - io * ROWS)),
            ])  # fmt: skip

        return scratch("columns", (self.most, width), self.dtype, lambda columns: named(
            "rows", rows, lambda rows: tiles(columns, rows)))  # fmt: skip

    def _copied(self, values: Values, columns: Buffer) -> Stmt:
        """Copy the columns, padded with zeros."""
        operands = self.operands
        at = {**values, operands.column: self.first}
        axes = ((operands.k, self.depth), (operands.column, self.count))
        view = tile_view(operands.right, at, axes)
        zero = spread(const(0, self.dtype), self.lanes)

        def column(c: Var) -> Stmt:
            return block([
                vector_store(columns, (c, self.whole * self.lanes), zero),
                loop("k", self.depth, lambda k: BufferStore(columns, BufferLoad(view, (k, c)), (c, k))),
            ])  # fmt: skip

        return DeclBuffer(view, loop("c", self.count, column))

    def _tile(self, values: Values, columns: Buffer, row: PrimExpr, left: PrimExpr) -> Stmt:
        """Compute a tile of rows from `row` on, of which `left` remain in the task."""

        def of_rows(first: PrimExpr, held: PrimExpr) -> Stmt:
            at = {**values, self.operands.row: first}
            view = tile_view(self.operands.left, at, ((self.operands.row, held), (self.operands.k, self.depth)))

            def column(c: Var, acc: Buffer) -> Stmt:
                stored = self._stored(values, acc, (first, c), held)
                return block([self._sums(view, columns, acc, held, c), stored])

            return DeclBuffer(view, loop("c", self.count, lambda c: alloc(
                "acc", (ROWS, self.lanes), self.dtype, "local", lambda acc: column(c, acc))))  # fmt: skip

        return named("first", simplify(row), lambda first: named(
            "held", simplify(minimum(left, int64(ROWS))), lambda held: of_rows(first, held)))  # fmt: skip

    def _sums(self, view: Buffer, columns: Buffer, acc: Buffer, held: PrimExpr, c: Var) -> Stmt:
        """Accumulate each lane; rows past the last one are clamped to it."""
        lanes = self.lanes
        zero = spread(const(0, self.dtype), lanes)

        def step(v: PrimExpr, mask: PrimExpr | None) -> Stmt:
            k = v * lanes

            def row(p: Var) -> Stmt:
                elements = vector_load(view, (minimum(p, held - 1), k), lanes, mask)
                term = Mul(elements, vector_load(columns, (c, k), lanes))
                return vector_store(acc, (p, 0), Add(vector_load(acc, (p, 0), lanes), term))

            return loop("p", ROWS, row, ForKind.UNROLLED)

        cleared = loop("p", ROWS, lambda p: vector_store(acc, (p, 0), zero), ForKind.UNROLLED)
        rest = LT(ramp(self.whole * lanes, lanes), spread(self.depth, lanes))
        is_whole = is_const(simplify(floormod(self.depth, lanes)), 0)
        return block([
            cleared,
            loop("v", self.whole, lambda v: step(v, None)),
            *([] if is_whole else [step(self.whole, rest)]),
        ])  # fmt: skip

    def _stored(self, values: Values, acc: Buffer, place: tuple[PrimExpr, Var], held: PrimExpr) -> Stmt:
        """Apply the epilogue and store the rows that exist."""
        first, c = place
        at = {**values, self.operands.row: first, self.operands.column: self.first}
        result = Results(self.operands, at, held, self.count)

        def row(p: Var) -> Stmt:
            total = vector_reduce_add(vector_load(acc, (p, 0), self.lanes))
            return IfThenElse(LT(p, held), result.made(p, c, total))

        return result.declared(loop("p", ROWS, row, ForKind.UNROLLED))
