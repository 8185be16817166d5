"""Ranges of values: the largest absolute value that quantisation represents, from the elements that a dataset gives.

Elements beyond the threshold are clipped to it; a small threshold makes the steps between numbers finer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BINS = 2048
"""The bins of a histogram of absolute values."""
PERCENTILE = 0.99999
"""The share of elements that are within the range, for "percentile"."""
MOST_CLIPPED = 0.01
"""The share of elements that "kl_divergence" clips at most."""
_EPSILON = 1e-12


class Histogram:
    """Counts of absolute values, in `BINS` bins from 0 to a largest value; NaN and infinities are not counted."""

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
    """The histograms of `count` tensors over all batches of a dataset, which is read twice."""
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
    """The least threshold that `PERCENTILE` of the elements do not exceed."""
    del bits
    within: list[int] = np.cumsum(histogram.counts).tolist()
    if not within[-1]:
        return histogram.largest
    edge = bisect_left(within, PERCENTILE * within[-1]) + 1
    return histogram.largest * min(edge, BINS) / BINS


def threshold_by_kl(histogram: Histogram, bits: int = 8) -> float:
    """The threshold whose numbers tell the most about the elements, by the divergence of Kullback and Leibler.

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
    """The counts spread evenly over the bins of each level that have any."""
    level = np.arange(len(counts)) * levels // len(counts)
    filled = counts > 0
    total = np.bincount(level, counts, levels)
    bins = np.bincount(level, filled, levels)
    return np.where(filled, (total / np.maximum(bins, 1))[level], 0.0)


def _divergence(actual: Array, merged: Array) -> float:
    """The divergence of two distributions given by counts; infinite if one of them has none."""
    if not actual.sum() or not merged.sum():
        return float("inf")
    p, q = actual / actual.sum(), merged / merged.sum()
    where = p > 0
    return float((p[where] * np.log(p[where] / np.maximum(q[where], _EPSILON))).sum())
