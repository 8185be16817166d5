"""Quantised programs (pt2e): quantize and dequantize of tensors and channels, from ``quantized_decomposed``."""

from __future__ import annotations

from typing import Any

from .... import op
from ....ir import RelaxExpr
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
    zero = g.emit(op.zeros_like(scale, own)) if zero_point is None else _parameter(g, zero_point, own)
    return op.dequantize(x, _parameter(g, scale, "float32"), zero, axis, out_dtype or "float32")


def _parameter(g: Emitter, value: Any, dtype: str) -> RelaxExpr:
    """A scale or zero point: one for the tensor without dimensions, one for each channel as a vector."""
    tensor = g.tensor(value, dtype)
    return g.reshape(tensor, []) if g.ndim(tensor) == 1 and g.is_true(g.dims(tensor)[0].equal(1)) else tensor
