"""Multiply by the whole table of weights, and take from the product, instead of multiplying by what was taken.

Before   w = R.take(table, indices, axis=1)      # table: (k, t)         After   lv = R.matmul(x, table)
         y = R.matmul(x, w)                                                      y = R.take(lv, indices, axis=1)

         w = R.take(table, indices, axis=0)      # table: (t, k, o), indices: (b,), x: (b, m, k)
         y = R.matmul(x, w)

becomes a product of x and all of the table, as one matrix of k rows, from which gather_nd takes the part of each
batch. That pays for small tables, such as those of low-rank adapters, where copying weights costs more than products.

Declines unless the indices have one dimension, the operands' sizes are known, and a table has at least one row (the
sum over none is zero, without a look at the indices). In the second form the mode must be "fast".
"""

from __future__ import annotations

from ...analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ...dpl import is_op, wildcard
from ...dpl.matching import Matched
from ...dpl.rewrite import CallRewriter
from ...expr import Function, ShapeExpr
from ...ir import IRModule, RelaxExpr
from ...op.gather import GatherND
from ...op.linear_algebra import Matmul
from ...op.selection import Take
from ...op.shapes import PermuteDims, Reshape
from ...prim import prove
from ..decorators import function_pass
from .questions import dims, operator_in


@function_pass(needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def ReorderTakeAfterMatmul(func: Function, mod: IRModule) -> Function:
    """Take from products instead of from weights; see the module's docstring."""
    x, table, indices = wildcard(), wildcard(), wildcard()
    taken = is_op("relax.take")(table, indices)

    def reordered(expr: RelaxExpr, matched: Matched) -> RelaxExpr:
        take, matmul = operator_in(rewriter.value(matched[taken])), operator_in(expr)
        sizes, index_dims = dims(matched[table]), dims(matched[indices])
        if not isinstance(take, Take) or not isinstance(matmul, Matmul):
            return expr
        if sizes is None or index_dims is None or len(index_dims) != 1 or len(sizes) < 2 or take.axis is None:
            return expr
        if dims(matched[x]) is None or dims(expr) is None or prove(sizes[-2] >= 1) is not True:
            return expr
        axis = take.axis % len(sizes)
        if axis == len(sizes) - 1:
            product = matmul.call(matched[x], matched[table])
            return take.replace(axis=len(dims(expr) or ()) - 1).call(product, matched[indices])
        if axis == 0 and len(sizes) == 3 and take.mode == "fast":
            new = _of_each_batch(matmul, matched[x], matched[table], matched[indices])
            return expr if new is None else new
        return expr

    rewriter = CallRewriter([(is_op("relax.matmul")(x, taken), reordered)], mod)
    return rewriter.rewrite_function(func)


def _of_each_batch(matmul: Matmul, x: RelaxExpr, table: RelaxExpr, indices: RelaxExpr) -> RelaxExpr | None:
    """The products of each batch of x and the matrix its index names; None if the batches are not as many."""
    rows, sizes, index_dims = dims(x), dims(table), dims(indices)
    if rows is None or sizes is None or index_dims is None or len(rows) != 3:
        return None
    if prove(rows[0].equal(index_dims[0])) is not True:
        return None
    batch, m, _ = rows
    count, k, width = sizes
    whole = Reshape().call(PermuteDims((1, 0, 2)).call(table), ShapeExpr((k, count * width)))
    product = Reshape().call(matmul.call(x, whole), ShapeExpr((batch, m, count, width)))
    by_table = PermuteDims((0, 2, 1, 3)).call(product)
    return GatherND(1).call(by_table, Reshape().call(indices, ShapeExpr((batch, 1))))
