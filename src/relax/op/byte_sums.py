"""Sums of two quantised numbers, quantised again: two fused multiply-adds for what dequantises, adds and divides.

    round(((a - y) · s + (b - z) · t) / r)    is    round(fma(a, f, fma(b, g, c)))

Here a and b are integers of 8 bits, y and z zero points, s, t and r scales; f is about s / r, g about t / r, and c
about -y f - z g. The first form rounds four times before it rounds to an integer, the second one twice, so that they
may differ where the exact sum is almost half way between two integers. Of 65,536 pairs of bytes these are a few dozen.
`factors` looks for f, g and c with which each of them gives the same integer, and so proves it for all pairs: others
are further from a half than the second form is from the exact sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .reciprocals import Floats, fused

STEPS: Final = 10
"""The floats on each side of a quotient of scales, and of the number to begin with, that are tried."""
DIGITS: Final = 2.0**-23
"""The distance of neighbouring floats, relatively."""
SHIFT: Final = 2.0**-17
"""The distance of the numbers to begin with: a float between 64 and 128 is as far from its second neighbour."""
TRIED: Final = 100
"""The numbers that are tried at a time."""
MOST_NEAR: Final = 4096
"""The most pairs near a half for which others than the nearest floats are tried: of more, hardly any fit all."""
MOST: Final = 2.0**20
"""The greatest quotient of scales: no sum is far from what int32 holds."""

Integers: TypeAlias = "NDArray[np.int64]"


class Factors(NamedTuple):
    """The numbers of the second form."""

    left: np.float32
    right: np.float32
    start: np.float32


def factors(
    left: Integers,
    right: Integers,
    quotients: tuple[float, float],
    zeros: tuple[int, int],
    expected: Integers,
    limits: tuple[int, int],
) -> Factors | None:
    """The numbers with which each pair has the integer expected of it; None where none are found.

    `left` and `right` are all numbers of each operand, from which zero points are still to be subtracted; `expected`
    has a row for each of `left`. Integers beyond the limits become these.
    """
    if not all(1 / MOST <= quotient <= MOST for quotient in quotients):
        return None
    start = -sum(q * zero for q, zero in zip(quotients, zeros, strict=True))
    exact = left[:, None] * quotients[0] + (right[None, :] * quotients[1] + start)
    size = np.abs(left).max() * quotients[0] + np.abs(right).max() * quotients[1] + abs(start)
    # What second forms differ by: their factors, each by so many floats, what they begin with, and two roundings.
    error = (STEPS + 4) * DIGITS * size + 2 * STEPS * SHIFT
    near: NDArray[np.bool_] = np.abs(np.abs(exact - np.rint(exact)) - 0.5) <= error
    if not np.array_equal(_limited(exact[~near], limits), expected[~near]):
        return None
    rows, columns = np.nonzero(near)
    a, b = left[rows].astype(np.float32), right[columns].astype(np.float32)
    return next(_fitting(a, b, (*quotients, start), expected[near], limits), None)


def _fitting(
    a: Floats, b: Floats, nearest: tuple[float, float, float], expected: Integers, limits: tuple[int, int]
) -> Iterator[Factors]:
    """The numbers that fit some pairs, the nearest ones first."""
    steps = _nearest_first()
    parts = [steps[:1]]
    if len(a) <= MOST_NEAR:
        parts += np.array_split(steps[1:], len(steps) // TRIED)
    for part in parts:
        first, second = (
            (np.float64(nearest[i]) * (1 + DIGITS * part[:, i])).astype(np.float32)[:, None] for i in (0, 1)
        )
        start: Floats = (nearest[2] + SHIFT * part[:, 2]).astype(np.float32)[:, None]
        shape = (len(part), len(a))
        inner = fused(np.broadcast_to(b, shape), second, np.broadcast_to(start, shape))
        sums = fused(np.broadcast_to(a, shape), first, inner)
        for i in np.flatnonzero((_limited(sums, limits) == expected).all(axis=1)).tolist():
            yield Factors(first[i, 0], second[i, 0], start[i, 0])


def _limited(sums: NDArray[Any], limits: tuple[int, int]) -> Integers:
    return np.minimum(np.maximum(np.rint(sums), limits[0]), limits[1]).astype(np.int64)


@lru_cache(maxsize=1)
def _nearest_first() -> NDArray[np.int64]:
    """The steps from the quotients and from 0 that are tried."""
    every: NDArray[np.int64] = np.array(list(product(range(-STEPS, STEPS + 1), repeat=3)), np.int64)
    return every[np.argsort(np.abs(every).sum(axis=1), kind="stable")]


__all__ = ["Factors", "factors"]
