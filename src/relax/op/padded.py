"""References for integers of 2 and 4 bits, for which most NumPy functions compute in 8 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..ir import DataType, StructInfo
from ..runtime.rounding import convert_array
from ..struct_info import TensorStructInfo, TupleStructInfo


def wrapped_result(result: Any, info: StructInfo | None) -> Any:
    """Wrap a reference's wider integers to an inferred dtype of 2 or 4 bits."""
    if isinstance(info, TupleStructInfo) and isinstance(result, (tuple, list)):
        pairs = zip(cast("Sequence[Any]", result), info.fields, strict=True)
        return tuple(wrapped_result(item, field) for item, field in pairs)
    if not isinstance(info, TensorStructInfo) or not (info.dtype.is_integer and info.dtype.is_padded):
        return result
    kind: Any = getattr(result, "dtype", None)
    if not isinstance(kind, np.dtype) or kind.kind not in "iu":
        return result
    return convert_array(np.asarray(result), info.dtype.numpy())


def sums_dtype(dtype: DataType) -> np.dtype[Any]:
    """Dtype of NumPy sums: 8 bits for integers of 2 and 4 bits; `convert_array` wraps the sums afterwards."""
    if dtype.is_integer and dtype.is_padded:
        return np.dtype(np.int8 if dtype.is_int else np.uint8)
    return dtype.numpy()
