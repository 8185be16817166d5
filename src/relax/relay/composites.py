"""TVM's composite functions, which build several calls: ``relay.std``, ``relay.mean_std``, ``relay.mean_variance``,
``relay.variance``, ``relay.reverse_reshape``, ``relay.segment_sum``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from .expr import Expr, Tuple, const
from .operators import call_operator

Axis = Any
"""An axis, a tuple of them, or None for all."""


def _mean(data: Expr, axis: Axis, keepdims: bool, exclude: bool) -> Expr:
    return call_operator("mean", data, axis=axis, keepdims=keepdims, exclude=exclude)


def variance(
    data: Expr,
    axis: Axis = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: Expr | None = None,
) -> Expr:
    """Mean of the squared differences from the mean, which is computed unless `with_mean` is given."""
    mean = _mean(data, axis, True, exclude) if with_mean is None else with_mean
    return call_operator("variance", data, mean, axis=axis, keepdims=keepdims, exclude=exclude, unbiased=unbiased)


def std(data: Expr, axis: Axis = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False) -> Expr:
    """Square root of the variance."""
    return call_operator("sqrt", variance(data, axis, keepdims, exclude, unbiased))


def mean_variance(
    data: Expr, axis: Axis = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> Tuple:
    """Tuple of the mean and the variance."""
    wide = _mean(data, axis, True, exclude)
    return Tuple([_mean(data, axis, keepdims, exclude), variance(data, axis, keepdims, exclude, unbiased, wide)])


def mean_std(data: Expr, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Tuple:
    """Tuple of the mean and the standard deviation."""
    mean, square = mean_variance(data, axis, keepdims, exclude).fields
    return Tuple([mean, call_operator("sqrt", square)])


def reverse_reshape(data: Expr, newshape: Sequence[int]) -> Expr:
    """`reshape` whose codes are read from the last dimension to the first."""
    return call_operator("contrib_reverse_reshape", data, newshape=newshape)


def segment_sum(data: Expr, segment_ids: Expr, num_segments: int) -> Expr:
    """Row i of the result is the sum of the rows of the data whose segment id is i.

    `num_segments` is required; TVM infers it by running the program.
    """
    indices = call_operator("expand_dims", segment_ids, axis=0)
    # Zeros of a run-time shape: that of the data, with `num_segments` rows.
    shape = call_operator("shape_of", data, dtype="int64")
    sizes = call_operator("scatter_elements", shape, const(np.zeros(1, "int64")), const(np.array([num_segments])))
    zero = call_operator("cast_like", const(0.0), data)
    whole = call_operator("dyn.full", zero, sizes)
    return call_operator("scatter_nd", whole, indices, data, mode="add")


COMPOSITES: Final[dict[str, Callable[..., Expr]]] = {
    function.__name__: function for function in (mean_std, mean_variance, reverse_reshape, segment_sum, std, variance)
}
"""Functions by their TVM names."""
