"""Products and convolutions of integers, whose operands have zero points: constant weights are multiplied as int8.

    (x - a) (w - z) = x v - a Σ v + r Σ (x - a)        with w - z = v + r, v: int8, r: a number per output channel

Σ v is computed at import time. The zero point a of the data may be known at run time only (DynamicQuantizeLinear): data
of a convolution are then padded with a. r is 0 unless w - z exceeds int8, as weights of uint8 with any zero point may;
Σ (x - a) has one number for all output channels. All sums are int32 and wrap around as those of ONNX do.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .... import op
from ....expr import Constant
from ....runtime.records import dataclass
from ..emitter import Emitter
from ..registry import converter
from ..values import Ints, Tensor
from .nn import CONVOLUTIONS, conv, conv_windows
from .scales import one_number, spread

FEW: Final = 32
"""Products per result of a depthwise convolution below which vectors of floats are faster than dots of bytes."""
LARGEST: Final = 2**23
"""Bound of sums in float32, and of biases that are added to them: float32 represents the results."""


@dataclass(frozen=True)
class Weights:
    """Constant weights without their zero point: `numbers` plus `rest`, which has one number per output channel."""

    numbers: NDArray[np.int8]
    rest: NDArray[np.int32]

    @property
    def terms(self) -> int:
        """Number of products summed per element of a convolution's result."""
        return self.numbers[0].size

    @property
    def whole(self) -> NDArray[np.int32]:
        """The weights as one array."""
        return self.numbers + self.rest

    def sums(self, axis: int | tuple[int, ...]) -> NDArray[np.int32]:
        """Return the sums of `numbers` along some axes, which stay as dimensions of 1."""
        return self.numbers.sum(axis=axis, keepdims=True, dtype=np.int64).astype(np.int32)


def constant_weights(g: Emitter, w: Tensor, zero_point: Tensor | None, axis: int) -> Weights | None:
    """Return constant weights whose zero points lie along `axis`; None unless both are constants of 8 bits."""
    if (
        not isinstance(w, Constant)
        or not is_bytes(g, w)
        or not (zero_point is None or isinstance(zero_point, Constant))
    ):
        return None
    wide = np.asarray(g.array(w, "weights")).astype(np.int32)
    along = [1] * wide.ndim
    if zero_point is not None:
        zeros = np.asarray(g.array(zero_point, "zero point")).astype(np.int32)
        if zeros.ndim > 1 or zeros.size not in (1, wide.shape[axis]):
            return None
        along[axis] = zeros.size
        wide = wide - np.reshape(zeros, along)
    if not wide.size:
        return None
    others = tuple(d for d in range(wide.ndim) if d != axis % wide.ndim)
    most, least = (extreme(axis=others, keepdims=True) for extreme in (wide.max, wide.min))
    rest = np.maximum(most - 127, 0) + np.minimum(least + 128, 0)
    numbers = wide - rest
    if numbers.min() < -128 or numbers.max() > 127:  # a zero point of another dtype
        return None
    return Weights(numbers.astype(np.int8), rest.astype(np.int32))


def is_bytes(g: Emitter, x: Tensor) -> bool:
    """True for a tensor of int8 or uint8."""
    return str(g.dtype(x)) in ("int8", "uint8")


def _centred(g: Emitter, x: Tensor, zero_point: Tensor | None, axis: int | None = None, dtype: str = "int32") -> Tensor:
    """The data minus their zero point, in int32 or `dtype`; a zero point with several elements belongs to an axis."""
    wide = op.astype(x, dtype)
    if zero_point is None or _is_zero(g, zero_point):
        return wide
    zero = op.astype(g.emit(one_number(g, zero_point)), dtype)
    if g.ndim(zero_point) == 1 and axis is not None and not g.is_true(g.dims(zero_point)[0].equal(1)):
        zero = op.reshape(zero, [-1 if d == axis % g.ndim(x) else 1 for d in range(g.ndim(x))])
    return op.subtract(wide, zero)


def _is_zero(g: Emitter, zero_point: Tensor) -> bool:
    return isinstance(zero_point, Constant) and not np.any(g.array(zero_point, "zero point"))


# ------------------------------------------------------------------------------------- matrices


@converter("MatMulInteger", since=10)
def matmul_integer(
    g: Emitter, A: Tensor, B: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    weights = constant_weights(g, B, b_zero_point, -1) if min(g.ndim(A), g.ndim(B)) > 1 else None
    if weights is None or not is_bytes(g, A):
        left = _centred(g, A, a_zero_point, -2 if g.ndim(A) > 1 else None)
        return op.matmul(left, _centred(g, B, b_zero_point, -1))
    total = g.emit(op.matmul(A, g.const(weights.numbers), out_dtype="int32"))
    if a_zero_point is not None and not _is_zero(g, a_zero_point):
        zero = g.emit(op.astype(spread(g, A, a_zero_point, -2, 0), "int32"))
        total = g.emit(op.subtract(total, op.multiply(zero, g.const(weights.sums(-2)))))
    if weights.rest.any():
        rows = g.emit(op.sum(_centred(g, A, a_zero_point, -2), axis=-1, keepdims=True))
        total = op.add(total, op.multiply(rows, g.const(weights.rest)))
    return total


# ------------------------------------------------------------------------------------- convolutions


@dataclass(frozen=True)
class Windows:
    """Attributes of a convolution, as nodes have them."""

    auto_pad: str
    dilations: Ints
    group: int
    kernel_shape: Ints
    pads: Ints
    strides: Ints

    def conv(self, g: Emitter, data: Tensor, weights: Tensor) -> Tensor:
        """Return the convolution of data that are padded with 0, in their dtype."""
        return conv(
            g, g.emit(data), g.emit(weights), auto_pad=self.auto_pad, dilations=self.dilations, group=self.group,
            kernel_shape=self.kernel_shape, pads=self.pads, strides=self.strides,
        )  # fmt: skip

    def parts(self, g: Emitter, data: Tensor, weights: Tensor, filling: int) -> tuple[Tensor, Ints, dict[str, Any]]:
        """Return data that are padded if need be, the padding left for the operator, its strides and dilation."""
        return conv_windows(
            g, data, weights, self.auto_pad, dilations=self.dilations, kernel_shape=self.kernel_shape, pads=self.pads,
            strides=self.strides, filling=filling,
        )  # fmt: skip


@dataclass(frozen=True)
class Sums:
    """Sums of a convolution of integers, from which constants for each channel are still to be subtracted."""

    total: Tensor
    are_floats: bool
    """True for float32, which represents all of them; else they are int32."""
    zeros: NDArray[np.int32] | None
    """None: nothing is to be subtracted."""

    def integers(self, g: Emitter) -> Tensor:
        """Return the sums in int32, with the constants subtracted."""
        total = op.astype(self.total, "int32") if self.are_floats else self.total
        return total if self.zeros is None else op.subtract(g.emit(total), g.const(self.zeros))

    def with_bias(self, g: Emitter, bias: Tensor | None) -> Tensor:
        """Return sums plus biases: constants are added at once, in float32 where that represents the result."""
        shape = along_channels(g.ndim(self.total))
        biases = np.zeros(1, np.int32) if bias is None else None
        if isinstance(bias, Constant):
            biases = np.asarray(g.array(bias, "bias")).astype(np.int32)
        if biases is not None:
            numbers = np.reshape(biases, shape) - (0 if self.zeros is None else self.zeros)
            if not self.are_floats or np.abs(numbers.astype(np.int64)).max(initial=0) < LARGEST:
                added = g.const(numbers, "float32" if self.are_floats else "int32")
                return op.add(self.total, added) if numbers.any() else self.total
        total = self.integers(g)
        return total if bias is None else op.add(g.emit(total), op.reshape(bias, shape))


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
    windows = Windows(auto_pad, dilations, group, kernel_shape, pads, strides)
    return integer_sums(g, x, w, x_zero_point, w_zero_point, windows).integers(g)


def integer_sums(
    g: Emitter, x: Tensor, w: Tensor, x_zero_point: Tensor | None, w_zero_point: Tensor | None, windows: Windows
) -> Sums:
    """Return the sums of a convolution of integers."""
    weights = constant_weights(g, w, w_zero_point, 0)
    point = _number_of(g, x_zero_point)
    is_one = x_zero_point is None or g.ndim(x_zero_point) == 0 or g.is_true(g.dims(x_zero_point)[0].equal(1))
    if weights is not None and is_one and is_bytes(g, x):
        few = weights.terms < FEW or (bool(weights.rest.any()) and weights.terms * 255 * 255 < LARGEST)
        if windows.group > 1 and few:
            # float32 represents all sums of so few products, and vectors of floats are faster where few are added up
            data = _centred(g, x, x_zero_point, dtype="float32")
            total = windows.conv(g, data, g.const(weights.whole.astype(np.float32)))
            return Sums(g.emit(total), True, None)
        if windows.group == 1 or not weights.rest.any():
            return _sums_of_bytes(g, x, weights, x_zero_point, point, windows)
    total = windows.conv(g, _centred(g, x, x_zero_point), _centred(g, w, w_zero_point, 0))
    return Sums(g.emit(total), False, None)


def _sums_of_bytes(
    g: Emitter, x: Tensor, weights: Weights, x_zero_point: Tensor | None, point: int | None, windows: Windows
) -> Sums:
    """Return the sums of a convolution of bytes; `point` is the zero point of the data, None if it is not constant."""
    weight = g.const(weights.numbers)
    zero = None if point is not None or x_zero_point is None else g.emit(one_number(g, x_zero_point))
    if zero is None:
        data, padding, attributes = windows.parts(g, x, weight, point or 0)
    else:
        data, padding, attributes = _padded_with(g, x, weight, zero, windows)
    function = CONVOLUTIONS[g.ndim(x) - 2]
    total = g.emit(
        function(g.emit(data), weight, padding=padding, groups=windows.group, out_dtype="int32", **attributes)
    )
    sums = np.reshape(weights.sums(tuple(range(1, weights.numbers.ndim))), along_channels(g.ndim(x)))
    if zero is not None:
        total = g.emit(op.subtract(total, op.multiply(op.astype(zero, "int32"), g.const(sums))))
    if weights.rest.any():
        rest = g.const(np.reshape(weights.rest, along_channels(g.ndim(x))))
        total = op.add(total, op.multiply(_window_sums(g, x, weights, x_zero_point, windows), rest))
    return Sums(g.emit(total), False, sums * np.int32(point) if point else None)


def _padded_with(
    g: Emitter, x: Tensor, weight: Tensor, zero: Tensor, windows: Windows
) -> tuple[Tensor, Ints, dict[str, Any]]:
    """Return `Windows.parts` of data that are padded with a zero point known at run time.

    x - zero, padded with 0, plus zero: bytes wrap around, so that no wider integers are needed.
    """
    shifted = g.emit(op.subtract(x, zero))
    data, padding, attributes = windows.parts(g, shifted, weight, 0)
    if any(padding):
        count = g.ndim(x) - 2
        widths = [width for d in range(count) for width in (padding[d], padding[d + count])]
        data, padding = op.nn.pad(shifted, [0, 0, 0, 0, *widths]), (0,) * len(padding)
    return (x, padding, attributes) if data is shifted else (op.add(g.emit(data), zero), padding, attributes)


def _window_sums(g: Emitter, x: Tensor, weights: Weights, x_zero_point: Tensor | None, windows: Windows) -> Tensor:
    """Return the sums of the data less their zero point in each window, (N, 1, …), int32."""
    pixels = g.emit(op.sum(_centred(g, x, x_zero_point), axis=1, keepdims=True))
    ones = np.ones((1, 1, *weights.numbers.shape[2:]), np.int32)
    if ones.size == 1 and not any(windows.pads) and all(stride == 1 for stride in windows.strides):
        return pixels
    return g.emit(windows.conv(g, pixels, g.const(ones)))


def along_channels(ndim: int) -> list[int]:
    """Shape of constants for each channel of data (N, C, …)."""
    return [1, -1, *[1] * (ndim - 2)]


def _number_of(g: Emitter, zero_point: Tensor | None) -> int | None:
    """A zero point that is one constant number; 0 where there is none."""
    if zero_point is None:
        return 0
    dtype = g.dtype(zero_point)
    if dtype.is_float and dtype.bits > 8:
        raise g.error(f"a zero point must be of the quantised dtype, found {dtype}")
    is_number = isinstance(zero_point, Constant) and zero_point.data.size == 1
    return int(np.asarray(g.array(zero_point, "zero point")).item()) if is_number else None
