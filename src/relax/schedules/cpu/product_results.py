"""The results of a product: tiles of `product` store what is made of their sums.

    a tile whose results are made of its sums by arithmetic       others: sums[…] = acc, and behind all tiles

    acc[p, :] = 0                                                 for r in range(1020):
    for k in range(K):                                                D[first + r, …] = f(sums[r, :])
        prefetch(D[…])                          a line in some steps
        acc[p, :] += A[row + p, k] * panel[k, :]
    D[row + p, …] = f(acc[p, :])

Tiles store results whose sums are one block of the depth, unless functions, such as exponentials, are made of them:
their constants would take registers from the sums, and one loop over many rows has them for all. Sums of several
blocks that are the results are added to those of the blocks before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Final

from ...prim import LT, IntImm, PrimExpr, Var, const, is_const, simplify
from ...prim.intrin import floordiv, floormod
from ...prim.intrin import min as minimum
from ...target import Target
from ...tir import Buffer, BufferLoad, ForKind, IfThenElse, Stmt
from ..build import block, int64, let, loop, ramp, scratch, spread, vector_load, vector_store
from ..contraction import size_of
from .operands import Matrices, Results, Values, has_calls
from .tiling import LOW, has_masks, tile_for

LINE: Final = 64
"""The bytes that are fetched together."""


@dataclass(frozen=True)
class ColumnPanel:
    """Columns, for values of the batch: the first one, how many are in the matrix, and their vectors."""

    values: Values
    start: PrimExpr
    inside: PrimExpr | None
    """None: all."""
    vectors: int


class ProductResults:
    """Writes the stores of a product's results."""

    def __init__(self, operands: Matrices, target: Target, is_one_block: bool) -> None:
        """`is_one_block`: the depth is known, and is one block."""
        self.operands, self.is_one_block = operands, is_one_block
        self.dtype, self.lanes = (
            str(operands.total.dtype),
            tile_for(target, operands.total.dtype.bits).lanes,
        )
        has_tails = is_const(simplify(floormod(operands.columns, self.lanes)), 0) or has_masks(target)
        value = operands.store.value
        is_sum = value is operands.total
        self.are_direct = (
            is_one_block or has_tails if is_sum else is_one_block and has_tails and not has_calls(value)
        )
        """True if each tile stores its results."""
        sizes = [*(size_of(v) for v in operands.batch), operands.rows, operands.columns]
        known = [size.value for size in sizes if isinstance(size, IntImm)]
        bytes_ = prod(known) * operands.store.buffer.dtype.bits // 8
        self.are_cached = len(known) == len(sizes) and bytes_ <= target.machine.caches.l2 // 4
        """True for results that are known to be few: they stay in the second-level cache."""

    def of_tile(self, panel: ColumnPanel, row: PrimExpr, height: PrimExpr) -> Results:
        """The results of so many rows, from one on, in the columns of a panel."""
        width = int64(panel.vectors * self.lanes) if panel.inside is None else panel.inside
        at = {**panel.values, self.operands.row: row, self.operands.column: panel.start}
        return Results(self.operands, at, height, width)

    def begun(self, result: Results, panel: ColumnPanel, acc: Buffer, start: PrimExpr, height: int) -> Stmt:
        """Begin the sums of a tile with 0, or with those of the blocks before, if its block is not the first."""
        nothing = self._each(panel, height, lambda p, c: vector_store(acc, (p, c), self._zero))
        if self.is_one_block:
            return nothing
        before = self._each(panel, height, lambda p, c: vector_store(acc, (p, c), vector_load(
            result.out, result.place(p, c), self.lanes, mask_of(panel, c, self.lanes))))  # fmt: skip
        return IfThenElse(start > 0, before, nothing)

    def asked(self, result: Results, panel: ColumnPanel, height: int, k: PrimExpr) -> list[Stmt]:
        """Ask for lines of a tile's results in a step, for as few in each as the number of steps allows.

        They are short runs of lines that memory delivers late: nothing else asks for them before they are stored.
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

    def stored(self, result: Results, panel: ColumnPanel, acc: Buffer, height: int) -> Stmt:
        """Store what is made of the sums of a tile, in the columns that are in the matrix.

        Those of a panel that is in the matrix as a whole need no masks, nor to leave registers.
        """
        lanes = self.lanes

        def vector(p: Var, maker: Callable[[PrimExpr, PrimExpr], Stmt], c: PrimExpr) -> Stmt:
            return loop("x", lanes, lambda x: let("total", BufferLoad(acc, (p, c + x)), lambda total: maker(
                c + x, total)), ForKind.VECTORIZED)  # fmt: skip

        def moved(p: Var, c: PrimExpr) -> PrimExpr:
            return vector_load(acc, (p, c), lanes)

        if result.is_sum:
            return self._each(panel, height, lambda p, c: vector_store(
                result.out, result.place(p, c), moved(p, c), mask_of(panel, c, lanes)))  # fmt: skip
        whole = loop("p", height, lambda p: result.of_row(p, lambda maker: each_vector(
            panel, lanes, lambda c: vector(p, maker, c))), ForKind.UNROLLED)  # fmt: skip
        if panel.inside is None:
            return whole
        width = panel.vectors * lanes
        rest = scratch("sums", (height, width), self.dtype, lambda sums: block([
            self._each(panel, height, lambda p, c: vector_store(sums, (p, c), moved(p, c))),
            loop("r", height, lambda r: self._made(result, panel, sums, r))]))  # fmt: skip
        return IfThenElse(panel.inside >= width, whole, rest)

    def of_rows(self, panel: ColumnPanel, sums: Buffer, first: PrimExpr, count: PrimExpr) -> Stmt:
        """Store what is made of sums in memory, of so many rows, in the columns that are in the matrix."""
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
        """Store what is made of a row of sums."""

        def lane(c: PrimExpr) -> Stmt:
            stored = result.made(r, c, BufferLoad(sums, (r, c)))
            return stored if panel.inside is None else IfThenElse(c < panel.inside, stored)

        return loop("v", panel.vectors, lambda v: loop(
            "x", self.lanes, lambda x: lane(v * self.lanes + x), ForKind.VECTORIZED))  # fmt: skip

    def _each(self, panel: ColumnPanel, height: int, body: Callable[[Var, PrimExpr], Stmt]) -> Stmt:
        """A statement for each vector of a tile, told its row and its first column; written out."""
        return loop("p", height, lambda p: each_vector(
            panel, self.lanes, lambda c: body(p, c)), ForKind.UNROLLED)  # fmt: skip

    @property
    def _zero(self) -> PrimExpr:
        return spread(const(0, self.dtype), self.lanes)


def each_vector(panel: ColumnPanel, lanes: int, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """A statement for each vector of a panel, told its first column."""
    return loop("v", panel.vectors, lambda v: body(v * lanes), ForKind.UNROLLED)


def mask_of(panel: ColumnPanel, column: PrimExpr, lanes: int) -> PrimExpr | None:
    """The lanes of a vector of a panel that are in the matrix; None if all are."""
    return None if panel.inside is None else LT(ramp(column, lanes), spread(panel.inside, lanes))


__all__ = ["LINE", "ColumnPanel", "ProductResults", "each_vector", "mask_of"]
