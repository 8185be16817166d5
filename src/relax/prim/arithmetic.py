"""Scalar operations as pairs of functions, for integers and for floats. Each BinaryExpr class refers to its pair.

Functions of integers take Python ints and are exact; `wrap` reduces the result to a dtype. Division by 0 raises
ZeroDivisionError. Functions of floats take Python floats or NumPy arrays of float64; the caller rounds the result to
the dtype, and silences NumPy's warnings.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..ir import DataType


class Arithmetic(NamedTuple):
    """The two functions of one operation."""

    integers: Callable[[int, int], int]
    floats: Callable[[Any, Any], Any]


def wrap(value: int, dtype: DataType) -> int:
    """`value` modulo 2^bits, in the range of the dtype: integer arithmetic is two's complement."""
    if dtype.is_bool:
        return int(bool(value))
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.is_int and value >> (dtype.bits - 1) else value


def _quotient(a: int, b: int) -> int:
    return a // b


def _truncated_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _truncated_remainder(a: int, b: int) -> int:
    return a - b * _truncated_quotient(a, b)


def _both(a: Any, b: Any) -> Any:
    return a and b


def _either(a: Any, b: Any) -> Any:
    return a or b


ADD = Arithmetic(operator.add, operator.add)
SUB = Arithmetic(operator.sub, operator.sub)
MUL = Arithmetic(operator.mul, operator.mul)
DIV = Arithmetic(_truncated_quotient, np.divide)
MOD = Arithmetic(_truncated_remainder, np.fmod)
FLOOR_DIV = Arithmetic(_quotient, np.floor_divide)
FLOOR_MOD = Arithmetic(operator.mod, np.mod)
MIN = Arithmetic(min, np.minimum)
MAX = Arithmetic(max, np.maximum)
EQUAL = Arithmetic(operator.eq, operator.eq)
NOT_EQUAL = Arithmetic(operator.ne, operator.ne)
LESS = Arithmetic(operator.lt, operator.lt)
LESS_EQUAL = Arithmetic(operator.le, operator.le)
GREATER = Arithmetic(operator.gt, operator.gt)
GREATER_EQUAL = Arithmetic(operator.ge, operator.ge)
AND = Arithmetic(_both, _both)
OR = Arithmetic(_either, _either)
