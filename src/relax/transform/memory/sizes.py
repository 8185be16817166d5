"""Sizes in bytes as polynomials with coefficients ≥ 0 over factors ≥ 0, and the greatest of several such.

    3072·n·b + 48·n²·b      {(n, b): 3072, (n, n, b): 48}; factors are shape variables, and dimensions that are no sums

Such polynomials are compared coefficient by coefficient, and never become negative. Where two are incomparable, both
are kept: a `Height` is the greatest of its polynomials, as a tuple of those that no other one is proved to exceed.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ...analysis.totality import is_nonnegative
from ...prim import Add, FloorDiv, IntImm, Max, Mul, PrimExpr, Var, const, evaluate, free_vars, prove, simplify
from ...prim.identity import Identity, identity
from ...prim.traits import may_fail

Monomial: TypeAlias = "tuple[int, ...]"
"""Numbers of factors, ascending."""
Size: TypeAlias = "Mapping[Monomial, int]"
Height: TypeAlias = "tuple[Size, ...]"

ALIGNMENT: Final = 64
"""Alignment of offsets in bytes."""
NOTHING: Final[Size] = {}
GROUND: Final[Height] = (NOTHING,)
"""Height 0."""

SAMPLES: Final = (1, 5, 24, 100, 400, 2000)
"""Values of shape variables at which arrangements are compared."""
_MOST: Final = 12
"""Maximum number of polynomials in a height; above it some are replaced by a common upper bound."""
_SLACK: Final = 1024
"""Slack in bytes allowed to merge two polynomials that differ only in their constants."""
_MATCHED: Final = 4
"""Products of more factors are compared only if they are equal."""


class SizeTable:
    """The factors of sizes, numbered, and what is proved of them."""

    def __init__(self) -> None:
        self.factors: list[PrimExpr] = []
        self._numbers: dict[Identity, int] = {}
        self._least: dict[tuple[int, int], bool] = {}
        self._sampled: Any = np.ones((0, 1))
        """A row for each factor: its values at the samples."""
        self._tensors: dict[tuple[object, ...], Size | None] = {}
        """Sizes of tensors by the bytes of an element and the dimensions."""
        self._sizes: list[Size] = []
        """Sizes that were compared; equal ones have the same number."""
        self._size_numbers: dict[frozenset[tuple[Monomial, int]], int] = {}
        self._numbers_by_id: dict[int, tuple[Size, int]] = {}
        self._at_most: dict[tuple[int, int], bool] = {}
        self._with_slack: dict[int, int] = {}

    # -- making

    def of_tensor(self, dims: Iterable[PrimExpr], itemsize: int) -> Size | None:
        """The bytes of a tensor; None if computing them may divide by zero."""
        dims = tuple(dims)
        key = itemsize, *map(identity, dims)
        if key not in self._tensors:
            self._tensors[key] = self._of_tensor(dims, itemsize)
        return self._tensors[key]

    def _of_tensor(self, dims: Iterable[PrimExpr], itemsize: int) -> Size | None:
        size: Size = {(): itemsize}
        for dim in dims:
            if may_fail(dim):
                return None
            size = _product(size, self._dimension(simplify(dim)))
        return size

    def _dimension(self, dim: PrimExpr) -> Size:
        size = self._polynomial(dim)
        if size is not None:
            return size
        # A negative dimension is an error where the tensor is made; until then it counts as 0.
        return {(self._number(dim if is_nonnegative(dim) else Max(dim, const(0, dim.dtype))),): 1}

    def _polynomial(self, dim: PrimExpr) -> Size | None:
        """A sum of products of what is never negative; None if it is something else."""
        match dim:
            case IntImm(_, value):
                return None if value < 0 else {(): value} if value else NOTHING
            case Add(a, b) | Mul(a, b):
                first, second = self._polynomial(a), self._polynomial(b)
                if first is None or second is None:
                    return None
                return plus(first, second) if isinstance(dim, Add) else _product(first, second)
            case _:
                return {(self._number(dim),): 1} if is_nonnegative(dim) else None

    def _number(self, factor: PrimExpr) -> int:
        number = self._numbers.setdefault(identity(factor), len(self.factors))
        if number == len(self.factors):
            self.factors.append(factor)
        return number

    # -- asking

    def variables(self, size: Size) -> list[Var]:
        """The shape variables of a size."""
        return list(dict.fromkeys(v for m in size for f in m for v in free_vars(self.factors[f])))

    def at_most(self, a: Size, b: Size) -> bool:
        """True if a size is proved never to exceed another."""
        return self._is_at_most(self._size_number(a), self._size_number(b))

    def _size_number(self, size: Size) -> int:
        """The number of a size, which must not change from now on."""
        known = self._numbers_by_id.get(id(size))
        if known is not None:
            return known[1]
        number = self._size_numbers.setdefault(frozenset(size.items()), len(self._sizes))
        if number == len(self._sizes):
            self._sizes.append(size)
        self._numbers_by_id[id(size)] = size, number
        return number

    def _is_at_most(self, a: int, b: int) -> bool:
        known = self._at_most.get((a, b))
        if known is None:
            size, other = self._sizes[a], self._sizes[b]
            fits = all(coefficient <= other.get(monomial, 0) for monomial, coefficient in size.items())
            known = self._at_most[a, b] = fits or self._is_covered(size, other)
        return known

    def _is_covered(self, a: Size, b: Size) -> bool:
        """True if every term of `a` that exceeds its term of `b` is covered by surplus terms of `b`."""
        surplus = {m: b.get(m, 0) - a.get(m, 0) for m in {**a, **b}}
        over = [m for m, rest in surplus.items() if rest < 0]
        for monomial in over:
            for other in surplus:
                if surplus[other] > 0 and surplus[monomial] < 0 and self._is_least(monomial, other):
                    moved = min(surplus[other], -surplus[monomial])
                    surplus[other] -= moved
                    surplus[monomial] += moved
            if surplus[monomial] < 0:
                return False
        return True

    def _is_least(self, a: Monomial, b: Monomial) -> bool:
        """True if a product is proved not to exceed another, factor by factor."""
        if len(a) != len(b) or len(a) > _MATCHED:
            return False
        return any(
            all(self._is_factor_least(x, y) for x, y in zip(a, order, strict=True))
            for order in itertools.permutations(b)
        )

    def _is_factor_least(self, a: int, b: int) -> bool:
        if a == b:
            return True
        if (a, b) not in self._least:
            self._least[a, b] = prove(self.factors[a] <= self.factors[b]) is True
        return self._least[a, b]

    def value(self, size: Size, env: Mapping[Var, int]) -> int:
        """The number of bytes for values of the shape variables."""
        values = {f: max(int(evaluate(self.factors[f], env)), 0) for m in size for f in m}
        return evaluated(size, values)

    # -- samples

    def sampled(self, size: Size) -> Any:
        """The bytes at some values of the shape variables, for comparing what is right in any case."""
        rows = self._samples()
        total = np.zeros(rows.shape[1])
        for monomial, coefficient in size.items():
            total += coefficient * rows[list(monomial)].prod(axis=0)
        return total

    def _samples(self) -> Any:
        if len(self._sampled) < len(self.factors):
            variables = list(dict.fromkeys(v for factor in self.factors for v in free_vars(factor)))
            chance = random.Random(0)
            envs = [dict.fromkeys(variables, value) for value in SAMPLES]
            if len(variables) > 1:
                envs += [{v: chance.choice(SAMPLES) for v in variables} for _ in range(4 * len(SAMPLES))]
            values = [[max(int(evaluate(factor, env)), 0) for env in envs] for factor in self.factors]
            self._sampled = np.array(values, "float64")
        return self._sampled

    # -- heights

    def greatest(self, heights: Iterable[Height]) -> Height:
        """The greatest of some heights."""
        kept: list[int] = []
        for height in heights:
            for size in height:
                self._keep(kept, self._size_number(size))
        while len(kept) > _MOST:
            self._merge(kept)
        return tuple([self._sizes[number] for number in kept]) or GROUND

    def _merge(self, numbers: list[int]) -> None:
        """Replace two sizes by one that is at least both: those for which it exceeds the greatest of all least."""
        kept = [self._sizes[number] for number in numbers]
        monomials = list(dict.fromkeys(monomial for size in kept for monomial in size))
        rows = self._samples()
        terms = np.array([rows[list(monomial)].prod(axis=0) for monomial in monomials])
        table = np.array([[size.get(monomial, 0) for monomial in monomials] for size in kept], "float64")
        greatest = (table @ terms).max(axis=0)
        best, chosen = math.inf, (0, 1)
        for i, j in itertools.combinations(range(len(kept)), 2):
            cost = float(((np.maximum(table[i], table[j]) @ terms) / greatest).max())
            if cost < best:
                best, chosen = cost, (i, j)
        a, b = kept[chosen[0]], kept[chosen[1]]
        del numbers[chosen[1]], numbers[chosen[0]]
        self._keep(numbers, self._size_number({m: max(a.get(m, 0), b.get(m, 0)) for m in {**a, **b}}))

    def _keep(self, kept: list[int], number: int) -> None:
        """Add a size to those kept, and drop those that it covers."""
        for at, other in enumerate(kept):
            if self._is_at_most(number, other):
                return
            if self._sizes[other] and self._is_at_most(number, self._slack_number(other)):
                del kept[at]
                size, merged = self._sizes[number], self._sizes[other]
                constant = max(merged.get((), 0), size.get((), 0))
                self._keep(kept, self._size_number({**merged, (): constant}))
                return
        kept[:] = [other for other in kept if not self._is_at_most(other, number)]
        kept.append(number)

    def _slack_number(self, number: int) -> int:
        """The number of a size with `_SLACK` bytes more."""
        if number not in self._with_slack:
            self._with_slack[number] = self._size_number(plus(self._sizes[number], {(): _SLACK}))
        return self._with_slack[number]

    # -- writing

    def expression(self, height: Height) -> PrimExpr:
        """A height as a scalar expression."""
        result, *rest = [self._sum(size) for size in height]
        for other in rest:
            result = Max(result, other)
        return result

    def offset(self, height: Height) -> PrimExpr:
        """A height, rounded down to a multiple of the alignment."""
        exact = all(c % ALIGNMENT == 0 for size in height for c in size.values())
        result = self.expression(height)
        if exact:
            return result
        unit = const(ALIGNMENT, "int64")
        return simplify(Mul(FloorDiv(result, unit), unit))

    def _sum(self, size: Size) -> PrimExpr:
        terms: list[PrimExpr] = []
        for monomial, coefficient in size.items():
            term: PrimExpr | None = None
            for factor in monomial:
                term = self.factors[factor] if term is None else Mul(term, self.factors[factor])
            number = const(coefficient, "int64")
            terms.append(number if term is None else term if coefficient == 1 else Mul(term, number))
        total = terms[0] if terms else const(0, "int64")
        for term in terms[1:]:
            total = Add(total, term)
        return total


def plus(a: Size, b: Size) -> Size:
    """The sum of two sizes."""
    result = dict(a)
    for monomial, coefficient in b.items():
        result[monomial] = result.get(monomial, 0) + coefficient
    return result


def raised(height: Height, size: Size) -> Height:
    """A height, and a size on top of it."""
    return tuple(plus(operand, size) for operand in height)


def padded(size: Size) -> Size:
    """A size that keeps what lies on top of it apart although offsets are rounded down to the alignment.

    Let L be heights, o(T) = L(T) rounded down. L(T) ≥ L(U) + padded(U) must give o(T) ≥ o(U) + size(U). That holds
    with the size itself if it is a multiple of the alignment, and with 63 bytes more in any case.
    """
    if all(coefficient % ALIGNMENT == 0 for coefficient in size.values()):
        return size
    if set(size) == {()}:
        return {(): -(-size[()] // ALIGNMENT) * ALIGNMENT}
    return plus(size, {(): ALIGNMENT - 1})


def evaluated(size: Size, values: Mapping[int, int] | Sequence[int]) -> int:
    """The number of bytes, given the values of the factors."""
    total = 0
    for monomial, coefficient in size.items():
        for factor in monomial:
            coefficient *= values[factor]
        total += coefficient
    return total


def _product(a: Size, b: Size) -> Size:
    result: dict[Monomial, int] = {}
    for x, p in a.items():
        for y, q in b.items():
            monomial = tuple(sorted((*x, *y)))
            result[monomial] = result.get(monomial, 0) + p * q
    return result
