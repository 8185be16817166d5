"""Operators on shapes: Shape and kin, reshapes."""

from __future__ import annotations

from typing import Any

from .... import op
from ....prim import const
from ..emitter import Emitter
from ..model import dtype_name
from ..registry import converter
from ..values import Array, Dims, Elements, Ints, Tensor, Value


@converter("Shape")
def shape(g: Emitter, data: Tensor, *, start: int = 0, end: int | None = None) -> Elements:
    return Elements.of(list(g.dims(data))[start:end])


@converter("Size")
def size(g: Emitter, data: Tensor) -> Elements:
    total = const(1, "int64")
    for dim in g.dims(data):
        total = total * dim
    return Elements.of(total)


@converter("Reshape", since=5)
def reshape(g: Emitter, data: Tensor, shape: Dims, *, allowzero: int = 0) -> Tensor:
    dims = g.dims(data)
    sizes = [
        dims[i] if not allowzero and g.is_true(s.equal(0)) and i < len(dims) else s
        for i, s in enumerate(shape)
    ]
    return op.reshape(data, sizes)


@converter("Constant")
def constant(
    g: Emitter,
    *,
    value: Array | None = None,
    value_int: int | None = None,
    value_ints: Ints | None = None,
    value_float: float | None = None,
    value_floats: Any = None,
) -> Value:
    if value_int is not None:
        return g.const(value_int, "int64")
    if value_ints is not None:
        return g.const(value_ints, "int64")
    if value_float is not None:
        return g.const(value_float, "float32")
    if value_floats is not None:
        return g.const(value_floats, "float32")
    return g.const(value)


@converter("Concat")
def concat(g: Emitter, *inputs: Tensor, axis: int) -> Tensor:
    return op.concat(list(inputs), axis=axis)


@converter("Gather")
def gather(g: Emitter, data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return op.take(data, indices, axis)


@converter("Cast")
def cast(g: Emitter, x: Tensor, *, to: int, saturate: int = 1) -> Tensor:
    return op.astype(x, dtype_name(to))
