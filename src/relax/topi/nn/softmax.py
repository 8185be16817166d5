"""Softmax and its logarithm."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import te
from ...prim import Select, const, intrin
from ..util import accumulator_dtype, normalize_axis


def _along(x: te.Tensor, axis: int) -> tuple[Any, Any]:
    """For the softmaxes: x - max in the accumulator dtype, and sums of functions of it along the axis."""
    wide = accumulator_dtype(x.dtype)
    outer_shape = [size for d, size in enumerate(x.shape) if d != axis]

    def insert(outer: Sequence[Any], value: Any) -> list[Any]:
        return [*outer[:axis], value, *outer[axis:]]

    k = te.reduce_axis((0, x.shape[axis]), "k")
    largest = te.compute(
        outer_shape, lambda *o: te.max(x(*insert(o, k.var)), axis=k), "softmax_max", tag="comm_reduce"
    )

    def shifted(index: Sequence[Any]) -> Any:
        outer = [i for d, i in enumerate(index) if d != axis]
        return x(*index).astype(wide) - largest(*outer).astype(wide)

    def total(function: Any, name: str) -> te.Tensor:
        e = te.reduce_axis((0, x.shape[axis]), "k")
        return te.compute(
            outer_shape,
            lambda *o: te.sum(function(shifted(insert(o, e.var))), axis=e),
            name,
            tag="comm_reduce",
        )

    return shifted, total


def softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """exp(x - max x) / Σ exp(x - max x) along one axis."""
    axis = normalize_axis(axis, x.ndim)
    shifted, sum_of = _along(x, axis)
    total = sum_of(intrin.exp, "softmax_sum")
    exps = te.compute(x.shape, lambda *i: intrin.exp(shifted(i)), "softmax_exp", tag="elemwise")

    def formula(*i: Any) -> Any:
        outer = [v for d, v in enumerate(i) if d != axis]
        # One division a row: the total is 1 or more.
        return (exps(*i) * (const(1, total.dtype) / total(*outer))).astype(x.dtype)

    return te.compute(x.shape, formula, "softmax")


def log_softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """(x - max x) - log Σ exp(x - max x) along one axis.

    The sum is 1 for each greatest element and the rest, which is below 1 where only one is the greatest: the logarithm
    is taken as log1p, as the rest may be too small to be seen beside 1.
    """
    axis = normalize_axis(axis, x.ndim)
    wide = accumulator_dtype(x.dtype)
    zero, one = const(0, wide), const(1, wide)
    shifted, sum_of = _along(x, axis)
    rest = sum_of(lambda value: Select(value.equal(zero), zero, intrin.exp(value)), "softmax_rest")
    greatest = sum_of(lambda value: Select(value.equal(zero), one, zero), "softmax_count")

    def formula(*i: Any) -> Any:
        outer = [v for d, v in enumerate(i) if d != axis]
        return (shifted(i) - intrin.log1p(rest(*outer) + (greatest(*outer) - one))).astype(x.dtype)

    return te.compute(x.shape, formula, "log_softmax")
