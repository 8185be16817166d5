"""Inverse trigonometric functions of float32, as straight-line code that vectorises.

Each reduces its operand to a short range by a quotient or a square root, which are correctly rounded, and takes an odd
polynomial there. The coefficients were fitted for this file as those of `math` were. Errors stay within 3 units in the
last place; NaN propagates; the signs of zeros, infinities and subnormal numbers are handled.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .formula import Val, polynomial

_ATAN: Final = (-0.33333152532577515, 0.19993768632411957, -0.14211024343967438, 0.1066589280962944,
                -0.07551993429660797, 0.04320942610502243, -0.016366520896553993, 0.0029203598387539387)  # fmt: skip
"""(atan(x) / x - 1) / x² by powers of x², for |x| ≤ 1."""
_ASIN: Final = (0.16666752099990845, 0.074953094124794, 0.04546914994716644, 0.024184778332710266,
                0.042158305644989014)  # fmt: skip
"""(asin(x) / x - 1) / x² by powers of x², for |x| ≤ 1/2."""
_HALF_PI: Final = float(np.float32(np.pi / 2))
_HALF_PI_LOW: Final = np.pi / 2 - _HALF_PI


def _odd(x: Val, coefficients: tuple[float, ...]) -> Val:
    """x + x³ · P(x²)."""
    square = x * x
    return (polynomial(square, coefficients) * square).fma(x, x)


def atan(x: Val) -> Val:
    """The angle of a tangent: beyond 1, π/2 less that of the reciprocal."""
    a = x.abs()
    beyond = a.gt(1.0)
    angle = _odd(beyond.choose(1.0 / a, a), _ATAN)
    return beyond.choose(_HALF_PI + (_HALF_PI_LOW - angle), angle).copysign(x)


def atan2(y: Val, x: Val) -> Val:
    """The angle of the point (x, y), from -π to π; the sign of a zero says on which side of an axis it is.

    The quotient of the smaller by the greater of |x| and |y| gives an angle of at most π/4, which is put into its
    octant. Quotients that are not defined are those of two zeros, for which the angle is 0, and two infinities, 1.
    """
    across, up = x.abs(), y.abs()
    steep = up.gt(across)
    less, more = steep.choose(across, up), steep.choose(up, across)
    ratio = less.eq(more).choose(1.0, less / more)
    angle = _odd(more.eq(0.0).choose(less, ratio), _ATAN)
    left = x.bitcast("i32").lt(0)
    angle = (steep ^ left).choose(-angle, angle)
    quarters = steep.choose(x.constant(1.0), left.choose(x.constant(2.0), 0.0))
    return quarters.fma(_HALF_PI, quarters.fma(_HALF_PI_LOW, angle)).copysign(y)


def _half_angle(a: Val) -> tuple[Val, Val]:
    """Return (asin(a) / 2 subtracted from π/4, asin(min(a, 1/2))) for a from 0 to 1; NaN beyond, of the first.

    The first is asin √((1 - a) / 2), whose operand is exact for a ≥ 1/2 but for the root.
    """
    return _odd((0.5 - a * 0.5).intrinsic("sqrt"), _ASIN), _odd(a, _ASIN)


def asin(x: Val) -> Val:
    """The angle of a sine, from -π/2 to π/2; NaN beyond ±1."""
    a = x.abs()
    rest, near = _half_angle(a)
    far = _HALF_PI + (rest * -2.0 + _HALF_PI_LOW)
    return a.le(0.5).choose(near, far).copysign(x)


def acos(x: Val) -> Val:
    """The angle of a cosine, from 0 to π; NaN beyond ±1."""
    a = x.abs()
    rest, near = _half_angle(a)
    rest = rest + rest
    far = x.lt(0.0).choose(2 * _HALF_PI + (2 * _HALF_PI_LOW - rest), rest)
    return a.le(0.5).choose(_HALF_PI + (_HALF_PI_LOW - near.copysign(x)), far)
