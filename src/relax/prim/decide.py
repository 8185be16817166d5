"""Comparisons: decided by the facts, or added to them."""

from __future__ import annotations

from collections.abc import Iterator

from .bounds import Bounds, Facts, assume_nonnegative
from .cases import Claim, claim_by_cases
from .expr import EQ, GE, GT, LE, LT, NE, And, Call, CompareExpr, IntImm, Let, Not, Or, PrimExpr, Select, Var
from .functor import sub_expressions
from .normal import DIVISIONS, Normalizer
from .poly import Poly, add, scaled, value_of, vanishes
from .traits import has_effects, may_fail

_OPPOSITE: dict[type[CompareExpr], type[CompareExpr]] = {EQ: NE, NE: EQ, LT: GE, GE: LT, GT: LE, LE: GT}


def decide(normalizer: Normalizer, expr: CompareExpr) -> bool | None:
    """Truth of an integer comparison for all values of its variables; None if undecided."""
    dtype, bounds = expr.a.dtype, normalizer.bounds
    left, right = normalizer.normal(expr.a), normalizer.normal(expr.b)
    difference = add(left, right, -1)
    kind = type(expr)
    if vanishes(difference, dtype):
        return kind in (EQ, LE, GE)
    exact = bounds.fits(left, dtype) and bounds.fits(right, dtype)
    if kind in (EQ, NE):
        different = value_of(difference) is not None or (exact and bounds.is_nonzero(difference))
        if different:
            return kind is NE
        # Without facts, what bounds make 0 has the normal form 0 already.
        equal = (
            exact
            and not bounds.facts.empty
            and (bounds.upper(difference, enough=0) <= 0 <= bounds.lower(difference, 0))
        )
        return kind is EQ if equal else None
    if kind in (GT, GE):
        left, right, difference = right, left, scaled(difference, -1)
    if kind in (LT, GT):
        difference = add(difference, {(): 1})
    # left ≤ right follows from the polynomials where wrapping around makes the left no greater, the right no less.
    if bounds.is_at_most(left, dtype) and bounds.is_at_least(right, dtype) and bounds.upper(difference, enough=0) <= 0:
        return True
    above = bounds.is_at_least(left, dtype) and bounds.is_at_most(right, dtype)
    return False if above and bounds.lower(difference, 1) > 0 else None


def decide_by_cases(normalizer: Normalizer, expr: CompareExpr) -> bool | None:
    """Like `decide`, by cases (see `cases`). Slower, so for proofs only."""
    dtype, bounds, kind = expr.a.dtype, normalizer.bounds, type(expr)
    left, right = normalizer.normal(expr.a), normalizer.normal(expr.b)
    difference = add(left, right, -1)
    if kind in (EQ, NE):
        exact = bounds.fits(left, dtype) and bounds.fits(right, dtype)
        claim = claim_by_cases(normalizer, difference, (Claim.ZERO, Claim.NONZERO) if exact else ())
        return None if claim is None else (claim is Claim.ZERO) is (kind is EQ)
    if kind in (GT, GE):
        left, right, difference = right, left, scaled(difference, -1)
    if kind in (LT, GT):
        difference = add(difference, {(): 1})
    below = bounds.is_at_most(left, dtype) and bounds.is_at_least(right, dtype)
    above = bounds.is_at_least(left, dtype) and bounds.is_at_most(right, dtype)
    claims = (Claim.NONPOSITIVE,) * below + (Claim.POSITIVE,) * above
    claim = claim_by_cases(normalizer, difference, claims)
    return None if claim is None else claim is Claim.NONPOSITIVE


def where_defined(normalizer: Normalizer, *exprs: PrimExpr) -> Normalizer:
    """Normalizer under the assumption that the divisors in `exprs` are not 0, as where they have values."""
    divisors = [divisor for expr in exprs for divisor in _divisors(expr)]
    if not divisors:
        return normalizer
    facts = normalizer.facts.copy()
    for divisor in divisors:
        p = normalizer.normal(divisor)
        if normalizer.bounds.fits(p, divisor.dtype) and not normalizer.bounds.is_nonzero(p):
            facts.add_nonzero(p)
            if normalizer.bounds.lower(p, 0) >= 0:
                for monomial, coefficient in p.items() if len(p) == 1 else ():
                    for factor in monomial if coefficient > 0 else ():
                        assume_nonnegative(facts, {(factor,): 1, (): -1})
                assume_nonnegative(facts, add(p, {(): -1}))
    return normalizer if len(facts.nonzero) == len(normalizer.facts.nonzero) else normalizer.under(facts)


def _divisors(expr: PrimExpr) -> Iterator[PrimExpr]:
    """Divisors evaluated in every evaluation of an expression, except constants."""
    pending, seen = [expr], set[int]()
    while pending:
        part = pending.pop()
        if id(part) in seen or not may_fail(part) or isinstance(part, (Select, Let, Call)):
            continue
        seen.add(id(part))
        if isinstance(part, DIVISIONS) and part.dtype.is_integer and not isinstance(part.b, IntImm):
            yield part.b
        pending += sub_expressions(part)


def assume(normalizer: Normalizer, facts: Facts, condition: PrimExpr, holds: bool = True) -> bool:
    """Add to `facts` the consequences of a condition that holds (or does not); return False if there are none."""
    if isinstance(condition, IntImm) or has_effects(condition):
        return False
    if isinstance(condition, Not):
        return assume(normalizer, facts, condition.a, not holds)
    if isinstance(condition, Call) and condition.intrinsic == "likely":
        return assume(normalizer, facts, condition.args[0], holds)
    if isinstance(condition, And if holds else Or):
        assert isinstance(condition, (And, Or))
        first = assume(normalizer, facts, condition.a, holds)
        return assume(normalizer, facts, condition.b, holds) or first
    facts.truths[normalizer.key(condition)] = holds
    if isinstance(condition, CompareExpr) and condition.a.dtype.is_integer and condition.a.dtype.lanes == 1:
        _assume_comparison(normalizer, facts, condition, holds)
    return True


def _assume_comparison(normalizer: Normalizer, facts: Facts, condition: CompareExpr, holds: bool) -> None:
    kind = type(condition) if holds else _OPPOSITE[type(condition)]
    a, b, dtype = condition.a, condition.b, condition.a.dtype
    left, right = normalizer.normal(a), normalizer.normal(b)
    if kind is EQ:
        for var, value in ((a, b), (b, a)):
            # The value of one that stands for something else is said of that.
            if isinstance(var, Var) and isinstance(value, IntImm) and var not in facts.solved:
                facts.values.setdefault(var, value)
                return
    bounds, difference = normalizer.bounds, add(left, right, -1)
    if kind is NE and bounds.fits(left, dtype) and bounds.fits(right, dtype):
        facts.add_nonzero(difference)
    # What is said of the values is true of the polynomials where wrapping around makes the left no less, the right
    # no greater.
    if kind in (LT, LE, EQ) and bounds.is_at_least(left, dtype) and bounds.is_at_most(right, dtype):
        _assume_news(bounds, facts, add(scaled(difference, -1), {(): -1 if kind is LT else 0}))
    if kind in (GT, GE, EQ) and bounds.is_at_most(left, dtype) and bounds.is_at_least(right, dtype):
        _assume_news(bounds, facts, add(difference, {(): -1 if kind is GT else 0}))


def _assume_news(bounds: Bounds, facts: Facts, p: Poly) -> None:
    """Add p ≥ 0, unless it is known or follows from the ranges of its terms."""
    if not bounds.is_evident(p) and p not in facts.nonnegative:
        assume_nonnegative(facts, p)
