"""Scalar expressions that certainly have a value."""

from __future__ import annotations

from ..runtime.limits import DIMENSION_LIMIT
from .expr import Call, Div, FloorDiv, FloorMod, IntImm, Let, Mod, PrimExpr, is_const
from .functor import post_order
from .intervals import Interval, dtype_range, operation_range, within


def scalar_never_fails(expr: PrimExpr) -> bool:
    """True if a scalar expression has no division by a possible zero, no calls, and stays in 64 bits."""
    return _safe_range(expr) is not None


def is_surely_size(value: PrimExpr) -> bool:
    """True if a scalar expression certainly has a value that is a valid dimension."""
    values = _safe_range(value)
    return values is not None and values[0] >= 0 and values[1] < DIMENSION_LIMIT


def _safe_range(expr: PrimExpr) -> Interval | None:
    """Bounds (minimum, maximum) of a scalar expression; None if its evaluation may fail."""
    fails = False
    ranges: dict[PrimExpr, Interval] = {}

    def visit(part: PrimExpr) -> None:
        nonlocal fails
        match part:
            case Div(_, b) | Mod(_, b) | FloorDiv(_, b) | FloorMod(_, b):
                fails = fails or not isinstance(b, IntImm) or is_const(b, 0)
            case Call() | Let():
                fails = True
            case _:
                pass
        ranges[part] = operation_range(part, ranges.__getitem__)
        if not within(ranges[part], part.dtype):
            # What leaves 64 bits is an error; in narrower types it wraps around.
            fails = fails or part.dtype == "int64"
            ranges[part] = dtype_range(part.dtype)

    post_order(expr, visit)
    return None if fails else ranges[expr]
