"""Trying a polynomial on numbers: what is refuted by an example need not be proved.

An example gives small values, within what is known, to the variables and to whatever is opaque. A refutation that rests
on a value an opaque part cannot have costs an answer, never its truth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from .bounds import Bounds, Facts
from .evaluate import evaluate
from .expr import Max, Select, fold_integers
from .functor import free_vars, sub_expressions
from .poly import Atom, Factor, Poly

POINTS = 24
"""Number of assignments tried."""
_LARGEST = 2**64
_STEPS = (0, 1, 2, 3, 5, 4, 8, 7, 13, 6, 31, 12, 64, 9, 100, 11)


def samples(p: Poly, facts: Facts) -> Iterator[int]:
    """Values that `p` has where the facts hold; none if it makes a choice by what is not known."""
    bounds = Bounds(facts, {})
    for point in range(POINTS):
        sample = _Point(point, bounds)
        try:
            value = sample.value(p)
            if all(sample.value(q) >= 0 for q in facts.nonnegative) and all(map(sample.value, facts.nonzero)):
                yield value
        except (ZeroDivisionError, _Opaque):
            continue


class _Opaque(Exception):
    """A choice is met whose condition has no value here; or a value is too large to be of use."""


class _Point:
    """An assignment, made as it is asked for."""

    def __init__(self, number: int, bounds: Bounds) -> None:
        self.number = number
        self.bounds = bounds
        self.known: dict[Factor, int] = {}
        self.chosen_by: set[Atom] = set()
        """The choices whose condition is being evaluated."""

    def value(self, p: Poly) -> int:
        """The value of a polynomial. Raises ZeroDivisionError where it has none."""
        return sum(c * math.prod(self.factor(f) for f in m) for m, c in p.items())

    def factor(self, factor: Factor) -> int:
        known = self.known.get(factor)
        if known is None:
            operation = factor if isinstance(factor, Atom) and factor.exact else None
            known = self.chosen(factor) if operation is None else self.computed(operation)
            if abs(known) > _LARGEST:
                raise _Opaque
            self.known[factor] = known
        return known

    def computed(self, atom: Atom) -> int:
        """The value of an operation."""
        if atom.kind is Select:
            return self.value(atom.args[0 if self.condition(atom) else 1])
        args = [self.value(arg) for arg in atom.args]
        if atom.kind is Max:
            return max(args)
        if atom.kind == "cast":
            return args[0]
        result = fold_integers(atom.kind, *args)
        if result is None:
            raise ZeroDivisionError
        return result

    def condition(self, atom: Atom) -> bool:
        """True if a choice takes its first arm."""
        if atom.node is None or atom in self.chosen_by:
            raise _Opaque
        self.chosen_by.add(atom)  # what a variable was solved for may be a choice by that variable
        condition, _, _ = sub_expressions(atom.node)
        solved = self.bounds.facts.solved
        env = {v: self.value(solved[v]) if v in solved else self.factor(v) for v in free_vars(condition)}
        self.chosen_by.discard(atom)
        try:
            return bool(evaluate(condition, env))
        except TypeError as error:  # a load, a call
            raise _Opaque from error

    def chosen(self, factor: Factor) -> int:
        """Value in the factor's range: in the first points the same for all factors, then mixed."""
        number, place = self.number, len(self.known)
        step = _STEPS[number if number < 3 else (number * (2 * place + 1) + place * place) % len(_STEPS)]
        low, high = self.bounds.factor_range(factor)
        if low < -64:
            return step - 7 if high > 64 else int(high) - step
        return int(low) + step % (int(high) - int(low) + 1)


def rootless(p: Poly) -> bool:
    """True if `p` is never 0, by its remainders modulo a small number: 2·n + 1, n·(n + 1) - 2·m - 1, n·n - 3."""
    return any(_rootless(p, modulus) for modulus in (2, 3, 4))


def _rootless(p: Poly, modulus: int) -> bool:
    terms = [(m, c % modulus) for m, c in p.items() if c % modulus]
    factors = list(dict.fromkeys(f for m, _ in terms for f in m))
    if modulus ** len(factors) > 64:
        return False
    for point in itertools.product(range(modulus), repeat=len(factors)):
        value = dict(zip(factors, point, strict=True))
        if sum(c * math.prod(value[f] for f in m) for m, c in terms) % modulus == 0:
            return False
    return True
