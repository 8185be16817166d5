"""Reading expressions as sums of digits of iterators, and conditions as bounds of such sums.

An expression is affine if it is built by these laws from iterators and from what no iterator is a part of:

    (x·c + y) // c = x + y // c                     and the remainder is that of y
    (x·s) // (s·c) = x // c
    0 ≤ x < c:  x // c = 0,  x % c = x
    s·e·x + s·y, 0 ≤ y < e:  s·z for one mark z, with the digits x = z // e and y = z % e        (a fused mark)
    x + r, 0 < r < c:  z for a mark z that starts at r                                           (a shifted mark)
    low ≤ x < high:  z + low for a mark z of extent high - low                                   (a bounded mark)
    Cast(dtype, x) = x where no step of x leaves its dtype, and x is a value of the new one     (see `iter_cast`)

Every step is proved with the prover for all sizes that make no extent negative.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from ..runtime.records import dataclass
from .analyzer import Analyzer, ConstIntBound
from .expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    BinaryExpr,
    Cast,
    CompareExpr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Sub,
    Var,
    cast,
    const,
    is_const,
    match_dtypes,
)
from .functor import FreeVars
from .iter_cast import WIDE, keeps_value
from .iter_expr import IterMark, IterSplitExpr, IterSumExpr, shown
from .iter_sizes import NotAffine, Sizes
from .learn import conjuncts


@dataclass(frozen=True, slots=True)
class Bounded:
    """A bound that a condition sets: the sum of `group` is the mark plus `low`."""

    group: tuple[IterSplitExpr, ...]
    mark: IterMark
    low: PrimExpr
    condition: PrimExpr


@dataclass(frozen=True, slots=True)
class _Window:
    """The condition low ≤ sum of args < high; None where there is no such bound."""

    args: tuple[IterSplitExpr, ...]
    low: PrimExpr | None
    high: PrimExpr | None


_OPPOSITE: dict[type[CompareExpr], type[CompareExpr]] = {LT: GE, GE: LT, LE: GT, GT: LE}


class Parser:
    """Reads expressions of some iterators. Marks of one parser are interned: equal ones are the same object."""

    def __init__(
        self,
        input_iters: Mapping[Var, Any],
        analyzer: Analyzer,
        drop_trivial: bool,
        fuse_first: bool,
        widened: bool = False,
    ) -> None:
        self.sizes = Sizes(analyzer.copy())
        self._widened = widened
        """True if all sums are of dtype WIDE, as where iterators are cast."""
        self._fuse_first = fuse_first
        """True if a sum that is one mark is divided as that mark, else as little of it as possible is."""
        self.values: dict[Var, IterSumExpr] = {}
        """The input iterators as sums."""
        self.extents: dict[Var, PrimExpr] = {}
        """The number of values that each input iterator takes, as far as conditions on it alone say."""
        self.first: dict[IterMark, PrimExpr] = {}
        """The least value of marks that do not start at 0."""
        self.bounded: list[Bounded] = []
        self._marks: list[IterMark] = []
        """Marks whose sources are sums."""
        self._ranges: list[tuple[Var, Any]] = list(input_iters.items())
        self._ranged: Analyzer | None = None
        self._free = FreeVars()
        for var, domain in input_iters.items():
            self._enter(var, domain, drop_trivial)

    def _enter(self, var: Var, domain: Any, drop_trivial: bool) -> None:
        low, extent = getattr(domain, "min", None), getattr(domain, "extent", None)
        if low is None or extent is None:
            raise TypeError(f"the domain of {var.name} has no min and extent: {domain!r}")
        (_, low), (_, extent) = match_dtypes(var, low), match_dtypes(var, extent)
        low, extent = self._wide(low), self._wide(extent)
        extent = self.sizes.simplified(extent)
        if not isinstance(extent, IntImm) and not self.sizes.is_nonnegative(extent):
            self.sizes.analyzer.assume(extent >= 0)
        self.extents[var] = extent
        if drop_trivial and self.sizes.is_one(extent):
            self.values[var] = IterSumExpr((), low)
        else:
            self.values[var] = IterSumExpr((IterSplitExpr(IterMark(self._source(var, low), extent)),), low)

    def _wide(self, expr: PrimExpr) -> PrimExpr:
        return cast(WIDE, expr) if self._widened else expr

    def _source(self, var: Var, low: PrimExpr) -> PrimExpr:
        """The source of an iterator's mark: the iterator without its minimum."""
        value = self._wide(var)
        return value if is_const(low, 0) else Sub(*match_dtypes(value, low))

    # ------------------------------------------------------------------------------------- expressions

    def is_fixed(self, expr: PrimExpr) -> bool:
        """True if no input iterator occurs in an expression."""
        return not any(var in self.values for var in self._free.of(expr))

    @property
    def ranged(self) -> Analyzer:
        """The analyzer that knows where the iterators lie, conditions left aside."""
        if self._ranged is None:
            self._ranged = self.sizes.analyzer.copy()
            for var, domain in self._ranges:
                low, extent = domain.min, domain.extent
                if isinstance(low, IntImm) and isinstance(extent, IntImm):
                    bound = ConstIntBound(low.value, low.value + extent.value - 1)
                    self._ranged.update(var, bound, override=True)
                else:
                    self._ranged.bind(var, domain, override=True)
        return self._ranged

    def parse(self, expr: PrimExpr) -> IterSumExpr:
        """The expression as a sum of digits. Raises NotAffine."""
        if isinstance(expr, Var) and expr in self.values:
            return self.values[expr]
        if not expr.dtype.is_integer or expr.dtype.lanes != 1:
            raise NotAffine(f"{expr} is no integer, but {expr.dtype!s}")
        if self.is_fixed(expr):
            return IterSumExpr((), self.sizes.simplified(self._wide(expr)))
        match expr:
            case Cast() if keeps_value(expr, self.ranged, self.is_fixed):
                return self.parse(expr.value)
            case Cast():
                raise NotAffine(f"{expr} may change the value, or {expr.value} may leave {expr.value.dtype!s}")
            case Add() | Sub():
                return self.added(self.parse(expr.a), self.parse(expr.b), 1 if isinstance(expr, Add) else -1)
            case Mul():
                return self._product(expr)
            case FloorDiv() | FloorMod():
                quotient, remainder = self._division(expr)
                return quotient if isinstance(expr, FloorDiv) else remainder
            case _:
                raise NotAffine(f"{expr} is not affine: built from iterators with +, -, and *, //, % by what is fixed")

    def added(self, a: IterSumExpr, b: IterSumExpr, sign: int = 1) -> IterSumExpr:
        """a + sign·b, equal digits of both being added up."""
        args = list(a.args)
        for arg in b.args:
            scale = arg.scale if sign == 1 else self.sizes.simplified(-arg.scale)
            self._add_digit(args, arg.replace(scale=scale))
        base = self.sizes.simplified(a.base + b.base if sign == 1 else a.base - b.base)
        return IterSumExpr(args, base)

    def _add_digit(self, args: list[IterSplitExpr], new: IterSplitExpr) -> None:
        """Add a digit to a sum; with one that it continues, both are one: i // 4 * 4 + i % 4 is i."""
        for k, old in enumerate(args):
            if self._same_digit(old, new):
                scale = self.sizes.simplified(old.scale + new.scale)
                args[k : k + 1] = [] if self.sizes.is_zero(scale) else [old.replace(scale=scale)]
                return
        for k, old in enumerate(args):
            joined = self._joined(old, new) or self._joined(new, old)
            if joined is not None:
                del args[k]
                self._add_digit(args, joined)
                return
        args.append(new)

    def _same_digit(self, a: IterSplitExpr, b: IterSplitExpr) -> bool:
        return (
            a.source is b.source
            and self.sizes.equal(a.lower_factor, b.lower_factor)
            and self.sizes.equal(a.extent, b.extent)
        )

    def _joined(self, high: IterSplitExpr, low: IterSplitExpr) -> IterSplitExpr | None:
        """The digit that two neighbours are together; None if they are no neighbours."""
        times, equal = self.sizes.times, self.sizes.equal
        if (
            high.source is not low.source
            or not equal(high.lower_factor, times(low.lower_factor, low.extent))
            or not equal(high.scale, times(low.scale, low.extent))
        ):
            return None
        extent = times(low.extent, high.extent)
        if is_const(low.lower_factor, 1) and self.sizes.at_most(low.source.extent, extent):
            extent = low.source.extent
        return low.replace(extent=extent)

    def _product(self, expr: Mul) -> IterSumExpr:
        a, b = self.parse(expr.a), self.parse(expr.b)
        if a.args and b.args:
            raise NotAffine(f"{expr} is a product of two values that both depend on iterators")
        factor, value = (a.base, b) if b.args else (b.base, a)
        return self.multiplied(value, factor)

    def multiplied(self, value: IterSumExpr, factor: PrimExpr) -> IterSumExpr:
        """value · factor."""
        base = self.sizes.times(value.base, factor)
        if self.sizes.is_zero(factor):
            return IterSumExpr((), base)
        args = (arg.replace(scale=self.sizes.times(arg.scale, factor)) for arg in value.args)
        return IterSumExpr(args, base)

    # ---------------------------------------------------------------------------------------- division

    def _division(self, expr: BinaryExpr) -> tuple[IterSumExpr, IterSumExpr]:
        """Quotient and remainder of a division by what is fixed."""
        if not self.is_fixed(expr.b):
            raise NotAffine(f"{expr} divides by {expr.b}, which depends on an iterator")
        sizes, divisor = self.sizes, self.sizes.simplified(self._wide(expr.b))
        if isinstance(divisor, IntImm) and divisor.value <= 0:
            raise NotAffine(f"{expr} divides by {shown(divisor)}")
        if not sizes.is_nonnegative(divisor):
            raise NotAffine(f"{expr} divides by {shown(divisor)}, which is not known to be ≥ 0")
        value = self.gathered(self.parse(expr.a))
        fused = self.fused(value.args) if self._fuse_first else None
        if fused is not None:
            value = value.replace(args=(fused,))
        whole, rest = self._multiples(value.args, divisor)
        high, low = sizes.divided(value.base, divisor)
        quotient = IterSumExpr(whole, high)
        if not rest or self._stays_below(rest, low, divisor):
            return quotient, IterSumExpr(rest, low)
        for factor in sorted({id(arg.scale): arg.scale for arg in rest}.values(), key=_largest_first):
            upper, lower = self._multiples(rest, factor)
            fewer = sizes.quotient(divisor, factor) if upper and lower else None
            if fewer is not None and self._stays_below(lower, low, factor):
                # (x·g + y) // (c·g) = x // c for 0 ≤ y < g
                above, remainder = self._digits(upper, const(0, low.dtype), fewer, expr)
                remainder = self.added(self.multiplied(remainder, factor), IterSumExpr(lower, low))
                return self.added(quotient, above), remainder
        above, remainder = self._digits(rest, low, divisor, expr)
        return self.added(quotient, above), remainder

    def _multiples(
        self, args: Sequence[IterSplitExpr], factor: PrimExpr
    ) -> tuple[list[IterSplitExpr], list[IterSplitExpr]]:
        """The terms that are multiples of a number, divided by it, and the others."""
        multiples: list[IterSplitExpr] = []
        others: list[IterSplitExpr] = []
        for arg in args:
            times = self.sizes.quotient(arg.scale, factor)
            if times is None:
                others.append(arg)
            else:
                multiples.append(arg.replace(scale=times))
        return multiples, others

    def _stays_below(self, args: Sequence[IterSplitExpr], low: PrimExpr, divisor: PrimExpr) -> bool:
        """True if a sum with base `low` ≥ 0 lies in [0, divisor)."""
        greatest = low
        for arg in args:
            if not self.sizes.is_nonnegative(arg.scale):
                return False
            greatest = greatest + (arg.extent - 1) * arg.scale
        return self.sizes.analyzer.can_prove(greatest < divisor)

    def _digits(
        self, args: Sequence[IterSplitExpr], low: PrimExpr, divisor: PrimExpr, expr: PrimExpr
    ) -> tuple[IterSumExpr, IterSumExpr]:
        """Quotient and remainder of a sum with base `low` as digits of one mark."""
        sizes = self.sizes
        fused = self.fused(args)
        if fused is None:
            raise NotAffine(f"{self.unfused(args)}, which {expr} divides")
        scale, value = fused.scale, fused.replace(scale=const(1, fused.dtype))
        by = sizes.quotient(divisor, scale) if sizes.is_positive(scale) else None
        if by is None:
            raise NotAffine(f"{expr} divides {shown(fused.extent)} values that lie {shown(scale)} apart")
        shift = sizes.simplified(low // scale)
        if not sizes.is_zero(shift):
            value = self._shifted(value, shift)
        above, below = self._split(value, by)
        zero = const(0, low.dtype)
        remainder = IterSumExpr((below.replace(scale=scale),), sizes.simplified(low % scale))
        return IterSumExpr((above,), zero), remainder

    def _split(self, value: IterSplitExpr, by: PrimExpr) -> tuple[IterSplitExpr, IterSplitExpr]:
        """The digits value // by and value % by of a digit of scale 1."""
        sizes, mark = self.sizes, value.source
        extent = sizes.quotient(value.extent, by)
        if extent is None:
            if not sizes.is_positive(by):
                raise NotAffine(f"{shown(value.extent)} values are divided by {by}, which may be 0")
            if not sizes.at_most(mark.extent, sizes.times(value.lower_factor, value.extent)):
                value = IterSplitExpr(self._mark((value,), const(0, value.dtype), value.extent))
            extent = sizes.rounded_up(value.extent, by)
        lower = sizes.times(value.lower_factor, by)
        return value.replace(lower_factor=lower, extent=extent), value.replace(extent=by)

    def _shifted(self, value: IterSplitExpr, low: PrimExpr) -> IterSplitExpr:
        mark = self._mark((value,), low, self.sizes.simplified(value.extent + low))
        self.first[mark] = low
        return IterSplitExpr(mark)

    # ------------------------------------------------------------------------------------------- marks

    def _mark(self, args: tuple[IterSplitExpr, ...], base: PrimExpr, extent: PrimExpr) -> IterMark:
        """The mark of a sum, one object for sums of the same digits."""
        for mark in self._marks:
            source = mark.source
            assert isinstance(source, IterSumExpr)
            if (
                len(source.args) == len(args)
                and all(map(self._same_term, source.args, args))
                and self.sizes.equal(source.base, base)
                and self.sizes.equal(mark.extent, extent)
            ):
                return mark
        self._marks.append(IterMark(IterSumExpr(args, base), extent))
        return self._marks[-1]

    def _same_term(self, a: IterSplitExpr, b: IterSplitExpr) -> bool:
        return self._same_digit(a, b) and self.sizes.equal(a.scale, b.scale)

    def fused(self, args: Sequence[IterSplitExpr]) -> IterSplitExpr | None:
        """The one digit that a sum without base is: s·x for a mark x; None if values are missing or met twice."""
        if len(args) == 1:
            return args[0]
        chain = self._chain(args)
        if chain is None:
            return None
        scale, extent = chain[0].scale, chain[0].extent
        factor = const(1, scale.dtype)
        normal: list[IterSplitExpr] = []
        for k, arg in enumerate(chain):
            normal.append(arg.replace(scale=factor))
            factor = self.sizes.times(factor, arg.extent)
            extent = factor if k else extent
        mark = self._mark(tuple(reversed(normal)), const(0, scale.dtype), extent)
        return IterSplitExpr(mark, scale=scale)

    def _chain(self, args: Sequence[IterSplitExpr]) -> list[IterSplitExpr] | None:
        """Digits from the lowest on, each with the room that those below take as its scale; None if there are gaps."""
        for first in sorted(args, key=_by_scale):
            rest = sorted((arg for arg in args if arg is not first), key=_by_scale)
            chain = [first]
            while rest:
                room = self.sizes.times(chain[-1].scale, chain[-1].extent)
                following = next((arg for arg in rest if self.sizes.equal(arg.scale, room)), None)
                if following is None:
                    break
                rest.remove(following)
                chain.append(following)
            else:
                return chain
        return None

    def unfused(self, args: Sequence[IterSplitExpr]) -> str:
        """The reason why a sum is no one digit, for messages."""
        terms = ", ".join(f"extent {shown(arg.extent)} times {shown(arg.scale)}" for arg in args)
        return f"the terms ({terms}) leave gaps or overlap in the sum"

    def gathered(self, value: IterSumExpr) -> IterSumExpr:
        """The sum with the digits that a condition bounds as one digit of the bounded mark."""
        for bound in self.bounded:
            value = self._gather(value, bound)
        return value

    def _gather(self, value: IterSumExpr, bound: Bounded) -> IterSumExpr:
        rest, ratio = list(value.args), None
        for part in bound.group:
            mine = next((arg for arg in rest if self._same_digit(arg, part)), None)
            if mine is None:
                return value
            if ratio is None:
                ratio = self.sizes.quotient(mine.scale, part.scale)
            if ratio is None or not self.sizes.equal(mine.scale, self.sizes.times(part.scale, ratio)):
                return value
            rest.remove(mine)
        assert ratio is not None
        rest.append(IterSplitExpr(bound.mark, scale=ratio))
        return IterSumExpr(rest, self.sizes.simplified(value.base + self.sizes.times(bound.low, ratio)))

    # -------------------------------------------------------------------------------------- conditions

    def constrain(self, predicate: PrimExpr, must_hold: bool) -> None:
        """Take a condition on the iterators into account. Raises NotAffine.

        With `must_hold`, conditions on sizes alone must be proved: where they fail, no value is left.
        """
        parts = [part if truth else _negated(part) for part, truth in conjuncts(predicate)]
        for part in sorted(parts, key=self._count):
            holds = bool(part.value) if isinstance(part, IntImm) else self.ranged.prove(part)
            if holds is True:
                continue
            if holds is False:
                raise NotAffine(f"the predicate {part} holds for no value of the iterators")
            if not self._count(part):
                if must_hold:
                    raise NotAffine(f"the predicate {part} is not known to hold for all sizes")
                self.sizes.analyzer.assume(part)
                continue
            self._bound(part)

    def _count(self, condition: PrimExpr) -> int:
        """The number of input iterators in a condition."""
        return sum(1 for var in self._free.of(condition) if var in self.values)

    def _bound(self, condition: PrimExpr) -> None:
        window = self._window(condition)
        fused = self.fused(window.args)
        if fused is None:
            raise NotAffine(f"{self.unfused(window.args)} that the predicate {condition} bounds")
        sizes, scale = self.sizes, fused.scale
        if not sizes.is_positive(scale):
            raise NotAffine(f"the predicate {condition} bounds a multiple of {shown(scale)}, which may be 0")
        zero, value = const(0, fused.dtype), fused.replace(scale=const(1, fused.dtype))
        low = zero if window.low is None else sizes.larger(sizes.rounded_up(window.low, scale), zero)
        high = value.extent
        if window.high is not None:
            high = sizes.smaller(sizes.rounded_up(window.high, scale), high)
        self._restrict(value, low, high, condition)

    def _window(self, condition: PrimExpr) -> _Window:
        if not isinstance(condition, (LT, LE, GT, GE, EQ)):
            raise NotAffine(f"the predicate {condition} is no conjunction of bounds of iterators")
        value = self.gathered(self.added(self.parse(condition.a), self.parse(condition.b), -1))
        if not value.args:
            raise NotAffine(f"the predicate {condition} depends on an iterator without bounding it")
        simplified, base = self.sizes.simplified, value.base
        low = high = None
        if isinstance(condition, (LT, LE, EQ)):
            high = simplified(-base if isinstance(condition, LT) else 1 - base)
        if isinstance(condition, (GT, GE, EQ)):
            low = simplified(1 - base if isinstance(condition, GT) else -base)
        args = value.args
        if all(isinstance(arg.scale, IntImm) and arg.scale.value < 0 for arg in args):
            args = tuple(arg.replace(scale=simplified(-arg.scale)) for arg in args)
            low, high = (None if end is None else simplified(1 - end) for end in (high, low))
        return _Window(args, low, high)

    def _restrict(self, value: IterSplitExpr, low: PrimExpr, high: PrimExpr, condition: PrimExpr) -> None:
        """Take low ≤ value < high into account, for a digit of scale 1."""
        sizes, mark = self.sizes, value.source
        if isinstance(mark.source, PrimExpr) and sizes.at_most(
            mark.extent, sizes.times(value.lower_factor, value.extent)
        ):
            # The highest digit of an iterator: the iterator itself is bounded.
            low = sizes.times(low, value.lower_factor)
            high = sizes.smaller(sizes.times(high, value.lower_factor), mark.extent)
            extent = sizes.larger(sizes.simplified(high - low), const(0, high.dtype))
            self._narrow(mark, low, extent)
            return
        extent = sizes.larger(sizes.simplified(high - low), const(0, high.dtype))
        for k, bound in enumerate(self.bounded):
            if bound.mark is mark and self._is_whole(value):
                low = sizes.simplified(bound.low + low)
                narrower = IterMark(IterSumExpr(bound.group, sizes.simplified(-low)), extent)
                both = And(bound.condition, condition)
                self.bounded[k] = Bounded(bound.group, narrower, low, both)
                return
        group = (value,)
        if isinstance(mark.source, IterSumExpr) and self._is_whole(value) and is_const(mark.source.base, 0):
            group = mark.source.args
        bounded = IterMark(IterSumExpr(group, sizes.simplified(-low)), extent)
        self.bounded.append(Bounded(group, bounded, low, condition))

    def _is_whole(self, value: IterSplitExpr) -> bool:
        return is_const(value.lower_factor, 1) and self.sizes.equal(value.extent, value.source.extent)

    def is_stale(self, var: Var, marks: Container[IterMark]) -> bool:
        """True if an iterator was bounded after one of these marks was made of it."""
        return not any(arg.source in marks for arg in self.values[var].args)

    def _narrow(self, mark: IterMark, low: PrimExpr, extent: PrimExpr) -> None:
        """Let an input iterator take only `extent` values from `low` on."""
        for var, value in self.values.items():
            if any(arg.source is mark for arg in value.args):
                assert isinstance(mark.source, PrimExpr)
                base = self.sizes.simplified(value.base + low)
                self.values[var] = IterSumExpr((IterSplitExpr(IterMark(self._source(var, base), extent)),), base)
                self.extents[var] = extent


def _by_scale(arg: IterSplitExpr) -> tuple[int, int, int]:
    """The order in which digits are tried: known scales first, small ones first, then small extents."""
    scale = abs(arg.scale.value) if isinstance(arg.scale, IntImm) else None
    extent = arg.extent.value if isinstance(arg.extent, IntImm) else 2**63
    return (1, 0, extent) if scale is None else (0, scale, extent)


def _largest_first(scale: PrimExpr) -> int:
    return -scale.value if isinstance(scale, IntImm) else -(2**63)


def _negated(condition: PrimExpr) -> PrimExpr:
    """The condition that holds where one does not."""
    opposite = _OPPOSITE.get(type(condition))  # type: ignore[arg-type]
    if opposite is None:
        raise NotAffine(f"the predicate not ({condition}) is no conjunction of bounds of iterators")
    assert isinstance(condition, CompareExpr)
    return opposite(condition.a, condition.b)  # type: ignore[call-arg]
