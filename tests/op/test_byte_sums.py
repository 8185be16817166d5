"""Sums of quantised numbers: two fused multiply-adds that give the same integer for every pair of bytes."""

from __future__ import annotations

import numpy as np
import pytest

from relax.op.byte_sums import Factors, factors
from relax.op.reciprocals import fused

BYTES = np.arange(256)


def expected_of(scales: tuple[float, float, float], zeros: tuple[int, int, int]) -> np.ndarray:
    """The integers, less the last zero point, of all pairs: dequantised, added and divided in float32."""
    first, second, scale = (np.float32(s) for s in scales)
    a = (BYTES - zeros[0]).astype("float32") * first
    b = (BYTES - zeros[1]).astype("float32") * second
    return np.clip(np.rint((a[:, None] + b[None, :]) / scale), -zeros[2], 255 - zeros[2]).astype("int64")


def found_for(scales: tuple[float, float, float], zeros: tuple[int, int, int]) -> Factors | None:
    first, second, scale = (float(np.float32(s)) for s in scales)
    limits = (-zeros[2], 255 - zeros[2])
    quotients = (first / scale, second / scale)
    return factors(BYTES, BYTES, quotients, zeros[:2], expected_of(scales, zeros), limits)


def cases() -> list[tuple[tuple[float, float, float], tuple[int, int, int]]]:
    several, rng = [], np.random.default_rng(7)
    for _ in range(25):
        a, b = rng.uniform(0.003, 0.2, 2).tolist()
        zeros = tuple(rng.integers(0, 256, 3).tolist())
        several.append(((a, b, max(a, b) * rng.uniform(0.3, 2)), zeros))
    even = [((0.5, 0.25, 0.5), (3, 200, 0)), ((0.1, 0.1, 0.17), (0, 0, 128)), ((0.1, 1e-6, 0.1), (9, 9, 9))]
    return [*several, *even]


@pytest.mark.parametrize(("scales", "zeros"), cases())
def test_all_pairs(scales, zeros):
    """What is found gives the integers of all 65,536 pairs, not only of those that it was tried on."""
    found = found_for(scales, zeros)
    if found is None:
        pytest.skip("two pairs next to a half exclude each other")
    a, b = (part.ravel() for part in np.meshgrid(BYTES.astype("float32"), BYTES.astype("float32"), indexing="ij"))
    sums = fused(a, found.left, fused(b, found.right, np.full_like(b, found.start)))
    actual = np.clip(np.rint(sums), -zeros[2], 255 - zeros[2])
    np.testing.assert_array_equal(actual.reshape(256, 256), expected_of(scales, zeros))


def test_few_scales_have_none():
    assert sum(found_for(*case) is None for case in cases()) <= 1


def test_halves_that_are_rounded_by_chance_have_none():
    """Half of the pairs are exactly between two integers, and rounded as their products were."""
    assert found_for((0.0731, 0.0731, 2 * 0.0731), (101, 77, 0)) is None


def test_another_function_has_none():
    expected = expected_of((0.1, 0.07, 0.11), (0, 0, 0))
    expected[0, 0] = 1
    assert factors(BYTES, BYTES, (10 / 11, 7 / 11), (0, 0), expected, (0, 255)) is None


@pytest.mark.parametrize("quotient", [0.0, -1.0, 2.0**30, np.inf, np.nan])
def test_declines(quotient):
    assert factors(BYTES, BYTES, (quotient, 1.0), (0, 0), np.zeros((256, 256), "int64"), (0, 255)) is None
