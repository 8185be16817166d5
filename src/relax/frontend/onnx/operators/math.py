"""Operators on numbers: arithmetic, comparison, logic, rounding, trigonometry; products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from .... import op
from ....expr import Constant, PrimValue, ShapeExpr, Tuple
from ....ir import DataType
from ....prim import IntImm
from ..emitter import Emitter
from ..registry import converter, register
from ..values import Tensor, Value

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
    "Div": op.divide,
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


def _binary_aligned(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Before opset 7 the second operand's dimensions stood at `axis` of the first one's."""

    def convert(g: Emitter, a: Tensor, b: Tensor, *, broadcast: int = 0, axis: int | None = None) -> Tensor:
        dims, ndim = g.dims(b), g.ndim(a)
        if broadcast and axis is not None:
            after = ndim - g.axis(axis, ndim) - len(dims)
            b = g.emit(op.reshape(b, ShapeExpr([*dims, *[1] * after])))
        return function(g, a, b)

    return convert


for _name, _function in _UNARY.items():
    register(_name, _unary(_function))
for _name, _function in _BINARY.items():
    register(_name, _binary_aligned(_binary(_function)))
    register(_name, _binary(_function), since=7)


@converter("Identity")
def identity(g: Emitter, x: Value) -> Value:
    return x


@converter("Reciprocal")
def reciprocal(g: Emitter, x: Tensor) -> Tensor:
    return op.divide(1.0, x)


@converter("Mod")
def mod(g: Emitter, a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    return op.mod(a, b) if fmod else op.floor_mod(a, b)


@converter("Pow", since=7)
def power(g: Emitter, x: Tensor, y: Tensor) -> Tensor:
    dtype, exponent = g.dtype(x), g.dtype(y)
    value = _one_number(y)
    keeps_rank = isinstance(y, Constant) and y.data.ndim <= max(0, g.info(x).ndim)
    if value == 2 and keeps_rank:
        return op.square(x)
    if value == 3 and keeps_rank and dtype in ("float32", "float64"):
        return op.multiply(op.square(x), x)  # in gelu by tanh: in vectors, rounded twice; op.power promises 4 ULP
    if dtype == exponent:
        return op.power(x, y)
    if value is not None and _fits(value, dtype):
        return op.power(x, op.astype(y, dtype))
    if dtype == "uint64" or (exponent == "uint64" and dtype.is_integer):
        g.unsupported(f"a power of {dtype} and {exponent}")
    wide = "int64" if dtype.is_integer and exponent.is_integer else "float64"
    return op.astype(op.power(op.astype(x, wide), op.astype(y, wide)), dtype)


register("Pow", _binary_aligned(power))


def _one_number(x: Tensor) -> float | int | None:
    """The number that a constant of one element holds; None for another tensor."""
    return x.data.item() if isinstance(x, Constant) and x.data.size == 1 else None


def _fits(value: float, dtype: DataType) -> bool:
    """True if a dtype holds a number exactly."""
    if dtype.is_integer:
        return float(value).is_integer() and dtype.min_value <= value <= dtype.max_value
    return bool(np.isfinite(value)) and float(np.array(value).astype(dtype.numpy())) == value


# ------------------------------------------------------------------------------------- any number of operands


@converter("Max")
def maximum(g: Emitter, *inputs: Tensor) -> Tensor:
    return reduce(op.maximum, inputs)


@converter("Min")
def minimum(g: Emitter, *inputs: Tensor) -> Tensor:
    return reduce(op.minimum, inputs)


@converter("Sum")
def total(g: Emitter, *inputs: Tensor) -> Tensor:
    return reduce(op.add, inputs)


@converter("Mean")
def mean(g: Emitter, *inputs: Tensor) -> Tensor:
    return op.divide(total(g, *inputs), float(len(inputs)))


# ------------------------------------------------------------------------------------- limits, tests, shifts


@converter("Clip")
def clip_by_attributes(g: Emitter, x: Tensor, *, min: float | None = None, max: float | None = None) -> Tensor:
    return _clipped(x, *_limits(g.dtype(x), min, max))


@converter("Clip", since=11)
def clip(g: Emitter, x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """By constants, or by tensors. Of floats also infinities are clipped, to the greatest finite number."""
    bounds = [_bound(g, bound) for bound in (min, max)]
    numbers = [None if bound is None else _one_number(bound) for bound in bounds]
    tensors = [bound for bound, number in zip(bounds, numbers, strict=True) if number is None]
    if all(bound is None for bound in tensors) and not any(map(_is_nan, numbers)):
        return _clipped(x, *_limits(g.dtype(x), *numbers))
    default = _limits(g.dtype(x), None, None)
    low, high = (
        g.const(limit, str(g.dtype(x))) if bound is None else bound
        for bound, limit in zip(bounds, default, strict=True)
    )
    return op.minimum(op.maximum(x, low), high)


def _is_nan(number: float | None) -> bool:
    return number is not None and number != number


def _limits(dtype: DataType, low: float | None, high: float | None) -> tuple[float, float]:
    """The numbers between which is clipped: the extreme ones of the dtype where left out."""
    least, most = (-dtype.max_finite, dtype.max_finite) if dtype.is_float else (dtype.min_value, dtype.max_value)
    return least if low is None else low, most if high is None else high


def _clipped(x: Tensor, low: float, high: float) -> Tensor:
    """The tensor between two numbers; an integer that int64 does not hold is as good as a float as large."""
    return op.clip(x, *(PrimValue(float(bound) if abs(bound) >= 1 << 63 else bound) for bound in (low, high)))


def _bound(g: Emitter, bound: Tensor | None) -> Tensor | None:
    """A bound as a tensor without dimensions; one of one element is taken too."""
    return bound if bound is None or g.ndim(bound) == 0 else g.emit(op.reshape(bound, ()))


@converter("IsInf")
def is_infinite(g: Emitter, x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    if detect_negative and detect_positive:
        return op.isinf(x)
    if not detect_negative and not detect_positive:
        return op.zeros_like(x, dtype="bool")
    side = op.greater if detect_positive else op.less
    return op.logical_and(op.isinf(x), side(x, 0.0))


@converter("BitShift", since=11)
def bit_shift(g: Emitter, x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    left = g.choice(direction, "direction", ("LEFT", "RIGHT")) == "LEFT"
    return op.left_shift(x, y) if left else op.right_shift(x, y)


# ------------------------------------------------------------------------------------- products


@converter("MatMul")
def matmul(g: Emitter, a: Tensor, b: Tensor) -> Tensor:
    return op.matmul(a, b)


@converter("Gemm")
def gemm(
    g: Emitter,
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    left, right = (op.permute_dims(x, (1, 0)) if turned else x for x, turned in ((a, transA), (b, transB)))
    product = _scaled(g, op.matmul(left, right), alpha, g.dtype(a))
    if c is None or beta == 0:
        return product
    return op.add(product, _scaled(g, c, beta, g.dtype(a)))


def _scaled(g: Emitter, x: Tensor, factor: float, dtype: DataType) -> Tensor:
    if factor == 1:
        return x
    if dtype.is_integer and not float(factor).is_integer():
        g.unsupported(f"the factor {factor} for tensors of {dtype}")
    return op.multiply(x, g.const(factor, dtype))


@converter("Einsum")
def einsum(g: Emitter, *inputs: Tensor, equation: str) -> Tensor:
    return op.einsum(Tuple(inputs), equation.replace(" ", ""))


@converter("Det")
def determinant(g: Emitter, x: Tensor) -> Tensor:
    """Determinant of matrices of up to 3 rows, by Laplace expansion."""
    if g.ndim(x) < 2:
        raise g.error(f"expected matrices, found {g.ndim(x)} dimensions", code="E6003")
    *batch, rows, columns = g.dims(x)
    if not isinstance(rows, IntImm) or not isinstance(columns, IntImm) or rows.value > 3:
        g.unsupported("the determinant of matrices larger than 3 × 3")
    if rows.value != columns.value:
        raise g.error(f"the matrices must be square, found {rows.value} × {columns.value}", code="E6003")
    size = rows.value
    flat = g.emit(op.reshape(x, [*batch, size * size]))
    elements = [op.take(flat, g.const(i, "int64"), len(batch)) for i in range(size * size)]
    return _determinant([elements[size * i : size * (i + 1)] for i in range(size)])


def _determinant(rows: list[list[Any]]) -> Any:
    first, *rest = rows
    if not rest:
        return first[0]
    total: Any = None
    for j, factor in enumerate(first):
        minor = op.multiply(factor, _determinant([[*row[:j], *row[j + 1 :]] for row in rest]))
        total = minor if total is None else (op.subtract if j % 2 else op.add)(total, minor)
    return total
