"""Register tiles of rows by vectors of channels, accumulated as outer products of a column and a row of weights.

    for q in tall tiles of 12 rows, then in short ones of 8:            n rows in steps of 4, at least two of them:
        acc = zeros                                                     28 = 12 + 8 + 8
        for k in …:                                                     16 = 8 + 8
            w0, w1 = U[k, 0:16], U[k, 16:32]                            20 = 12 + 8
            for p in range(12):
                acc[p, :] += V[p, k] * (w0, w1)

Each step prefetches part of the next weights into the L2 cache. The prefetches are spread evenly over the tiles: a core
has few fill buffers, and demand loads must not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...prim import Add, Mul, PrimExpr, Var, simplify
from ...prim.instructions import prefetch
from ...prim.intrin import floordiv, floormod
from ...tir import Buffer, BufferLoad, Evaluate, ForKind, Stmt
from ..build import alloc, block, let, loop, named, spread, vector_load, vector_store


def register_tiles(units: PrimExpr, unit: int, body: Callable[[PrimExpr, int, PrimExpr], Stmt]) -> Stmt:
    """Return `body(first row, rows, number)` for each register tile; there are at least two `units` of rows."""
    tall, short = 3 * unit, 2 * unit

    def tiles(units: PrimExpr, number: PrimExpr) -> Stmt:
        return named("rest", simplify(units - number * 2), lambda rest: named(
            "whole", simplify(floordiv(rest, 3)), lambda whole: block([
                loop("q", whole, lambda q: body(q * tall, tall, q)),
                loop("q", number, lambda q: body(whole * tall + q * short, short, whole + q))])))  # fmt: skip

    return named("units", simplify(units), lambda units: named(
        "short", simplify(floormod(units * 2, 3)), lambda number: tiles(units, number)))  # fmt: skip


@dataclass(frozen=True)
class RegisterTile:
    """Accumulators in registers, and a row of weights."""

    acc: Buffer
    right: Buffer
    height: int
    vectors: int
    lanes: int
    added: Callable[[PrimExpr, PrimExpr, PrimExpr], PrimExpr] = lambda total, a, w: Add(total, Mul(a, w))
    """Multiply-add of a broadcast element and a weight vector."""

    def each(self, body: Callable[[Var, Var], Stmt]) -> Stmt:
        """Return `body(row, vector)` for each vector of the tile, unrolled."""
        return loop("p", self.height, lambda p: self.each_vector(lambda v: body(p, v)), ForKind.UNROLLED)

    def each_vector(self, body: Callable[[Var], Stmt]) -> Stmt:
        """Return `body(vector)` for each vector of a row."""
        return loop("v", self.vectors, body, ForKind.UNROLLED)

    def load(self, p: PrimExpr, v: PrimExpr) -> PrimExpr:
        """Load an accumulator vector."""
        return vector_load(self.acc, (p, v * self.lanes), self.lanes)

    def store(self, p: PrimExpr, v: PrimExpr, value: PrimExpr) -> Stmt:
        """Store an accumulator vector."""
        return vector_store(self.acc, (p, v * self.lanes), value)

    def add(
        self, elements: Callable[[PrimExpr], PrimExpr], weights: Buffer, at: Sequence[PrimExpr],
        ahead: Sequence[PrimExpr] | None = None,
    ) -> Stmt:  # fmt: skip
        """Add the outer product of the rows' `elements` and the `weights` row at `at`; prefetch the row at `ahead`."""
        lanes, (*outer, start) = self.lanes, at

        def line(v: Var) -> Stmt:
            vector = vector_load(weights, (*outer, start + v * lanes), lanes)
            return vector_store(self.right, (v * lanes,), vector)

        def row(p: Var) -> Stmt:
            def sums(a: Var, v: Var) -> Stmt:
                weight = vector_load(self.right, (v * lanes,), lanes)
                return self.store(p, v, self.added(self.load(p, v), a, weight))

            return let("a", spread(elements(p), lanes), lambda a: self.each_vector(lambda v: sums(a, v)))

        return block([
            *([] if ahead is None else [Evaluate(prefetch(BufferLoad(weights, tuple(ahead)), locality=2))]),
            self.each_vector(line),
            loop("p", self.height, row, ForKind.UNROLLED),
        ])  # fmt: skip


def register_tile(height: int, vectors: int, lanes: int, dtype: str, body: Callable[[RegisterTile], Stmt]) -> Stmt:
    """Call `body` with a register tile of `height` rows and `vectors` vectors."""
    width = vectors * lanes
    return alloc("acc", (height, width), dtype, "local", lambda acc: alloc(
        "right", (width,), dtype, "local",
        lambda right: body(RegisterTile(acc, right, height, vectors, lanes))))  # fmt: skip
