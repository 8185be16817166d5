"""Operators that read at indices held by tensors. A negative index counts from the end; one out of range is an error.

Checks shared with the operators that write at indices (scatter.py) are here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import topi
from ..info.text import prim_text
from ..ir import DataType
from ..prim import IntImm, PrimExpr, prove
from ..struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from ..topi.indexing import lengths_message
from .base import Gradients, Term
from .dims import broadcast_all, check_later, normalize_axis, require_same_dim, same_dtype, tensor
from .errors import DTYPES, OPERANDS, SHAPES, OperatorError, UnknownSizeError
from .gradients import apply, is_float
from .operands import INTEGERS
from .operator import Array, operator
from .pieces import count_of, tensor_fields
from .shapes import Move

# ------------------------------------------------------------------------------------- about index operands


def checked_index(indices: Array, size: int) -> Array:
    """Return non-negative int64 indices of a dimension. Raises IndexError for one out of range."""
    raw = np.asarray(indices)
    wide = np.minimum(raw, np.uint64(2**63 - 1)) if raw.dtype == np.uint64 else raw
    index = wide.astype(np.int64)
    index = np.where(index < 0, index + size, index)
    if ((index < 0) | (index >= size)).any():
        raise IndexError(f"an index is out of range for size {size}")
    return index


def constant_of(size: PrimExpr) -> int | None:
    """Value of a static dimension."""
    return size.value if isinstance(size, IntImm) else None


def require_at_most(size: PrimExpr, limit: PrimExpr, error: OperatorError) -> None:
    """Raise the error if a dimension is proved greater than another; check at run time if undecided."""
    if prove(size > limit):
        raise error
    if not prove(size <= limit):
        check_later(size <= limit, error.message)


def require_dims(dims: Sequence[PrimExpr], expected: Sequence[PrimExpr], operand: str, other: str) -> None:
    """Raise OperatorError for the first dimension of an operand that differs from that of another shape."""
    for d, (a, b) in enumerate(zip(dims, expected, strict=True)):
        message = f"dimension {d} of {operand} is {prim_text(a)}, and of {other} {prim_text(b)}"
        require_same_dim(a, b, OperatorError(SHAPES, message, operand=operand))


class Indexed(Move):
    """Base of operators that read or write at indices."""

    __slots__ = ()

    def require_indices(self, info: TensorStructInfo, operand: str = "indices") -> None:
        self.require_dtype(info, operand, *INTEGERS)

    def require_elements_fit(self, data: TensorStructInfo, indices: TensorStructInfo, axis: int) -> int:
        """Return the axis as a non-negative index, after checking that indices lie within data along the other axes."""
        self.require_indices(indices)
        ranks = {info.ndim for info in (data, indices) if info.ndim != -1}
        if len(ranks) > 1:
            message = f"data and indices must have one number of dimensions, found {data.ndim} and {indices.ndim}"
            raise OperatorError(SHAPES, message, operand="indices")
        dimension = normalize_axis(axis, max(ranks), "axis", "data") if ranks else axis
        if data.dims is not None and indices.dims is not None:
            for d, (size, limit) in enumerate(zip(indices.dims, data.dims, strict=True)):
                if d != dimension:
                    message = f"dimension {d} of indices is {prim_text(size)}, greater than {prim_text(limit)} of data"
                    require_at_most(size, limit, OperatorError(SHAPES, message, operand="indices"))
        return dimension

    def index_depth(self, data: TensorStructInfo, indices: TensorStructInfo, before: int = 0) -> int | None:
        """Length of each index tuple, the last dimension of `indices`; None if unknown.

        The first `before` dimensions of data are not indexed.
        """
        self.require_indices(indices)
        if indices.ndim == 0:
            raise OperatorError(SHAPES, "indices must have at least one dimension", operand="indices")
        depth = None if indices.dims is None else constant_of(indices.dims[-1])
        if depth is not None and data.ndim != -1 and before + depth > data.ndim:
            message = f"the last size of indices is {depth}, but data has {data.ndim - before} dimensions to index"
            raise OperatorError(SHAPES, message, operand="indices")
        return depth


def index_fields(indices: TupleStructInfo, operand: str, data: TensorStructInfo) -> list[TensorStructInfo]:
    """Fields of a tuple of index tensors, one per leading dimension of data."""
    fields = tensor_fields(indices, operand)
    if not fields:
        raise OperatorError(OPERANDS, f"{operand} must hold at least one tensor", operand=operand)
    if data.ndim != -1 and len(fields) > data.ndim:
        message = f"{operand} holds {len(fields)} tensors, but data has {data.ndim} dimensions"
        raise OperatorError(OPERANDS, message, operand=operand)
    for i, field in enumerate(fields):
        if not (field.dtype.is_void or field.dtype.is_integer):
            message = f"{operand}[{i}] must be a tensor of integers, found {field.dtype!s}"
            raise OperatorError(DTYPES, message, operand=operand)
    return fields


def broadcast_indices(fields: Sequence[TensorStructInfo], operand: str) -> TensorStructInfo:
    """Struct info of index tensors broadcast together."""
    names = [f"{operand}[{i}]" for i in range(len(fields))]
    return broadcast_all(fields, DataType("int64"), names)


# -------------------------------------------------------------------------------------------- the operators


@operator("relax.gather_elements")
class GatherElements(Indexed):
    """For each index into `indices`, the element of data at this index, with component `axis` replaced by the value
    there.
    """

    axis: int = 0

    def infer(self, data: TensorStructInfo, indices: TensorStructInfo) -> TensorStructInfo:
        self.require_elements_fit(data, indices, self.axis)
        ndim = max(data.ndim, indices.ndim)
        return TensorStructInfo(indices.shape, data.dtype, None, -1 if indices.shape is not None else ndim)

    compute = topi.gather_elements

    def reference(self, data: Array, indices: Array) -> Array:
        if not indices.size:
            return np.empty(indices.shape, data.dtype)
        return data[element_places(data, indices, self.axis)]

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, indices = operands
        if not is_float(data):
            return (None, None)
        zeros = apply("zeros_like", data)
        added = apply("scatter_elements", zeros, indices, grad, axis=self.axis, reduction="add")
        return (added, None)


def _every_index(shape: Sequence[int]) -> Array:
    """Indices of all elements of a shape, as one array per dimension."""
    return np.indices(tuple(shape))


def element_places(data: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    """Indices into data of gather_elements and scatter_elements, as one array per dimension."""
    positions: list[Array] = [*_every_index(indices.shape)]
    axis = axis % data.ndim
    positions[axis] = checked_index(indices, data.shape[axis])
    return tuple(positions)


@operator("relax.gather_nd")
class GatherND(Indexed):
    """The slice of data at each index tuple, a row of `indices`.

    The result has the shape indices.shape[:-1] + data.shape[batch_dims + indices.shape[-1]:]. The first `batch_dims`
    dimensions of both operands agree, and are not indexed.
    """

    batch_dims: int = 0

    def infer(self, data: TensorStructInfo, indices: TensorStructInfo) -> TensorStructInfo:
        batch = self.batch_dims
        self.require_attribute(batch >= 0, "batch_dims", "0 or more")
        depth = self.index_depth(data, indices, batch)
        if indices.ndim != -1:
            self.require_attribute(batch < indices.ndim, "batch_dims", "less than the dimensions of indices")
        if data.dims is not None and indices.dims is not None:
            require_dims(indices.dims[:batch], data.dims[:batch], "indices", "data")
            if depth is not None:
                return tensor([*indices.dims[:-1], *data.dims[batch + depth :]], data.dtype)
        if depth is None or data.ndim == -1:
            return tensor(None, data.dtype)
        return tensor(None, data.dtype, indices.ndim - 1 + data.ndim - batch - depth)

    def compute(self, data: Any, indices: Any) -> Any:
        return topi.gather_nd(data, require_depth(indices), self.batch_dims)

    def reference(self, data: Array, indices: Array) -> Array:
        rows, depth, batch = indices.shape[:-1], indices.shape[-1], self.batch_dims
        shape = (*rows, *data.shape[batch + depth :])
        if 0 in shape:
            return np.empty(shape, data.dtype)
        positions = [*_every_index(rows)[:batch], *tuple_places(data.shape[batch:], indices)]
        return np.array(data[tuple(positions)] if positions else np.broadcast_to(data, shape))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, indices = operands
        if not is_float(data):
            return (None, None)
        if self.batch_dims:
            return None
        return (apply("scatter_nd", apply("zeros_like", data), indices, grad, reduction="add"), None)


def require_depth(indices: Any) -> Any:
    """Raise UnknownSizeError unless the last dimension of a te.Tensor of index tuples is static."""
    if constant_of(indices.shape[-1]) is None:
        message = f"the last size of indices must be a constant, found {prim_text(indices.shape[-1])}"
        raise UnknownSizeError(SHAPES, message, operand="indices")
    return indices


def tuple_places(shape: Sequence[int], indices: Array) -> list[Array]:
    """Index tuples in the rows of `indices`, into dimensions of a shape, as one array per dimension."""
    return [checked_index(indices[..., d], shape[d]) for d in range(indices.shape[-1])]


@operator("relax.index_tensor")
class IndexTensor(Indexed):
    """data[indices[0], indices[1], …], as NumPy indexes the leading dimensions by index tensors, which broadcast."""

    def infer(self, data: TensorStructInfo, indices: TupleStructInfo) -> TensorStructInfo:
        fields = index_fields(indices, "indices", data)
        index = broadcast_indices(fields, "indices")
        if data.dims is not None and index.dims is not None:
            return tensor([*index.dims, *data.dims[len(fields) :]], data.dtype)
        if -1 in (data.ndim, index.ndim):
            return tensor(None, data.dtype)
        return tensor(None, data.dtype, index.ndim + data.ndim - len(fields))

    compute = topi.index_tensor

    def reference(self, data: Array, indices: Sequence[Array]) -> Array:
        rows = np.broadcast_shapes(*(index.shape for index in indices))
        shape = (*rows, *data.shape[len(indices) :])
        if 0 in shape:
            return np.empty(shape, data.dtype)
        return np.asarray(data[tuple(map(checked_index, indices, data.shape))])

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, indices = operands
        if not is_float(data):
            return (None, None)
        return (apply("index_put", apply("zeros_like", data), indices, grad, accumulate=True), None)


# -------------------------------------------------------------------------------------- one_hot, sequences


@operator("relax.one_hot")
class OneHot(Indexed):
    """Encode each index along a new axis of size `depth`: on_value at the index, off_value elsewhere.

    An index outside of 0 … depth - 1 gives off_value everywhere.
    """

    takes = INTEGERS

    axis: int = -1

    def infer(
        self, indices: TensorStructInfo, on_value: PrimStructInfo, off_value: PrimStructInfo, depth: PrimStructInfo
    ) -> TensorStructInfo:
        self.require_indices(indices)
        dtype = same_dtype(DataType(on_value.dtype), DataType(off_value.dtype), ("on_value", "off_value"))
        size = count_of(depth, "depth")
        if indices.ndim == -1:
            return tensor(None, dtype)
        ndim = indices.ndim + 1
        axis = normalize_axis(self.axis, ndim, "axis", "indices")
        if indices.dims is None or size is None:
            return tensor(None, dtype, ndim)
        return tensor([*indices.dims[:axis], size, *indices.dims[axis:]], dtype)

    compute = topi.one_hot

    def reference(self, indices: Array, on_value: float, off_value: float, depth: int) -> Array:
        axis = self.axis % (indices.ndim + 1)
        classes = np.expand_dims(np.arange(depth), [*range(1, indices.ndim - axis + 1)])
        hit = np.expand_dims(np.asarray(indices), axis) == classes
        return np.where(hit, np.asarray(on_value), np.asarray(off_value))


@operator("relax.reverse_sequence")
class ReverseSequence(Indexed):
    """data with the first seq_lengths[b] elements along `seq_axis` reversed, in each slice b of `batch_axis`.

    A length below 0 or above the size of `seq_axis` is an error when the program runs.
    """

    seq_axis: int = 1
    batch_axis: int = 0

    def infer(self, data: TensorStructInfo, seq_lengths: TensorStructInfo) -> TensorStructInfo:
        self.require_indices(seq_lengths, "seq_lengths")
        if seq_lengths.ndim not in (-1, 1):
            message = f"seq_lengths must have one dimension, found {seq_lengths.ndim}"
            raise OperatorError(SHAPES, message, operand="seq_lengths")
        if data.ndim == -1:
            return data
        batch = normalize_axis(self.batch_axis, data.ndim, "batch_axis", "data")
        along = normalize_axis(self.seq_axis, data.ndim, "seq_axis", "data")
        self.require_attribute(batch != along, "seq_axis", "another axis than batch_axis")
        if data.dims is not None and seq_lengths.dims is not None:
            a, b = seq_lengths.dims[0], data.dims[batch]
            message = f"seq_lengths has {prim_text(a)} elements, and dimension {batch} of data is {prim_text(b)}"
            require_same_dim(a, b, OperatorError(SHAPES, message, operand="seq_lengths"))
        return data

    compute = topi.reverse_sequence

    def reference(self, data: Array, seq_lengths: Array) -> Array:
        rows = np.moveaxis(data, (self.batch_axis, self.seq_axis), (0, 1))
        if any(not 0 <= int(length) <= rows.shape[1] for length in seq_lengths):
            raise AssertionError(lengths_message(self.seq_axis % data.ndim))
        result = rows.copy()
        for row, into, length in zip(rows, result, map(int, seq_lengths), strict=True):
            into[:length] = row[:length][::-1]
        return np.ascontiguousarray(np.moveaxis(result, (0, 1), (self.batch_axis, self.seq_axis)))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (self.call(grad, operands[1]), None)
