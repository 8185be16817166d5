"""Elementary functions of float32, as straight-line code that vectorises.

Each is a range reduction and a polynomial. The reductions are the classical ones (W. J. Cody and W. Waite, *Software
Manual for the Elementary Functions*, 1980; J.-M. Muller, *Elementary Functions*, 3rd ed., 2016, ch. 11); the
coefficients were fitted for this file by minimising the maximum relative error over the reduced range (Lawson's
iteration), each rounded to float32 before the next was fitted. Errors stay within 2 units in the last place (3 for
tanh, 4 for erf, erfc and log1p). NaN propagates; infinities, zeros and denormals are handled.

Functions of float64 are libm's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np

from .arcs import acos, asin, atan, atan2
from .builder import float_text
from .erf import erf_by_pieces
from .formula import Val, look_up, polynomial
from .piecewise import erfcx_by_pieces, one_of_two_vectors, tanh_by_pieces
from .powers import acosh, asinh, atanh, hypot, power

_LN2_HIGH: Final = 0.693359375  # 9 bits: its products with whole numbers below 2^15 are exact
_LN2_LOW: Final = -2.12194440e-4
_LOG10_2_HIGH: Final = 0.301025390625  # 10 bits
_LOG10_2_LOW: Final = 4.6050389811952e-06

_EXP: Final = (0.4999999403953552, 0.16666516661643982, 0.041668280959129333, 0.008369248360395432,
               0.0013820745516568422)  # fmt: skip
_EXP_PART: Final = (1.0000146627426147, 0.5000004768371582)
"""(e^r - 1) / r for |r| ≤ ln 2 / 64."""
_POWERS: Final = tuple(float(np.float32(2 ** (i / 32))) for i in range(32))
"""Powers of 2 from 1 to 2 in steps of 1/32 of the exponent."""
_EXP2: Final = (0.6931471824645996, 0.24022647738456726, 0.05550359934568405, 0.009618505835533142,
                0.0013390806270763278, 0.0001532646274426952)  # fmt: skip
_LOG: Final = (0.3333331346511841, -0.25000008940696716, 0.2000207155942917, -0.16667988896369934,
               0.14220358431339264, -0.12406233698129654, 0.11883548647165298, -0.11670097708702087,
               0.06749267876148224)  # fmt: skip
_TANH: Final = (-0.3333328366279602, 0.133314847946167, -0.05374300479888916, 0.020649103447794914,
                -0.0057154991663992405)  # fmt: skip
_SINH: Final = (0.1666671633720398, 0.008330273441970348, 0.0002037294179899618)
"""(sinh(x) / x - 1) / x² by powers of x², for |x| ≤ 1."""
_ERF_SMALL: Final = (0.12837916612625122, -0.3761262893676758, 0.11283625662326813, -0.02685573138296604,
                     0.005192405078560114, -0.0008049769676290452, 7.996649947017431e-05)  # fmt: skip
_ERF_LARGE: Final = (-0.00017468322766944766, 1.1295149326324463, 0.6333468556404114, 0.1082802340388298,
                     -0.025119604542851448, 0.00417117215692997, -0.00043449585791677237,
                     2.1099045625305735e-05)  # fmt: skip

_ERFCX_CENTRE: Final = 2.36328125
_ERFCX: Final = (1.2681961059570312, -0.11631415784358978, -0.11590594053268433, 0.1626414805650711,
                 -0.09322529286146164, 0.021126028150320053, 0.0055112228728830814, -0.0037532958667725325,
                 -0.0004057380720041692, 0.0005029934691265225)  # fmt: skip

_SCALED_LANES: Final = 16

_NEAR: Final = 2.0**16
"""Angles below are reduced by a difference of float32 numbers."""
_HALF_PI: Final = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)

_SIN: Final = (-0.1666666716337204, 0.008333379402756691, -0.00019853065896313637, 2.8325487164693186e-06)
_COS: Final = (0.04166664555668831, -0.0013887309469282627, 2.4432327336398885e-05)


def scale_by_power(x: Val, n: Val) -> Val:
    """x · 2^n for integer n from -252 to 254, rounded once: two multiplications by normal numbers."""
    whole = n.to("i32")
    half = whole >> 1
    first = ((half + 127) << 23).bitcast("float")
    second = (((whole - half) + 127) << 23).bitcast("float")
    return x * first * second


def _has_scale(x: Val) -> bool:
    """True for vectors that the target scales by powers of 2 in one instruction."""
    return x.lanes == _SCALED_LANES and x.b.module.math is not None


def _scaled(x: Val, n: Val) -> Val:
    """x · 2^n for integer n, rounded once, in one instruction; NaN if either is NaN."""
    t = x.full_type
    instructions = x.b.module.math
    assert instructions is not None
    function = x.b.module.intrinsic(instructions.scale, t, t, t, t, "i16", "i32")
    in_current_mode = 4
    arguments = f"{t} {x.ref}, {t} {n.ref}, {t} zeroinitializer, i16 -1, i32 {in_current_mode}"
    return Val(x.b, x.type, x.lanes, x.b.call(t, function, arguments, pure=True))


def _clamped(x: Val, low: float, high: float) -> Val:
    """Clamp x to [low, high]; NaN becomes `low`, so that a conversion to an integer stays defined."""
    x = x.gt(low).choose(x, low)
    return x.lt(high).choose(x, high)


def _exp_reduced(r: Val) -> Val:
    """exp of |r| ≤ ln 2 / 2."""
    return polynomial(r, _EXP).fma(r, 1.0).fma(r, 1.0)


def _exp_by_parts(x: Val) -> Val:
    """e^x = 2^n · e^(x - n ln 2), n a multiple of 1/32: 2^n is one of 32 constants times a power of 2.

    Adding 1.5 · 2^18 rounds to 1/32 and leaves the fraction in the last bits. As r = x - n ln 2 is at most ln 2 / 64, a
    polynomial of degree 2 suffices. For x so large that its precision is coarser than 1/32, r is arbitrary; the
    polynomial is at least 1/2 there and the result infinite, as for infinity: NaN times 2^∞ is ∞ in this instruction.
    """
    large = 1.5 * 2**18
    x = x.lt(-104.0).choose(-104.0, x)  # NaN is not less, and goes through all
    shifted = x.fma(1 / math.log(2), large)
    n = shifted - large
    r = n.fma(-_LN2_LOW, n.fma(-_LN2_HIGH, x))
    power = one_of_two_vectors(_POWERS, shifted.bitcast("i32"))
    return _scaled(power.fma(polynomial(r, _EXP_PART) * r, power), n)


def _keep_nan(x: Val, result: Val) -> Val:
    return x.is_nan().choose(x, result)


def _reduced(t: Val) -> tuple[Val, Val]:
    """Return (n, t - n ln 2) for the multiple n of ln 2 nearest to t."""
    n = t.fma(1 / math.log(2), 12582912.0) - 12582912.0
    return n, n.fma(-_LN2_LOW, n.fma(-_LN2_HIGH, t))


def exp(x: Val) -> Val:
    """e^x = 2^n · e^(x - n ln 2)."""
    if _has_scale(x):
        return _exp_by_parts(x)
    n, r = _reduced(_clamped(x, -104.0, 89.0))
    return _keep_nan(x, scale_by_power(_exp_reduced(r), n))


def exp2(x: Val) -> Val:
    """2^x = 2^n · 2^(x - n)."""
    t = _clamped(x, -151.0, 129.0)
    n = t.rint()
    r = t - n
    return _keep_nan(x, scale_by_power(polynomial(r, _EXP2).fma(r, 1.0), n))


def exp10(x: Val) -> Val:
    """10^x = 2^n · e^((x - n log10 2) ln 10)."""
    t = _clamped(x, -45.5, 39.0)
    n = (t * math.log2(10)).rint()
    r = n.fma(-_LOG10_2_LOW, n.fma(-_LOG10_2_HIGH, t))
    return _keep_nan(x, scale_by_power(_exp_reduced(r * math.log(10)), n))


def _split(x: Val) -> tuple[Val, Val]:
    """x = 2^e · (1 + f) with 1 + f between √½ and √2, for positive finite x; e is a float. Returns (e, f)."""
    denormal = x.lt(2.0**-126)
    bits = denormal.choose(x * 2.0**23, x).bitcast("i32")
    # Subtracting the bits of √½ makes the exponent field step at √½ instead of at 1.
    root_half = 0x3F3504F3
    steps = (bits - root_half) >> 23
    mantissa = (bits - (steps << 23)).bitcast("float")
    e = steps.to("float") - denormal.choose(x.constant(23.0), 0.0)
    return e, mantissa - 1.0


def _log_reduced(f: Val) -> Val:
    """log(1 + f) - f, for 1 + f between √½ and √2."""
    square = f * f
    return (polynomial(f, _LOG) * f).fma(square, square * -0.5)


def _log_limits(x: Val, result: Val) -> Val:
    """Special cases of logarithms: -∞ at zero, NaN below, +∞ at +∞, NaN at NaN."""
    result = x.lt(math.inf).choose(result, x)
    result = x.eq(0.0).choose(-math.inf, result)
    return x.lt(0.0).choose(math.nan, result)


def log(x: Val) -> Val:
    """The natural logarithm."""
    e, f = _split(x)
    rest = e.fma(_LN2_LOW, _log_reduced(f))
    return _log_limits(x, e.fma(_LN2_HIGH, f + rest))


def log2(x: Val) -> Val:
    """e + log(1 + f) / ln 2, with the factor in two parts to keep precision for 1 + f near 1."""
    e, f = _split(x)
    rest = _log_reduced(f)
    high, low = 1.44140625, 1 / math.log(2) - 1.44140625
    return _log_limits(x, e + f.fma(high, rest.fma(high, (f + rest) * low)))


def log10(x: Val) -> Val:
    """e · log10 2 + log(1 + f) / ln 10."""
    e, f = _split(x)
    rest = _log_reduced(f)
    high, low = 0.43359375, 1 / math.log(10) - 0.43359375
    tail = e.fma(_LOG10_2_LOW, rest.fma(high, (f + rest) * low))
    return _log_limits(x, e.fma(_LOG10_2_HIGH, f.fma(high, tail)))


def log1p(x: Val) -> Val:
    """log(1 + x): the logarithm of the rounded sum, corrected by the rounding error."""
    u = x + 1.0
    lost = x.lt(1.0).choose(x - (u - 1.0), 1.0 - (u - x))
    result = log(u) + lost / u
    usual = (u.gt(0.0).choose(u, math.inf)).lt(math.inf)
    result = usual.choose(result, log(u))
    return x.abs().lt(2.0**-24).choose(x, result)


def tanh(x: Val) -> Val:
    """An odd polynomial near 0; elsewhere 1 - 2 / (e^2|x| + 1) with the sign of x. Piecewise with fast look-ups."""
    if x.b.module.math is not None:
        return tanh_by_pieces(x)
    a = x.abs()
    square = x * x
    near = (polynomial(square, _TANH) * square).fma(x, x)
    far = 1.0 - 2.0 / (exp(_clamped(a, 0.0, 10.0) * 2.0) + 1.0)
    return _keep_nan(x, a.lt(0.625).choose(near, far).copysign(x))


def _half_exp(a: Val) -> Val:
    """e^a / 2 for a ≥ 0, which overflows later than e^a does; NaN as if it were 0."""
    n, r = _reduced(_clamped(a, 0.0, 90.0))
    value, n = _exp_reduced(r), n - 1.0
    return _scaled(value, n) if _has_scale(a) else scale_by_power(value, n)


def sinh(x: Val) -> Val:
    """An odd polynomial to 1; beyond, (e^|x| - e^-|x|) / 2 with the sign of x."""
    square, half = x * x, _half_exp(x.abs())
    near = (polynomial(square, _SINH) * square).fma(x, x)
    far = (half - 0.25 / half).copysign(x)
    return _keep_nan(x, x.abs().lt(1.0).choose(near, far))


def cosh(x: Val) -> Val:
    """(e^|x| + e^-|x|) / 2."""
    half = _half_exp(x.abs())
    return _keep_nan(x, half + 0.25 / half)


def sigmoid(x: Val) -> Val:
    """1 / (1 + e^-x), from e^-|x| so that nothing overflows."""
    e = exp(-x.abs())
    return x.ge(0.0).choose(x.constant(1.0), e) / (e + 1.0)


def erf(x: Val) -> Val:
    """x · P(x²) near 0; elsewhere 1 - e^Q(|x|) with the sign of x. Piecewise if the target has fast look-ups."""
    if x.b.module.math is not None:
        return erf_by_pieces(x)
    a = x.abs()
    near = polynomial(x * x, _ERF_SMALL).fma(x, x)
    far = 1.0 - exp(-polynomial(_clamped(a, 0.0, 4.0), _ERF_LARGE))
    return _keep_nan(x, a.lt(0.92).choose(near, far).copysign(x))


def erfc(x: Val) -> Val:
    """1 - erf x near 0; elsewhere e^-a² · P((a - c) / (a + c)) / (2a + 1) of a = |x|, or 2 minus that for x < 0.

    a² and 2a + 1 are split in two parts, since a relative error of a² would become an error of a² units in the last
    place. The contribution of the upper 12 bits of a is exact; the remainder is added to the exponent: 2a + 1 = d · (1
    + s) = d · e^(s - s²/2). Piecewise if the target has fast look-ups.
    """
    if x.b.module.math is not None:
        return _erfc_by_pieces(x)
    near = 1.0 - polynomial(x * x, _ERF_SMALL).fma(x, x)
    a = _clamped(x.abs(), 0.5, 10.1)
    high = (a.bitcast("i32") & -4096).bitcast("float")
    n, r = _reduced(-(high * high))
    low, d = a - high, high + high + 1.0
    s = (low + low) / d
    r = (-low).fma(high + a, (s * 0.5).fma(s, r - s))
    scaled = polynomial((a - _ERFCX_CENTRE) / (a + _ERFCX_CENTRE), _ERFCX) / d
    tail = scale_by_power(_exp_reduced(r) * scaled, n)
    far = x.lt(0.0).choose(2.0 - tail, tail)
    return _keep_nan(x, x.abs().lt(0.5).choose(near, far))


def _erfc_by_pieces(x: Val) -> Val:
    """e^-a² · erfcx(a) of a = |x|, or 2 minus that for x < 0. The rounding error of a² takes one fma."""
    a = _clamped(x.abs(), 0.0, 10.1)
    square = a * a
    n, r = _reduced(-square)
    r, factor = r - a.intrinsic("fma", a, -square), erfcx_by_pieces(a)
    product = polynomial(r, _EXP).fma(r * r, r).fma(factor, factor)
    tail = _scaled(product, n) if _has_scale(x) else scale_by_power(product, n)
    return _keep_nan(x, x.lt(0.0).choose(2.0 - tail, tail))


def _pi_scaled(bits: int) -> int:
    """π · 2^bits, rounded down (Machin: π = 16 arctan 1/5 - 4 arctan 1/239)."""

    def arctan_of_inverse(k: int) -> int:
        term = total = (1 << bits + 32) // k
        n = 1
        while term:
            term //= -k * k
            n += 2
            total += term // n
        return total

    return (16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)) >> 32


@cache
def _turns() -> tuple[list[float], list[float]]:
    """2^e · 2/π modulo 4 for the exponent e of every float32, in two parts: 28 bits, and the next 53.

    The product of the first part with a mantissa of 24 bits is exact.
    """
    high: list[float] = []
    low: list[float] = []
    scale = 400
    two_over_pi = (1 << 2 * scale + 1) // _pi_scaled(scale)
    for field in range(255):
        e = max(field, 1) - 150
        value = (two_over_pi << max(e, 0)) % (4 << scale)
        value = Fraction(value, 1 << (scale + max(-e, 0)))
        drop = 28 - math.frexp(float(value))[1]
        first = Fraction(math.floor(value * Fraction(2) ** drop)) / Fraction(2) ** drop
        high.append(float(first))
        low.append(float(value - first))
    return [*high, math.nan], [*low, math.nan]


def _any_quarter_turns(x: Val) -> tuple[Val, Val]:
    """Return what `_quarter_turns` does, of every float32 at the same cost.

    After M. Payne and R. Hanek, *Radian reduction for trigonometric functions*, 1983: the multiple of 2/π is reduced
    modulo 4 before the multiplication, so that large angles keep full precision.
    """
    bits = x.bitcast("i32")
    exponent = bits.lshr(23) & 0xFF
    fraction = bits & 0x7FFFFF
    mantissa = exponent.eq(0).choose(fraction, fraction | 0x800000).to("double")
    module = x.b.module
    high, low = (
        look_up(module.table(f"relax.turns.{part}", "double", (float_text(v, "double") for v in values)),
                "double", exponent)
        for part, values in zip(("high", "low"), _turns(), strict=True)
    )  # fmt: skip
    first, second = mantissa * high, mantissa * low
    whole = (first + second).rint()
    left = (first - whole) + second
    turns = exponent.eq(0xFF).choose(whole.constant(0.0), whole).to("i32")
    return turns & 3, (left * (math.pi / 2)).to("float")


def _near_quarter_turns(a: Val) -> tuple[Val, Val]:
    """Return what `_quarter_turns` does, of 0 ≤ a < `_NEAR` on a target that has fused multiplications.

    Adding 1.5 · 2^23 leaves the number of quarter turns in the last bits. The first difference is exact; π/2 has 72
    bits in three parts.
    """
    shifted = a.fma(2 / math.pi, 12582912.0)
    n = shifted - 12582912.0
    for part in _HALF_PI:
        a = n.fma(-part, a)
    return shifted.bitcast("i32") & 3, a


def _quarter_turns(x: Val) -> tuple[Val, Val]:
    """Return (number of quarter turns in |x| modulo 4 as i32, remaining angle of at most π/4).

    Vectors that are scaled by one instruction branch: the exact reduction of great angles is made only if one of their
    lanes needs it. Each lane takes its own way, so that results do not depend on the neighbours.
    """
    if not _has_scale(x):
        return _any_quarter_turns(x)
    b, a = x.b, x.abs()
    turns, angle = _near_quarter_turns(a)
    near = a.lt(_NEAR)
    every = b.module.intrinsic(f"llvm.vector.reduce.and.v{x.lanes}i1", "i1", near.full_type)
    condition = b.op(f"call i1 {every}({near.full_type} {near.ref})")
    far, done, here = b.label("far"), b.label("done"), b.block
    b.branch_if(condition, done, far, "then")
    with b.cold(far):
        results = [near.choose(*pair) for pair in zip((turns, angle), _any_quarter_turns(x), strict=True)]
        b.branch(done)
    b.start(done)
    found = [
        value.make(f"phi {value.full_type} [ {value.ref}, %{here} ], [ {result.ref}, %{far} ]")
        for value, result in zip((turns, angle), results, strict=True)
    ]
    return found[0], found[1]


def _sin_cos(x: Val) -> tuple[Val, Val, Val]:
    """Return (quadrant of |x|, sine, cosine) of the angle within the quadrant."""
    quadrant, angle = _quarter_turns(x)
    square = angle * angle
    sine = (polynomial(square, _SIN) * square).fma(angle, angle)
    cosine = polynomial(square, _COS).fma(square * square, square.fma(-0.5, 1.0))
    return quadrant, sine, cosine


def _flip(value: Val, condition: Val) -> Val:
    return condition.choose(-value, value)


def sin(x: Val) -> Val:
    """±sine or ±cosine of the angle within the quadrant."""
    quadrant, sine, cosine = _sin_cos(x)
    value = (quadrant & 1).ne(0).choose(cosine, sine)
    negative = (quadrant.lshr(1) ^ x.bitcast("i32").lshr(31)).ne(0)
    return _flip(value, negative)


def cos(x: Val) -> Val:
    """±sine or ±cosine of the angle within the quadrant."""
    quadrant, sine, cosine = _sin_cos(x)
    value = (quadrant & 1).ne(0).choose(sine, cosine)
    return _flip(value, ((quadrant + 1) & 2).ne(0))


def tan(x: Val) -> Val:
    """sine / cosine; in odd quadrants -cosine / sine."""
    quadrant, sine, cosine = _sin_cos(x)
    odd = (quadrant & 1).ne(0)
    value = odd.choose(-cosine, sine) / odd.choose(sine, cosine)
    return _flip(value, x.bitcast("i32").lt(0))


FLOAT32: Final[dict[str, Callable[[Val], Val]]] = {
    "exp": exp, "exp2": exp2, "exp10": exp10, "log": log, "log2": log2, "log10": log10, "log1p": log1p,
    "tanh": tanh, "sigmoid": sigmoid, "erf": erf, "erfc": erfc, "sin": sin, "cos": cos, "tan": tan,
    "asin": asin, "acos": acos, "atan": atan, "sinh": sinh, "cosh": cosh, "asinh": asinh, "acosh": acosh,
    "atanh": atanh,
}  # fmt: skip
FLOAT32_PAIRS: Final[dict[str, Callable[[Val, Val], Val]]] = {"atan2": atan2, "hypot": hypot, "pow": power}
"""Functions of two operands."""
