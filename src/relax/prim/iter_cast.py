"""Casts in affine indices: an integer cast is looked through where it keeps the value.

    for i, j in grid(4, 16) of int32:    A[Cast("int64", i * 16 + j)]      the index is i * 16 + j, in int64

Arithmetic of narrow integers wraps around, which a wide one would not. So no step below the cast may leave its dtype,
and the value must be one of the dtype it is cast to; both by the constants between which iterators and sizes lie. All
sums of a map with such casts are of one dtype, `WIDE`, and its iterators are cast to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..ir import DataType
from .analyzer import Analyzer
from .expr import Cast, PrimExpr, Var
from .functor import sub_expressions
from .intervals import Interval, operation_range, within

WIDE = DataType("int64")


def casts_integers(exprs: Iterable[PrimExpr]) -> bool:
    """True if one of the expressions contains a cast between integer dtypes."""
    pending = list(exprs)
    while pending:
        part = pending.pop()
        if isinstance(part, Cast) and part.dtype.is_integer and part.value.dtype.is_integer:
            return True
        pending += sub_expressions(part)
    return False


def keeps_value(cast: Cast, facts: Analyzer, is_fixed: Callable[[PrimExpr], bool]) -> bool:
    """True if a cast of integers gives the value that its operand has in unbounded arithmetic.

    `facts` knows the ranges of variables; `is_fixed` tells the parts that are numbers of their own.
    """
    if not (cast.dtype.is_integer and cast.value.dtype.is_integer) or cast.dtype.lanes != 1:
        return False
    fits = True

    def values(part: PrimExpr) -> Interval:
        nonlocal fits
        if isinstance(part, Var) or is_fixed(part):
            interval = facts.interval(part)
        else:
            interval = operation_range(part, values)
        fits = fits and within(interval, part.dtype)
        return interval

    return within(values(cast.value), cast.dtype) and fits
