"""Epilogues of products: tiles of `product_loops` compute the results from their accumulators and store them.

    a tile with an arithmetic epilogue                            others: sums[…] = acc, and after all tiles

    acc[p, :] = 0                                                 for r in range(1020):
    for k in range(K):                                                D[first + r, …] = f(sums[r, :])
        prefetch(D[…])                          a cache line in some steps
        acc[p, :] += A[row + p, k] * panel[k, :]
    D[row + p, …] = f(acc[p, :])

Tiles store results of a single depth block, unless the epilogue calls functions such as exponentials: their constants
would displace accumulators, while one loop over many rows loads them once. Plain sums over several depth blocks are
accumulated in the result buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

from ....prim import IntImm, PrimExpr, Var, is_const, simplify
from ....prim.intrin import floordiv, floormod
from ....prim.intrin import min as minimum
from ....target import Target
from ....tir import Buffer, BufferLoad, ForKind, IfThenElse, Stmt
from ...build import block, int64, let, loop, scratch, size_of, vector_load, vector_store
from ..tile import RegisterTile
from ..tile.division import LOW, has_masks, tile_for
from .column_panels import ColumnPanel, each_vector, mask_of
from .operands import Matrices, Results, has_calls

LINE: Final = 64
"""Bytes of a cache line."""


class ProductResults:
    """Writes the stores of a product's results."""

    def __init__(self, operands: Matrices, target: Target, is_one_block: bool) -> None:
        """Set up the stores; `is_one_block` says that the depth is static and fits one block."""
        self.operands, self.is_one_block = operands, is_one_block
        self.dtype, self.lanes = (str(operands.total.dtype), tile_for(target, operands.total.dtype.bits).lanes)
        has_tails = is_const(simplify(floormod(operands.columns, self.lanes)), 0) or has_masks(target)
        value = operands.store.value
        is_sum = value is operands.total
        self.are_direct = is_one_block or has_tails if is_sum else is_one_block and has_tails and not has_calls(value)
        """True if each tile stores its results, without accumulators in memory."""
        sizes = [*(size_of(v) for v in operands.batch), operands.rows, operands.columns]
        known = [size.value for size in sizes if isinstance(size, IntImm)]
        bytes_ = prod(known) * operands.store.buffer.dtype.bits // 8
        self.are_cached = len(known) == len(sizes) and bytes_ <= target.machine.caches.l2 // 4
        """True for statically small results, which stay in the L2 cache."""

    def of_tile(self, panel: ColumnPanel, row: PrimExpr, height: PrimExpr) -> Results:
        """Results of `height` rows from `row` on, in the columns of a panel."""
        width = int64(panel.vectors * self.lanes) if panel.inside is None else panel.inside
        at = {**panel.values, self.operands.row: row, self.operands.column: panel.start}
        return Results(self.operands, at, height, width)

    def begun(self, result: Results, panel: ColumnPanel, tile: RegisterTile, start: PrimExpr) -> Stmt:
        """Initialise a tile's accumulators to 0, or to the partial sums of the preceding depth blocks."""
        if self.is_one_block:
            return tile.cleared()
        before = tile.begun(lambda p, c: vector_load(
            result.out, result.place(p, c), self.lanes, mask_of(panel, c, self.lanes)))  # fmt: skip
        return IfThenElse(start > 0, before, tile.cleared())

    def asked(self, result: Results, panel: ColumnPanel, height: int, k: PrimExpr) -> list[Stmt]:
        """Prefetch a tile's result cache lines, spread evenly over the steps.

        Result rows are short runs that hardware prefetching does not cover.
        """
        depth = self.operands.depth
        if self.are_cached or height < LOW or not self.is_one_block or not isinstance(depth, IntImm):
            return []
        step = LINE * 8 // self.operands.store.buffer.dtype.bits
        lines = -(-panel.vectors * self.lanes // step)
        steps, total = max(depth.value, 1), height * lines
        spaced, each = 1 << max(steps // total, 1).bit_length() - 1, -(-total // steps)
        numbers = [simplify(floordiv(k, spaced) * each + u) for u in range(each)]
        return [result.asked(minimum(floordiv(number, lines), int64(height - 1)), floormod(
            number, lines) * step, 3) for number in numbers]  # fmt: skip

    def stored(self, result: Results, panel: ColumnPanel, tile: RegisterTile) -> Stmt:
        """Apply the epilogue to a tile and store the columns inside the matrix.

        Panels entirely inside the matrix need no masks and keep their accumulators in registers.
        """
        lanes = self.lanes

        def vector(p: PrimExpr, maker: Callable[[PrimExpr, PrimExpr], Stmt], c: PrimExpr) -> Stmt:
            return loop("x", lanes, lambda x: let("total", BufferLoad(tile.acc, (p, c + x)), lambda total: maker(
                c + x, total)), ForKind.VECTORIZED)  # fmt: skip

        if result.is_sum:
            return tile.each(lambda p, c: vector_store(
                result.out, result.place(p, c), tile.load(p, c), mask_of(panel, c, lanes)))  # fmt: skip
        whole = tile.each_row(lambda p: result.of_row(p, lambda maker: tile.each_vector(
            lambda c: vector(p, maker, c))))  # fmt: skip
        if panel.inside is None:
            return whole
        rest = scratch("sums", (tile.height, tile.width), self.dtype, lambda sums: block([
            tile.each(lambda p, c: vector_store(sums, (p, c), tile.load(p, c))),
            loop("r", tile.height, lambda r: self._made(result, panel, sums, r))]))  # fmt: skip
        return IfThenElse(panel.inside >= tile.width, whole, rest)

    def of_rows(self, panel: ColumnPanel, sums: Buffer, first: PrimExpr, count: PrimExpr) -> Stmt:
        """Apply the epilogue to `count` rows of accumulators in memory and store the columns inside the matrix."""
        lanes, result = self.lanes, self.of_tile(panel, first, count)

        def plain(r: Var, c: PrimExpr) -> Stmt:
            return vector_store(result.out, result.place(r, c), vector_load(
                sums, (r, c), lanes), mask_of(panel, c, lanes))  # fmt: skip

        if result.is_sum:
            each = loop("r", count, lambda r: each_vector(panel, lanes, lambda c: plain(r, c)))
        else:
            each = loop("r", count, lambda r: self._made(result, panel, sums, r))
        return result.declared(each)

    def _made(self, result: Results, panel: ColumnPanel, sums: Buffer, r: Var) -> Stmt:
        """Apply the epilogue to a row of accumulators and store it."""

        def lane(c: PrimExpr) -> Stmt:
            stored = result.made(r, c, BufferLoad(sums, (r, c)))
            return stored if panel.inside is None else IfThenElse(c < panel.inside, stored)

        return loop("v", panel.vectors, lambda v: loop(
            "x", self.lanes, lambda x: lane(v * self.lanes + x), ForKind.VECTORIZED))  # fmt: skip
