"""Results of attention: the stores of what a function makes of the weighted sums and the sum of the weights.

    R[b, i, d] = T.if_then_else(total == 0, 0, sums / total)      inverse = 1 / total
                                                                  R[b, i, 0:dv] = … sums[0:dv] * inverse

A query divides once. Where scores of -inf are subtracted from a greatest score of -inf, the result is NaN, as the
nests compute it, unless they say that such weights are 0.
"""

from __future__ import annotations

from collections.abc import Callable

from ...prim import Div, IntImm, Mul, PrimExpr, Select, Var, const
from ...tir import BufferStore, DeclBuffer, ForKind, Stmt
from ...tir.attention import Attention
from ...tir.functor import StmtExprMutator, substitute
from ..build import let, loop
from ..contraction import size_of
from .operands import Values
from .scores import part_of


class Finish:
    """Stores results: what a function makes of the weighted sums and the sum of the weights of a query."""

    def __init__(self, one: Attention, values: Values, inside: PrimExpr) -> None:
        self.one, self.values = one, values
        self.columns = size_of(one.column)
        self.out = part_of(one.out, values, ((one.row.var, inside), (one.column.var, self.columns)))

    def declared(self, body: Stmt) -> Stmt:
        """A statement with the view around it that it stores to."""
        return DeclBuffer(self.out, body)

    def row(self, i: PrimExpr, total: PrimExpr, most: PrimExpr, sums: Callable[[PrimExpr], PrimExpr]) -> Stmt:
        """Store the results of a query, from the sum of its weights, its greatest score, and its weighted sums."""
        one, keys = self.one, size_of(self.one.key)
        dtype = str(one.product.dtype)
        if not one.is_zero_unseen:
            total = total + (most - most)  # NaN where no score is a number
        if one.is_divided or not one.is_zero_unseen:
            none = const(1 if one.is_divided else 0, dtype)  # 0 keys: their sum is 0
            total = total if isinstance(keys, IntImm) and keys.value else Select(keys > 0, total, none)

        def results(whole: Var) -> Stmt:
            def stored(inverse: Var) -> Stmt:
                return loop(
                    "c",
                    self.columns,
                    lambda c: self._store(i, c, whole, inverse, sums(c)),
                    ForKind.VECTORIZED,
                )

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
    """Divisions by a variable as multiplications by its inverse."""

    def __init__(self, var: Var, inverse: Var) -> None:
        super().__init__()
        self.var, self.inverse = var, inverse

    def visit_Div(self, node: Div) -> PrimExpr:
        node = self.visit_children(node)
        return Mul(node.a, self.inverse) if node.b is self.var else node


__all__ = ["Finish"]
