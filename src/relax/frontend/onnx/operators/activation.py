"""Activations: functions of each element, and the softmax family along an axis."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from .... import op
from ....expr import PrimValue
from ....ir import DataType
from ....prim import PrimExpr, const
from ..emitter import Emitter
from ..registry import converter, register
from ..values import Tensor

# ------------------------------------------------------------------------------------- of each element


def in_float32(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A converter of several operators, which rounds once: tensors of narrow floats are computed in float32."""

    @functools.wraps(function)
    def convert(g: Emitter, x: Tensor, **attributes: float) -> Tensor:
        dtype = g.dtype(x)
        if not dtype.is_float or dtype.bits >= 32:
            return function(g, x, **attributes)
        return op.astype(function(g, g.emit(op.astype(x, "float32")), **attributes), dtype)

    return convert


@converter("Relu")
def relu(g: Emitter, x: Tensor) -> Tensor:
    return op.nn.relu(x)


@converter("LeakyRelu")
def leaky_relu(g: Emitter, x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return op.nn.leakyrelu(x, alpha)


@converter("PRelu")
def prelu_of_channels(g: Emitter, x: Tensor, slope: Tensor) -> Tensor:
    return op.nn.prelu(x, slope, axis=1)


@converter("PRelu", since=7)
def prelu(g: Emitter, x: Tensor, slope: Tensor) -> Tensor:
    if g.dtype(x).is_float and 0 < g.info(slope).ndim <= g.info(x).ndim:
        return op.nn.prelu(x, slope, axis=-1)
    return op.where(op.less(x, g.const(0, g.dtype(x))), op.multiply(x, slope), x)


@converter("ThresholdedRelu")
def thresholded_relu(g: Emitter, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    # A NaN is not greater than alpha.
    return op.where(op.greater(x, alpha), x, 0.0)


def _expm1_below(x: Tensor) -> Tensor:
    """exp(x) - 1 where x is negative, 0 elsewhere."""
    return op.subtract(op.exp(op.minimum(x, 0.0)), 1.0)


@converter("Elu")
@in_float32
def elu(g: Emitter, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return op.where(op.greater(x, 0.0), x, op.multiply(_expm1_below(x), alpha))


@converter("Selu")
@in_float32
def selu(g: Emitter, x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    if np.float32(alpha) == np.float32(1.6732632423543772) and np.float32(gamma) == np.float32(1.0507009873554805):
        return op.nn.selu(x)
    return op.multiply(elu(g, x, alpha=alpha), gamma)


@converter("Celu")
@in_float32
def celu(g: Emitter, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    below = op.multiply(_expm1_below(op.divide(x, alpha)), alpha)
    return op.add(op.maximum(x, 0.0), below)


@converter("HardSigmoid")
@in_float32
def hard_sigmoid(g: Emitter, x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return op.clip(op.add(op.multiply(x, alpha), beta), PrimValue(0.0), PrimValue(1.0))


@converter("HardSwish")
@in_float32
def hard_swish(g: Emitter, x: Tensor) -> Tensor:
    return op.multiply(x, hard_sigmoid(g, x, alpha=1 / 6, beta=0.5))


@converter("Softsign")
@in_float32
def softsign(g: Emitter, x: Tensor) -> Tensor:
    return op.divide(x, op.add(op.abs(x), 1.0))


@converter("Softplus")
def softplus(g: Emitter, x: Tensor) -> Tensor:
    return op.nn.softplus(x, threshold=40.0)


@converter("Mish")
@in_float32
def mish(g: Emitter, x: Tensor) -> Tensor:
    return op.multiply(x, op.tanh(softplus(g, x)))


@converter("Gelu")
@converter("Gelu", domain="com.microsoft")
def gelu(g: Emitter, x: Tensor, *, approximate: str = "none") -> Tensor:
    near = g.choice(approximate, "approximate", ("none", "tanh")) == "tanh"
    return op.nn.gelu_tanh(x) if near else op.nn.gelu(x)


@converter("Swish")
@in_float32
def swish(g: Emitter, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return op.nn.silu(x) if alpha == 1 else op.multiply(x, op.sigmoid(op.multiply(x, alpha)))


@converter("Shrink")
def shrink(g: Emitter, x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    dtype = g.dtype(x)
    if not dtype.is_float:  # the limits are floats
        wide = op.astype(x, "float64")
        return op.astype(shrink(g, g.emit(wide), bias=bias, lambd=lambd), dtype)
    right = op.where(op.greater(x, lambd), op.subtract(x, bias), 0.0)
    return op.where(op.less(x, -lambd), op.add(x, bias), right)


# ------------------------------------------------------------------------------------- along an axis


Along = Callable[[Tensor, int], Tensor]


def _along(function: Along) -> Callable[..., Tensor]:
    def convert(g: Emitter, x: Tensor, *, axis: int = -1) -> Tensor:
        return function(x, axis)

    return convert


def _along_the_rest(function: Along) -> Callable[..., Tensor]:
    """Before opset 13: along all dimensions from `axis` on, taken together."""

    def convert(g: Emitter, x: Tensor, *, axis: int = 1) -> Tensor:
        dims = g.dims(x)
        first = axis if axis == len(dims) else g.axis(axis, len(dims))
        if first == len(dims) - 1:
            return function(x, first)
        flat = g.emit(op.reshape(x, (product(dims[:first]), product(dims[first:]))))
        return op.reshape(function(flat, 1), dims)

    return convert


def product(dims: tuple[PrimExpr, ...]) -> PrimExpr:
    """The number of elements."""
    total: PrimExpr = const(1, "int64")
    for dim in dims:
        total = total * dim
    return total


@converter("Hardmax", since=13)
def hardmax(g: Emitter, x: Tensor, *, axis: int = -1) -> Tensor:
    dims, dtype = g.dims(x), g.dtype(x)
    dimension = g.axis(axis, len(dims))
    one, zero = (PrimValue(const(value, _float32_at_least(dtype))) for value in (1.0, 0.0))
    if not g.is_true(dims[dimension] > 0):  # ArgMax has no result on an empty axis: one more element, at the end
        x = op.nn.pad(x, [int(at == 2 * dimension + 1) for at in range(2 * len(dims))], "constant", float("-inf"))
    chosen = op.one_hot(op.argmax(x, axis=dimension), one, zero, PrimValue(dims[dimension]), axis=dimension)
    return g.cast(chosen, dtype)


def _float32_at_least(dtype: DataType) -> str:
    return "float64" if dtype == "float64" else "float32"


@converter("Hardmax", since=1)
def hardmax_of_the_rest(g: Emitter, x: Tensor, *, axis: int = 1) -> Tensor:
    return _along_the_rest(lambda flat, last: hardmax(g, flat, axis=last))(g, x, axis=axis)


softmax_of_the_rest = _along_the_rest(op.nn.softmax)

register("Softmax", softmax_of_the_rest)
register("LogSoftmax", _along_the_rest(op.nn.log_softmax))
for _name, _function in (("Softmax", op.nn.softmax), ("LogSoftmax", op.nn.log_softmax)):
    register(_name, _along(_function), since=13)
