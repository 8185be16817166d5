"""Numbers that are hard to round, and conversions compared with exact rational arithmetic."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from differential.rounding import FLOATS, FORMATS, SMALL, nearest

__all__ = ["FLOATS", "FORMATS", "SMALL", "differences", "nearest", "numbers_for", "same", "whole_numbers_for"]


def _grid(dtype):
    """Some positive values of a dtype, and the step to the next of each: all magnitudes, exact."""
    form, rng = FORMATS[dtype], random.Random(dtype)
    found = [(Fraction(k) * Fraction(2) ** form.least, Fraction(2) ** form.least) for k in range(4)]
    top = math.frexp(form.greatest)[1] - form.digits
    for exponent in sorted(
        {form.least, form.least + 1, -form.digits, 0, top - 1, top, *(rng.randint(form.least, top) for _ in range(20))}
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
    special = [0.0, math.inf, math.nan, 1e-300, 5e-324, 1e-45, 1e-40, 1.7e308, 3.4e38, 3.5e38, 65519.99, 65520.0]
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
                sign * (tie + d) for sign in (1, -1) for d in (-1, 0, 1, 1 << (drop // 2), -(1 << (drop // 2)))
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
