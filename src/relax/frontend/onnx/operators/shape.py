"""Operators on shapes: Shape and Size, and those that give a tensor another shape."""

from __future__ import annotations

from collections.abc import Sequence

from .... import op
from ....expr import PrimValue, ShapeExpr
from ....prim import IntImm, PrimExpr, Select, const, intrin
from ..branches import chosen, undecided_ones
from ..emitter import GREATEST, Emitter
from ..registry import converter
from ..values import Dims, Elements, Ints, Signed, Tensor
from .activation import product
from .reduce import kept_sizes, named_axes


@converter("Shape")
def shape(g: Emitter, data: Tensor, *, start: int = 0, end: int | None = None) -> Elements | Tensor:
    if g.rank(data) is None:
        whole = g.run_time_shape(data)
        is_whole = start == 0 and end is None
        return whole if is_whole else op.strided_slice(whole, [0], [start], [GREATEST if end is None else end])
    return Elements.of(list(g.dims(data))[start:end])


@converter("Size")
def size(g: Emitter, data: Tensor) -> Elements | Tensor:
    if g.rank(data) is None:
        return op.prod(g.run_time_shape(data))
    return Elements.of(product(g.dims(data)))


# ------------------------------------------------------------------------------------- Reshape, Flatten


@converter("Reshape", since=5)
def reshape(g: Emitter, data: Tensor, shape: Signed, *, allowzero: int = 0) -> Tensor:
    sizes = list(shape)
    if g.rank(data) is None:
        copies = not allowzero and not all(g.is_true(size > 0) or g.is_true(size.equal(-1)) for size in sizes)
        dims = g.dims(data) if copies else g.sizes(g.emit(op.prod(g.run_time_shape(data))), "elements")
        allowzero = 1
    else:
        dims = g.dims(data)
    if not allowzero:
        sizes = [_copied(g, size, dims[i]) if i < len(dims) else size for i, size in enumerate(sizes)]
    free = [i for i, size in enumerate(sizes) if g.is_true(size.equal(-1))]
    if len(free) > 1:
        raise g.error("more than one size is -1", code="E6003")
    if free:
        sizes[free[0]] = const(-1, "int64")
    if any(map(g.may_be_negative, sizes)):
        return op.reshape(data, ShapeExpr([_left_over(g, dims, sizes, i) for i in range(len(sizes))]))
    if free and g.info(data).ndim >= 0 and not any(g.is_true(size.equal(0)) for size in [*dims, *sizes]):
        return op.reshape(data, sizes)  # which cancels equal sizes
    return op.reshape(data, ShapeExpr([_left_over(g, dims, sizes, i) for i in range(len(sizes))]))


def _copied(g: Emitter, size: PrimExpr, dim: PrimExpr) -> PrimExpr:
    """A size, or the dimension of the data in its place if it is 0.

    A size that the model computes from shapes means what it is, also where it is 0.
    """
    if isinstance(size, IntImm):
        return size if size.value else dim
    return Select(size.equal(0), dim, size) if g.may_be_negative(size) else size


def _left_over(g: Emitter, dims: Dims, sizes: Sequence[PrimExpr], index: int) -> PrimExpr:
    """A size; what the others leave over if it is -1, or may be."""
    size = sizes[index]
    minus_one = isinstance(size, IntImm) and size.value == -1
    if not minus_one and not g.may_be_negative(size):
        return size
    other_sizes = product(tuple(other for i, other in enumerate(sizes) if i != index))
    rest = product(dims) // intrin.max(other_sizes, const(1, "int64"))
    return rest if minus_one else Select(size.equal(-1), rest, size)


@converter("Flatten")
def flatten(g: Emitter, data: Tensor, *, axis: int = 1) -> Tensor:
    dims = g.dims(data)
    split_axis = axis if axis == len(dims) else g.axis(axis, len(dims))
    return op.reshape(data, ShapeExpr([product(dims[:split_axis]), product(dims[split_axis:])]))


# ------------------------------------------------------------------------------------- dimensions of size 1


@converter("Squeeze")
def squeeze(g: Emitter, data: Tensor, axes: Signed | None = None) -> Tensor:
    numbers = None if axes is None else _numbers(axes)
    if numbers is not None and g.rank(data) is None:
        return op.squeeze(data, numbers)
    dims = g.dims(data)
    if axes is None:
        return _without_ones(g, data, dims)
    if numbers is not None:
        return op.squeeze(data, g.axes(numbers, len(dims)))
    dropped = named_axes(axes, len(dims))
    return op.reshape(data, ShapeExpr(kept_sizes(dims, dropped, len(dims) - len(axes))))


MOST_UNDECIDED = 4
"""Maximum number of dynamic dimensions that Squeeze without axes compares with 1 when the program runs."""


def _without_ones(g: Emitter, data: Tensor, dims: Dims) -> Tensor:
    """Remove the dimensions of size 1. An If compares each dynamic dimension with 1 when the program runs."""
    undecided = undecided_ones(g, dims)
    if not undecided:
        return op.squeeze(data, [d for d, dim in enumerate(dims) if g.is_true(dim.equal(1))])
    if len(undecided) > MOST_UNDECIDED:
        message = f"without axes, it must be known whether the size {undecided[0]} is 1"
        raise g.shape_error(message, "give the size", code="E6005")

    def again() -> list[Tensor]:
        return [g.emit(_without_ones(g, data, dims))]

    (result,) = chosen(g, PrimValue(undecided[0].equal(1)), (again, again), [None])
    return result


@converter("Unsqueeze")
def unsqueeze(g: Emitter, data: Tensor, axes: Signed) -> Tensor:
    numbers = _numbers(axes)
    if numbers is not None and g.rank(data) is None and len(numbers) == 1:
        return op.expand_dims(data, numbers)
    dims = g.dims(data)
    ndim = len(dims) + len(axes)
    if numbers is not None:
        return op.expand_dims(data, g.axes(numbers, ndim))
    return op.reshape(data, ShapeExpr(_with_ones(dims, named_axes(axes, ndim))))


def _with_ones(dims: Dims, new: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Sizes with a 1 in each place that is new."""
    sizes: list[PrimExpr] = []
    before: PrimExpr = const(0, "int64")
    for is_new in new:
        size: PrimExpr = const(1, "int64")
        for d, dim in enumerate(dims):
            size = Select(intrin.all(intrin.logical_not(is_new), before.equal(d)), dim, size)
        sizes.append(size)
        before = before + Select(is_new, const(0, "int64"), const(1, "int64"))
    return sizes


def _numbers(values: Signed) -> Ints | None:
    """Scalars as integers, None if one is not known."""
    numbers = tuple(value.value for value in values if isinstance(value, IntImm))
    return numbers if len(numbers) == len(values) else None


# ------------------------------------------------------------------------------------- repeating


@converter("Expand")
def expand(g: Emitter, data: Tensor, shape: Dims) -> Tensor:
    return op.broadcast_to(data, ShapeExpr(broadcast(g, g.dims(data), shape)))


def broadcast(g: Emitter, dims: Dims, sizes: Dims) -> list[PrimExpr]:
    """The shape that tensors of two shapes broadcast to; what is not known is a choice at run time."""
    ndim = max(len(dims), len(sizes))
    one = const(1, "int64")
    pairs = zip([*[one] * (ndim - len(dims)), *dims], [*[one] * (ndim - len(sizes)), *sizes], strict=True)
    return [_broadcast_size(g, dim, size) for dim, size in pairs]


def _broadcast_size(g: Emitter, dim: PrimExpr, size: PrimExpr) -> PrimExpr:
    if g.is_true(dim.equal(size)) or g.is_true(size.equal(1)):
        return dim
    if g.is_true(dim.equal(1)):
        return size
    if isinstance(dim, IntImm) and isinstance(size, IntImm):
        raise g.error(f"the sizes {dim.value} and {size.value} do not broadcast", code="E6003")
    if isinstance(dim, IntImm) or isinstance(size, IntImm):
        return dim if isinstance(dim, IntImm) else size
    return Select(size.equal(1), dim, size)


@converter("Tile", since=6)
def tile(g: Emitter, data: Tensor, repeats: Dims) -> Tensor:
    if g.ndim(data) != len(repeats):
        raise g.error(f"repeats has {len(repeats)} elements for {g.ndim(data)} dimensions", code="E6003")
    return op.tile(data, ShapeExpr(repeats))
