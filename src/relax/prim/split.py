"""Splitting the operands of a division or a maximum, for the rules that need a sum of a certain form.

A finder gets the two polynomials of an operation and yields values for the names in its rule's left side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import TypeAlias, cast

from .bounds import Bounds
from .expr import FloorDiv, IntImm, PrimExpr, Var
from .poly import TOO_LARGE, Atom, Factor, Monomial, Poly, add, constant, scaled, times_monomial, value_of, without

Values: TypeAlias = "dict[str, Poly | int]"
Finder: TypeAlias = "Callable[[Bounds, Poly, Poly], Iterator[Values]]"

STEPS = 32


def _divide_by_number(dividend: Poly, number: int) -> tuple[Poly, Poly]:
    """Quotient and rest: terms divisible by the number; of the constant, what its remainder leaves."""
    quotient: Poly = {}
    rest: Poly = {}
    for monomial, coefficient in dividend.items():
        if not monomial:
            times, left = divmod(coefficient, number)
            quotient.update(constant(times))
            rest.update(constant(left))
        elif coefficient % number == 0:
            quotient[monomial] = coefficient // number
        else:
            rest[monomial] = coefficient
    return quotient, rest


def _divide(dividend: Poly, divisor: Poly) -> tuple[Poly, Poly]:
    """Quotient and rest of a polynomial division; with several terms in the divisor, the rest must vanish."""
    number = value_of(divisor)
    if number is not None:
        return _divide_by_number(dividend, number) if number else ({}, dividend)
    lead = max((m for m, c in divisor.items() if c), key=len, default=None)
    if lead is None:  # nothing but possible failures: a division by 0
        return {}, dividend
    quotient: Poly = {}
    rest = dividend
    for _ in range(STEPS):
        for monomial, coefficient in rest.items():
            left = without(monomial, lead)
            if left is not None and coefficient and coefficient % divisor[lead] == 0:
                times = coefficient // divisor[lead]
                quotient = add(quotient, {left: times})
                rest = add(rest, times_monomial(divisor, left), -times)
                break
        else:
            break
    if len(divisor) > 1 and any(rest.values()):
        return {}, dividend
    return quotient, rest


def whole(patterns: tuple[PrimExpr, ...], constants: frozenset[str]) -> Finder:
    """The finder of a left side whose operands are names or numbers."""

    def find(bounds: Bounds, left: Poly, right: Poly) -> Iterator[Values]:
        values: Values = {}
        for pattern, poly in zip(patterns, (left, right), strict=False):
            if isinstance(pattern, Var) and pattern.name not in constants:
                values[pattern.name] = poly
                continue
            number = value_of(poly)
            if isinstance(pattern, Var):
                if number is None:
                    return
                values[pattern.name] = number
            elif not isinstance(pattern, IntImm) or number != pattern.value:
                return
        yield values

    return find


def symbolic(bounds: Bounds, dividend: Poly, divisor: Poly) -> Iterator[Values]:
    """x over y, with a divisor that is not a number."""
    if value_of(divisor) is None:
        yield {"x": dividend, "y": divisor}


def multiples(bounds: Bounds, dividend: Poly, divisor: Poly) -> Iterator[Values]:
    """x*y + z over y: x the terms that are multiples of the divisor."""
    quotient, rest = _divide(dividend, divisor)
    if any(quotient.values()):
        yield {"x": quotient, "y": divisor, "z": rest}


def exact_multiple(bounds: Bounds, dividend: Poly, divisor: Poly) -> Iterator[Values]:
    """x*y over y, with nothing left."""
    for values in multiples(bounds, dividend, divisor):
        if not values["z"]:
            yield values


def one_quotient(bounds: Bounds, dividend: Poly, divisor: Poly) -> Iterator[Values]:
    """x over c, with k the quotient of the least value of x."""
    number = value_of(divisor)
    least = bounds.lower(dividend) if number is not None and number > 0 else math.inf
    if number is not None and math.isfinite(least):
        yield {"x": dividend, "c": number, "k": int(least) // number}


def common_factor(bounds: Bounds, dividend: Poly, divisor: Poly) -> Iterator[Values]:
    """x*g + y over c*g, for each g that the divisor shares with a coefficient of the dividend."""
    number = value_of(divisor)
    if number is None or number < 2:
        return
    factors = {math.gcd(coefficient, number) for monomial, coefficient in dividend.items() if monomial}
    for factor in sorted(factors - {1}, reverse=True):
        quotient, rest = _divide_by_number(dividend, factor)
        yield {"x": quotient, "y": rest, "g": factor, "c": number // factor}


def _leads_negative(bounds: Bounds, p: Poly) -> bool:
    """True if the term that stands first has a negative coefficient; one of p and -p does, whatever its spelling."""
    terms = [(m, c) for m, c in p.items() if m and c]
    if not terms:
        return p.get((), 0) < 0
    rank = bounds.rank
    _, coefficient = min(terms, key=lambda term: sorted(rank.get(factor, len(rank)) for factor in term[0]))
    return coefficient < 0


def negative(bounds: Bounds, dividend: Poly, divisor: Poly) -> Iterator[Values]:
    """-x over y, where x is led by a positive term."""
    if _leads_negative(bounds, dividend):
        yield {"x": scaled(dividend, -1), "y": divisor}


def negative_divisor(bounds: Bounds, dividend: Poly, divisor: Poly) -> Iterator[Values]:
    """-x over -y, where y is led by a positive term."""
    if value_of(divisor) is None and _leads_negative(bounds, divisor):
        yield {"x": scaled(dividend, -1), "y": scaled(divisor, -1)}


def _common(a: Monomial, b: Monomial) -> Monomial:
    """The factors two monomials share."""
    rest = list(b)
    shared: list[Factor] = []
    for factor in a:
        for i, other in enumerate(rest):
            if other is factor:
                shared.append(factor)
                del rest[i]
                break
    return tuple(shared)


def _shared_factors(dividend: Poly, divisor: Poly) -> Iterator[Values]:
    """x*y + z over w*y, for each product y of variables that the divisor shares with a term of the dividend."""
    content = reduce(_common, divisor) if divisor else ()
    candidates = {_common(monomial, content) for monomial in dividend}
    for factors in sorted(candidates - {()}, key=len, reverse=True):
        below = {cast("Monomial", without(m, factors)): c for m, c in divisor.items()}
        quotient: Poly = {}
        rest: Poly = {}
        for monomial, coefficient in dividend.items():
            left = without(monomial, factors)
            if left is None:
                rest[monomial] = coefficient
            else:
                quotient[left] = coefficient
        yield {"x": quotient, "y": {factors: 1}, "z": rest, "w": below}


def shared_factor(bounds: Bounds, dividend: Poly, divisor: Poly) -> Iterator[Values]:
    """x*y over z*y: y divides every term of both."""
    for values in _shared_factors(dividend, divisor):
        if not values["z"]:
            yield {"x": values["x"], "y": values["y"], "z": values["w"]}


def shared_by_some(bounds: Bounds, dividend: Poly, divisor: Poly) -> Iterator[Values]:
    """x*y + z over w*y, with something left over."""
    for values in _shared_factors(dividend, divisor):
        if values["z"]:
            yield values


def nested(bounds: Bounds, dividend: Poly, divisor: Poly) -> Iterator[Values]:
    """x // y + z over w, if there is just one quotient to choose."""
    inner = [
        (monomial, factor)
        for monomial, coefficient in dividend.items()
        for factor in monomial
        if coefficient == 1
        and len(monomial) == 1
        and isinstance(factor, Atom)
        and factor.kind is FloorDiv
        and factor.exact
    ]
    if len(inner) == 1:
        monomial, quotient = inner[0]
        x, y = quotient.args
        rest = {m: c for m, c in dividend.items() if m is not monomial}
        if len(rest) * len(y) <= TOO_LARGE and len(divisor) * len(y) <= TOO_LARGE:
            yield {"x": x, "y": y, "z": rest, "w": divisor}


def common_terms(bounds: Bounds, left: Poly, right: Poly) -> Iterator[Values]:
    """x + z and y + z: z the terms both have, and the smaller constant."""
    shared = {m: c for m, c in left.items() if m and right.get(m) == c}
    shared.update(constant(min(left.get((), 0), right.get((), 0))))
    if shared:
        yield {"x": add(left, shared, -1), "y": add(right, shared, -1), "z": shared}
