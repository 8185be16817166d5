"""Operators that create tensors from attributes and shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import op
from ....expr import PrimValue, ShapeExpr
from ....ir import DataType
from ....prim import const
from ..emitter import Emitter
from ..registry import converter, register
from ..values import Array, Dims, Ints, Strings, Tensor, Value

FLOAT = 1
"""ONNX's number of float32."""


@converter("Constant")
def constant(
    g: Emitter,
    *,
    value: Array | None = None,
    sparse_value: Array | None = None,
    value_int: int | None = None,
    value_ints: Ints | None = None,
    value_float: float | None = None,
    value_floats: Any = None,
    value_string: str | None = None,
    value_strings: Any = None,
) -> Value:
    for number, dtype in (
        (value_int, "int64"),
        (value_ints, "int64"),
        (value_float, "float32"),
        (value_floats, "float32"),
    ):
        if number is not None:
            return g.const(number, dtype)
    for text in (value_string, value_strings):
        if text is not None:
            return Strings(np.array(text, dtype=object))
    array = value if value is not None else sparse_value
    if array is None:
        raise g.error("it has no value", code="E6002")
    return Strings(array) if array.dtype == object else g.const(array)


@converter("ConstantOfShape")
def constant_of_shape(g: Emitter, shape: Dims, *, value: Array | None = None) -> Tensor:
    if value is not None and (value.size != 1 or value.dtype == object):
        raise g.error("value must be one number", code="E6002")
    number = g.const(0, "float32") if value is None else g.const(np.squeeze(value))
    return op.full(ShapeExpr(shape), number)


@converter("EyeLike")
def eye_like(g: Emitter, x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    return op.eye_like(x, k, dtype=g.dtype(x) if dtype is None else g.numbers(dtype))


# ------------------------------------------------------------------------------------- Range


@converter("Range")
def range_(g: Emitter, start: Value, limit: Value, delta: Value, *, stash_type: int = FLOAT) -> Tensor:
    """From scalars; a range of floats that are no constants is computed from tensors.

    The elements of narrow floats are computed in float32, or in float64 if `stash_type` says so.
    """
    scalars = [g.elements(value) for value in (start, limit, delta)]
    bounds = [scalar for scalar in scalars if scalar is not None and scalar.array.size == 1]
    if len(bounds) == 3:
        dtype = bounds[0].dtype
        if DataType(dtype).is_integer or all(bound.numbers() is not None for bound in bounds):
            return op.arange(*(PrimValue(bound.flat[0]) for bound in bounds), dtype=dtype)
    tensors = [g.tensor(value) for value in (start, limit, delta)]
    dtype = g.dtype(tensors[0])
    first, last, step = (g.emit(op.reshape(x, ())) if g.ndim(x) else x for x in tensors)
    (count,) = g.sizes(_number_of_steps(g, first, last, step), "count")
    wide = g.numbers(stash_type) if dtype.is_float and dtype.bits < 32 else dtype
    steps = op.multiply(g.cast(op.arange(PrimValue(count)), wide), g.cast(step, wide))
    return g.cast(op.add(steps, g.cast(first, wide)), dtype)


def _number_of_steps(g: Emitter, first: Tensor, last: Tensor, step: Tensor) -> Tensor:
    """The number of elements of a range whose bounds are scalar tensors."""
    dtype = g.dtype(first)
    if dtype.is_float:
        wide = [g.cast(x, "float64") for x in (first, last, step)]
        count = op.astype(op.ceil(op.divide(op.subtract(wide[1], wide[0]), wide[2])), "int64")
    else:
        first, last, step = (g.cast(x, "int64") for x in (first, last, step))
        count = op.negative(op.floor_divide(op.subtract(first, last), step))
    return g.emit(op.maximum(count, 0))


# ------------------------------------------------------------------------------------- windows


def _window(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def convert(g: Emitter, size: Dims, *, output_datatype: int = FLOAT, periodic: int = 1) -> Tensor:
        dtype = g.numbers(output_datatype)
        return function(PrimValue(g.single(size, "size")), PrimValue(const(bool(periodic), "bool")), dtype)

    return convert


def _hamming(size: PrimValue, periodic: PrimValue, dtype: str) -> Tensor:
    alpha, beta = PrimValue(25 / 46), PrimValue(1 - 25 / 46)
    return op.hamming_window(size, periodic, alpha, beta, dtype=dtype)


def _hann(size: PrimValue, periodic: PrimValue, dtype: str) -> Tensor:
    return op.hann_window(size, periodic, dtype)


def _blackman(size: PrimValue, periodic: PrimValue, dtype: str) -> Tensor:
    return op.blackman_window(size, periodic, dtype=dtype)


register("BlackmanWindow", _window(_blackman))
register("HammingWindow", _window(_hamming))
register("HannWindow", _window(_hann))
