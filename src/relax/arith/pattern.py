"""Recognition of linear expressions and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..prim import EQ, GE, GT, LE, LT, Add, Analyzer, IntImm, Mul, PrimExpr, Sub, Var, const, convert, free_vars
from ..prim.intrin import max as maximum
from ..prim.intrin import min as minimum
from ..prim.learn import conjuncts


def detect_linear_equation(expr: Any, var_list: Sequence[Var]) -> list[PrimExpr]:
    """Coefficients of the variables in a linear expression, followed by its base; [] if it is not linear.

    detect_linear_equation(x * 4 + y * 6 + 7, [x])      [4, y * 6 + 7]
    """
    value = convert(expr)
    terms = linear_terms(value, set(var_list))
    if terms is None:
        return []
    coefficients, base = terms
    analyzer, zero = Analyzer(), const(0, value.dtype)
    return [analyzer.simplify(term) for term in (*(coefficients.get(v, zero) for v in var_list), base)]


Linear = tuple[dict[Var, PrimExpr], PrimExpr]
"""Coefficient of each variable, and the base."""


def linear_terms(expr: PrimExpr, variables: set[Var]) -> Linear | None:
    """Coefficients and base of an expression that is linear in the variables; None otherwise."""
    zero, one = const(0, expr.dtype), const(1, expr.dtype)
    if isinstance(expr, Var) and expr in variables:
        return {expr: one}, zero
    if not any(var in variables for var in free_vars(expr)):
        return {}, expr
    if not isinstance(expr, (Add, Sub, Mul)):
        return None
    left, right = linear_terms(expr.a, variables), linear_terms(expr.b, variables)
    if left is None or right is None:
        return None
    if isinstance(expr, Mul):
        if left[0] and right[0]:
            return None
        (terms, base), factor = (left, right[1]) if left[0] else (right, left[1])
        return {var: _times(c, factor) for var, c in terms.items()}, _times(base, factor)
    terms = dict(left[0])
    for var, c in right[0].items():
        mine = terms.get(var, zero)
        terms[var] = mine + c if isinstance(expr, Add) else mine - c
    base = left[1] + right[1] if isinstance(expr, Add) else left[1] - right[1]
    return terms, base


def _times(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return b if isinstance(a, IntImm) and a.value == 1 else a * b


def detect_clip_bound(expr: Any, var_list: Sequence[Var]) -> list[PrimExpr | None]:
    """Bounds of variables in a conjunction: [min, max, min, max, ...], None for a missing one.

        detect_clip_bound(And(x + 1 < n, x >= 2), [x])        [2, n - 2]

    Each part is a comparison linear in one of the variables, with a constant factor; [] if one is not.
    """
    bounds: dict[Var, list[PrimExpr | None]] = {var: [None, None] for var in var_list}
    for condition, truth in conjuncts(convert(expr)):
        bound = _bound(condition, bounds) if truth else None
        if bound is None:
            return []
        var, low, high = bound
        mine = bounds[var]
        mine[0] = low if mine[0] is None else mine[0] if low is None else maximum(mine[0], low)
        mine[1] = high if mine[1] is None else mine[1] if high is None else minimum(mine[1], high)
    analyzer = Analyzer()
    return [None if end is None else analyzer.simplify(end) for ends in bounds.values() for end in ends]


def _bound(condition: PrimExpr, variables: Mapping[Var, Any]) -> tuple[Var, PrimExpr | None, PrimExpr | None] | None:
    """Variable that a comparison bounds, with its minimum and maximum."""
    if not isinstance(condition, (LT, LE, GT, GE, EQ)) or not condition.a.dtype.is_integer:
        return None
    terms = linear_terms(condition.a - condition.b, set(variables))
    if terms is None or len(terms[0]) != 1:
        return None
    ((var, coefficient),) = terms[0].items()
    factor, base = Analyzer().simplify(coefficient), terms[1]
    if not isinstance(factor, IntImm) or factor.value == 0:
        return None
    # factor · var + base compared with 0: at most `most`, at least `least`
    most = -base - 1 if isinstance(condition, LT) else -base if isinstance(condition, (LE, EQ)) else None
    least = 1 - base if isinstance(condition, GT) else -base if isinstance(condition, (GE, EQ)) else None
    if factor.value < 0:
        most, least = (None if end is None else -end for end in (least, most))
    by = abs(factor.value)
    low = None if least is None else (least + (by - 1)) // by
    return var, low, None if most is None else most // by
