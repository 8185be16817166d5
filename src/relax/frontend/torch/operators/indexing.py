"""Operators that read and write at indices, choose elements, and sort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ....expr import PrimValue, ShapeExpr, Tuple
from ....ir import RelaxExpr
from ....prim import IntImm, PrimExpr, const, simplify
from ..emitter import Dim, Emitter, as_dim, product
from ..registry import converter
from .order import reduced_at
from .shape import FAR_END, cut

MOST_DIFFERENCES = 256
"""Greatest order of differences along a dynamic dimension, each of which is an operator."""

Indices = Sequence[Any]
"""An index tensor for each of the leading dimensions, None for one that is not indexed."""

# ------------------------------------------------------------------------------------- reading


@converter("aten.embedding.default")
def embedding(g: Emitter, weight: RelaxExpr, indices: RelaxExpr, *options: Any, **others: Any) -> RelaxExpr:
    return op.take(weight, indices, 0)


@converter("aten.index_select")
def index_select(g: Emitter, x: RelaxExpr, dim: int, index: RelaxExpr) -> RelaxExpr:
    if not g.ndim(x):
        return op.take(g.reshape(x, [1]), g.reshape(index, []), 0)
    return op.take(x, index, g.axis(dim, g.ndim(x)))


@converter("aten.gather")
def gather(g: Emitter, x: RelaxExpr, dim: int, index: RelaxExpr, *, sparse_grad: bool = False) -> RelaxExpr:
    if not g.ndim(x):
        return op.take(g.reshape(x, [1]), index, 0)
    return op.gather_elements(x, index, g.axis(dim, g.ndim(x)))


@converter("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(g: Emitter, x: RelaxExpr, indices: Indices) -> RelaxExpr:
    positions = _without_masks(g, indices)
    axes = [axis for axis, position in enumerate(positions) if position is not None]
    if not axes:
        return x
    if len(axes) == 1:
        return op.take(x, positions[axes[0]], axes[0])
    order, back = _leading(g, axes, g.ndim(x), max(g.ndim(positions[axis]) for axis in axes))
    data = x if order == sorted(order) else g.emit(op.permute_dims(x, order))
    result = op.index_tensor(data, Tuple([positions[axis] for axis in axes]))
    return result if back == sorted(back) else op.permute_dims(result, back)


def _leading(g: Emitter, axes: Sequence[int], ndim: int, index_ndim: int) -> tuple[list[int], list[int]]:
    """The order of dimensions that brings the indexed ones to the front, and that which the result has to get.

    The dimensions of the indices stand where the first indexed one stood, if the indexed ones are neighbours.
    """
    order = [*axes, *(axis for axis in range(ndim) if axis not in axes)]
    rank = ndim - len(axes) + index_ndim
    if list(axes) != list(range(axes[0], axes[0] + len(axes))):
        return order, list(range(rank))
    first = axes[0]
    behind = list(range(index_ndim, rank))
    return order, [*behind[:first], *range(index_ndim), *behind[first:]]


def _without_masks(g: Emitter, indices: Indices) -> list[Any]:
    """Replace masks among indices, of bool or of uint8, by the indices of their True elements."""
    positions: list[Any] = []
    for item in indices:
        if item is not None and str(g.dtype(item)) in ("bool", "uint8"):
            positions += _true_places(g, g.cast(item, "bool"))
        else:
            positions.append(item)
    return positions


def _true_places(g: Emitter, mask: RelaxExpr) -> list[RelaxExpr]:
    """For each dimension of a mask, the indices of its True elements; a mask without dimensions has one of size 1."""
    if not g.ndim(mask):
        mask = g.reshape(mask, [1])
    positions = g.emit(op.nonzero(mask))
    count = g.dims(positions)[1]
    rows = [op.strided_slice(positions, [0], [d], [d + 1]) for d in range(g.ndim(mask))]
    return [g.reshape(g.emit(row), [count]) for row in rows]


@converter("aten.as_strided", "aten.as_strided_copy")
def as_strided(
    g: Emitter, x: RelaxExpr, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim | None = None
) -> RelaxExpr:
    """Elements of a tensor that lies in row-major order, at any strides."""
    position = _strided_places(g, size, stride, storage_offset)
    return op.take(g.reshape(x, [product(g.dims(x))]), position, 0)


@converter("aten.as_strided_scatter")
def as_strided_scatter(
    g: Emitter,
    x: RelaxExpr,
    src: RelaxExpr,
    size: Sequence[Dim],
    stride: Sequence[Dim],
    storage_offset: Dim | None = None,
) -> RelaxExpr:
    """The tensor, in row-major order, with elements at any strides replaced by those of another one."""
    position = _strided_places(g, size, stride, storage_offset)
    flat = g.reshape(x, [product(g.dims(x))])
    if not g.ndim(position):
        position, src = g.reshape(position, [1]), g.reshape(src, [1])
    written = op.index_put(flat, Tuple([position]), g.cast(src, g.out_dtype))
    return g.reshape(g.emit(written), g.dims(x))


def _strided_places(g: Emitter, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim | None) -> RelaxExpr:
    """Return the places of elements at strides in the first operand of the node, flattened."""
    source = g.node.args[0].meta["val"]
    if not source.is_contiguous() or source.storage_offset() != 0:
        g.unsupported("as_strided of a tensor that is no whole one", "call contiguous() on the tensor before")
    position: RelaxExpr = g.tensor(0 if storage_offset is None else storage_offset, "int64")
    for count, step in zip(size, stride, strict=True):
        numbers = op.multiply(op.arange(PrimValue(as_dim(count)), dtype="int64"), g.tensor(step, "int64"))
        position = g.emit(op.add(op.expand_dims(position, [-1]), numbers))
    return position


@converter("aten.nonzero")
def nonzero(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return op.permute_dims(op.nonzero(x), [1, 0])


@converter("aten.nonzero_numpy")
def nonzero_numpy(g: Emitter, x: RelaxExpr) -> list[RelaxExpr]:
    return _true_places(g, x)


@converter("aten.masked_select")
def masked_select(g: Emitter, x: RelaxExpr, mask: RelaxExpr) -> RelaxExpr:
    if len(g.dims(x)) == g.ndim(mask) and all(map(g.same_size, g.dims(x), g.dims(mask))):
        data, wide = (x, mask) if g.ndim(x) else (g.reshape(x, [1]), mask)
    else:
        data = g.emit(op.where(mask, x, x))  # of the shape to which both broadcast
        wide = g.emit(op.broadcast_to(mask, ShapeExpr(g.dims(data))))
    return op.index_tensor(data, Tuple(_true_places(g, wide)))


@converter("aten.diagonal")
def diagonal(g: Emitter, x: RelaxExpr, offset: int = 0, dim1: int = 0, dim2: int = 1) -> RelaxExpr:
    ndim = g.ndim(x)
    axes = [g.axis(dim1, ndim), g.axis(dim2, ndim)]
    order = [*axes, *(axis for axis in range(ndim) if axis not in axes)]
    count = g.shape()[-1]
    position = g.emit(op.arange(PrimValue(count), dtype="int64"))
    rows = op.add(position, g.const(max(-offset, 0), "int64"))
    columns = op.add(position, g.const(max(offset, 0), "int64"))
    chosen = g.emit(op.index_tensor(op.permute_dims(x, order), Tuple([g.emit(rows), g.emit(columns)])))
    return op.permute_dims(chosen, [*range(1, g.ndim(chosen)), 0])


@converter("aten.diagonal_scatter")
def diagonal_scatter(
    g: Emitter, x: RelaxExpr, src: RelaxExpr, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> RelaxExpr:
    ndim = g.ndim(x)
    axes = [g.axis(dim1, ndim), g.axis(dim2, ndim)]
    order = [*axes, *(axis for axis in range(ndim) if axis not in axes)]
    position = g.emit(op.arange(PrimValue(g.dims(src)[-1]), dtype="int64"))
    places = [g.emit(op.add(position, g.const(max(shift, 0), "int64"))) for shift in (-offset, offset)]
    values = g.emit(op.permute_dims(g.cast(src, g.out_dtype), [ndim - 2, *range(ndim - 2)]))
    return op.permute_dims(op.index_put(op.permute_dims(x, order), Tuple(places), values), _inverse(order))


@converter("aten.item", "aten._local_scalar_dense")
def item(g: Emitter, x: RelaxExpr) -> PrimExpr:
    """The number in a tensor as a size, which later nodes name by its symbol."""
    symbol = getattr(getattr(g.value, "node", None), "expr", None)
    if symbol is None or not g.dtype(x).is_integer:
        g.unsupported("a number read from a tensor that is no integer")
    size = g.symbols.get(str(symbol))
    if size is None:
        size = g.symbols[str(symbol)] = g.read_integer(x, g.is_nonnegative(str(symbol)))
    return size


# ------------------------------------------------------------------------------------- writing


@converter("aten.index_put", "aten._unsafe_index_put")
def index_put(g: Emitter, x: RelaxExpr, indices: Indices, values: RelaxExpr, accumulate: bool = False) -> RelaxExpr:
    mask = indices[0] if len(indices) == 1 else None
    if mask is not None and g.dtype(mask).is_bool and not g.ndim(values) and not accumulate:
        wide = g.reshape(mask, [*g.dims(mask), *[1] * (g.ndim(x) - g.ndim(mask))])
        return op.where(wide, values, x)
    positions = _without_masks(g, indices)
    axes = [axis for axis, position in enumerate(positions) if position is not None]
    if not axes:
        raise g.error("no dimension is indexed", hint="pass an index tensor")
    order, back = _leading(g, axes, g.ndim(x), max(g.ndim(positions[axis]) for axis in axes))
    if order == sorted(order):
        return op.index_put(x, Tuple([positions[axis] for axis in axes]), values, accumulate=accumulate)
    rank = len(back)
    full = g.reshape(values, [*[1] * (rank - g.ndim(values)), *g.dims(values)])
    moved = values if back == sorted(back) else g.emit(op.permute_dims(full, _inverse(back)))
    data = g.emit(op.permute_dims(x, order))
    written = op.index_put(data, Tuple([positions[axis] for axis in axes]), moved, accumulate=accumulate)
    return op.permute_dims(written, _inverse(order))


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda axis: order[axis])


@converter("aten.slice_scatter")
def slice_scatter(
    g: Emitter,
    x: RelaxExpr,
    src: RelaxExpr,
    dim: int = 0,
    start: Dim | None = None,
    end: Dim | None = None,
    step: int = 1,
) -> RelaxExpr:
    axis = g.axis(dim, g.ndim(x))
    begin = 0 if start is None else start
    last = FAR_END if end is None else end
    _check_slices(g, x, src, axis)
    size = g.dims(x)[axis]
    if isinstance(begin, int) and begin == 0 and step == 1 and g.same_size(g.dims(src)[axis], size):
        return g.cast(src, g.out_dtype)
    bounds = [
        PrimValue(as_dim(bound)) for bound in (begin, size if isinstance(last, int) and last == FAR_END else last, step)
    ]
    return op.slice_scatter(x, g.cast(src, g.out_dtype), *bounds, axis=axis)


def _check_slices(g: Emitter, x: RelaxExpr, src: RelaxExpr, axis: int) -> None:
    """Raise DiagnosticError unless the sizes of `src` are those of `x`, other than along the axis."""
    dims, others = g.dims(x), g.dims(src)
    pairs = [pair for place, pair in enumerate(zip(dims, others, strict=False)) if place != axis]
    if not dims or len(dims) != len(others) or any(g.is_true(as_dim(a).equal(b)) is False for a, b in pairs):
        sizes, own = (f"({', '.join(map(str, shape))})" for shape in (others, dims))
        raise g.error(f"slices of the shape {sizes} do not fit into {own}", hint="pass slices of the tensor's sizes")


@converter("aten.select_scatter")
def select_scatter(g: Emitter, x: RelaxExpr, src: RelaxExpr, dim: int, index: Dim) -> RelaxExpr:
    axis = g.axis(dim, g.ndim(x))
    position = as_dim(index)
    if isinstance(index, int) and index < 0:
        position = simplify(g.dims(x)[axis] + index)
    row = g.emit(op.expand_dims(g.cast(src, g.out_dtype), [axis]))
    bounds = [PrimValue(bound) for bound in (position, simplify(position + 1), const(1, "int64"))]
    return op.slice_scatter(x, row, *bounds, axis=axis)


def _scattered(g: Emitter, x: RelaxExpr, dim: int, index: RelaxExpr, src: Any, reduction: str) -> RelaxExpr:
    if not g.ndim(x):
        row, places, values = _as_rows(g, x, index, src)
        return g.reshape(g.emit(_scattered(g, row, 0, places, values, reduction)), [])
    sizes = g.dims(index)
    if isinstance(src, RelaxExpr) and g.ndim(src):
        updates = g.cast(src, g.out_dtype)
        for axis, size in enumerate(sizes):  # what no index stands for is not written
            expected = g.dims(updates)
            expected[axis] = size
            updates = cut(g, updates, axis, 0, size, 1, expected)
    else:
        updates = op.broadcast_to(g.tensor(src, g.out_dtype), sizes)
    return op.scatter_elements(x, index, updates, g.axis(dim, g.ndim(x)), reduction)


def _as_rows(g: Emitter, x: RelaxExpr, index: RelaxExpr, src: Any) -> tuple[RelaxExpr, RelaxExpr, Any]:
    """Return the operands of a scatter into a tensor without dimensions, which counts as a row of one element."""
    places = index if g.ndim(index) else g.reshape(index, [1])
    values = g.reshape(src, [1]) if isinstance(src, RelaxExpr) and not g.ndim(src) else src
    return g.reshape(x, [1]), places, values


_REDUCTIONS = {
    "sum": "add",
    "add": "add",
    "prod": "mul",
    "multiply": "mul",
    "amax": "max",
    "amin": "min",
    "mean": "mean",
}


@converter("aten.scatter")
def scatter(g: Emitter, x: RelaxExpr, dim: int, index: RelaxExpr, src: Any, *, reduce: str | None = None) -> RelaxExpr:
    return _scattered(g, x, dim, index, src, "update" if reduce is None else _REDUCTIONS[reduce])


@converter("aten.scatter_add")
def scatter_add(g: Emitter, x: RelaxExpr, dim: int, index: RelaxExpr, src: RelaxExpr) -> RelaxExpr:
    return _scattered(g, x, dim, index, src, "add")


@converter("aten.scatter_reduce.two")
def scatter_reduce(
    g: Emitter, x: RelaxExpr, dim: int, index: RelaxExpr, src: RelaxExpr, reduce: str, *, include_self: bool = True
) -> RelaxExpr:
    if include_self:
        return _scattered(g, x, dim, index, src, _REDUCTIONS[reduce])
    if not g.ndim(x):
        row, places, values = _as_rows(g, x, index, src)
        result = scatter_reduce(g, row, 0, places, values, reduce, include_self=False)
        return g.reshape(g.emit(result), [])
    updates = g.cast(src, g.out_dtype)
    sizes = g.dims(index)
    for axis, size in enumerate(sizes):  # what no index stands for is not written
        expected = g.dims(updates)
        expected[axis] = size
        updates = cut(g, updates, axis, 0, size, 1, expected)
    return reduced_at(g, x, g.axis(dim, g.ndim(x)), index, updates, reduce, include_self)


@converter("aten.index_add")
def index_add(g: Emitter, x: RelaxExpr, dim: int, index: RelaxExpr, source: RelaxExpr, *, alpha: Any = 1) -> RelaxExpr:
    scaled = source if alpha == 1 else op.multiply(source, g.tensor(alpha, g.out_dtype))
    return _along_axis(g, x, dim, index, scaled, True)


@converter("aten.index_copy")
def index_copy(g: Emitter, x: RelaxExpr, dim: int, index: RelaxExpr, source: RelaxExpr) -> RelaxExpr:
    return _along_axis(g, x, dim, index, source, False)


def _along_axis(g: Emitter, x: RelaxExpr, dim: int, index: RelaxExpr, source: RelaxExpr, accumulate: bool) -> RelaxExpr:
    """Slices of the source added to, or put in the place of, those of a tensor along an axis."""
    index = index if g.ndim(index) else g.reshape(index, [1])
    if not g.ndim(x):
        written = _along_axis(g, g.reshape(x, [1]), dim, index, g.reshape(source, [1]), accumulate)
        return g.reshape(g.emit(written), [])
    axis = g.axis(dim, g.ndim(x))
    if axis == 0:
        return op.index_put(x, Tuple([index]), source, accumulate=accumulate)
    order = [axis, *(a for a in range(g.ndim(x)) if a != axis)]
    data, slices = g.emit(op.permute_dims(x, order)), g.emit(op.permute_dims(source, order))
    return op.permute_dims(op.index_put(data, Tuple([index]), slices, accumulate=accumulate), _inverse(order))


@converter("aten.index_fill.int_Scalar")
def index_fill(g: Emitter, x: RelaxExpr, dim: int, index: RelaxExpr, value: Any) -> RelaxExpr:
    sizes = g.dims(x) or [const(1, "int64")]
    sizes[g.axis(dim, g.ndim(x))] = g.dims(index)[0] if g.ndim(index) else const(1, "int64")
    return _along_axis(g, x, dim, index, g.emit(op.broadcast_to(g.tensor(value, g.out_dtype), sizes)), False)


@converter("aten.masked_scatter")
def masked_scatter(g: Emitter, x: RelaxExpr, mask: RelaxExpr, source: RelaxExpr) -> RelaxExpr:
    """The tensor with the elements of the source, in order, in the places at which the mask is True."""
    dims = g.shape()
    x = g.emit(op.broadcast_to(x, dims))
    wide = g.emit(op.broadcast_to(mask, dims))
    numbers = op.astype(g.reshape(wide, [product(dims)]), "int64")
    before = op.subtract(op.cumsum(numbers, axis=0), g.const(1, "int64"))
    elements = g.reshape(source, [product(g.dims(source))])
    positions = g.emit(op.maximum(before, g.const(0, "int64")))
    return op.where(wide, g.reshape(g.emit(op.take(elements, positions, 0)), dims), x)


@converter("aten.masked_scatter_backward")
def masked_scatter_backward(g: Emitter, grad: RelaxExpr, mask: RelaxExpr, sizes: Sequence[Dim]) -> RelaxExpr:
    """The gradients at the places where the mask is True, in order, as those of the elements of the source; 0 after."""
    dims = g.dims(grad)
    wide = g.reshape(g.emit(op.broadcast_to(mask, dims)), [product(dims)])
    before = op.subtract(op.cumsum(op.astype(wide, "int64"), axis=0), g.const(1, "int64"))
    count = product(sizes)
    last = g.tensor(count, "int64")  # what is not for the source goes behind its end
    places = g.emit(op.where(wide, op.minimum(before, last), last))
    zeros = op.broadcast_to(g.const(0, g.out_dtype), ShapeExpr([simplify(count + 1)]))
    summed = g.emit(op.scatter_elements(zeros, places, g.reshape(grad, [product(dims)]), 0, "add"))
    return g.reshape(g.emit(op.strided_slice(summed, [0], [0], [count], [1])), sizes)


# ------------------------------------------------------------------------------------- sorting


@converter("aten.topk")
def topk(g: Emitter, x: RelaxExpr, k: Dim, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[RelaxExpr]:
    if not g.ndim(x):
        return [x, g.const(0, "int64")]
    return g.parts(op.topk(x, PrimValue(as_dim(k)), g.axis(dim, g.ndim(x)), "both", largest, "int64"))


@converter("aten.sort.default")
def sort(g: Emitter, x: RelaxExpr, dim: int = -1, descending: bool = False) -> list[RelaxExpr]:
    axis = g.axis(dim, g.ndim(x))
    order = g.emit(op.argsort(x, axis, descending, "int64"))
    return [g.emit(op.gather_elements(x, order, axis)), order]


@converter("aten.sort.stable")
def sort_stable(
    g: Emitter, x: RelaxExpr, *, stable: Any = None, dim: int = -1, descending: bool = False
) -> list[RelaxExpr]:
    return sort(g, x, dim, descending)


@converter("aten.argsort")
def argsort(g: Emitter, x: RelaxExpr, dim: int = -1, descending: bool = False, **options: Any) -> RelaxExpr:
    return op.argsort(x, g.axis(dim, g.ndim(x)), descending, "int64")


@converter("aten.diff")
def diff(g: Emitter, x: RelaxExpr, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> RelaxExpr:
    axis = g.axis(dim, g.ndim(x))
    ends = [tensor for tensor in (prepend, x, append) if tensor is not None]
    result = g.emit(op.concat([g.cast(tensor, str(g.dtype(x))) for tensor in ends], axis=axis)) if len(ends) > 1 else x
    count = g.dims(result)[axis]
    if n < 0 or (n > MOST_DIFFERENCES and not isinstance(count, IntImm)):
        raise g.error(f"differences of the order {n}", hint=f"pass an order from 0 to {MOST_DIFFERENCES}")
    for _ in range(min(n, count.value) if isinstance(count, IntImm) else n):  # of no elements there are none
        size = g.dims(result)[axis]
        last = const(FAR_END, "int64") if isinstance(size, IntImm) else size
        ahead = op.strided_slice(result, [axis], [const(1, "int64")], [last], [1])
        behind = op.strided_slice(result, [axis], [const(0, "int64")], [simplify(size - 1)], [1])
        unequal = g.dtype(x).is_bool
        result = g.emit((op.not_equal if unequal else op.subtract)(g.emit(ahead), g.emit(behind)))
    return result
