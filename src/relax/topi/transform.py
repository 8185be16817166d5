"""Formulas that move elements: shapes, slices, joining, gathering, and the creation of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import te
from ..ir import DataType
from ..prim import FloatImm, IntImm, PrimExpr, Select, const, convert, dimensions, intrin, is_const, simplify
from ..prim import cast as cast_expr
from .broadcast import broadcast_shape, read_broadcast, same_size
from .indexing import as_int64, from_front
from .slicing import at_least_zero, section_slices, slice_of
from .util import normalize_axes, normalize_axis, truth

Indices = Sequence[Any]


def _product(sizes: Sequence[PrimExpr]) -> PrimExpr:
    result: PrimExpr = const(1, "int64")
    for size in sizes:
        result = result * size
    return simplify(result)


def transpose(x: te.Tensor, axes: Sequence[int] | None = None) -> te.Tensor:
    """Dimension d of the result is dimension axes[d] of x; without axes they are reversed."""
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(normalize_axis(a, x.ndim) for a in axes)
    dimension_of = {source: d for d, source in enumerate(order)}
    return te.compute(
        [x.shape[a] for a in order],
        lambda *i: x(*(i[dimension_of[d]] for d in range(x.ndim))),
        "T_transpose",
        tag="injective",
    )


def reshape(x: te.Tensor, newshape: Sequence[Any]) -> te.Tensor:
    """The elements in the same order, in another shape of as many elements."""
    shape = dimensions(newshape)
    lead, trail = _common_ends(x.shape, shape)
    source = x.shape[lead : x.ndim - trail]
    target = shape[lead : len(shape) - trail]

    def read(*i: Any) -> PrimExpr:
        stop = len(shape) - trail
        middle = _unflatten(_flatten(i[lead:stop], target), source)
        return x(*i[:lead], *middle, *i[stop:])

    return te.compute(shape, read, "T_reshape", tag="injective")


def _common_ends(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> tuple[int, int]:
    """Numbers of leading and of trailing dimensions common to both shapes, which need no index arithmetic."""
    most = min(len(a), len(b))
    lead = 0
    while lead < most and same_size(a[lead], b[lead]):
        lead += 1
    trail = 0
    while trail < most - lead and same_size(a[-1 - trail], b[-1 - trail]):
        trail += 1
    return lead, trail


def _flatten(indices: Indices, shape: Sequence[PrimExpr]) -> PrimExpr:
    flat: PrimExpr = const(0, "int64")
    for i, size in zip(indices, shape, strict=True):
        flat = i if is_const(flat, 0) else flat * size + i
    return flat


def _unflatten(flat: PrimExpr, shape: Sequence[PrimExpr]) -> list[PrimExpr]:
    result: list[PrimExpr] = []
    stride: PrimExpr = const(1, "int64")
    for d in reversed(range(len(shape))):
        index = flat if is_const(stride, 1) else intrin.floordiv(flat, stride)
        result.append(index if d == 0 else intrin.floormod(index, shape[d]))
        stride = simplify(stride * shape[d])
    return result[::-1]


def flatten(x: te.Tensor) -> te.Tensor:
    """All elements in one dimension."""
    return reshape(x, [_product(x.shape)])


def expand_dims(x: te.Tensor, axis: int | Sequence[int]) -> te.Tensor:
    """Add dimensions of size 1 at these indices of the result."""
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    ndim = x.ndim + len(given)
    new = set(normalize_axes(given, ndim))
    sizes = iter(x.shape)
    shape = [const(1, "int64") if d in new else next(sizes) for d in range(ndim)]
    return te.compute(
        shape, lambda *i: x(*(i[d] for d in range(ndim) if d not in new)), "T_expand_dims", tag="injective"
    )


def squeeze(x: te.Tensor, axis: int | Sequence[int] | None = None) -> te.Tensor:
    """Remove these dimensions, which have size 1; by default all that are proved to have it."""
    if axis is None:
        dropped = {d for d, size in enumerate(x.shape) if is_const(size, 1)}
    else:
        dropped = set(normalize_axes(axis, x.ndim))

    def read(*i: Any) -> PrimExpr:
        rest = iter(i)
        return x(*(const(0, "int64") if d in dropped else next(rest) for d in range(x.ndim)))

    shape = [size for d, size in enumerate(x.shape) if d not in dropped]
    return te.compute(shape, read, "T_squeeze", tag="injective")


def concatenate(tensors: Sequence[te.Tensor], axis: int = 0) -> te.Tensor:
    """Concatenate tensors along an axis."""
    first = tensors[0]
    axis = normalize_axis(axis, first.ndim)
    starts: list[PrimExpr] = []
    total: PrimExpr = const(0, "int64")
    for tensor in tensors:
        starts.append(total)
        total = simplify(total + tensor.shape[axis])

    def read(*i: Any) -> PrimExpr:
        def among(low: int, high: int) -> PrimExpr:
            """Read the element from one of the tensors low … high - 1, by binary search."""
            if high - low == 1:
                inside = i[axis] if is_const(starts[low], 0) else i[axis] - starts[low]
                return tensors[low](*i[:axis], inside, *i[axis + 1 :])
            middle = (low + high) // 2
            return intrin.if_then_else(i[axis] < starts[middle], among(low, middle), among(middle, high))

        return among(0, len(tensors))

    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    return te.compute(shape, read, "T_concat", tag="injective")


def stack(tensors: Sequence[te.Tensor], axis: int = 0) -> te.Tensor:
    """Stack tensors along a new axis."""
    return concatenate([expand_dims(tensor, axis) for tensor in tensors], axis)


def split(x: te.Tensor, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[te.Tensor]:
    """x cut along an axis: see `slicing.section_slices`."""
    axis = normalize_axis(axis, x.ndim)
    tensors: list[te.Tensor] = []
    for section in section_slices(x.shape[axis], indices_or_sections):
        shape = (*x.shape[:axis], section.size, *x.shape[axis + 1 :])

        def read(*i: Any, section: Any = section) -> PrimExpr:
            return x(*i[:axis], section.at(i[axis]), *i[axis + 1 :])

        tensors.append(te.compute(shape, read, "T_split", tag="injective", varargs_names=_names(x.ndim)))
    return tensors


def _names(ndim: int) -> list[str]:
    return [f"i{d}" for d in range(ndim)]


def strided_slice(
    x: te.Tensor,
    begin: Sequence[Any],
    end: Sequence[Any],
    strides: Sequence[int | PrimExpr] | None = None,
    axes: Sequence[int] | None = None,
    assume_inbound: bool = False,
) -> te.Tensor:
    """``x[begin:end:stride]`` along each of the axes (default: the first ones)."""
    chosen = range(len(begin)) if axes is None else [normalize_axis(a, x.ndim) for a in axes]
    steps = [1] * len(begin) if strides is None else strides
    slices = {
        axis: slice_of(x.shape[axis], b, e, s, assume_inbound)
        for axis, b, e, s in zip(chosen, begin, end, steps, strict=True)
    }
    shape = [slices[d].size if d in slices else x.shape[d] for d in range(x.ndim)]
    return te.compute(
        shape,
        lambda *i: x(*(slices[d].at(i[d]) if d in slices else i[d] for d in range(x.ndim))),
        "T_strided_slice",
        tag="injective",
    )


def flip(x: te.Tensor, axis: int | Sequence[int] | None = 0) -> te.Tensor:
    """x with the order of elements reversed along these axes."""
    flipped = set(normalize_axes(axis, x.ndim))
    return te.compute(
        x.shape,
        lambda *i: x(*(x.shape[d] - 1 - i[d] if d in flipped else i[d] for d in range(x.ndim))),
        "T_flip",
        tag="injective",
    )


def repeat(x: te.Tensor, repeats: int | PrimExpr, axis: int | None = None) -> te.Tensor:
    """Each element `repeats` times, along an axis; without axis, of x flattened."""
    if axis is None:
        return repeat(flatten(x), repeats, 0)
    axis = normalize_axis(axis, x.ndim)
    shape = (*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :])
    return te.compute(
        shape, lambda *i: x(*i[:axis], intrin.floordiv(i[axis], repeats), *i[axis + 1 :]), "T_repeat", tag="injective"
    )


def meshgrid(tensors: Sequence[te.Tensor], indexing: str = "ij") -> list[te.Tensor]:
    """Coordinate grids: vector i varies along dimension i of a grid with one dimension per vector.

    The indexing "xy" exchanges the first two dimensions.
    """
    order = list(range(len(tensors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    sizes = [tensor.shape[0] if tensor.ndim else const(1, "int64") for tensor in tensors]
    shape = [sizes[d] for d in order]
    grids: list[te.Tensor] = []
    for d, tensor in enumerate(tensors):

        def read(*i: Any, dimension: int = order.index(d), tensor: te.Tensor = tensor) -> PrimExpr:
            return tensor(i[dimension]) if tensor.ndim else tensor()

        grids.append(te.compute(shape, read, "T_meshgrid", tag="injective", varargs_names=_names(len(shape))))
    return grids


def tile(x: te.Tensor, reps: Sequence[int | PrimExpr]) -> te.Tensor:
    """x repeated reps[d] times along dimension d; missing dimensions are new, missing counts are 1."""
    ndim = max(x.ndim, len(reps))
    sizes = (*[const(1, "int64")] * (ndim - x.ndim), *x.shape)
    counts = dimensions([*[1] * (ndim - len(reps)), *reps])
    offset = ndim - x.ndim
    return te.compute(
        [size * count for size, count in zip(sizes, counts, strict=True)],
        lambda *i: x(
            *(
                i[offset + d] if is_const(counts[offset + d], 1) else intrin.floormod(i[offset + d], x.shape[d])
                for d in range(x.ndim)
            )
        ),
        "T_tile",
        tag="injective",
    )


def take(x: te.Tensor, indices: Any, axis: int | None = None, mode: str = "fast") -> te.Tensor:
    """x at the indices along an axis; without axis, of x flattened. A negative index counts from the end.

    The mode for an index out of range: "fast" is an error at run time, "clip" takes the nearest element, "wrap" the
    index modulo the size, "nan" NaN (of integers, 0).
    """
    if axis is None:
        return take(x if x.ndim == 1 else flatten(x), indices, 0, mode)
    axis = normalize_axis(axis, x.ndim)
    index_shape = indices.shape if isinstance(indices, te.Tensor) else ()
    count = len(index_shape)
    size = x.shape[axis]

    def read(*i: Any) -> PrimExpr:
        raw = indices(*i[axis : axis + count]) if isinstance(indices, te.Tensor) else convert(indices)
        before, after = i[:axis], i[axis + count :]
        if mode == "wrap":
            # Of nothing, nothing can be taken: the index that is read is then out of range.
            divisor = intrin.max(size, const(1, "int64"))
            if raw.dtype == "uint64":
                raw = intrin.floormod(raw, cast_expr("uint64", divisor))
            return x(*before, intrin.floormod(cast_expr("int64", raw), divisor), *after)
        if mode == "clip":
            inside = intrin.max(intrin.min(as_int64(raw), size - 1), const(0, "int64"))
            return x(*before, inside, *after)
        index = from_front(raw, size)
        value = x(*before, index, *after)
        if mode == "nan":
            missing = intrin.nan(x.dtype) if x.dtype.is_float else const(0, x.dtype)
            inside = intrin.all(index >= 0, index < size)
            return intrin.if_then_else(inside, value, missing)
        return value

    shape = (*x.shape[:axis], *index_shape, *x.shape[axis + 1 :])
    return te.compute(shape, read, "T_take", tag="injective")


def where(condition: te.Tensor, x: Any, y: Any) -> te.Tensor:
    """x where the condition holds, else y; all three broadcast."""
    shape = broadcast_shape(*(t.shape for t in (condition, x, y) if isinstance(t, te.Tensor)))

    def choose(*i: Any) -> PrimExpr:
        c, a, b = (read_broadcast(t, shape, i) for t in (condition, x, y))
        return Select(truth(c), a, b)

    return te.compute(shape, choose, "T_where", tag="broadcast")


def full(shape: Sequence[Any], dtype: str, fill_value: Any) -> te.Tensor:
    """A tensor filled with one value: a number, a scalar, or a tensor of rank 0."""
    value = convert(fill_value)
    return te.compute(shape, lambda *_: cast_expr(dtype, value), "T_full", tag="elemwise")


def full_like(x: te.Tensor, fill_value: Any) -> te.Tensor:
    """A tensor of x's shape and dtype, filled with one value."""
    return full(x.shape, x.dtype, fill_value)


def arange(start: Any, stop: Any, step: Any = 1, dtype: str = "int64") -> te.Tensor:
    """start, start + step, … as long as stop is not reached."""
    first, last, by = convert(start), convert(stop), convert(step)
    kind = DataType(dtype)
    size = arange_size(first, last, by)
    wide = kind if kind.bits >= 32 or not kind.is_float else DataType("float32")
    begin, delta = cast_expr(wide, first), cast_expr(wide, by)
    return te.compute(
        (size,), lambda *i: cast_expr(kind, begin + cast_expr(wide, i[0]) * delta), "T_arange", tag="injective"
    )


def arange_size(start: PrimExpr, stop: PrimExpr, step: PrimExpr) -> PrimExpr:
    """Number of elements of `arange`. Raises ValueError for a step of 0, or a size that cannot be expressed."""
    if isinstance(step, (IntImm, FloatImm)) and step.value == 0:
        raise ValueError("the step must not be 0")
    if all(expr.dtype.is_integer for expr in (start, stop, step)):
        start, stop, step = (cast_expr("int64", expr) for expr in (start, stop, step))
        if isinstance(step, IntImm):
            distance = stop - start if step.value > 0 else start - stop
            if abs(step.value) >= 1 << 31:  # the sum with it in `ceildiv` may overflow
                return at_least_zero(simplify(-intrin.floordiv(simplify(-distance), const(abs(step.value), "int64"))))
            return at_least_zero(simplify(intrin.ceildiv(simplify(distance), abs(step.value))))
        return at_least_zero(simplify(-intrin.floordiv(start - stop, step)))
    values = [expr.value for expr in (start, stop, step) if isinstance(expr, (IntImm, FloatImm))]
    if len(values) < 3:
        raise ValueError("floating-point bounds must be constants")
    low, high, by = values
    count = (high - low) / by
    if math.isnan(count) or math.isinf(count):
        raise ValueError("the bounds must be finite")
    return const(max(0, math.ceil(count)), "int64")
