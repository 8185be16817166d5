"""Solve a comparison for one variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    Analyzer,
    CompareExpr,
    FloorDiv,
    IntImm,
    Mul,
    PrimExpr,
    Sub,
    Var,
    const,
    convert,
    uses,
)
from .int_set import Domains, IntervalSet, IntSet, as_ends, as_set, ends_of
from .pattern import linear_terms


def deduce_bound(var: Var, cond: Any, hint_map: Domains | None = None, relax_map: Domains | None = None) -> IntervalSet:
    """Interval of a variable in which a comparison holds for all values of the variables in `relax_map`.

        deduce_bound(x, x * 4 + y < n, {}, {y: IntervalSet(0, 3)})        up to (n - 4) // 4

    `hint_map` holds the domains of other variables, which may decide the sign of a factor; they may occur in the
    result. Returns the empty set if no bound is found: the variable must be under sums, products with factors of known
    sign, and quotients only.
    """
    condition = convert(cond)
    hints, relaxed = hint_map or {}, relax_map or {}
    analyzer = _analyzer({**hints, **relaxed})
    if not uses(condition, var):
        return IntSet.everything() if analyzer.can_prove(condition) else IntSet.nothing()
    if not isinstance(condition, (LT, LE, GT, GE, EQ)) or not condition.a.dtype.is_integer:
        return IntSet.nothing()
    low = high = None
    for at_most in (True, False):
        if isinstance(condition, (GT, GE) if at_most else (LT, LE)):
            continue
        try:
            end, is_high = _solved(var, condition, at_most, analyzer)
        except _Unsolved:
            return IntSet.nothing()
        least, greatest = ends_of(end, relaxed, analyzer)
        end = least if is_high else greatest
        if end is None:
            return IntSet.nothing()
        low, high = (low, end) if is_high else (end, high)
    return as_set((low, high))


class _Unsolved(Exception):
    """Raised if a condition cannot be solved for the variable."""


def _analyzer(domains: Mapping[Var, Any]) -> Analyzer:
    analyzer = Analyzer()
    for var, domain in domains.items():
        low, high = as_ends(domain)
        if low is not None:
            analyzer.assume(var >= low)
        if high is not None:
            analyzer.assume(var <= high)
    return analyzer


def _solved(var: Var, condition: CompareExpr, at_most: bool, analyzer: Analyzer) -> tuple[PrimExpr, bool]:
    """Return (bound of the variable, True if it is the maximum), for a ≤ b (`at_most`) or a ≥ b in the condition."""
    left, right = condition.a, condition.b
    if isinstance(condition, LT):
        right = right - 1
    elif isinstance(condition, GT):
        right = right + 1
    if not uses(left, var):
        left, right, at_most = right, left, not at_most
    elif uses(right, var):
        left, right = left - right, const(0, right.dtype)
    while not isinstance(left, Var):
        left, right, at_most = _step(var, left, right, at_most, analyzer)
    return analyzer.simplify(right), at_most


def _step(
    var: Var, left: PrimExpr, right: PrimExpr, at_most: bool, analyzer: Analyzer
) -> tuple[PrimExpr, PrimExpr, bool]:
    """Move the outermost operation of the left side, which contains the variable, to the right side."""
    if isinstance(left, (Add, Sub, Mul)) and uses(left.a, var) and uses(left.b, var):
        terms = linear_terms(left, {var})
        if terms is None:
            raise _Unsolved
        return var * analyzer.simplify(terms[0][var]), right - terms[1], at_most
    match left:
        case Add():
            inner, other = (left.a, left.b) if uses(left.a, var) else (left.b, left.a)
            return inner, right - other, at_most
        case Sub() if uses(left.a, var):
            return left.a, right + left.b, at_most
        case Sub():
            return left.b, left.a - right, not at_most
        case Mul():
            inner, factor = (left.a, left.b) if uses(left.a, var) else (left.b, left.a)
            return inner, *_divided(right, analyzer.simplify(factor), at_most, analyzer)
        case FloorDiv() if uses(left.a, var) and not uses(left.b, var) and analyzer.can_prove(left.b > 0):
            return left.a, right * left.b + (left.b - 1 if at_most else 0), at_most
        case _:
            raise _Unsolved


def _divided(right: PrimExpr, factor: PrimExpr, at_most: bool, analyzer: Analyzer) -> tuple[PrimExpr, bool]:
    """Bound of x, where x · factor is at most (or at least) `right`."""
    if analyzer.can_prove(factor < 0):
        right, at_most = analyzer.simplify(-right), not at_most
        factor = IntImm(factor.dtype, -factor.value) if isinstance(factor, IntImm) else -factor
    elif not analyzer.can_prove(factor > 0):
        raise _Unsolved
    return (right if at_most else right + (factor - 1)) // factor, at_most
