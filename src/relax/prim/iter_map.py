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
from .expr import Cast, IntImm, Mul, Or, PrimExpr, Sub, Var, cast, const, convert, is_const
from .functor import free_vars
from .iter_cast import casts_integers
from .iter_expr import (
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    digit,
    marks_below,
    scaled_by,
    shown,
    to_expr,
)
from .iter_parse import Parser
from .iter_sizes import NotAffine, Sizes
from .traits import cost

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

    Integer casts that keep the value are looked through; sums are then of int64, whatever the iterators are.

    Iterators of extent 1 are replaced by their minimum if `simplify_trivial_iterators`.
    """
    detected = detect(indices, input_iters, predicate, check_level, simplify_trivial_iterators, analyzer=analyzer)
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
    widened = casts_integers([*exprs, condition])
    failure: NotAffine | None = None
    # As they are written, sums divided as wholes, which keeps the digits of one sum together; then term by term; then
    # simplified.
    for fuse_first, simplified in ((True, False), (False, False), (False, True)):
        parser = Parser(input_iters, facts, drop_trivial, fuse_first, widened)
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
    if level in (Level.Injective, Level.NoCheck):
        _check_padding(parser, indices)
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
        chain = digit_chain(splits, sizes, gaps=not self.one_to_one)
        if chain is None:
            raise NotAffine(f"the digits of {self._name(mark)} overlap or leave gaps: {describe_digits(splits, sizes)}")
        bottom = chain[0].lower_factor
        top = sizes.times(chain[-1].lower_factor, chain[-1].extent)
        if self.one_to_one and not (sizes.is_one(bottom) and sizes.at_most(mark.extent, top)):
            raise NotAffine(f"not all digits of {self._name(mark)} are used: {describe_digits(chain, sizes)}")
        if self.level is Level.Bijective and not sizes.at_most(top, mark.extent):
            raise NotAffine(
                f"{self._name(mark)} has {shown(mark.extent)} values, "
                f"which do not fill the digits {describe_digits(chain, sizes)}"
            )
        if self.onto and not self._reaches_all(mark, bottom, top):
            raise NotAffine(
                f"{self._name(mark)} does not reach all values of the digits {describe_digits(chain, sizes)}"
            )

    def _reaches_all(self, mark: IterMark, bottom: PrimExpr, top: PrimExpr) -> bool:
        """True if mark // bottom takes all values from 0 up to top // bottom, as the mark takes those of its window."""
        sizes, first = self.sizes, self.parser.first.get(mark)
        if sizes.at_most(top - bottom + 1, mark.extent) and (first is None or sizes.at_most(first + 1, bottom)):
            return True
        window = mark.extent if first is None else mark.extent - first
        return sizes.is_one(bottom) and sizes.at_most(top, sizes.simplified(window))

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
        unused: dict[IterMark, list[IterSplitExpr]] = {}
        for bound in reversed(self.parser.bounded):  # a later one may bound a mark of an earlier one
            if bound.mark in digits or bound.mark in unused:
                continue
            inner = {var for mark in marks_below(bound.mark) for var in self._iterators(mark)}
            if not used.isdisjoint((*inner, *free_vars(bound.condition))):
                raise NotAffine(f"the predicate {bound.condition} bounds iterators that the indices use apart")
            if self.onto and not self.sizes.is_positive(bound.mark.extent):
                raise NotAffine(f"the predicate {bound.condition} may leave no value")
            for mark, splits in used_digits([IterSumExpr((IterSplitExpr(bound.mark),))]).items():
                unused.setdefault(mark, []).extend(splits)
        if self.onto:
            self._check_nonempty(unused)

    def _check_nonempty(self, digits: Mapping[IterMark, list[IterSplitExpr]]) -> None:
        """Bounds of iterators that are not used leave a value: they are bounds of digits of their own."""
        iterators = [var for mark in digits for var in self._iterators(mark)]
        narrowed = [var for var in iterators if self.parser.is_stale(var, digits)]
        if narrowed or len(set(iterators)) < len(iterators):
            raise NotAffine("predicates that bound different digits of one iterator may leave no value")
        for mark, splits in digits.items():
            self._check_mark(mark, splits)

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


def describe_digits(splits: Sequence[IterSplitExpr], sizes: Sizes) -> str:
    """Digits in a message, lower ones first."""
    ordered = sorted(splits, key=_by_lower_factor)
    values = (to_expr(split.replace(scale=const(1, split.dtype)), sizes.analyzer) for split in ordered)
    return ", ".join(f"{value} in [0, {shown(split.extent)})" for value, split in zip(values, ordered, strict=True))


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


def digit_chain(splits: Sequence[IterSplitExpr], sizes: Sizes, gaps: bool = False) -> list[IterSplitExpr] | None:
    """The digits of a mark from the lowest on, each beginning where the one below ends; None if they do not.

    With `gaps`, a digit may also begin at a multiple of that.
    """
    rest = sorted(splits, key=_by_lower_factor)
    chain: list[IterSplitExpr] = []
    end: PrimExpr = const(1, rest[0].dtype)
    while rest:
        following = next((s for s in rest if sizes.equal(s.lower_factor, end)), None)
        if following is None and gaps:
            following = next((s for s in rest if _is_above(s, end, sizes)), None)
        if following is None:
            return None
        rest.remove(following)
        chain.append(following)
        end = sizes.times(following.lower_factor, following.extent)
    return chain


def _is_above(split: IterSplitExpr, end: PrimExpr, sizes: Sizes) -> bool:
    times = sizes.quotient(split.lower_factor, end)
    return times is not None and sizes.is_positive(times)


def _by_lower_factor(split: IterSplitExpr) -> tuple[int, int, int]:
    """Small lower factors first, at the same one small extents."""
    return (*_key(split.lower_factor), _key(split.extent)[1])


def _key(number: PrimExpr) -> tuple[int, int]:
    return (0, number.value) if isinstance(number, IntImm) else (1, 2**63)


def padding_predicate(detected: Detected) -> PrimExpr:
    """The condition under which the digits that are used are those of no value of the iterators."""
    sizes, result = detected.parser.sizes, FALSE
    for mark, splits in used_digits(detected.indices).items():
        source, end = mark.source, mark.extent
        if isinstance(source, IterSumExpr):
            source, end = source.replace(base=const(0, mark.dtype)), sizes.simplified(end - source.base)
        value = to_expr(source, sizes.analyzer)
        conditions: list[PrimExpr] = []
        if mark in detected.parser.first:
            conditions.append(value < 0)
        if any(not sizes.at_most(top, mark.extent) for top in _tops(mark, splits, sizes)):
            conditions.append(value >= end)
        for condition in map(sizes.simplified, conditions):
            result = condition if result is FALSE else Or(result, condition)
    return result


def _check_padding(parser: Parser, indices: Sequence[IterSumExpr]) -> None:
    """Raises NotAffine if digits have values of no iterator, which `padding_predicate` could not tell apart."""
    sizes = parser.sizes
    for mark, splits in used_digits(indices).items():
        tops = [top for top in _tops(mark, splits, sizes) if not sizes.at_most(top, mark.extent)]
        ends = [*tops, None] if mark in parser.first else tops
        if not all(_shows(mark, end, sizes) for end in ends):
            analyzer = sizes.analyzer
            raise NotAffine(
                f"the digits {describe_digits(splits, sizes)} have more values than "
                f"{shown(analyzer.simplify(to_expr(mark, analyzer)))}, and no iterator shows which"
            )


def _shows(mark: IterMark, end: PrimExpr | None, sizes: Sizes) -> bool:
    """True if values of a mark below `end` (all, if None) are values of its iterators, perhaps out of their domains."""
    source = mark.source
    if isinstance(source, PrimExpr):
        return True
    highest = source.args[0]
    room = sizes.times(highest.scale, highest.extent)
    if end is not None and sizes.at_most(sizes.simplified(end - source.base), room):
        return True
    inner = highest.source
    is_top = sizes.at_most(inner.extent, sizes.times(highest.lower_factor, highest.extent))
    return is_top and _shows(inner, None, sizes)


def _tops(mark: IterMark, splits: Sequence[IterSplitExpr], sizes: Sizes) -> list[PrimExpr]:
    """The ends of those digits of a mark above which no other is seen to lie."""
    ends = [(split, sizes.times(split.lower_factor, split.extent)) for split in splits]
    return [
        end
        for split, end in ends
        if not any(other is not split and sizes.quotient(other.lower_factor, end) is not None for other, _ in ends)
    ]


# ------------------------------------------------------------------------------- normal form and inverse


def normalize_to_iter_sum(index: Any, input_iters: Mapping[Var, Any]) -> IterSumExpr:
    """An affine index as a sum of digits, those with the largest scales first. Nothing is checked of it.

        normalize_to_iter_sum(j + i * 16 + n, {i: Range(0, 4), j: Range(0, 16)})       i * 16 + j, base n

    Scales are in the order of their constant factors, then of the number of symbolic ones. Raises ValueError for an
    index that is not affine.
    """
    expr = convert(index)
    parser = Parser(input_iters, Analyzer(), False, fuse_first=True, widened=casts_integers([expr]))
    try:
        value = parser.parse(expr)
    except NotAffine as error:
        raise ValueError(f"normalize_to_iter_sum: {error}") from None
    return value.replace(args=sorted(value.args, key=lambda arg: _magnitude(arg.scale), reverse=True))


def _magnitude(scale: PrimExpr) -> tuple[int, int]:
    """The constant factor of a scale, and the number of its other factors."""
    if isinstance(scale, Mul):
        (a, m), (b, n) = _magnitude(scale.a), _magnitude(scale.b)
        return a * b, m + n
    return (scale.value, 0) if isinstance(scale, IntImm) else (1, 1)


def iter_map_simplify(
    indices: Sequence[Any],
    input_iters: Mapping[Var, Any],
    predicate: Any = True,
    check_level: IterMapLevel | int = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[PrimExpr]:
    """The indices simplified as sums of digits: equal where the iterators are in their domains and `predicate` holds.

        iter_map_simplify([(i * 16 + j) // 16 * 16 + j % 16], ...)       i * 16 + j

    Where the map cannot be detected at this level, and where nothing is gained, an index stays the object it was.
    """
    exprs = [convert(index) for index in indices]
    detected = detect(exprs, input_iters, predicate, check_level, simplify_trivial_iterators)
    if isinstance(detected, NotAffine):
        return exprs
    sizes, ranged = detected.parser.sizes, detected.parser.ranged
    spelled = [
        ranged.simplify(cast(old.dtype, to_expr(index, sizes.analyzer)))
        for old, index in zip(exprs, detected.indices, strict=True)
    ]
    return [new if cost(new) < cost(old) else old for old, new in zip(exprs, spelled, strict=True)]


def inverse_affine_iter_map(iter_map: Sequence[IterSumExpr], outputs: Sequence[Any]) -> dict[Var, PrimExpr]:
    """The iterators of a map in terms of the values of its indices.

        iter_map   i // 4, i % 4      of i in [0, 32)
        outputs    a, b
        result     i: a * 4 + b

    The map is one that `detect_iter_map` found bijective or injective, each index being one digit of scale 1 or of a
    constant scale. Raises ValueError if the indices do not determine an iterator.
    """
    if len(iter_map) != len(outputs):
        raise ValueError(f"inverse_affine_iter_map: {len(iter_map)} indices, but the values of {len(outputs)}")
    sizes = Sizes(Analyzer())
    digits = used_digits(iter_map)
    for mark, splits in digits.items():
        _check_complete(mark, splits, sizes)
    values: dict[IterMark, PrimExpr] = {}

    def add(split: IterSplitExpr, value: PrimExpr) -> None:
        part = scaled_by(value, split.lower_factor)
        values[split.source] = values[split.source] + part if split.source in values else part

    for d, (index, output) in enumerate(zip(iter_map, outputs, strict=True)):
        if len(index.args) > 1:
            raise ValueError(f"inverse_affine_iter_map: index {d} is a sum of several digits")
        for arg in index.args:
            value, scale = convert(output) - index.base, arg.scale
            if isinstance(scale, IntImm) and scale.value < 0:
                value, scale = index.base - convert(output), const(-scale.value, scale.dtype)
            add(arg, value if is_const(scale, 1) else value // scale)
    result: dict[Var, PrimExpr] = {}
    for mark in _outer_first(digits):
        source, value = mark.source, values[mark]
        if isinstance(source, IterSumExpr):
            for arg in source.args:
                inner = IterMark(value - source.base, sizes.simplified(mark.extent - source.base))
                whole = IterSplitExpr(inner, arg.scale, arg.extent)
                add(arg, digit(value - source.base, whole, sizes.analyzer))
        else:
            var, low = (source.a, source.b) if isinstance(source, Sub) else (source, None)
            var = var.value if isinstance(var, Cast) else var
            assert isinstance(var, Var)
            result[var] = sizes.simplified(cast(var.dtype, value if low is None else value + low))
    return result


def _check_complete(mark: IterMark, splits: list[IterSplitExpr], sizes: Sizes) -> None:
    chain = digit_chain(splits, sizes)
    top = None if chain is None else sizes.times(chain[-1].lower_factor, chain[-1].extent)
    if top is None or not sizes.at_most(mark.extent, top):
        name = to_expr(mark, sizes.analyzer)
        raise ValueError(f"inverse_affine_iter_map: the indices do not determine {name}")


def _outer_first(digits: Mapping[IterMark, Any]) -> list[IterMark]:
    """Marks in an order in which each follows those that it is a part of."""
    order: dict[IterMark, None] = {}

    def visit(mark: IterMark) -> None:
        if mark not in order:
            if isinstance(mark.source, IterSumExpr):
                for arg in mark.source.args:
                    visit(arg.source)
            order[mark] = None

    for mark in digits:
        visit(mark)
    return list(reversed(order))
