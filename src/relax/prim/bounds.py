"""Bounds of polynomials: integer bounds from the ranges of variables and from known inequalities.

`Bounds.upper` looks for the best of what a few relaxations give, each of them sound:

    sum of the ranges of the terms
    c·(x // c) is x - r, 0 ≤ r < c                         a quotient gives way to its dividend
    c·(x // c) ≤ x   and   c·(x // c) ≥ x - c + 1
    x // y ≤ x  for x ≥ 0, y ≥ 1
    max(x, y) is x or y, and at least either               a maximum to its operands, a choice to its arms
    p ≤ p + k·m·g  for a known g ≥ 0, k ≥ 0, m ≥ 0          an inequality cancels a term
    x = least + x', x' ≥ 0                                  products of variables with a positive minimum

The search is bounded in depth and in steps. Arithmetic is that of unbounded integers; whether an expression has the
value of its polynomial is `Bounds.fits`. For int64 there are two kinds of arithmetic (`Facts.wraps`):

    of sizes     a result that needs more than 64 bits is an error of the program: sizes and what is computed from
                 them never overflow
    of machines  every operation wraps around; a size is less than 2^48, and only what bounds prove to fit does
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field
from operator import itemgetter
from typing import Any, NamedTuple, cast

from ..ir import DataType
from ..runtime.records import dataclass
from . import intervals
from .examples import Examples
from .expr import INT64, FloorDiv, FloorMod, Max, PrimExpr, Select, Var
from .intervals import EVERYTHING, INF, OPERATIONS, Bound, Interval, dtype_range, interval_power, interval_times
from .poly import (
    Atom,
    Factor,
    Monomial,
    Poly,
    add,
    degree,
    factors_of,
    multiply,
    scaled,
    times_monomial,
    value_of,
    without,
)
from .tables import Table, copied, noted

DEPTH = 4
FUEL = 400
"""The most terms of relaxed polynomials that one search looks at."""
REMAINDERS = 8
"""The number of inequalities of remainders by unknown divisors that are known at a time: two for each."""
LARGE = 32
DEEP = 6
"""Of polynomials with more terms, or longer ones, only the ranges of the terms are added up."""


EFFORT = 20_000
"""The most terms that all the bounds of one question look at; beyond it only ranges are added up."""


class Budget:
    """The budget of a question that asks for many bounds, counted as `FUEL` is."""

    __slots__ = ("left", "unsure")

    def __init__(self, terms: int = EFFORT) -> None:
        self.left = terms
        self.unsure = False
        """True if the question met something that is not known to fit its dtype."""

    def refill(self) -> None:
        """Begin the next question."""
        self.left = EFFORT
        self.unsure = False


@dataclass
class Facts:
    """Facts about variables, for one scope."""

    values: Table[Var, PrimExpr] = field(default_factory=dict[Var, PrimExpr])
    """Variables that stand for expressions."""
    solved: Table[Var, Poly] = field(default_factory=dict[Var, Poly])
    """Variables that equations give in terms of others; none of them occurs in any other fact."""
    ranges: Table[Var, Interval] = field(default_factory=dict[Var, Interval])
    nonnegative: list[Poly] = field(default_factory=list[Poly])
    """Polynomials known to be ≥ 0."""
    nonzero: list[Poly] = field(default_factory=list[Poly])
    truths: Table[Any, bool] = field(default_factory=dict[Any, bool])
    """Conditions known to hold or not, by their keys."""
    mentioned: Table[Factor, None] = field(default_factory=dict[Factor, None])
    """Factors of polynomials in `solved`, `nonnegative` and `nonzero`; perhaps of some that are there no more."""
    limits: tuple[tuple[PrimExpr, int], ...] = ()
    """Expressions of sizes that are computed without overflow, and what they are at most; inner ones first."""
    wraps: bool = False
    """True if int64 arithmetic on sizes wraps around, as machines compute it; else its overflow is an error."""
    revision: int = 0
    """The number of changes of `ranges`, which `set_range` counts: those who keep what follows from them look at it."""

    def set_range(self, var: Var, values: Interval) -> None:
        """Note where a variable lies."""
        self.ranges[var] = values
        self.revision += 1

    def copy(self) -> Facts:
        return Facts(
            copied(self.values),
            copied(self.solved),
            copied(self.ranges),
            list(self.nonnegative),
            list(self.nonzero),
            copied(self.truths),
            copied(self.mentioned),
            self.limits,
            self.wraps,
        )

    def add_nonnegative(self, p: Poly) -> None:
        """Note that p ≥ 0."""
        self.nonnegative.append(p)
        noted(self.mentioned, factors_of(p))

    def add_nonzero(self, p: Poly) -> None:
        """Note that p ≠ 0."""
        self.nonzero.append(p)
        noted(self.mentioned, factors_of(p))

    def add_solved(self, variable: Var, image: Poly) -> None:
        """Note what a variable is."""
        self.solved[variable] = image
        noted(self.mentioned, factors_of(image))

    @property
    def empty(self) -> bool:
        return not (
            self.values
            or self.solved
            or self.ranges
            or self.nonnegative
            or self.nonzero
            or self.truths
            or self.limits
            or self.wraps
        )


def assume_nonnegative(facts: Facts, p: Poly) -> None:
    """Add p ≥ 0: as a range, if it is of one variable."""
    terms = [(m, c) for m, c in p.items() if m]
    var = _ranged(terms[0][0]) if len(terms) == 1 else None
    if var is not None:
        coefficient, number = terms[0][1], p.get((), 0)
        low, high = facts.ranges.get(var, EVERYTHING)
        # c·x + k ≥ 0: x ≥ -k/c rounded up, or x ≤ k/-c rounded down.
        if coefficient > 0:
            low = max(low, -(number // coefficient))
        else:
            high = min(high, number // -coefficient)
        facts.set_range(var, (low, high))
    elif terms:
        facts.add_nonnegative(p)


def _ranged(monomial: Monomial) -> Var | None:
    """The variable a monomial is, seen through a conversion that keeps every value."""
    if len(monomial) != 1:
        return None
    factor = monomial[0]
    while isinstance(factor, Atom) and factor.kind == "cast":
        ((inner, _),) = factor.args[0].items()
        (low, high), (least, most) = dtype_range(inner[0].dtype), dtype_range(factor.dtype)
        if low < least or high > most:
            return None
        factor = inner[0]
    return factor if isinstance(factor, Var) else None


class _Term(NamedTuple):
    """A term of a polynomial known to be ≥ 0."""

    place: int
    known: Poly
    monomial: Monomial
    coefficient: int


class Bounds:
    """Bounds of polynomials under some facts."""

    def __init__(self, facts: Facts, rank: Table[Factor, int], budget: Budget | None = None) -> None:
        self.facts = facts
        self.budget = Budget() if budget is None else budget
        self.rank = rank
        """The order in which factors occurred; shared with the normalizer."""
        self.limits: dict[Monomial, int] = {}
        """Products of sizes, and what they are at most."""
        self.remainders: tuple[Poly, ...] = ()
        """Polynomials ≥ 0 that say of remainders by unknown divisors, of which nothing overflows, where they lie."""
        self._fuel = 0
        self._cut = False
        """True if the search ended where it might have gone deeper."""
        self._uppers: dict[Any, Bound] = {}
        self._inequalities: dict[Factor, list[_Term]] = {}
        self._indexed = 0
        """The number of inequalities in `_inequalities`."""
        self._variable_ranges: dict[Var, tuple[Interval | None, Interval]] = {}
        self._atom_ranges: dict[Atom, Interval] = {}
        self._product_ranges: dict[Monomial, Interval] = {}
        self._examples: tuple[Any, Examples] | None = None
        """Examples, and the facts that they fulfil."""
        self._spans: dict[Monomial, Interval] = {}
        """The values of products, as long as no range and no limit changes."""
        self._revision = facts.revision
        self._remainders: dict[Atom, Atom] = {}
        self._bounded: dict[Atom, bool] = {}

    # ------------------------------------------------------------------------------------- questions

    def upper(self, p: Poly, depth: int = DEPTH, fuel: int = FUEL, enough: Bound = -INF) -> Bound:
        """No value of `p` is larger than this. The search goes `depth` relaxations deep, over `fuel` terms in all.

        It ends when the bound is `enough`.
        """
        best = self._direct_upper(p)
        if best <= enough or not self._may_improve(p):
            return best
        # The laws of minima and maxima, and checks that an operation fits, ask the same again and again.
        key = frozenset(p.items()), depth, fuel, enough, len(self.facts.nonnegative)
        known = self._uppers.get(key)
        if known is not None:
            return known
        if enough > -INF and self._is_refuted(p, enough):
            self._uppers[key] = best
            return best
        # Where what fits must be proved each time, short proofs are looked for first.
        for deep in range(1, depth + 1) if self.facts.wraps and enough > -INF else (depth,):
            self._fuel, self._cut = fuel, False
            best = min(best, self._upper(p, deep, enough))
            if best <= enough or not self._cut or self._fuel <= 0:
                break
        if self.budget.left > 0:
            self._uppers[key] = best
        return best

    def _is_refuted(self, p: Poly, most: Bound) -> bool:
        """True if p is more than `most` in an example, so that no search finds that it is not."""
        facts = self.facts
        state = facts.revision, len(facts.nonnegative), self.remainders, len(self.limits)
        if self._examples is None or self._examples[0] != state:
            self._examples = state, Examples(self.factor_range)
        return self._examples[1].refute(p, most, (*self.remainders, *facts.nonnegative), self.limits)

    def _upper(self, p: Poly, depth: int, enough: Bound) -> Bound:
        best = self._direct_upper(p)
        if best <= enough or len(p) > LARGE or degree(p) > DEEP or not self._may_improve(p):
            return best
        if depth == 0:
            self._cut = True
            return best
        budget = self.budget
        for relaxed, divisor in self._relaxations(p):
            if self._fuel <= 0 or budget.left <= 0:
                break
            work = 1
            for q in relaxed:
                work += len(q)
            self._fuel -= work
            budget.left -= work
            bound = self._upper(relaxed[0], depth - 1, enough * divisor)
            for q in relaxed[1:]:
                bound = max(bound, self._upper(q, depth - 1, enough * divisor))
            if divisor != 1:
                bound //= divisor
            if bound < best:
                best = bound
                if best <= enough:
                    break
        return best

    def lower(self, p: Poly, enough: Bound = INF) -> Bound:
        """No value of `p` is smaller than this."""
        return -self.upper(scaled(p, -1), enough=-enough)

    def interval(self, p: Poly) -> Interval:
        """Between which values `p` lies."""
        return self.lower(p), self.upper(p)

    def is_nonzero(self, p: Poly) -> bool:
        """True if `p` is certainly not 0."""
        value = value_of(p)
        if value is not None:
            return value != 0
        divisor = math.gcd(*(c for m, c in p.items() if m))
        if divisor and p.get((), 0) % divisor:
            return True
        if self.upper(p, enough=-1) < 0 or self.lower(p, 1) > 0:
            return True
        return any(value_of(add(p, known, sign)) == 0 for known in self.facts.nonzero for sign in (1, -1))

    def fits(self, p: Poly, dtype: DataType) -> bool:
        """True if arithmetic in this dtype gives the value of the polynomial, without wrapping around."""
        return self.is_at_most(p, dtype) and self.is_at_least(p, dtype)

    def is_at_most(self, p: Poly, dtype: DataType) -> bool:
        """True if arithmetic in this dtype gives the polynomial's value or less: no value lies below the dtype's."""
        return self._stays(scaled(p, -1), -dtype_range(dtype)[0], dtype)

    def is_at_least(self, p: Poly, dtype: DataType) -> bool:
        """True if arithmetic in this dtype gives the polynomial's value or more: no value lies above the dtype's."""
        return self._stays(p, dtype_range(dtype)[1], dtype)

    def _stays(self, p: Poly, most: Bound, dtype: DataType) -> bool:
        if self._direct_upper(p) <= most:
            return True
        stays = self._stays_with_effort(p, most, dtype)
        self.budget.unsure = self.budget.unsure or not stays
        return stays

    def _stays_with_effort(self, p: Poly, most: Bound, dtype: DataType) -> bool:
        if dtype == "int64" and self.is_size(p):
            return True
        if not self._may_improve(p):
            return False
        if not self.facts.wraps:
            return self.upper(p, 2, 60) <= most
        return self.upper(p, enough=most) <= most

    def is_size(self, p: Poly) -> bool:
        """True if a polynomial is of sizes and indices alone, whose arithmetic does not overflow here."""
        return not self.facts.wraps and self._is_dimension_arithmetic(p)

    def _is_dimension_arithmetic(self, p: Poly) -> bool:
        for monomial in p:
            for factor in monomial:
                if not (self._is_bounded_var(factor) if isinstance(factor, Var) else self._is_bounded_atom(factor)):
                    return False
        return True

    def _is_bounded_var(self, var: Var) -> bool:
        """True if a variable is a size, or lies between numbers or sizes; others may hold any int64."""
        if var.nonnegative or var.dtype != "int64":
            return True
        (low, high), (least, most) = self.variable_range(var), dtype_range(var.dtype)
        return (low > least or self._is_compared(var, 1)) and (high < most or self._is_compared(var, -1))

    def _is_compared(self, var: Var, sign: int) -> bool:
        return any(known.get((var,), 0) * sign > 0 for known in self.facts.nonnegative)

    def _is_bounded_atom(self, atom: Atom) -> bool:
        known = self._bounded.get(atom)
        if known is None:
            if atom.args and atom.exact:
                known = all(self._is_dimension_arithmetic(arg) for arg in atom.args)
            else:
                (low, high), (least, most) = self._atom_range(atom), dtype_range(INT64)
                known = low > least and high < most
            self._bounded[atom] = known
        return known

    # --------------------------------------------------------------------------------------- ranges

    def factor_range(self, factor: Factor) -> Interval:
        """The values of a factor."""
        return self.variable_range(factor) if isinstance(factor, Var) else self._atom_range(factor)

    def variable_range(self, var: Var) -> Interval:
        given = self.facts.ranges.get(var)
        known = self._variable_ranges.get(var)
        if known is None or known[0] is not given:
            low, high = intervals.variable_range(var)
            both = (low, high) if given is None else (max(low, given[0]), min(high, given[1]))
            known = self._variable_ranges[var] = given, both
        return known[1]

    def monomial_range(self, monomial: Monomial) -> Interval:
        """The values of a product."""
        if self._revision != self.facts.revision:
            self._spans.clear()
            self._revision = self.facts.revision
        span = self._spans.get(monomial)
        if span is None:
            span = self._spans[monomial] = self._span(monomial)
        return span

    def _span(self, monomial: Monomial) -> Interval:
        """The values of a product; of one with several factors those of the factors are multiplied once."""
        if len(monomial) == 1:
            factor = monomial[0]
            if type(factor) is Var:
                return self.variable_range(factor)
            return self._atom_range(factor)
        result = self._product_ranges.get(monomial)
        if result is None:
            result = (1, 1)
            for factor in dict.fromkeys(monomial):
                count = sum(1 for other in monomial if other is factor)
                result = interval_times(result, interval_power(self.factor_range(factor), count))
            self._product_ranges[monomial] = result
        return result[0], min(result[1], self.limits.get(monomial, INF))

    def remember_remainder(self, remainder: Poly, divisor: Poly) -> None:
        """From here on 0 ≤ remainder < divisor. The last few are known: those that a question is about."""
        known = self.remainders[2 - REMAINDERS :]
        self.remainders = (*known, remainder, add(add(divisor, remainder, -1), {(): -1}))
        self._uppers.clear()
        self._indexed = 0

    def limit(self, p: Poly, most: int) -> bool:
        """From here on p ≤ most, if its terms are products of sizes, all added; whether that is so."""
        if any(c <= 0 or self.monomial_range(m)[0] < 0 for m, c in p.items()):
            return False
        for monomial, coefficient in p.items():
            if len(monomial) > 1:
                self.limits[monomial] = min(most // coefficient, self.limits.get(monomial, most))
                self._spans.pop(monomial, None)
        return True

    def _direct_upper(self, p: Poly) -> Bound:
        """The sum of the greatest values of the terms."""
        if self._revision != self.facts.revision:
            self._spans.clear()
            self._revision = self.facts.revision
        spans, total = self._spans, cast(Bound, 0)
        for monomial, coefficient in p.items():
            if coefficient and monomial:
                span = spans.get(monomial)
                if span is None:
                    span = spans[monomial] = self._span(monomial)
                extreme = span[coefficient > 0]
                if extreme:
                    total += coefficient * extreme
            else:
                total += coefficient
        return total

    def is_evident(self, p: Poly) -> bool:
        """True if p ≥ 0 by the ranges of its terms."""
        return self._direct_upper(scaled(p, -1)) <= 0

    def _direct(self, p: Poly) -> Interval:
        return -self._direct_upper(scaled(p, -1)), self._direct_upper(p)

    def _atom_range(self, atom: Atom) -> Interval:
        known = self._atom_ranges.get(atom)
        if known is None:
            rule = OPERATIONS.get(atom.kind) if atom.exact or not atom.args else None
            known = low, high = dtype_range(atom.dtype)
            if rule is not None:
                inner = rule(*(self._direct(arg) for arg in atom.args))
                if atom.ideal:
                    known = inner
                elif atom.kind != "cast":
                    known = max(low, inner[0]), min(high, inner[1])
                elif low <= inner[0] and inner[1] <= high:  # else the conversion may have wrapped around
                    known = inner
            self._atom_ranges[atom] = known
        return known

    # ---------------------------------------------------------------------------------- relaxations

    def _may_improve(self, p: Poly) -> bool:
        """True if the sum of the ranges may be bettered: terms depend on each other, or on known facts."""
        if self.facts.nonnegative or self.remainders:
            return True
        for monomial in p:  # noqa: SIM110 - as in `is_partial`
            if len(monomial) > 1 or (monomial and type(monomial[0]) is Atom):
                return True
        return False

    def _relaxations(self, p: Poly) -> Iterator[tuple[list[Poly], int]]:
        """Polynomials at least one of which, divided by the number, is ≥ p."""
        if self.facts.wraps:  # what is asked most is whether a product of sizes and indices fits
            yield from self._with_inequalities(p)
        yield from self._with_remainders(p)
        products = False
        for monomial, coefficient in p.items():
            if not coefficient:
                continue
            several = len(monomial) > 1
            products = products or several
            for factor in dict.fromkeys(monomial) if several else monomial:
                if type(factor) is Atom and factor.exact and factor.kind in _ELIMINATED:
                    yield from self._eliminate(p, monomial, coefficient, factor)
        if not self.facts.wraps:
            yield from self._with_inequalities(p)
        if products:
            yield from self._shifted(p)

    def _with_remainders(self, p: Poly) -> Iterator[tuple[list[Poly], int]]:
        """p with c·(x // c) written as x - r, r the remainder, which lies in [0, c)."""
        for monomial, coefficient in p.items():
            if _multiplied_quotient(monomial, coefficient) is not None:
                break
        else:
            return
        pending = list(p.items())
        result: Poly = {}
        for _ in range(2 * LARGE):
            if not pending:
                break
            monomial, coefficient = pending.pop()
            quotient = _multiplied_quotient(monomial, coefficient)
            if quotient is None:
                result = add(result, {monomial: coefficient})
                continue
            others = cast("Monomial", without(monomial, (quotient,)))
            exchanged = add(quotient.args[0], {(self._remainder(quotient),): 1}, -1)
            times = coefficient // cast(int, value_of(quotient.args[1]))
            pending.extend(times_monomial(exchanged, others, times).items())
        if not pending:
            yield [result], 1

    def _remainder(self, quotient: Atom) -> Atom:
        known = self._remainders.get(quotient)
        if known is None:
            known = Atom(FloorMod, quotient.args, quotient.dtype, None, quotient.partial, True, quotient.ideal)
            self._remainders[quotient] = known
        return known

    def _eliminate(self, p: Poly, monomial: Monomial, coefficient: int, atom: Atom) -> Iterator[tuple[list[Poly], int]]:
        others = cast("Monomial", without(monomial, (atom,)))
        rest = {m: c for m, c in p.items() if m is not monomial}

        def put(value: Poly, factors: Monomial = others, scale: int = 1) -> Poly:
            return add(scaled(rest, scale), times_monomial(value, factors, coefficient))

        if atom.kind == Select:
            yield [put(arm) for arm in atom.args], 1
        elif atom.kind is Max:
            yield [put(arm) for arm in atom.args], 1
            if coefficient < 0 and self.monomial_range(others)[0] >= 0:
                for arm in atom.args:
                    yield [put(arm)], 1
        else:
            yield from self._eliminate_quotient(others, coefficient, atom, put)

    def _eliminate_quotient(
        self, others: Monomial, coefficient: int, atom: Atom, put: Any
    ) -> Iterator[tuple[list[Poly], int]]:
        dividend, divisor = atom.args
        number = value_of(divisor)
        if number is None:
            # c·y·(x // y) with a divisor that stands beside its quotient; y ≥ 1 where there is a value.
            ((y, scale),) = divisor.items() if len(divisor) == 1 else (((), 0),)
            left = without(others, y) if scale == 1 else None
            if left is not None and self.monomial_range(y)[0] >= 0 and self.monomial_range(left)[0] >= 0:
                least = add(add(dividend, divisor, -1), {(): 1})
                yield [put(dividend if coefficient > 0 else least, left)], 1
            elif coefficient > 0 and min(self._direct(dividend)[0], self._direct(divisor)[0]) >= 0:
                yield from [([put(dividend)], 1)] if self.monomial_range(others)[0] >= 0 else []
        elif number > 0 and self.monomial_range(others)[0] >= 0:
            least = add(dividend, {(): 1 - number})
            yield [put(dividend if coefficient > 0 else least, others, number)], number

    def _with_inequalities(self, p: Poly) -> Iterator[tuple[list[Poly], int]]:
        inequalities = self._by_leading_factor()
        if not inequalities:
            return
        matches: list[tuple[int, int, _Term, Monomial, int]] = []
        for place, (mine, a) in enumerate(p.items()):
            for factor in dict.fromkeys(mine) if len(mine) > 1 else mine:
                terms = inequalities.get(factor)
                if terms is not None:
                    for term in terms:
                        if a * term.coefficient < 0:
                            matches.append((term.place, place, term, mine, a))
        if len(matches) > 1:
            matches.sort(key=_PLACES)
        for _, _, term, mine, a in matches:
            left = without(mine, term.monomial)
            if left is not None and self.monomial_range(left)[0] >= 0:
                common = math.gcd(a, term.coefficient)
                times = times_monomial(term.known, left, abs(a) // common)
                yield ([add(scaled(p, abs(term.coefficient) // common), times)], abs(term.coefficient) // common)

    def _by_leading_factor(self) -> dict[Factor, list[_Term]]:
        """The terms of known inequalities by their first factor; `place` is the order in which they are tried."""
        inequalities = (*self.remainders, *self.facts.nonnegative)
        if len(inequalities) != self._indexed:
            self._inequalities, self._indexed = {}, len(inequalities)
            place = 0
            for known in inequalities:
                for monomial, coefficient in known.items():
                    place += 1
                    if monomial:
                        term = _Term(place, known, monomial, coefficient)
                        self._inequalities.setdefault(monomial[0], []).append(term)
        return self._inequalities

    def _shifted(self, p: Poly) -> Iterator[tuple[list[Poly], int]]:
        """p as polynomial of x' = x - least, for the variables with a least value above 0."""
        moved: dict[Factor, Bound] = {}
        for monomial in p:
            for factor in monomial:
                low, _ = self.factor_range(factor)
                if low < 0:
                    return
                moved[factor] = low
        if not any(moved.values()):
            return
        result: Poly = {}
        for monomial, coefficient in p.items():
            term: Poly = {(): coefficient}
            for factor in monomial:
                term = multiply(term, {(factor,): 1, (): int(moved[factor])})
            result = add(result, term)
        # The factors of `result` are ≥ 0 with no upper bound: a positive term makes it unbounded.
        if all(c <= 0 for m, c in result.items() if m):
            yield [{(): result.get((), 0)}], 1


def _multiplied_quotient(monomial: Monomial, coefficient: int) -> Atom | None:
    """The first factor x // c of a term of which c divides the coefficient."""
    for factor in monomial:
        if type(factor) is Atom and factor.kind is FloorDiv and factor.exact:
            number = value_of(factor.args[1])
            if number is not None and number > 0 and coefficient % number == 0:
                return factor
    return None


_PLACES = itemgetter(0, 1)

_ELIMINATED = (FloorDiv, Max, Select)
