"""Affine iteration maps: indices that are made of the digits of loop iterators, recognised and reasoned about.

    for io, ii in grid(n // 16, 16):  A[io * 16 + ii]          one index, whose digits are io and ii
    for f in range(n * m):            A[f // m, f % m]         two indices, the digits of f

`detect_iter_map` says of such indices that they reach every element of a box, that they reach none twice, or both;
`inverse_affine_iter_map` gives the iterators in terms of the indices; `subspace_divide`, in `iter_divide`, takes a map
apart into one of outer and one of inner iterators. Names and signatures are those of ``tvm.arith``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .analyzer import Analyzer
from .expr import IntImm, Or, PrimExpr, Var, const, convert
from .functor import free_vars
from .iter_expr import (
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    marks_below,
    shown,
    to_expr,
)
from .iter_parse import NotAffine, Parser, Sizes

Level = IterMapLevel

FALSE = IntImm("bool", 0)


def detect_iter_map(
    indices: Sequence[Any],
    input_iters: Mapping[Var, Any],
    predicate: Any = True,
    check_level: IterMapLevel | int = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    *,
    analyzer: Analyzer | None = None,
) -> IterMapResult:
    """The indices as sums of digits of iterators, if what `check_level` claims of them is proved.

        detect_iter_map([i * 16 + j], {i: Range(0, 4), j: Range(0, 16)})    one index of extent 64
        detect_iter_map([i // 4, i % 4], {i: Range(0, 10)})                 refused: (2, 2) and (2, 3) are not reached

    `input_iters` gives each iterator's domain, anything with `min` and `extent`. The iterators take the values for
    which `predicate` holds, a conjunction of bounds of affine sums. A claim holds for all sizes for which no
    extent is negative, zero included: a loop that may be empty and takes no part in the indices is a reason to refuse
    a surjective map. `analyzer` knows more, for instance that it is not empty.

    Iterators of extent 1 are replaced by their minimum if `simplify_trivial_iterators`.
    """
    detected = detect(
        indices, input_iters, predicate, check_level, simplify_trivial_iterators, analyzer=analyzer
    )
    if isinstance(detected, NotAffine):
        return IterMapResult((), (str(detected),), FALSE)
    return IterMapResult(detected.indices, (), padding_predicate(detected))


class Detected:
    """Indices of which a claim was proved, and the parser that knows their marks."""

    def __init__(self, parser: Parser, indices: tuple[IterSumExpr, ...]) -> None:
        self.parser = parser
        self.indices = indices


def detect(
    indices: Sequence[Any],
    input_iters: Mapping[Var, Any],
    predicate: Any,
    check_level: IterMapLevel | int,
    drop_trivial: bool,
    *,
    analyzer: Analyzer | None = None,
) -> Detected | NotAffine:
    """The same as `detect_iter_map`, for functions that go on with the marks; the first failure if it fails."""
    level = IterMapLevel(check_level)
    facts = Analyzer() if analyzer is None else analyzer
    exprs = [convert(index) for index in indices]
    condition = convert(predicate)
    failure: NotAffine | None = None
    # As they are written, sums divided as wholes, which keeps the digits of one sum together; then term by term; then
    # simplified.
    for fuse_first, simplified in ((True, False), (False, False), (False, True)):
        parser = Parser(input_iters, facts, drop_trivial, fuse_first)
        tried = [parser.ranged.simplify(expr) for expr in exprs] if simplified else exprs
        if simplified and all(new is old for new, old in zip(tried, exprs, strict=True)):
            break
        try:
            return _detect(parser, tried, condition, level)
        except NotAffine as error:
            failure = failure or error
    assert failure is not None
    return failure


def _detect(parser: Parser, exprs: Sequence[PrimExpr], condition: PrimExpr, level: Level) -> Detected:
    parser.constrain(condition, must_hold=level in (Level.Bijective, Level.Surjective))
    indices = tuple(_index(parser, expr, level) for expr in exprs)
    if level is not Level.NoCheck:
        _Check(parser, level).check(indices, exprs)
    return Detected(parser, indices)


def _index(parser: Parser, expr: PrimExpr, level: Level) -> IterSumExpr:
    """An index as one digit and a base; as several digits where the level allows that."""
    value = parser.gathered(parser.parse(expr))
    if len(value.args) < 2:
        return value
    fused = parser.fused(value.args)
    if fused is not None:
        return value.replace(args=(fused,))
    if level in (Level.Bijective, Level.Surjective):
        raise NotAffine(f"the index {expr}: {parser.unfused(value.args)}")
    return value


# ------------------------------------------------------------------------------------------------ claims


class _Check:
    """Proofs of claims from the digits that the indices use of each mark."""

    def __init__(self, parser: Parser, level: Level) -> None:
        self.parser = parser
        self.sizes: Sizes = parser.sizes
        self.level = level
        self.onto = level in (Level.Bijective, Level.Surjective)
        self.one_to_one = level in (Level.Bijective, Level.Injective)

    def check(self, indices: Sequence[IterSumExpr], exprs: Sequence[PrimExpr]) -> None:
        """Raises NotAffine if the claim is not proved."""
        digits = used_digits(indices)
        for mark, splits in digits.items():
            self._check_mark(mark, splits)
        for index, expr in zip(indices, exprs, strict=True):
            if self.one_to_one:
                self._check_scales(index, expr)
        used = {var for mark in digits for var in self._iterators(mark)}
        self._check_bounds(digits, used)
        for var, extent in self.parser.extents.items():
            if var not in used:
                self._check_unused(var, extent)

    def _iterators(self, mark: IterMark) -> list[Var]:
        if isinstance(mark.source, IterSumExpr):
            return []
        return [var for var in free_vars(mark.source) if var in self.parser.values]

    def _check_mark(self, mark: IterMark, splits: list[IterSplitExpr]) -> None:
        """The digits used of a mark: none twice, and enough of them."""
        sizes = self.sizes
        chain = self._chain(mark, splits)
        bottom = chain[0].lower_factor
        top = sizes.times(chain[-1].lower_factor, chain[-1].extent)
        if self.one_to_one and not (sizes.is_one(bottom) and sizes.at_most(mark.extent, top)):
            raise NotAffine(f"not all digits of {self._name(mark)} are used: {self._digits(chain)}")
        if self.level is Level.Bijective and not sizes.at_most(top, mark.extent):
            raise NotAffine(
                f"{self._name(mark)} has {shown(mark.extent)} values, "
                f"which do not fill the digits {self._digits(chain)}"
            )
        if self.onto and not self._reaches_all(mark, bottom, top):
            raise NotAffine(
                f"{self._name(mark)} does not reach all values of the digits {self._digits(chain)}"
            )

    def _reaches_all(self, mark: IterMark, bottom: PrimExpr, top: PrimExpr) -> bool:
        """True if mark // bottom takes all values from 0 up to top // bottom, as the mark takes those of its window."""
        sizes, first = self.sizes, self.parser.first.get(mark)
        prove = sizes.analyzer.can_prove
        if prove(top - bottom < mark.extent) and (first is None or prove(first < bottom)):
            return True
        window = mark.extent if first is None else mark.extent - first
        return sizes.is_one(bottom) and sizes.at_most(top, sizes.simplified(window))

    def _chain(self, mark: IterMark, splits: list[IterSplitExpr]) -> list[IterSplitExpr]:
        """The digits from the lowest on. Each begins where the one below ends, or at a multiple of that."""
        sizes = self.sizes
        rest = sorted(splits, key=_by_lower_factor)
        chain: list[IterSplitExpr] = []
        end: PrimExpr = const(1, mark.dtype)
        while rest:
            following = next((s for s in rest if sizes.equal(s.lower_factor, end)), None)
            if following is None and not self.one_to_one:
                following = next((s for s in rest if self._is_above(s, end)), None)
            if following is None:
                raise NotAffine(
                    f"the digits of {self._name(mark)} overlap or leave gaps: {self._digits(splits)}"
                )
            rest.remove(following)
            chain.append(following)
            end = sizes.times(following.lower_factor, following.extent)
        return chain

    def _is_above(self, split: IterSplitExpr, end: PrimExpr) -> bool:
        times = self.sizes.quotient(split.lower_factor, end)
        return times is not None and self.sizes.is_positive(times)

    def _check_scales(self, index: IterSumExpr, expr: PrimExpr) -> None:
        """Digits of one index can be told apart: each scale is more than all lower digits together."""
        sizes = self.sizes
        if len(index.args) == 1:
            (arg,) = index.args
            prove = sizes.analyzer.can_prove
            if not (prove(arg.scale != 0) or sizes.at_most(arg.extent, const(1, arg.dtype))):
                raise NotAffine(f"the index {expr} is a multiple of {shown(arg.scale)}, which may be 0")
            return
        room: PrimExpr = const(1, index.dtype)
        for arg in sorted(index.args, key=lambda arg: _key(arg.scale)):
            if not sizes.at_most(room, arg.scale):
                raise NotAffine(f"the index {expr} may be the same for different values of iterators")
            room = sizes.simplified(room + (arg.extent - 1) * arg.scale)

    def _check_bounds(self, digits: Mapping[IterMark, Any], used: set[Var]) -> None:
        """Each condition bounds a mark that is used as a whole, or iterators that are not used."""
        for bound in self.parser.bounded:
            if bound.mark in digits:
                continue
            inner = {var for mark in marks_below(bound.mark) for var in self._iterators(mark)}
            bounds_used = any(var in used for var in inner) or any(
                var in used for var in free_vars(bound.condition)
            )
            if bounds_used:
                raise NotAffine(
                    f"the predicate {bound.condition} bounds iterators that the indices use apart"
                )
            if self.onto and not self.sizes.is_positive(bound.mark.extent):
                raise NotAffine(f"the predicate {bound.condition} may leave no value")

    def _check_unused(self, var: Var, extent: PrimExpr) -> None:
        if self.one_to_one and not self.sizes.at_most(extent, const(1, extent.dtype)):
            raise NotAffine(f"the indices do not use the iterator {var.name}, of extent {shown(extent)}")
        if self.onto and not self.sizes.is_positive(extent):
            raise NotAffine(
                f"the indices do not use the iterator {var.name}, whose extent {shown(extent)} may be 0: "
                "then nothing is reached"
            )

    def _name(self, mark: IterMark) -> str:
        return f"{to_expr(mark, self.sizes.analyzer)} in [0, {shown(mark.extent)})"

    def _digits(self, splits: Sequence[IterSplitExpr]) -> str:
        analyzer = self.sizes.analyzer
        values = (to_expr(split.replace(scale=const(1, split.dtype)), analyzer) for split in splits)
        return ", ".join(
            f"{value} in [0, {shown(split.extent)})" for value, split in zip(values, splits, strict=True)
        )


def used_digits(indices: Sequence[IterSumExpr]) -> dict[IterMark, list[IterSplitExpr]]:
    """The digits of each mark that occur in indices and in marks below them."""
    digits: dict[IterMark, list[IterSplitExpr]] = {}
    pending = [arg for index in indices for arg in index.args]
    while pending:
        split = pending.pop(0)
        mark = split.source
        if mark not in digits and isinstance(mark.source, IterSumExpr):
            pending += mark.source.args
        digits.setdefault(mark, []).append(split)
    return digits


def _by_lower_factor(split: IterSplitExpr) -> tuple[int, int, int]:
    """Small lower factors first, at the same one small extents."""
    return (*_key(split.lower_factor), _key(split.extent)[1])


def _key(number: PrimExpr) -> tuple[int, int]:
    return (0, number.value) if isinstance(number, IntImm) else (1, 2**63)


def padding_predicate(detected: Detected) -> PrimExpr:
    """The condition under which the digits that are used are those of no value of the iterators."""
    parser, result = detected.parser, FALSE
    sizes = parser.sizes

    def either(condition: PrimExpr) -> None:
        nonlocal result
        condition = sizes.simplified(condition)
        result = condition if result is FALSE else Or(result, condition)

    for mark, splits in used_digits(detected.indices).items():
        first = parser.first.get(mark)
        if first is not None:
            either(to_expr(mark, sizes.analyzer) < first)
        if any(not sizes.at_most(end, mark.extent) for end in _tops(mark, splits, sizes)):
            either(to_expr(mark, sizes.analyzer) >= mark.extent)
    return result


def _tops(mark: IterMark, splits: Sequence[IterSplitExpr], sizes: Sizes) -> list[PrimExpr]:
    """The ends of those digits of a mark above which no other is seen to lie."""
    ends = [(split, sizes.times(split.lower_factor, split.extent)) for split in splits]
    return [
        end
        for split, end in ends
        if not any(
            other is not split and sizes.quotient(other.lower_factor, end) is not None for other, _ in ends
        )
    ]
