"""The nearest value of a floating-point dtype, in exact rational arithmetic.

Formats are written down here from their definitions (IEEE 754; OCP floating point of 8 and 4 bits; ml_dtypes for the others), not
read off the libraries under test.
"""

from __future__ import annotations

import math
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
    """The result beyond the greatest number."""
    negative_zero: bool = True
    nan: float = math.nan


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
    "float4_e2m1fn": Format(2, -1, 6.0, 6.0, nan=0.0),
}
FLOATS = list(FORMATS)
SMALL = [name for name in FLOATS if name not in ("float64", "float32")]


def nearest(value: int | float | Fraction, dtype: str) -> float:
    """The value of a dtype nearest to an int, float or Fraction, ties to even; a Python float."""
    form = FORMATS[dtype]
    powers = dtype == "float8_e8m0fnu"
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value) or powers:
            return form.nan
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


def _rounded(magnitude: Fraction, form: Format) -> Fraction:
    about = magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - 1
    exponent = max(form.least, about - form.digits)
    while magnitude >= Fraction(2) ** (exponent + form.digits):
        exponent += 1
    step = Fraction(2) ** exponent
    return round(magnitude / step) * step  # Fraction rounds halves to even


def _powers(magnitude: Fraction) -> Fraction:
    power = Fraction(2) ** -127
    while magnitude >= power * 3 / 2:
        power *= 2
    return power
