"""Statements that hold in scopes, and cached normalizers for them.

A scope adds statements, and removes them at its end. A statement is added to a normalizer when a question is first
asked under it: a chain holds a normalizer for each number of statements, as far as needed.

`Statements.about` returns the statements that concern the variables of a question, or variables related to them: all
others neither help to answer it, nor change the spelling of its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, cast

from .bounds import Facts
from .decide import assume
from .expr import EQ, IntImm, PrimExpr, Var
from .functor import free_vars, uses
from .learn import conjuncts, learn
from .normal import Normalizer
from .questions import Spelling, spelled
from .simplify import Simplifier
from .traits import has_effects

Limits: TypeAlias = "tuple[tuple[PrimExpr, int], ...]"
"""Expressions of sizes with their maximum values: see `Facts.limits`."""

MANY: Final = 128
"""Number of statements up to which those relevant to a question are selected; with more, all are used."""
PARTS: Final = 32
"""Maximum number of cached sets of statements, each with its normalizers."""


class Told:
    """A normalizer with the facts of some statements."""

    __slots__ = ("normalizer", "simplifier", "unsure")

    def __init__(self, normalizer: Normalizer, unsure: bool = False) -> None:
        self.normalizer = normalizer
        self.unsure = unsure
        """True if something in a condition may wrap around, so that it says less than it might: limits may help."""
        self.simplifier: Simplifier | None = None

    def fresh(self) -> Told:
        """A copy whose normalizer has no cached results."""
        return Told(self.normalizer.under(self.normalizer.facts), self.unsure)


class Chain:
    """Normalizers with one more statement each, beginning after the first `start` statements."""

    __slots__ = ("start", "told")

    def __init__(self, start: int = 0, told: Sequence[Told] = ()) -> None:
        self.start = start
        self.told = list(told)

    @property
    def count(self) -> int:
        """Number of statements in the last normalizer."""
        return self.start + len(self.told) - 1

    def tail(self) -> Chain:
        """A chain of the last normalizer alone."""
        return Chain(self.count, self.told[-1:]) if self.told else Chain()

    def forget(self, count: int) -> None:
        """Remove all statements but the first `count`."""
        if count < self.start:
            self.clear()
        else:
            del self.told[count - self.start + 1 :]

    def clear(self) -> None:
        """Remove all normalizers."""
        self.start = 0
        self.told.clear()

    def until(self, count: int) -> Chain:
        """A chain that begins with the last normalizer of at most `count` statements."""
        last = min(count, self.count) - self.start
        return Chain(self.start + last, [self.told[last]]) if last >= 0 else Chain()


class _Index:
    """Statements by the variables that occur in them."""

    def __init__(self) -> None:
        self.spellings: list[Spelling | None] = []
        """The spelling of each, None where there is none."""
        self._variables: list[tuple[Var, ...]] = []
        self._defined: list[Var | None] = []
        """The variable that a statement defines: it says nothing of others, as long as nothing else is said of that."""
        self._places: dict[Var, list[int]] = {}
        self._said: dict[Spelling, int] = {}
        """The place where something was said first: to say it again says nothing."""

    def add(self, statement: PrimExpr | Limits) -> None:
        """Add the next statement."""
        is_condition = isinstance(statement, PrimExpr)
        parts = (statement,) if is_condition else tuple(expr for expr, _ in statement)
        spelling = spelled(parts, *(() if is_condition else (f"<={most}" for _, most in statement)))
        variables = (
            tuple(dict.fromkeys(var for part in parts for var in free_vars(part)))
            if spelling is None
            else spelling.variables
        )
        place = len(self._variables)
        if spelling is not None and self._said.setdefault(spelling, place) != place:
            variables = ()
        for var in variables:
            self._places.setdefault(var, []).append(place)
        self.spellings.append(spelling)
        self._variables.append(variables)
        self._defined.append(_defined_by(statement))

    def forget(self, count: int) -> None:
        """Remove all statements but the first `count`."""
        while len(self._variables) > count:
            spelling = self.spellings.pop()
            if spelling is not None and self._said[spelling] == len(self.spellings):
                del self._said[spelling]
            self._defined.pop()
            for var in self._variables.pop():
                self._places[var].pop()

    def about(self, variables: Iterable[Var]) -> tuple[int, ...]:
        """Positions of the statements about `variables`, or about variables related to them, in order.

        Unused definitions are omitted.
        """
        pending = list(variables)
        asked, seen = set(pending), set(pending)
        found: set[int] = set()
        while pending:
            for place in self._places.get(pending.pop(), ()):
                if place not in found:
                    found.add(place)
                    news = [var for var in self._variables[place] if var not in seen]
                    seen.update(news)
                    pending += news
        return self._used(sorted(found), asked)

    def near(self, variables: Iterable[Var]) -> tuple[int, ...]:
        """Positions of the statements that name no other variables than `variables` and those that define them."""
        asked = set(variables)
        named = set(asked)
        for var in asked:
            for place in self._places.get(var, ()):
                if self._defined[place] is var:
                    named.update(self._variables[place])
        found = {place for var in named for place in self._places.get(var, ())}
        return self._used(sorted(place for place in found if named.issuperset(self._variables[place])), asked)

    def _used(self, places: list[int], asked: set[Var]) -> tuple[int, ...]:
        """Places without those of definitions of variables that occur in no other statement and are not asked about."""
        count: dict[Var, int] = dict.fromkeys(asked, 1)
        for place in places:
            for var in self._variables[place]:
                count[var] = count.get(var, 0) + 1
        kept: list[int] = []
        for place in reversed(places):  # what uses a definition stands after it
            defined = self._defined[place]
            if defined is None or count[defined] > 1:
                kept.append(place)
            else:
                for var in self._variables[place]:
                    count[var] -= 1
        return tuple(reversed(kept))


class Statements:
    """Conditions and limits, oldest first, over the facts of a beginning; and three readers of them."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        """The facts of the beginning: values and ranges of variables."""
        self.items: list[PrimExpr | Limits] = []
        self._given = Chain()
        self._limited = Chain()
        self._learnt = Chain()
        self._index = _Index()
        self._parts: dict[tuple[int, ...], Statements] = {}
        """Some of the statements alone, by their places."""

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
        """True if there are neither statements nor facts."""
        return not self.items and self.facts.empty

    def forget(self, count: int, facts: Facts) -> None:
        """Remove all statements but the first `count`, and restore `facts`."""
        if facts is not self.facts:
            self.begin(facts)
        del self.items[count:]
        self._index.forget(count)
        for places in [places for places in self._parts if places and places[-1] >= count]:
            part, left = self._parts.pop(places), tuple(place for place in places if place < count)
            part.forget(len(left), facts)
            self._parts.setdefault(left, part)
        for chain in (self._given, self._limited, self._learnt):
            chain.forget(count)

    def begin(self, facts: Facts) -> None:
        """Replace the initial facts, and discard derived results."""
        self.facts = facts
        self._parts.clear()
        for chain in (self._given, self._limited, self._learnt):
            chain.clear()

    # ---------------------------------------------------------------------------------------------- parts

    def about(self, variables: Iterable[Var], near: bool = False) -> tuple[Statements, list[Spelling]] | None:
        """Statements relevant to a question about `variables`, with their spellings; None if one has no spelling.

        Only the nearest of them if `near`: the ranges and definitions of the variables, which answer most questions,
        and are learnt far faster than all of a kernel's. Returns None as well if facts exist beyond the statements, or
        if there are too many statements, since searching them takes longer than using all. Asking questions of the
        result does not modify it.
        """
        if self.facts.values or self.facts.ranges or len(self.items) > MANY:
            return None
        index = self._index
        for statement in self.items[len(index.spellings) :]:
            index.add(statement)
        return self._spelled_part(index.near(variables) if near else index.about(variables))

    def _spelled_part(self, places: tuple[int, ...]) -> tuple[Statements, list[Spelling]] | None:
        spellings = [self._index.spellings[place] for place in places]
        if None in spellings:
            return None
        return self._part(places), cast("list[Spelling]", spellings)

    def _part(self, places: tuple[int, ...]) -> Statements:
        part = self._parts.get(places)
        if part is None:
            part = Statements(self.facts)
            part.items = [self.items[place] for place in places]
            for others, other in self._parts.items():
                part._begin_like(other, _shared(places, others))
            if len(self._parts) >= PARTS:
                del self._parts[next(iter(self._parts))]
            self._parts[places] = part
        return part

    def _begin_like(self, other: Statements, count: int) -> None:
        """Take over the normalizers of the first `count` statements, which `other` has in common."""
        for name in ("_given", "_limited", "_learnt"):
            chain = getattr(other, name).until(count)
            if chain.count > getattr(self, name).count:
                setattr(self, name, chain)

    # ------------------------------------------------------------------------------------------- readers

    def given(self) -> Normalizer:
        """Normalizer with the conditions as given."""
        return self._last(self._given, _assumed).normalizer

    def learnt(self) -> Normalizer:
        """Normalizer with the consequences of the conditions as well: see `learn`."""
        return self._last(self._learnt, self._with_learnt).normalizer

    def simplifier(self) -> Simplifier:
        """Simplifier under the conditions as given."""
        told = self._last(self._given, _assumed)
        if told.simplifier is None:
            told.simplifier = self.new_simplifier()
        return told.simplifier

    def new_simplifier(self) -> Simplifier:
        """Simplifier under the conditions as given, without cached results."""
        facts = self._last(self._given, _assumed).normalizer.facts
        # Its atoms are its own: those of failures, which the other normalizers drop, among them.
        return Simplifier(facts, self._last(self._limited, _limited, proofs=False).normalizer.under(facts))

    def new_prover(self) -> Normalizer:
        """Normalizer with the consequences of the conditions, without cached results."""
        return self._last(self._learnt, self._with_learnt).fresh().normalizer

    def _last(self, chain: Chain, tell: Callable[[Told, PrimExpr | Limits], Told], proofs: bool = True) -> Told:
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


def _defined_by(statement: PrimExpr | Limits) -> Var | None:
    """The variable that a statement gives a value, whatever the value of others."""
    if not isinstance(statement, EQ) or not isinstance(statement.a, Var):
        return None
    var = statement.a
    free = not var.nonnegative and var.dtype == "int64" and not uses(statement.b, var)
    return var if free else None


def _shared(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """The number of places with which both begin."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def says_something(condition: PrimExpr) -> bool:
    """False for a condition that cannot be a fact: a constant, or an expression with effects."""
    if has_effects(condition):
        return False
    return any(not isinstance(part, IntImm) for part, _ in conjuncts(condition))


def _limited(told: Told, statement: PrimExpr | Limits) -> Told:
    if isinstance(statement, PrimExpr):
        return told
    facts = told.normalizer.facts.copy()
    told.normalizer.bounds.budget.refill()
    facts.limits += statement
    return Told(told.normalizer.under(facts), told.unsure)


def _assumed(told: Told, statement: PrimExpr | Limits) -> Told:
    if not isinstance(statement, PrimExpr):
        return _limited(told, statement)
    normalizer = told.fresh().normalizer
    facts = normalizer.facts.copy()
    normalizer.bounds.budget.refill()
    assume(normalizer, facts, statement)
    return Told(normalizer.under(facts))


def _learnt(told: Told, condition: PrimExpr) -> Told:
    budget = told.normalizer.bounds.budget
    budget.refill()
    normalizer = learn(told.fresh().normalizer, condition)
    return Told(normalizer, told.unsure or budget.unsure)
