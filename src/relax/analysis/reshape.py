"""Recognition of kernels that reshape."""

from __future__ import annotations

from ..tir.flat_copy import is_flat_copy
from ..tir.stmt import PrimFunc


def has_reshape_pattern(func: PrimFunc) -> bool:
    """True if a kernel is proved to copy its one input to its one output in row-major order, for all sizes.

    Raises TypeError for a value that is no PrimFunc.
    """
    if not isinstance(func, PrimFunc):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"has_reshape_pattern takes a PrimFunc, found {type(func).__name__}")
    return is_flat_copy(func)
