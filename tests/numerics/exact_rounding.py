"""The nearest value of a floating-point dtype, in exact rational arithmetic, and numbers that are hard to round.

Formats are written down here from their definitions (IEEE 754; OCP 8-bit floating point; ml_dtypes for the others), not
read off the libraries under test.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Format:
    digits: int
    """Binary digits of a normal number."""
    least: int
    """The exponent of the least positive number."""
    greatest: float
    infinity: float = math.inf
    negative_zero: bool = True


FORMATS = {
    "float64": Format(53, -1074, math.ldexp(2**53 - 1, 971)),
    "float32": Format(24, -149, math.ldexp(2**24 - 1, 104)),
    "float16": Format(11, -24, 65504.0),
    "bfloat16": Format(8, -133, math.ldexp(255, 120)),
    "float8_e3m4": Format(5, -6, 15.5),
    "float8_e4m3": Format(4, -9, 240.0),
    "float8_e4m3b11fnuz": Format(4, -13, 30.0, math.nan, False),
    "float8_e4m3fn": Format(4, -9, 448.0, math.nan),
    "float8_e4m3fnuz": Format(4, -10, 240.0, math.nan, False),
    "float8_e5m2": Format(3, -16, 57344.0),
    "float8_e5m2fnuz": Format(3, -17, 57344.0, math.nan, False),
    "float8_e8m0fnu": Format(1, -127, math.ldexp(1, 127), math.nan),
}
FLOATS = list(FORMATS)
SMALL = [name for name in FLOATS if name not in ("float64", "float32")]


def nearest(value, dtype):
    """The value of a dtype nearest to an int, float or Fraction, ties to even; a Python float."""
    form = FORMATS[dtype]
    powers = dtype == "float8_e8m0fnu"
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value) or powers:
            return math.nan
        return math.copysign(form.infinity, value)
    if powers and value <= 0:
        return math.nan
    negative = math.copysign(1, value) < 0 if isinstance(value, float) else value < 0
    magnitude = abs(Fraction(value))
    result = _powers(magnitude) if powers else _rounded(magnitude, form)
    if result > Fraction(form.greatest):
        return -form.infinity if negative else form.infinity
    number = float(result)
    return -number if negative and (number or form.negative_zero) else number


def _rounded(magnitude, form):
    about = magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - 1
    exponent = max(form.least, about - form.digits)
    while magnitude >= Fraction(2) ** (exponent + form.digits):
        exponent += 1
    step = Fraction(2) ** exponent
    return round(magnitude / step) * step  # Fraction rounds halves to even


def _powers(magnitude):
    power = Fraction(2) ** -127
    while magnitude >= power * 3 / 2:
        power *= 2
    return power


def _grid(dtype):
    """Some positive values of a dtype, and the step to the next of each: all magnitudes, exact."""
    form, rng = FORMATS[dtype], random.Random(dtype)
    found = [(Fraction(k) * Fraction(2) ** form.least, Fraction(2) ** form.least) for k in range(4)]
    top = math.frexp(form.greatest)[1] - form.digits
    for exponent in sorted(
        {
            form.least,
            form.least + 1,
            -form.digits,
            0,
            top - 1,
            top,
            *(rng.randint(form.least, top) for _ in range(20)),
        }
    ):
        step = Fraction(2) ** exponent
        low = 2 ** (form.digits - 1)
        for mantissa in {low, low + 1, 2 * low - 1, rng.randint(low, 2 * low - 1)}:
            found.append((mantissa * step, step))
    return found


def _beside(value, step):
    """A value, the tie above it, and numbers beside the tie by less than float32, or float64, tells apart."""
    tie = value + step / 2
    unit = Fraction(2) ** math.frexp(float(value or step))[1]
    near = [tie + sign * unit * Fraction(2) ** -bits for bits in (20, 24, 26, 31, 40, 52) for sign in (1, -1)]
    return [value, tie, value + step / 4, value + step * 3 / 4, *near]


def numbers_for(dtype):
    """Floats (of 53 digits) that are hard to round to a dtype, and the special ones."""
    special = [
        0.0,
        math.inf,
        math.nan,
        1e-300,
        5e-324,
        1e-45,
        1e-40,
        1.7e308,
        3.4e38,
        3.5e38,
        65519.99,
        65520.0,
    ]
    found = [number for value, step in _grid(dtype) for number in _beside(value, step)]
    return [sign * number for number in [*special, *map(_as_float, found)] for sign in (1.0, -1.0)]


def _as_float(number):
    return float(number) if number <= Fraction(FORMATS["float64"].greatest) else math.inf


def whole_numbers_for(dtype, low, high):
    """Integers between two limits that are hard to round to a dtype."""
    digits, rng = FORMATS[dtype].digits, random.Random(dtype)
    found = {0, 1, low, high, low + 1, high - 1, 448, 464, 465, 57344, 61440, 61441, 65519, 65520}
    for bits in range(digits, max(abs(low), high).bit_length() + 1):
        drop = bits - digits
        for mantissa in (2 ** (digits - 1), 2 ** (digits - 1) + 1, 2**digits - 1, rng.getrandbits(digits)):
            tie = (mantissa << drop) + ((1 << drop) >> 1)
            found.update(
                sign * (tie + d)
                for sign in (1, -1)
                for d in (-1, 0, 1, 1 << (drop // 2), -(1 << (drop // 2)))
            )
    return sorted(value for value in found if low <= value <= high)


def same(found, expected):
    """Equal values: NaN is NaN, and zeros have the same sign."""
    if math.isnan(expected):
        return math.isnan(found)
    return found == expected and math.copysign(1, found) == math.copysign(1, expected)


def differences(values, found, dtype):
    """Conversions that are not the nearest: numbers, what they became, what they should have become."""
    return [
        (value, float(result), nearest(value, dtype))
        for value, result in zip(values, found, strict=True)
        if not same(float(result), nearest(value, dtype))
    ][:3]
