"""Softmax and its logarithm."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import te
from ...prim import Select, const, intrin
from ..util import accumulator_dtype, normalize_axis


def _along(x: te.Tensor, axis: int) -> tuple[Any, Any]:
    """Return (x - max in the accumulator dtype, function that sums an expression of each element along the axis)."""
    wide = accumulator_dtype(x.dtype)
    outer_shape = [size for d, size in enumerate(x.shape) if d != axis]

    def insert(outer: Sequence[Any], value: Any) -> list[Any]:
        return [*outer[:axis], value, *outer[axis:]]

    k = te.reduce_axis((0, x.shape[axis]), "k")
    largest = te.compute(outer_shape, lambda *o: te.max(x(*insert(o, k.var)), axis=k), "softmax_max", tag="comm_reduce")

    def shifted(*index: Any) -> Any:
        outer = [i for d, i in enumerate(index) if d != axis]
        return x(*index).astype(wide) - largest(*outer).astype(wide)

    def total(element: Callable[..., Any], name: str) -> te.Tensor:
        e = te.reduce_axis((0, x.shape[axis]), "k")
        return te.compute(outer_shape, lambda *o: te.sum(element(*insert(o, e.var)), axis=e), name, tag="comm_reduce")

    return shifted, total


def softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """exp(x - max x) / Σ exp(x - max x) along one axis."""
    axis = normalize_axis(axis, x.ndim)
    shifted, sum_of = _along(x, axis)
    total = sum_of(lambda *i: intrin.exp(shifted(*i)), "softmax_sum")
    exps = te.compute(x.shape, lambda *i: intrin.exp(shifted(*i)), "softmax_exp", tag="elemwise")

    def formula(*i: Any) -> Any:
        outer = [v for d, v in enumerate(i) if d != axis]
        # One division a row: the total is 1 or more.
        return (exps(*i) * (const(1, total.dtype) / total(*outer))).astype(x.dtype)

    return te.compute(x.shape, formula, "softmax")


def log_softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """(x - max x) - log Σ exp(x - max x) along one axis.

    Maximal elements contribute 1 to the sum. If the sum is below 2, the result is log1p of the remaining terms, summed
    separately, so that small terms are not lost beside the 1.
    """
    axis = normalize_axis(axis, x.ndim)
    sub, sum_of = _along(x, axis)
    shifted = te.compute(x.shape, sub, "softmax_shifted", tag="elemwise")
    exps = te.compute(x.shape, lambda *i: intrin.exp(shifted(*i)), "softmax_exp", tag="elemwise")
    wide = exps.dtype
    # -0 changes no sum: adding it or an exponential is one addition with a mask.
    zero, nothing, one, two = (const(value, wide) for value in (0.0, -0.0, 1.0, 2.0))
    total = sum_of(exps, "softmax_sum")
    rest = sum_of(lambda *i: Select(shifted(*i) < zero, exps(*i), nothing), "softmax_rest")

    def logarithm(*outer: Any) -> Any:
        return intrin.log1p(Select(total(*outer) < two, rest(*outer), total(*outer) - one))

    logs = te.compute(total.shape, logarithm, "softmax_log", tag="elemwise")

    def formula(*i: Any) -> Any:
        return (shifted(*i) - logs(*(v for d, v in enumerate(i) if d != axis))).astype(x.dtype)

    return te.compute(x.shape, formula, "log_softmax")
