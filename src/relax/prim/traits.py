"""Context-free properties of an expression: whether it may fail or have effects, and its cost.

They are computed once per node and cached in its `_traits` slot.
"""

from __future__ import annotations

from ..ir import set_slot
from .expr import (
    Add,
    And,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    StringImm,
    Sub,
    Var,
)
from .functor import sub_expressions
from .intrin import is_pure

MAY_FAIL = 1
HAS_EFFECTS = 2
_FLAGS = 2
"""Number of flag bits; the cost is in the bits above."""

_COST: dict[type[PrimExpr], int] = {
    Add: 1, Sub: 1, Mul: 1, FloorDiv: 4, FloorMod: 4, Div: 5, Mod: 5, Min: 2, Max: 2,
    And: 1, Or: 1, Not: 1, Select: 2, Cast: 1, Let: 1, Call: 6,
}  # fmt: skip
_DIVISIONS = (FloorDiv, FloorMod, Div, Mod)
_TOTAL = frozenset(_COST) | {Var, IntImm, FloatImm, StringImm}


def may_fail(expr: PrimExpr) -> bool:
    """True if the evaluation may raise an error, as for a division, a load or a call."""
    return bool(_traits(expr) & (MAY_FAIL | HAS_EFFECTS))


def has_effects(expr: PrimExpr) -> bool:
    """True if the number or order of an expression's evaluations matters."""
    return bool(_traits(expr) & HAS_EFFECTS)


def fails_itself(expr: PrimExpr) -> bool:
    """True if the root operation itself may fail."""
    return bool(_own_flags(expr))


def cost(expr: PrimExpr) -> int:
    """Approximate work of an evaluation, which simplification reduces."""
    return _traits(expr) >> _FLAGS


def _traits(expr: PrimExpr) -> int:
    try:
        return expr._traits  # type: ignore[reportPrivateUsage]
    except AttributeError:
        pass
    kind = type(expr)
    if kind is Var:
        result = 1 << _FLAGS
    elif kind is IntImm or kind is FloatImm:
        result = 0
    else:
        flags, total = _own_flags(expr), _COST.get(kind, 1 if hasattr(expr, "a") else 6)
        for part in sub_expressions(expr):
            below = _traits(part)
            flags |= below & (MAY_FAIL | HAS_EFFECTS)
            total += below >> _FLAGS
        if kind is Add and isinstance(expr.b, IntImm) and expr.b.value < 0:  # type: ignore[attr-defined]
            total += 1  # n - 1 reads better than n + -1
        result = total << _FLAGS | flags
    set_slot(expr, "_traits", result)
    return result


def _own_flags(expr: PrimExpr) -> int:
    if isinstance(expr, _DIVISIONS):
        safe = expr.a.dtype.is_float or (isinstance(expr.b, IntImm) and expr.b.value != 0)
        return 0 if safe else MAY_FAIL
    if isinstance(expr, Call):
        if not is_pure(expr):
            return HAS_EFFECTS | MAY_FAIL
        return 0 if expr.op.get_attr("total") else MAY_FAIL  # type: ignore[union-attr]
    if type(expr) in _TOTAL or (expr.dtype.is_bool and hasattr(expr, "a")):
        return 0
    return MAY_FAIL  # an expression of another room: a load may be out of bounds
