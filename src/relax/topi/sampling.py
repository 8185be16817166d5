"""Formulas that sample from distributions, given uniform random numbers."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

from .. import te
from ..prim import PrimExpr, const, intrin
from ..prim import cast as cast_expr
from .reduction import cumsum
from .transform import take
from .util import accumulator_dtype


def multinomial_from_uniform(
    prob: te.Tensor, uniform_sample: te.Tensor, sample_indices: te.Tensor | None = None, dtype: str = "int64"
) -> te.Tensor:
    """For each uniform number, the first index at which the cumulative sum of its row of probabilities exceeds it.

    Number i uses row i, or row sample_indices[i]. If rounding keeps the total below the number, the last index is
    returned.
    """
    wide = accumulator_dtype(prob.dtype)
    sums = cumsum(prob, 1, wide)
    if sample_indices is not None:
        rows: te.Tensor = sample_indices
        sums = take(sums, te.compute((rows.shape[0],), lambda i: rows(i, const(0, "int64")), "rows"), 0)
    k = te.reduce_axis((0, prob.shape[1]), "k")

    def passed(i: PrimExpr) -> Any:
        number = cast_expr(wide, uniform_sample(i, const(0, "int64")))
        return te.sum(cast_expr("int64", sums(i, k) <= number), axis=[k])

    count = te.compute((uniform_sample.shape[0],), passed, "passed", tag="comm_reduce")
    last = prob.shape[1] - 1
    return te.compute(uniform_sample.shape, lambda i, _: cast_expr(dtype, intrin.min(count(i), last)), "multinomial")
