"""Formulas that write at indices: a copy of a tensor in which updates are stored or combined in sequence.

Updates are applied in the row-major order of their indices, so the last one for an element wins. A sum or product of
narrow floats is kept in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..ir import DataType
from ..prim import PrimExpr, Var, const, intrin
from ..tir.buffer import Buffer
from ..tir.stmt import BufferStore, For, SeqStmt, Stmt
from .broadcast import broadcast_index, broadcast_shape
from .indexing import depth_of, from_front
from .slicing import slice_of
from .util import accumulator_dtype, normalize_axis, plus, times

Combine = Callable[[PrimExpr, PrimExpr], PrimExpr]
Index = Sequence[Any]
Place = Callable[[Index, Sequence[Buffer]], Sequence[PrimExpr]]
"""Function from the index of an update and the buffers of the other operands to the index in the data."""

_COMBINE: dict[str, Combine] = {
    "update": lambda _, value: value,
    "add": plus,
    "mean": plus,
    "mul": times,
    "min": intrin.min,
    "max": intrin.max,
}


def _working_dtype(dtype: DataType, reduction: str) -> DataType:
    """Dtype in which elements are combined."""
    if reduction == "update":
        return dtype
    if reduction == "mean" and not dtype.is_float:
        return DataType("uint64" if dtype == "uint64" else "int64")
    narrow = dtype.is_float and dtype.bits <= 8
    return accumulator_dtype(dtype) if reduction in ("add", "mul", "mean") or narrow else dtype


def _nest(shape: Sequence[PrimExpr], body: Callable[[list[Var]], Stmt]) -> Stmt:
    """Nest loops over the indices of a shape, in row-major order."""
    loops = [Var(f"i{d}", "int64") for d in range(len(shape))]
    stmt = body(loops)
    for var, size in zip(reversed(loops), reversed(shape), strict=True):
        stmt = For(var, 0, size, "serial", stmt)
    return stmt


def scattered(
    data: te.Tensor,
    inputs: Sequence[te.Tensor],
    shape: Sequence[PrimExpr],
    place: Place,
    value: Callable[[Index, Sequence[Buffer]], PrimExpr],
    reduction: str,
    name: str,
) -> te.Tensor:
    """Combine updates of shape `shape` into a copy of data.

    `place` and `value` return the index in data and the value of the update at an index, from the buffers of `inputs`.
    """
    wide = _working_dtype(data.dtype, reduction)
    combine = _COMBINE[reduction]

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        source, rest, target = ins[0], ins[1:], outs[0]

        def copy(i: list[Var]) -> Stmt:
            return _both(BufferStore(target, source[tuple(i)].astype(wide), i), outs[1:], i, None)

        def update(i: list[Var]) -> Stmt:
            at = list(place(i, rest))
            new = combine(target[tuple(at)], value(i, rest).astype(wide))
            return _both(BufferStore(target, new, at), outs[1:], at, 1)

        return SeqStmt((_nest(data.shape, copy), _nest(shape, update)))

    if reduction != "mean":
        total = te.extern([data.shape], [data, *inputs], statement, name, [wide])[0]
        return total if wide == data.dtype else _converted(total, data.dtype, name)
    sums, counts = te.extern([data.shape] * 2, [data, *inputs], statement, name, [wide, "int64"])
    return te.compute(data.shape, lambda *i: _mean(sums(*i), counts(*i), data.dtype), f"{name}_mean")


def _both(store: Stmt, counts: Sequence[Buffer], at: Sequence[PrimExpr], step: int | None) -> Stmt:
    """Store to the data, and to the counts of combined elements if these are kept."""
    if not counts:
        return store
    one = const(1, "int64")
    count = one if step is None else counts[0][tuple(at)] + one
    return SeqStmt((store, BufferStore(counts[0], count, at)))


def _converted(x: te.Tensor, dtype: DataType, name: str) -> te.Tensor:
    return te.compute(x.shape, lambda *i: x(*i).astype(dtype), f"{name}_cast", tag="elemwise")


def _mean(total: PrimExpr, count: PrimExpr, dtype: DataType) -> PrimExpr:
    divisor = count.astype(total.dtype)
    return (total / divisor if dtype.is_float else intrin.floordiv(total, divisor)).astype(dtype)


def scatter_elements(
    data: te.Tensor, indices: te.Tensor, updates: te.Tensor, axis: int = 0, reduction: str = "update"
) -> te.Tensor:
    """data with each update written at its own index, with component `axis` replaced by the value of `indices`."""
    axis = normalize_axis(axis, data.ndim)

    def place(i: Index, ins: Sequence[Buffer]) -> Sequence[PrimExpr]:
        return [*i[:axis], from_front(ins[0][tuple(i)], data.shape[axis]), *i[axis + 1 :]]

    return scattered(
        data, [indices, updates], indices.shape, place, lambda i, ins: ins[1][tuple(i)], reduction, "scatter_elements"
    )


def scatter_nd(data: te.Tensor, indices: te.Tensor, updates: te.Tensor, reduction: str = "update") -> te.Tensor:
    """data with a slice of `updates` written at each index tuple, a row of `indices`."""
    depth, rows = depth_of(indices), indices.ndim - 1

    def place(i: Index, ins: Sequence[Buffer]) -> Sequence[PrimExpr]:
        index = [from_front(ins[0][(*i[:rows], const(d, "int64"))], size) for d, size in enumerate(data.shape[:depth])]
        return [*index, *i[rows:]]

    return scattered(
        data, [indices, updates], updates.shape, place, lambda i, ins: ins[1][tuple(i)], reduction, "scatter_nd"
    )


def index_put(data: te.Tensor, indices: Sequence[te.Tensor], values: te.Tensor, accumulate: bool = False) -> te.Tensor:
    """data after data[indices[0], indices[1], …] = values (+= with `accumulate`); all broadcast."""
    shape = broadcast_shape(*(index.shape for index in indices))
    rows = len(shape)
    full = (*shape, *data.shape[len(indices) :])

    def place(i: Index, ins: Sequence[Buffer]) -> Sequence[PrimExpr]:
        index = [
            from_front(_broadcast_load(ins[d], tensor, shape, i[:rows]), data.shape[d])
            for d, tensor in enumerate(indices)
        ]
        return [*index, *i[rows:]]

    return scattered(
        data,
        [*indices, values],
        full,
        place,
        lambda i, ins: _broadcast_load(ins[-1], values, full, i),
        "add" if accumulate else "update",
        "index_put",
    )


def _broadcast_load(buffer: Buffer, x: te.Tensor, shape: Sequence[PrimExpr], i: Index) -> PrimExpr:
    """Read the element of a broadcast tensor's buffer at an index of the broadcast shape."""
    return buffer[tuple(broadcast_index(x.shape, shape, i))]


def slice_scatter(x: te.Tensor, src: te.Tensor, start: Any, end: Any, step: int, axis: int = 0) -> te.Tensor:
    """x with its slice ``start:end:step`` along an axis replaced by ``src``; the step is positive."""
    axis = normalize_axis(axis, x.ndim)
    section = slice_of(x.shape[axis], start, end, step)

    def read(*i: Any) -> PrimExpr:
        at = i[axis] - section.begin.astype(i[axis].dtype)
        index = at if step == 1 else intrin.floordiv(at, step)
        conditions = [at >= 0, index < section.size]
        if step != 1:
            conditions.append(intrin.floormod(at, step).equal(0))
        value = src(*i[:axis], index, *i[axis + 1 :])
        return intrin.if_then_else(intrin.all(*conditions), value, x(*i))

    return te.compute(x.shape, read, "T_slice_scatter", tag="injective")
