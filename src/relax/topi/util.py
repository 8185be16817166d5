"""Helpers of formulas: axes, and the dtype sums are kept in."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import DataType


def normalize_axis(axis: int, ndim: int) -> int:
    """A negative axis counts from the last. Raises ValueError when there is no such axis."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of range for {ndim} dimensions")
    return axis % ndim


def normalize_axes(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Axes in ascending order, all for None. Raises ValueError for one out of range or given twice."""
    if axis is None:
        return tuple(range(ndim))
    axes = [normalize_axis(a, ndim) for a in ([axis] if isinstance(axis, int) else axis)]
    if len(set(axes)) != len(axes):
        raise ValueError(f"an axis is given twice: {axes}")
    return tuple(sorted(axes))


def accumulator_dtype(dtype: DataType) -> DataType:
    """The dtype in which values of `dtype` are summed: float32 for narrower floats, else the same."""
    return DataType("float32") if dtype.is_float and dtype.bits < 32 else dtype
