"""Sums, products and conditions, as facts at a point of the code compare them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from ..ir import structural_equal
from ..prim import GE, LT, Add, And, Call, IntImm, Mul, Not, Or, PrimExpr, Sub, sub_expressions
from ..prim.intervals import INF, Interval
from ..prim.intrin import is_pure
from ..tir import BufferLoad

Terms: TypeAlias = "dict[PrimExpr | None, int]"
"""A sum: coefficient of each term; key None holds the constant."""


class Product(NamedTuple):
    """A constant times symbolic factors, all nonnegative."""

    number: int
    factors: tuple[PrimExpr, ...]

    @staticmethod
    def of(factors: Iterable[PrimExpr]) -> Product:
        """Product of factors."""
        number, others = 1, list[PrimExpr]()
        for factor in factors:
            if isinstance(factor, IntImm):
                number *= factor.value
            else:
                others.append(factor)
        return Product(number, tuple(others))

    def divided_by(self, divisor: Product) -> Product | None:
        """Quotient of this product by `divisor`; None unless the factors show that it divides evenly, and is not 0."""
        if divisor.number == 0:
            return None
        left = list(self.factors)
        for factor in divisor.factors:
            found = [i for i, one in enumerate(left) if one is factor or structural_equal(one, factor)]
            if not found:
                return None
            del left[found[0]]
        number, rest = divmod(self.number, divisor.number)
        return None if rest else Product(number, tuple(left))

    def equals(self, other: Product) -> bool:
        """True if both have the same number and the same factors, in any order."""
        if self.number != other.number or len(self.factors) != len(other.factors):
            return False
        return Product(1, self.factors).divided_by(Product(1, other.factors)) is not None


def compared_with_number(condition: PrimExpr, expr: PrimExpr) -> Interval:
    """Interval of `expr` implied by a comparison with a constant; unbounded for other conditions."""
    negated = isinstance(condition, Not)
    comparison = condition.a if isinstance(condition, Not) else condition
    if not isinstance(comparison, (LT, GE)) or not isinstance(comparison.b, IntImm):
        return -INF, INF
    if type(comparison.a) is not type(expr) or not structural_equal(comparison.a, expr):
        return -INF, INF
    limit = comparison.b.value
    return (-INF, limit - 1) if isinstance(comparison, LT) is not negated else (limit, INF)


def add_terms(expr: PrimExpr, factor: int, terms: Terms) -> Terms:
    """Add `factor` times an expression to a sum."""
    match expr:
        case IntImm(_, value):
            terms[None] = terms.get(None, 0) + factor * value
        case Add(a, b) | Sub(a, b):
            add_terms(a, factor, terms)
            add_terms(b, factor if isinstance(expr, Add) else -factor, terms)
        case Mul(a, IntImm(_, value)):
            add_terms(a, factor * value, terms)
        case _:
            terms[expr] = terms.get(expr, 0) + factor
    return terms


def reads_memory(expr: PrimExpr) -> bool:
    """True if an expression depends on the contents of buffers, or on a call."""
    seen: set[int] = set()
    pending: list[PrimExpr] = [expr]
    while pending:
        part = pending.pop()
        if isinstance(part, BufferLoad) or (isinstance(part, Call) and not is_pure(part)):
            return True
        if id(part) not in seen:
            seen.add(id(part))
            pending += sub_expressions(part)
    return False


def conjuncts(condition: PrimExpr, holds: bool) -> Iterator[PrimExpr]:
    """Conditions that follow if `condition` holds (or does not)."""
    if isinstance(condition, Not):
        yield from conjuncts(condition.a, not holds)
    elif isinstance(condition, And if holds else Or):
        yield from conjuncts(condition.a, holds)
        yield from conjuncts(condition.b, holds)
    elif not isinstance(condition, IntImm) and condition.dtype.lanes == 1:
        yield condition if holds else Not(condition)


def factors_of(product: PrimExpr) -> Iterator[PrimExpr]:
    """Factors of a product; an expression that is not a product is its only factor."""
    if isinstance(product, Mul):
        yield from factors_of(product.a)
        yield from factors_of(product.b)
    else:
        yield product
