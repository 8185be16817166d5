"""Counter-examples: assignments that satisfy the facts of a scope and refute bounds before they are searched for.

An example assigns a number to each variable, and to each part with a known range only, so that all facts from which
bounds are derived hold: ranges, inequalities, limits of products. Quotients, maxima and products are computed from
these numbers. Every upper bound of a polynomial is at least its value in an example. So the search for a bound that
proves i * 16 + j < n is skipped once i * 16 + j ≥ n in some example:

    facts   0 ≤ i, 0 ≤ j < 16, 1 ≤ n         example   i = 1, j = 0, n = 1

Most requested bounds do not exist, and a failing search takes longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from .expr import Div, FloorDiv, FloorMod, Max, Mod, Mul, Select, fold_integers
from .intervals import Interval
from .poly import Atom, Factor, Monomial, Poly

POINTS: Final = 10
"""Number of assignments tried per set of facts; those that satisfy the facts become examples."""

_STEPS: Final = (
    (0,),
    (1,),
    (2, 1, 0),
    (0, 1, 3, 2, 5),
    (5, 3, 2, 1, 0),
    (7, 0, 64, 1),
    (100, 31, 9, 2),
    (0, 4, 31, 100),
)
"""For each point, distances of its values from their lower bounds, cycled over the variables."""
_SHIFTS: Final = ((0, 4, 8, 12), (12, 8, 4, 0))
"""For points near the upper bounds: right shifts of those bounds, by variable."""
_UNBOUNDED: Final = 64
"""A lower bound below the negative of this counts as none: values are chosen around 0."""

REPAIRS: Final = 8
"""Number of violated inequalities repaired in an assignment before it is discarded."""

_COMPUTED: Final = frozenset({FloorDiv, FloorMod, Div, Mod, Mul})
"""Binary operations that examples evaluate; expressions with other operations are not refuted."""


class _NoExample(Exception):
    """A part has no value here: a division by 0, or a result that is outside of the part's range."""


class _Example:
    """Numbers for factors, chosen when they are first asked for."""

    __slots__ = ("_free", "_known", "_number", "_range_of")

    def __init__(self, number: int, range_of: Callable[[Factor], Interval]) -> None:
        self._number = number
        self._range_of = range_of
        self._known: dict[Factor, int] = {}
        self._free: dict[Factor, int] = {}
        """Of the known numbers, those that were chosen."""

    def value(self, p: Poly) -> int:
        """The value of a polynomial. Raises _NoExample where it has none."""
        known, total = self._known, 0
        for monomial, coefficient in p.items():
            if coefficient:
                for factor in monomial:
                    value = known.get(factor)
                    coefficient *= self._factor(factor) if value is None else value
                total += coefficient
        return total

    def _factor(self, factor: Factor) -> int:
        low, high = self._range_of(factor)
        if type(factor) is Atom and factor.exact and factor.args:
            value = self._computed(factor)
            if not low <= value <= high:
                raise _NoExample
        else:
            value = self._free[factor] = self._chosen(low, high)
        self._known[factor] = value
        return value

    def raise_to(self, p: Poly, least: int) -> bool:
        """Choose another number for one factor, so that a polynomial is `least`, or more; False if none does."""
        missing = least - self.value(p)
        for monomial, coefficient in p.items():
            if len(monomial) == 1 and coefficient and monomial[0] in self._free:
                (low, high), known = self._range_of(monomial[0]), self._free[monomial[0]]
                steps = -(-missing // abs(coefficient))
                value = known + steps if coefficient > 0 else known - steps
                if low <= value <= high:
                    self._free[monomial[0]] = value
                    self._known = dict(self._free)
                    return True
        return False

    def _computed(self, atom: Atom) -> int:
        """The value of an operation; of a choice, of which bounds do not know the condition, any arm's."""
        if atom.kind is Select:
            return self.value(atom.args[self._number % 2])
        if atom.kind is Max:
            return max([self.value(arg) for arg in atom.args])
        if atom.kind == "cast":
            return self.value(atom.args[0])
        if atom.kind not in _COMPUTED:
            raise _NoExample
        result = fold_integers(atom.kind, *[self.value(arg) for arg in atom.args])
        if result is None:
            raise _NoExample
        return result

    def _chosen(self, low: float, high: float) -> int:
        """A number in a range."""
        place = len(self._known)
        if self._number >= len(_STEPS):
            shifts = _SHIFTS[self._number - len(_STEPS)]
            most = int(min(high, 2**62))
            return max(most >> shifts[min(place, len(shifts) - 1)], int(max(low, -(2**62))))
        steps = _STEPS[self._number]
        step = steps[place % len(steps)]
        if low < -_UNBOUNDED:
            return int(min(max(step - 7, low), high))
        return int(min(low + step, high))


class Examples:
    """The examples under some facts, made when they are first asked for."""

    def __init__(self, range_of: Callable[[Factor], Interval]) -> None:
        self._range_of = range_of
        self._examples: list[_Example] = []
        self._tried = 0

    def refute(self, p: Poly, most: float, nonnegative: Iterable[Poly], limits: Mapping[Monomial, int]) -> bool:
        """True if p is more than `most` in an example in which polynomials are ≥ 0 and products below their limits."""
        for example in self._examples:
            if _is_above(example, p, most):
                return True
        while self._tried < POINTS:
            example = _Example(self._tried, self._range_of)
            self._tried += 1
            if _fulfils(example, nonnegative, limits):
                self._examples.append(example)
                if _is_above(example, p, most):
                    return True
        return False


def _is_above(example: _Example, p: Poly, most: float) -> bool:
    try:
        return example.value(p) > most
    except _NoExample:
        return False


def _fulfils(example: _Example, nonnegative: Iterable[Poly], limits: Mapping[Monomial, int]) -> bool:
    """True for an example under the facts; of one that is not, a few numbers are changed first."""
    known = list(nonnegative)
    try:
        for _ in range(REPAIRS):
            wrong = next((p for p in known if example.value(p) < 0), None)
            if wrong is None:
                return all(example.value({monomial: 1}) <= limit for monomial, limit in limits.items())
            if not example.raise_to(wrong, 0):
                return False
    except _NoExample:
        pass
    return False
