"""Match: the state of one attempt to match a pattern with an expression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..expr import Constant, Var, is_leaf
from ..ir import RelaxExpr, structural_equal


class Pattern:
    """Interface of patterns for matching. Patterns are compared by identity."""

    @property
    def is_computed(self) -> bool:
        """True if only computed values match: no variables from outside, and no constants."""
        return False

    def fits(self, expr: RelaxExpr, match: Match) -> Iterator[None]:
        """Yield once for each way in which this pattern matches an expression."""
        raise NotImplementedError

    def match(self, expr: RelaxExpr, var2val: Mapping[Var, RelaxExpr] | None = None) -> bool:
        """True if an expression matches; `var2val` maps variables to values (`relax.analysis.get_var2val`)."""
        return self.extract_matched_expr(expr, var2val) is not None

    def extract_matched_expr(self, expr: RelaxExpr, var2val: Mapping[Var, RelaxExpr] | None = None) -> Matched | None:
        """Expression in the program that each part of the pattern matched; None if it does not match."""
        match = Match(var2val)
        for _ in match.fit(self, expr):
            return dict(match.matched)
        return None


Matched = dict[Pattern, RelaxExpr]
"""Matched expression of each part of a pattern."""


class Match:
    """State of one attempt to match: the values of variables, and the parts matched so far."""

    def __init__(self, values: Mapping[Var, RelaxExpr] | None = None) -> None:
        self.values: Mapping[Var, RelaxExpr] = values or {}
        self.matched: Matched = {}

    def value(self, expr: RelaxExpr) -> RelaxExpr:
        """Value of an expression, with variables resolved as far as their values are known."""
        while isinstance(expr, Var):
            bound = self.values.get(expr)
            if bound is None:
                return expr
            expr = bound
        return expr

    def holder(self, expr: RelaxExpr) -> RelaxExpr:
        """First of several variables bound to one value."""
        while isinstance(expr, Var):
            bound = self.values.get(expr)
            if not isinstance(bound, Var):
                return expr
            expr = bound
        return expr

    def same(self, a: RelaxExpr, b: RelaxExpr) -> bool:
        """True if two expressions denote the same value."""
        a, b = self.holder(a), self.holder(b)
        if a is b:
            return True
        first, second = self.value(a), self.value(b)
        if first is second:
            return True
        return is_leaf(first) and not isinstance(first, Constant) and structural_equal(first, second)

    def fit(self, pattern: Pattern, expr: RelaxExpr) -> Iterator[None]:
        """Yield once for each way in which a pattern matches an expression; `matched` holds the current match."""
        if pattern in self.matched:
            if self.same(self.matched[pattern], expr):
                yield
            return
        for _ in pattern.fits(expr, self):
            new = pattern not in self.matched
            if new:
                self.matched[pattern] = expr
            yield
            if new:
                del self.matched[pattern]

    def fit_all(self, patterns: Sequence[Pattern], exprs: Sequence[RelaxExpr]) -> Iterator[None]:
        """Yield once for each way in which patterns match expressions pairwise, in order."""
        if not patterns:
            yield
            return
        for _ in self.fit(patterns[0], exprs[0]):
            yield from self.fit_all(patterns[1:], exprs[1:])
