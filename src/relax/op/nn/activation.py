"""Activations: relu, gelu, silu, softmax, log_softmax, dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from ... import topi
from ...expr import TupleGetItem
from ...ir import DataType, RelaxExpr, StructInfo
from ...runtime.rounding import convert_array
from ...struct_info import TensorStructInfo, TupleStructInfo
from ..base import Gradients, Term
from ..dims import tensor
from ..facts import Axes, MixedPrecision, Permuted, has_rank, moved_axis
from ..gradients import apply, chained, is_float, masked
from ..operator import Array, Operator, operator


def wide(x: Array) -> Array:
    """Narrow floats as float32, in which formulas are computed."""
    return x.astype(np.float32) if DataType(x.dtype.name).bits < 32 else x


class FloatUnary(Operator):
    """The base of element-wise functions of floats."""

    __slots__ = ()

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    elementwise: ClassVar[bool] = True
    total = True
    accuracy = 4

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(data, "data", "float")
        return data

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        return chained(grad, x, lambda: self.slope(x))

    def slope(self, x: Term) -> RelaxExpr | None:
        """The derivative at x; None if none is stated."""
        return None


@operator("relax.nn.relu")
class Relu(Operator):
    """max(x, 0); NaN stays NaN."""

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    elementwise: ClassVar[bool] = True
    total = True

    compute = topi.nn.relu

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(data, "data", "float", "int", "uint")
        return data

    def reference(self, data: Array) -> Array:
        return np.maximum(data, np.array(0, data.dtype))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        return (masked(grad, x > 0.0) if is_float(x) else None,)


def _finite_tail(data: Array) -> Array:
    """As float64, and finite below: f(-∞) is to be the limit 0, not -∞ · 0."""
    return np.maximum(data.astype(np.float64), -1000.0)


def _parts(w: Array) -> tuple[Array, Array]:
    """A longdouble as two float64: in their tails, functions lose as many digits as w has before the point."""
    high = w.astype(np.float64)
    return high, (w - high).astype(np.float64)


def _times_sigmoid(x: Array, w: Array) -> Array:
    """x · σ(w) for a longdouble w; the smallest results, whose σ(w) would be subnormal, in two factors."""
    w, low = _parts(w)
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
        z, low = _parts(np.maximum(-x, -1000) * np.sqrt(np.longdouble(0.5)))
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


class Softmaxes(Operator):
    """The base of softmax and log_softmax."""

    __slots__ = ()

    total = True

    axis: int

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(data, "data", "float")
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

    axis: int = -1
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

    axis: int = -1
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
    """(x, mask): outside training, x itself and a mask of ones. `rate` is the share dropped in training."""

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW

    rate: float = 0.5

    def infer(self, data: TensorStructInfo) -> TupleStructInfo:
        self.require_dtype(data, "data", "float")
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
