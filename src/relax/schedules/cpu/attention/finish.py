"""Epilogue of attention: stores computed from the weighted sums and the sum of the weights.

    R[b, i, d] = T.if_then_else(total == 0, 0, sums / total)      inverse = 1 / total
                                                                  R[b, i, 0:dv] = … sums[0:dv] * inverse

One division per query. If a score of -inf is subtracted from a maximum of -inf, the result is NaN, like that of the
nests, unless the nests define such weights as 0.
"""

from __future__ import annotations

from collections.abc import Callable

from ....prim import Div, IntImm, Mul, PrimExpr, Select, Var, const
from ....tir import BufferStore, DeclBuffer, ForKind, Stmt
from ....tir.attention import Attention
from ....tir.functor import StmtExprMutator, substitute
from ...build import let, loop, size_of
from ..products.operands import Values
from .scores import part_of


class Finish:
    """Stores the results of a query: an epilogue of its weighted sums and the sum of its weights."""

    def __init__(self, one: Attention, values: Values, inside: PrimExpr) -> None:
        self.one, self.values = one, values
        self.columns = size_of(one.column)
        self.out = part_of(one.out, values, ((one.row.var, inside), (one.column.var, self.columns)))

    def declared(self, body: Stmt) -> Stmt:
        """Wrap `body` in the view of the result."""
        return DeclBuffer(self.out, body)

    def row(self, i: PrimExpr, total: PrimExpr, most: PrimExpr, sums: Callable[[PrimExpr], PrimExpr]) -> Stmt:
        """Store the results of a query, given the sum of its weights, its maximum score, and its weighted sums."""
        one, keys = self.one, size_of(self.one.key)
        dtype = str(one.product.dtype)
        if not one.is_zero_unseen:
            total = total + (most - most)  # NaN if the maximum is infinite or NaN
        if one.is_divided or not one.is_zero_unseen:
            none = const(1 if one.is_divided else 0, dtype)  # 0 keys: their sum is 0
            total = total if isinstance(keys, IntImm) and keys.value else Select(keys > 0, total, none)

        def results(whole: Var) -> Stmt:
            def stored(inverse: Var) -> Stmt:
                return loop("c", self.columns, lambda c: self._store(i, c, whole, inverse, sums(c)), ForKind.VECTORIZED)

            return let("inverse", const(1, dtype) / whole, stored)

        return let("whole", total, results)

    def _store(self, i: PrimExpr, c: Var, whole: Var, inverse: Var, value: PrimExpr) -> Stmt:
        one = self.one
        result = _Inverse(one.total, inverse).visit(one.out.value)
        at = {**self.values, one.column.var: c}
        at[one.row.var] = at[one.row.var] + i
        typed = {var: index.astype(str(var.dtype)) for var, index in at.items()}
        result = substitute(result, {**typed, one.total: whole, one.sums: value})
        return BufferStore(self.out, result, (i, c))


class _Inverse(StmtExprMutator):
    """Replaces divisions by a variable by multiplications with its inverse."""

    def __init__(self, var: Var, inverse: Var) -> None:
        super().__init__()
        self.var, self.inverse = var, inverse

    def visit_Div(self, node: Div) -> PrimExpr:
        node = self.visit_children(node)
        return Mul(node.a, self.inverse) if node.b is self.var else node
