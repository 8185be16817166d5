"""Subspace division: indices of a loop nest as those of its outer loops and those of its inner ones.

for io in range(8):
    for ii in range(16):
        A[io * 16 + ii]        outer: io, in [0, 8);  inner: ii, in [0, 16);  the index is outer * 16 + inner
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..runtime.records import dataclass
from .analyzer import Analyzer
from .expr import And, IntImm, PrimExpr, Var, const, convert
from .functor import free_vars
from .iter_expr import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, marks_below, normalize_iter_map_to_expr
from .iter_map import Detected, detect
from .iter_sizes import NotAffine, Sizes
from .learn import conjuncts


def subspace_divide(
    bindings: Sequence[Any],
    input_iters: Mapping[Var, Any],
    sub_iters: Iterable[Var],
    predicate: Any = True,
    check_level: IterMapLevel | int = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    *,
    analyzer: Analyzer | None = None,
) -> list[list[IterMark]]:
    """For each binding a pair [outer, inner], and last the pair of conditions; [] if that is not possible.

        subspace_divide([i * 8 + j * 4 + k], {i: [0, 4), j: [0, 2), k: [0, 4)}, [k])
            outer i * 2 + j, extent 8;  inner k, extent 4

    A binding is ``outer * inner.extent + inner``. The outer part is made of the iterators that are not in `sub_iters`,
    the inner one of those that are. A base is added to the part that is not 0, to the inner one if both are not: that
    part starts at its base, the others at 0. The extents of the last pair are the outer and the inner condition. The
    inner one has all parts of `predicate` in which one of `sub_iters` occurs, even if outer iterators do, too:
    ``io * 16 + ii < n`` is a condition inside of io.
    """
    divided = divide_subspace(
        bindings, input_iters, sub_iters, predicate, check_level, simplify_trivial_iterators, analyzer=analyzer
    )
    return [] if isinstance(divided, str) else divided


def divide_subspace(
    bindings: Sequence[Any],
    input_iters: Mapping[Var, Any],
    sub_iters: Iterable[Var],
    predicate: Any = True,
    check_level: IterMapLevel | int = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    *,
    analyzer: Analyzer | None = None,
) -> list[list[IterMark]] | str:
    """Like `subspace_divide`; returns the reason if the division is not possible."""
    detected = detect(bindings, input_iters, predicate, check_level, simplify_trivial_iterators, analyzer=analyzer)
    if isinstance(detected, NotAffine):
        return str(detected)
    inner = set(sub_iters)
    divider = _Divider(detected, inner)
    try:
        result = [divider.binding(index) for index in detected.indices]
    except NotAffine as error:
        return str(error)
    return [*result, _conditions(convert(predicate), divider)]


def _conditions(predicate: PrimExpr, divider: _Divider) -> list[IterMark]:
    """The parts of the predicate by the iterators that occur in them."""
    outer: PrimExpr = IntImm("bool", 1)
    inner: PrimExpr = outer
    true = outer
    for part, truth in conjuncts(predicate):
        condition = part if truth else ~part
        if divider.detected.parser.ranged.can_prove(condition):
            continue
        if any(var in divider.inner for var in free_vars(condition)):
            inner = condition if inner is true else And(inner, condition)
        else:
            outer = condition if outer is true else And(outer, condition)
    nothing = IterSumExpr((), const(0, "int64"))
    return [IterMark(nothing, outer), IterMark(nothing, inner)]


@dataclass(frozen=True, slots=True)
class _Parts:
    """A value in [0, outer_extent * inner_extent): outer * inner_extent + inner."""

    outer: IterSumExpr
    outer_extent: PrimExpr
    inner: IterSumExpr
    inner_extent: PrimExpr


class _Divider:
    def __init__(self, detected: Detected, inner: set[Var]) -> None:
        self.detected = detected
        self.sizes: Sizes = detected.parser.sizes
        self.inner = inner
        self._sides: dict[IterMark, tuple[bool, bool]] = {}
        self._marks: dict[IterMark, _Parts] = {}

    def sides(self, mark: IterMark) -> tuple[bool, bool]:
        """True for outer iterators if some are part of a mark, and the same for inner ones."""
        if mark not in self._sides:
            variables = {
                var
                for below in marks_below(mark)
                if isinstance(below.source, PrimExpr)
                for var in free_vars(below.source)
                if var in self.detected.parser.values
            }
            self._sides[mark] = bool(variables - self.inner), bool(variables & self.inner)
        return self._sides[mark]

    def binding(self, index: IterSumExpr) -> list[IterMark]:
        """The pair [outer, inner] of an index."""
        one, nothing = const(1, index.dtype), IterSumExpr((), const(0, index.dtype))
        sides = [self.sides(arg.source) for arg in index.args]
        if not any(inner for _, inner in sides) and sides:
            return [IterMark(index, self._room(index)), IterMark(nothing, one)]
        if not any(outer for outer, _ in sides):
            return [IterMark(nothing, one), IterMark(index, self._room(index))]
        if len(index.args) != 1 or not self.sizes.is_one(index.args[0].scale):
            raise NotAffine(f"an index of outer and inner iterators has gaps: {_text(index)}")
        base, (arg,) = index.base, index.args
        source = arg.source.source
        if self._is_whole(arg) and isinstance(source, IterSumExpr):
            # A bounded mark starts at its first value; its digits may start anywhere.
            base = self.sizes.simplified(base + source.base)
            parts = self._divide_sum(source, arg.source)
        else:
            parts = self._divide(arg)
        inner = parts.inner.replace(base=base)
        return [IterMark(parts.outer, parts.outer_extent), IterMark(inner, parts.inner_extent)]

    def _room(self, index: IterSumExpr) -> PrimExpr:
        """The number of integers from the least value of an index to the greatest."""
        if not index.args:
            return const(1, index.dtype)
        if len(index.args) == 1 and self.sizes.is_one(index.args[0].scale):
            return index.args[0].extent
        room: PrimExpr = const(1, index.dtype)
        for arg in index.args:
            if not self.sizes.is_nonnegative(arg.scale):
                raise NotAffine(f"an index falls with an iterator: {_text(index)}")
            room = room + (arg.extent - 1) * arg.scale
        return self.sizes.simplified(room)

    def _is_whole(self, arg: IterSplitExpr) -> bool:
        return self.sizes.is_one(arg.lower_factor) and self.sizes.equal(arg.extent, arg.source.extent)

    def _divide(self, arg: IterSplitExpr) -> _Parts:
        """The parts of a digit, its scale left aside."""
        arg = arg.replace(scale=const(1, arg.dtype))
        one, nothing = const(1, arg.dtype), IterSumExpr((), const(0, arg.dtype))
        outer, inner = self.sides(arg.source)
        value = IterSumExpr((arg,), const(0, arg.dtype))
        if not inner:
            return _Parts(value, arg.extent, nothing, one)
        if not outer:
            return _Parts(nothing, one, value, arg.extent)
        source = arg.source.source
        assert isinstance(source, IterSumExpr)
        if not self.sizes.is_zero(source.base):
            raise NotAffine(f"outer and inner iterators meet in {_text(source)}, of which a digit is used")
        whole = self._divide_sum(source, arg.source)
        return whole if self._is_whole(arg) else self._digit(arg, whole)

    def _divide_sum(self, source: IterSumExpr, mark: IterMark) -> _Parts:
        """The parts of a compact sum, its base left aside: outer digits stand above inner ones."""
        if mark not in self._marks:
            self._marks[mark] = self._divided_sum(source)
        return self._marks[mark]

    def _divided_sum(self, source: IterSumExpr) -> _Parts:
        sizes, one = self.sizes, const(1, source.dtype)
        outer: list[IterSplitExpr] = []
        inner: list[IterSplitExpr] = []
        room, top = one, one
        for arg in reversed(source.args):  # from the lowest digit on
            parts = self._divide(arg)
            top = sizes.times(arg.scale, arg.extent)
            if parts.inner.args:
                if outer:
                    raise NotAffine(f"inner iterators stand above outer ones in {_text(source)}")
                inner += (part.replace(scale=sizes.times(part.scale, arg.scale)) for part in parts.inner.args)
                room = sizes.times(arg.scale, parts.inner_extent)
            for part in parts.outer.args:
                # An outer digit of this sum is the digit times arg.scale * parts.inner_extent, divided by the room.
                unit = sizes.quotient(sizes.times(arg.scale, parts.inner_extent), room)
                if unit is None:
                    raise NotAffine(f"outer and inner iterators are not digits of their own in {_text(source)}")
                outer.append(part.replace(scale=sizes.times(part.scale, unit)))
        outer_extent = sizes.quotient(top, room)
        if outer_extent is None:
            raise NotAffine(f"outer and inner iterators are not digits of their own in {_text(source)}")
        zero = const(0, source.dtype)
        return _Parts(IterSumExpr(reversed(outer), zero), outer_extent, IterSumExpr(reversed(inner), zero), room)

    def _digit(self, arg: IterSplitExpr, whole: _Parts) -> _Parts:
        """The parts of a digit of a mark whose parts are `whole`."""
        sizes, lower, extent = self.sizes, arg.lower_factor, arg.extent
        zero, one = const(0, arg.dtype), const(1, arg.dtype)
        nothing = IterSumExpr((), zero)
        outer_mark = IterMark(whole.outer, whole.outer_extent)
        inner_mark = IterMark(whole.inner, whole.inner_extent)

        def part(mark: IterMark, lower: PrimExpr, extent: PrimExpr) -> IterSumExpr:
            return IterSumExpr((IterSplitExpr(mark, lower, extent),), zero)

        above = sizes.quotient(lower, whole.inner_extent)
        if above is not None:
            return _Parts(part(outer_mark, above, extent), extent, nothing, one)
        below = sizes.quotient(whole.inner_extent, lower)
        if below is None:
            raise NotAffine(f"a digit of {_text(arg.source)} has parts of outer and inner iterators that do not part")
        if sizes.quotient(below, extent) is not None:
            return _Parts(nothing, one, part(inner_mark, lower, extent), extent)
        outer_extent = sizes.quotient(extent, below)
        if sizes.at_most(arg.source.extent, sizes.times(lower, extent)):
            outer_extent = whole.outer_extent
        if outer_extent is None:
            raise NotAffine(f"a digit of {_text(arg.source)} has parts of outer and inner iterators that do not part")
        return _Parts(part(outer_mark, one, outer_extent), outer_extent, part(inner_mark, lower, below), below)


def _text(value: IterMark | IterSumExpr) -> str:

    return str(normalize_iter_map_to_expr(value))
