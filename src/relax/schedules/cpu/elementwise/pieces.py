"""Nests that select by the range of an index, as a concatenation does: one nest per segment of the axis.

    for i in range(6):                                              for i in range(2):
        with T.block("C"):                                              C[i] = A[i]
            C[i] = T.if_then_else(i < 2, A[i],          gives       for i in range(3):
                   T.if_then_else(i < 5, X[i - 2], B[i - 5]))           C[i + 2] = X[i]
                                                                    C[5] = B[0]

The conditions need no tests then, and LLVM, whose time is quadratic in the branches of one function, is spared them.

Not split: few segments (written with masks or branches), segments that are narrow columns of the result, and dynamic
limits.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final, TypeAlias

from ....prim import LT, Call, IntImm, PrimExpr, Var, const, simplify
from ....prim.functor import map_expressions, sub_expressions
from ....tir import BufferStore, For, ForKind, Stmt
from ....tir.functor import substitute
from ...stages import Axis, Group, Stage
from .elementwise import elementwise, in_memory_order, within

FEW: Final = 16
"""Most segments of an axis that stay in one nest."""

LINE: Final = 16
"""Least average run length of a segment of an inner axis: with shorter runs, each nest would reload every cache line.
"""

SHORT: Final = 1024
"""Fewest points of a segment for which its nest gets a schedule of its own; there may be many segments."""

Piece: TypeAlias = "tuple[int, int, PrimExpr]"
"""Segment of an axis: (start, end, value)."""


def in_pieces(group: Group) -> list[Stmt] | None:
    """Return one nest per segment of an axis of an element-wise stage, or None for few segments."""
    (stage, *others) = group.stages
    if others or stage.is_reduction or not isinstance(stage.body, BufferStore):
        return None
    axes = in_memory_order(stage)
    for place, axis in enumerate(axes):
        if axis.size is not None and axis.size > FEW:
            pieces = _Cuts(axis.var).pieces(stage.body.value, 0, axis.size)
            inner = prod(other.size or 1 for other in axes[place + 1 :])
            is_long = place == 0 or inner * axis.size >= LINE * len(pieces)
            if len(pieces) > FEW and is_long:
                return [_nest(group, _part(stage, stage.body, axis, piece)) for piece in pieces]
    return None


class _Cuts:
    """Splits the range of a variable at the thresholds of conditions in an expression."""

    def __init__(self, var: Var) -> None:
        self.var = var
        self._known: dict[tuple[int, int, int], list[Piece]] = {}
        """Cache by (identity of the expression, range), as subexpressions may be shared."""

    def pieces(self, expr: PrimExpr, low: int, high: int) -> list[Piece]:
        """Return the segments of a nonempty range in order, with the expression simplified to be condition-free in
        each.
        """
        key = id(expr), low, high
        if key not in self._known:
            self._known[key] = self._pieces(expr, low, high)
        return self._known[key]

    def _pieces(self, expr: PrimExpr, low: int, high: int) -> list[Piece]:
        limit = self._limit(expr)
        if limit is not None and isinstance(expr, Call):
            _, if_below, otherwise = expr.args
            middle = min(max(limit, low), high)
            below = self.pieces(if_below, low, middle) if low < middle else []
            return below + (self.pieces(otherwise, middle, high) if middle < high else [])
        parts = {id(part): self.pieces(part, low, high) for part in sub_expressions(expr)}
        if all(len(pieces) == 1 for pieces in parts.values()):
            return [(low, high, map_expressions(expr, lambda part: parts[id(part)][0][2]))]
        starts = sorted({start for pieces in parts.values() for start, _, _ in pieces})
        at = dict.fromkeys(parts, 0)
        found: list[Piece] = []
        for start, end in zip(starts, [*starts[1:], high], strict=True):
            for part, pieces in parts.items():
                at[part] += pieces[at[part]][1] <= start
            found.append((start, end, map_expressions(expr, lambda part: parts[id(part)][at[id(part)]][2])))
        return found

    def _limit(self, expr: PrimExpr) -> int | None:
        """Threshold below which the variable selects the first of two values, or None."""
        if not isinstance(expr, Call) or expr.intrinsic != "if_then_else":
            return None
        match expr.args[0]:
            case LT(var, IntImm(_, limit)) if var is self.var:
                return limit
            case _:
                return None


def _part(stage: Stage, store: BufferStore, axis: Axis, piece: Piece) -> Stage:
    """Restrict a stage to a segment of one of its axes, shifted to begin at 0."""
    low, high, value = piece
    own = Axis(Var(axis.var.name, axis.var.dtype), const(high - low, axis.var.dtype))
    at = own.var + low if high - low > 1 else const(low, axis.var.dtype)
    axes = tuple(own if other is axis else other for other in stage.axes)
    moved = substitute(store.replace(value=value), {axis.var: at})
    moved = moved.replace(value=simplify(moved.value), indices=tuple(map(simplify, moved.indices)))
    return replace(stage, axes=tuple(a for a in axes if a is not own or high - low > 1), stores=(moved,), body=moved)


def _nest(group: Group, stage: Stage) -> Stmt:
    """Return the loops of a segment; unscheduled ones for few points."""
    if prod(SHORT if axis.size is None else axis.size for axis in stage.axes) >= SHORT:
        return elementwise(replace(group, stages=(stage,), rows=stage.axes))
    body = stage.body
    for axis in reversed(stage.axes):
        body = For(axis.var, const(0, axis.var.dtype), axis.extent, ForKind.SERIAL, body)
    return within(group, body)
