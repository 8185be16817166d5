"""Statements that hold in scopes, and the normalizers that were told of them.

A scope adds statements, which its end takes back. A normalizer is told of a statement when a question is asked under
it, and only once: a chain holds a normalizer for each number of statements, as far as one was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from .bounds import Facts
from .decide import assume
from .expr import IntImm, PrimExpr
from .learn import conjuncts, learn
from .normal import Normalizer
from .simplify import Simplifier
from .traits import has_effects

Limits: TypeAlias = "tuple[tuple[PrimExpr, int], ...]"
"""Expressions of sizes, and what they are at most: see `Facts.limits`."""


class Told:
    """A normalizer after some statements."""

    __slots__ = ("normalizer", "simplifier", "unsure")

    def __init__(self, normalizer: Normalizer, unsure: bool = False) -> None:
        self.normalizer = normalizer
        self.unsure = unsure
        """True if something in a condition may wrap around, so that it says less than it might: limits may help."""
        self.simplifier: Simplifier | None = None


class Chain:
    """Normalizers that were told of one more statement each, from the first `start` statements on."""

    __slots__ = ("start", "told")

    def __init__(self, start: int = 0, told: Sequence[Told] = ()) -> None:
        self.start = start
        self.told = list(told)

    @property
    def count(self) -> int:
        """The number of statements that the last normalizer was told of."""
        return self.start + len(self.told) - 1

    def tail(self) -> Chain:
        """A chain of the last normalizer alone."""
        return Chain(self.count, self.told[-1:]) if self.told else Chain()

    def forget(self, count: int) -> None:
        """Take back all statements but the first `count`."""
        if count < self.start:
            self.clear()
        else:
            del self.told[count - self.start + 1 :]

    def clear(self) -> None:
        """Begin anew."""
        self.start = 0
        self.told.clear()


class Statements:
    """Conditions and limits, oldest first, over the facts of a beginning; and three readers of them."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        """The facts of the beginning: values and ranges of variables."""
        self.items: list[PrimExpr | Limits] = []
        self._given = Chain()
        self._limited = Chain()
        self._learnt = Chain()

    def copy(self) -> Statements:
        """The same statements, to which others will be added."""
        other = Statements(self.facts.copy())
        other.items = list(self.items)
        other._given, other._limited, other._learnt = (
            chain.tail() for chain in (self._given, self._limited, self._learnt)
        )
        return other

    @property
    def empty(self) -> bool:
        """True if nothing is known."""
        return not self.items and self.facts.empty

    def forget(self, count: int, facts: Facts) -> None:
        """Take back all statements but the first `count`, and what became of the facts of the beginning."""
        if facts is not self.facts:
            self.begin(facts)
        del self.items[count:]
        for chain in (self._given, self._limited, self._learnt):
            chain.forget(count)

    def begin(self, facts: Facts) -> None:
        """Begin with other facts: what was worked out is worked out anew."""
        self.facts = facts
        for chain in (self._given, self._limited, self._learnt):
            chain.clear()

    # ------------------------------------------------------------------------------------------- readers

    def given(self) -> Normalizer:
        """The normalizer that knows the conditions as they were given."""
        return self._last(self._given, _assumed).normalizer

    def learnt(self) -> Normalizer:
        """The normalizer that knows what follows from the conditions as well: see `learn`."""
        return self._last(self._learnt, self._with_learnt).normalizer

    def simplifier(self) -> Simplifier:
        """The simplifier under the conditions as they were given."""
        told = self._last(self._given, _assumed)
        if told.simplifier is None:
            # Its atoms are its own: those of failures, which the other normalizers drop, among them.
            base, facts = self._last(self._limited, _limited, proofs=False).normalizer, told.normalizer.facts
            told.simplifier = Simplifier(facts, base.under(facts))
        return told.simplifier

    def _last(
        self, chain: Chain, tell: Callable[[Told, PrimExpr | Limits], Told], proofs: bool = True
    ) -> Told:
        """The last of a chain, made by telling its members one statement each."""
        told = chain.told
        if not told:
            told.append(Told(Normalizer(self.facts, assume_defined=proofs)))
        for statement in self.items[chain.count :]:
            told.append(tell(told[-1], statement))
        return told[-1]

    def _with_learnt(self, told: Told, statement: PrimExpr | Limits) -> Told:
        if isinstance(statement, PrimExpr):
            return _learnt(told, statement)
        if not told.unsure:
            return _limited(told, statement)
        items = self.items[: self._learnt.count + 1]
        result = Told(Normalizer(self.facts, assume_defined=True))
        for limits in items:
            result = result if isinstance(limits, PrimExpr) else _limited(result, limits)
        for condition in items:
            result = _learnt(result, condition) if isinstance(condition, PrimExpr) else result
        return result


def says_something(condition: PrimExpr) -> bool:
    """False for a condition that can be no fact: a number, or one with effects."""
    if has_effects(condition):
        return False
    return any(not isinstance(part, IntImm) for part, _ in conjuncts(condition))


def _limited(told: Told, statement: PrimExpr | Limits) -> Told:
    if isinstance(statement, PrimExpr):
        return told
    facts = told.normalizer.facts.copy()
    facts.limits += statement
    return Told(told.normalizer.under(facts), told.unsure)


def _assumed(told: Told, statement: PrimExpr | Limits) -> Told:
    if not isinstance(statement, PrimExpr):
        return _limited(told, statement)
    facts = told.normalizer.facts.copy()
    told.normalizer.bounds.budget.refill()
    assume(told.normalizer, facts, statement)
    return Told(told.normalizer.under(facts))


def _learnt(told: Told, condition: PrimExpr) -> Told:
    budget = told.normalizer.bounds.budget
    budget.refill()
    normalizer = learn(told.normalizer, condition)
    return Told(normalizer, told.unsure or budget.unsure)
