"""Interval arithmetic: bounds of an operation's result from bounds of its operands.

Integers are unbounded here; `within` tests afterwards whether a result fits its dtype. ±inf is no bound.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from ..ir import DataType
from ..runtime.limits import DIMENSION_LIMIT
from .expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    BinaryExpr,
    Call,
    Cast,
    CompareExpr,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from .functor import post_order

Bound: TypeAlias = "int | float"
"""An integer, or ±inf."""
Interval: TypeAlias = "tuple[Bound, Bound]"

INF = math.inf
EVERYTHING: Interval = (-INF, INF)


@functools.cache
def dtype_range(dtype: DataType) -> Interval:
    """Bounds of an integer dtype."""
    if not (dtype.is_integer or dtype.is_bool):
        return EVERYTHING
    return dtype.min_value, dtype.max_value


def variable_range(var: Var) -> Interval:
    """Bounds of a variable by its dtype, or as a size."""
    low, high = dtype_range(var.dtype)
    return (0, min(high, DIMENSION_LIMIT - 1)) if var.nonnegative else (low, high)


def within(interval: Interval, dtype: DataType) -> bool:
    """True if a dtype contains all values of an interval."""
    low, high = dtype_range(dtype)
    return low <= interval[0] and interval[1] <= high


def operation_range(expr: PrimExpr, operand: Callable[[PrimExpr], Interval]) -> Interval:
    """Bounds of an integer expression from its operands' bounds, if its last operation does not wrap around."""
    if not expr.dtype.is_integer:
        return dtype_range(expr.dtype)
    match expr:
        case IntImm():
            return expr.value, expr.value
        case Var():
            return variable_range(expr)
        case BinaryExpr(a=a, b=b) if type(expr) in OPERATIONS:
            return OPERATIONS[type(expr)](operand(a), operand(b))
        case Cast() if expr.value.dtype.is_integer or expr.value.dtype.is_bool:
            return operand(expr.value)
        case Select():
            chosen = _arm(expr.true_value, expr.condition, operand)
            return _union(chosen, _arm(expr.false_value, Not(expr.condition), operand))
        case Call() if expr.intrinsic == "if_then_else":
            return _union(operand(expr.args[1]), operand(expr.args[2]))
        case _:
            return dtype_range(expr.dtype)


def _arm(arm: PrimExpr, condition: PrimExpr, operand: Callable[[PrimExpr], Interval]) -> Interval:
    """Bounds of an arm of a choice, where it is chosen: narrowed by the condition if the arm is a variable in it."""
    low, high = operand(arm)
    for var, (least, most) in narrowed_by(condition, operand) if isinstance(arm, Var) else ():
        if var is arm:
            low, high = max(low, least), min(high, most)
    return (low, high) if low <= high else operand(arm)


def plain_interval(expr: PrimExpr) -> Interval:
    """Bounds of an integer expression under machine arithmetic, from the dtypes of its variables alone."""
    done: dict[int, Interval] = {}

    def values(part: PrimExpr) -> Interval:
        interval = done.get(id(part))
        if interval is None:
            interval = operation_range(part, values)
            interval = interval if within(interval, part.dtype) else dtype_range(part.dtype)
            done[id(part)] = interval
        return interval

    return values(expr)


def may_overflow(expr: PrimExpr) -> bool:
    """True unless `operation_range` shows that each int64 operation in an expression fits into 64 bits."""
    done: dict[int, Interval] = {}
    leaves = False

    def values(part: PrimExpr) -> Interval:
        nonlocal leaves
        interval = done.get(id(part))
        if interval is None:
            interval = operation_range(part, values)
            if not within(interval, part.dtype):
                leaves = leaves or part.dtype == "int64"
                interval = dtype_range(part.dtype)
            done[id(part)] = interval
        return interval

    post_order(expr, values)
    return leaves


def is_plainly_true(condition: PrimExpr) -> bool:
    """True for a comparison that `plain_interval` shows to hold for all values of its variables."""
    if type(condition) not in _SIDES or type(condition) is EQ:
        return False
    assert isinstance(condition, CompareExpr)
    a, b = condition.a, condition.b
    if not a.dtype.is_integer or a.dtype.lanes != 1:
        return False
    if isinstance(condition, (GT, GE)):
        a, b = b, a
    most, least = plain_interval(a)[1], plain_interval(b)[0]
    return most < least if isinstance(condition, (LT, GT)) else most <= least


def narrowed_by(condition: PrimExpr, operand: Callable[[PrimExpr], Interval]) -> Iterator[tuple[Var, Interval]]:
    """Intervals of variables implied by an integer comparison that holds.

    `operand` returns the bounds of an expression under machine arithmetic, as for `operation_range`.
    """
    negated = isinstance(condition, Not)
    comparison = condition.a if isinstance(condition, Not) else condition
    sides = (_OPPOSITE_SIDES if negated else _SIDES).get(type(comparison))
    if sides is None:
        return
    assert isinstance(comparison, CompareExpr)
    a, b = comparison.a, comparison.b
    if not a.dtype.is_integer or a.dtype.lanes != 1:
        return
    below, above, strict = sides
    (low_a, high_a), (low_b, high_b) = operand(a), operand(b)
    yield from _narrowed(a, (low_b + strict if above else -INF, high_b - strict if below else INF), operand)
    yield from _narrowed(b, (low_a + strict if below else -INF, high_a - strict if above else INF), operand)


_SIDES: Final[dict[type[PrimExpr], tuple[bool, bool, int]]] = {
    LT: (True, False, 1),
    LE: (True, False, 0),
    GT: (False, True, 1),
    GE: (False, True, 0),
    EQ: (True, True, 0),
}
"""For a comparison that holds: whether it implies a ≤ b, whether a ≥ b, and the minimum difference."""

_OPPOSITE_SIDES: Final[dict[type[PrimExpr], tuple[bool, bool, int]]] = {
    LT: _SIDES[GE],
    LE: _SIDES[GT],
    GT: _SIDES[LE],
    GE: _SIDES[LT],
    NE: _SIDES[EQ],
}


def _narrowed(
    expr: PrimExpr, bounds: Interval, operand: Callable[[PrimExpr], Interval]
) -> Iterator[tuple[Var, Interval]]:
    """Intervals of variables implied by bounds of an expression."""
    if isinstance(expr, Var):
        yield expr, bounds
        return
    if not isinstance(expr, _INVERTED) or not within(operation_range(expr, operand), expr.dtype):
        return
    (low, high), a, b = bounds, expr.a, expr.b
    match expr:
        case Add():
            yield from _narrowed(a, _difference(bounds, operand(b)), operand)
            yield from _narrowed(b, _difference(bounds, operand(a)), operand)
        case Sub():
            yield from _narrowed(a, _sum(bounds, operand(b)), operand)
            yield from _narrowed(b, _difference(operand(a), bounds), operand)
        case Mul() if isinstance(b, IntImm) and b.value > 0:
            least = low if math.isinf(low) else -(-low // b.value)
            yield from _narrowed(a, (least, high if math.isinf(high) else high // b.value), operand)
        case FloorDiv() if isinstance(b, IntImm) and b.value > 0:
            yield from _narrowed(a, (low * b.value, high * b.value + b.value - 1), operand)
        case Min():
            yield from _narrowed(a, (low, INF), operand)
            yield from _narrowed(b, (low, INF), operand)
        case Max():
            yield from _narrowed(a, (-INF, high), operand)
            yield from _narrowed(b, (-INF, high), operand)
        case _:
            return


_INVERTED = (Add, Sub, Mul, FloorDiv, Min, Max)
"""Operations whose result's bounds narrow the operands' bounds."""


def interval_times(a: Interval, b: Interval) -> Interval:
    """Product of two intervals; 0·∞ is 0, since infinity stands for an unknown number."""
    products = [0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(products), max(products)


def interval_power(a: Interval, exponent: int) -> Interval:
    """Power of an interval."""
    result: Interval = (1, 1)
    for _ in range(exponent):
        result = interval_times(result, a)
    if exponent % 2 == 0:
        return 0 if a[0] <= 0 <= a[1] else min(a[0] ** exponent, a[1] ** exponent), result[1]
    return result


def _sum(x: Interval, y: Interval) -> Interval:
    return x[0] + y[0], x[1] + y[1]


def _difference(x: Interval, y: Interval) -> Interval:
    return x[0] - y[1], x[1] - y[0]


def _quotient(x: Interval, y: Interval) -> Interval:
    if y[1] < 0:
        x, y = (-x[1], -x[0]), (-y[1], -y[0])
    if y[0] < 0 or y[1] < 1:
        return EVERYTHING
    least, most = max(y[0], 1), y[1]  # a divisor of 0 gives no value
    ends = [end if math.isinf(end) else end // by for end in x for by in (least, most)]
    return min(ends), max(ends)


def _remainder(x: Interval, y: Interval) -> Interval:
    if y[0] < 0:
        largest = max(abs(y[0]), abs(y[1])) - 1
        return -largest, largest
    most = max(y[1] - 1, 0)
    return 0, min(x[1], most) if x[0] >= 0 else most


def _truncated_quotient(x: Interval, y: Interval) -> Interval:
    largest = max(abs(x[0]), abs(x[1]))
    return (0 if x[0] >= 0 and y[0] >= 0 else -largest), largest


def _truncated_remainder(x: Interval, y: Interval) -> Interval:
    largest = max(abs(y[0]), abs(y[1]), 1) - 1
    return (0 if x[0] >= 0 else max(-largest, x[0])), (0 if x[1] <= 0 else min(largest, x[1]))


def _minimum(*args: Interval) -> Interval:
    return min(low for low, _ in args), min(high for _, high in args)


def _maximum(*args: Interval) -> Interval:
    return max(low for low, _ in args), max(high for _, high in args)


def _union(*args: Interval) -> Interval:
    return min(low for low, _ in args), max(high for _, high in args)


OPERATIONS: Final[dict[Any, Callable[..., Interval]]] = {
    Add: _sum,
    Sub: _difference,
    Mul: interval_times,
    FloorDiv: _quotient,
    FloorMod: _remainder,
    Div: _truncated_quotient,
    Mod: _truncated_remainder,
    Min: _minimum,
    Max: _maximum,
    Select: _union,
    "cast": _union,
    "bool": lambda: (0, 1),
    "count": lambda: (0, 64),
}
"""Interval rule of each operation; keys are the kinds of atoms in polynomials (see `poly.Atom`)."""
