"""The four kinds of integer division, defined for every pair of operands, and floor division of floats.

    Div, Mod             truncate toward zero, as C's / and %
    FloorDiv, FloorMod   round down, as Python's // and %

A divisor of 0 is an error at run time. The one overflow, the minimum divided by -1, wraps around.
"""

from __future__ import annotations

from typing import Final

from ..native.formula import Val
from ..prim import BinaryExpr, Div, FloorDiv, FloorMod, IntImm, Mod
from .context import Context, escaped
from .exact import require_fits

KINDS: Final = frozenset({Div, Mod, FloorDiv, FloorMod})


def divide(cx: Context, expr: BinaryExpr, a: Val, b: Val) -> Val:
    """Write an integer division; `a` and `b` may have more bits than the dtype of the operands."""
    if not cx.facts.nonzero(expr.b):
        _check_divisor(cx, b, expr)
    remainder = isinstance(expr, (Mod, FloorMod))
    floored = isinstance(expr, (FloorDiv, FloorMod))
    nonnegative = cx.facts.nonnegative(expr.a) and cx.facts.nonnegative(expr.b)
    if expr.a.dtype.is_uint or nonnegative:
        return a.integer("urem" if remainder else "udiv", a.ref, b.ref)
    divisor = expr.b.value if isinstance(expr.b, IntImm) else 0
    if floored and divisor > 0 and divisor & (divisor - 1) == 0:
        return a & (divisor - 1) if remainder else a >> (divisor.bit_length() - 1)
    if cx.exact and not remainder and expr.dtype == "int64" and divisor in (0, -1):
        require_fits(cx, (a.eq(-(2**63)) & b.eq(-1)) ^ 1, expr)
    return _divide_signed(a, b, divisor, remainder, floored)


def _check_divisor(cx: Context, b: Val, expr: BinaryExpr) -> None:
    nonzero = b.ne(0 if b.lanes == 1 else b.constant(0))
    if b.lanes > 1:
        nonzero = all_lanes(nonzero)
    # Shape arithmetic is told as it was written.
    message = f"division by zero in {escaped(str(expr))}" if cx.checked else "integer division by zero"
    cx.fail_unless(nonzero, "ZeroDivisionError", message)


def all_lanes(condition: Val) -> Val:
    """True if a condition holds in every lane."""
    b, lanes = condition.b, condition.lanes
    function = b.module.intrinsic(f"llvm.vector.reduce.and.v{lanes}i1", "i1", condition.full_type)
    return Val(b, "i1", 1, b.call("i1", function, f"{condition.full_type} {condition.ref}"))


def _divide_signed(a: Val, b: Val, divisor: int, remainder: bool, floored: bool) -> Val:
    t = a.full_type
    safe, overflow = b, None
    if divisor in (0, -1):
        # least // -1 is undefined to LLVM: divide by 1 then, and negate, which wraps.
        overflow = b.eq(-1)
        safe = overflow.choose(b.constant(1), b)
    rest = a.make(f"srem {t} {a.ref}, {safe.ref}")
    quotient = a.make(f"sdiv {t} {a.ref}, {safe.ref}")
    if floored:
        # The truncated quotient is one too great where the remainder and the divisor differ in sign.
        lower = (rest ^ safe).lt(0)
        lower = lower.make(f"and {lower.full_type} {lower.ref}, {rest.ne(0).ref}")
        if remainder:
            rest = rest + lower.choose(safe, 0)
        else:
            quotient = quotient + lower.make(f"sext {lower.full_type} {lower.ref} to {t}", a.type)
    if remainder:
        return rest  # by 1 it is 0, as by -1
    return quotient if overflow is None else overflow.choose(-a, quotient)


def floor_divide_floats(a: Val, b: Val) -> tuple[Val, Val]:
    """Quotient and remainder of floats, equal to NumPy's floor_divide and mod.

    The remainder is fmod's, with the divisor's sign; the quotient is the integer nearest to (a - remainder) / b. For b
    = 0, the quotient is a / b and the remainder NaN.
    """
    fmod = a.make(f"frem {a.full_type} {a.ref}, {b.ref}")
    quotient = (a - fmod) / b
    other_side = fmod.lt(0.0) ^ b.lt(0.0)
    adjust = fmod.ne(0.0) & other_side
    remainder = adjust.choose(fmod + b, fmod)
    remainder = fmod.eq(0.0).choose(remainder.constant(0.0).copysign(b), remainder)
    quotient = adjust.choose(quotient - 1.0, quotient)
    whole = quotient.intrinsic("floor")
    whole = (quotient - whole).gt(0.5).choose(whole + 1.0, whole)
    whole = quotient.eq(0.0).choose(whole.constant(0.0).copysign(a / b), whole)
    return b.eq(0.0).choose(a / b, whole), remainder
