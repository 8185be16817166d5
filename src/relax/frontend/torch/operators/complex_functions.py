"""Products, quotients, powers and elementary functions of complex numbers z = x + iy, of their parts.

Branch cuts are those of C99; the inverse functions are written as W. Kahan does, by roots of 1 - z and 1 + z, which
keep the digits near the cuts and at 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .... import op
from ....ir import RelaxExpr
from ..emitter import Emitter
from ..pairs import Pair, as_pair
from . import elementwise

Function = Callable[[Emitter, Pair], Pair]

# ------------------------------------------------------------------------------------- arithmetic


def _shifted(g: Emitter, z: Pair, number: float) -> Pair:
    """z plus a real number."""
    return Pair(g.emit(op.add(z.real, _constant(g, z, number))), z.imag)


def _times(g: Emitter, z: Pair, factor: float) -> Pair:
    """z times a real number."""
    return z.map(lambda part: g.emit(op.multiply(part, _constant(g, z, factor))))


def _constant(g: Emitter, z: Pair, number: float) -> RelaxExpr:
    return g.const(number, str(g.dtype(z.real)))


def _negative(g: Emitter, z: Pair) -> Pair:
    return z.map(lambda part: g.emit(op.negative(part)))


def _turned(g: Emitter, z: Pair) -> Pair:
    """i · z."""
    return Pair(g.emit(op.negative(z.imag)), z.real)


def _turned_back(g: Emitter, z: Pair) -> Pair:
    """-i · z."""
    return Pair(z.imag, g.emit(op.negative(z.real)))


def multiplied(g: Emitter, a: Pair, b: Pair) -> Pair:
    """Return the product (ac - bd) + i(ad + bc)."""
    real = g.emit(op.subtract(op.multiply(a.real, b.real), op.multiply(a.imag, b.imag)))
    return Pair(real, g.emit(op.add(op.multiply(a.real, b.imag), op.multiply(a.imag, b.real))))


def quotient(g: Emitter, a: Pair, b: Pair) -> Pair:
    """Return a / b, with both divided by the greater part of b, so that no square overflows."""
    great = g.emit(op.maximum(op.abs(b.real), op.abs(b.imag)))
    x, y = (z.map(lambda part: g.emit(op.divide(part, great))) for z in (a, b))
    square = g.emit(op.add(op.multiply(y.real, y.real), op.multiply(y.imag, y.imag)))
    product = multiplied(g, x, Pair(y.real, g.emit(op.negative(y.imag))))
    return product.map(lambda part: g.emit(op.divide(part, square)))


def absolute(g: Emitter, z: Pair) -> RelaxExpr:
    """Return the magnitude √(x² + y²), without early overflow."""
    a, b = g.emit(op.abs(z.real)), g.emit(op.abs(z.imag))
    zero, one = _constant(g, z, 0), _constant(g, z, 1)
    great = g.emit(op.maximum(a, b))
    share = g.emit(op.divide(op.minimum(a, b), great))
    length = op.multiply(great, op.sqrt(op.add(one, op.multiply(share, share))))
    plain = op.where(op.equal(great, zero), zero, length)
    infinite = op.logical_or(op.isinf(a), op.isinf(b))
    return g.emit(op.where(infinite, _constant(g, z, math.inf), plain))


def angle(g: Emitter, z: Pair) -> RelaxExpr:
    """Return the angle, from -π to π."""
    return _angle(g, z.imag, z.real)


def _angle(g: Emitter, y: RelaxExpr, x: RelaxExpr) -> RelaxExpr:
    """The angle of the point (x, y)."""
    return g.emit(elementwise.atan2(g, y, x))


# ------------------------------------------------------------------------------------- exponentials


def exp(g: Emitter, z: Pair) -> Pair:
    """e^x · (cos y + i sin y); of a real number the imaginary part stays 0."""
    size = g.emit(op.exp(z.real))
    imag = op.where(op.equal(z.imag, _constant(g, z, 0)), z.imag, op.multiply(size, op.sin(z.imag)))
    return Pair(g.emit(op.multiply(size, op.cos(z.imag))), g.emit(imag))


def log(g: Emitter, z: Pair) -> Pair:
    """log |z| + i · angle."""
    return Pair(g.emit(op.log(absolute(g, z))), angle(g, z))


def _log_of_base(base: float) -> Function:
    return lambda g, z: _times(g, log(g, z), 1 / math.log(base))


def log1p(g: Emitter, z: Pair) -> Pair:
    """log |1 + z| is half of log1p(x(2 + x) + y²), which is exact near 0."""
    near = op.add(op.multiply(z.real, op.add(z.real, _constant(g, z, 2))), op.multiply(z.imag, z.imag))
    is_near = op.less(absolute(g, z), _constant(g, z, 0.5))
    shifted = log(g, _shifted(g, z, 1))
    half = op.multiply(elementwise.log1p(g, g.emit(near)), _constant(g, z, 0.5))
    return Pair(g.emit(op.where(is_near, half, shifted.real)), shifted.imag)


def expm1(g: Emitter, z: Pair) -> Pair:
    """(e^x - 1) cos y - 2 sin²(y / 2) + i e^x sin y."""
    less = g.emit(elementwise.expm1(g, z.real))
    half = g.emit(op.sin(op.multiply(z.imag, _constant(g, z, 0.5))))
    bent = op.multiply(_constant(g, z, 2), op.multiply(half, half))
    return Pair(g.emit(op.subtract(op.multiply(less, op.cos(z.imag)), bent)), exp(g, z).imag)


def exp2(g: Emitter, z: Pair) -> Pair:
    """e^(z log 2)."""
    return exp(g, _times(g, z, math.log(2)))


def sigmoid(g: Emitter, z: Pair) -> Pair:
    """1 / (1 + e^-z)."""
    return reciprocal(g, _shifted(g, exp(g, _negative(g, z)), 1))


# ------------------------------------------------------------------------------------- powers


def square(g: Emitter, z: Pair) -> Pair:
    """z · z."""
    return multiplied(g, z, z)


def reciprocal(g: Emitter, z: Pair) -> Pair:
    """1 / z."""
    return quotient(g, as_pair(g, 1, str(g.dtype(z.real))), z)


def sqrt(g: Emitter, z: Pair) -> Pair:
    """The root with a real part of at least 0; t = √((|z| + |x|) / 2) and y / 2t are its parts, in an order by x."""
    zero = _constant(g, z, 0)
    half = op.multiply(op.add(absolute(g, z), op.abs(z.real)), _constant(g, z, 0.5))
    root = g.emit(op.sqrt(half))
    other = op.divide(op.abs(z.imag), op.multiply(root, _constant(g, z, 2)))
    rest = g.emit(op.where(op.equal(root, zero), zero, other))
    ahead = op.greater_equal(z.real, zero)
    size = g.emit(op.where(ahead, rest, root))
    return Pair(g.emit(op.where(ahead, root, rest)), _with_sign(g, size, z.imag))


def _with_sign(g: Emitter, size: RelaxExpr, sign: RelaxExpr) -> RelaxExpr:
    """A magnitude with the sign of another number, -0 among them."""
    return g.emit(elementwise.copysign(g, size, sign))


def rsqrt(g: Emitter, z: Pair) -> Pair:
    """1 / √z."""
    return reciprocal(g, sqrt(g, z))


def sgn(g: Emitter, z: Pair) -> Pair:
    """z / |z|; 0 of 0."""
    length = absolute(g, z)
    is_zero = g.emit(op.equal(length, _constant(g, z, 0)))
    return z.map(lambda part: g.emit(op.where(is_zero, _constant(g, z, 0), op.divide(part, length))))


def power(g: Emitter, base: Pair, exponent: Any) -> Pair:
    """Return base to an exponent: by products and roots where it is a small number, else e^(exponent · log base).

    The powers of 0 are 1 for the exponent 0, and 0 for others.
    """
    number = exponent.real if isinstance(exponent, complex) and not exponent.imag else exponent
    by_number: dict[Any, Callable[[], Pair]] = {
        1: lambda: base,
        2: lambda: square(g, base),
        3: lambda: multiplied(g, square(g, base), base),
        -1: lambda: reciprocal(g, base),
        -2: lambda: reciprocal(g, square(g, base)),
        0.5: lambda: sqrt(g, base),
        -0.5: lambda: rsqrt(g, base),
    }
    if isinstance(number, (int, float)) and number in by_number:
        return by_number[number]()
    dtype = str(g.dtype(base.real))
    other = as_pair(g, exponent, dtype)
    result = exp(g, multiplied(g, other, log(g, base)))
    zero, one = g.const(0, dtype), g.const(1, dtype)
    of_zero = op.logical_and(op.equal(base.real, zero), op.equal(base.imag, zero))
    by_zero = op.logical_and(op.equal(other.real, zero), op.equal(other.imag, zero))
    real = op.where(by_zero, one, op.where(of_zero, zero, result.real))
    return Pair(g.emit(real), g.emit(op.where(op.logical_or(of_zero, by_zero), zero, result.imag)))


# ------------------------------------------------------------------------------------- circular, hyperbolic


def sinh(g: Emitter, z: Pair) -> Pair:
    """sinh x cos y + i cosh x sin y."""
    real = g.emit(op.multiply(op.sinh(z.real), op.cos(z.imag)))
    return Pair(real, g.emit(op.multiply(op.cosh(z.real), op.sin(z.imag))))


def cosh(g: Emitter, z: Pair) -> Pair:
    """cosh x cos y + i sinh x sin y."""
    real = g.emit(op.multiply(op.cosh(z.real), op.cos(z.imag)))
    return Pair(real, g.emit(op.multiply(op.sinh(z.real), op.sin(z.imag))))


def tanh(g: Emitter, z: Pair) -> Pair:
    """With t = tanh x and b = tan y: (t(1 + b²) + i b / cosh² x) / (1 + t²b²); for great x the signs of x."""
    t, b = g.emit(op.tanh(z.real)), g.emit(op.tan(z.imag))
    one, bb = _constant(g, z, 1), g.emit(op.multiply(b, b))
    below = g.emit(op.add(one, op.multiply(op.multiply(t, t), bb)))
    cosine = g.emit(op.cosh(z.real))
    real = op.divide(op.multiply(t, op.add(one, bb)), below)
    return Pair(g.emit(real), g.emit(op.divide(op.divide(op.divide(b, cosine), cosine), below)))


def _circular(hyperbolic: Function) -> Function:
    """sin, tan, asin, atan of z: -i times the hyperbolic function of iz."""
    return lambda g, z: _turned_back(g, hyperbolic(g, _turned(g, z)))


def cos(g: Emitter, z: Pair) -> Pair:
    """cos z = cosh(iz)."""
    return cosh(g, _turned(g, z))


def _roots(g: Emitter, z: Pair) -> tuple[Pair, Pair]:
    """√(1 - z) and √(1 + z)."""
    return sqrt(g, _shifted(g, _negative(g, z), 1)), sqrt(g, _shifted(g, z, 1))


def asin(g: Emitter, z: Pair) -> Pair:
    """By Kahan's formula, with a = √(1 - z) and b = √(1 + z): the angle of (Re ab, x), and asinh of Im conj(a) b."""
    below, above = _roots(g, z)
    imag = op.subtract(op.multiply(below.real, above.imag), op.multiply(below.imag, above.real))
    return Pair(_angle(g, z.real, multiplied(g, below, above).real), g.emit(op.asinh(imag)))


def acos(g: Emitter, z: Pair) -> Pair:
    """By Kahan's formula, with a and b as in `asin`: twice the angle of (Re b, Re a), and asinh of Im conj(b) a."""
    below, above = _roots(g, z)
    imag = op.subtract(op.multiply(above.real, below.imag), op.multiply(above.imag, below.real))
    half = _angle(g, below.real, above.real)
    return Pair(g.emit(op.multiply(half, _constant(g, z, 2))), g.emit(op.asinh(imag)))


def asinh(g: Emitter, z: Pair) -> Pair:
    """-i times asin of iz."""
    return _turned_back(g, asin(g, _turned(g, z)))


def acosh(g: Emitter, z: Pair) -> Pair:
    """asinh of Re conj(√(z - 1))√(z + 1), and twice the angle of (Re √(z + 1), Im √(z - 1))."""
    below, above = sqrt(g, _shifted(g, z, -1)), sqrt(g, _shifted(g, z, 1))
    real = op.add(op.multiply(below.real, above.real), op.multiply(below.imag, above.imag))
    half = _angle(g, below.imag, above.real)
    return Pair(g.emit(op.asinh(real)), g.emit(op.multiply(half, _constant(g, z, 2))))


def atanh(g: Emitter, z: Pair) -> Pair:
    """log1p(4x / ((1 - x)² + y²)) / 4, and half of the angle of ((1 - x)(1 + x) - y², 2y)."""
    one, yy = _constant(g, z, 1), g.emit(op.multiply(z.imag, z.imag))
    less, more = g.emit(op.subtract(one, z.real)), g.emit(op.add(one, z.real))
    ratio = op.divide(op.multiply(_constant(g, z, 4), z.real), op.add(op.multiply(less, less), yy))
    real = op.multiply(elementwise.log1p(g, g.emit(ratio)), _constant(g, z, 0.25))
    twice = g.emit(op.multiply(z.imag, _constant(g, z, 2)))
    turn = _angle(g, twice, g.emit(op.subtract(op.multiply(less, more), yy)))
    return Pair(g.emit(real), g.emit(op.multiply(turn, _constant(g, z, 0.5))))


FUNCTIONS: dict[str, Function] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log2": _log_of_base(2),
    "log10": _log_of_base(10),
    "log1p": log1p,
    "sigmoid": sigmoid,
    "square": square,
    "reciprocal": reciprocal,
    "sqrt": sqrt,
    "rsqrt": rsqrt,
    "sgn": sgn,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "sin": _circular(sinh),
    "cos": cos,
    "tan": _circular(tanh),
    "asin": asin,
    "acos": acos,
    "atan": _circular(atanh),
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
}
"""Functions of a complex tensor by the names of torch."""
