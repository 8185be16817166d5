"""Arithmetic of machine numbers in exact integers and fractions: for each operation a function of Python numbers.

Integers are Python's, wrapped after every operation; float64 is Python's float, float32 a NumPy scalar, and narrower
floats are fractions rounded once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from .rounding import FORMATS, nearest

INTEGERS = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64, 4, 2)}
"""The sign and the width of each integer dtype."""


class Undefined(Exception):
    """Nothing is said of what the program does."""


def limits(dtype: str) -> tuple[int, int]:
    """The least and the greatest value of an integer dtype."""
    sign, bits = INTEGERS[dtype]
    return (0, (1 << bits) - 1) if sign else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def wrapped(value: int, dtype: str) -> int:
    """An integer modulo two to the power of a dtype's width."""
    low, high = limits(dtype)
    return (value - low) % (high - low + 1) + low


def converted(value: Any, source: str, dtype: str) -> Any:
    """The value of a Cast: integers wrap, floats truncate and saturate, everything rounds once."""
    if dtype == "bool":
        return value != 0
    if dtype in FORMATS:
        return nearest(value if source in FORMATS else int(value), dtype)
    if source not in FORMATS:
        return wrapped(int(value), dtype)
    if math.isnan(value):
        return 0
    low, high = limits(dtype)
    return low if value <= low else high if value >= high else int(value)


# ---------------------------------------------------------------------------------------- arithmetic


def _truncdiv(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _shifted(a: int, count: int, bits: int, left: bool) -> int:
    if left:
        return a << count if 0 <= count < bits else 0
    return a >> count if 0 <= count < bits else (-1 if a < 0 else 0)


INTEGER: dict[str, Callable[[int, int], int]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
    "truncdiv": _truncdiv,
    "truncmod": lambda a, b: a - b * _truncdiv(a, b),
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "min": min,
    "max": max,
}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq,
    "NotEq": operator.ne,
}  # fmt: skip


def integer_operation(name: str, dtype: str) -> Callable[[int, int], int]:
    """A binary operation of machine integers."""
    if name in ("LShift", "RShift", "shift_left", "shift_right"):
        bits, left = INTEGERS[dtype][1], name in ("LShift", "shift_left")
        return lambda a, b: wrapped(_shifted(a, b, bits, left), dtype)
    if name not in INTEGER:
        raise Undefined(f"{name} of {dtype}")
    function = INTEGER[name]
    return lambda a, b: wrapped(function(a, b), dtype)


def _extremum(name: str) -> Callable[[float, float], float]:
    choose = min if name == "min" else max

    def run(a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return math.nan
        if a == b == 0 and math.copysign(1, a) != math.copysign(1, b):
            raise Undefined("an extremum of zeros of both signs")
        return choose(a, b)

    return run


_FLOAT = {"Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv}


def float_operation(name: str, dtype: str) -> Callable[[float, float], float]:
    """A binary operation of floats, rounded once."""
    if name in ("min", "max"):
        return _extremum(name)
    if name not in _FLOAT:
        raise Undefined(f"{name} of {dtype}")
    function = _FLOAT[name]
    if dtype in ("float64", "float32"):
        kind = np.float64 if dtype == "float64" else np.float32
        return lambda a, b: float(function(kind(a), kind(b)))

    def run(a: float, b: float) -> float:
        rough = float(function(np.float64(a), np.float64(b)))
        if not (math.isfinite(a) and math.isfinite(b)) or (name == "Div" and b == 0):
            return nearest(rough, dtype)
        exact = function(Fraction(a), Fraction(b))
        return nearest(exact if exact else math.copysign(0.0, rough), dtype)

    return run


def _rounded_to(name: str, dtype: str) -> Callable[[float], float]:
    """A function to whole numbers, and its result as a float of a dtype."""
    function: Callable[[float], Any] = {
        "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "nearbyint": round
    }[name]  # fmt: skip
    return lambda x: nearest(math.copysign(float(function(x)), x) if math.isfinite(x) else x, dtype)


def unary(name: str, dtype: str) -> tuple[str, Callable[[Any], Any]]:
    """A function of one operand: the dtype of the result, and the function."""
    if dtype in FORMATS:
        table: dict[str, tuple[str, Callable[[Any], Any]]] = {
            "abs": (dtype, abs),
            "sqrt": (dtype, lambda x: nearest(math.sqrt(x) if x >= 0 else math.nan, dtype)),
            "isnan": ("bool", math.isnan),
            "isinf": ("bool", math.isinf),
            "isfinite": ("bool", math.isfinite),
        }
        for rounding in ("floor", "ceil", "trunc", "nearbyint"):
            table[rounding] = (dtype, _rounded_to(rounding, dtype))
    elif dtype in INTEGERS:
        bits = INTEGERS[dtype][1]
        table = {
            "abs": (dtype, lambda x: wrapped(abs(x), dtype)),
            "bitwise_not": (dtype, lambda x: wrapped(~x, dtype)),
            "popcount": (dtype, lambda x: wrapped((x % (1 << bits)).bit_count(), dtype)),
        }
    else:
        table = {}
    if name not in table:
        raise Undefined(f"{name} of {dtype}")
    return table[name]
