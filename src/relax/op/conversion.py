"""Element conversion of `astype`; references use it to round their results."""

from __future__ import annotations

import numpy as np

from ..ir import DataType
from ..runtime.rounding import convert_array
from .operator import Array


def converted(x: Array, dtype: DataType) -> Array:
    """Convert elements to `dtype`.

    Floats convert to integers by truncation, saturating at the limits; NaN becomes 0. (NumPy leaves out-of-range
    conversions undefined.)
    """
    if not DataType(x.dtype.name).is_float or not dtype.is_integer:
        return (x != 0) if dtype.is_bool else convert_array(x, dtype.numpy())
    wide = x.astype(np.float64)
    low, high = int(dtype.min_value), int(dtype.max_value)
    whole = np.trunc(np.nan_to_num(wide, nan=0.0, posinf=np.inf, neginf=-np.inf))
    inside = np.where((whole > low) & (whole < high), whole, 0).astype(dtype.numpy())
    return np.where(whole >= high, high, np.where(whole <= low, low, inside)).astype(dtype.numpy())
