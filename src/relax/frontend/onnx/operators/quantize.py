"""Quantisation: the QDQ form, and operators on quantised tensors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .... import op
from ....expr import Constant
from ....ir import DataType
from ....op.qdq import Quantize
from ....prim import IntImm
from ..emitter import Emitter
from ..model import dtype_name
from ..registry import converter
from ..values import Ints, Tensor
from .blocks import constant_blocks
from .integer_products import Windows, integer_sums, matmul_integer
from .scales import one_number, spread


def _axis(g: Emitter, x: Tensor, scale: Tensor, axis: int) -> int:
    """The axis that a scale belongs to; 0, which nothing reads, for a scale that is one number."""
    return g.axis(axis, g.ndim(x)) if g.ndim(scale) and g.ndim(x) else 0


@converter("QuantizeLinear", since=10)
def quantize_linear(
    g: Emitter,
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    dtype = DataType(dtype_name(output_dtype)) if output_dtype else DataType("uint8")
    if y_zero_point is not None:
        dtype = g.dtype(y_zero_point)
    if dtype.is_float and not saturate:
        g.unsupported("QuantizeLinear to a float without saturation")
    if not (dtype.is_integer and dtype.bits <= 32) and not (dtype.is_float and dtype.bits <= 8):
        raise g.error(f"numbers are quantised to integers of at most 32 bits or floats of at most 8, found {dtype}")
    wide = str(dtype_name(precision)) if precision else str(g.dtype(y_scale))
    if (
        block_size
        or g.ndim(y_scale) > 1
        or dtype.bits < 8
        or wide != "float32"
        or g.dtype(x) not in ("float32", "float64")
    ):
        return _quantized(g, x, y_scale, y_zero_point, axis, block_size, dtype, wide)
    scale = one_number(g, y_scale)
    zero = op.zeros_like(scale, str(dtype)) if y_zero_point is None else one_number(g, y_zero_point)
    return op.quantize(x, scale, zero, axis=_axis(g, x, scale, axis), out_dtype=str(dtype))


def _quantized(
    g: Emitter,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    axis: int,
    block_size: int,
    dtype: DataType,
    wide: str,
) -> Tensor:
    """saturate(round(x / scale) + zero_point), step by step: for blocks, narrow integers, other precisions."""
    quotient = op.divide(op.astype(x, wide), op.astype(spread(g, x, scale, axis, block_size), wide))
    if dtype.is_float:
        total = quotient
        if zero_point is not None:
            total = op.add(quotient, op.astype(spread(g, x, zero_point, axis, block_size), wide))
        return op.saturating_astype(op.astype(total, "float32"), str(dtype))
    total = op.astype(op.round(quotient), "float32")
    if zero_point is not None:
        total = op.add(total, op.astype(spread(g, x, zero_point, axis, block_size), "float32"))
    return op.astype(op.clip(total, dtype.min_value, dtype.max_value), str(dtype))


@converter("DequantizeLinear", since=10)
def dequantize_linear(
    g: Emitter,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    target = dtype_name(output_dtype) if output_dtype else str(g.dtype(x_scale))
    dtype = g.dtype(x)
    constants = _constant_weights(g, x, x_scale, x_zero_point, axis, block_size, str(target))
    if constants is not None:
        return constants
    if block_size or g.ndim(x_scale) > 1 or dtype.bits < 8 or target != "float32":
        wide = "int32" if dtype.is_integer else "float32"
        difference = op.astype(x, wide)
        if x_zero_point is not None:
            difference = op.subtract(difference, op.astype(spread(g, x, x_zero_point, axis, block_size), wide))
        scale = op.astype(spread(g, x, x_scale, axis, block_size), "float32")
        return op.astype(op.multiply(op.astype(difference, "float32"), scale), target)
    scale = one_number(g, x_scale)
    zero = op.zeros_like(scale, str(dtype)) if x_zero_point is None else one_number(g, x_zero_point)
    return op.dequantize(x, scale, zero, axis=_axis(g, x, scale, axis), out_dtype=target)


def _constant_weights(
    g: Emitter, x: Tensor, scale: Tensor, zero_point: Tensor | None, axis: int, block_size: int, target: str
) -> Tensor | None:
    """Return constant weights with blocks or of 4 bits by operators that products take in; None for other tensors.

    Blocks are along the last dimension of what is dequantised, and are moved behind it.
    """
    ndim = g.ndim(x)
    if ndim < 2 or not isinstance(x, Constant) or target not in ("float32", "float16"):
        return None
    if block_size:
        place = g.axis(axis, ndim)
        blocks = constant_blocks(g, x, scale, zero_point, block_size, place)
        if blocks is None:
            return None
        shape = [dim for d, dim in enumerate(x.data.shape) if d != place] + [x.data.shape[place]]
        whole = g.emit(op.reshape(blocks.weights(g, target), shape))
        order = [*range(place), ndim - 1, *range(place, ndim - 1)]
        return whole if place == ndim - 1 else op.permute_dims(whole, order)
    if g.dtype(x).bits >= 8 or not g.dtype(x).is_integer or target != "float32" or g.dtype(scale) != "float32":
        return None
    if not isinstance(scale, Constant) or not (zero_point is None or isinstance(zero_point, Constant)):
        return None
    wider = "int8" if g.dtype(x).is_int else "uint8"
    zero = None if zero_point is None else g.const(np.asarray(g.array(zero_point, "zero point")).astype(wider))
    return dequantize_linear(g, g.const(x.data.astype(wider)), scale, zero, axis=axis)


# ------------------------------------------------------------------------------------- quantised operands


def _requantized(g: Emitter, total: Tensor, factor: Tensor, y_scale: Tensor, y_zero_point: Tensor, axis: int) -> Tensor:
    """An integer result times `factor`, which is a number or one per index of an axis, quantised anew.

    The factor is divided by the new scale first, as onnxruntime does it, so that numbers are rounded alike.
    """
    value = g.emit(total)
    whole = op.divide(factor, op.astype(one_number(g, y_scale), "float32"))
    floats = value if g.dtype(value) == "float32" else op.astype(value, "float32")
    scaled = op.multiply(floats, spread(g, value, g.emit(whole), axis, 0))
    return quantize_linear(g, g.emit(scaled), g.const(1.0, "float32"), y_zero_point)


@converter("QLinearMatMul", since=10)
def qlinear_matmul(
    g: Emitter,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    total = matmul_integer(g, a, b, a_zero_point, b_zero_point)
    wide = [op.astype(scale, "float32") for scale in (a_scale, b_scale)]
    if any(g.ndim(scale) == 1 and not isinstance(g.dims(scale)[0], IntImm) for scale in (a_scale, b_scale)):
        g.unsupported("scales of a number that is not known")
    factor = g.emit(op.multiply(*(one_number(g, g.emit(scale)) for scale in wide)))
    return _requantized(g, total, factor, y_scale, y_zero_point, -1)


@converter("QLinearConv", since=10)
def qlinear_conv(
    g: Emitter,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    B: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    windows = Windows(auto_pad, dilations, group, kernel_shape, pads, strides)
    total = integer_sums(g, x, w, x_zero_point, w_zero_point, windows).with_bias(g, B)
    factor = g.emit(op.multiply(one_number(g, x_scale), one_number(g, w_scale)))
    return _requantized(g, total, factor, y_scale, y_zero_point, 1)


@converter("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(g: Emitter, x: Tensor) -> tuple[Tensor, ...]:
    if isinstance(x, Constant):
        return tuple(g.const(part) for part in _quantized_array(np.asarray(g.array(x, "x"), np.float32)))
    zero, top = g.const(0.0, "float32"), g.const(255.0, "float32")
    high = g.emit(op.maximum(op.max(x), zero))
    low = g.emit(op.minimum(op.min(x), zero))
    scale = g.emit(op.divide(op.subtract(high, low), top))
    zero_point = op.clip(op.round(op.divide(op.negative(low), scale)), 0, 255)
    safe = op.where(op.equal(scale, zero), zero, zero_point)
    point = g.emit(op.astype(safe, "uint8"))
    return op.quantize(x, scale, point, axis=0, out_dtype="uint8"), scale, point


def _quantized_array(x: NDArray[np.float32]) -> tuple[NDArray[np.generic], ...]:
    """Return DynamicQuantizeLinear of constants: tools write it for weights that are Constant nodes."""
    with np.errstate(all="ignore"):
        high, low = np.maximum(x.max(initial=0), np.float32(0)), np.minimum(x.min(initial=0), np.float32(0))
        scale = np.asarray((high - low) / np.float32(255), np.float32)
        point = np.minimum(np.maximum(np.rint(-low / scale), np.float32(0)), np.float32(255)) if scale else np.zeros(())
        zero = np.asarray(np.nan_to_num(point), np.uint8)
        numbers = Quantize(out_dtype=DataType("uint8")).evaluate(x, scale, zero)
    return numbers, scale, zero


# ------------------------------------------------------------------------------------- com.microsoft


def _of_floats(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """An operator on two quantised tensors: they are dequantised, and the result is quantised."""

    def convert(
        g: Emitter,
        A: Tensor,
        A_scale: Tensor,
        A_zero_point: Tensor | None,
        B: Tensor,
        B_scale: Tensor,
        B_zero_point: Tensor | None,
        C_scale: Tensor,
        C_zero_point: Tensor | None = None,
    ) -> Tensor:
        a = dequantize_linear(g, A, A_scale, A_zero_point)
        b = dequantize_linear(g, B, B_scale, B_zero_point)
        zero = g.const(0, str(g.dtype(A))) if C_zero_point is None else C_zero_point
        return quantize_linear(g, g.emit(function(a, b)), C_scale, zero)

    return convert


@converter("QuantizeLinear", domain="com.microsoft")
def quantize_linear_of_microsoft(
    g: Emitter, x: Tensor, y_scale: Tensor, y_zero_point: Tensor | None = None, *, axis: int = 1
) -> Tensor:
    """The standard's operator, with integers of 16 and 4 bits since its first version; no attribute of later opsets."""
    return quantize_linear(g, x, y_scale, y_zero_point, axis=axis)


@converter("DequantizeLinear", domain="com.microsoft")
def dequantize_linear_of_microsoft(
    g: Emitter, x: Tensor, x_scale: Tensor, x_zero_point: Tensor | None = None, *, axis: int = 1
) -> Tensor:
    return dequantize_linear(g, x, x_scale, x_zero_point, axis=axis)


converter("QLinearAdd", domain="com.microsoft")(_of_floats(op.add))
converter("QLinearMul", domain="com.microsoft")(_of_floats(op.multiply))


def _of_float(function: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def convert(
        g: Emitter,
        X: Tensor,
        X_scale: Tensor,
        X_zero_point: Tensor | None,
        Y_scale: Tensor,
        Y_zero_point: Tensor | None = None,
    ) -> Tensor:
        value = function(dequantize_linear(g, X, X_scale, X_zero_point))
        zero = g.const(0, str(g.dtype(X))) if Y_zero_point is None else Y_zero_point
        return quantize_linear(g, g.emit(value), Y_scale, zero)

    return convert


converter("QLinearSigmoid", domain="com.microsoft")(_of_float(op.sigmoid))


@converter("QLinearLeakyRelu", domain="com.microsoft")
def qlinear_leaky_relu(
    g: Emitter,
    X: Tensor,
    X_scale: Tensor,
    X_zero_point: Tensor | None,
    Y_scale: Tensor,
    Y_zero_point: Tensor | None = None,
    *,
    alpha: float = 0.01,
) -> Tensor:
    return _of_float(lambda x: op.nn.leakyrelu(x, alpha))(g, X, X_scale, X_zero_point, Y_scale, Y_zero_point)


@converter("QLinearSoftmax", domain="com.microsoft")
def qlinear_softmax(
    g: Emitter,
    X: Tensor,
    X_scale: Tensor,
    X_zero_point: Tensor | None,
    Y_scale: Tensor,
    Y_zero_point: Tensor,
    *,
    axis: int = -1,
    opset: int = 13,
) -> Tensor:
    if opset < 13 and g.axis(axis, g.ndim(X)) != g.ndim(X) - 1:
        g.unsupported("QLinearSoftmax over several axes")
    return _of_float(lambda x: op.nn.softmax(x, axis))(g, X, X_scale, X_zero_point, Y_scale, Y_zero_point)


@converter("QLinearGlobalAveragePool", domain="com.microsoft")
def qlinear_global_average_pool(
    g: Emitter,
    X: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    channels_last: int = 0,
) -> Tensor:
    axes = list(range(1, g.ndim(X) - 1)) if channels_last else list(range(2, g.ndim(X)))
    return _of_float(lambda x: op.mean(x, axis=axes, keepdims=True))(g, X, x_scale, x_zero_point, y_scale, y_zero_point)


@converter("MatMulIntegerToFloat", domain="com.microsoft")
def matmul_integer_to_float(
    g: Emitter,
    A: Tensor,
    B: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero_point: Tensor | None = None,
    b_zero_point: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    total = g.emit(matmul_integer(g, A, B, a_zero_point, b_zero_point))
    factor = g.emit(op.multiply(one_number(g, a_scale), one_number(g, b_scale)))
    result = op.multiply(op.astype(total, "float32"), spread(g, total, factor, -1, 0))
    return result if bias is None else op.add(result, bias)


@converter("DynamicQuantizeMatMul", domain="com.microsoft")
def dynamic_quantize_matmul(
    g: Emitter, A: Tensor, B: Tensor, b_scale: Tensor, b_zero_point: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    data, scale, point = dynamic_quantize_linear(g, A)
    return matmul_integer_to_float(g, g.emit(data), B, scale, b_scale, point, b_zero_point, bias)


@converter("QGemm", domain="com.microsoft")
def qgemm(
    g: Emitter,
    A: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    B: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    C: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero_point: Tensor | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    left = g.emit(op.permute_dims(A, [1, 0])) if transA else A
    total = g.emit(matmul_integer(g, left, _transposed(g, B) if transB else B, a_zero_point, b_zero_point))
    if C is not None:
        total = g.emit(op.add(total, C))
    factor = op.multiply(one_number(g, a_scale), one_number(g, b_scale))
    factor = g.emit(factor if alpha == 1.0 else op.multiply(g.emit(factor), g.const(alpha, "float32")))
    if y_scale is not None and y_zero_point is not None:
        return _requantized(g, total, factor, y_scale, y_zero_point, -1)
    return op.multiply(op.astype(total, "float32"), spread(g, total, factor, -1, 0))


def _transposed(g: Emitter, x: Tensor) -> Tensor:
    """A matrix transposed; one that is known stays known."""
    if isinstance(x, Constant):
        return g.const(np.ascontiguousarray(np.transpose(g.array(x, "matrix"))))
    return g.emit(op.permute_dims(x, [1, 0]))
