"""Proof by cases, for what the normal form and the bounds leave open.

A claim about a polynomial holds if it holds in every case of one of these divisions into cases:

    max(x, y)         is x, where x ≥ y, or y, where y ≥ x; a choice is one of its arms
    n in x // c       n = c·q + r for each r in 0 .. c-1               (c small; or each value of n, if they are few)
    n in x // y       x = y·q + r with 0 ≤ r < y, solved for n         (one case)
    n·m               n = 0, or n = n' + 1                             (n ≥ 0)

First, quotients by numbers are taken for values of their own, of which only what the facts say is known.

The cases of a case are divided in turn. Before any of this, the claim is tried on numbers: one that fails for some is
not provable, and that ends most searches that would find nothing. The rest ends by the number of cases.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import NamedTuple

from ..runtime.records import dataclass
from .bounds import Bounds, Budget, assume_nonnegative
from .expr import FloorDiv, Max, Select, Var
from .intervals import Interval, dtype_range, variable_range
from .normal import Normalizer, Overgrown
from .poly import Atom, Factor, Poly, add, constant, factors_of, multiply, scaled, times_monomial, value_of
from .sample import rootless, samples

CASES = 40
"""Maximum number of cases of one claim."""
TERMS = 3000
"""Maximum number of terms examined by bounds for one claim, whose polynomial may have a hundredth of that."""
MODULUS = 12
"""Maximum modulus whose remainders are tried one by one."""


class Claim(enum.Enum):
    """A claim about a polynomial."""

    ZERO = "= 0"
    NONZERO = "≠ 0"
    NONPOSITIVE = "≤ 0"
    POSITIVE = "> 0"


_TRUE_OF: dict[Claim, Callable[[int], bool]] = {
    Claim.ZERO: lambda value: value == 0,
    Claim.NONZERO: lambda value: value != 0,
    Claim.NONPOSITIVE: lambda value: value <= 0,
    Claim.POSITIVE: lambda value: value > 0,
}
"""Tests of numbers, by the claims that they decide."""

_FOLLOWS: dict[Claim, Callable[[Bounds, Poly], bool]] = {
    Claim.ZERO: lambda b, p: not any(p.values()) or (_nonpositive(b, p) and _nonpositive(b, scaled(p, -1))),
    Claim.NONZERO: lambda b, p: b.is_nonzero(p),
    Claim.NONPOSITIVE: lambda b, p: _nonpositive(b, p),
    Claim.POSITIVE: lambda b, p: _nonpositive(b, add(constant(1), p, -1)),
}
"""True if a claim follows from normal form and bounds."""


def _nonpositive(bounds: Bounds, p: Poly) -> bool:
    return bounds.upper(p, enough=0) <= 0 or _is_below_one(bounds, p)


def _is_below_one(bounds: Bounds, p: Poly) -> bool:
    """True if y·p < y for the divisor y ≥ 1 of quotients in `p`: c·y·(x // y) ≤ c·x, or c·(x - y + 1) for c < 0."""
    for divisor in [f.args[1] for m in p for f in m if isinstance(f, Atom) and f.kind is FloorDiv and f.exact]:
        if value_of(divisor) is not None or bounds.lower(divisor, 1) < 1:
            continue
        most = scaled(divisor, -1)
        for monomial, coefficient in p.items():
            factor = monomial[0] if len(monomial) == 1 else None
            if isinstance(factor, Atom) and factor.kind is FloorDiv and factor.exact and factor.args[1] == divisor:
                dividend = factor.args[0]
                least = add(add(dividend, divisor, -1), constant(1))
                most = add(most, dividend if coefficient > 0 else least, coefficient)
            else:
                most = add(most, times_monomial(divisor, monomial), coefficient)
        if bounds.upper(most, enough=-1) < 0:
            return True
    return False


def claim_by_cases(normalizer: Normalizer, p: Poly, claims: tuple[Claim, ...]) -> Claim | None:
    """The one of `claims` about `p` that is proven; None if none is."""
    if not claims or not _divisible(p):
        return None
    plausible = list(claims)
    for value in samples(p, normalizer.facts):
        plausible = [claim for claim in plausible if _TRUE_OF[claim](value)]
        if not plausible:
            return None
    if Claim.NONZERO in plausible and rootless(p):
        return Claim.NONZERO
    budget = Budget(TERMS)
    try:
        inside = normalizer.under(normalizer.facts, budget=budget)
        general = _generalized(inside, p)
        for claim in plausible:
            if general is not None and _FOLLOWS[claim](*general):
                return claim
            if _Search(budget).shows(inside, p, claim):
                return claim
        return None
    except Overgrown:
        return None


def _generalized(normalizer: Normalizer, p: Poly) -> tuple[Bounds, Poly] | None:
    """The polynomial with arbitrary values in place of quotients by numbers; a claim proven for it holds for `p`.

    The bounds then need not examine quotients about which enough is known, such as a minimum of 1.
    """
    atoms = [f for f in factors_of(p) if isinstance(f, Atom) and f.kind is FloorDiv and f.exact]
    case = _Case()
    for atom in atoms if len(atoms) > 1 else ():
        if value_of(atom.args[1]) is not None:
            value = Var("q", atom.dtype)
            case.images[atom] = {(value,): 1}
            case.ranges[value] = quotient_range(normalizer.bounds, atom)
    inner = _inside(normalizer, case) if case.images else None
    return None if inner is None else (inner.normalizer.bounds, inner.exchanged(p))


def _divisible(p: Poly) -> bool:
    """True if a polynomial can be divided into cases."""
    return any(len(m) > 1 or (m and isinstance(m[0], Atom) and m[0].args) for m in p)


@dataclass
class _Case:
    """A case: the values of factors in it, and the facts there."""

    images: dict[Factor, Poly] = field(default_factory=dict[Factor, Poly])
    nonnegative: list[Poly] = field(default_factory=list[Poly])
    ranges: dict[Var, Interval] = field(default_factory=dict[Var, Interval])


class _Search:
    """One search, which ends when its cases are used up."""

    def __init__(self, budget: Budget) -> None:
        self.left = CASES
        self.budget = budget
        self.positive: set[Factor] = set()
        """Variables that stand for another one less 1; not divided again."""

    def shows(self, normalizer: Normalizer, p: Poly, claim: Claim) -> bool:
        """True if the claim holds in every case."""
        if len(p) * 100 > TERMS:
            return False
        if _FOLLOWS[claim](normalizer.bounds, p):
            return True
        cases = self.division(normalizer, p)
        self.left -= len(cases)
        if not cases or self.left < 0 or self.budget.left <= 0:
            return False
        for case in cases:
            inner = _inside(normalizer, case)
            if inner is not None and not self.shows(inner.normalizer, inner.exchanged(p), claim):
                return False
        return True

    def division(self, normalizer: Normalizer, p: Poly) -> list[_Case]:
        """Cases to examine next; empty if nothing is left to divide."""
        factors = factors_of(p)
        atoms = [f for f in factors if isinstance(f, Atom) and f.exact and f.args]
        return (
            _by_arm(atoms)
            or _by_remainder(normalizer, atoms)
            or _by_quotient(normalizer, atoms)
            or self.by_zero(normalizer, p)
        )

    def by_zero(self, normalizer: Normalizer, p: Poly) -> list[_Case]:
        """n = 0, or n = n' + 1, for a size in a product."""
        for monomial in p if len(self.positive) < 8 else ():
            for factor in monomial if len(monomial) > 1 else ():
                if isinstance(factor, Var) and factor not in self.positive:
                    low, high = normalizer.bounds.variable_range(factor)
                    if low == 0:
                        less = Var("q", factor.dtype)
                        self.positive.add(less)
                        above = _Case({factor: {(less,): 1, (): 1}}, ranges={less: (0, high - 1)})
                        return [_Case({factor: {}}), above]
        return []


class _Inside(NamedTuple):
    """A normalizer within a case, and the replacement of factors by what the case says of them."""

    normalizer: Normalizer
    exchanged: Callable[[Poly], Poly]
    """Replaces in a polynomial what the case says of its factors, as it was replaced in the facts."""


def _inside(normalizer: Normalizer, case: _Case) -> _Inside | None:
    """Return a normalizer that knows the facts of a case; None if the outer facts exclude the case."""
    outer = normalizer.facts
    facts = outer.copy()
    facts.ranges.update(case.ranges)
    facts.nonnegative, facts.nonzero = [], []
    for known in case.nonnegative:
        assume_nonnegative(facts, known)
    inner = normalizer.under(facts)
    if any(inner.bounds.upper(known, enough=-1) < 0 for known in case.nonnegative):
        return None
    exchanged = inner.exchanger(case.images)  # facts mostly share their quotients
    for known in outer.nonnegative:
        now = exchanged(known)
        value = value_of(now)
        if value is None:
            assume_nonnegative(facts, now)
        elif value < 0:
            return None
    facts.nonzero += [exchanged(known) for known in outer.nonzero]
    return None if {} in facts.nonzero else _Inside(inner, exchanged)


def _by_arm(atoms: list[Atom]) -> list[_Case]:
    """A maximum is one of its operands, a choice one of its arms; an inner one first."""
    for atom in atoms:
        if atom.kind not in (Max, Select):
            continue
        below = {f.kind for arg in atom.args for f in factors_of(arg) if isinstance(f, Atom)}
        if below.isdisjoint((Max, Select)):
            return [_Case({atom: arm}, _largest(atom, arm)) for arm in atom.args]
    return []


def _largest(atom: Atom, arm: Poly) -> list[Poly]:
    others = () if atom.kind is Select else (other for other in atom.args if other is not arm)
    return [add(arm, other, -1) for other in others]


def _by_remainder(normalizer: Normalizer, atoms: list[Atom]) -> list[_Case]:
    """A variable below a quotient by a number, by its remainders; or by its values, if they are not more."""
    moduli: dict[Factor, int] = {}
    for atom in atoms:
        number = value_of(atom.args[1]) if atom.kind is FloorDiv else None
        for factor in dict.fromkeys(f for m in atom.args[0] for f in m) if number else ():
            if isinstance(factor, Var) or not factor.args:
                coefficients = [c for m, c in atom.args[0].items() if factor in m]
                modulus = (number or 1) // math.gcd(number or 1, *coefficients)
                moduli[factor] = math.lcm(moduli.get(factor, 1), modulus)
    choices = {f: modulus for f, modulus in moduli.items() if 1 < modulus <= MODULUS}
    if not choices:
        return []
    factor = min(choices, key=lambda f: choices[f])
    modulus = choices[factor]
    low, high = normalizer.bounds.factor_range(factor)
    if high - low < modulus:
        return [_Case({factor: constant(value)}) for value in range(int(low), int(high) + 1)]
    quotient = Var("q", factor.dtype)
    return [
        _Case(
            {factor: {(quotient,): modulus} | constant(r)},
            ranges={quotient: ((low - r + modulus - 1) // modulus, (high - r) // modulus)},
        )
        for r in range(modulus)
    ]


def _by_quotient(normalizer: Normalizer, atoms: list[Atom]) -> list[_Case]:
    """x over y: x = y·q + r, solved for a variable that stands alone in x."""
    bounds = normalizer.bounds
    for atom in atoms:
        if atom.kind is not FloorDiv or bounds.lower(atom.args[1], 1) < 1:
            continue
        x, y = atom.args
        variable = lone_variable(x, y)
        if variable is None:
            continue
        sign = x[variable,]
        quotient, remainder = Var("q", variable.dtype), Var("q", variable.dtype)
        whole = add(multiply(y, {(quotient,): 1}), {(remainder,): 1})
        image = scaled(add(whole, {m: c for m, c in x.items() if m != (variable,)}, -1), sign)
        known = [add(add(y, {(remainder,): 1}, -1), {(): -1})]
        least, most = bounds.factor_range(variable)
        known += [add(image, constant(-int(least)))] if least > variable.dtype.min_value else []
        greatest = (variable_range(variable) if isinstance(variable, Var) else dtype_range(variable.dtype))[1]
        known += [add(constant(int(most)), image, -1)] if most < greatest else []
        low, high = quotient_range(bounds, atom)
        ranges = {quotient: (max(low, 0) if bounds.lower(x) >= 0 else low, high), remainder: (0, 2**63 - 2)}
        return [_Case({variable: image}, known, ranges)]
    return []


def lone_variable(x: Poly, *others: Poly) -> Factor | None:
    """The first of `lone_variables`."""
    return next(lone_variables(x, *others), None)


def lone_variables(x: Poly, *others: Poly) -> Iterator[Factor]:
    """Variables (and opaque values) that occur in `x` as a term of their own, ±1 times, and nowhere else."""
    for monomial, coefficient in x.items():
        if len(monomial) == 1 and coefficient in (1, -1):
            (factor,) = monomial
            rest = {m: c for m, c in x.items() if m != monomial}
            alone = isinstance(factor, Var) or not factor.args
            if alone and not any(factor in factors_of(p) for p in (rest, *others)):
                yield factor


def quotient_range(bounds: Bounds, atom: Atom) -> Interval:
    """Bounds of a quotient. A quotient of sizes, which does not overflow, excludes the extreme values of its dtype."""
    low, high = bounds.factor_range(atom)
    if not bounds.is_size({(atom,): 1}):
        return low, high
    least, most = dtype_range(atom.dtype)
    return max(low, least + 1), min(high, most - 1)
