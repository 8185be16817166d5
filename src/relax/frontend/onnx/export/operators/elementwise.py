"""Element-wise arithmetic, comparison, logic, bits and conversion."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from .....ir import DataType
from ..graph import Graph
from ..registry import WRITERS, writer
from ..tensor import Tensor

_UNARY: Final = {
    "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh", "cos": "Cos",
    "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "log": "Log", "negative": "Neg", "sigmoid": "Sigmoid", "sin": "Sin",
    "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh", "abs": "Abs",
}  # fmt: skip
_BINARY: Final = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "maximum": "Max", "minimum": "Min"}
_LOGICAL: Final = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
_COMPARED: Final = {
    "equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
}  # fmt: skip


def _unary(op_type: str) -> Any:
    def write(g: Graph, operator: Any, x: Tensor) -> Tensor:
        return g.run(op_type, x)

    return write


def _binary(op_type: str) -> Any:
    def write(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
        return g.run(op_type, x1, x2)

    return write


def _logical(op_type: str) -> Any:
    def write(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
        return g.run(op_type, truth(x1), truth(x2))

    return write


def _compared(op_type: str) -> Any:
    def write(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
        if x1.dtype == "bool" and op_type != "Equal":
            x1, x2 = x1.to("int32"), x2.to("int32")
        return g.run(op_type, x1, x2, dtype="bool")

    return write


for _name, _op_type in _UNARY.items():
    WRITERS[f"relax.{_name}"] = _unary(_op_type)
for _name, _op_type in _BINARY.items():
    WRITERS[f"relax.{_name}"] = _binary(_op_type)
for _name, _op_type in _LOGICAL.items():
    WRITERS[f"relax.{_name}"] = _logical(_op_type)
for _name, _op_type in _COMPARED.items():
    WRITERS[f"relax.{_name}"] = _compared(_op_type)


def truth(x: Tensor) -> Tensor:
    """Return True for each element that is not 0; NaN is not."""
    return x if x.dtype == "bool" else ~x.equal(0)


@writer("relax.logical_not")
def logical_not(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return ~truth(x)


@writer("relax.not_equal")
def not_equal(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
    return ~g.run("Equal", x1, x2, dtype="bool")


def unsigned_negative(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return -x if not x.dtype.startswith("uint") else g.const(0, x.dtype) - x


WRITERS["relax.negative"] = unsigned_negative


# ------------------------------------------------------------------------------------------- division


def _exact_divisor(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """Operands of a division of integers; by -1 it becomes a negation, as the least value divided by -1 traps."""
    if not x1.kind.is_int:
        return x1, x2
    minus = x2.equal(-1)
    return minus.where(-x1, x1), minus.where(1, x2)


@writer("relax.divide")
def divide(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
    if x1.kind.is_integer:
        x1, x2 = _exact_divisor(x1.wide(), x2.wide())
    return x1 / x2


@writer("relax.mod")
def mod(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
    if x1.kind.is_integer:
        x1, x2 = _exact_divisor(x1.wide(), x2.wide())
        return x1 - (x1 / x2) * x2
    x1, x2 = x1.wide(), x2.wide()
    return g.run("Mod", x1, x2, fmod=1)


def _floor_quotient(g: Graph, x1: Tensor, x2: Tensor) -> Tensor:
    """Quotient of signed integers rounded down."""
    quotient = x1 / x2
    rest = x1 - quotient * x2
    lower = ~rest.equal(0) & ~(rest < 0).equal(x2 < 0)
    return lower.where(quotient - 1, quotient)


@writer("relax.floor_divide")
def floor_divide(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
    if x1.kind.is_int:
        x1, x2 = _exact_divisor(x1.wide(), x2.wide())
        return _floor_quotient(g, x1, x2)
    if x1.kind.is_integer:
        return x1 / x2
    x1, x2 = x1.wide(), x2.wide()
    rest = floor_rest(g, x1, x2)
    quotient = g.run("Round", (x1 - rest) / x2)
    plain = x1 / x2
    special = x2.equal(0) | g.run("IsInf", x1, dtype="bool")
    zero = g.run("Floor", plain)
    result = g.run("IsInf", x2, dtype="bool").where(zero, quotient)
    division = g.run("IsInf", x1, dtype="bool").where(math.nan, plain)
    return special.where(division, result)


def floor_rest(g: Graph, x1: Tensor, x2: Tensor) -> Tensor:
    """Remainder of floats with the sign of the divisor."""
    rest = g.run("Mod", x1, x2, fmod=1)
    differs = ~rest.equal(0) & ~(rest < 0).equal(x2 < 0)
    return differs.where(rest + x2, rest)


@writer("relax.floor_mod")
def floor_mod(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
    if x1.kind.is_int:
        x1, x2 = _exact_divisor(x1.wide(), x2.wide())
        return x1 - _floor_quotient(g, x1, x2) * x2
    if x1.kind.is_integer:
        return x1 - (x1 / x2) * x2
    return floor_rest(g, x1.wide(), x2.wide())


# ------------------------------------------------------------------------------------------- powers, logarithms


@writer("relax.power")
def power(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
    if x1.kind.is_float:
        return g.run("Pow", x1, x2)
    x1, x2 = x1.wide(), x2.wide()
    return _integer_power(g, x1, x2)


def _integer_power(g: Graph, base: Tensor, exponent: Tensor) -> Tensor:
    """Power of integers by repeated squaring, which wraps around; 1 / base for a negative exponent."""
    if exponent.constant is not None and exponent.constant.size:
        bits = max(int(abs(int(value))).bit_length() for value in exponent.constant.flat)
    else:
        bits = exponent.kind.bits - int(exponent.kind.is_int)
    result, square = g.const(1, base.dtype), base
    left = exponent
    for step in range(bits):
        half = left / 2
        odd = ~(left - half * 2).equal(0)
        result = odd.where(result * square, result)
        left = half
        if step + 1 < bits:
            square = square * square
    if not exponent.kind.is_int:
        return result
    even = (exponent - (exponent / 2) * 2).equal(0)
    unit = base.equal(-1).where(
        even.where(g.const(1, base.dtype), g.const(-1, base.dtype)), base.equal(1).to(base.dtype)
    )
    return (exponent < 0).where(unit, result)


@writer("relax.rsqrt")
def rsqrt(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return 1.0 / g.run("Sqrt", x.wide())


@writer("relax.square")
def square(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return x * x


@writer("relax.log_add_exp")
def log_add_exp(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
    x1, x2 = x1.wide(), x2.wide()
    distance = x1.equal(x2).where(0.0, g.run("Abs", x1 - x2))
    return g.run("Max", x1, x2) + g.run("Log", g.run("Exp", -distance) + 1.0)


@writer("relax.ewise_fma")
def ewise_fma(g: Graph, operator: Any, x1: Tensor, x2: Tensor, x3: Tensor) -> Tensor:
    return x1 * x2 + x3


# ------------------------------------------------------------------------------------------- rounding, tests


def _rounded(op_type: str) -> Any:
    def write(g: Graph, operator: Any, x: Tensor) -> Tensor:
        return x if x.kind.is_integer else g.run(op_type, x)

    return write


WRITERS["relax.floor"] = _rounded("Floor")
WRITERS["relax.ceil"] = _rounded("Ceil")
WRITERS["relax.round"] = _rounded("Round")


@writer("relax.trunc")
def trunc(g: Graph, operator: Any, x: Tensor) -> Tensor:
    if x.kind.is_integer:
        return x
    x = x.wide()
    return (x < 0).where(g.run("Ceil", x), g.run("Floor", x))


@writer("relax.sign")
def sign(g: Graph, operator: Any, x: Tensor) -> Tensor:
    if x.kind.is_integer:
        return g.run("Sign", x)
    x = x.wide()
    return g.run("IsNaN", x, dtype="bool").where(x, g.run("Sign", x))


@writer("relax.isnan")
def isnan(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return ~x.equal(x) if x.kind.is_integer else g.run("IsNaN", x, dtype="bool")


@writer("relax.isinf")
def isinf(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return ~x.equal(x) if x.kind.is_integer else g.run("IsInf", x, dtype="bool")


@writer("relax.isfinite")
def isfinite(g: Graph, operator: Any, x: Tensor) -> Tensor:
    if x.kind.is_integer:
        return x.equal(x)
    x = x.wide()
    return (x - x).equal(0)


@writer("relax.clip")
def clip(g: Graph, operator: Any, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return g.run("Min", g.run("Max", x, _bound(x, low)), _bound(x, high))


def _bound(x: Tensor, bound: Tensor) -> Tensor:
    """A bound in the dtype of x; that of an integer dtype, or of bool, lies in its range."""
    if x.kind.is_float:
        return bound.to(x.dtype)
    if bound.constant is not None:
        value = bound.constant.item()
        least, most = (0, 1) if x.dtype == "bool" else (int(x.kind.min_value), int(x.kind.max_value))
        return x.graph.const(least if value <= least else most if value >= most else int(value), x.dtype)
    return bound >= 1 if x.dtype == "bool" else converted(bound, x.dtype, saturating=True)


# ------------------------------------------------------------------------------------------- bits


@writer("relax.bitwise_not")
def bitwise_not(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return ~x if x.dtype == "bool" else g.run("BitwiseNot", x)


def _bitwise(op_type: str, of_bools: str) -> Any:
    def write(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
        return g.run(of_bools if x1.dtype == "bool" else op_type, x1, x2)

    return write


WRITERS["relax.bitwise_and"] = _bitwise("BitwiseAnd", "And")
WRITERS["relax.bitwise_or"] = _bitwise("BitwiseOr", "Or")
WRITERS["relax.bitwise_xor"] = _bitwise("BitwiseXor", "Xor")


def _counts(x2: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """The shifts that are less than the width, and the counts as an integer type that holds all of them."""
    x2 = x2.wide()
    if x2.dtype == "uint64":
        x2 = x2.graph.run("Min", x2, x2.graph.const(bits, "uint64")).to("int64")
    return (x2 < bits) & (x2 >= 0), x2


@writer("relax.left_shift")
def left_shift(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
    inside, count = _counts(x2, x1.kind.bits)
    unsigned = "uint64" if x1.kind.bits == 64 else "uint32"
    shifted = g.run("BitShift", x1.to(unsigned), inside.where(count, 0).to(unsigned), direction="LEFT")
    return inside.where(shifted.to(x1.dtype), g.const(0, x1.dtype))


@writer("relax.right_shift")
def right_shift(g: Graph, operator: Any, x1: Tensor, x2: Tensor) -> Tensor:
    bits = x1.kind.bits
    inside, count = _counts(x2, bits)
    unsigned = "uint64" if bits == 64 else "uint32"
    if not x1.kind.is_int:
        shifted = g.run("BitShift", x1.to(unsigned), inside.where(count, 0).to(unsigned), direction="RIGHT")
        return inside.where(shifted.to(x1.dtype), g.const(0, x1.dtype))
    count = inside.where(count, bits - 1).to(unsigned)
    x1 = x1.wide()
    negative = x1 < 0
    magnitude = negative.where(g.run("BitwiseNot", x1), x1)
    shifted = g.run("BitShift", magnitude.to(unsigned), count, direction="RIGHT").to(x1.dtype)
    return negative.where(g.run("BitwiseNot", shifted), shifted)


# ------------------------------------------------------------------------------------------- conversion


@writer("relax.astype", "relax.wrap_param")
def astype(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return converted(x, str(operator.dtype))


@writer("relax.reinterpret")
def reinterpret(g: Graph, operator: Any, x: Tensor) -> Tensor:
    dtype = str(operator.dtype)
    if x.dtype == dtype:
        return x
    bits = x.to("uint8") if x.dtype == "bool" else x
    target = "uint8" if dtype == "bool" else dtype
    if DataType(target).bits != bits.kind.bits:
        g.refuse(f"the bits of {x.dtype} read as {dtype}, of another width", "ONNX has BitCast for dtypes of one width")
    if g.opset < 26:
        g.refuse("bits read as another dtype before opset 26", "to_onnx(mod, opset=26)")
    if bits.dtype != target:
        bits = g.node("BitCast", bits, dtype=target, rank=x.rank, to=g.element_type(target))
    return truth(bits) if dtype == "bool" else bits


_E5M2_LIMIT: Final = 61440.0
"""Least magnitude that float8_e5m2 rounds to infinity."""


def converted(x: Tensor, dtype: str, saturating: bool = False) -> Tensor:
    """Elements in another dtype: floats saturate in integers, and NaN becomes 0; integers wrap around."""
    target = DataType(dtype)
    if x.kind.is_float and target.is_integer and not target.is_bool:
        return _truncated(x, dtype)
    if saturating and x.kind.is_integer:
        low, high = max(target.min_value, x.kind.min_value), min(target.max_value, x.kind.max_value)
        x = x.graph.run("Min", x.graph.run("Max", x, x.graph.const(low, x.dtype)), x.graph.const(high, x.dtype))
    if target.is_bool and x.kind.is_float:  # -0 of a narrow float is not 0 in ONNX Runtime
        x = x.wide()
    if target.is_float and target.bits < 16 and x.dtype not in ("float32", "float16", "bfloat16"):
        x = x.to("float32")
    if target.is_float and target.bits == 16 and x.dtype != "float32" and not (x.kind.is_float and x.kind.bits == 64):
        x = x.to("float32")
    if dtype == "float8_e5m2" and x.kind.is_float:  # ONNX Runtime makes a finite number beyond its range NaN
        x = x.wide()
        x = (x.graph.run("Abs", x) >= _E5M2_LIMIT).where(x * math.inf, x)
    return x.to(dtype)


def _truncated(x: Tensor, dtype: str) -> Tensor:
    """Floats as integers, truncated, saturating."""
    g, target = x.graph, DataType(dtype)
    low, high = int(target.min_value), int(target.max_value)
    x = x.to("float64") if x.dtype == "float64" or target.bits >= 32 else x.wide()
    x = g.run("IsNaN", x, dtype="bool").where(0.0, x)
    if target.bits <= 32:
        bounded = g.run("Min", g.run("Max", x, g.const(float(low), x.dtype)), g.const(float(high), x.dtype))
        return bounded.to("int64").to(dtype)
    above, below = x >= float(high), x <= float(low)
    inside = (above | below).where(0.0, x)
    whole = inside.to("int64") if target.is_int else _unsigned(inside)
    limit = np.array(high, object).astype(target.numpy())
    picked = above.where(g.const(limit, dtype), whole)
    return below.where(g.const(low, dtype), picked)


def _unsigned(x: Tensor) -> Tensor:
    """Floats in (0, 2⁶⁴) as uint64, of which the upper half exceeds int64."""
    upper = x >= 2.0**63
    low = upper.where(x - 2.0**63, x).to("int64").to("uint64")
    return low + upper.to("uint64") * x.graph.const(np.array(1 << 63, object).astype(np.uint64), "uint64")


@writer("relax.where")
def where(g: Graph, operator: Any, condition: Tensor, x1: Tensor, x2: Tensor) -> Tensor:
    return truth(condition).where(x1, x2)
