"""Quantised sums of two quantised numbers: two fused multiply-adds replace dequantisation, addition and division.

    round(((a - y) · s + (b - z) · t) / r)    is    round(fma(a, f, fma(b, g, c)))

Here a and b are integers of 8 bits, y and z zero points, s, t and r scales; f is about s / r, g about t / r, and c
about -y f - z g. The first form rounds four times before it rounds to an integer, the second twice, so they may differ
where the exact sum is close to half way between two integers: for a few dozen of 65,536 pairs of bytes. `factors`
searches f, g and c with which each of these pairs yields the same integer. This proves equality for all pairs, as the
error of the second form is below the remaining pairs' distance from a half.
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
"""Search radius around each quotient of scales and around the start value, in steps."""
DIGITS: Final = 2.0**-23
"""Relative distance of neighbouring float32 values."""
SHIFT: Final = 2.0**-17
"""Step between candidate start values: two float32 steps between 64 and 128."""
TRIED: Final = 100
"""Number of candidates tested at a time."""
MOST_NEAR: Final = 4096
"""Largest number of pairs near a half for which candidates other than the nearest are tried; more rarely all fit."""
MOST: Final = 2.0**20
"""Largest quotient of scales; keeps every sum within int32."""

Integers: TypeAlias = "NDArray[np.int64]"


class Factors(NamedTuple):
    """Constants f, g and c of round(fma(a, f, fma(b, g, c)))."""

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
    """Return factors that yield `expected` for every pair of `left` and `right`; None if none are found.

    `left` and `right` are all values of each operand, before their zero points are subtracted; `expected` has a row per
    element of `left`. Results are clamped to `limits`.
    """
    if not all(1 / MOST <= quotient <= MOST for quotient in quotients):
        return None
    start = -sum(q * zero for q, zero in zip(quotients, zeros, strict=True))
    exact = left[:, None] * quotients[0] + (right[None, :] * quotients[1] + start)
    size = np.abs(left).max() * quotients[0] + np.abs(right).max() * quotients[1] + abs(start)
    # Bound on the difference of candidates: steps of both factors, steps of the start value, and two roundings.
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
    """Yield factors that fit all pairs (`a`, `b`), nearest candidates first."""
    steps = _nearest_first()
    batches = [steps[:1]]
    if len(a) <= MOST_NEAR:
        batches += np.array_split(steps[1:], len(steps) // TRIED)
    for batch in batches:
        first, second = (
            (np.float64(nearest[i]) * (1 + DIGITS * batch[:, i])).astype(np.float32)[:, None] for i in (0, 1)
        )
        start: Floats = (nearest[2] + SHIFT * batch[:, 2]).astype(np.float32)[:, None]
        shape = (len(batch), len(a))
        inner = fused(np.broadcast_to(b, shape), second, np.broadcast_to(start, shape))
        sums = fused(np.broadcast_to(a, shape), first, inner)
        for i in np.flatnonzero((_limited(sums, limits) == expected).all(axis=1)).tolist():
            yield Factors(first[i, 0], second[i, 0], start[i, 0])


def _limited(sums: NDArray[Any], limits: tuple[int, int]) -> Integers:
    return np.minimum(np.maximum(np.rint(sums), limits[0]), limits[1]).astype(np.int64)


@lru_cache(maxsize=1)
def _nearest_first() -> NDArray[np.int64]:
    """Return candidate steps from the quotients and the start value, ordered by distance."""
    every: NDArray[np.int64] = np.array(list(product(range(-STEPS, STEPS + 1), repeat=3)), np.int64)
    return every[np.argsort(np.abs(every).sum(axis=1), kind="stable")]
