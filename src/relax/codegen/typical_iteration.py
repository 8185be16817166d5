"""Integers and conditions of a typical iteration, for estimates of work.

Variables of the function around an iteration have their values; each loop variable is in the middle of its range, so
the tile of a tiled loop is a whole one, and the sum over a triangle is right. Arithmetic is in 64 bits and unchecked:
overflow wraps around, a divisor below 1 counts as 1. Only speed may depend on these values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ..native.formula import Val, constant, number_of
from ..prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from ..tir import For
from .context import Context
from .index import extended

Values: TypeAlias = "Mapping[Var, Val]"
"""Values of variables bound inside the iteration."""


def typical(cx: Context, expr: PrimExpr, values: Values) -> Val | None:
    """Typical value of an integer (64 bits) or condition; None if it depends on memory, calls, or unknown variables."""
    if expr.dtype.lanes != 1 or not (expr.dtype.is_integer or expr.dtype.is_bool):
        return None
    match expr:
        case IntImm():
            return constant(cx.b, "i1" if expr.dtype.is_bool else "i64", 1, expr.value)
        case Var():
            return _variable(cx, expr, values)
        case Cast() if not expr.dtype.is_bool and expr.value.dtype.is_integer:
            return typical(cx, expr.value, values)
        case Not(a):
            met = typical(cx, a, values)
            return None if met is None else met ^ 1
        case Select(condition, true_value, false_value):
            met = typical(cx, condition, values)
            a, b = typical(cx, true_value, values), typical(cx, false_value, values)
            return None if met is None or a is None or b is None else met.choose(a, b)
        case BinaryExpr() if type(expr) in _RULES:
            left = typical(cx, expr.a, values)
            right = None if left is None else typical(cx, expr.b, values)
            return None if left is None or right is None else _RULES[type(expr)](left, right)
        case _:
            return None


def middle(cx: Context, loop: For, values: Values) -> Val | None:
    """Value of a loop's variable in the middle of its range; None if that is unknown."""
    least, extent = typical(cx, loop.min, values), typical(cx, loop.extent, values)
    return None if least is None or extent is None else least + (extent >> 1)


def _variable(cx: Context, var: Var, values: Values) -> Val | None:
    found = next((known[var] for known in (values, cx.wide, cx.vars) if var in known), None)
    if found is None or found.lanes != 1 or var.dtype.is_bool != (found.type == "i1"):
        return None
    return found if var.dtype.is_bool else extended(found, var)


def _quotient(a: Val, b: Val) -> Val:
    """Quotient rounded down."""
    numbers = number_of(a.ref, "i64"), number_of(b.ref, "i64")
    if numbers[0] is not None and numbers[1] is not None:
        return a.constant(numbers[0] // max(numbers[1], 1))
    divisor = b.intrinsic("smax", 1)
    rest = a.integer("srem", a.ref, divisor.ref)
    return a.integer("sdiv", a.ref, divisor.ref) - rest.lt(0).to("i64", signed=False)


def _remainder(a: Val, b: Val) -> Val:
    """Remainder of the quotient rounded down."""
    return a - _quotient(a, b) * b.intrinsic("smax", 1)


def _intrinsic(name: str) -> Callable[[Val, Val], Val]:
    return lambda a, b: a.intrinsic(name, b)


_RULES: Final[dict[type[PrimExpr], Callable[[Val, Val], Val]]] = {
    Add: Val.__add__,
    Sub: Val.__sub__,
    Mul: Val.__mul__,
    Min: _intrinsic("smin"),
    Max: _intrinsic("smax"),
    Div: _quotient,
    Mod: _remainder,
    FloorDiv: _quotient,
    FloorMod: _remainder,
    LT: Val.lt,
    LE: Val.le,
    GT: Val.gt,
    GE: Val.ge,
    EQ: Val.eq,
    NE: Val.ne,
    And: Val.__and__,
    Or: Val.__or__,
}
"""Rules of operations. Truncating division is estimated as floor division."""
