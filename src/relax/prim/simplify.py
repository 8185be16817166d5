"""The simplifier: an expression of the same value and the same failures that costs no more.

Operands first; then the tree rules at the node; then, for an integer expression, its normal form written back if
that is cheaper, and for a comparison the decision by bounds, or the difference written back. What does
not get cheaper stays the very object it was. An expression with effects is only simplified inside.

Floating point is never changed in value. Integers are rewritten where it is exact modulo their width; arithmetic on
dimensions, and on int64 indices between them, is taken not to overflow.
"""

from __future__ import annotations

import math

from .bounds import Facts
from .decide import assume, decide
from .evaluate import evaluate
from .expr import (
    BOOL,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Call,
    Cast,
    CompareExpr,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from .functor import map_expressions, sub_expressions, substitute, uses
from .match import RULES_BY_ROOT, Bindings, applies, instantiate, match
from .normal import Normalizer, at_most_zero
from .poly import Poly, add, content, scaled
from .render import Renderer, Unrenderable
from .rules import Rule
from .traits import cost, has_effects

NESTED = 6
"""Maximum number of conditions used inside of one condition: each arm is simplified again for them."""
STEP = 20
"""Cost, in the question's budget, of simplifying an expression again under a condition."""

_SUMS = (Add, Sub, Mul)
_NUMERIC = frozenset({Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max, Cast, Select, Call})
_LEAVES = (Var, IntImm, FloatImm)
_SWAPPED: dict[type[CompareExpr], type[CompareExpr]] = {LT: GT, LE: GE}


def changes_by_operands(expr: PrimExpr) -> bool:
    """True if simplifying an expression is simplifying its operands, one by one: a load, a vector, one with effects."""
    if isinstance(expr, (*_LEAVES, And, Or, Select, Let)) or (
        isinstance(expr, Call) and expr.intrinsic == "if_then_else"
    ):
        return False
    ruled = isinstance(expr, (BinaryExpr, Not, Cast, Call))
    return not ruled or expr.dtype.lanes != 1 or has_effects(expr)


class Simplifier:
    """Simplification under some facts."""

    def __init__(self, facts: Facts, normalizer: Normalizer | None = None, conditions: list[int] | None = None) -> None:
        self.facts = facts
        self.conditions = conditions
        """The number of conditions that may still be used inside this one; None outside of any."""
        self.normalizer = Normalizer(facts) if normalizer is None else normalizer
        self.bounds = self.normalizer.bounds
        self._renderer: Renderer | None = None
        self._done: dict[int, tuple[PrimExpr, PrimExpr]] = {}
        self._sums: dict[int, tuple[PrimExpr, PrimExpr]] = {}

    def simplify(self, expr: PrimExpr) -> PrimExpr:
        """The simplified expression; the very object if nothing got cheaper."""
        if isinstance(expr, _LEAVES):
            value = self.facts.values.get(expr) if isinstance(expr, Var) else None
            return expr if value is None else self.simplify(value)
        known = self._done.get(id(expr))
        if known is None:
            if self.conditions is not None:
                if self.bounds.budget.left <= 0:
                    return expr
                self.bounds.budget.left -= STEP
            known = self._done[id(expr)] = expr, self._simplify(expr)
        return known[1]

    def _simplify(self, expr: PrimExpr) -> PrimExpr:
        expr = self._operands(expr)
        if isinstance(expr, _LEAVES) or has_effects(expr) or expr.dtype.lanes != 1:
            return expr
        folded = self._folded(expr)
        if folded is not None:
            return folded
        for line in RULES_BY_ROOT.get(type(expr), ()):
            result = self._rewritten(line, expr)
            if result is not None:
                return self.simplify(result)
        if expr.dtype.is_bool:
            return self._condition(expr)
        if expr.dtype.is_integer and type(expr) in _NUMERIC:
            return self._number(expr)
        return expr

    # ----------------------------------------------------------------------------------------- operands

    def _operands(self, expr: PrimExpr) -> PrimExpr:
        if isinstance(expr, Let):
            return self._let(expr)
        if not has_effects(expr):
            if isinstance(expr, (And, Or)):
                return self._connective(expr)
            if isinstance(expr, Select) or (isinstance(expr, Call) and expr.intrinsic == "if_then_else"):
                return self._choice(expr)
            if isinstance(expr, _SUMS) and expr.dtype.is_integer:
                return self._terms(expr)
        return map_expressions(expr, self.simplify)

    def _terms(self, expr: PrimExpr) -> PrimExpr:
        """A sum or product with what stands below the whole of it simplified: sums within it are one with it."""
        if not isinstance(expr, _SUMS):
            return self.simplify(expr)
        known = self._sums.get(id(expr))
        if known is None:
            known = self._sums[id(expr)] = expr, map_expressions(expr, self._terms)
        return known[1]

    def _let(self, expr: Let) -> PrimExpr:
        value = self.simplify(expr.value)
        if isinstance(value, _LEAVES):
            return self.simplify(substitute(expr.body, {expr.var: value}))
        body = self.simplify(expr.body)
        if not uses(body, expr.var) and not self.normalizer.may_fail(value):
            return body
        unchanged = value is expr.value and body is expr.body
        return expr if unchanged else Let(expr.var, value, body, span=expr.span)

    def _connective(self, expr: And | Or) -> PrimExpr:
        """The second operand is evaluated only where the first holds (or, for Or, does not)."""
        first = self.simplify(expr.a)
        second = self.where(first, isinstance(expr, And)).simplify(expr.b)
        unchanged = first is expr.a and second is expr.b
        return expr if unchanged else type(expr)(first, second, span=expr.span)

    def _choice(self, expr: PrimExpr) -> PrimExpr:
        condition, first, second = sub_expressions(expr)
        chosen = self.simplify(condition)
        arms = self.where(chosen, True).simplify(first), self.where(chosen, False).simplify(second)
        if chosen is condition and arms[0] is first and arms[1] is second:
            return expr
        if isinstance(expr, Select):
            return Select(chosen, *arms, span=expr.span)
        return expr.replace(args=(chosen, *arms))

    def where(self, condition: PrimExpr, holds: bool) -> Simplifier:
        """Simplifier with one more fact; the same one if the limits are reached."""
        left = [NESTED] if self.conditions is None else self.conditions
        if not left[0] or self.bounds.budget.left <= 0:
            return self
        facts = self.facts.copy()
        if not assume(self.normalizer, facts, condition, holds):
            return self
        left[0] -= 1
        return Simplifier(facts, self.normalizer.under(facts), left)

    # -------------------------------------------------------------------------------------------- rules

    def _folded(self, expr: PrimExpr) -> PrimExpr | None:
        """Value of an operation on constants. Functions of floating point are left to the target."""
        parts = sub_expressions(expr)
        if not parts or not all(isinstance(part, (IntImm, FloatImm)) for part in parts):
            return None
        if isinstance(expr, Call):
            if not (expr.dtype.is_integer and all(part.dtype.is_integer for part in parts)):
                return None
        elif type(expr) not in _NUMERIC and not expr.dtype.is_bool:
            return None
        try:
            value = evaluate(expr)
        except (ZeroDivisionError, TypeError):
            return None
        if expr.dtype.is_float:
            return FloatImm(expr.dtype, float(value), span=expr.span)
        return IntImm(expr.dtype, int(value), span=expr.span)

    def _rewritten(self, line: Rule, expr: PrimExpr) -> PrimExpr | None:
        found: Bindings = {}
        if not applies(line, expr) or not match(line.left, expr, found, self._same):
            return None
        if any(self.normalizer.may_fail(found[name]) for name in line.dropped):
            return None
        return instantiate(line.right, found, expr.dtype)

    def _same(self, a: PrimExpr, b: PrimExpr) -> bool:
        return a is b or (a.dtype == b.dtype and self.normalizer.key(a) == self.normalizer.key(b))

    # ------------------------------------------------------------------------------------------ numbers

    def _render(self, p: Poly, like: PrimExpr, below: float = math.inf) -> PrimExpr | None:
        if self._renderer is None:
            self._renderer = Renderer(self.normalizer)
        try:
            return self._renderer.render(p, like.dtype, below)
        except Unrenderable:
            return None

    def _number(self, expr: PrimExpr) -> PrimExpr:
        rendered = self._render(self.normalizer.normal(expr), expr, below=cost(expr))
        if rendered is None:
            return expr
        return self.simplify(rendered)  # the new spelling may offer what the old one hid; each round is cheaper

    # --------------------------------------------------------------------------------------- conditions

    def _condition(self, expr: PrimExpr) -> PrimExpr:
        known = self.facts.truths.get(self.normalizer.key(expr)) if self.facts.truths else None
        if known is not None and not self.normalizer.may_fail(expr):
            return IntImm(BOOL, known)
        if not isinstance(expr, CompareExpr) or not expr.a.dtype.is_integer:
            return expr
        decided = decide(self.normalizer, expr)
        if decided is not None:
            fails = self.normalizer.may_fail(expr.a) or self.normalizer.may_fail(expr.b)
            return expr if fails else IntImm(BOOL, decided)
        return self._respelled(expr)

    def _respelled(self, expr: CompareExpr) -> PrimExpr:
        """Comparison without the terms common to both sides, if that is cheaper."""
        normalizer, dtype = self.normalizer, expr.a.dtype
        a, b = normalizer.normal(expr.a), normalizer.normal(expr.b)
        exact = self.bounds.fits(a, dtype) and self.bounds.fits(b, dtype)
        best: PrimExpr = expr
        for kind, left, right in _spellings(expr, add(a, b, -1), exact):
            if not (self.bounds.fits(left, dtype) and self.bounds.fits(right, dtype)) and not isinstance(
                expr, (EQ, NE)
            ):
                continue
            x, y = self._render(left, expr.a), self._render(right, expr.a)
            if x is not None and y is not None:
                candidate = kind(x, y, span=expr.span)  # type: ignore[call-arg]
                if cost(candidate) < cost(best):
                    best = candidate
        return best if best is expr else self.simplify(best)


def _spellings(expr: CompareExpr, p: Poly, exact: bool) -> list[tuple[type[BinaryExpr], Poly, Poly]]:
    """Ways to write a comparison whose sides differ by `p`."""
    kind = type(expr)
    if kind in (EQ, NE):
        divisor = content(p)
        if exact and divisor > 1 and p.get((), 0) % divisor == 0:
            p = {m: c // divisor for m, c in p.items()}
        return [(kind, *_sides(p))]
    if not exact:
        return []
    swapped = kind in (GT, GE)
    p = at_most_zero(scaled(p, -1) if swapped else p, kind in (LT, GT))
    result: list[tuple[type[BinaryExpr], Poly, Poly]] = []
    for strict in (kind in (LT, GT), kind not in (LT, GT)):
        left, right = _sides(add(p, {(): -1}) if strict else p)
        plain = LT if strict else LE
        result.append((_SWAPPED[plain], right, left) if swapped else (plain, left, right))
    return result


def _sides(p: Poly) -> tuple[Poly, Poly]:
    """The positive terms, and the negative ones negated."""
    return {m: c for m, c in p.items() if c >= 0}, {m: -c for m, c in p.items() if c < 0}
