"""Products of few rows whose right operand lies transposed: each result is an inner product of two rows in memory.

    for i, j, k in T.grid(M, N, K):          for g in T.parallel(ceildiv(N, 16)):        16 columns
        with T.block("C"):                       for q in range(M // 4):                  4 rows (then 2, then 1)
            with T.init():                           for t in range(4):                   4 columns
                C[i, j] = 0                              acc[0:4, 0:4, :] = 0             in registers
            C[i, j] += A[i, k] * B[j, k]                 for v in range(0, K, 16):
                                                             acc[p, c, :] += A[row + p, v …] * B[column + c, v …]
                                                         sums[0:4, 4 t : 4 t + 4] = the sums of the lanes of acc
                                                     C[row + p, 16 g : 16 g + 16] = sums[p, :]

That is how weights of linear layers lie when they are inputs of a program. `product_loops` copies them into panels
first, which costs more than it gains where few rows use them. Here they are read where they are; the lanes of a tile's
sums are added by a tree of shuffles, which the depth must be worth. Each line asks for that of the next columns: rows
of the right operand are too short for hardware to foresee them, and may come from memory.

Not supported: operands whose depth is not their last dimension, results of another dtype than the operands', and a
depth that is not a multiple of a vector on targets without masks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....prim import LT, Add, IntImm, Mul, PrimExpr, Var, const, is_const, simplify
from ....prim.instructions import prefetch
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import min as minimum
from ....target import Target
from ....tir import Buffer, BufferLoad, DeclBuffer, Evaluate, ForKind, IfThenElse, Shuffle, Stmt
from ...build import (
    alloc,
    block,
    int64,
    let,
    loop,
    named,
    ramp,
    scratch,
    size_of,
    spread,
    tasks,
    vector_load,
    vector_store,
)
from ..tile.division import has_masks, tile_for
from ..tile.transposes import lane_sums
from .operands import Matrices, Results, Values, tile_view

MOST_ROWS: Final = 160
"""The rows up to which reading operands in place takes less time than copying the right one into panels."""
LEAST_DEPTH: Final = 8
"""The vectors of the depth from which on the sums of lanes cost little."""
TALLEST: Final = 4
"""Rows of the tallest tile."""
STREAMS: Final = 8
"""Most rows of the right operand that are read together: rows that are a multiple of 4 KiB apart share a set of L1."""


def is_inner(operands: Matrices, target: Target) -> bool:
    """True if the rows of both operands are contiguous along a depth that is worth summing by lanes."""
    dtypes = {str(access.dtype) for access in (operands.left, operands.right, operands.total)}
    along = all(access.indices[-1] is operands.k for access in (operands.left, operands.right))
    if not along or len(dtypes) != 1 or operands.packed is not None:
        return False
    lanes, depth = tile_for(target, operands.total.dtype.bits).lanes, operands.depth
    if lanes == 1 or not isinstance(depth, IntImm) or depth.value < lanes * LEAST_DEPTH:
        return False
    return has_masks(target) or depth.value % lanes == 0


class InnerProducts:
    """Writes the loops of a product of two operands that are both read along the depth."""

    def __init__(self, operands: Matrices, target: Target) -> None:
        self.operands = operands
        self.dtype = str(operands.total.dtype)
        self.lanes = tile_for(target, operands.total.dtype.bits).lanes
        self.held = columns_of_group(target, self.lanes)

    def tasks(self) -> Stmt:
        """Return the parallel loop over the batch and groups of columns."""
        operands = self.operands
        sizes = [*(size_of(v) for v in operands.batch), simplify(ceildiv(operands.columns, self.held))]
        names = [*(v.var.name for v in operands.batch), "jo"]
        return tasks("task", names, sizes, self._task)

    def _task(self, parts: list[PrimExpr]) -> Stmt:
        """Compute all rows of a group of columns."""
        *outer, group = parts
        operands = self.operands
        values: Values = dict(zip((v.var for v in operands.batch), outer, strict=True))
        is_even = is_const(simplify(floormod(operands.columns, self.held)), 0)

        def columns(first: PrimExpr, width: PrimExpr) -> Stmt:
            at = {**values, operands.column: first, operands.row: int64(0)}
            left = tile_view(operands.left, at, ((operands.row, operands.rows), (operands.k, operands.depth)))
            right = tile_view(operands.right, at, ((operands.column, width), (operands.k, operands.depth)))
            result = Results(operands, at, operands.rows, width)
            tiles = InnerTiles(self.lanes, self.held, left, right, result.made, None if is_even else width)
            return DeclBuffer(left, DeclBuffer(right, result.declared(tiles.of_rows(operands.rows))))

        width = int64(self.held) if is_even else minimum(int64(self.held), operands.columns - group * self.held)
        return named("first", simplify(group * self.held), lambda first: named(
            "width", simplify(width), lambda width: columns(first, width)))  # fmt: skip


def columns_of_group(target: Target, lanes: int) -> int:
    """Return the columns of a group: as many as a tile has accumulators, 4 rows by 4 of 32 registers, 4 by 2 of 16."""
    return max(16 if target.machine.vector_registers >= 32 else 8, lanes)


class InnerTiles:
    """Tiles of a group of `held` columns, which are rows of `right`: views of the operands, (rows, depth).

    `result` returns the statement that stores an element, given its row, its column in the group and its sum. `width`
    are the columns inside the matrix; None if all are.
    """

    def __init__(
        self, lanes: int, held: int, left: Buffer, right: Buffer,
        result: Callable[[PrimExpr, PrimExpr, PrimExpr], Stmt], width: PrimExpr | None,
    ) -> None:  # fmt: skip
        self.lanes, self.held, self.dtype = lanes, held, str(left.dtype)
        self.left, self.right, self.result, self.width = left, right, result, width
        self.depth = int64(left.shape[-1])

    def of_rows(self, rows: PrimExpr) -> Stmt:
        """Return the sums of all tiles, a few columns at a time, then the results.

        Rows of the right operand stay in the L1 cache while those of the left one come from L2.
        """
        most = rows.value if isinstance(rows, IntImm) else MOST_ROWS
        return scratch("sums", (most, self.held), self.dtype, lambda sums: block([
            self._sums(sums, rows),
            loop("r", rows, lambda r: self.results(sums, r))]))  # fmt: skip

    def _sums(self, sums: Buffer, rows: PrimExpr) -> Stmt:
        """Compute the sums of all rows and columns: tiles of four rows, then of two and of one for the rest."""
        parts: list[Stmt] = []
        start: PrimExpr = int64(0)
        height = TALLEST
        while height:
            count = simplify(floordiv(rows - start, height))
            if not is_const(count, 0):
                parts.append(self._tiles(sums, start, count, height))
            start, height = simplify(floordiv(rows, height) * height), height // 2
        return block(parts)

    def _tiles(self, sums: Buffer, start: PrimExpr, count: PrimExpr, height: int) -> Stmt:
        """Compute the sums of `count` tiles of one height."""
        wide = self.held // height

        def tile(row: PrimExpr, first: PrimExpr) -> Stmt:
            return alloc("acc", (height, wide, self.lanes), self.dtype, "local", lambda acc: block([
                self._accumulated(acc, row, first, height, wide),
                self._summed(acc, sums, (row, first), height, wide)]))  # fmt: skip

        return loop("t", self.held // wide, lambda t: loop("io", count, lambda io: let(
            "row", simplify(start + io * height), lambda row: tile(row, t * wide))))  # fmt: skip

    def _accumulated(self, acc: Buffer, row: PrimExpr, first: PrimExpr, height: int, wide: int) -> Stmt:
        """Add up the lanes of all products of a tile, for at most `STREAMS` columns at a time."""
        lanes, at_a_time = self.lanes, min(wide, STREAMS)
        zero = spread(const(0, self.dtype), lanes)
        whole = floordiv(self.depth, lanes)

        def each(name: str, extent: int, body: Callable[[Var], Stmt]) -> Stmt:
            return loop(name, extent, body, ForKind.UNROLLED)

        def line(k: PrimExpr, c: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
            return (first + c if self.width is None else minimum(first + c, self.width - 1)), k

        def step(k: PrimExpr, begin: int, mask: PrimExpr | None) -> Stmt:
            def added(p: PrimExpr, c: PrimExpr, lines: Buffer) -> Stmt:
                term = Mul(vector_load(lines, (p, 0), lanes), vector_load(lines, (height + c, 0), lanes))
                place = (p, begin + c, 0)
                return vector_store(acc, place, Add(vector_load(acc, place, lanes), term))

            def asked(c: PrimExpr) -> Stmt:
                return Evaluate(prefetch(BufferLoad(self.right, line(k, begin + at_a_time + c)), locality=2))

            return alloc("lines", (height + at_a_time, lanes), self.dtype, "local", lambda lines: block([
                each("p", height, lambda p: vector_store(
                    lines, (p, 0), vector_load(self.left, (row + p, k), lanes, mask))),
                each("c", at_a_time, lambda c: vector_store(
                    lines, (height + c, 0), vector_load(self.right, line(k, begin + c), lanes, mask))),
                *([each("c", at_a_time, asked)] if mask is None else []),
                each("p", height, lambda p: each("c", at_a_time, lambda c: added(p, c, lines))),
            ]))  # fmt: skip

        parts = [each("p", height, lambda p: each("c", wide, lambda c: vector_store(acc, (p, c, 0), zero)))]
        rest = simplify(whole * lanes)
        mask = LT(ramp(rest, lanes), spread(self.depth, lanes))
        for begin in range(0, wide, at_a_time):
            parts.append(loop("v", simplify(whole), lambda v, begin=begin: step(v * lanes, begin, None)))
            if not is_const(simplify(floormod(self.depth, lanes)), 0):
                parts.append(step(rest, begin, mask))
        return block(parts)

    def _summed(self, acc: Buffer, sums: Buffer, place: tuple[PrimExpr, PrimExpr], height: int, wide: int) -> Stmt:
        """Add the lanes of as many accumulators at a time as a vector has lanes, and store the sums by rows."""
        lanes, piece = self.lanes, min(wide, self.lanes)
        row, first = place

        def stored(start: int, total: PrimExpr) -> Stmt:
            def part(q: int) -> Stmt:
                p, c = divmod(start + q * piece, wide)
                value = total if piece == lanes else Shuffle((total,), list(range(q * piece, (q + 1) * piece)))
                return vector_store(sums, (row + p, first + c), value)

            return let("total", total, lambda total: block(part(q) for q in range(lanes // piece)))

        places = [(p, c) for p in range(height) for c in range(wide)]
        return block(
            lane_sums(
                [vector_load(acc, (*place, 0), lanes) for place in places[start : start + lanes]],
                lambda total, start=start: stored(start, total),
            )
            for start in range(0, len(places), lanes)
        )

    def results(self, sums: Buffer, row: PrimExpr) -> Stmt:
        """Apply the epilogue to the sums of a row and store the columns inside the matrix."""

        def lane(c: PrimExpr) -> Stmt:
            stored = self.result(row, c, BufferLoad(sums, (row, c)))
            return stored if self.width is None else IfThenElse(LT(c, self.width), stored)

        return loop("v", self.held // self.lanes, lambda v: loop(
            "x", self.lanes, lambda x: lane(v * self.lanes + x), ForKind.VECTORIZED))  # fmt: skip
