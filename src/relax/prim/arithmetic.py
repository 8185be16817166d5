"""Scalar operations as functions of integers, of floats, and of arrays. Each BinaryExpr class refers to its own.

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
    """The functions of one operation."""

    integers: Callable[[int, int], int]
    floats: Callable[[Any, Any], Any]
    arrays: Callable[[Any, Any], Any] | None = None
    """NumPy's function on arrays of the operands' own dtype, where integers wrap around; None for divisions, of which
    NumPy does not report a divisor of 0."""


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


ADD = Arithmetic(operator.add, operator.add, np.add)
SUB = Arithmetic(operator.sub, operator.sub, np.subtract)
MUL = Arithmetic(operator.mul, operator.mul, np.multiply)
DIV = Arithmetic(_truncated_quotient, np.divide)
MOD = Arithmetic(_truncated_remainder, np.fmod)
FLOOR_DIV = Arithmetic(_quotient, np.floor_divide)
FLOOR_MOD = Arithmetic(operator.mod, np.mod)
MIN = Arithmetic(min, np.minimum, np.minimum)
MAX = Arithmetic(max, np.maximum, np.maximum)
EQUAL = Arithmetic(operator.eq, operator.eq, np.equal)
NOT_EQUAL = Arithmetic(operator.ne, operator.ne, np.not_equal)
LESS = Arithmetic(operator.lt, operator.lt, np.less)
LESS_EQUAL = Arithmetic(operator.le, operator.le, np.less_equal)
GREATER = Arithmetic(operator.gt, operator.gt, np.greater)
GREATER_EQUAL = Arithmetic(operator.ge, operator.ge, np.greater_equal)
AND = Arithmetic(_both, _both, np.logical_and)
OR = Arithmetic(_either, _either, np.logical_or)
