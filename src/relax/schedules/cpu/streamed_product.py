"""Products with few rows, of float32 or float64: the right operand is read once, in the order of memory.

    for i, j, k in T.grid(2, N, K):          for jo in T.parallel(ceildiv(N, 1024)):      a strip of columns
        with T.block("C"):                       C[:, strip] = 0
            with T.init():                       for ko in range(K // 8):
                C[i, j] = 0                          for j in strip, a vector at a time:
            C[i, j] += A[i, k] * B[k, j]                 c = C[:, j]
                                                         c += A[:, ko * 8 + u] * B[ko * 8 + u, j]   for u in 0 .. 7
                                                         C[:, j] = c
                                                 the same for the last K % 8, one at a time

Such a product is as fast as memory delivers B. Eight rows of B are eight streams, which processors prefetch; the sums
of a strip stay in the first-level cache.

Refused: more than 8 rows or a number that is not known, columns that are not contiguous, and what `product` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...prim import Add, IntImm, Mul, PrimExpr, Var, const, is_const, simplify
from ...prim.intrin import ceildiv, floordiv, floormod
from ...prim.intrin import min as minimum
from ...target import Target
from ...tir import ForKind, LetStmt, PrimFunc, Stmt
from ..build import block, int64, let, loop, spread, vector_load, vector_store
from ..contraction import Nest, rewritten_nests
from ..rule import ScheduleRule
from .operands import Operands, float_product_of

MOST_ROWS: Final = 8
STREAMS: Final = 8
STRIP: Final = 1024
"""Columns whose sums are kept in the first-level cache."""


class StreamedProduct(ScheduleRule):
    """The rule for products with few rows."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del tunable
        if not func.attrs.get("tir.noalias"):
            return None

        def rewrite(nest: Nest) -> Stmt | None:
            product = float_product_of(nest)
            if product is None:
                return None
            operands = Operands(product)
            rows = operands.rows
            if not isinstance(rows, IntImm) or rows.value > MOST_ROWS or not operands.b_is_contiguous():
                return None
            lanes = max(target.machine.vector_bits // operands.out.dtype.bits, 1)
            return operands.batches(_Writer(operands, rows.value, lanes).strips)

        return rewritten_nests(func, rewrite)


class _Writer:
    """Writes the loops of one product."""

    def __init__(self, operands: Operands, rows: int, lanes: int) -> None:
        self.operands, self.rows, self.lanes = operands, rows, lanes
        self.out = operands.out

    def strips(self, values: dict[Var, PrimExpr]) -> Stmt:
        """The loop over strips of columns."""
        columns = self.operands.columns

        def strip(jo: Var) -> Stmt:
            start = simplify(jo * STRIP)
            width = minimum(const(STRIP, "int64"), columns - start)
            return let("width", width, lambda w: self.strip(values, start, w))

        kind = ForKind.SERIAL if values else ForKind.PARALLEL
        return loop("jo", simplify(ceildiv(columns, STRIP)), strip, kind)

    def strip(self, values: dict[Var, PrimExpr], start: PrimExpr, width: Var) -> Stmt:
        """All sums of a strip."""
        depth = self.operands.depth
        steps = simplify(floordiv(depth, STREAMS))
        left = simplify(floormod(depth, STREAMS))
        zeros = self._each_vector(width, lambda c, n: self._store(values, start + c, [
            spread(const(0, str(self.out.dtype)), n)] * self.rows))  # fmt: skip
        parts = [zeros]
        if not is_const(steps, 0):
            parts.append(loop("ko", steps, lambda ko: self._add(values, start, width, [
                ko * STREAMS + u for u in range(STREAMS)])))  # fmt: skip
        if not is_const(left, 0):
            parts.append(loop("k", left, lambda k: self._add(values, start, width, [steps * STREAMS + k])))
        return block(parts)

    def _each_vector(self, width: Var, body: Callable[[PrimExpr, int], Stmt]) -> Stmt:
        """A statement for each vector of a strip, told its first column and its lanes; then for each single column."""
        lanes = self.lanes
        whole = floordiv(width, lanes)
        return block([
            loop("v", whole, lambda v: body(v * lanes, lanes)),
            loop("c", floormod(width, lanes), lambda c: body(whole * lanes + c, 1)),
        ])  # fmt: skip

    def _add(
        self, values: dict[Var, PrimExpr], start: PrimExpr, width: Var, depths: Sequence[PrimExpr]
    ) -> Stmt:
        """Add some rows of B, each times its elements of A, to the sums of a strip."""

        def body(c: PrimExpr, lanes: int) -> Stmt:
            column = start + c
            rights = [self.operands.b(values, k, column) for k in depths]
            names = [Var(f"b{u}", self.out.dtype.with_lanes(lanes)) for u in range(len(rights))]
            sums: list[PrimExpr] = []
            for p in range(self.rows):
                total = vector_load(self.out, self.operands.place(values, int64(p), column), lanes)
                for k, name in zip(depths, names, strict=True):
                    total = Add(total, Mul(spread(self.operands.a(values, int64(p), k), lanes), name))
                sums.append(total)
            result = self._store(values, column, sums)
            for name, right in zip(reversed(names), reversed(rights), strict=True):
                result = LetStmt(name, vector_load(right.buffer, right.indices, lanes), result)
            return result

        return self._each_vector(width, body)

    def _store(self, values: dict[Var, PrimExpr], column: PrimExpr, sums: Sequence[PrimExpr]) -> Stmt:
        stores = [
            vector_store(self.out, self.operands.place(values, int64(p), column), value)
            for p, value in enumerate(sums)
        ]
        return block(stores)


__all__ = ["StreamedProduct"]
