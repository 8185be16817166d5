"""Polynomials with integer coefficients over atoms: the normal form integer expressions are compared in.

    Poly     {monomial: coefficient}, in order of first occurrence
    monomial a tuple of factors ordered by identity; () is the constant term
    factor   a Var, or an Atom: whatever is not sum or product (a quotient, a maximum, a load, ...)

Atoms of one `Normalizer` are interned: equal ones are the same object, so factors compare by identity.
A coefficient of zero is kept only for a monomial that may fail: its evaluation must not be lost.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from ..ir import DataType
from .arithmetic import wrap
from .expr import PrimExpr, Var


class Atom:
    """A factor that is not a variable: `kind` of operation on the polynomials `args`, or an opaque `node`."""

    __slots__ = ("args", "dtype", "exact", "ideal", "kind", "node", "partial")

    def __init__(
        self,
        kind: Any,
        args: tuple[Poly, ...],
        dtype: DataType,
        node: PrimExpr | None,
        partial: bool,
        exact: bool,
        ideal: bool = False,
    ) -> None:
        self.kind = kind
        self.args = args
        self.dtype = dtype
        self.node = node
        self.partial = partial
        """True if its evaluation may fail (a division by what may be zero)."""
        self.exact = exact
        """True if no operand wraps around: then the operation is that of unbounded integers on `args`."""
        self.ideal = ideal
        """True if it is so although operands may not fit into the dtype: a step of a proof, which no expression has."""

    def __repr__(self) -> str:
        name = self.kind.__name__ if isinstance(self.kind, type) else str(self.kind)
        return f"{name}{self.args or self.node}"


Factor: TypeAlias = "Var | Atom"
Monomial: TypeAlias = "tuple[Factor, ...]"
Poly: TypeAlias = "dict[Monomial, int]"

TOO_LARGE = 64
"""A product that would have more terms than this is not expanded."""
TOO_DEEP = 12
"""Nor one whose terms would have more factors than this."""


def constant(value: int) -> Poly:
    """The polynomial of a number."""
    return {(): value} if value else {}


def value_of(poly: Poly) -> int | None:
    """The number a polynomial is, None if it is not one."""
    if not poly:
        return 0
    return poly.get(()) if len(poly) == 1 else None


def is_partial(monomial: Monomial) -> bool:
    """True if the evaluation of a monomial may fail."""
    for factor in monomial:  # noqa: SIM110 - asked of each term of each sum; `any` takes twice as long
        if type(factor) is Atom and factor.partial:
            return True
    return False


def add(p: Poly, q: Poly, scale: int = 1) -> Poly:
    """p + scale·q."""
    result = dict(p)
    for monomial, coefficient in q.items():
        total = result.get(monomial, 0) + scale * coefficient
        if total or is_partial(monomial):
            result[monomial] = total
        elif monomial in result:
            del result[monomial]
    return result


def scaled(p: Poly, scale: int) -> Poly:
    """scale·p."""
    if scale == 1:
        return p
    if scale == -1:
        return {m: -c for m, c in p.items()}
    return {m: c * scale for m, c in p.items()} if scale else ghosts(p)


def times_monomial(p: Poly, monomial: Monomial, scale: int = 1) -> Poly:
    """scale·monomial·p."""
    if not monomial:
        return scaled(p, scale)
    return {join(m, monomial): c * scale for m, c in p.items()}


def join(a: Monomial, b: Monomial) -> Monomial:
    """The product of two monomials."""
    if not a or not b:
        return a or b
    if len(a) == len(b) == 1:
        return a + b if id(a[0]) <= id(b[0]) else b + a
    return tuple(sorted(a + b, key=id))


def multiply(p: Poly, q: Poly) -> Poly:
    """p·q."""
    if not p or not q:
        return ghosts(p or q)
    result: Poly = {}
    for a, x in p.items():
        for b, y in q.items():
            monomial = join(a, b)
            total = result.get(monomial, 0) + x * y
            if total or is_partial(monomial):
                result[monomial] = total
            else:
                result.pop(monomial, None)
    return result


def without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    """The monomial divided by others; None if they do not divide it."""
    if len(monomial) == len(factors) == 1:
        return () if monomial[0] is factors[0] else None
    rest = list(monomial)
    for factor in factors:
        for i, mine in enumerate(rest):
            if mine is factor:
                del rest[i]
                break
        else:
            return None
    return tuple(rest)


def ghosts(p: Poly) -> Poly:
    """0·p: nothing but the possible failures of p."""
    return {m: 0 for m in p if is_partial(m)}


def degree(p: Poly) -> int:
    """The number of factors of the longest term."""
    return max(map(len, p), default=0)


def factors_of(p: Poly) -> dict[Factor, None]:
    """All factors of a polynomial, those of the operands of its atoms included, each once."""
    found: dict[Factor, None] = {}
    pending = [p]
    while pending:
        for monomial in pending.pop():
            for factor in monomial:
                if factor not in found:
                    found[factor] = None
                    if isinstance(factor, Atom):
                        pending += factor.args
    return found


def content(p: Poly) -> int:
    """The greatest common divisor of the coefficients, the constant term's not counted; 0 without others."""
    return math.gcd(*(c for m, c in p.items() if m))


def reduced(p: Poly, dtype: DataType) -> Poly:
    """The same value modulo 2^bits: coefficients below 2^bits in magnitude, the number within a signed dtype.

    An unsigned x - 1 stays as it is, unless the number stands alone.
    """
    modulus = 1 << dtype.bits
    number = p.get((), 0)
    if number and (dtype.is_int or len(p) == 1):
        wrapped = wrap(number, dtype)
        if wrapped != number:
            p = {m: c for m, c in (p | {(): wrapped}).items() if c or m}
    if all(-modulus < c < modulus for c in p.values()):
        return p
    small = {m: abs(c) % modulus * (1 if c > 0 else -1) for m, c in p.items()}
    return {m: c for m, c in small.items() if c or is_partial(m)}


def vanishes(p: Poly, dtype: DataType) -> bool:
    """True if p is 0 modulo 2^bits for all values."""
    modulus = (1 << dtype.bits) - 1
    return not any(c & modulus for c in p.values())
