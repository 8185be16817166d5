"""Operators that give a tensor another shape, reorder, cut, join or repeat it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from .... import op
from ....expr import ShapeExpr
from ....ir import RelaxExpr, structural_equal
from ....prim import IntImm, PrimExpr, const, intrin, simplify
from ..emitter import FAR, Dim, Emitter, as_dim, product
from ..registry import converter

FAR_END = 2**63 - 1
"""A slice end larger than any size."""

# ------------------------------------------------------------------------------------- shapes


@converter("aten.view.default", "aten._unsafe_view", "aten.reshape", "aten.view_copy.default")
def reshape(g: Emitter, x: RelaxExpr, size: Sequence[Dim]) -> RelaxExpr:
    """A size of -1 is what the others leave over."""
    sizes = [as_dim(dim) for dim in size]
    free = [i for i, dim in enumerate(sizes) if isinstance(dim, IntImm) and dim.value == -1]
    if free:
        other_elements = product(dim for i, dim in enumerate(sizes) if i != free[0])
        if isinstance(other_elements, IntImm) and other_elements.value == 0:
            sizes[free[0]] = g.shape()[free[0]]
        else:
            return op.reshape(x, sizes)  # which cancels equal sizes
    return g.reshape(x, sizes)


@converter("aten.flatten.using_ints")
def flatten(g: Emitter, x: RelaxExpr, start_dim: int = 0, end_dim: int = -1) -> RelaxExpr:
    dims = g.dims(x)
    first, last = g.axis(start_dim, len(dims)), g.axis(end_dim, len(dims))
    return g.reshape(x, [*dims[:first], product(dims[first : last + 1]), *dims[last + 1 :]])


@converter("aten.unflatten.int")
def unflatten(g: Emitter, x: RelaxExpr, dim: int, sizes: Sequence[Dim]) -> RelaxExpr:
    dims = g.dims(x)
    axis = g.axis(dim, len(dims))
    return reshape(g, x, [*dims[:axis], *sizes, *dims[axis + 1 :]])


@converter("aten.squeeze")
def squeeze(g: Emitter, x: RelaxExpr, dim: Any = None) -> RelaxExpr:
    """Without axes, those that torch found to be 1; an axis of another size stays."""
    dims = g.dims(x)
    dropped = [axis for axis in g.axes(dim, len(dims)) if dims and g.same_size(dims[axis], 1)]
    return op.squeeze(x, dropped) if dropped else x


@converter("aten.unsqueeze")
def unsqueeze(g: Emitter, x: RelaxExpr, dim: int) -> RelaxExpr:
    return op.expand_dims(x, [g.axis(dim, g.ndim(x) + 1)])


@converter("aten.permute", "aten.permute_copy")
def permute(g: Emitter, x: RelaxExpr, dims: Sequence[int]) -> RelaxExpr:
    return op.permute_dims(x, g.axes(list(dims), g.ndim(x))) if g.ndim(x) else x


@converter("aten.transpose.int", "aten.swapaxes", "aten.swapdims")
def transpose(g: Emitter, x: RelaxExpr, dim0: int, dim1: int) -> RelaxExpr:
    order = list(range(g.ndim(x)))
    if order:
        a, b = g.axis(dim0, len(order)), g.axis(dim1, len(order))
        order[a], order[b] = order[b], order[a]
    return op.permute_dims(x, order) if order != sorted(order) else x


@converter("aten.t", "aten.numpy_T")
def t(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return op.permute_dims(x) if g.ndim(x) > 1 else x


@converter("aten.mT", "aten.adjoint")
def matrix_transpose(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return transpose(g, x, -2, -1)


@converter("aten.movedim.intlist", "aten.movedim.int")
def movedim(g: Emitter, x: RelaxExpr, source: Any, destination: Any) -> RelaxExpr:
    ndim = g.ndim(x)
    sources = dict(zip(g.axes(destination, ndim), g.axes(source, ndim), strict=True))
    rest = iter([axis for axis in range(ndim) if axis not in sources.values()])
    return op.permute_dims(x, [sources[axis] if axis in sources else next(rest) for axis in range(ndim)])


# ------------------------------------------------------------------------------------- broadcasting, repeating


@converter("aten.expand.default", "aten.broadcast_to")
def expand(g: Emitter, x: RelaxExpr, size: Sequence[Dim], implicit: bool = False) -> RelaxExpr:
    dims = g.dims(x)
    new = len(size) - len(dims)
    sizes = [dims[i - new] if isinstance(dim, int) and dim == -1 else as_dim(dim) for i, dim in enumerate(size)]
    return _broadcast(g, x, sizes)


def _broadcast(g: Emitter, x: RelaxExpr, sizes: Sequence[PrimExpr]) -> RelaxExpr:
    dims = g.dims(x)
    if len(sizes) == len(dims) and all(map(g.same_size, dims, sizes)):
        return x
    return op.broadcast_to(x, ShapeExpr(sizes))


@converter("aten.expand_as")
def expand_as(g: Emitter, x: RelaxExpr, other: RelaxExpr) -> RelaxExpr:
    return _broadcast(g, x, g.dims(other))


@converter("aten.repeat.default", "aten.tile")
def repeat(g: Emitter, x: RelaxExpr, repeats: Sequence[Dim]) -> RelaxExpr:
    """Repeat a tensor like NumPy's tile: the shorter of shape and repeats is padded with leading ones."""
    ndim = max(len(repeats), g.ndim(x))
    data = g.reshape(x, [*[1] * (ndim - g.ndim(x)), *g.dims(x)])
    counts = [*[1] * (ndim - len(repeats)), *repeats]
    if all(isinstance(count, int) and count == 1 for count in counts):
        return data
    if all(g.same_size(dim, 1) or g.same_size(n, 1) for dim, n in zip(g.dims(data), counts, strict=True)):
        sizes = [as_dim(n) if g.same_size(dim, 1) else dim for dim, n in zip(g.dims(data), counts, strict=True)]
        return _broadcast(g, data, sizes)
    return op.tile(data, ShapeExpr([as_dim(count) for count in counts]))


@converter("aten.repeat_interleave.self_int")
def repeat_interleave(
    g: Emitter, x: RelaxExpr, repeats: Dim, dim: int | None = None, *, output_size: Any = None
) -> RelaxExpr:
    data = g.reshape(x, [product(g.dims(x))]) if dim is None else x
    axis = g.axis(dim or 0, g.ndim(data))
    dims = g.dims(data)
    wide = g.emit(op.expand_dims(data, [axis + 1]))
    sizes = [*dims[: axis + 1], as_dim(repeats), *dims[axis + 1 :]]
    spread = g.emit(op.broadcast_to(wide, ShapeExpr(sizes)))
    return g.reshape(spread, [*dims[:axis], simplify(dims[axis] * repeats), *dims[axis + 1 :]])


# ------------------------------------------------------------------------------------- cutting


@converter("aten.slice.Tensor")
def slice_(
    g: Emitter, x: RelaxExpr, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: int = 1
) -> RelaxExpr:
    begin = 0 if start is None else start
    last = FAR_END if end is None else end
    if isinstance(begin, int) and begin == 0 and isinstance(last, int) and last == FAR_END and step == 1:
        return x
    return cut(g, x, g.axis(dim, g.ndim(x)), begin, last, step, g.shape())


def cut(
    g: Emitter, x: RelaxExpr, axis: int, begin: Dim, end: Dim, step: int, expected: Sequence[PrimExpr]
) -> RelaxExpr:
    """A slice along an axis; where its size is a choice, a check that it is the one that torch has derived."""
    if _is_whole(g, begin, end, step, g.dims(x)[axis]):
        return x
    sliced = g.emit(op.strided_slice(x, [axis], [as_dim(begin)], [as_dim(end)], [step]))
    size, derived = g.dims(sliced)[axis], expected[axis]
    if structural_equal(size, derived) or g.same_size(size, derived):
        return sliced
    dims = g.dims(sliced)
    dims[axis] = derived
    return g.cast_shape(sliced, dims)


def _is_whole(g: Emitter, begin: Dim, end: Dim, step: int, size: PrimExpr) -> bool:
    if not (step == 1 and isinstance(begin, int) and begin == 0):
        return False
    return (isinstance(end, int) and end == FAR_END) or g.same_size(end, size)


@converter("aten.narrow.default", "aten.narrow_copy")
def narrow(g: Emitter, x: RelaxExpr, dim: int, start: Dim, length: Dim) -> RelaxExpr:
    return slice_(g, x, dim, start, simplify(as_dim(start) + length))


@converter("aten.select.int")
def select(g: Emitter, x: RelaxExpr, dim: int, index: Dim) -> RelaxExpr:
    axis = g.axis(dim, g.ndim(x))
    if not isinstance(index, int):
        return op.take(x, g.tensor(index, "int64"), axis)
    position = as_dim(index) if index >= 0 else simplify(g.dims(x)[axis] + index)
    row = op.strided_slice(x, [axis], [position], [simplify(position + 1)], [1], assume_inbound=True)
    return op.squeeze(row, [axis])


@converter("aten.split.Tensor", "aten.chunk")
def split(g: Emitter, x: RelaxExpr, split_size: Any, dim: int = 0) -> list[RelaxExpr]:
    axis = g.axis(dim, g.ndim(x))
    return _pieces(g, x, [g.shape(piece)[axis] for piece in g.value], axis)


@converter("aten.split_with_sizes", "aten.split.sizes")
def split_with_sizes(g: Emitter, x: RelaxExpr, split_sizes: Sequence[Dim], dim: int = 0) -> list[RelaxExpr]:
    return _pieces(g, x, [as_dim(size) for size in split_sizes], g.axis(dim, g.ndim(x)))


def _pieces(g: Emitter, x: RelaxExpr, sizes: Sequence[PrimExpr], axis: int) -> list[RelaxExpr]:
    if len(sizes) == 1:
        return [x]
    ends: list[PrimExpr] = [const(0, "int64")]
    for size in sizes:
        ends.append(simplify(ends[-1] + size))
    numbers = [end.value for end in ends if isinstance(end, IntImm)]
    if len(numbers) == len(ends):
        return g.parts(op.split(x, numbers[1:-1], axis))
    return [
        g.emit(op.strided_slice(x, [axis], [a], [b], [1], assume_inbound=True)) for a, b in itertools.pairwise(ends)
    ]


@converter("aten.unbind.int", "aten.unbind_copy.int")
def unbind(g: Emitter, x: RelaxExpr, dim: int = 0) -> list[RelaxExpr]:
    axis = g.axis(dim, g.ndim(x))
    return [g.emit(select(g, x, axis, index)) for index in range(len(g.value))]


@converter("aten.unfold")
def unfold(g: Emitter, x: RelaxExpr, dimension: int, size: int, step: int) -> RelaxExpr:
    """Windows of `size` elements, each `step` after the one before, along a new last axis."""
    if not g.ndim(x):
        if size != 1:
            g.unsupported(f"windows of {size} elements of a tensor without dimensions", "reshape it to one dimension")
        return g.reshape(x, [1])
    axis = g.axis(dimension, g.ndim(x))
    count = g.shape()[axis]
    starts = op.multiply(op.arange(count, dtype="int64"), g.const(step, "int64"))
    positions = g.emit(op.add(op.expand_dims(starts, [1]), op.arange(size, dtype="int64")))
    windows = g.emit(op.take(x, positions, axis))
    order = [a for a in range(g.ndim(windows)) if a != axis + 1]
    return op.permute_dims(windows, [*order, axis + 1])


# ------------------------------------------------------------------------------------- joining, reordering


@converter("aten.cat", "aten.concat")
def cat(g: Emitter, tensors: Sequence[RelaxExpr], dim: int = 0) -> RelaxExpr:
    """Tensors of the shape (0,) are left out, as torch does."""
    nonempty = [x for x in tensors if g.ndim(x) > 1 or (g.ndim(x) == len(g.value.shape) and not _is_empty(g, x))]
    nonempty = [g.cast(x, g.out_dtype) for x in nonempty or tensors]
    return nonempty[0] if len(nonempty) == 1 else op.concat(nonempty, axis=g.axis(dim, g.ndim(nonempty[0])))


def _is_empty(g: Emitter, x: RelaxExpr) -> bool:
    return g.same_size(g.dims(x)[0], 0)


@converter("aten.stack")
def stack(g: Emitter, tensors: Sequence[RelaxExpr], dim: int = 0) -> RelaxExpr:
    return op.stack([g.cast(x, g.out_dtype) for x in tensors], axis=g.axis(dim, g.ndim(tensors[0]) + 1))


@converter("aten.flip")
def flip(g: Emitter, x: RelaxExpr, dims: Sequence[int]) -> RelaxExpr:
    result = x
    for axis in dims:
        result = op.flip(result, g.axis(axis, g.ndim(x)))
    return result


@converter("aten.roll")
def roll(g: Emitter, x: RelaxExpr, shifts: Sequence[Dim], dims: Sequence[int] = ()) -> RelaxExpr:
    if not dims:
        flat = g.reshape(x, [product(g.dims(x))])
        return g.reshape(_rolled(g, flat, shifts[0], 0), g.dims(x))
    result = x
    for shift, axis in zip(shifts, dims, strict=True):
        result = _rolled(g, result, shift, g.axis(axis, g.ndim(x)))
    return result


def _rolled(g: Emitter, x: RelaxExpr, shift: Dim, axis: int) -> RelaxExpr:
    """The last elements along an axis before the others."""
    size = g.dims(x)[axis]
    if g.same_size(size, 0) or (isinstance(shift, int) and shift == 0):
        return x
    cut_at = simplify((size - shift) % intrin.max(size, 1))  # of no elements, the cut is at 0
    back = op.strided_slice(x, [axis], [cut_at], [size], [1], assume_inbound=True)
    front = op.strided_slice(x, [axis], [const(0, "int64")], [cut_at], [1], assume_inbound=True)
    joined = g.emit(op.concat([back, front], axis=axis))
    return g.cast_shape(joined, g.dims(x))


@converter("aten.pixel_shuffle")
def pixel_shuffle(g: Emitter, x: RelaxExpr, upscale_factor: int) -> RelaxExpr:
    return op.nn.pixel_shuffle(x, upscale_factor)


@converter("aten.pixel_unshuffle")
def pixel_unshuffle(g: Emitter, x: RelaxExpr, downscale_factor: int) -> RelaxExpr:
    return op.nn.pixel_unshuffle(x, downscale_factor)


@converter("aten.channel_shuffle", "aten.native_channel_shuffle")
def channel_shuffle(g: Emitter, x: RelaxExpr, groups: int) -> RelaxExpr:
    n, c, *space = g.dims(x)
    grouped = g.reshape(x, [n, groups, simplify(c // groups), *space])
    order = [0, 2, 1, *range(3, g.ndim(grouped))]
    return g.reshape(g.emit(op.permute_dims(grouped, order)), g.dims(x))


@converter("aten.tril")
def tril(g: Emitter, x: RelaxExpr, diagonal: Any = 0) -> RelaxExpr:
    return op.tril(x, _diagonal(diagonal))


@converter("aten.triu")
def triu(g: Emitter, x: RelaxExpr, diagonal: Any = 0) -> RelaxExpr:
    return op.triu(x, _diagonal(diagonal))


def _diagonal(number: Dim) -> Dim:
    """A number of a diagonal; one beyond any size is `FAR`, so that sums with sizes do not overflow."""
    return max(-FAR, min(number, FAR)) if isinstance(number, int) else number
