"""Operators that gather elements by index tensors or compute such indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import op
from ...expr import Constant, ShapeExpr, TupleGetItem
from ...expr import Tuple as RelaxTuple
from ...ir import RelaxExpr
from ...prim import IntImm, const
from ...struct_info import TupleStructInfo
from .declare import INJECTIVE, attr, axis_of, declare, dims, dtype, rank, scalar


def _fixed(x: RelaxExpr, axes: Sequence[int], subject: str) -> list[int]:
    """Static sizes of some dimensions. Raises ValueError if one is dynamic."""
    sizes = [dims(x)[axis] for axis in axes]
    numbers = [size.value for size in sizes if isinstance(size, IntImm)]
    if len(numbers) < len(sizes):
        raise ValueError(f"the sizes of {subject} must be numbers")
    return numbers


# -- parts of a tensor


def _slice_like(a: Any, x: RelaxExpr, like: RelaxExpr) -> RelaxExpr:
    axes = [axis_of(axis, x) for axis in a.axes] if a.axes else list(range(min(rank(x), rank(like))))
    ends = [dims(like)[axis] for axis in axes]
    for axis, end in zip(axes, ends, strict=True):
        size = dims(x)[axis]
        if isinstance(end, IntImm) and isinstance(size, IntImm) and end.value > size.value:
            raise ValueError(f"dimension {axis} has {size.value} elements, {end.value} are to be taken")
    return op.strided_slice(x, axes, [0] * len(axes), ends)


declare(
    "slice_like", 2, attr("axes", "ints?", None),
    pattern=INJECTIVE,
    means=_slice_like, operands="data shape_like",
)  # fmt: skip


def _sequence_mask(a: Any, x: RelaxExpr, lengths: RelaxExpr) -> RelaxExpr:
    if rank(x) < 2 or a.axis not in (0, 1):
        raise ValueError("the data must have two dimensions or more, and the axis be 0 or 1")
    axis: int = a.axis
    positions = op.arange(dims(x)[axis], dtype="int64")
    counts = op.astype(lengths, "int64")
    both = op.expand_dims(positions, 1 - axis), op.expand_dims(counts, axis)
    inside = op.less(*both)
    if rank(x) > 2:
        inside = op.expand_dims(inside, list(range(2, rank(x))))
    return op.where(inside, x, scalar(a.mask_value, x))


declare(
    "sequence_mask", 2, attr("mask_value", "float", 0.0), attr("axis", "int", 0),
    pattern=INJECTIVE,
    means=_sequence_mask, operands="data valid_length",
)  # fmt: skip


def _sliding_window(a: Any, x: RelaxExpr) -> RelaxExpr:
    """Split each dimension from the axis on in two: the windows, and the positions in a window."""
    count = rank(x)
    first = axis_of(a.axis, x)
    if not len(a.window_shape) == len(a.strides) == count - first:
        raise ValueError(f"window_shape and strides have one number for each of {count - first} dimensions")
    sizes = dims(x)
    for i, (window, stride) in enumerate(zip(a.window_shape, a.strides, strict=True)):
        starts = op.arange((sizes[first + i] - int(window)) // const(stride, "int64") + 1, dtype="int64")
        starts = op.multiply(starts, Constant(np.array(stride, "int64")))
        positions = op.add(op.expand_dims(starts, 1), Constant(np.arange(window, dtype="int64")))
        x = op.take(x, positions, first + 2 * i)
    windows = count - first
    order = [*range(first), *(first + 2 * i for i in range(windows)), *(first + 2 * i + 1 for i in range(windows))]
    return op.permute_dims(x, order)


declare(
    "sliding_window", 1, attr("axis", "int"), attr("window_shape", "ints"), attr("strides", "ints"),
    pattern=INJECTIVE,
    means=_sliding_window,
)  # fmt: skip


def _matrix_set_diag(a: Any, x: RelaxExpr, diagonal: RelaxExpr) -> RelaxExpr:
    """Replace the bands k1 to k2. A shorter band is aligned left or right in its row of `diagonal`."""
    rows, columns = _fixed(x, (rank(x) - 2, rank(x) - 1), "the matrices")
    if a.k1 > a.k2 or not -rows < a.k1 <= a.k2 < columns:
        raise ValueError(f"the bands {a.k1} to {a.k2} are not in matrices of {rows} rows and {columns} columns")
    lengths = {k: min(rows + min(k, 0), columns - max(k, 0)) for k in range(a.k1, a.k2 + 1)}
    longest = max(lengths.values())
    i, j = np.indices((rows, columns))
    band = j - i
    inside = (band >= a.k1) & (band <= a.k2)
    position = np.minimum(i, j)
    for k, length in lengths.items():
        if a.super_diag_right_align if k >= 0 else a.sub_diag_right_align:
            position = np.where(band == k, position + longest - length, position)
    position = np.where(inside, (a.k2 - band) * longest + position, 0)
    if a.k1 == a.k2:
        flat = diagonal
    else:
        flat = op.reshape(diagonal, ShapeExpr([*dims(diagonal)[:-2], const(len(lengths) * longest, "int64")]))
    return op.where(Constant(inside), op.take(flat, Constant(position), rank(x) - 2), x)


declare(
    "matrix_set_diag", 2, attr("k1", "int", 0), attr("k2", "int", 0),
    attr("super_diag_right_align", "bool", True), attr("sub_diag_right_align", "bool", False),
    pattern=INJECTIVE,
    means=_matrix_set_diag, operands="data diagonal",
)  # fmt: skip

# -- indices


def _adv_index(a: Any, tensors: RelaxExpr) -> RelaxExpr:
    del a
    info = tensors.struct_info_
    if not isinstance(info, TupleStructInfo) or len(info.fields) < 2:
        raise ValueError("the operand is a tuple of the data and of indices")
    fields = [TupleGetItem(tensors, i) for i in range(len(info.fields))]
    if isinstance(tensors, RelaxTuple):
        return op.index_tensor(tensors.fields[0], tensors.fields[1:])
    return op.index_tensor(fields[0], fields[1:])


declare("adv_index", 1, means=_adv_index, operands="inputs")


def _unravel_index(a: Any, indices: RelaxExpr, shape: RelaxExpr) -> RelaxExpr:
    """Coordinates of flat indices, computed from the last dimension to the first."""
    del a
    (count,) = _fixed(shape, (0,), "the shape")
    rest, coordinates = indices, list[RelaxExpr]()
    for axis in reversed(range(count)):
        size = op.astype(op.take(shape, Constant(np.array(axis)), 0), dtype(indices))
        coordinates.append(op.floor_mod(rest, size))
        rest = op.floor_divide(rest, size)
    return op.stack(coordinates[::-1], 0)


declare("unravel_index", 2, means=_unravel_index, operands="indices shape")
declare(
    "invert_permutation", 1,
    means=lambda a, x: op.astype(op.argsort(x, 0, False, "int64"), dtype(x)),
)  # fmt: skip


def _searchsorted(a: Any, sequence: RelaxExpr, values: RelaxExpr) -> RelaxExpr:
    if rank(sequence) == 1:
        return op.astype(op.bucketize(values, sequence, False, a.right), str(a.dtype))
    if rank(sequence) != rank(values):
        raise ValueError("the sequences are one, or as many as there are rows of values")
    both = op.expand_dims(sequence, rank(sequence) - 1), op.expand_dims(values, rank(values))
    before = (op.less_equal if a.right else op.less)(*both)
    return op.sum(op.astype(before, str(a.dtype)), [-1])


declare(
    "searchsorted", 2, attr("right", "bool", False), attr("dtype", "dtype", "int32"),
    means=_searchsorted, operands="sorted_sequence values",
)  # fmt: skip
declare(
    "argwhere", 1,
    means=lambda a, x: op.astype(op.permute_dims(op.nonzero(x)), "int32"), operands="condition",
)  # fmt: skip


def _unique(a: Any, x: RelaxExpr) -> RelaxExpr:
    """Distinct elements, index of each first occurrence, inverse indices, their number, and counts."""
    distinct = op.unique(x, a.sorted, True, True, a.return_counts)
    numbers = [op.astype(TupleGetItem(distinct, i), "int32") for i in range(1, 4 if a.return_counts else 3)]
    size = op.shape_to_tensor(op.shape_of(TupleGetItem(distinct, 0)))
    return RelaxTuple([TupleGetItem(distinct, 0), *numbers[:2], op.astype(size, "int32"), *numbers[2:]])


declare(
    "unique", 1, attr("sorted", "bool", True), attr("return_counts", "bool", False),
    means=_unique, results=lambda a, _: 5 if a.return_counts else 4,
)  # fmt: skip
declare(
    "ndarray_size", 1, attr("dtype", "dtype", "int32"),
    means=lambda a, x: op.astype(op.prod(op.shape_to_tensor(ShapeExpr(dims(x)))), str(a.dtype)),
)  # fmt: skip
