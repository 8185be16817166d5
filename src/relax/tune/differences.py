"""Comparison of a candidate's results with those of the default schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

_TOLERANCES: Final[Mapping[str, float]] = {"float64": 1e-10, "float32": 2e-4, "float16": 2e-2, "bfloat16": 1e-1}
"""Tolerated difference relative to the size of the results: sums may be added in another order."""


def difference(result: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> str:
    """Return the first difference between two arrays in words; "" if they agree.

    Integers must be equal, floats close to each other; NaN and infinities must be in the same places.
    """
    tolerance = _TOLERANCES.get(str(expected.dtype))
    if tolerance is None:
        wrong = np.asarray(np.not_equal(result, expected), bool)
    else:
        ours, theirs = result.astype(np.float64), expected.astype(np.float64)
        finite = np.isfinite(theirs)
        scale = float(np.sqrt(np.mean(np.square(theirs[finite])))) if finite.any() else 1.0
        with np.errstate(invalid="ignore"):
            close = np.abs(ours - theirs) <= tolerance * (np.abs(theirs) + scale)
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        wrong = np.asarray(~np.where(finite, close | same, same), bool)
    if not wrong.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"at {list(place)} it computes {result[place]}, not {expected[place]}"
