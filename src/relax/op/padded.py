"""References over integers of 2 and 4 bits, for which NumPy has most of its functions in 8 bits only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..ir import StructInfo
from ..runtime.rounding import convert_array
from ..struct_info import TensorStructInfo, TupleStructInfo


def wrapped_result(result: Any, info: StructInfo | None) -> Any:
    """A reference's result, with integers of more bits wrapped to an inferred dtype of 2 or 4 bits."""
    if isinstance(info, TupleStructInfo) and isinstance(result, (tuple, list)):
        parts = zip(cast("Sequence[Any]", result), info.fields, strict=True)
        return tuple(wrapped_result(part, field) for part, field in parts)
    small = isinstance(info, TensorStructInfo) and info.dtype.is_integer and info.dtype.is_padded
    if not small or not isinstance(result, (np.ndarray, np.generic)):
        return result  # pyright: ignore[reportUnknownVariableType]
    array: Any = np.asarray(result)
    return convert_array(array, info.dtype.numpy()) if array.dtype.kind in "iu" else array


__all__ = ["wrapped_result"]
