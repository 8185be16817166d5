"""Mixed radix: decompose index maps into digits, which determine their shapes and inverses.

A digit is ``(number + offset) // lower % modulus`` of an initial index, or of a sum of digits that is split again:

    (i // 4, i % 4)              digits of i: lower 4; lower 1, modulus 4
    (i * 4 + j,)                 the digits i and j, with factors 4 and 1
    ((i + 1) // 8, (i + 1) % 8)  digits of i with offset 1
    ((i * 4 + j) // 8, …)        digits of the sum, whose own digits are i and j

The digits of a number must cover it without gap or overlap; each factor of a sum must be at least the range of the
smaller terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from ..prim import (
    Add,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Sub,
    Var,
    const,
    free_vars,
    intrin,
    is_const,
    prove,
    prove_equal,
    simplify,
)
from ..prim.analyzer import Verdict
from ..runtime.records import dataclass


@dataclass(eq=False)
class Number:
    """A number that is split into digits: an initial index, or a sum of digits."""

    name: str
    extent: PrimExpr
    """Number of values, which start at 0."""
    offset: int = 0
    """Constant added before the number is split."""
    var: Var | None = None
    digits: Sequence[Digit] = ()
    """Digits that add up to the number, by decreasing factor; empty for an initial index."""
    parts: list[Digit] = field(default_factory=lambda: list[Digit]())
    """Digits into which the number is split."""


@dataclass(frozen=True, eq=False)
class Digit:
    """A term of a sum: `factor` times ``(number + offset) // lower % modulus``."""

    number: Number
    lower: int
    modulus: int | None
    """Modulus; None for the most significant digit."""
    factor: PrimExpr

    @property
    def extent(self) -> PrimExpr:
        """Number of values of the digit, before the factor."""
        if self.modulus is not None:
            return const(self.modulus, "int64")
        return simplify(intrin.ceildiv(self.number.extent + self.number.offset, self.lower))


@dataclass(frozen=True)
class _Sum:
    """A sum of digits and a constant."""

    digits: tuple[Digit, ...]
    base: int = 0

    @property
    def whole(self) -> Digit | None:
        """The only digit of the sum, if its factor is 1; else None."""
        if len(self.digits) == 1 and is_const(self.digits[0].factor, 1):
            return self.digits[0]
        return None


class MixedRadix:
    """Index expressions as sums of digits.

    Raises ValueError for expressions of another form, and for maps that send two elements of the shape to the same
    indices.
    """

    def __init__(self, indices: Sequence[Var], expressions: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> None:
        if len(shape) != len(indices):
            raise ValueError(f"the index map takes {len(indices)} indices, found {len(shape)} dimensions")
        self._indices = indices
        self._numbers = [Number(var.name, size, var=var) for var, size in zip(indices, shape, strict=True)]
        """The numbers that are split; a sum follows the numbers of its digits."""
        self._sizes = dict(zip(indices, shape, strict=True))
        self.digits = [self._final(index) for index in expressions]
        """Digits of each expression, by decreasing factor."""
        for digit in (digit for digits in self.digits for digit in digits):
            digit.number.parts.append(digit)
        for var in indices:
            self._check_index(var)
        for number in self._numbers:
            if number.var is None or number.parts:
                _check(number)

    def shape(self) -> tuple[PrimExpr, ...]:
        """Number of values of each expression."""
        return tuple(_extent(digits) for digits in self.digits)

    def inverse(self, values: Sequence[PrimExpr]) -> tuple[list[PrimExpr], list[PrimExpr]]:
        """Return the initial indices as functions of `values`, and the conditions under which `values` have a
        preimage.
        """
        inside: list[PrimExpr] = []
        digit_values: dict[Digit, PrimExpr] = {}
        for value, digits in zip(values, self.digits, strict=True):
            _take_apart(value, digits, digit_values)
            inside += [digit_values[digit] < digit.extent for digit in digits] if len(digits) > 1 else []
        indices: dict[Var, PrimExpr] = {var: const(0, "int64") for var in self._indices}
        limits: dict[Var, list[PrimExpr]] = {}
        for number in reversed(self._numbers):
            total = _total(number, digit_values)
            bounds = [total < number.extent, *([total >= 0] if number.offset else [])]
            if number.var is None:
                inside += bounds
                _take_apart(total, number.digits, digit_values)
            elif number.parts:
                indices[number.var], limits[number.var] = total, bounds
        for var in self._indices:
            inside += limits.get(var) or [const(0, "int64") < self._sizes[var]]
        return list(indices.values()), inside

    # ------------------------------------------------------------------ expressions to sums

    def _final(self, index: PrimExpr) -> list[Digit]:
        total = self._sum(index)
        if total.base:
            raise ValueError(f"the index {index} does not begin at 0")
        return _ordered(total.digits, index)

    def _sum(self, index: PrimExpr) -> _Sum:
        match index:
            case IntImm():
                return _Sum((), index.value)
            case Var() if index in self._sizes:
                number = next(n for n in self._numbers if n.var is index)
                return _Sum((Digit(number, 1, None, const(1, "int64")),))
            case Add():
                a, b = self._sum(index.a), self._sum(index.b)
                return _Sum((*a.digits, *b.digits), a.base + b.base)
            case Sub() if isinstance(index.b, IntImm):
                total = self._sum(index.a)
                return replace(total, base=total.base - index.b.value)
            case Mul():
                return self._multiple(index)
            case FloorDiv() | FloorMod() if isinstance(index.b, IntImm) and index.b.value > 0:
                return self._split(index, index.b.value)
            case _:
                raise _unclear(index)

    def _multiple(self, index: Mul) -> _Sum:
        """Return a sum times a constant or a size."""
        factor, inner = (index.a, index.b) if self._is_size(index.a) else (index.b, index.a)
        if not self._is_size(factor) or (isinstance(factor, IntImm) and factor.value < 1):
            raise _unclear(index)
        total = self._sum(inner)
        if isinstance(factor, IntImm):
            number, scale = factor.value, const(factor.value, "int64")
        elif total.base == 0:
            number, scale = 0, factor
        else:
            raise _unclear(index)
        digits = (replace(d, factor=simplify(d.factor * scale)) for d in total.digits)
        return _Sum(tuple(digits), total.base * number)

    def _is_size(self, expr: PrimExpr) -> bool:
        return not any(var in self._sizes for var in free_vars(expr))

    def _split(self, index: FloorDiv | FloorMod, number: int) -> _Sum:
        """Return the quotient or remainder by `number`, as a digit of a digit or of a sum."""
        total = self._sum(index.a)
        whole = total.whole
        if whole is None or total.base:
            whole = Digit(self._number(total, index.a), 1, None, const(1, "int64"))
        if whole.modulus is not None and whole.modulus % number:
            raise _unclear(index)
        if isinstance(index, FloorMod):
            return _Sum((replace(whole, modulus=number),))
        modulus = None if whole.modulus is None else whole.modulus // number
        return _Sum((replace(whole, lower=whole.lower * number, modulus=modulus),))

    def _number(self, total: _Sum, index: PrimExpr) -> Number:
        """Return the number for a sum that is split, reusing one with the same digits."""
        whole = total.whole
        if whole is not None and whole.lower == 1 and whole.modulus is None:
            candidate = replace(whole.number, offset=whole.number.offset + total.base, parts=[])
        else:
            digits = _ordered(total.digits, index)
            room: PrimExpr = const(1, "int64")
            for digit in reversed(digits):
                if prove_equal(room, digit.factor) is not Verdict.YES:
                    raise ValueError(f"the index {index} is split, but has not all values below its greatest one")
                room = simplify(digit.extent * digit.factor)
            candidate = Number(str(index), room, total.base, digits=digits)
        for number in self._numbers:
            if _same(number, candidate):
                return number
        for digit in candidate.digits:
            digit.number.parts.append(digit)
        self._numbers.append(candidate)
        return candidate

    # ------------------------------------------------------------------ what a map must fulfil

    def _check_index(self, var: Var) -> None:
        """Raise ValueError unless an index is split in one way, or has a single value."""
        used = [number for number in self._numbers if number.var is var and number.parts]
        if len(used) > 1:
            raise _uneven(var.name)
        if not used and not prove(self._sizes[var] <= 1):
            raise _incomplete(var.name)


def _same(a: Number, b: Number) -> bool:
    """True if two numbers have the same variable or digits, and the same offset."""
    if a.var is not b.var or a.offset != b.offset or len(a.digits) != len(b.digits):
        return False
    return all(
        x.number is y.number
        and (x.lower, x.modulus) == (y.lower, y.modulus)
        and prove_equal(x.factor, y.factor) is Verdict.YES
        for x, y in zip(a.digits, b.digits, strict=True)
    )


def _check(number: Number) -> None:
    """Raise ValueError unless the digits of a number cover it without gap or overlap."""
    if number.offset < 0:
        raise ValueError(f"the index map moves elements to places before 0 along {number.name}")
    expected: int | None = 1
    for digit in sorted(number.parts, key=lambda d: (d.lower, d.modulus is None)):
        if digit.lower != expected:
            raise _uneven(number.name)
        expected = None if digit.modulus is None else digit.lower * digit.modulus
        if digit.modulus is None and number.offset // digit.lower:
            start = number.offset // digit.lower
            raise ValueError(f"the index map moves nothing to the places before {start} along {number.name}")
    if expected is not None and not prove(number.extent + number.offset <= expected):
        raise _incomplete(number.name)


def _uneven(name: str) -> ValueError:
    return ValueError(f"the index map moves two elements to one place, or splits {name} unevenly")


def _incomplete(name: str) -> ValueError:
    return ValueError(f"the index map does not tell elements apart by the whole of index {name}")


def _unclear(index: PrimExpr) -> ValueError:
    return ValueError(
        f"the index {index} is not a sum of indices, of their quotients i // c and remainders i % c by constants, "
        "and of multiples of these by constants"
    )


def _ordered(digits: Sequence[Digit], index: PrimExpr) -> list[Digit]:
    """Sort digits by decreasing factor; raises ValueError unless each factor is at least the range of the smaller
    digits.
    """
    rest, result = list(digits), list[Digit]()
    room: PrimExpr = const(1, "int64")
    while rest:
        digit = _least(rest)
        if not (prove(room <= digit.factor) if result else is_const(digit.factor, 1)):
            raise ValueError(f"the index {index} may be the same for two elements")
        rest.remove(digit)
        result.insert(0, digit)
        room = simplify(digit.extent * digit.factor)
    return result


def _least(digits: Sequence[Digit]) -> Digit:
    """Return the digit of the least constant factor; if none is constant, the digit whose factor is proved to
    be least.
    """
    numbers = {digit: digit.factor.value for digit in digits if isinstance(digit.factor, IntImm)}
    if numbers:
        return min(numbers, key=lambda digit: numbers[digit])
    return next((digit for digit in digits if all(prove(digit.factor <= other.factor) for other in digits)), digits[0])


def _extent(digits: Sequence[Digit]) -> PrimExpr:
    """Return the number of values of a sum."""
    if not digits:
        return const(1, "int64")
    first, *rest = digits
    total = first.extent * first.factor
    if rest:
        total = total - first.factor + _extent(rest)
    return simplify(total)


def _total(number: Number, digit_values: Mapping[Digit, PrimExpr]) -> PrimExpr:
    """Return the value of a number, given its digits."""
    total: PrimExpr = const(0, "int64")
    for digit in number.parts:
        value = digit_values[digit] if digit.lower == 1 else digit_values[digit] * digit.lower
        total = value if is_const(total, 0) else total + value
    return total - number.offset if number.offset else total


def _take_apart(value: PrimExpr, digits: Sequence[Digit], digit_values: dict[Digit, PrimExpr]) -> None:
    """Compute the digits of a sum from its value, into `digit_values`."""
    rest = value
    for position, digit in enumerate(digits):
        digit_values[digit] = rest if position == len(digits) - 1 else intrin.floordiv(rest, digit.factor)
        rest = intrin.floormod(rest, digit.factor)
