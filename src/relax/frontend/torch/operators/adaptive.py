"""Pools of adaptive windows: window i of m along an axis of n elements covers [⌊i·n/m⌋, ⌈(i + 1)·n/m⌉)."""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from .... import op, te
from ....expr import PrimValue
from ....ir import RelaxExpr
from ....prim import IntImm, PrimExpr, const, intrin, simplify
from ..emitter import Dim, Emitter, as_dim, product
from ..registry import register
from .backward import adaptive_average_backward
from .nn import Numbers, each, in_batch, max_pool

_AVERAGE = {1: op.nn.adaptive_avg_pool1d, 2: op.nn.adaptive_avg_pool2d, 3: op.nn.adaptive_avg_pool3d}


def _adaptive_avg_pool(count: int) -> Callable[..., RelaxExpr]:
    def convert(g: Emitter, x: RelaxExpr, output_size: Numbers) -> RelaxExpr:
        sizes = cast("Sequence[Any]", each(output_size, count))
        if all(size == 1 for size in sizes):
            return op.mean(x, axis=list(range(g.ndim(x) - count, g.ndim(x))), keepdims=True)
        if not all(isinstance(size, int) for size in sizes):
            shares = [_shares(g, size, n) for size, n in zip(sizes, g.dims(x)[-count:], strict=True)]
            return _along_each(g, x, shares)
        return in_batch(g, x, count, lambda data: _AVERAGE[count](data, output_size=sizes))

    return convert


def _shares(g: Emitter, count: Dim, size: Dim) -> RelaxExpr:
    """Return a float64 matrix (count, size): entry (i, j) is the weight of element j in the mean of window i, or 0."""
    m, n = (g.tensor(number, "int64") for number in (count, size))
    one = g.const(1, "int64")
    window = g.emit(op.expand_dims(op.arange(PrimValue(as_dim(count)), dtype="int64"), [1]))
    place = g.emit(op.arange(PrimValue(as_dim(size)), dtype="int64"))
    start = g.emit(op.floor_divide(op.multiply(window, n), m))
    end = op.floor_divide(op.subtract(op.add(op.multiply(op.add(window, one), n), m), one), m)
    end = g.emit(end)
    inside = op.logical_and(op.greater_equal(place, start), op.less(place, end))
    return g.emit(op.divide(op.astype(inside, "float64"), op.astype(op.subtract(end, start), "float64")))


def _along_each(g: Emitter, x: RelaxExpr, matrices: Sequence[RelaxExpr]) -> RelaxExpr:
    """Return x, each of whose last axes is multiplied by a matrix."""
    dtype, ndim = str(g.dtype(x)), g.ndim(x)
    wide = "float64" if dtype == "float64" else "float32"
    result = g.cast(x, wide)
    for axis, matrix in enumerate(matrices, ndim - len(matrices)):
        order = [*(a for a in range(ndim) if a != axis), axis]
        back = sorted(range(ndim), key=order.__getitem__)
        moved = op.matmul(op.permute_dims(result, order), op.permute_dims(g.cast(matrix, wide)))
        result = g.emit(op.permute_dims(g.emit(moved), back))
    return g.cast(result, dtype)


def _adaptive_avg_pool_backward(count: int) -> Callable[..., RelaxExpr]:
    """Return the converter of gradients of pools to open sizes; others have rules of their operators."""

    def convert(g: Emitter, grad: RelaxExpr, x: RelaxExpr) -> RelaxExpr:
        sizes, dims = g.dims(grad)[-count:], g.dims(x)[-count:]
        if all(isinstance(size, IntImm) for size in sizes):
            return adaptive_average_backward(count)(g, grad, x)
        shares = [_shares(g, size, n) for size, n in zip(sizes, dims, strict=True)]
        return _along_each(g, grad, [g.emit(op.permute_dims(matrix)) for matrix in shares])

    return convert


def _adaptive_max_pool(count: int) -> Callable[..., Any]:
    def convert(g: Emitter, x: RelaxExpr, output_size: Numbers) -> Any:
        sizes = cast("Sequence[Any]", each(output_size, count))
        ndim = g.ndim(x)
        dims = [dim.value if isinstance(dim, IntImm) else 0 for dim in g.dims(x)[-count:]]
        if all(size == 1 for size in sizes) and not g.reads(1):
            return [op.max(x, axis=list(range(ndim - count, ndim)), keepdims=True), None]
        if all(dim and size > 0 and dim % size == 0 for dim, size in zip(dims, sizes, strict=True)):
            window = [dim // size for dim, size in zip(dims, sizes, strict=True)]
            return max_pool(count, True)(g, x, window)
        if not all(isinstance(size, int) for size in sizes):
            g.unsupported("an adaptive maximum pool to open sizes")
        is_indexed = g.reads(1)

        def pooled(data: te.Tensor) -> Any:
            values, places = _maxima(data, sizes)
            return [values, places] if is_indexed else values

        flat = g.reshape(x, [product(g.dims(x)[:-count]), *g.dims(x)[-count:]])
        found = g.builder.emit_te(pooled, flat, primfunc_name_hint=f"adaptive_max_pool{count}d")
        shape = [*g.dims(x)[:-count], *sizes]
        results = g.parts(found) if is_indexed else [g.emit(found)]
        return [*(g.reshape(result, shape) for result in results), *([] if is_indexed else [None])]

    return convert


def _maxima(data: te.Tensor, sizes: Sequence[int]) -> tuple[te.Tensor, te.Tensor]:
    """Return the maximum of each window of (batch, ...) data, and the place of the first one in its plane.

    As many elements are read of each window as of the longest.
    """
    shape: list[PrimExpr] = [data.shape[0], *(const(size, "int64") for size in sizes)]
    spatial = list(enumerate(zip(data.shape[1:], shape[1:], strict=True), 1))
    longest = [simplify(intrin.ceildiv(n, m) + int(not _divides(n, m))) for _, (n, m) in spatial]

    def taps() -> list[Any]:
        return [te.reduce_axis((0, length), f"r{axis}") for axis, length in enumerate(longest)]

    def element(i: Sequence[Any], window: Sequence[Any]) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
        """The element that is read, its place in the plane, and whether it is in the window."""
        index, place, inside = [i[0]], const(0, "int64"), list[PrimExpr]()
        for (axis, (n, m)), tap in zip(spatial, window, strict=True):
            position = intrin.floordiv(i[axis] * n, m) + tap.var
            inside.append(position < intrin.ceildiv((i[axis] + 1) * n, m))
            index.append(intrin.min(position, n - 1))
            place = place * n + position
        return data(*index), place, intrin.all(*inside)

    window, others = taps(), taps()
    dtype, last = data.dtype, intrin.max_value("int64")
    lowest = const(-math.inf, dtype) if dtype.is_float else intrin.min_value(str(dtype))

    def greatest(*i: Any) -> PrimExpr:
        value, _, inside = element(i, window)
        return te.max(intrin.if_then_else(inside, value, lowest), axis=window)

    values = te.compute(shape, greatest, "adaptive_max")

    def first(*i: Any) -> PrimExpr:
        value, place, inside = element(i, others)
        is_greatest = value.equal(values(*i))
        if dtype.is_float:
            is_greatest = intrin.any(is_greatest, intrin.isnan(value))
        return te.min(intrin.if_then_else(intrin.all(inside, is_greatest), place, last), axis=others)

    return values, te.compute(shape, first, "adaptive_max_places")


def _divides(size: PrimExpr, count: PrimExpr) -> bool:
    rest = simplify(intrin.floormod(size, count))
    return isinstance(rest, IntImm) and rest.value == 0


for _count in (1, 2, 3):
    register(f"aten.adaptive_avg_pool{_count}d", _adaptive_avg_pool(_count))
    register(f"aten._adaptive_avg_pool{_count}d", _adaptive_avg_pool(_count))
    register(f"aten.adaptive_max_pool{_count}d", _adaptive_max_pool(_count))
for _count in (2, 3):
    register(f"aten._adaptive_avg_pool{_count}d_backward", _adaptive_avg_pool_backward(_count))
