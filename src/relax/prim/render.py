"""From the normal form back to an expression, the cheapest of the spellings tried.

Quotients become remainders again where x - y·(x // y) is found, maxima become minima, positive terms come first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

from ..ir import DataType
from .arithmetic import wrap
from .expr import Add, BinaryExpr, Cast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr, Select, Sub, Var
from .normal import Normalizer
from .poly import Atom, Factor, Monomial, Poly, add, join, scaled, times_monomial, without
from .traits import cost

ROUNDS = 8
"""The most quotients and maxima of one expression that are respelled."""
RESPELLED = 32
"""Polynomials with more terms than this are spelled as they are."""


class Unrenderable(Exception):
    """A polynomial has no spelling: a coefficient does not fit the dtype of its terms."""


class Renderer:
    """Spells polynomials of one normalizer."""

    def __init__(self, normalizer: Normalizer) -> None:
        self.normalizer = normalizer
        self._spelled: dict[Atom, PrimExpr] = {}
        self._displayed: dict[Any, Atom] = {}

    def render(self, p: Poly, dtype: DataType, below: float = math.inf) -> PrimExpr | None:
        """The cheapest spelling found; None if it is not cheaper than `below`. Raises Unrenderable if there is none."""
        best, price = p, self._cost(p)
        if len(p) <= RESPELLED and any(isinstance(f, Atom) and f.args for m in p for f in m):
            for _ in range(ROUNDS):
                for candidate in self._respelled(best, dtype):
                    candidate_price = self._cost(candidate)
                    if candidate_price < price:
                        best, price = candidate, candidate_price
                        break
                else:
                    break
        if price >= below:
            return None
        expr = self._plain(best, dtype)
        return expr if cost(expr) < below else None

    def _cost(self, p: Poly) -> int:
        """The cost of what `_plain` makes of a polynomial."""
        total, positive, first = 0, False, 0
        for monomial, coefficient in p.items():
            if monomial:
                total += 2 * len(monomial) - 1 + (coefficient not in (1, -1))
                for factor in monomial:
                    if isinstance(factor, Atom):
                        total += cost(self.spell(factor)) - 1
                positive = positive or coefficient >= 0
                first = first or coefficient
            else:
                positive = positive or coefficient > 0
        return total + max(len(p) - 1, 0) + (first == -1 and not positive)

    # -------------------------------------------------------------------------------------- polynomials

    def _plain(self, p: Poly, dtype: DataType) -> PrimExpr:
        result: PrimExpr | None = None
        number = p.get((), 0)
        later: list[tuple[Monomial, int]] = []
        for monomial, coefficient in p.items():
            if not monomial:
                continue
            if coefficient < 0:
                later.append((monomial, coefficient))
            else:
                term = self._term(monomial, coefficient, dtype)
                result = term if result is None else Add(result, term)
        if result is None and later and number > 0:
            result, number = self._number(number, dtype), 0
        for monomial, coefficient in later:
            if result is None and coefficient != -1:
                result = self._term(monomial, coefficient, dtype)
            else:
                term = self._term(monomial, -coefficient, dtype)
                result = Sub(self._number(0, dtype) if result is None else result, term)
        if result is None:
            return self._number(number, dtype)
        if number < 0 and -number <= dtype.max_value:
            return Sub(result, self._number(-number, dtype))
        return Add(result, self._number(number, dtype)) if number else result

    def _number(self, value: int, dtype: DataType) -> IntImm:
        return IntImm(dtype, wrap(value, dtype))

    def _term(self, monomial: Monomial, coefficient: int, dtype: DataType) -> PrimExpr:
        rank = self.normalizer.rank
        factors = [self.spell(f) for f in sorted(monomial, key=lambda f: rank.get(f, len(rank)))]
        result = factors[0]
        for factor in factors[1:]:
            result = Mul(result, factor)
        return result if coefficient == 1 else Mul(result, self._number(coefficient, dtype))

    # -------------------------------------------------------------------------------------------- atoms

    def spell(self, factor: Factor) -> PrimExpr:
        """The expression of a factor."""
        if isinstance(factor, Var):
            return factor
        known = self._spelled.get(factor)
        if known is None:
            known = factor.node if factor.node is not None else self._spell_args(factor)
            self._spelled[factor] = known
        return known

    def _spell_args(self, atom: Atom) -> PrimExpr:
        kind: Any = atom.kind
        if kind == "cast":
            source = next(iter(atom.args[0]))[0].dtype
            return Cast(atom.dtype, self._spell_poly(atom.args[0], source))
        if kind is Select or atom.ideal:
            raise Unrenderable
        operands = [self._spell_poly(arg, atom.dtype) for arg in atom.args]
        result = operands[0]
        for operand in operands[1:]:
            result = cast("type[BinaryExpr]", kind)(result, operand)  # type: ignore[reportCallIssue]
        return result

    def _spell_poly(self, p: Poly, dtype: DataType) -> PrimExpr:
        return cast(PrimExpr, self.render(p, dtype))

    # --------------------------------------------------------------------------------------- respelling

    def _respelled(self, p: Poly, dtype: DataType) -> Iterator[Poly]:
        for monomial, coefficient in p.items():
            for factor in monomial:
                if isinstance(factor, Atom) and coefficient:
                    others = cast("Monomial", without(monomial, (factor,)))
                    if factor.kind is FloorDiv:
                        yield from self._as_remainder(p, monomial, coefficient, factor, others)
                    elif factor.kind is Max:
                        yield from self._as_minimum(p, monomial, coefficient, factor, others)

    def _as_remainder(
        self, p: Poly, monomial: Monomial, coefficient: int, atom: Atom, others: Monomial
    ) -> Iterator[Poly]:
        """-k·y·(x // y) + k·x is k·(x % y)."""
        dividend, divisor = atom.args
        if len(divisor) != 1:
            return
        ((y, scale),) = divisor.items()
        left = without(others, y)
        if left is None or not scale or coefficient % scale:
            return
        times = -coefficient // scale
        if not any(m and join(m, left) in p for m in dividend):
            return  # without a term of x beside it, a remainder is no gain
        remainder = self._display(FloorMod, atom.args, atom)
        yield self._exchange(p, monomial, times_monomial(dividend, left, -times), remainder, left, times)

    def _as_minimum(
        self, p: Poly, monomial: Monomial, coefficient: int, atom: Atom, others: Monomial
    ) -> Iterator[Poly]:
        """-k·max(x, y) + k·x + k·y is k·min(x, y); -max(-x, -y) is min(x, y)."""
        if len(atom.args) == 2:
            both = add(*atom.args)
            minimum = self._display(Min, atom.args, atom)
            swapped = times_monomial(both, others, coefficient)
            yield self._exchange(p, monomial, swapped, minimum, others, -coefficient)
        if atom.exact and coefficient < 0:
            negated = tuple(scaled(arg, -1) for arg in atom.args)
            if self._all_fit(negated, atom.dtype):
                yield self._exchange(p, monomial, {}, self._display(Min, negated, atom), others, -coefficient)
        # The constant beside a maximum goes back inside.
        number = p.get((), 0)
        if atom.exact and not others and coefficient == 1 and number:
            inside = tuple(add(arg, {(): number}) for arg in atom.args)
            if self._all_fit(inside, atom.dtype):
                yield self._exchange(p, monomial, {(): -number}, self._display(Max, inside, atom), others, 1)

    def _all_fit(self, polys: tuple[Poly, ...], dtype: DataType) -> bool:
        return all(self.normalizer.bounds.fits(p, dtype) for p in polys)

    def _display(self, kind: Any, args: tuple[Poly, ...], like: Atom) -> Atom:
        """An atom to be spelled in the place of another; the same one each time."""
        key = (kind, like, *(frozenset(arg.items()) for arg in args))
        atom = self._displayed.get(key)
        if atom is None:
            atom = self._displayed[key] = Atom(kind, args, like.dtype, None, like.partial, like.exact)
            self.normalizer.rank[atom] = self.normalizer.rank.get(like, 0)
        return atom

    def _exchange(self, p: Poly, old: Monomial, more: Poly, atom: Atom, others: Monomial, times: int) -> Poly:
        """p without the term `old`, plus `more`, plus times·others·atom."""
        result = add({m: c for m, c in p.items() if m is not old}, more)
        return add(result, times_monomial({(atom,): 1}, others, times))
