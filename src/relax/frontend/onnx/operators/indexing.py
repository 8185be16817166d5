"""Operators that read and write at indices, choose elements, and sort."""

from __future__ import annotations

from typing import Any

from .... import op
from ....expr import Call, Constant, PrimValue, Var
from ....op import is_call_of
from ....op.creation import Full
from ....prim import const
from ..emitter import Emitter
from ..registry import converter
from ..values import Signed, Tensor, Value

# ------------------------------------------------------------------------------------- reading


@converter("Gather")
def gather(g: Emitter, data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    ndim = g.rank(data)
    return op.take(data, indices, axis if ndim is None else g.axis(axis, ndim))


@converter("GatherElements")
def gather_elements(g: Emitter, data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return op.gather_elements(data, indices, axis)


@converter("GatherND")
def gather_nd(g: Emitter, data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    return op.gather_nd(data, indices, batch_dims)


@converter("Compress")
def compress(g: Emitter, data: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    positions = g.emit(op.nonzero(condition))
    x = op.flatten(data) if axis is None else data
    return op.take(x, op.flatten(positions), 0 if axis is None else axis)


# ------------------------------------------------------------------------------------- writing


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _reduction(g: Emitter, name: str) -> str:
    return _REDUCTIONS[g.choice(name, "reduction", tuple(_REDUCTIONS))]


@converter("Scatter", "ScatterElements")
def scatter_elements(
    g: Emitter, data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    return op.scatter_elements(data, indices, updates, axis, _reduction(g, reduction))


@converter("ScatterND")
def scatter_nd(g: Emitter, data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    return op.scatter_nd(data, indices, updates, _reduction(g, reduction))


@converter("OneHot", since=9)
def one_hot(g: Emitter, indices: Tensor, depth: Value, values: Tensor, *, axis: int = -1) -> Tensor:
    if not g.dtype(g.tensor(depth, "depth")).is_integer:  # ONNX allows any number
        depth = g.emit(g.cast(g.tensor(depth, "depth"), "int64"))
    size = g.single(g.scalars(depth, "depth", signed=True), "depth")
    index = indices
    if not g.dtype(index).is_uint:
        index = g.emit(g.cast(index, "int64"))
        index = op.where(op.less(index, 0), op.add(index, g.scalar(size)), index)
    on, off = (PrimValue(const(value, "bool")) for value in (True, False))
    chosen = op.one_hot(index, on, off, PrimValue(size), axis=axis)
    low, high = (op.take(values, g.const(i, "int64"), 0) for i in range(2))
    return op.where(chosen, high, low)


# ------------------------------------------------------------------------------------- choosing, sorting


@converter("NonZero")
def nonzero(g: Emitter, x: Tensor) -> Tensor:
    rank = g.ndim(x)
    if rank == 1 and _is_filled(g, x):  # exporters write arange as the indices of ones
        return op.expand_dims(op.arange(PrimValue(g.dims(x)[0])), 0)
    # How many dimensions the indices have is known: GatherND and ScatterND by them need it.
    name = next((name for name in g.outputs if name), "")
    return g.emit(op.nonzero(x), name, {0: const(rank, "int64")} if rank else {})


def _is_filled(g: Emitter, x: Tensor) -> bool:
    """True for a tensor that was made by filling a shape with a number other than 0."""
    value = g.builder.lookup_binding(x) if isinstance(x, Var) else None
    if not isinstance(value, Call) or not is_call_of(value, Full):
        return False
    number = value.args[1]
    return isinstance(number, Constant) and bool(number.data != 0)


@converter("Unique")
def unique(g: Emitter, x: Tensor, *, axis: int | None = None, sorted: int = 1) -> Any:
    dimension = None if axis is None else g.axis(axis, g.ndim(x))
    return op.unique(x, sorted=bool(sorted), return_index=True, return_inverse=True, return_counts=True, axis=dimension)


@converter("TopK")
def topk(g: Emitter, x: Tensor, k: Signed, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    count = g.single(k, "k")
    return op.topk(x, PrimValue(count), axis=axis, ret_type="both", largest=bool(largest), dtype="int64")
