"""Index and size arithmetic in 64 bits, whatever the dtype of the expression.

An index that cannot wrap around in its dtype has the same value in 64 bits, where LLVM can analyse its evolution over
loop iterations. An index that may wrap is computed in its dtype and extended.
"""

from __future__ import annotations

from ..native.formula import Val
from ..prim import Add, Cast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr, Sub, Var
from .context import Context
from .division import divide
from .exact import exact


def index(cx: Context, expr: PrimExpr) -> Val:
    """Value of an integer expression (scalar or vector) in 64 bits."""
    if expr.dtype.lanes > 1 or expr.dtype.is_bool or not (expr.dtype == "int64" or cx.facts.fits(expr)):
        return extended(cx.value(expr), expr)
    return _wide(cx, expr)


def extended(value: Val, expr: PrimExpr) -> Val:
    """Extend the value of an integer expression to 64 bits."""
    return value.to("i64", signed=expr.dtype.is_int)


def _wide(cx: Context, expr: PrimExpr) -> Val:
    if isinstance(expr, IntImm):
        return cx.i64(expr.value)
    if isinstance(expr, Var):
        known = cx.wide.get(expr)
        return extended(cx.value(expr), expr) if known is None else known
    known = cx.known(expr, wide=True)
    if known is not None:
        return known
    return cx.remember(expr, _computed(cx, expr), wide=True)


def _computed(cx: Context, expr: PrimExpr) -> Val:
    match expr:
        case Add() | Sub() | Mul():
            op = {Add: "add", Sub: "sub", Mul: "mul"}[type(expr)]
            fits = _cannot_overflow(cx, expr)
            a, b = _wide(cx, expr.a), _wide(cx, expr.b)
            if cx.exact and not fits:
                return exact(cx, op, a, b, expr)
            return a.integer(op, a.ref, b.ref, "nsw " if fits else "")
        case Min() | Max() if expr.dtype.is_int:
            a, b = _wide(cx, expr.a), _wide(cx, expr.b)
            return a.intrinsic("smin" if isinstance(expr, Min) else "smax", b)
        case FloorDiv() | FloorMod() if expr.dtype == "int64":
            return divide(cx, expr, _wide(cx, expr.a), _wide(cx, expr.b))
        case Cast() if expr.dtype == "int64" and expr.value.dtype.is_integer and expr.value.dtype.bits < 64:
            return index(cx, expr.value)
        case _:
            return extended(cx.value(expr), expr)


def _cannot_overflow(cx: Context, expr: PrimExpr) -> bool:
    """True if interval arithmetic shows that an operation stays within 64 bits."""
    low, high = cx.facts.range(expr)
    return low >= -(2**63) and high < 2**63
