"""Activations: relu, gelu, silu, softmax, log_softmax, dropout."""

from __future__ import annotations

import math

import numpy as np

from ... import topi
from ...ir import DataType
from ...runtime.rounding import convert_array
from ...struct_info import TensorStructInfo, TupleStructInfo
from ..dims import tensor
from ..operator import Array, Operator, operator


def wide(x: Array) -> Array:
    """Narrow floats as float32, in which formulas are computed."""
    return x.astype(np.float32) if DataType(x.dtype.name).bits < 32 else x


class FloatUnary(Operator):
    """The base of element-wise functions of floats."""

    __slots__ = ()

    total = True

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(data, "data", "float")
        return data


@operator("relax.nn.relu")
class Relu(Operator):
    """max(x, 0); NaN stays NaN."""

    total = True

    compute = topi.nn.relu

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(data, "data", "float", "int", "uint")
        return data

    def reference(self, data: Array) -> Array:
        return np.maximum(data, np.array(0, data.dtype))


_erf = np.vectorize(math.erf, otypes=[np.float64])


@operator("relax.nn.gelu")
class Gelu(FloatUnary):
    """x · Φ(x), Φ the normal distribution function."""

    compute = topi.nn.gelu

    def reference(self, data: Array) -> Array:
        x = data.astype(np.float64)
        return (x * (_erf(x * math.sqrt(0.5)) * 0.5 + 0.5)).astype(data.dtype)


@operator("relax.nn.gelu_tanh")
class GeluTanh(FloatUnary):
    """The tanh approximation of gelu."""

    compute = topi.nn.gelu_tanh

    def reference(self, data: Array) -> Array:
        x = data.astype(np.float64)
        return (x * 0.5 * (np.tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1)).astype(
            data.dtype
        )


@operator("relax.nn.silu")
class Silu(FloatUnary):
    """x · σ(x)."""

    compute = topi.nn.silu

    def reference(self, data: Array) -> Array:
        x = data.astype(np.float64)
        return convert_array(x / (1 + np.exp(-x)), data.dtype)


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
        x = wide(data)
        return x - x.max(self.axis, keepdims=True, initial=-np.inf)


@operator("relax.nn.softmax")
class Softmax(Softmaxes):
    """exp(x - max x) / Σ exp(x - max x) along one axis."""

    axis: int = -1
    compute = topi.nn.softmax

    def reference(self, data: Array) -> Array:
        e = np.exp(self.shifted(data))
        return (e / e.sum(self.axis, keepdims=True)).astype(data.dtype)


@operator("relax.nn.log_softmax")
class LogSoftmax(Softmaxes):
    """(x - max x) - log Σ exp(x - max x) along one axis."""

    axis: int = -1
    compute = topi.nn.log_softmax

    def reference(self, data: Array) -> Array:
        shifted = self.shifted(data)
        return (shifted - np.log(np.exp(shifted).sum(self.axis, keepdims=True))).astype(data.dtype)


@operator("relax.nn.dropout")
class Dropout(Operator):
    """(x, mask): outside training, x itself and a mask of ones. `rate` is the share dropped in training."""

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
