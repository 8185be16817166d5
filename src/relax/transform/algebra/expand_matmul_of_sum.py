"""Multiply by each term of a sum instead of by the sum.

Before   s = R.add(a, b)                     After   lv = R.matmul(x, a)
         y = R.matmul(x, s)                          lv1 = R.matmul(x, b)
                                                     y = R.add(lv, lv1)

That pays where one term is itself a product of thin matrices, as in low-rank adapters, once AdjustMatmulOrder has
multiplied x by one thin factor after the other. A sum that is transposed before the product is expanded too.

Declines: terms not proved to be of one shape; terms that are both known before the program runs (constants, and
parameters from `num_input` on), whose sum is better computed then.

Floats are rounded in other places than before, so results differ in the last bits: the pass is not in the default
pipeline.
"""

from __future__ import annotations

from ...analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ...dpl import is_op, wildcard
from ...dpl.matching import Matched
from ...dpl.rewrite import CallRewriter
from ...expr import Function
from ...ir import IRModule, RelaxExpr
from ...op.binary import Add
from ...prim import Verdict, prove_shape_equal
from ..decorators import function_pass
from .questions import dims, known_before_running, operator_in


@function_pass(needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def ExpandMatmulOfSum(func: Function, mod: IRModule) -> Function:
    """Distribute products over sums; see the module's docstring."""
    x, a, b = wildcard(), wildcard(), wildcard()
    total = is_op("relax.add")(a, b)
    transposed = is_op("relax.permute_dims")(total)
    product = is_op("relax.matmul")(x, total | transposed)
    is_known = known_before_running(func)

    def expanded(expr: RelaxExpr, matched: Matched) -> RelaxExpr:
        terms = [matched[a], matched[b]]
        shapes = [dims(term) for term in terms]
        matmul, moved = operator_in(expr), matched.get(transposed)
        if matmul is None or all(map(is_known, terms)) or shapes[0] is None or shapes[1] is None:
            return expr
        if prove_shape_equal(shapes[0], shapes[1]) is not Verdict.YES:
            return expr
        if moved is not None:
            permute = operator_in(rewriter.value(moved))
            if permute is None:
                return expr
            terms = [permute.call(term) for term in terms]
        return Add().call(*(matmul.call(matched[x], term) for term in terms))

    rewriter = CallRewriter([(product, expanded)], mod)
    return rewriter.rewrite_function(func)
