"""Helpers of formulas: axes, accumulator dtypes, and arithmetic of numbers or booleans."""

from __future__ import annotations

from collections.abc import Sequence

from .. import te
from ..ir import DataType
from ..prim import PrimExpr, const
from ..tir.buffer import IterVar


def normalize_axis(axis: int, ndim: int) -> int:
    """Return the axis as a non-negative index. Raises ValueError if out of range."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of range for {ndim} dimensions")
    return axis % ndim


def normalize_axes(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Axes in ascending order, all for None. Raises ValueError if one is out of range or repeated."""
    if axis is None:
        return tuple(range(ndim))
    axes = [normalize_axis(a, ndim) for a in ([axis] if isinstance(axis, int) else axis)]
    if len(set(axes)) != len(axes):
        raise ValueError(f"an axis is given twice: {axes}")
    return tuple(sorted(axes))


def accumulator_dtype(dtype: DataType) -> DataType:
    """Accumulation dtype for values of `dtype`: float32 for narrower floats, otherwise the same."""
    return DataType("float32") if dtype.is_float and dtype.bits < 32 else dtype


def plus(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """a + b; of booleans, True if either is."""
    return a | b if a.dtype.is_bool else a + b


def times(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """a · b; of booleans, True if both are."""
    return a & b if a.dtype.is_bool else a * b


def sum_of(value: PrimExpr, axis: Sequence[IterVar]) -> PrimExpr:
    """Σ of a value along reduction axes; of booleans, True if one is."""
    return te.max(value, axis=axis) if value.dtype.is_bool else te.sum(value, axis=axis)


def truth(value: PrimExpr) -> PrimExpr:
    """True for a number that is not 0, NaN among them; a boolean unchanged."""
    return value if value.dtype.is_bool else value != const(0, value.dtype)
