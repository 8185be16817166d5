"""Statistics that norms return beside their result: what backward graphs read, and running ones in the mode train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ....ir import RelaxExpr
from ....prim import PrimExpr, simplify
from ..dtypes import dtype_name
from ..emitter import Emitter, product


def statistics(
    g: Emitter, x: RelaxExpr, axes: Sequence[int], eps: float, dims: Sequence[PrimExpr] | None = None
) -> list[RelaxExpr | None]:
    """Return the mean and the reciprocal deviation over axes of `x`, reshaped to `dims` first if they are given.

    They have the ranks and dtypes that torch says of the results 1 and 2 of the node; None if nothing reads them.
    """
    if not g.reads(1) and not g.reads(2):
        return [None, None]
    example = g.value[1]
    data = g.cast(x if dims is None else g.reshape(x, dims), _wide(g, x))
    keep = len(example.shape) == g.ndim(data)
    mean = g.emit(op.mean(data, axis=list(axes), keepdims=keep))
    variance = g.emit(op.variance(data, axis=list(axes), keepdims=keep))
    rstd = g.emit(op.rsqrt(op.add(variance, g.const(eps, _wide(g, x)))))
    dtype = dtype_name(example.dtype)
    return [g.cast(mean, dtype), g.cast(rstd, dtype)]


def _wide(g: Emitter, x: RelaxExpr) -> str:
    return "float64" if str(g.dtype(x)) == "float64" else "float32"


def batch_norm_in_training(
    g: Emitter, x: RelaxExpr, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float, eps: float
) -> list[RelaxExpr | None]:
    """Normalise (N, C, ...) data by the statistics of the batch.

    Returns the result, mean and reciprocal deviation of the batch, and, for the functional operator of five results,
    the running mean and variance that follow from `running_mean` and `running_var`.
    """
    wide, ndim = _wide(g, x), g.ndim(x)
    data = g.cast(x, wide)
    axes = [axis for axis in range(ndim) if axis != 1]
    mean = g.emit(op.mean(data, axis=axes, keepdims=False))
    variance = g.emit(op.variance(data, axis=axes, keepdims=False))
    rstd = g.emit(op.rsqrt(op.add(variance, g.const(eps, wide))))
    column = [g.dims(x)[1], *([1] * (ndim - 2))]
    scale = rstd if weight is None else g.emit(op.multiply(rstd, g.cast(weight, wide)))
    normed = op.multiply(op.subtract(data, g.reshape(mean, column)), g.reshape(scale, column))
    if bias is not None:
        normed = op.add(normed, g.reshape(g.cast(bias, wide), column))
    result = g.cast(g.emit(normed), str(g.dtype(x)))
    kept: list[RelaxExpr | None] = [
        g.cast(found, dtype_name(g.value[place].dtype)) if g.reads(place) else None
        for place, found in enumerate((mean, rstd), 1)
    ]
    if len(g.value) == 3:
        return [result, *kept]
    if running_mean is None or running_var is None:
        g.unsupported("a batch norm without running statistics")
    count = simplify(product(dim for axis, dim in enumerate(g.dims(x)) if axis != 1))
    size = g.tensor(count, wide)
    unbiased = op.multiply(variance, op.divide(size, op.subtract(size, g.const(1, wide))))
    moved = [
        g.cast(g.emit(_moved(g, old, new, momentum, wide)), dtype_name(example.dtype))
        for old, new, example in zip((running_mean, running_var), (mean, unbiased), g.value[3:], strict=True)
    ]
    return [result, *kept, *moved]


def _moved(g: Emitter, old: RelaxExpr, new: RelaxExpr, momentum: float, dtype: str) -> RelaxExpr:
    kept = op.multiply(g.cast(old, dtype), g.const(1 - momentum, dtype))
    return op.add(kept, op.multiply(new, g.const(momentum, dtype)))
