"""Questions about scalar expressions: simplify, prove, bound; and `Analyzer`, which remembers facts between them.

Two dimensions are equal, different or perhaps equal; YES and NO are meant for all values of the variables for which
both sides have one. Variables marked `nonnegative` (dimensions) are ≥ 0.
Arithmetic on dimensions (int64) is taken not to overflow, likewise on indices that lie between numbers or
dimensions: in the programs these are of, an overflow is an error. Any other arithmetic wraps around at its width: that
of narrower types, and of int64 values of unknown origin (a load, a variable nothing is known of). In an
``Analyzer(wraps=True)``, for what machines compute, all arithmetic does.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ClassVar, TypeAlias, TypeGuard, TypeVar

from typing_extensions import ParamSpec

from ..ir import set_slot
from ..ir.deep import run_deep
from ..runtime.records import dataclass
from .bounds import Facts
from .decide import decide, decide_by_cases, where_defined
from .expr import (
    EQ,
    GE,
    INT64,
    LE,
    LT,
    And,
    Call,
    CompareExpr,
    FloatImm,
    IntImm,
    Not,
    Or,
    PrimExpr,
    Var,
    binary,
    cast,
    convert,
    match_dtypes,
    nonnegative_epoch,
)
from .functor import map_expressions
from .intervals import EVERYTHING, dtype_range, is_plainly_true
from .normal import Normalizer
from .questions import Question, answered, question, rewritten, spelled
from .scopes import Statements, says_something
from .simplify import Simplifier, changes_by_operands
from .traits import has_effects

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Verdict(enum.IntEnum):
    """Answer to an undecidable question: whether an equality holds for all values of the variables."""

    NO = 0
    POSSIBLY = 1
    YES = 2


_Decider: TypeAlias = "Callable[[Normalizer, CompareExpr], bool | None]"


@dataclass(frozen=True, slots=True)
class ConstIntBound:
    """Inclusive constant bounds of an integer expression."""

    min_value: int
    max_value: int

    POS_INF: ClassVar[int] = 2**63 - 1
    NEG_INF: ClassVar[int] = -(2**63 - 1)


@dataclass(frozen=True, slots=True)
class ModularSet:
    """The integers ``base + k * coeff``; of coefficient 0, `base` alone."""

    coeff: int
    base: int


class Analyzer:
    """Simplifies and proves under facts given with `bind`, `assume` and `constraint_scope`; spelled as TVM's.

    A fact holds for every later question; `constraint_scope` takes its facts back at the end of the ``with``. The
    simplifier sees what the facts say as they were given; the prover, also what follows from solving the equations
    among them: see `learn`. Facts that contradict each other make everything provable.
    """

    def __init__(self, wraps: bool = False) -> None:
        self._statements = Statements(Facts(wraps=wraps))

    # ------------------------------------------------------------------------------------------- facts

    @property
    def conditions(self) -> tuple[PrimExpr, ...]:
        """Assumed conditions as given, oldest first."""
        return tuple(item for item in self._statements.items if isinstance(item, PrimExpr))

    def copy(self) -> Analyzer:
        """Return an independent copy."""
        other = Analyzer()
        self._statements.learnt()
        other._statements = self._statements.copy()
        return other

    def bind(self, var: Var, expr: Any, override: bool = False) -> None:
        """Let `var` stand for an expression, or lie in a range (anything with `min` and `extent`).

        Raises ValueError if the variable is bound already, unless `override`; TypeError for a value of another dtype.
        """
        facts = self._statements.facts.copy()
        if not override and (var in facts.values or var in facts.ranges):
            raise ValueError(f"Analyzer.bind: {var.name} is bound already; pass override=True to bind it again")
        if override:
            facts.values.pop(var, None)
            facts.ranges.pop(var, None)
        low, extent = getattr(expr, "min", None), getattr(expr, "extent", None)
        if low is None or extent is None:
            _, value = match_dtypes(var, expr)
            if value.dtype != var.dtype:
                raise TypeError(f"Analyzer.bind: {var.name} has dtype {var.dtype!s}, its value {value.dtype!s}")
            facts.values[var] = value
            self._statements.begin(facts)
            return
        facts.ranges[var] = EVERYTHING
        self._statements.begin(facts)
        _, low = match_dtypes(var, low)
        self.assume(binary(GE, var, low))
        self.assume(binary(LT, var, low + extent))

    def update(self, var: Var, bound: ConstIntBound, override: bool = False) -> None:
        """Set the constant range of a variable."""
        facts = self._statements.facts.copy()
        facts.ranges[var] = (
            -math.inf if bound.min_value <= ConstIntBound.NEG_INF else bound.min_value,
            math.inf if bound.max_value >= ConstIntBound.POS_INF else bound.max_value,
        )
        self._statements.begin(facts)

    def assume(self, condition: Any) -> None:
        """Assume a condition from here on."""
        condition = convert(condition)
        if says_something(condition):
            self._statements.items.append(condition)

    @contextmanager
    def limits_scope(self, limits: Iterable[tuple[PrimExpr, int]]) -> Generator[Analyzer]:
        """Context manager: int64 expressions of sizes are at most the given numbers and do not overflow.

        Expressions other than sums of products of sizes are ignored. Inner expressions must come first.
        """
        added = tuple(limits)
        with self._scope():
            if added:
                self._statements.items.append(added)
            yield self

    @contextmanager
    def constraint_scope(self, condition: Any) -> Generator[Analyzer]:
        """Context manager: assume a condition."""
        with self._scope():
            self.assume(condition)
            yield self

    @contextmanager
    def _scope(self) -> Generator[None]:
        count, facts = len(self._statements.items), self._statements.facts
        try:
            yield
        finally:
            self._statements.forget(count, facts)

    def _prove_with(self) -> Normalizer:
        """The prover's normalizer with all facts."""
        normalizer = self._statements.learnt()
        normalizer.bounds.budget.refill()
        return normalizer

    # --------------------------------------------------------------------------------------- questions

    def _question(self, what: str, expr: PrimExpr, near: bool = False) -> tuple[Question, Statements] | None:
        """A question under the statements that matter for it, and these. None if they cannot be spelled."""
        spelling = spelled((expr,))
        found = None if spelling is None else self._statements.about(spelling.variables, near)
        if spelling is None or found is None:
            return None
        statements, facts = found
        return question(f"{what} {self._statements.facts.wraps}", spelling, facts), statements

    def simplify(self, expr: Any, steps: int = 2) -> PrimExpr:
        """Simplify an expression, preserving its value and its failures; the same object if nothing is gained."""
        if self._statements.empty:
            return simplify(expr)
        expr = convert(expr)
        if isinstance(expr, (IntImm, FloatImm)):
            return expr
        if changes_by_operands(expr):
            return self._by_operands(expr, {})
        found = self._question("simplify", expr)
        if found is None:
            simplifier = self._statements.simplifier()
            simplifier.bounds.budget.refill()
            return simplifier.simplify(expr)
        asked, statements = found

        def work() -> PrimExpr:
            simplifier = statements.new_simplifier()
            simplifier.bounds.budget.refill()
            return simplifier.simplify(expr)

        return rewritten(asked, expr, work)

    rewrite_simplify = canonical_simplify = simplify

    def _by_operands(self, expr: PrimExpr, done: dict[int, PrimExpr]) -> PrimExpr:
        """An expression of which each operand is a question of its own, whatever it is an operand of."""
        known = done.get(id(expr))
        if known is None:
            inside = changes_by_operands(expr)
            known = done[id(expr)] = (
                map_expressions(expr, lambda part: self._by_operands(part, done)) if inside else self.simplify(expr)
            )
        return known

    def prove(self, condition: Any) -> bool | None:
        """True if a condition always holds, False if it never does, None if undecided."""
        condition = convert(condition)
        if is_plainly_true(condition) and not has_effects(condition):  # without a look at what is known
            return True
        known = self._proved(condition, near=True)
        return self._proved(condition) if known is None else known

    def _proved(self, condition: PrimExpr, near: bool = False) -> bool | None:
        """Verdict of `prove` by all statements, or by the nearest of them alone."""
        found = self._question("prove", condition, near)
        if found is None:
            return None if near else _prove(self._prove_with(), condition)
        asked, statements = found

        def work() -> bool | None:
            normalizer = statements.new_prover()
            normalizer.bounds.budget.refill()
            return _prove(normalizer, condition)

        return answered(asked, work)

    def can_prove(self, condition: Any, strength: int = 0) -> bool:
        """True if a condition provably holds. (`strength` is accepted for TVM and ignored.)"""
        return self.prove(condition) is True

    def prove_equal(self, a: Any, b: Any) -> Verdict:
        """Verdict on the equality of two expressions: always, never, or undecided."""
        return _relation(self._prove_with(), convert(a), convert(b))

    def can_prove_equal(self, a: Any, b: Any) -> bool:
        """True if two expressions are provably equal."""
        return self.prove_equal(a, b) is Verdict.YES

    def can_prove_less(self, a: Any, b: Any) -> bool:
        """True if a < b is provable."""
        return self.can_prove(binary(LT, convert(a), b))

    def can_prove_less_equal(self, a: Any, b: Any) -> bool:
        """True if a ≤ b is provable."""
        return self.can_prove(binary(LE, convert(a), b))

    def can_prove_greater_equal(self, a: Any, b: Any) -> bool:
        """True if a ≥ b is provable."""
        return self.can_prove(binary(GE, convert(a), b))

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """Constant bounds of an integer expression; infinities where there is none."""
        low, high = self.interval(expr)
        return ConstIntBound(
            ConstIntBound.NEG_INF if math.isinf(low) else max(int(low), ConstIntBound.NEG_INF),
            ConstIntBound.POS_INF if math.isinf(high) else min(int(high), ConstIntBound.POS_INF),
        )

    def modular_set(self, expr: Any) -> ModularSet:
        """The numbers of which an integer expression is one: `base` plus the multiples of `coeff`."""
        value = convert(expr)
        if not value.dtype.is_integer or value.dtype.lanes != 1 or has_effects(value):
            return ModularSet(1, 0)
        normalizer = self._prove_with()
        p = normalizer.normal(value)
        coeff, base = math.gcd(*(c for monomial, c in p.items() if monomial)), p.get((), 0)
        if not normalizer.bounds.fits(p, value.dtype):
            coeff = math.gcd(coeff, 1 << value.dtype.bits)  # what wraps around keeps its rest by powers of 2
        return ModularSet(coeff, base % coeff if coeff else base)

    def interval(self, expr: Any) -> tuple[int | float, int | float]:
        """Bounds (minimum, maximum) of an integer expression: integers, or ±inf."""
        value = convert(expr)
        if isinstance(value, IntImm):
            return value.value, value.value
        low, high = dtype_range(value.dtype)
        if value.dtype.is_bool:
            known = self.prove(value)
            return (0, 1) if known is None else (int(known), int(known))
        if not value.dtype.is_integer or value.dtype.lanes != 1 or has_effects(value):
            return low, high
        normalizer = self._prove_with()
        p = normalizer.normal(value)
        if not normalizer.bounds.fits(p, value.dtype):
            return low, high
        below, above = normalizer.bounds.interval(p)
        return max(low, below), min(high, above)


# ------------------------------------------------------------------------------------- without an analyzer

_NOTHING = Facts()
"""Empty facts, shared; copy them before adding one."""

_IN_SCOPE: ContextVar[Analyzer | None] = ContextVar("the facts in scope", default=None)


class FactsInScope:
    """Context manager and decorator returned by `facts_in_scope`."""

    __slots__ = ("_facts", "_token")

    def __init__(self, facts: Analyzer | None) -> None:
        self._facts = facts

    def __enter__(self) -> None:
        self._token = _IN_SCOPE.set(self._facts)

    def __exit__(self, *_: object) -> None:
        _IN_SCOPE.reset(self._token)

    def __call__(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(function)
        def inside(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            with FactsInScope(self._facts):
                return function(*args, **kwargs)

        return inside


def facts_in_scope(facts: Analyzer | None) -> FactsInScope:
    """Context manager: `prove`, `prove_equal`, `prove_shape_equal` and `const_int_bound` use these facts.

    `simplify` does not: the form of a dimension never depends on its position. If `facts` is None, outer facts are
    hidden.
    """
    return FactsInScope(facts)


def has_facts_in_scope() -> bool:
    """True inside `facts_in_scope` with some facts: questions may be answered that are undecided without."""
    return _IN_SCOPE.get() is not None


def simplify(expr: Any) -> PrimExpr:
    """The expression at its simplest, without further facts: see `Analyzer.simplify`."""
    expr = convert(expr)
    if isinstance(expr, (Var, IntImm, FloatImm)):
        return expr
    epoch = nonnegative_epoch()
    try:
        known_epoch, known = expr._simplified  # type: ignore[reportPrivateUsage]
        if known_epoch == epoch:
            return expr if known is None else known
    except AttributeError:
        pass
    result = run_deep("an expression", "simplified", lambda: _simplified(expr))
    # None stands for the expression itself, which must not refer to itself.
    set_slot(expr, "_simplified", (epoch, None if result is expr else result))
    if result is not expr:
        set_slot(result, "_simplified", (epoch, None))
    return result


def _simplified(expr: PrimExpr) -> PrimExpr:
    def work() -> PrimExpr:
        return Simplifier(_NOTHING).simplify(expr)

    spelling = spelled((expr,))
    return work() if spelling is None else rewritten(question("simplify", spelling), expr, work)


_Answer = TypeVar("_Answer")


def _remembered(what: str, expressions: Sequence[PrimExpr], answer: Callable[[], _Answer]) -> _Answer:
    """Answer to a question without facts, cached for all questions with the same spelling."""
    spelling = spelled(expressions)
    return answer() if spelling is None else answered(question(what, spelling), answer)


def prove(condition: Any) -> bool | None:
    """True if a condition holds for all values of its variables, False if for none, None if undecided.

    The values are those allowed by the facts in scope (`facts_in_scope`), as for the other questions.
    """
    expr = convert(condition)
    if isinstance(expr, IntImm):
        return bool(expr.value)
    facts = _IN_SCOPE.get()
    if facts is not None:
        return facts.prove(expr)

    def proved() -> bool | None:
        return _prove(Normalizer(_NOTHING, assume_defined=True), expr)

    return run_deep("a condition", "proved", lambda: _remembered("prove", (expr,), proved))


def prove_equal(a: Any, b: Any) -> Verdict:
    """Verdict on the equality of two expressions for all values of their variables."""
    if a is b and not (isinstance(a, PrimExpr) and has_effects(a)):
        return Verdict.YES
    left, right = convert(a), convert(b)
    if isinstance(left, IntImm) and isinstance(right, IntImm):
        return Verdict.YES if left.value == right.value else Verdict.NO
    facts = _IN_SCOPE.get()
    if facts is not None:
        return facts.prove_equal(left, right)
    if isinstance(left, Var) and isinstance(right, Var) and left.dtype == right.dtype:
        return Verdict.YES if left is right else Verdict.POSSIBLY
    if isinstance(left, IntImm):
        left, right = right, left
    if isinstance(left, Var) and isinstance(right, IntImm) and left.dtype == right.dtype:
        low = 0 if left.nonnegative else left.dtype.min_value
        return Verdict.POSSIBLY if right.value >= low else Verdict.NO

    def compared() -> Verdict:
        return _relation(Normalizer(_NOTHING, assume_defined=True), left, right)

    def answer() -> Verdict:
        return _remembered("equal", (left, right), compared)

    return run_deep("an expression", "compared", answer)


def implies(conditions: Iterable[Any], conclusion: Any) -> bool:
    """True if `conclusion` holds wherever `conditions` and the facts in scope hold."""
    facts, given = _IN_SCOPE.get(), tuple(map(convert, conditions))

    def implied() -> bool:
        assuming = Analyzer() if facts is None else facts.copy()
        for condition in given:
            assuming.assume(condition)
        return assuming.can_prove(conclusion)

    if facts is not None:
        return implied()
    return _remembered("implies", (*given, convert(conclusion)), implied)


def prove_shape_equal(a: Sequence[Any], b: Sequence[Any]) -> Verdict:
    """Verdict on the equality of two shapes: NO if ranks differ, or any dimension certainly differs."""
    if len(a) != len(b):
        return Verdict.NO
    answers = {prove_equal(x, y) for x, y in zip(a, b, strict=True)}
    return min(answers, default=Verdict.YES)


def const_int_bound(expr: Any) -> ConstIntBound:
    """Constant bounds of an integer expression."""
    return (_IN_SCOPE.get() or Analyzer()).const_int_bound(expr)


# ------------------------------------------------------------------------------------------------ proofs


def _prove(normalizer: Normalizer, condition: PrimExpr) -> bool | None:
    if isinstance(condition, IntImm):
        return bool(condition.value)
    if not condition.dtype.is_bool or condition.dtype.lanes != 1 or has_effects(condition):
        return None
    known = _prove_as_written(normalizer, condition, decide)
    if known is not None:
        return known
    if not (_is_comparison(condition) and all(map(normalizer.is_plain, (condition.a, condition.b)))):
        simplified = Simplifier(normalizer.facts, normalizer).simplify(condition)
        if isinstance(simplified, IntImm):
            return bool(simplified.value)
        known = None if simplified is condition else _prove_as_written(normalizer, simplified, decide)
    return _prove_as_written(normalizer, condition, _decide_where_defined) if known is None else known


def _decide_where_defined(normalizer: Normalizer, condition: CompareExpr) -> bool | None:
    """Decide a comparison by all means: assume that its divisors are not 0, then prove it by cases."""
    inner = where_defined(normalizer, condition)
    known = None if inner is normalizer else decide(inner, condition)
    return decide_by_cases(inner, condition) if known is None else known


def _is_comparison(condition: PrimExpr) -> TypeGuard[CompareExpr]:
    return isinstance(condition, CompareExpr) and condition.a.dtype.is_integer and condition.a.dtype.lanes == 1


def _prove_as_written(normalizer: Normalizer, condition: PrimExpr, decider: _Decider) -> bool | None:
    """Prove a condition from its comparisons."""
    done: dict[PrimExpr, bool | None] = {}

    def proved(expr: PrimExpr) -> bool | None:
        if expr not in done:
            done[expr] = prove_part(expr)
        return done[expr]

    def prove_part(expr: PrimExpr) -> bool | None:
        if isinstance(expr, IntImm):
            return bool(expr.value)
        if isinstance(expr, Not):
            inner = proved(expr.a)
            return None if inner is None else not inner
        if isinstance(expr, (And, Or)):
            decisive = isinstance(expr, Or)
            first = proved(expr.a)
            second = decisive if first is decisive else proved(expr.b)
            if second is decisive:
                return decisive
            return None if None in (first, second) else not decisive
        if isinstance(expr, Call) and expr.intrinsic == "likely":
            return proved(expr.args[0])
        truths = normalizer.facts.truths
        known = truths.get(normalizer.key(expr)) if truths else None
        if known is None and _is_comparison(expr):
            known = decider(normalizer, expr)
        return known

    return proved(condition)


def _relation(normalizer: Normalizer, a: PrimExpr, b: PrimExpr) -> Verdict:
    if has_effects(a) or has_effects(b):
        return Verdict.POSSIBLY
    if a.dtype.is_integer and b.dtype.is_integer and a.dtype.lanes == b.dtype.lanes == 1:
        if a.dtype != b.dtype:
            a, b = _widened(a), _widened(b)
        known = decide(normalizer, EQ(a, b))
        if known is None and not (normalizer.is_plain(a) and normalizer.is_plain(b)):
            simplifier = Simplifier(normalizer.facts, normalizer)
            x, y = simplifier.simplify(a), simplifier.simplify(b)
            if x is not a or y is not b:
                known = decide(normalizer, EQ(x, y))
        if known is None:
            known = _decide_where_defined(normalizer, EQ(a, b))
        return Verdict.POSSIBLY if known is None else Verdict.YES if known else Verdict.NO
    if a.dtype != b.dtype:
        return Verdict.POSSIBLY
    if isinstance(a, (IntImm, FloatImm)) and isinstance(b, (IntImm, FloatImm)):
        equal = a.value == b.value or (math.isnan(a.value) and math.isnan(b.value))
        return Verdict.YES if equal else Verdict.NO
    return Verdict.YES if normalizer.key(a) == normalizer.key(b) else Verdict.POSSIBLY


def _widened(expr: PrimExpr) -> PrimExpr:
    return cast(INT64, expr)
