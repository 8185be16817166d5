"""Elementwise operators: arithmetic, comparison, logic, rounding, trigonometry."""

from __future__ import annotations

from collections.abc import Callable

from .... import op
from ..emitter import Emitter
from ..registry import converter, register
from ..values import Tensor

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": op.abs,
    "Acos": op.acos,
    "Acosh": op.acosh,
    "Asin": op.asin,
    "Asinh": op.asinh,
    "Atan": op.atan,
    "Atanh": op.atanh,
    "BitwiseNot": op.bitwise_not,
    "Ceil": op.ceil,
    "Cos": op.cos,
    "Cosh": op.cosh,
    "Erf": op.erf,
    "Exp": op.exp,
    "Floor": op.floor,
    "IsNaN": op.isnan,
    "Log": op.log,
    "Neg": op.negative,
    "Not": op.logical_not,
    "Round": op.round,
    "Sigmoid": op.sigmoid,
    "Sign": op.sign,
    "Sin": op.sin,
    "Sinh": op.sinh,
    "Sqrt": op.sqrt,
    "Tan": op.tan,
    "Tanh": op.tanh,
}

_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": op.add,
    "And": op.logical_and,
    "BitwiseAnd": op.bitwise_and,
    "BitwiseOr": op.bitwise_or,
    "BitwiseXor": op.bitwise_xor,
    "Equal": op.equal,
    "Greater": op.greater,
    "GreaterOrEqual": op.greater_equal,
    "Less": op.less,
    "LessOrEqual": op.less_equal,
    "Mul": op.multiply,
    "Or": op.logical_or,
    "Sub": op.subtract,
    "Xor": op.logical_xor,
}


def _unary(function: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def convert(g: Emitter, x: Tensor) -> Tensor:
        return function(x)

    return convert


def _binary(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def convert(g: Emitter, a: Tensor, b: Tensor) -> Tensor:
        return function(a, b)

    return convert


for _name, _function in _UNARY.items():
    register(_name, _unary(_function))
for _name, _function in _BINARY.items():
    register(_name, _binary(_function), since=7)


@converter("Relu")
def relu(g: Emitter, x: Tensor) -> Tensor:
    return op.nn.relu(x)


@converter("Identity")
def identity(g: Emitter, x: Tensor) -> Tensor:
    return x
