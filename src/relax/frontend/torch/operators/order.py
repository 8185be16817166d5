"""Order statistics, distinct elements, counts, and reductions at indices."""

from __future__ import annotations

from typing import Any

from .... import op, topi
from ....expr import PrimValue, ShapeExpr, Tuple
from ....ir import DataType, RelaxExpr
from ....prim import IntImm, simplify
from ..emitter import Dim, Emitter, as_dim, product
from ..registry import converter

# ------------------------------------------------------------------------------------- order statistics


def _vector(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    """Return x flattened to one dimension."""
    return g.reshape(x, [product(g.dims(x))])


def _row_numbers(g: Emitter, x: RelaxExpr, axis: int) -> RelaxExpr:
    """Return int64 indices along `axis` that broadcast to x."""
    size = g.dims(x)[axis]
    shape: list[Dim] = [1] * g.ndim(x)
    shape[axis] = size
    return g.reshape(g.emit(op.arange(PrimValue(size), dtype="int64")), shape)


def _chosen(g: Emitter, x: RelaxExpr, places: RelaxExpr, axis: int, keepdim: bool) -> RelaxExpr:
    """Return the element of x at `places`, one for each row along `axis`."""
    found = g.emit(op.gather_elements(x, places, axis))
    return found if keepdim else g.emit(op.squeeze(found, [axis]))


@converter("aten.kthvalue")
def kthvalue(g: Emitter, x: RelaxExpr, k: Dim, dim: int = -1, keepdim: bool = False) -> list[RelaxExpr]:
    """The k-th least element and its index; a NaN is greater than every number."""
    if not g.ndim(x):
        return [x, g.const(0, "int64")]
    axis = g.axis(dim, g.ndim(x))
    size, rank = g.dims(x)[axis], as_dim(k)
    if isinstance(rank, IntImm) and (rank.value < 1 or g.is_true(rank <= size) is False):
        raise g.error(f"k is {rank} along an axis of size {size}", hint="pass a k from 1 to the size of the axis")
    order = g.emit(op.argsort(x, axis, False, "int64"))
    place = g.emit(op.strided_slice(order, [axis], [simplify(rank - 1)], [rank], [1]))
    sizes = g.dims(x)
    sizes[axis] = as_dim(1)
    place = g.cast_shape(place, sizes)  # a symbolic k out of range is an error when the program runs
    return [_chosen(g, x, place, axis, keepdim), place if keepdim else g.emit(op.squeeze(place, [axis]))]


@converter("aten.median.default")
def median(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return op.median(_vector(g, x)) if g.ndim(x) else x


@converter("aten.median.dim")
def median_dim(g: Emitter, x: RelaxExpr, dim: int, keepdim: bool = False) -> Any:
    if not g.ndim(x):
        return [x, g.const(0, "int64")]
    return g.parts(op.median(x, axis=[g.axis(dim, g.ndim(x))], keepdims=keepdim))


@converter("aten.nanmedian.dim")
def nanmedian_dim(g: Emitter, x: RelaxExpr, dim: int, keepdim: bool = False) -> Any:
    """The lower median of the numbers of each row, NaN for a row without numbers."""
    if not g.ndim(x):
        return [x, g.const(0, "int64")]
    axis = g.axis(dim, g.ndim(x))
    if not g.dtype(x).is_float:
        return median_dim(g, x, dim, keepdim)
    order = g.emit(op.argsort(x, axis, False, "int64"))
    numbers = op.astype(op.logical_not(op.isnan(x)), "int64")
    count = g.emit(op.sum(numbers, axis=[axis], keepdims=True))
    middle = op.floor_divide(op.subtract(count, g.const(1, "int64")), g.const(2, "int64"))
    rank = g.emit(op.maximum(middle, g.const(0, "int64")))
    place = g.emit(op.gather_elements(order, rank, axis))
    return [_chosen(g, x, place, axis, keepdim), place if keepdim else g.emit(op.squeeze(place, [axis]))]


@converter("aten.nanmedian.default")
def nanmedian(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return nanmedian_dim(g, _vector(g, x), 0)[0] if g.ndim(x) else x


@converter("aten.mode")
def mode(g: Emitter, x: RelaxExpr, dim: int = -1, keepdim: bool = False) -> list[RelaxExpr]:
    """The least of the most frequent elements, and the index of its last occurrence.

    The longest run of the sorted row: an element's distance from the start of its run, which is a running maximum of
    the places at which runs start.
    """
    if not g.ndim(x):
        return [x, g.const(0, "int64")]
    axis = g.axis(dim, g.ndim(x))
    order = g.emit(op.argsort(x, axis, False, "int64"))
    ranked = g.emit(op.gather_elements(x, order, axis))
    places = _row_numbers(g, x, axis)
    before = g.emit(op.maximum(op.subtract(places, g.const(1, "int64")), g.const(0, "int64")))
    earlier = g.emit(op.gather_elements(ranked, op.broadcast_to(before, ShapeExpr(g.dims(x))), axis))
    starts = g.emit(op.where(op.not_equal(ranked, earlier), places, g.const(0, "int64")))
    run_start = g.parts(op.cummax(starts, axis))[0]
    longest = g.emit(op.argmax(op.subtract(places, run_start), axis=axis, keepdims=True))
    place = g.emit(op.gather_elements(order, longest, axis))
    return [_chosen(g, x, place, axis, keepdim), place if keepdim else g.emit(op.squeeze(place, [axis]))]


# ------------------------------------------------------------------------------------- distinct elements


def _runs(g: Emitter, ranked: RelaxExpr) -> tuple[RelaxExpr, RelaxExpr, RelaxExpr]:
    """Return the first element of each run of equal elements of a vector, the run of each element, and run lengths."""
    count = g.dims(ranked)[0]
    places = _row_numbers(g, ranked, 0)
    before = op.maximum(op.subtract(places, g.const(1, "int64")), g.const(0, "int64"))
    changes = op.not_equal(ranked, op.take(ranked, before, 0))
    starts = g.emit(op.logical_or(changes, op.equal(places, g.const(0, "int64"))))
    found = g.emit(op.nonzero(starts))
    first = g.reshape(found, [g.dims(found)[1]])
    run = g.emit(op.subtract(op.cumsum(op.astype(starts, "int64"), axis=0), g.const(1, "int64")))
    ones = op.broadcast_to(g.const(1, "int64"), ShapeExpr([count]))
    zeros = op.broadcast_to(g.const(0, "int64"), ShapeExpr(g.dims(first)))
    lengths = g.emit(op.scatter_elements(zeros, run, ones, 0, "add"))
    return g.emit(op.take(ranked, first, 0)), run, lengths


@converter("aten._unique2", "aten._unique")
def unique(
    g: Emitter, x: RelaxExpr, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> list[Any]:
    """The distinct elements in ascending order, in which each NaN is an element of its own."""
    flat = _vector(g, x)
    order = g.emit(op.argsort(flat, 0, False, "int64"))
    values, run, lengths = _runs(g, g.emit(op.take(flat, order, 0)))
    inverse = op.scatter_elements(op.zeros_like(run), order, run, 0) if return_inverse else None
    return [
        values,
        None if inverse is None else g.reshape(g.emit(inverse), g.dims(x)),
        lengths if return_counts else None,
    ]


@converter("aten.unique_consecutive")
def unique_consecutive(
    g: Emitter, x: RelaxExpr, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> list[Any]:
    if dim is not None and g.ndim(x) > 1:
        g.unsupported("unique_consecutive along an axis", "pass a tensor of one dimension")
    values, run, lengths = _runs(g, _vector(g, x))
    return [values, g.reshape(run, g.dims(x)) if return_inverse else None, lengths if return_counts else None]


@converter("aten.bincount")
def bincount(g: Emitter, x: RelaxExpr, weights: RelaxExpr | None = None, minlength: int = 0) -> RelaxExpr:
    """The number of occurrences, or the sum of weights, of each number; a negative number is an error."""
    if minlength < 0:
        raise g.error(f"minlength is {minlength}", hint="pass a minlength of at least 0")
    numbers = g.cast(x, "int64")
    least = g.const([minlength - 1], "int64")
    greatest = op.max(op.concat([numbers, least], axis=0), axis=[0])
    lowest = op.min(op.concat([numbers, g.const([0], "int64")], axis=0), axis=[0])
    needed = op.add(greatest, g.const(1, "int64"))
    size = g.read_integer(op.where(op.less(lowest, g.const(0, "int64")), g.const(-1, "int64"), needed), True)
    updates = g.const(1, g.out_dtype) if weights is None else g.cast(weights, g.out_dtype)
    zeros = op.broadcast_to(g.const(0, g.out_dtype), ShapeExpr([size]))
    return op.scatter_elements(zeros, numbers, op.broadcast_to(updates, ShapeExpr(g.dims(x))), 0, "add")


@converter("aten.unique_dim")
def unique_dim(
    g: Emitter, x: RelaxExpr, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> list[Any]:
    """The distinct slices along an axis, in lexicographic order; those with NaN, each distinct, are last."""
    distinct = op.unique(x, return_inverse=True, return_counts=True, axis=g.axis(dim, g.ndim(x)))
    return g.parts(distinct)


# ------------------------------------------------------------------------------------- reductions at indices

_COMBINED = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "mean"}
"""Reductions of `op.scatter_elements` by torch's names."""


def reduced_at(
    g: Emitter, x: RelaxExpr, axis: int, index: RelaxExpr, updates: RelaxExpr, reduce: str, include_self: bool
) -> RelaxExpr:
    """Return x with `updates`, of the shape of `index`, combined at indices along `axis`.

    Without `include_self`, the elements of x that are written begin as the neutral element of the reduction.
    """
    if reduce not in _COMBINED:
        raise g.error(f"there is no reduction {reduce!r}", hint=f"pass one of {', '.join(_COMBINED)}")
    if include_self:
        return op.scatter_elements(x, index, updates, axis, _COMBINED[reduce])
    dtype = g.dtype(x)
    neutral = op.broadcast_to(g.const(_neutral(reduce, dtype), str(dtype)), ShapeExpr(g.dims(index)))
    start = g.emit(op.scatter_elements(x, index, neutral, axis, "update"))
    if reduce != "mean":
        return op.scatter_elements(start, index, updates, axis, _COMBINED[reduce])
    is_narrow = dtype.is_float and dtype.bits < 32
    wide = "float32" if is_narrow else str(dtype)
    total = g.emit(op.scatter_elements(g.cast(start, wide), index, g.cast(updates, wide), axis, "add"))
    ones = op.broadcast_to(g.const(1, "int64"), ShapeExpr(g.dims(index)))
    zeros = op.broadcast_to(g.const(0, "int64"), ShapeExpr(g.dims(x)))
    count = g.emit(op.scatter_elements(zeros, index, ones, axis, "add"))
    divisor = g.cast(g.emit(op.maximum(count, g.const(1, "int64"))), wide)
    return g.cast(g.emit((op.divide if dtype.is_float else op.floor_divide)(total, divisor)), str(dtype))


def _neutral(reduce: str, dtype: DataType) -> Any:
    if reduce in ("sum", "mean", "prod"):
        return int(reduce == "prod")
    if dtype.is_bool:
        return reduce == "amin"
    if dtype.is_float:
        return float("-inf" if reduce == "amax" else "inf")
    return int(dtype.min_value if reduce == "amax" else dtype.max_value)


@converter("aten.index_reduce")
def index_reduce(
    g: Emitter, x: RelaxExpr, dim: int, index: RelaxExpr, source: RelaxExpr, reduce: str, *, include_self: bool = True
) -> RelaxExpr:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise g.error(f"there is no reduction {reduce!r}", hint="pass prod, mean, amax or amin")
    if not g.ndim(x):
        row, places, updates = (g.reshape(item, [1]) for item in (x, index, source))
        reduced = index_reduce(g, row, 0, places, updates, reduce, include_self=include_self)
        return g.reshape(g.emit(reduced), [])
    axis = g.axis(dim, g.ndim(x))
    shape: list[Dim] = [1] * g.ndim(x)
    shape[axis] = g.dims(source)[axis]
    wide = g.emit(op.broadcast_to(g.reshape(index, shape), ShapeExpr(g.dims(source))))
    return reduced_at(g, x, axis, wide, g.cast(source, g.out_dtype), reduce, include_self)


@converter("aten.put")
def put(g: Emitter, x: RelaxExpr, index: RelaxExpr, source: RelaxExpr, accumulate: bool = False) -> RelaxExpr:
    flat, places = _vector(g, x), _vector(g, index)
    written = op.index_put(flat, Tuple([places]), g.cast(_vector(g, source), g.out_dtype), accumulate=accumulate)
    return g.reshape(g.emit(written), g.dims(x))


# ------------------------------------------------------------------------------------- places among sorted elements


@converter("aten.searchsorted")
def searchsorted(
    g: Emitter,
    boundaries: RelaxExpr,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: RelaxExpr | None = None,
) -> RelaxExpr:
    """Places of elements, or of a number, among sorted boundaries: one sequence, or one for each row of x."""
    if side not in (None, "left", "right") or (right and side == "left"):
        raise g.error(f"side is {side!r} where right is {right}", hint="pass 'left' or 'right', or right alone")
    if sorter is not None:
        boundaries = g.emit(op.gather_elements(boundaries, sorter, g.ndim(boundaries) - 1))
    limits, data = g.promoted(boundaries, x)
    if g.ndim(limits) != 1:
        return _places_in_rows(g, limits, data, right or side == "right", g.out_dtype)
    return op.bucketize(data, limits, out_int32=out_int32, right=right or side == "right")


@converter("aten.bucketize")
def bucketize(g: Emitter, x: Any, boundaries: RelaxExpr, *, out_int32: bool = False, right: bool = False) -> RelaxExpr:
    return searchsorted(g, boundaries, x, out_int32=out_int32, right=right)


def _places_in_rows(g: Emitter, boundaries: RelaxExpr, x: RelaxExpr, right: bool, dtype: str) -> RelaxExpr:
    """Return the number of boundaries below each element, each row of x searched in its own row of boundaries.

    Raises an error when the program runs if there are not as many rows of both.
    """
    rows = g.cast_shape(boundaries, [*g.dims(x)[:-1], g.dims(boundaries)[-1]])
    return g.builder.emit_te(topi.bucketize, x, rows, dtype == "int32", right, primfunc_name_hint="searchsorted")
