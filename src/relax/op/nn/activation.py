"""Activations: relu and variants, gelu, silu, softplus, softmax, …; dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from ... import topi
from ...expr import ShapeExpr, TupleGetItem
from ...info.text import prim_text
from ...ir import DataType, RelaxExpr, StructInfo
from ...prim import const
from ...runtime.rounding import convert_array
from ...struct_info import TensorStructInfo, TupleStructInfo
from ..base import Gradients, Term
from ..dims import require_stretch, same_dtype, tensor
from ..errors import SHAPES, OperatorError
from ..facts import Axes, MixedPrecision, Permuted, has_rank, moved_axis
from ..gradients import apply, chained, collapsed, dims_of, is_float, masked, reshaped, tensor_info
from ..operands import FLOATS, NUMBERS
from ..operator import Array, Operator, operator


def wide(x: Array) -> Array:
    """Convert narrow floats to float32, in which formulas are computed."""
    return x.astype(np.float32) if DataType(x.dtype.name).bits < 32 else x


class FloatUnary(Operator):
    """Base class of element-wise functions of floats."""

    __slots__ = ()

    takes = FLOATS

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    elementwise: ClassVar[bool] = True
    total = True
    accuracy = 4

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(data, "data", *self.takes)
        return data

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        return chained(grad, x, lambda: self.slope(x))

    def slope(self, x: Term) -> RelaxExpr | None:
        """Derivative at x; None if none is defined."""
        return None


@operator("relax.nn.relu")
class Relu(Operator):
    """max(x, 0); NaN stays NaN."""

    takes = NUMBERS

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    elementwise: ClassVar[bool] = True
    total = True

    compute = topi.nn.relu

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(data, "data", *self.takes)
        return data

    def reference(self, data: Array) -> Array:
        return np.maximum(data, np.array(0, data.dtype))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        return (masked(grad, x > 0.0) if is_float(x) else None,)


def _finite_tail(data: Array) -> Array:
    """Convert to float64 and clamp -∞ to a finite value, so that f(-∞) is the limit 0 instead of -∞ · 0."""
    return np.maximum(data.astype(np.float64), -1000.0)


def _high_and_low(w: Array) -> tuple[Array, Array]:
    """Split a longdouble into two float64: in their tails, functions lose as many digits as w has before the point."""
    high = w.astype(np.float64)
    return high, (w - high).astype(np.float64)


def _times_sigmoid(x: Array, w: Array) -> Array:
    """x · σ(w) for a longdouble w; the smallest results, whose σ(w) would be subnormal, in two factors."""
    w, low = _high_and_low(w)
    far = w < -600
    e = np.exp(np.where(far, 600, 0) - np.abs(w))
    last = np.where(far, math.exp(-600), 1) * np.where(w < 0, 1 + low, 1)
    return cast("Array", np.where(w >= 0, x, x * e) / np.where(far, 1, 1 + e)) * last


_PI: Any = np.longdouble("3.14159265358979323846264338327950288")
_erfc: Any = np.vectorize(math.erfc, otypes=[np.float64])


@operator("relax.nn.gelu")
class Gelu(FloatUnary):
    """x · Φ(x), Φ the normal distribution function; -0 at -∞."""

    compute = topi.nn.gelu

    def reference(self, data: Array) -> Array:
        x = _finite_tail(data)
        z, low = _high_and_low(np.maximum(-x, -1000) * np.sqrt(np.longdouble(0.5)))
        slope = z + np.sqrt(z * z + 4 / math.pi)  # -erfc'(z) / erfc(z), nearly
        return convert_array(x * 0.5 * _erfc(z) * (1 - slope * low), data.dtype)

    def slope(self, x: Term) -> RelaxExpr:
        below = apply("erf", x * math.sqrt(0.5)) * 0.5 + 0.5
        return below + x * apply("exp", x * x * -0.5) * math.sqrt(0.5 / math.pi)


@operator("relax.nn.gelu_tanh")
class GeluTanh(FloatUnary):
    """The tanh approximation of gelu; -0 at -∞."""

    compute = topi.nn.gelu_tanh

    def reference(self, data: Array) -> Array:
        x = _finite_tail(data)
        near = np.minimum(x, 1000.0).astype(np.longdouble)
        w = near * (1 + np.longdouble("0.044715") * near * near) * np.sqrt(8 / _PI)
        return convert_array(_times_sigmoid(x, w), data.dtype)

    def slope(self, x: Term) -> RelaxExpr:
        scale, cubic = math.sqrt(8 / math.pi), 0.044715
        near: Term = apply("clip", x, -12.0, 12.0)  # beyond, the slope is 0 or 1, and x² might overflow
        square = near * near
        sigmoid = apply("sigmoid", near * (square * cubic + 1.0) * scale)
        return sigmoid + near * sigmoid * (1.0 - sigmoid) * (square * (3 * cubic) + 1.0) * scale


@operator("relax.nn.silu")
class Silu(FloatUnary):
    """x · σ(x); -0 at -∞."""

    compute = topi.nn.silu

    def reference(self, data: Array) -> Array:
        x = _finite_tail(data)
        return convert_array(_times_sigmoid(x, x.astype(np.longdouble)), data.dtype)

    def slope(self, x: Term) -> RelaxExpr:
        sigmoid = apply("sigmoid", x)
        return sigmoid * (x * (1.0 - sigmoid) + 1.0)


class Rounded(FloatUnary):
    """Base class of functions of floats whose reference is computed in float64 and rounded."""

    __slots__ = ()

    accuracy = None

    def reference(self, data: Array) -> Array:
        with np.errstate(all="ignore"):
            return convert_array(self.function(data.astype(np.float64)), data.dtype)

    def function(self, x: Array) -> Array:
        """The function on float64 arrays."""
        raise NotImplementedError


@operator("relax.nn.relu6")
class Relu6(FloatUnary):
    """min(max(x, 0), 6); NaN stays NaN."""

    takes = NUMBERS

    accuracy = None
    compute = topi.nn.relu6

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(data, "data", *self.takes)
        return data

    def reference(self, data: Array) -> Array:
        return np.minimum(np.maximum(data, np.array(0, data.dtype)), np.array(6, data.dtype))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        if not is_float(x):
            return (None,)
        return (masked(masked(grad, x > 0.0), x < 6.0),)


@operator("relax.nn.leakyrelu")
class LeakyRelu(Rounded):
    """x where it is positive, alpha · x elsewhere."""

    alpha: float = 0.01

    def compute(self, data: Any) -> Any:
        return topi.nn.leaky_relu(data, self.alpha)

    def function(self, x: Array) -> Array:
        return cast("Array", np.where(x > 0, x, x * self.alpha))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        return (apply("where", x > 0.0, grad, grad * self.alpha) if is_float(x) else None,)


@operator("relax.nn.prelu")
class PRelu(Operator):
    """x where it is positive, alpha · x elsewhere.

    An alpha of one dimension has one element per index along `axis`, or one for all; any other broadcasts to x.
    """

    takes = FLOATS

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW

    axis: int = 1
    compute = topi.nn.prelu

    def infer(self, data: TensorStructInfo, alpha: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(data, "data", *self.takes)
        dtype = same_dtype(data.dtype, alpha.dtype, ("data", "alpha"))
        axis = self.require_axis(self.axis, data) if alpha.ndim == 1 else None
        if data.ndim != -1 and alpha.ndim > data.ndim:
            message = f"alpha must have at most {data.ndim} dimensions, found {alpha.ndim}"
            raise OperatorError(SHAPES, message, operand="alpha")
        if data.dims is not None and alpha.dims is not None:
            sizes = data.dims if axis is None else data.dims[: axis + 1]
            for size, full in zip(reversed(alpha.dims), reversed(sizes), strict=False):
                message = f"a dimension of alpha is {prim_text(size)}, which does not broadcast to {prim_text(full)}"
                require_stretch(size, full, OperatorError(SHAPES, message, operand="alpha"))
        return data if data.dtype == dtype else data.replace(dtype=dtype)

    def reference(self, data: Array, alpha: Array) -> Array:
        if alpha.ndim == 1:
            alpha = alpha.reshape(-1, *[1] * (data.ndim - 1 - self.axis % data.ndim))
        return cast("Array", np.where(data > 0, data, data * alpha))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, alpha = operands
        ndim, sizes = tensor_info(data).ndim, dims_of(alpha)
        if ndim == -1 or sizes is None:
            return None
        slope = alpha
        if len(sizes) == 1:
            after = [const(1, "int64")] * (ndim - 1 - self.axis % ndim)
            slope = apply("reshape", alpha, ShapeExpr((*sizes, *after)))
        zeros = apply("zeros_like", data)
        positive = apply("greater", data, zeros)
        by_slope = collapsed(apply("where", positive, zeros, grad * data), slope)
        by_alpha = None if by_slope is None else reshaped(by_slope, alpha)
        return None if by_alpha is None else (apply("where", positive, grad, grad * slope), by_alpha)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        alpha = infos[1]
        if not has_rank(infos, axes) or not isinstance(alpha, TensorStructInfo):
            return None
        if alpha.ndim == 1:
            return Permuted(self.replace(axis=moved_axis(self.axis, axes)), (axes, None), (axes,))
        return Permuted(self, (axes, axes), (axes,)) if alpha.ndim == len(axes) else None


@operator("relax.nn.softplus")
class Softplus(Rounded):
    """log(1 + e^(beta · x)) / beta; x itself where beta · x is above `threshold`."""

    beta: float = 1.0
    threshold: float = 20.0
    compute = topi.nn.softplus

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_attribute(self.beta > 0, "beta", "above 0")
        return FloatUnary.infer(self, data)

    def function(self, x: Array) -> Array:
        scaled = x * self.beta
        return cast("Array", np.where(scaled > self.threshold, x, np.logaddexp(0, scaled) / self.beta))

    def slope(self, x: Term) -> RelaxExpr:
        return apply("sigmoid", x * self.beta)


@operator("relax.nn.selu")
class Selu(Rounded):
    """scale · x where x is positive, scale · alpha · (e^x - 1) elsewhere; alpha 1.67326…, scale 1.0507…"""

    compute = topi.nn.selu

    def function(self, x: Array) -> Array:
        below = 1.6732632423543772 * np.expm1(np.minimum(x, 0))
        return 1.0507009873554805 * cast("Array", np.where(x > 0, x, below))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        rising, flat = 1.0507009873554805, 1.0507009873554805 * 1.6732632423543772
        return (apply("where", x > 0.0, grad * rising, grad * (result + flat)),)


class Softmaxes(Operator):
    """Base class of softmax and log_softmax."""

    __slots__ = ()

    takes = FLOATS

    total = True

    axis: int = -1

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(data, "data", *self.takes)
        self.require_axis(self.axis, data)
        return data

    def shifted(self, data: Array) -> Array:
        x = data.astype(np.float64)
        return x - x.max(self.axis, keepdims=True, initial=-np.inf)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        return Permuted(self.replace(axis=moved_axis(self.axis, axes)), (axes,), (axes,))


@operator("relax.nn.softmax")
class Softmax(Softmaxes):
    """exp(x - max x) / Σ exp(x - max x) along one axis."""

    compute = topi.nn.softmax

    def reference(self, data: Array) -> Array:
        e = np.exp(self.shifted(data))
        return convert_array(e / e.sum(self.axis, keepdims=True), data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        weighted = grad * result
        return (weighted - result * apply("sum", weighted, axis=self.axis, keepdims=True),)


@operator("relax.nn.log_softmax")
class LogSoftmax(Softmaxes):
    """(x - max x) - log Σ exp(x - max x) along one axis."""

    compute = topi.nn.log_softmax

    def reference(self, data: Array) -> Array:
        shifted = self.shifted(data)
        rest = np.where(shifted == 0, 0, np.exp(shifted)).sum(self.axis, keepdims=True)
        greatest = (shifted == 0).sum(self.axis, keepdims=True)
        return convert_array(shifted - np.log1p(rest + (greatest - 1)), data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        total = apply("sum", grad, axis=self.axis, keepdims=True)
        return (grad - apply("exp", result) * total,)


@operator("relax.nn.dropout")
class Dropout(Operator):
    """(x, mask): outside training, x itself and a mask of ones. `rate` is the fraction dropped in training."""

    takes = FLOATS

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW

    rate: float = 0.5

    def infer(self, data: TensorStructInfo) -> TupleStructInfo:
        self.require_dtype(data, "data", *self.takes)
        self.require_attribute(0 <= self.rate < 1, "rate", "at least 0 and below 1")
        mask = tensor(data.dims, data.dtype, data.ndim) if data.dims is not None else data
        return TupleStructInfo((data, mask))

    def compute(self, data: object) -> object:
        return topi.nn.dropout(data)  # type: ignore[arg-type]

    def reference(self, data: Array) -> list[Array]:
        return [data, np.ones_like(data)]

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (TupleGetItem(grad, 0),)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        return Permuted(self, (axes,), (axes, axes)) if has_rank(infos, axes) else None
