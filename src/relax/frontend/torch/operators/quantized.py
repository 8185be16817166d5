"""Quantised programs (pt2e): quantize and dequantize of tensors, channels, groups and tokens, from
``quantized_decomposed``, and the choice of scales and zero points at run time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import op
from ....expr import Constant
from ....ir import RelaxExpr
from ....prim import IntImm
from ..emitter import Emitter
from ..registry import converter

_LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1), "int32": (-(2**31), 2**31 - 1)}


@converter("quantized_decomposed.quantize_per_tensor")
def quantize_per_tensor(
    g: Emitter, x: RelaxExpr, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any, dtype: str
) -> RelaxExpr:
    return _quantized(g, x, scale, zero_point, -1, quant_min, quant_max, dtype)


@converter("quantized_decomposed.quantize_per_channel")
def quantize_per_channel(
    g: Emitter,
    x: RelaxExpr,
    scales: RelaxExpr,
    zero_points: RelaxExpr,
    axis: int,
    quant_min: Any,
    quant_max: Any,
    dtype: str,
) -> RelaxExpr:
    return _quantized(g, x, scales, zero_points, g.axis(axis, g.ndim(x)), quant_min, quant_max, dtype)


@converter("quantized_decomposed.dequantize_per_tensor")
def dequantize_per_tensor(
    g: Emitter,
    x: RelaxExpr,
    scale: Any,
    zero_point: Any,
    quant_min: Any,
    quant_max: Any,
    dtype: str,
    *,
    out_dtype: str | None = None,
) -> RelaxExpr:
    return _dequantized(g, x, scale, zero_point, -1, out_dtype)


@converter("quantized_decomposed.dequantize_per_channel")
def dequantize_per_channel(
    g: Emitter,
    x: RelaxExpr,
    scales: RelaxExpr,
    zero_points: RelaxExpr | None,
    axis: int,
    quant_min: Any,
    quant_max: Any,
    dtype: str,
    *,
    out_dtype: str | None = None,
) -> RelaxExpr:
    return _dequantized(g, x, scales, zero_points, g.axis(axis, g.ndim(x)), out_dtype)


@converter("quantized_decomposed.quantize_per_channel_group")
def quantize_per_channel_group(
    g: Emitter,
    x: RelaxExpr,
    scales: RelaxExpr,
    zero_points: RelaxExpr,
    quant_min: int,
    quant_max: int,
    dtype: str,
    group_size: int = 128,
) -> RelaxExpr:
    dims = g.dims(x)
    scale, zero = (g.emit(op.reshape(g.tensor(part, "float32"), [-1, 1])) for part in (scales, zero_points))
    return g.reshape(
        _by_reciprocal(g, _groups(g, x, scales, group_size), scale, zero, quant_min, quant_max, dtype), dims
    )


@converter("quantized_decomposed.dequantize_per_channel_group")
def dequantize_per_channel_group(
    g: Emitter,
    x: RelaxExpr,
    scales: RelaxExpr,
    zero_points: RelaxExpr | None,
    quant_min: Any,
    quant_max: Any,
    dtype: str,
    group_size: int = 128,
    output_dtype: str = "float32",
) -> RelaxExpr:
    flat, zeros = (None if part is None else g.emit(op.reshape(part, [-1])) for part in (scales, zero_points))
    return g.reshape(_dequantized(g, _groups(g, x, scales, group_size), flat, zeros, 0, output_dtype), g.dims(x))


@converter("quantized_decomposed.quantize_per_token")
def quantize_per_token(
    g: Emitter, x: RelaxExpr, scales: RelaxExpr, zero_points: RelaxExpr, quant_min: int, quant_max: int, dtype: str
) -> RelaxExpr:
    scale, zero = (g.tensor(part, "float32") for part in (scales, zero_points))
    return _by_reciprocal(g, x, scale, zero, quant_min, quant_max, dtype)


@converter("quantized_decomposed.dequantize_per_token")
def dequantize_per_token(
    g: Emitter,
    x: RelaxExpr,
    scales: RelaxExpr,
    zero_points: RelaxExpr,
    quant_min: Any,
    quant_max: Any,
    dtype: str,
    output_dtype: str = "float32",
) -> RelaxExpr:
    data, scale, zero = (g.tensor(part, "float32") for part in (x, scales, zero_points))
    return g.cast(g.emit(op.multiply(g.emit(op.subtract(data, zero)), scale)), output_dtype)


# ------------------------------------------------------------------------------------- scales of data


@converter("quantized_decomposed.choose_qparams.tensor")
def choose_qparams(g: Emitter, x: RelaxExpr, quant_min: int, quant_max: int, eps: float, dtype: str) -> list[RelaxExpr]:
    low, high = _extremes(g, x, None)
    scale = g.emit(op.divide(g.emit(op.subtract(high, low)), g.const(quant_max - quant_min, "float32")))
    scale = g.emit(op.maximum(scale, g.const(eps, "float32")))
    steps = g.emit(op.round(g.emit(op.divide(low, scale))))
    zero = g.emit(op.clip(g.emit(op.subtract(g.const(quant_min, "float32"), steps)), quant_min, quant_max))
    return [g.reshape(g.cast(scale, "float64"), [1]), g.reshape(g.cast(zero, "int64"), [1])]


@converter("quantized_decomposed.choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(
    g: Emitter, x: RelaxExpr, quant_min: int, quant_max: int, eps: float, dtype: str
) -> list[RelaxExpr]:
    low, high = _extremes(g, x, None)
    most = g.emit(op.maximum(g.emit(op.negative(low)), high))
    scale = g.emit(op.divide(most, g.const((quant_max - quant_min) / 2, "float32")))
    scale = g.emit(op.maximum(scale, g.const(eps, "float32")))
    return [g.reshape(g.cast(scale, "float64"), [1]), g.const([128 if dtype == "uint8" else 0], "int64")]


@converter("quantized_decomposed.choose_qparams_per_token")
def choose_qparams_per_token(g: Emitter, x: RelaxExpr, dtype: str) -> list[RelaxExpr]:
    if dtype != "int8":
        g.unsupported(f"scales of tokens of {dtype}")
    most = g.emit(op.max(g.emit(op.abs(x)), axis=-1, keepdims=True))
    most = g.cast(most, "float32") if g.dtype(x) == "float16" else most
    own = str(g.dtype(most))
    scale = g.emit(op.divide(g.emit(op.maximum(most, g.const(1e-5, own))), g.const(127, own)))
    return [g.cast(scale, "float64"), g.emit(op.zeros_like(scale, "int64"))]  # in the dtypes that programs declare


@converter(
    "quantized_decomposed.choose_qparams_per_token_asymmetric",
    "quantized_decomposed._choose_qparams_per_token_asymmetric_impl",
)
def choose_qparams_per_token_asymmetric(g: Emitter, x: RelaxExpr, dtype: str) -> list[RelaxExpr]:
    if g.dtype(x) != "float32":
        g.unsupported(f"scales and zero points of tokens of {g.dtype(x)}")
    low, high = _extremes(g, x, -1)
    scale = g.emit(op.divide(g.emit(op.subtract(high, low)), g.const(255, "float32")))
    scale = g.emit(op.maximum(scale, g.const(np.finfo(np.float32).eps, "float32")))
    least, most = (g.emit(op.divide(end, scale)) for end in (low, high))
    bottom, top = g.const(-128, "float32"), g.const(127, "float32")
    is_above = op.greater(op.add(op.add(bottom, least), op.add(top, most)), g.const(0, "float32"))
    zero = g.emit(op.where(is_above, op.subtract(bottom, least), op.subtract(top, most)))
    zero = g.emit(op.round(g.emit(op.clip(zero, -128, 127))))
    return [g.cast(scale, "float64"), g.cast(zero, "int64")]


def _extremes(g: Emitter, x: RelaxExpr, axis: int | None) -> tuple[RelaxExpr, RelaxExpr]:
    """Return the least and the greatest element and 0, float32: of all, or along an axis that stays."""
    data, zero = g.tensor(x, "float32"), g.const(0, "float32")
    low = g.emit(op.min(data, axis=axis, keepdims=axis is not None))
    high = g.emit(op.max(data, axis=axis, keepdims=axis is not None))
    return g.emit(op.minimum(low, zero)), g.emit(op.maximum(high, zero))


# ------------------------------------------------------------------------------------- parts


def _groups(g: Emitter, x: RelaxExpr, scales: RelaxExpr, size: int) -> RelaxExpr:
    """Return a matrix with a row for each group of `size` columns, or of all where there are fewer."""
    depth = g.dims(x)[-1]
    if isinstance(depth, IntImm) and size > depth.value and g.is_true(g.dims(scales)[-1].equal(1)):
        size = depth.value
    return g.emit(op.reshape(x, [-1, size]))


def _by_reciprocal(
    g: Emitter, x: RelaxExpr, scale: RelaxExpr, zero: RelaxExpr, low: int, high: int, dtype: str
) -> RelaxExpr:
    """Return round(x · (1 / scale) + zero) within limits, as torch quantises tokens and groups."""
    factor = g.emit(op.divide(g.const(1, "float32"), scale))
    shifted = g.emit(op.add(g.emit(op.multiply(g.tensor(x, "float32"), factor)), zero))
    return g.cast(g.emit(op.clip(g.emit(op.round(shifted)), low, high)), dtype)


def _quantized(
    g: Emitter, x: RelaxExpr, scale: Any, zero_point: Any, axis: int, low: Any, high: Any, dtype: str
) -> RelaxExpr:
    """The quantised tensor; limits narrower than those of its dtype clamp it."""
    if dtype not in _LIMITS:
        g.unsupported(f"a quantised tensor of {dtype}")
    x = g.tensor(x, "float32")
    parameters = _parameter(g, scale, "float32"), _parameter(g, zero_point, dtype)
    result = g.emit(op.quantize(x, *parameters, axis, dtype))
    if not (isinstance(low, int) and isinstance(high, int)):
        g.unsupported("a limit of a quantised tensor that is not a constant")
    if (low, high) == _LIMITS[dtype]:
        return result
    return op.minimum(op.maximum(result, g.const(max(low, _LIMITS[dtype][0]), dtype)), g.const(high, dtype))


def _dequantized(g: Emitter, x: RelaxExpr, scale: Any, zero_point: Any, axis: int, out_dtype: str | None) -> RelaxExpr:
    own = str(g.dtype(x))
    zero = g.const(0, own) if zero_point is None else _parameter(g, zero_point, own)
    return op.dequantize(x, _parameter(g, scale, "float32"), zero, axis, out_dtype or "float32")


def _parameter(g: Emitter, value: Any, dtype: str) -> RelaxExpr:
    """A scale or zero point: one for the tensor without dimensions, one for each channel as a vector."""
    tensor = g.const(value.data, dtype) if isinstance(value, Constant) else g.tensor(value, dtype)
    if isinstance(tensor, Constant) and tensor.data.shape == (1,):
        return g.const(tensor.data[0], dtype)
    return g.reshape(tensor, []) if g.ndim(tensor) == 1 and g.is_true(g.dims(tensor)[0].equal(1)) else tensor
