"""Double-word arithmetic: scalar expressions of more digits than their dtype holds.

    x² = high + low, high = fl(x²)

A function that falls like e^-w in its tail loses a digit of its result for each digit of w before the point, if w is
rounded: at w = 80, float32 leaves six bits of error. With w in two parts, f(w) = f(high) · (1 + low · f'/f) loses
nothing. For float32 the parts come of float64; for float64, of products that are exact because float32 halves the
digits (T. J. Dekker, *A floating-point technique for extending the available precision*, 1971).

Magnitudes are to stay within those of float32.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from ..prim import Let, PrimExpr, Var, cast, const
from ..prim.instructions import fma
from ..runtime.records import dataclass


def let(value: PrimExpr, body: Callable[[PrimExpr], PrimExpr]) -> PrimExpr:
    """Bind a value to a variable and return `body` of it."""
    var = Var("t", value.dtype)
    return Let(var, value, body(var))


@dataclass(frozen=True)
class Twofold:
    """high + low, where low is at most half a unit in the last place of high."""

    high: PrimExpr
    low: PrimExpr


Use = Callable[[Twofold], PrimExpr]


def _constant(value: Fraction) -> Twofold:
    high = float(value)
    return Twofold(const(high, "float64"), const(float(value - Fraction(high)), "float64"))


def _halves(x: PrimExpr, body: Use) -> PrimExpr:
    """Split a float64 x into its 24 leading bits and the remainder."""
    return let(cast("float64", cast("float32", x)), lambda high: body(Twofold(high, x - high)))


def _sum(a: PrimExpr, b: PrimExpr, body: Use) -> PrimExpr:
    """a + b, exactly, as a Twofold."""

    def combine(total: PrimExpr, second: PrimExpr) -> PrimExpr:
        return body(Twofold(total, (a - (total - second)) + (b - second)))

    return let(a + b, lambda total: let(total - a, lambda second: combine(total, second)))


def _product(a: PrimExpr, b: PrimExpr, body: Use) -> PrimExpr:
    """a · b, exactly, as a Twofold."""

    def combine(p: PrimExpr, x: Twofold, y: Twofold) -> PrimExpr:
        return body(Twofold(p, ((x.high * y.high - p) + x.high * y.low + x.low * y.high) + x.low * y.low))

    return let(a * b, lambda p: _halves(a, lambda x: _halves(b, lambda y: combine(p, x, y))))


def _normal(high: PrimExpr, low: PrimExpr, body: Use) -> PrimExpr:
    """Normalise high + low, `low` being small beside `high`, to a Twofold of bound variables."""
    return let(low, lambda rest: let(high + rest, lambda total: body(Twofold(total, rest - (total - high)))))


def _multiply(a: Twofold, b: Twofold, body: Use) -> PrimExpr:
    cross = a.high * b.low + a.low * b.high
    return _product(a.high, b.high, lambda p: _normal(p.high, p.low + cross, body))


def _add(a: Twofold, b: Twofold, body: Use) -> PrimExpr:
    return _sum(a.high, b.high, lambda s: _normal(s.high, s.low + (a.low + b.low), body))


def _of_float64(value: PrimExpr, body: Use) -> PrimExpr:
    """Split a float64 into two float32 parts."""

    def combine(wide: PrimExpr, high: PrimExpr) -> PrimExpr:
        return body(Twofold(high, cast("float32", wide - cast("float64", high))))

    return let(value, lambda wide: let(cast("float32", wide), lambda high: combine(wide, high)))


def scaled(x: PrimExpr, factor: Fraction, body: Use) -> PrimExpr:
    """factor · x in two parts of x's dtype, float32 or float64."""
    if x.dtype == "float32":
        return _scaled_float32(x, factor, body)
    return _multiply(_exact(x), _constant(factor), body)


def _scaled_float32(x: PrimExpr, factor: Fraction, body: Use) -> PrimExpr:
    """factor · x for float32, with the rounding error of the product from a fused multiply-add."""
    upper = float(np.float32(float(factor)))
    high, low = const(upper, "float32"), const(float(factor - Fraction(upper)), "float32")

    def combine(product: PrimExpr) -> PrimExpr:
        return let(fma(x, high, -product) + x * low, lambda rest: body(Twofold(product, rest)))

    return let(x * high, combine)


def cubic(x: PrimExpr, linear: Fraction, cube: Fraction, body: Use) -> PrimExpr:
    """linear · x + cube · x³ (of one sign) in two parts of x's dtype, float32 or float64."""
    if x.dtype == "float32":
        wide = cast("float64", x)
        return let(wide, lambda w: _of_float64(w * (w * w * float(cube) + float(linear)), body))

    def factor(square: Twofold) -> PrimExpr:
        return _multiply(square, _constant(cube), lambda t: _add(t, _constant(linear), times_x))

    def times_x(value: Twofold) -> PrimExpr:
        return _multiply(value, _exact(x), body)

    return _multiply(_exact(x), _exact(x), factor)


def _exact(x: PrimExpr) -> Twofold:
    return Twofold(x, const(0.0, "float64"))
