"""Bounds and sizes of slices with NumPy's rules: negative bounds count from the end, bounds out of range are clamped.

Sizes may be dynamic; conditions are folded when they can be decided. The form of a size does not depend on facts in
scope at the slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..prim import IntImm, PrimExpr, Select, const, dimension, facts_in_scope, intrin, is_const, prove, simplify
from ..runtime.records import dataclass

_FAR = 1 << 62
"""Constant bounds from here on (written by frontends for "to the end") exceed every size."""


@dataclass(frozen=True)
class Slice:
    """One dimension of a slice: element i is read at ``begin + i * stride``, for i < `size`."""

    begin: PrimExpr
    stride: int | PrimExpr
    size: PrimExpr

    def at(self, i: Any) -> PrimExpr:
        """Index at which element i is read."""
        stride = const(self.stride, i.dtype) if isinstance(self.stride, int) else self.stride.astype(i.dtype)
        step = i if is_const(stride, 1) else i * stride
        return step if is_const(self.begin, 0) else self.begin.astype(i.dtype) + step


@facts_in_scope(None)
def slice_of(size: PrimExpr, begin: Any, end: Any, stride: int | PrimExpr, assume_inbound: bool = False) -> Slice:
    """The slice ``begin:end:stride`` of a dimension; None as a bound is the dimension's start or end.

    A symbolic stride is positive. `assume_inbound` skips the clamping of bounds. Raises ValueError for a stride of 0.
    """
    if isinstance(stride, IntImm):
        stride = stride.value
    if isinstance(stride, int) and stride == 0:
        raise ValueError("the stride of a slice must not be 0")
    forwards = not isinstance(stride, int) or stride > 0
    last = size - 1
    low, high = (const(0, size.dtype), size) if forwards else (const(-1, size.dtype), last)
    first = _bound(begin, size, low, high, assume_inbound) if begin is not None else (low if forwards else high)
    stop = _bound(end, size, low, high, assume_inbound) if end is not None else (high if forwards else low)
    distance = simplify(stop - first if forwards else first - stop)
    step = abs(stride) if isinstance(stride, int) else stride.astype(size.dtype)
    count = distance if isinstance(step, int) and step == 1 else simplify(intrin.ceildiv(distance, step))
    if not assume_inbound:
        count = at_least_zero(count)
    return Slice(first, stride, count)


@facts_in_scope(None)
def at_least_zero(size: PrimExpr) -> PrimExpr:
    """max(size, 0), or `size` if it is proved non-negative."""
    return size if prove(size >= 0) else simplify(intrin.max(size, const(0, size.dtype)))


def _bound(value: Any, size: PrimExpr, low: PrimExpr, high: PrimExpr, assume_inbound: bool) -> PrimExpr:
    """Convert a bound to count from the front, clamped to `low` and `high`."""
    bound = dimension(value).astype(size.dtype)
    if isinstance(bound, IntImm):
        if abs(bound.value) >= _FAR:
            return high if bound.value > 0 else low
        if bound.value < 0:
            bound = bound + size
    elif not prove(bound >= 0):
        bound = Select(bound < 0, bound + size, bound)
    bound = simplify(bound)
    if assume_inbound:
        return bound
    if not prove(bound <= high):
        bound = high if prove(bound >= high) else intrin.min(bound, high)
    if not prove(bound >= low):
        bound = low if prove(bound <= low) else intrin.max(bound, low)
    return simplify(bound)


@facts_in_scope(None)
def section_slices(size: PrimExpr, indices_or_sections: int | Sequence[int]) -> list[Slice]:
    """Parts into which a dimension is split.

    A number of sections yields that many parts of size ⌈size / sections⌉, the last ones smaller or empty if it does not
    divide evenly. A list of indices cuts there, as slices do. Raises ValueError for a number less than 1.
    """
    if not isinstance(indices_or_sections, int):
        cuts = [0, *indices_or_sections, None]
        return [slice_of(size, begin, end, 1) for begin, end in pairwise(cuts)]
    sections = indices_or_sections
    if sections < 1:
        raise ValueError(f"the number of sections must be positive, found {sections}")
    length = simplify(intrin.ceildiv(size, sections))
    even = prove((length * sections).equal(size))
    slices: list[Slice] = []
    for k in range(sections):
        begin = simplify(length * k)
        rest = length if even or k == 0 else at_least_zero(simplify(intrin.min(length, size - begin)))
        slices.append(Slice(begin, 1, rest))
    return slices
