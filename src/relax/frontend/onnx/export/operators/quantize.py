"""Quantisation, and random numbers that a seed determines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .....topi.random import GOLDEN, MIXERS, digits
from ..graph import Graph
from ..registry import Sizes, writer
from ..tensor import Tensor
from .creation import numbers
from .elementwise import converted
from .shape import result_rank

_QUANTIZED = ("int8", "uint8", "int16", "uint16", "int4", "uint4")


def _spread(parameter: Tensor, data: Tensor, axis: int, dtype: str) -> Tensor:
    """A parameter of one element for each index along an axis, as it broadcasts to the data."""
    wide = parameter.to(dtype)
    if parameter.ndim == 0:
        return wide
    return wide.reshape([-1 if d == axis % data.ndim else 1 for d in range(data.ndim)])


def _is_linear(operator: Any, data: Tensor, scale: Tensor, zero: Tensor, quantized: str) -> bool:
    """True if ONNX's operator of linear quantisation takes these operands."""
    plain = data.dtype == scale.dtype == "float32" if operator.short_name == "quantize" else scale.dtype == "float32"
    return plain and zero.rank == scale.rank and zero.dtype == quantized and quantized in _QUANTIZED


@writer("relax.quantize")
def quantize(g: Graph, operator: Any, data: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    target = operator.out_dtype
    axis = operator.axis % data.ndim if data.ndim else 0
    if _is_linear(operator, data, scale, zero, str(target)):
        return g.node("QuantizeLinear", data, scale, zero, dtype=str(target), rank=data.rank, axis=axis)
    wide = "float64" if "float64" in (data.dtype, scale.dtype) else "float32"
    quotient = data.to(wide) / _spread(scale, data, axis, wide)
    added = "float64" if target.bits > 16 or zero.kind.bits > 16 else wide
    offset = _spread(zero, data, axis, added)
    if target.is_float:
        limit = float(target.max_finite)
        total = quotient.to(added) + offset
        bounded = g.run("Max", g.run("Min", total, g.const(limit, added)), g.const(-limit, added))
        return converted(bounded, str(target))
    return converted(g.run("Round", quotient).to(added) + offset, str(target))


@writer("relax.dequantize")
def dequantize(g: Graph, operator: Any, data: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    target = operator.out_dtype
    axis = operator.axis % data.ndim if data.ndim else 0
    if target == "float32" and _is_linear(operator, data, scale, zero, data.dtype):
        return g.node("DequantizeLinear", data, scale, zero, dtype="float32", rank=data.rank, axis=axis)
    wide = "float64" if "float64" in (str(target), scale.dtype) else "float32"
    exact = "int64" if data.kind.is_integer and zero.kind.is_integer else wide
    difference = data.to(exact) - _spread(zero, data, axis, exact)
    return converted(difference.to(wide) * _spread(scale, data, axis, wide), str(target))


# ------------------------------------------------------------------------------------------- random numbers


def _uint64(g: Graph, value: int) -> Tensor:
    return g.const(np.array(value % (1 << 64), np.uint64), "uint64")


def _shifted(g: Graph, bits: Tensor, count: int) -> Tensor:
    return g.node("BitShift", bits, _uint64(g, count), rank=bits.rank, direction="RIGHT")


def _mixed(g: Graph, bits: Tensor) -> Tensor:
    """The finalizer of SplitMix64."""
    for shift, factor in zip((30, 27), MIXERS, strict=True):
        bits = g.run("BitwiseXor", bits, _shifted(g, bits, shift)) * _uint64(g, factor)
    return g.run("BitwiseXor", bits, _shifted(g, bits, 31))


def _random(g: Graph, seed: Tensor, steps: Tensor) -> Tensor:
    """A float64 in [0, 1) for each step."""
    start = _mixed(g, seed.to("int64").to("uint64") + _uint64(g, GOLDEN))
    bits = _mixed(g, start + steps * _uint64(g, GOLDEN))
    return _shifted(g, bits, 11).to("float64") * 2.0**-53


def _in_shape(g: Graph, shape: Sizes, values: Callable[[Tensor], Tensor]) -> Tensor:
    """Values for the steps 1, 2, … of all elements, in a shape."""
    vector = shape.vector(g)
    count = g.node("ReduceProd", vector, g.ints([0]), rank=0, keepdims=0)
    steps = (numbers(g, count) + 1).to("uint64")
    return g.run("Reshape", values(steps), vector, rank=result_rank(g), allowzero=1)


@writer("relax.random.uniform")
def uniform(g: Graph, operator: Any, shape: Sizes, seed: Tensor) -> Tensor:
    scale = 2.0 ** digits(operator.dtype)

    def values(steps: Tensor) -> Tensor:
        return g.run("Floor", _random(g, seed, steps) * scale) / scale

    return _in_shape(g, shape, values)


@writer("relax.random.normal")
def normal(g: Graph, operator: Any, shape: Sizes, seed: Tensor) -> Tensor:
    def values(steps: Tensor) -> Tensor:
        twice = steps * _uint64(g, 2)
        radius, turn = _random(g, seed, twice), _random(g, seed, twice + _uint64(g, 1))
        return g.run("Sqrt", g.run("Log", 1.0 - radius) * -2.0) * g.run("Cos", turn * (2 * np.pi))

    return _in_shape(g, shape, values)
