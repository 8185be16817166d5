"""Where the elements of a buffer are: strides, offsets, sizes in bytes."""

from __future__ import annotations

from ..prim import PrimExpr, const, is_const
from .buffer import Buffer


def strides_of(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """How far apart, in elements, neighbours along each dimension are; compact row-major unless it says otherwise."""
    if buffer.strides:
        return buffer.strides
    strides: list[PrimExpr] = []
    step: PrimExpr = const(1, "int64")
    for size in reversed(buffer.shape):
        strides.append(step)
        step = size if is_const(step, 1) else step * size
    return tuple(reversed(strides))


def element_offset(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    """The distance, in elements, of the element at `indices` from the buffer's pointer."""
    offset = buffer.elem_offset
    for index, stride in zip(indices, strides_of(buffer), strict=True):
        term = index if is_const(stride, 1) else index * stride
        offset = term if offset is None else offset + term
    return const(0, "int64") if offset is None else offset


def element_count(buffer: Buffer) -> PrimExpr:
    """The number of elements of a compact buffer of this shape."""
    count: PrimExpr = const(1, "int64")
    for size in buffer.shape:
        count = size if is_const(count, 1) else count * size
    return count


__all__ = ["element_count", "element_offset", "strides_of"]
