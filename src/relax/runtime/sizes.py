"""Sizes: the numbers that dimensions of tensors and of shape values may be, from 0 up to DIMENSION_LIMIT.

No tensor and no shape value of the machine has another dimension. It is checked where they are made: when arguments and
results of packed functions become values, when a shape is computed, when memory is allocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tvm_ffi

from .limits import DIMENSION_LIMIT
from .messages import NEGATIVE, NO_SHAPE, TOO_LARGE


def is_size(value: int) -> bool:
    """True if a number may be a dimension."""
    return 0 <= value < DIMENSION_LIMIT


def check_dimensions(dims: Sequence[int]) -> None:
    """Raise ValueError unless every dimension is a size."""
    if not dims or (min(dims) >= 0 and max(dims) < DIMENSION_LIMIT):
        return
    shown = ", ".join(number_text(int(dim)) for dim in dims) + ("," if len(dims) == 1 else "")
    raise NO_SHAPE(what=NEGATIVE if min(dims) < 0 else TOO_LARGE, shape=f"({shown})")


def number_text(number: int) -> str:
    """Return a number's digits, or its bit length if it is huge (Python limits conversion to decimal)."""
    return str(number) if number.bit_length() <= 256 else f"a number of {number.bit_length()} bits"


def shape_value(dims: Iterable[int]) -> tvm_ffi.Shape:
    """The shape value of these dimensions. Raises ValueError unless they are sizes."""
    shape = tuple(dims)
    check_dimensions(shape)
    return tvm_ffi.Shape(shape)
