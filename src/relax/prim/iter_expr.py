"""Affine expressions of iterators: values that are digits of iterators, or sums of such.

    IterMark      ::= (source: PrimExpr | IterSumExpr, extent)     an integer in [0, extent)
    IterSplitExpr ::= (source: IterMark, lower_factor, extent, scale)
                      source // lower_factor % extent * scale
    IterSumExpr   ::= (args: IterSplitExpr*, base)                 args[0] + ... + args[-1] + base

So ``(i * 16 + j) // 4 % 2`` of i in [0, 8) and j in [0, 16) is the split by lower_factor 4 and extent 2 of a mark of
extent 128, whose source is the sum of the mark of i, scaled by 16, and of that of j. Two splits are digits of one
iterator if their marks are the same object.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias, final

from ..ir import DataType, Node, child, node, set_slot
from ..runtime.records import dataclass
from .analyzer import Analyzer, simplify
from .expr import FloorDiv, FloorMod, IntImm, PrimExpr, const, convert, is_const


class IterMapLevel(enum.IntEnum):
    """The claim that `detect_iter_map` is to prove of a map from the values of iterators to a tuple of indices.

    The indices have a box of values each: index d, with extent e and scale s, the values base + s·k for 0 ≤ k < e.
    """

    Bijective = 0
    """Each tuple of the box is reached from exactly one value of the iterators."""
    Surjective = 1
    """Each tuple of the box is reached."""
    Injective = 2
    """No tuple is reached from two values of the iterators; some may not be reached."""
    NoCheck = 3
    """The indices are affine."""


class IterMapExpr(Node):
    """The base of splits and sums of iterators."""

    __slots__ = ()

    @property
    def dtype(self) -> DataType:
        """The dtype of the value."""
        raise NotImplementedError


@final
@node
class IterMark(Node):
    """An integer in [0, extent): an iterator without its minimum, or a sum of digits of iterators."""

    source: PrimExpr | IterSumExpr
    extent: PrimExpr = child(converter=convert)

    def __repr__(self) -> str:
        return f"IterMark({self.source}, extent={shown(self.extent)})"

    __str__ = __repr__

    @property
    def dtype(self) -> DataType:
        """The dtype of the value."""
        return self.source.dtype


def _extent(value: Any) -> Any:
    return value if value is None else convert(value)


@final
@node
class IterSplitExpr(IterMapExpr):
    """The digit ``source // lower_factor % extent``, times `scale`; by default the whole mark."""

    source: IterMark
    lower_factor: PrimExpr = child(default=1, converter=convert)
    extent: PrimExpr = child(default=None, converter=_extent)
    scale: PrimExpr = child(default=1, converter=convert)

    def __post_init__(self) -> None:
        for name in ("lower_factor", "scale"):
            value = getattr(self, name)
            if isinstance(value, IntImm) and value.dtype != self.source.dtype:
                set_slot(self, name, const(value.value, self.source.dtype))
        if self.extent is None:  # pyright: ignore[reportUnnecessaryComparison]
            set_slot(self, "extent", self.source.extent)

    def __repr__(self) -> str:
        names = ("lower_factor", "extent", "scale")
        return f"IterSplit({self.source}, {', '.join(f'{n}={shown(getattr(self, n))}' for n in names)})"

    __str__ = __repr__

    @property
    def dtype(self) -> DataType:
        return self.source.dtype


@final
@node
class IterSumExpr(IterMapExpr):
    """A sum of digits of iterators, plus a base without iterators."""

    args: tuple[IterSplitExpr, ...] = child(converter=tuple)
    base: PrimExpr = child(default=0, converter=convert)

    def __repr__(self) -> str:
        return f"IterSum([{', '.join(map(str, self.args))}], {shown(self.base)})"

    __str__ = __repr__

    @property
    def dtype(self) -> DataType:
        return self.base.dtype


IterValue: TypeAlias = "IterMark | IterSplitExpr | IterSumExpr"


@dataclass(frozen=True, slots=True)
class IterMapResult:
    """The indices as sums of digits, or, where something could not be proved, no indices and the reasons.

    `padding_predicate` is a condition on the input iterators, false for all their values. Written in terms of the
    digits (see `inverse_affine_iter_map`), it says which tuples of the box are reached from no value.
    """

    indices: tuple[IterSumExpr, ...]
    errors: tuple[str, ...]
    padding_predicate: PrimExpr


def to_expr(value: IterValue | PrimExpr, analyzer: Analyzer | None = None) -> PrimExpr:
    """The value as an ordinary expression, not simplified. Redundant remainders are omitted."""
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, IterMark):
        return to_expr(value.source, analyzer)
    if isinstance(value, IterSplitExpr):
        return scaled_by(digit(to_expr(value.source, analyzer), value, analyzer), value.scale)
    total: PrimExpr | None = None
    for arg in value.args:
        term = to_expr(arg, analyzer)
        total = term if total is None else total + term
    if total is None:
        return value.base
    return total if is_const(value.base, 0) else total + value.base


def digit(source: PrimExpr, split: IterSplitExpr, analyzer: Analyzer | None) -> PrimExpr:
    """The digit of a split, its scale left out, with `source` as the value of its mark."""
    lower, extent, whole = split.lower_factor, split.extent, split.source.extent
    above = simplify(lower * extent)
    is_top = (analyzer or Analyzer()).can_prove(whole <= above)
    if not is_top:
        source = FloorMod(source, above)
    return source if is_const(lower, 1) else FloorDiv(source, lower)


def scaled_by(value: PrimExpr, scale: PrimExpr) -> PrimExpr:
    """value · scale."""
    return value if is_const(scale, 1) else value * scale


def normalize_iter_map_to_expr(expr: Any) -> PrimExpr:
    """A mark, split or sum of iterators as an ordinary, simplified expression.

        IterSplitExpr(IterMark(i, 32), lower_factor=4, extent=2, scale=8)      i % 8 // 4 * 8

    A PrimExpr is only simplified.
    """
    return simplify(to_expr(expr) if isinstance(expr, (IterMark, IterMapExpr)) else convert(expr))  # type: ignore[arg-type]


def shown(value: PrimExpr) -> str:
    """Text of an expression for messages: constants without dtype."""
    return str(value.value) if isinstance(value, IntImm) else str(value)


def marks_below(value: IterValue) -> dict[IterMark, None]:
    """Marks used in a value, outer ones first, without duplicates."""
    found: dict[IterMark, None] = {}
    pending: list[IterValue] = [value]
    while pending:
        part = pending.pop(0)
        if isinstance(part, IterMark):
            if part in found:
                continue
            found[part] = None
            if isinstance(part.source, IterSumExpr):
                pending.append(part.source)
        elif isinstance(part, IterSplitExpr):
            pending.append(part.source)
        else:
            pending += part.args
    return found
