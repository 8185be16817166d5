"""Proofs and arithmetic on the sizes in affine iteration maps, and the error of expressions that are not affine."""

from __future__ import annotations

from .analyzer import Analyzer
from .expr import IntImm, PrimExpr, Var, const, is_const
from .intrin import max as maximum
from .intrin import min as minimum


class NotAffine(Exception):
    """An expression or a condition does not have the required affine form; the message gives the reason."""


class Sizes:
    """Proofs and arithmetic on extents, scales and bases, which contain no iterators."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """True if both are provably equal."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value == b.value
        return a is b or self.analyzer.can_prove_equal(a, b)

    def at_most(self, a: PrimExpr, b: PrimExpr) -> bool:
        """True if a ≤ b is provable."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value <= b.value
        return a is b or self.analyzer.can_prove(a <= b)

    def is_zero(self, a: PrimExpr) -> bool:
        return self.equal(a, const(0, a.dtype))

    def is_one(self, a: PrimExpr) -> bool:
        return self.equal(a, const(1, a.dtype))

    def is_positive(self, a: PrimExpr) -> bool:
        """True if a ≥ 1 is provable."""
        return self.at_most(const(1, a.dtype), a)

    def is_nonnegative(self, a: PrimExpr) -> bool:
        """True if a ≥ 0 is provable."""
        return self.at_most(const(0, a.dtype), a)

    def simplified(self, a: PrimExpr) -> PrimExpr:
        return a if isinstance(a, (IntImm, Var)) else self.analyzer.simplify(a)

    def times(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """a · b, simplified."""
        if is_const(a, 1):
            return b
        return a if is_const(b, 1) else self.simplified(a * b)

    def quotient(self, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        """Quotient q with a = q·b for all sizes; None if none is found."""
        if is_const(b, 1):
            return a
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return None if b.value == 0 or a.value % b.value else const(a.value // b.value, a.dtype)
        if a is b:
            return const(1, a.dtype)
        with self.analyzer.constraint_scope(b >= 1):
            q = self.analyzer.simplify(a // b)
        return q if self.analyzer.can_prove_equal(q * b, a) else None

    def rounded_up(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """a / b rounded up, for b ≥ 1."""
        return self.simplified((a + (b - 1)) // b)

    def divided(self, a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """a // b and a % b, simplified for b ≥ 1."""
        if is_const(a, 0) or is_const(b, 1):
            return a, const(0, a.dtype)
        with self.analyzer.constraint_scope(b >= 1):
            return self.analyzer.simplify(a // b), self.analyzer.simplify(a % b)

    def smaller(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Minimum of both; one of them if the order is provable."""
        if self.at_most(a, b):
            return a
        return b if self.at_most(b, a) else self.simplified(minimum(a, b))

    def larger(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Maximum of both; one of them if the order is provable."""
        if self.at_most(b, a):
            return a
        return b if self.at_most(a, b) else self.simplified(maximum(a, b))
