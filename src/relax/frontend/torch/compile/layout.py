"""Orders of dimensions in memory, for tensors of torch that are not contiguous but dense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..pairs import has_complex_dtype


def memory_order(example: Any) -> list[int] | None:
    """Return the dimensions from outermost to innermost in memory; None if that is their order, or there is none.

    A tensor that lies dense in memory after that permutation has such an order: a transposed matrix, an image in
    channels_last. Sizes that are symbols count by the example that torch keeps of them.
    """
    sizes, strides = [_hint(size) for size in example.shape], [_hint(stride) for stride in example.stride()]
    if None in sizes or None in strides:
        return None
    order = sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis))  # type: ignore[operator]
    expected = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != expected:
            return None
        expected *= sizes[axis]  # type: ignore[operator]
    kept = [axis for axis in order if sizes[axis] != 1]
    return None if kept == sorted(kept) else order


def border_order(example: Any) -> list[int] | None:
    """Return the `memory_order` of a tensor as pieces pass it: of complex numbers with the axis of their two parts."""
    order = memory_order(example)
    return [*order, len(order)] if order is not None and has_complex_dtype(example) else order


def inverse(order: Sequence[int]) -> list[int]:
    """Return the permutation that undoes another."""
    return [order.index(axis) for axis in range(len(order))]


def _hint(number: Any) -> int | None:
    return number if isinstance(number, int) else number.node.hint if number.node.has_hint() else None
