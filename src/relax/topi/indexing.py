"""Indices held by tensors: their interpretation, and formulas that read at them.

A negative index counts from the end. An index out of range is an error when the element is read or written, as every
access of a kernel is checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te
from ..prim import IntImm, PrimExpr, Select, Var, const, intrin
from ..prim import cast as cast_expr
from ..tir.buffer import Buffer
from ..tir.stmt import AssertStmt, BufferStore, For, Stmt
from .broadcast import broadcast_shape, read_broadcast
from .util import normalize_axis

Indices = Sequence[Any]


def as_int64(raw: PrimExpr) -> PrimExpr:
    """Convert an index to int64; uint64 values beyond it stay larger than every size."""
    if raw.dtype == "uint64":
        raw = intrin.min(raw, const(2**63 - 1, "uint64"))
    return cast_expr("int64", raw)


def from_front(raw: PrimExpr, size: PrimExpr) -> PrimExpr:
    """Convert a negative index, which counts from the end, to a non-negative one."""
    index = as_int64(raw)
    return index if raw.dtype.is_uint else Select(index < 0, index + size, index)


def depth_of(indices: te.Tensor) -> int:
    """Length of the index tuples in a tensor: its last dimension. Raises ValueError if it is not static.

    Raises ValueError if that is not a constant.
    """
    last = indices.shape[-1]
    if not isinstance(last, IntImm):
        raise ValueError("the last size of a tensor of index tuples must be a constant")
    return last.value


def row_index(indices: te.Tensor, row: Indices, sizes: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Index tuple in a row of `indices`, into dimensions of these sizes."""
    return [from_front(indices(*row, const(d, "int64")), size) for d, size in enumerate(sizes)]


def gather_elements(data: te.Tensor, indices: te.Tensor, axis: int = 0) -> te.Tensor:
    """For each index into `indices`, the element of data at this index, with component `axis` replaced by the value
    there.
    """
    axis = normalize_axis(axis, data.ndim)

    def read(*i: Any) -> PrimExpr:
        return data(*i[:axis], from_front(indices(*i), data.shape[axis]), *i[axis + 1 :])

    return te.compute(indices.shape, read, "T_gather_elements", tag="injective")


def gather_nd(data: te.Tensor, indices: te.Tensor, batch_dims: int = 0) -> te.Tensor:
    """Slice of data at each index tuple, a row of `indices`; the `batch_dims` leading dimensions agree."""
    depth = depth_of(indices)
    rows, whole = indices.ndim - 1, batch_dims + depth

    def read(*i: Any) -> PrimExpr:
        index = row_index(indices, i[:rows], data.shape[batch_dims:whole])
        return data(*i[:batch_dims], *index, *i[rows:])

    shape = (*indices.shape[:-1], *data.shape[whole:])
    return te.compute(shape, read, "T_gather_nd", tag="injective")


def index_tensor(data: te.Tensor, indices: Sequence[te.Tensor]) -> te.Tensor:
    """data[indices[0], indices[1], …] of the leading dimensions, as NumPy indexes: the index tensors broadcast."""
    shape = broadcast_shape(*(index.shape for index in indices))

    def read(*i: Any) -> PrimExpr:
        broadcast_index = i[: len(shape)]
        leading = [
            from_front(read_broadcast(index, shape, broadcast_index), data.shape[d]) for d, index in enumerate(indices)
        ]
        return data(*leading, *i[len(shape) :])

    return te.compute((*shape, *data.shape[len(indices) :]), read, "T_index_tensor", tag="injective")


def one_hot(indices: te.Tensor, on_value: PrimExpr, off_value: PrimExpr, depth: PrimExpr, axis: int = -1) -> te.Tensor:
    """Encode each index along a new axis: on_value at the index, off_value elsewhere."""
    axis = normalize_axis(axis, indices.ndim + 1)

    def read(*i: Any) -> PrimExpr:
        index = as_int64(indices(*i[:axis], *i[axis + 1 :]))
        return Select(index.equal(i[axis].astype("int64")), on_value, off_value)

    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    return te.compute(shape, read, "T_one_hot", tag="injective")


def reverse_sequence(data: te.Tensor, seq_lengths: te.Tensor, seq_axis: int = 1, batch_axis: int = 0) -> te.Tensor:
    """data with the first seq_lengths[b] elements along `seq_axis` reversed, in each slice b of `batch_axis`.

    The kernel asserts that a length is no less than 0 and no more than the size.
    """
    seq_axis, batch_axis = normalize_axis(seq_axis, data.ndim), normalize_axis(batch_axis, data.ndim)
    lengths = _checked_lengths(seq_lengths, data.shape[seq_axis], seq_axis)

    def read(*i: Any) -> PrimExpr:
        length = lengths(i[batch_axis])
        at = i[seq_axis]
        source = Select(at < length, length - 1 - at, at)
        return data(*i[:seq_axis], source, *i[seq_axis + 1 :])

    return te.compute(data.shape, read, "T_reverse_sequence", tag="injective")


def lengths_message(seq_axis: int) -> str:
    """Message for lengths of `reverse_sequence` out of range; `seq_axis` is not negative."""
    return f"seq_lengths must be from 0 to the size of dimension {seq_axis} of data"


def _checked_lengths(seq_lengths: te.Tensor, size: PrimExpr, seq_axis: int) -> te.Tensor:
    """Lengths in int64, asserted to be from 0 to a size."""

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        n = Var("n", "int64")
        length = as_int64(ins[0][n])
        legal = intrin.all(length >= 0, length <= size)
        body = AssertStmt(legal, lengths_message(seq_axis), BufferStore(outs[0], length, (n,)))
        return For(n, 0, seq_lengths.shape[0], "serial", body)

    return te.extern([seq_lengths.shape], [seq_lengths], statement, "sequence_lengths", ["int64"])[0]
