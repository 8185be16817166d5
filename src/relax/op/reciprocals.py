"""Reciprocals of scales: pairs of numbers by which a quotient that is rounded to an integer becomes two products.

    round(x / s)    is    round(fma(x, high, x * low))    with 1 / s ≈ high + low, high rounded down

A division takes as long as ten multiplications. The pair has 48 digits where float32 has 24, so that the second form
differs from the quotient, rounded to float32, for few floats x at most. `reciprocal` proves that they round to the same
integers, for one scale and all floats that an integer dtype does not saturate: with positive numbers of the pair both
forms grow with x, so that they are the same everywhere if they are the same next to each half where the integer
changes. Infinities stay infinities, and NaN stays NaN.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ..ir import DataType

Floats: TypeAlias = "NDArray[np.float32]"

LEAST: Final = 2.0**-60
"""Smallest scale with a reciprocal pair; keeps the pair and its products far from subnormal."""
WINDOW: Final = 4
"""Number of floats compared on each side of a half; the quotient crosses the half within one step."""
MOST_BITS: Final = 8
"""Maximum bits of the integers; the proof's run time is proportional to their number."""


def fused(x: Floats, factor: Floats | np.float32, addend: Floats) -> Floats:
    """x * factor + addend, rounded once.

    The product is exact in float64. An inexact sum is rounded to odd, so that rounding it to float32 equals rounding
    the exact sum.
    """
    with np.errstate(all="ignore"):
        product, other = x.astype(np.float64) * factor.astype(np.float64), addend.astype(np.float64)
        total: NDArray[np.float64] = product + other
        rounded_addend = total - product
        error = (product - (total - rounded_addend)) + (other - rounded_addend)
        bits: NDArray[np.int64] = cast("Any", total).view(np.int64)
        is_even: NDArray[np.bool_] = bits % 2 == 0
        moved = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
        inexact = np.isfinite(total) & np.isfinite(error) & (error != 0)
        return np.where(inexact & is_even, moved, total).astype(np.float32)


def by_reciprocal(x: Floats, pair: Floats) -> Floats:
    """Quotient of `x` by the scale whose reciprocal is `pair`."""
    with np.errstate(all="ignore"):
        return fused(x, pair[0], np.asarray(x * pair[1], np.float32))


def reciprocal(scale: np.float32, zero: int, dtype: DataType) -> Floats | None:
    """Reciprocal pair of a scale; None unless all rounded quotients, with the zero point added, are proved equal."""
    if dtype.bits > MOST_BITS or not LEAST <= scale <= 1 / LEAST:
        return None
    inverse = 1 / np.float64(scale)
    high = np.float32(inverse)
    if high >= inverse:
        high = np.nextafter(high, np.float32(0))
    pair = np.array([high, inverse - np.float64(high)], np.float32)
    return pair if _agree(scale, pair, int(dtype.min_value) - zero - 1, int(dtype.max_value) - zero + 1) else None


def _agree(scale: np.float32, pair: Floats, first: int, last: int) -> bool:
    """True if rounded quotients by `scale` and by `pair` agree for integers from `first` to `last`."""
    halves = np.arange(first, last, dtype=np.float64) + 0.5
    window: Floats = (halves * np.float64(scale)).astype(np.float32)[:, None]
    for _ in range(WINDOW):
        low, high = (np.nextafter(window[:, i], np.float32(to)) for i, to in ((0, -np.inf), (-1, np.inf)))
        window = np.concatenate([low[:, None], window, high[:, None]], axis=1)
    expected, actual = np.rint(window / scale), np.rint(by_reciprocal(window, pair))
    passed = (expected[:, 0] < halves) & (expected[:, -1] > halves)
    return bool((expected == actual).all() and passed.all())
