"""Quantisation: the QDQ form, operators on quantised tensors, integer products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .... import op
from ....expr import Constant
from ....ir import DataType
from ....prim import IntImm
from ....runtime.records import dataclass
from ..emitter import Emitter
from ..model import dtype_name
from ..registry import converter
from ..values import Ints, Tensor
from .nn import CONVOLUTIONS, conv, conv_windows

FEW = 32
"""The products of a depthwise convolution of which float32 has every sum: of 32 it needs 20 digits."""
LARGEST: Final = 2**23
"""The biases that such sums may have besides: float32 has the result too."""


def _axis(g: Emitter, x: Tensor, scale: Tensor, axis: int) -> int:
    """The axis that a scale belongs to; 0, which nothing reads, for a scale that is one number."""
    return g.axis(axis, g.ndim(x)) if g.ndim(scale) and g.ndim(x) else 0


def _one_number(g: Emitter, parameter: Tensor) -> Tensor:
    """A scale or zero point for a whole tensor without dimensions; one per index of an axis as it is."""
    if g.ndim(parameter) == 1 and g.is_true(g.dims(parameter)[0].equal(1)):
        return op.reshape(parameter, [])
    return parameter


def _block(g: Emitter, x: Tensor, parameter: Tensor, axis: int, block_size: int) -> Tensor:
    """A parameter with one number for each block along an axis, repeated for each element."""
    whole = op.repeat(parameter, block_size, axis)
    size = g.dims(x)[axis]
    return op.strided_slice(whole, [axis], [0], [size])


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
    scale = _one_number(g, y_scale)
    zero = op.zeros_like(scale, str(dtype)) if y_zero_point is None else _one_number(g, y_zero_point)
    return op.quantize(x, scale, zero, axis=_axis(g, x, scale, axis), out_dtype=str(dtype))


def _spread(g: Emitter, x: Tensor, parameter: Tensor, axis: int, block_size: int) -> Tensor:
    """A scale or zero point in a shape that broadcasts with the data."""
    parameter = g.emit(_one_number(g, parameter))
    if g.ndim(parameter) == 0:
        return parameter
    dimension = g.axis(axis, g.ndim(x))
    if g.ndim(parameter) == g.ndim(x) and (block_size or g.ndim(x) > 1):
        return _block(g, x, parameter, dimension, block_size) if block_size else parameter
    return op.reshape(parameter, [-1 if d == dimension else 1 for d in range(g.ndim(x))])


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
    quotient = op.divide(op.astype(x, wide), op.astype(_spread(g, x, scale, axis, block_size), wide))
    if dtype.is_float:
        total = quotient
        if zero_point is not None:
            total = op.add(quotient, op.astype(_spread(g, x, zero_point, axis, block_size), wide))
        return op.saturating_astype(op.astype(total, "float32"), str(dtype))
    total = op.astype(op.round(quotient), "float32")
    if zero_point is not None:
        total = op.add(total, op.astype(_spread(g, x, zero_point, axis, block_size), "float32"))
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
    if block_size or g.ndim(x_scale) > 1 or dtype.bits < 8 or target != "float32":
        wide = "int32" if dtype.is_integer else "float32"
        difference = op.astype(x, wide)
        if x_zero_point is not None:
            difference = op.subtract(difference, op.astype(_spread(g, x, x_zero_point, axis, block_size), wide))
        scale = op.astype(_spread(g, x, x_scale, axis, block_size), "float32")
        return op.astype(op.multiply(op.astype(difference, "float32"), scale), target)
    scale = _one_number(g, x_scale)
    zero = op.zeros_like(scale, str(dtype)) if x_zero_point is None else _one_number(g, x_zero_point)
    return op.dequantize(x, scale, zero, axis=_axis(g, x, scale, axis), out_dtype=target)


# ------------------------------------------------------------------------------------- integer products


def _centred(g: Emitter, x: Tensor, zero_point: Tensor | None, axis: int | None = None) -> Tensor:
    """The data minus their zero point, in int32; a zero point with several elements belongs to an axis."""
    wide = op.astype(x, "int32")
    if zero_point is None:
        return wide
    zero = op.astype(g.emit(_one_number(g, zero_point)), "int32")
    if g.ndim(zero_point) == 1 and axis is not None and not g.is_true(g.dims(zero_point)[0].equal(1)):
        zero = op.reshape(zero, [-1 if d == axis % g.ndim(x) else 1 for d in range(g.ndim(x))])
    return op.subtract(wide, zero)


@dataclass(frozen=True)
class _Weights:
    """Known weights without their zero point, as int8."""

    numbers: NDArray[np.int8]

    @property
    def terms(self) -> int:
        """The number of products that are added up for one number of a convolution's result."""
        return self.numbers[0].size

    def sums(self, axis: int | tuple[int, ...]) -> NDArray[np.int32]:
        """The sums along some axes, which stay as dimensions of 1."""
        return self.numbers.sum(axis=axis, keepdims=True, dtype=np.int64).astype(np.int32)


def _narrow_weights(g: Emitter, w: Tensor, zero_point: Tensor | None, axis: int) -> _Weights | None:
    """Weights that are known and that int8 holds when their zero point is subtracted; None for others."""
    if not isinstance(w, Constant) or not (zero_point is None or isinstance(zero_point, Constant)):
        return None
    numbers = np.asarray(g.array(w, "weights")).astype(np.int32)
    if zero_point is not None:
        zeros = np.asarray(g.array(zero_point, "zero point")).astype(np.int32)
        if zeros.ndim > 1 or zeros.size not in (1, numbers.shape[axis]):
            return None
        spread = [1] * numbers.ndim
        spread[axis] = zeros.size
        numbers = numbers - np.reshape(zeros, spread)
    if not numbers.size or numbers.min() < -128 or numbers.max() > 127:
        return None
    return _Weights(numbers.astype(np.int8))


def _is_bytes(g: Emitter, x: Tensor) -> bool:
    return str(g.dtype(x)) in ("int8", "uint8")


@converter("MatMulInteger", since=10)
def matmul_integer(
    g: Emitter, A: Tensor, B: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    weights = _narrow_weights(g, B, b_zero_point, -1) if min(g.ndim(A), g.ndim(B)) > 1 else None
    if weights is not None and _is_bytes(g, A):
        # (A - a) B = A B - a (sums of B's columns): the product reads bytes
        total = op.matmul(A, g.const(weights.numbers), out_dtype="int32")
        if a_zero_point is None or _is_zero(g, a_zero_point):
            return total
        zero = op.astype(_spread(g, A, a_zero_point, -2, 0), "int32")
        return op.subtract(g.emit(total), op.multiply(g.emit(zero), g.const(weights.sums(-2))))
    left = _centred(g, A, a_zero_point, -2 if g.ndim(A) > 1 else None)
    return op.matmul(left, _centred(g, B, b_zero_point, -1))


def _is_zero(g: Emitter, zero_point: Tensor) -> bool:
    return isinstance(zero_point, Constant) and not np.any(g.array(zero_point, "zero point"))


@dataclass(frozen=True)
class _Sums:
    """The sums of a convolution of integers, from which numbers for each channel are still to be subtracted."""

    total: Tensor
    are_floats: bool
    """True for float32, which has all of them; else they are int32."""
    zeros: NDArray[np.int32] | None
    """None: nothing is to be subtracted."""


@converter("ConvInteger", since=10)
def conv_integer(
    g: Emitter,
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    sums = _sums(
        g, x, w, x_zero_point, w_zero_point, auto_pad=auto_pad, dilations=dilations, group=group,
        kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    total = op.astype(g.emit(sums.total), "int32") if sums.are_floats else sums.total
    return total if sums.zeros is None else op.subtract(g.emit(total), g.const(sums.zeros))


def _sums(
    g: Emitter,
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None,
    w_zero_point: Tensor | None,
    *,
    auto_pad: str,
    dilations: Ints,
    group: int,
    kernel_shape: Ints,
    pads: Ints,
    strides: Ints,
) -> _Sums:
    weights = _narrow_weights(g, w, w_zero_point, 0)
    point = _number_of(g, x_zero_point)
    if weights is None or point is None or not _is_bytes(g, x):
        data, weight = g.emit(_centred(g, x, x_zero_point)), g.emit(_centred(g, w, w_zero_point, 0))
        total = conv(
            g, data, weight, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
            pads=pads, strides=strides,
        )  # fmt: skip
        return _Sums(total, False, None)
    if group > 1 and weights.terms < FEW:
        # float32 has all sums of so few products of bytes, and vectors of floats are faster where few are added up
        centred = g.emit(op.subtract(op.astype(x, "float32"), g.const(point, "float32")) if point
                         else op.astype(x, "float32"))  # fmt: skip
        total = conv(
            g, centred, g.const(weights.numbers.astype(np.float32)), auto_pad=auto_pad, dilations=dilations,
            group=group, kernel_shape=kernel_shape, pads=pads, strides=strides,
        )  # fmt: skip
        return _Sums(total, True, None)
    # Of data that are padded with their zero point x, the sums are x (sum of a channel's weights) too large.
    weight = g.const(weights.numbers)
    data, padding, attributes = conv_windows(
        g, x, weight, auto_pad, dilations=dilations, kernel_shape=kernel_shape, pads=pads, strides=strides,
        filling=point,
    )  # fmt: skip
    function = CONVOLUTIONS[g.ndim(x) - 2]
    total = function(g.emit(data), weight, padding=padding, groups=group, out_dtype="int32", **attributes)
    zeros = weights.sums(tuple(range(1, weights.numbers.ndim))) * np.int32(point)
    return _Sums(total, False, np.reshape(zeros, _along_channels(g, x)) if point else None)


def _along_channels(g: Emitter, x: Tensor) -> list[int]:
    """The shape of numbers for each channel."""
    return [1, -1, *[1] * (g.ndim(x) - 2)]


def _number_of(g: Emitter, zero_point: Tensor | None) -> int | None:
    """A zero point that is one number and known; 0 where there is none."""
    if zero_point is None:
        return 0
    dtype = g.dtype(zero_point)
    if dtype.is_float and dtype.bits > 8:
        raise g.error(f"a zero point must be of the quantised dtype, found {dtype}")
    is_number = isinstance(zero_point, Constant) and zero_point.data.size == 1
    return int(np.asarray(g.array(zero_point, "zero point")).item()) if is_number else None


def _requantized(g: Emitter, total: Tensor, factor: Tensor, y_scale: Tensor, y_zero_point: Tensor, axis: int) -> Tensor:
    """An integer result times `factor`, which is a number or one per index of an axis, quantised anew.

    The factor is divided by the new scale first, as onnxruntime does it, so that numbers are rounded alike.
    """
    value = g.emit(total)
    whole = op.divide(factor, op.astype(_one_number(g, y_scale), "float32"))
    floats = value if g.dtype(value) == "float32" else op.astype(value, "float32")
    scaled = op.multiply(floats, _spread(g, value, g.emit(whole), axis, 0))
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
    factor = g.emit(op.multiply(*(_one_number(g, g.emit(scale)) for scale in wide)))
    return _requantized(g, total, factor, y_scale, y_zero_point, -1)


def _with_bias(g: Emitter, x: Tensor, sums: _Sums, bias: Tensor | None) -> Tensor:
    """Sums plus biases, less what is to be subtracted: one addition of known numbers, in float32 where that has all."""
    total, shape = sums.total, _along_channels(g, x)
    biases = np.zeros(1, np.int32) if bias is None else None
    if isinstance(bias, Constant):
        biases = np.asarray(g.array(bias, "bias")).astype(np.int32)
    if biases is not None:
        numbers = np.reshape(biases, shape) - (0 if sums.zeros is None else sums.zeros)
        if not sums.are_floats or np.abs(numbers.astype(np.int64)).max(initial=0) < LARGEST:
            added = g.const(numbers, "float32" if sums.are_floats else "int32")
            return op.add(g.emit(total), added) if numbers.any() else total
    total = op.astype(g.emit(total), "int32") if sums.are_floats else total
    total = total if sums.zeros is None else op.subtract(g.emit(total), g.const(sums.zeros))
    return total if bias is None else op.add(g.emit(total), op.reshape(bias, shape))


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
    sums = _sums(
        g, x, w, x_zero_point, w_zero_point, auto_pad=auto_pad, dilations=dilations, group=group,
        kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    total = _with_bias(g, x, sums, B)
    factor = g.emit(op.multiply(_one_number(g, x_scale), _one_number(g, w_scale)))
    return _requantized(g, total, factor, y_scale, y_zero_point, 1)


@converter("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(g: Emitter, x: Tensor) -> tuple[Tensor, ...]:
    zero, top = g.const(0.0, "float32"), g.const(255.0, "float32")
    high = g.emit(op.maximum(op.max(x), zero))
    low = g.emit(op.minimum(op.min(x), zero))
    scale = g.emit(op.divide(op.subtract(high, low), top))
    zero_point = op.clip(op.round(op.divide(op.negative(low), scale)), 0, 255)
    safe = op.where(op.equal(scale, zero), zero, zero_point)
    point = g.emit(op.astype(safe, "uint8"))
    return op.quantize(x, scale, point, axis=0, out_dtype="uint8"), scale, point


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
    factor = g.emit(op.multiply(_one_number(g, a_scale), _one_number(g, b_scale)))
    result = op.multiply(op.astype(total, "float32"), _spread(g, total, factor, -1, 0))
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
    factor = op.multiply(_one_number(g, a_scale), _one_number(g, b_scale))
    factor = g.emit(factor if alpha == 1.0 else op.multiply(g.emit(factor), g.const(alpha, "float32")))
    if y_scale is not None and y_zero_point is not None:
        return _requantized(g, total, factor, y_scale, y_zero_point, -1)
    return op.multiply(op.astype(total, "float32"), _spread(g, total, factor, -1, 0))


def _transposed(g: Emitter, x: Tensor) -> Tensor:
    """A matrix transposed; one that is known stays known."""
    if isinstance(x, Constant):
        return g.const(np.ascontiguousarray(np.transpose(g.array(x, "matrix"))))
    return g.emit(op.permute_dims(x, [1, 0]))
