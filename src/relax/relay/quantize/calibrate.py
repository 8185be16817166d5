"""Calibration: the largest absolute value that quantisation represents, from elements of a dataset.

Elements beyond the threshold are clipped; a smaller threshold gives finer steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BINS = 2048
"""Bins of a histogram of absolute values."""
PERCENTILE = 0.99999
"""Fraction of elements within the range, for "percentile"."""
MOST_CLIPPED = 0.01
"""Largest fraction of elements clipped by "kl_divergence"."""
_EPSILON = 1e-12


class Histogram:
    """Histogram of absolute values, with `BINS` bins from 0 to the largest; NaN and infinities are not counted."""

    def __init__(self, largest: float) -> None:
        self.largest = largest
        self.counts: Array = np.zeros(BINS, "int64")

    def add(self, values: Array) -> None:
        """Count the elements of an array."""
        inside: Array = values[np.isfinite(values)]
        finite: Array = np.abs(inside).astype("float64")
        counts: Array = np.histogram(finite, BINS, (0.0, self.largest))[0]
        self.counts += counts


def histograms(batches: Callable[[], Iterable[Sequence[Array]]], count: int) -> list[Histogram]:
    """Histograms of `count` tensors over all batches of a dataset, which is read twice."""
    largest = np.zeros(count)
    for batch in batches():
        for i, values in enumerate(batch):
            finite: Array = values[np.isfinite(values)]
            largest[i] = max(largest[i], float(np.abs(finite).max(initial=0.0)))
    result = [Histogram(float(value) or 1.0) for value in largest]
    for batch in batches():
        for histogram, values in zip(result, batch, strict=True):
            histogram.add(values)
    return result


def threshold_by_percentile(histogram: Histogram, bits: int = 8) -> float:
    """Smallest threshold not exceeded by `PERCENTILE` of the elements."""
    del bits
    within: list[int] = np.cumsum(histogram.counts).tolist()
    if not within[-1]:
        return histogram.largest
    edge = bisect_left(within, PERCENTILE * within[-1]) + 1
    return histogram.largest * min(edge, BINS) / BINS


def threshold_by_kl(histogram: Histogram, bits: int = 8) -> float:
    """Threshold that minimises the Kullback-Leibler divergence.

    For each candidate, the distribution of the elements, clipped, is compared with the one that is left when the bins
    below the threshold are merged into as many as there are positive numbers; the least divergence wins. The procedure
    is that of S. Migacz, "8-bit inference with TensorRT", GTC 2017; a candidate that clips more than `MOST_CLIPPED` of
    the elements is none, as a few elements may all be clipped to one number and lose no information by that.
    """
    levels = 2 ** (bits - 1) - 1
    counts: Array = histogram.counts.astype("float64")
    if not counts.any():
        return histogram.largest
    behind: Array = np.cumsum(counts[::-1])[::-1]
    best, best_edge = np.inf, BINS
    for edge in range(levels, BINS + 1):
        beyond = behind[edge] if edge < BINS else 0.0
        if beyond > MOST_CLIPPED * behind[0]:
            continue
        clipped: Array = np.array(counts[:edge])
        clipped[-1] += beyond
        divergence = _divergence(clipped, _merged(counts[:edge], levels))
        if divergence < best:
            best, best_edge = divergence, edge
    return histogram.largest * best_edge / BINS


def _merged(counts: Array, levels: int) -> Array:
    """Spread the counts of each level evenly over its nonempty bins."""
    level = np.arange(len(counts)) * levels // len(counts)
    filled = counts > 0
    total = np.bincount(level, counts, levels)
    bins = np.bincount(level, filled, levels)
    return np.where(filled, (total / np.maximum(bins, 1))[level], 0.0)


def _divergence(actual: Array, merged: Array) -> float:
    """Kullback-Leibler divergence of two count distributions; infinite if one is empty."""
    if not actual.sum() or not merged.sum():
        return float("inf")
    p, q = actual / actual.sum(), merged / merged.sum()
    where = p > 0
    return float((p[where] * np.log(p[where] / np.maximum(q[where], _EPSILON))).sum())
