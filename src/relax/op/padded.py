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
    if not isinstance(info, TensorStructInfo) or not (info.dtype.is_integer and info.dtype.is_padded):
        return result
    kind: Any = getattr(result, "dtype", None)
    if not isinstance(kind, np.dtype) or kind.kind not in "iu":
        return result
    return convert_array(np.asarray(result), info.dtype.numpy())


__all__ = ["wrapped_result"]
