"""Reductions, running sums, and norms over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import op
from ....expr import PrimValue, ShapeExpr
from ....ir import RelaxExpr
from ..emitter import Emitter, product
from ..registry import converter, register

Axes = Any
"""One axis, several, or none for all of them."""


def _reduction(function: Callable[..., RelaxExpr]) -> Callable[..., RelaxExpr]:
    def convert(g: Emitter, x: RelaxExpr, dim: Axes = None, keepdim: bool = False, **options: Any) -> RelaxExpr:
        data = g.tensor(x, g.out_dtype)
        return function(data, axis=g.axes(dim, g.ndim(data)), keepdims=keepdim) if g.ndim(data) else data

    return convert


for _name, _function in {"sum": op.sum, "mean": op.mean, "amax": op.max, "amin": op.min, "prod": op.prod}.items():
    register(f"aten.{_name}", _reduction(_function))


def _extreme(reduce: Callable[..., RelaxExpr], locate: Callable[..., RelaxExpr]) -> Callable[..., Any]:
    def convert(g: Emitter, x: RelaxExpr, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            return reduce(x) if g.ndim(x) else x
        if not g.ndim(x):
            return [x, g.const(0, "int64")]
        axis = g.axis(dim, g.ndim(x))
        return [reduce(x, axis=[axis], keepdims=keepdim), locate(x, axis=axis, keepdims=keepdim)]

    return convert


register("aten.max.default", _extreme(op.max, op.argmax))
register("aten.max.dim", _extreme(op.max, op.argmax))
register("aten.min.default", _extreme(op.min, op.argmin))
register("aten.min.dim", _extreme(op.min, op.argmin))


@converter("aten.max.other")
def max_other(g: Emitter, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    return op.maximum(g.tensor(a, g.out_dtype), g.tensor(b, g.out_dtype))


@converter("aten.min.other")
def min_other(g: Emitter, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    return op.minimum(g.tensor(a, g.out_dtype), g.tensor(b, g.out_dtype))


def _argument(function: Callable[..., RelaxExpr]) -> Callable[..., RelaxExpr]:
    def convert(g: Emitter, x: RelaxExpr, dim: int | None = None, keepdim: bool = False) -> RelaxExpr:
        if dim is None:
            flat = g.reshape(x, [product(g.dims(x))])
            position = g.emit(function(flat, axis=0, keepdims=False))
            return g.reshape(position, [1] * g.ndim(x)) if keepdim else position
        return function(x, axis=g.axis(dim, g.ndim(x)), keepdims=keepdim) if g.ndim(x) else g.const(0, "int64")

    return convert


register("aten.argmax", _argument(op.argmax))
register("aten.argmin", _argument(op.argmin))


@converter("aten.any")
def any_(g: Emitter, x: RelaxExpr, dim: Axes = None, keepdim: bool = False) -> RelaxExpr:
    return _quantified(g, op.max, x, dim, keepdim)


@converter("aten.all")
def all_(g: Emitter, x: RelaxExpr, dim: Axes = None, keepdim: bool = False) -> RelaxExpr:
    return _quantified(g, op.min, x, dim, keepdim)


def _quantified(g: Emitter, reduce: Any, x: RelaxExpr, dim: Axes, keepdim: bool) -> RelaxExpr:
    """Reduce by `any` (`reduce` is `op.max`) or `all` over elements that are not 0; an empty `dim` reduces no axis.

    Over no elements, `any` is False and `all` is True.
    """
    truth: RelaxExpr = op.astype(x, "bool")
    if g.ndim(x) and dim != []:
        truth = reduce(truth, axis=g.axes(dim, g.ndim(x)), keepdims=keepdim)
    return g.cast(g.emit(truth), g.out_dtype)  # of bytes torch answers in bytes


# ------------------------------------------------------------------------------------- variances, norms


def _variance(g: Emitter, x: RelaxExpr, dim: Axes, correction: Any, keepdim: bool) -> RelaxExpr:
    """The sum of squared distances from the mean, divided by max(0, count - correction), which need not be whole."""
    axes, dtype = g.axes(dim, g.ndim(x)), str(g.dtype(x))
    plain = op.variance(x, axis=axes, keepdims=keepdim)
    if correction == 0:
        return plain
    if correction != correction:  # NaN, of which torch takes the maximum with 0
        correction = float("inf")
    # A count may be more than a narrow float holds: only the quotient is one.
    count = g.tensor(product(g.dims(x)[axis] for axis in axes), "float64")
    free = g.emit(op.subtract(count, g.const(correction, "float64")))
    factor = g.emit(op.divide(count, g.emit(op.maximum(free, g.const(0, "float64")))))
    return op.multiply(plain, g.cast(factor, dtype))


def _correction(unbiased: Any, correction: Any) -> Any:
    return 1 if correction is None and unbiased is None else int(unbiased) if correction is None else correction


@converter("aten.var.correction", "aten.var.dim", "aten.var.default")
def var(
    g: Emitter, x: RelaxExpr, dim: Axes = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> RelaxExpr:
    dims, free = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    return _variance(g, x, dims, _correction(free, correction), keepdim)


@converter("aten.std.correction", "aten.std.dim", "aten.std.default")
def std(
    g: Emitter, x: RelaxExpr, dim: Axes = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> RelaxExpr:
    return op.sqrt(var(g, x, dim, unbiased, keepdim, correction=correction))


@converter("aten.var_mean.correction")
def var_mean(g: Emitter, x: RelaxExpr, dim: Axes = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    variance = _variance(g, x, dim, _correction(None, correction), keepdim)
    return [variance, op.mean(x, axis=g.axes(dim, g.ndim(x)), keepdims=keepdim)]


@converter("aten.linalg_vector_norm", "aten.norm.ScalarOpt_dim", "aten.norm.Scalar")
def vector_norm(
    g: Emitter, x: RelaxExpr, ord: Any = 2, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None
) -> RelaxExpr:
    data = g.tensor(x, g.out_dtype)
    axes = g.axes(dim, g.ndim(data))
    order = 2 if ord is None else float(ord)
    if order == 2:
        return op.sqrt(op.sum(op.multiply(data, data), axis=axes, keepdims=keepdim))
    size = g.emit(op.abs(data))
    if order == 1:
        return op.sum(size, axis=axes, keepdims=keepdim)
    if order in (float("inf"), float("-inf")):
        return (op.max if order > 0 else op.min)(size, axis=axes, keepdims=keepdim)
    if order == 0:
        return op.sum(op.astype(op.not_equal(size, g.const(0, g.out_dtype)), g.out_dtype), axis=axes, keepdims=keepdim)
    total = op.sum(op.power(size, g.const(order, g.out_dtype)), axis=axes, keepdims=keepdim)
    return op.power(total, g.const(1 / order, g.out_dtype))


@converter("aten.dist")
def dist(g: Emitter, a: RelaxExpr, b: RelaxExpr, p: Any = 2) -> RelaxExpr:
    return vector_norm(g, g.emit(op.subtract(g.tensor(a, g.out_dtype), g.tensor(b, g.out_dtype))), p)


@converter("aten.logsumexp")
def logsumexp(g: Emitter, x: RelaxExpr, dim: Axes, keepdim: bool = False) -> RelaxExpr:
    x = g.tensor(x, g.out_dtype)
    if not g.ndim(x):
        return x
    axes = g.axes(dim, g.ndim(x))
    greatest = g.emit(op.max(x, axis=axes, keepdims=True))
    level = g.emit(op.where(op.isinf(greatest), g.const(0, g.out_dtype), greatest))
    total = op.log(op.sum(op.exp(op.subtract(x, level)), axis=axes, keepdims=True))
    result = g.emit(op.add(total, level))
    return result if keepdim else op.squeeze(result, axes)


# ------------------------------------------------------------------------------------- running reductions


@converter("aten.cumsum")
def cumsum(g: Emitter, x: RelaxExpr, dim: int, dtype: Any = None) -> RelaxExpr:
    data = g.tensor(x, g.out_dtype)
    return op.cumsum(data, axis=g.axis(dim, g.ndim(data))) if g.ndim(data) else data


@converter("aten.cumprod")
def cumprod(g: Emitter, x: RelaxExpr, dim: int, dtype: Any = None) -> RelaxExpr:
    data = g.tensor(x, g.out_dtype)
    return op.cumprod(data, axis=g.axis(dim, g.ndim(data))) if g.ndim(data) else data


def _running_extreme(function: Callable[..., RelaxExpr]) -> Callable[..., Any]:
    def convert(g: Emitter, x: RelaxExpr, dim: int) -> Any:
        if not g.ndim(x):
            return [x, g.const(0, "int64")]
        return g.parts(function(x, g.axis(dim, g.ndim(x))))

    return convert


register("aten.cummax", _running_extreme(op.cummax))
register("aten.cummin", _running_extreme(op.cummin))


@converter("aten.numel", "aten.sym_numel")
def numel(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return g.emit(op.full(ShapeExpr([]), PrimValue(product(g.dims(x))), "int64"))
