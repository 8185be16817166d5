"""Indices and sizes: integers computed in 64 bits, whatever their dtype.

An index that cannot wrap around in its own dtype has the same value in 64 bits, and there LLVM can follow it from
one iteration to the next. What may wrap is computed in its dtype and extended.
"""

from __future__ import annotations

from ..prim import Add, Cast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr, Sub, Var
from .context import Context
from .division import divide
from .exact import exact
from .facts import dtype_interval
from .formula import Val


def index(cx: Context, expr: PrimExpr, in_bounds: bool = False) -> Val:
    """An integer expression (scalar or vector) in 64 bits; `in_bounds` says that it is a proven index of something."""
    if expr.dtype.lanes > 1 or expr.dtype.is_bool or not cx.facts.fits(expr):
        return extended(cx.value(expr), expr)
    return _wide(cx, expr, in_bounds)


def extended(value: Val, expr: PrimExpr) -> Val:
    """A value of an integer expression, extended to 64 bits."""
    return value.to("i64", signed=expr.dtype.is_int)


def _wide(cx: Context, expr: PrimExpr, in_bounds: bool) -> Val:
    if isinstance(expr, IntImm):
        return cx.i64(expr.value)
    if isinstance(expr, Var):
        known = cx.wide.get(expr)
        return extended(cx.value(expr), expr) if known is None else known
    known = cx.known(expr, wide=True)
    if known is not None:
        return known
    return cx.remember(expr, _computed(cx, expr, in_bounds), wide=True)


def _computed(cx: Context, expr: PrimExpr, in_bounds: bool) -> Val:
    match expr:
        case Add() | Sub() | Mul():
            op = {Add: "add", Sub: "sub", Mul: "mul"}[type(expr)]
            fits = _cannot_overflow(cx, expr, in_bounds)
            a, b = _wide(cx, expr.a, in_bounds and fits), _wide(cx, expr.b, in_bounds and fits)
            if cx.exact and not fits:
                return exact(cx, op, a, b, expr)
            return a.make(f"{op} {'nsw ' if fits else ''}i64 {a.ref}, {b.ref}")
        case Min() | Max() if expr.dtype.is_int:
            a, b = _wide(cx, expr.a, False), _wide(cx, expr.b, False)
            return a.intrinsic("smin" if isinstance(expr, Min) else "smax", b)
        case FloorDiv() | FloorMod() if expr.dtype == "int64":
            return divide(cx, expr, _wide(cx, expr.a, False), _wide(cx, expr.b, False))
        case Cast() if expr.dtype == "int64" and expr.value.dtype.is_integer and expr.value.dtype.bits < 64:
            return index(cx, expr.value, in_bounds)
        case _:
            return extended(cx.value(expr), expr)


def _cannot_overflow(cx: Context, expr: PrimExpr, in_bounds: bool) -> bool:
    """Whether an operation stays in 64 bits.

    It does if its range says so. And where the whole is a proven index, and a sum or product of numbers ≥ 0, no part of
    it is greater than the whole.
    """
    low, high = cx.facts.range(expr)
    if low >= -(2**63) and high < 2**63:
        return True
    return in_bounds and isinstance(expr, (Add, Mul)) and low >= 0


def fits_dtype(cx: Context, expr: PrimExpr, var: Var) -> bool:
    """Whether an expression's values are values of a variable's dtype, as far as ranges tell."""
    low, high = cx.facts.interval(expr)
    least, greatest = dtype_interval(var.dtype)
    return least <= low and high <= greatest
