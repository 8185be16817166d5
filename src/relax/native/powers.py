"""Powers, inverse hyperbolic functions and hypotenuses of float32, computed in float64 and rounded once.

Powers and logarithms of sums near 1 need more digits than float32 has. A vector of float64 holds half as many numbers,
which costs less than arithmetic on pairs of float32 does. All is straight-line code, so it vectorises. The
coefficients were fitted as those of `math` were. Results are nearly always the correctly rounded ones: powers that are
float32 numbers are exact, and errors stay within 1 unit in the last place.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Final

from .formula import Val, polynomial

_LOG2: Final = (2.8853900817778486, 0.9617966941134654, 0.5770779423099128, 0.41220925817312665,
                0.3199054428155682, 0.28290391825017636)  # fmt: skip
"""log2((1 + s) / (1 - s)) / s by powers of s², for (1 + s) / (1 - s) from √½ to √2."""
_EXP2: Final = (0.6931471807045343, 0.2402265106656279, 0.05550410365988648, 0.009618038131862662,
                0.0013333935057406288, 0.0001546675637276334, 1.5196156190946373e-05)  # fmt: skip
"""(2^r - 1) / r for |r| ≤ 1/2."""
_MANTISSA: Final = 52
_BIAS: Final = 1023
_ROOT_HALF: Final = int.from_bytes(struct.pack(">d", math.sqrt(0.5)), "big")
_BEYOND: Final = 2.0**200
"""As good as infinity: a factor that takes every nonzero float32 beyond the exponents, and is no NaN times 0."""


def _log2(x: Val) -> Val:
    """log2 of positive finite float64 numbers that are normal, within 10⁻¹³ of itself, near 1 too."""
    # Adding the distance from √½ to 1 makes the exponent field step at √½ instead of at 1.
    bits = x.bitcast("i64") + ((_BIAS << _MANTISSA) - _ROOT_HALF)
    exponent = bits.lshr(_MANTISSA).to("i32") - _BIAS
    mantissa = ((bits & ((1 << _MANTISSA) - 1)) + _ROOT_HALF).bitcast("double")
    s = (mantissa - 1.0) / (mantissa + 1.0)
    return polynomial(s * s, _LOG2).fma(s, exponent.to("double"))


def _exp2(x: Val) -> Val:
    """2^x of float64 numbers, rounded to float32 once; NaN becomes 0."""
    x = x.gt(-160.0).choose(x, -160.0)
    x = x.lt(130.0).choose(x, 130.0)
    n = x.rint()
    r = x - n
    power = ((n.to("i32") + _BIAS).to("i64") << _MANTISSA).bitcast("double")
    return (polynomial(r, _EXP2).fma(r, 1.0) * power).to("float")


def power(x: Val, y: Val) -> Val:
    """x to the power y, by the rules of IEEE 754: x^0 and 1^y are 1 for NaN too, (-1)^±∞ is 1.

    |x|^y = 2^(y log2 |x|). A negative x with a y that is no whole number is NaN; with an odd y the sign remains, of
    zeros and infinities too.
    """
    a = x.abs()
    log = _log2(a.to("double"))
    log = a.eq(0.0).choose(-_BEYOND, a.eq(math.inf).choose(_BEYOND, log))
    wide = y.to("double")
    wide = y.abs().eq(math.inf).choose(wide.constant(_BEYOND).copysign(wide), wide)
    result = _exp2(wide * log)
    half = y * 0.5
    whole = y.rint().eq(y)
    odd = whole & half.rint().ne(half)
    result = odd.choose(result.copysign(x), result)
    undefined = (x.lt(0.0) & a.lt(math.inf) & (whole ^ True)) | _either_nan(x, y)
    result = undefined.choose(math.nan, result)
    return (x.eq(1.0) | y.eq(0.0)).choose(1.0, result)


def _either_nan(x: Val, y: Val) -> Val:
    return x.compare("uno", "", y)


def fixed_power(x: Val, y: Val) -> Val | None:
    """x to a power that is one of few constants, by products, roots and quotients within 3 units; None for others."""
    fixed = {y.constant(exponent).ref: exponent for exponent in _FIXED}.get(y.ref)
    return None if fixed is None else _FIXED[fixed](x)


def _root(x: Val) -> Val:
    """√x, but 0 of -0 and ∞ of -∞, as powers have it."""
    return x.eq(-math.inf).choose(math.inf, (x + 0.0).intrinsic("sqrt"))


def _square(x: Val) -> Val:
    return x * x


_FIXED: Final[dict[float, Callable[[Val], Val]]] = {
    0.0: lambda x: x.constant(1.0), 1.0: lambda x: x, 2.0: _square, 3.0: lambda x: _square(x) * x,
    4.0: lambda x: _square(_square(x)), 0.5: _root,
    -0.5: lambda x: 1.0 / _root(x), -1.0: lambda x: 1.0 / x, -2.0: lambda x: _square(1.0 / x),
}  # fmt: skip


def hypot(x: Val, y: Val) -> Val:
    """√(x² + y²), which overflows only where the result does; infinite if one is, even beside NaN."""
    a, b = x.to("double"), y.to("double")
    result = a.fma(a, b * b).intrinsic("sqrt").to("float")
    infinite = x.abs().eq(math.inf) | y.abs().eq(math.inf)
    return infinite.choose(math.inf, result)


def _log(x: Val) -> Val:
    return _log2(x) * math.log(2)


def asinh(x: Val) -> Val:
    """log(|x| + √(x² + 1)) with the sign of x; x - x³/6 near 0, where the logarithm has lost digits."""
    a = x.abs().to("double")
    far = _log(a + a.fma(a, 1.0).intrinsic("sqrt")).to("float")
    far = x.abs().lt(math.inf).choose(far, x.abs())
    near = (x * x * (-1 / 6)).fma(x, x)
    return x.abs().lt(2.0**-10).choose(near, far).copysign(x)


def acosh(x: Val) -> Val:
    """log(x + √(x² - 1)); NaN below 1."""
    wide = x.to("double")
    result = _log(wide + wide.fma(wide, -1.0).intrinsic("sqrt")).to("float")
    result = x.lt(math.inf).choose(result, x)
    return x.lt(1.0).choose(math.nan, result)


def atanh(x: Val) -> Val:
    """log((1 + x) / (1 - x)) / 2; x + x³/3 near 0, where the logarithm has lost digits; NaN beyond ±1."""
    a = x.abs()
    wide = a.to("double")
    far = (_log((wide + 1.0) / (1.0 - wide)) * 0.5).to("float").copysign(x)
    near = (x * x * (1 / 3)).fma(x, x)
    result = a.lt(2.0**-10).choose(near, far)
    result = a.eq(1.0).choose(x.constant(math.inf).copysign(x), result)
    return a.le(1.0).choose(result, math.nan)
