"""Pools of adaptive windows: window i of m along an axis of n elements covers [⌊i·n/m⌋, ⌈(i + 1)·n/m⌉)."""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .... import op, te
from ....ir import RelaxExpr
from ....prim import IntImm, PrimExpr, const, intrin, simplify
from ..emitter import Emitter, product
from ..registry import register
from .nn import Numbers, each, in_batch, max_pool

_AVERAGE = {1: op.nn.adaptive_avg_pool1d, 2: op.nn.adaptive_avg_pool2d, 3: op.nn.adaptive_avg_pool3d}


def _adaptive_avg_pool(count: int) -> Callable[..., RelaxExpr]:
    def convert(g: Emitter, x: RelaxExpr, output_size: Numbers) -> RelaxExpr:
        sizes = each(output_size, count)
        if all(size == 1 for size in sizes):
            return op.mean(x, axis=list(range(g.ndim(x) - count, g.ndim(x))), keepdims=True)
        return in_batch(g, x, count, lambda data: _AVERAGE[count](data, output_size=sizes))

    return convert


def _adaptive_max_pool(count: int) -> Callable[..., Any]:
    def convert(g: Emitter, x: RelaxExpr, output_size: Numbers) -> Any:
        sizes, ndim = each(output_size, count), g.ndim(x)
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
