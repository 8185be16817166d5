"""Reductions, and chains of reductions and element-wise stages, row by row: softmax, normalisations, sums, argmax.

    for i, k: M[i] = max(M[i], A[i, k])        for i in T.parallel(n):
    for i, k: E[i, k] = exp(A[i, k] - M[i])        M = T.alloc_buffer((1,)); S = T.alloc_buffer((1,))
    for i, k: S[i] += exp(A[i, k] - M[i])          lanes = T.alloc_buffer((4, 16), scope="local")
    for i, k: Y[i, k] = E[i, k] / S[i]             for k: lanes[…] = max(lanes[…], A[i, k])     in vectors
                                                   M[0] = the greatest of lanes
                                                   for k:                                       in vectors
                                                       e = exp(A[i, k] - M[0])
                                                       Y[i, k] = e;  lanes[…] += e
                                                   S[0] = the sum of lanes
                                                   for k: Y[i, k] = Y[i, k] / S[0]              in vectors

Stages over the elements of a row that do not depend on each other's complete reductions share a pass (`passes`). A
stage stores its values for later ones in the result's row if possible, else in a temporary row. A reduction along
memory uses several accumulator vectors, combined at the end of the row (`lanes`). If memory runs along the rows instead
(a sum over the first axis), a strip of up to 1,024 rows is one vectorised loop inside the loop over elements.

A reduction of few rows is split into parts, combined by a second reduction, as is each reduction of a chain whose other
stages compute one value per row (a mean, a variance). The parts depend only on sizes, not on the number of threads.

Order-dependent reductions (a product of floats along memory) and unrecognised ones keep a scalar loop over the
elements, within parallel rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from ....ir import Node
from ....prim import Call, PrimExpr, Var, const, free_vars, is_const, simplify
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import min as minimum
from ....target import Target
from ....tir import AllocBuffer, Buffer, BufferLoad, BufferStore, For, ForKind, Stmt
from ....tir.buffer import decl_buffer
from ....tir.functor import post_order_visit, substitute
from ....tir.renew import renew_bound_vars
from ....tir.schedule.reducers import Combination
from ...build import block, let
from ...rule import Refusal
from ...stages import Axis, Group, Stage, with_merged_axes
from ...straight import Binding, bound
from ..elementwise.elementwise import parallel_over, runs_along_memory, within
from .extremes import Extremes, extreme_of
from .first_extremes import across_rows, along_elements, first_extreme
from .lanes import Lanes, nested
from .passes import (
    Element,
    Pass,
    Place,
    Redirect,
    Rows,
    element_of,
    may_reorder,
    passes_of,
    store_all,
    stores_in,
    without_invariants,
)
from .sum_blocks import TERMS, SumsInBlocks, updated

ROW_STRIP: Final = 512
"""Rows processed together if memory runs along the row axis, of which there is a dynamic number."""
WIDE_STRIP: Final = 1024
"""Most rows processed together: 4 KiB of float32, which is a page."""
LEAST_STRIP: Final = 256
"""Fewest rows of a strip when rows are divided only to occupy all cores."""
SHORT: Final = 16
"""Static number of elements below which accumulator vectors do not pay."""
FEW_ROWS: Final = 8
"""Number of rows below which several threads are not kept busy."""
PART: Final = 32768
"""Fewest elements of each part of a reduction split into parts."""
MOST_PARTS: Final = 64
"""Most parts of a reduction over a static number of elements."""
TOGETHER: Final = 4
"""Elements of a row that are combined between a load and a store of a strip's accumulators, if they are in different
pages; elements in one page are faster to read in the order of memory.
"""


def rows_of(group: Group, own: set[Buffer], target: Target) -> Stmt | Refusal:
    """Return the loops of a group with reductions; `own` buffers have no other users."""
    group = with_merged_axes(group)
    if any(stage.combination is not None and not stage.combination.commutative for stage in group.stages):
        return Refusal("a reduction depends on the order of its terms")
    parts = _in_parts(group, target)
    parts = _stages_in_parts(group, target) if parts is None else parts
    if parts is not None:
        return parts
    return within(_without_views(group, own), _arranged(group, own, target, _vector_axis(group, own)))


def _without_views(group: Group, own: set[Buffer]) -> Group:
    data = {buffer.data for buffer in own}
    return replace(group, views=tuple(view for view in group.views if view.data not in data))


def _arranged(group: Group, own: set[Buffer], target: Target, vector: Axis | None) -> Stmt:
    if vector is not None and vector in group.rows:
        return Across(group, own, target, vector).loops()
    return Along(group, own, target, vector).loops()


def _vector_axis(group: Group, own: set[Buffer]) -> Axis | None:
    """Return the axis along which the largest reduction operands are contiguous.

    It is the last index of most of them, and all other operands are contiguous along it or invariant; axes shorter than
    a vector are excluded. In a window, where no operand has such an index, the last axis of the result is contiguous
    with a stride.
    """
    axes = {axis.var: axis for stage in group.stages for axis in stage.axes}
    data = {buffer.data for buffer in own}
    reductions = [stage for stage in group.stages if stage.is_reduction]
    loads = [load for stage in reductions for load in stage.loads() if load.buffer.data not in data]
    if not loads:  # the reductions read intermediates of other stages
        loads = [load for stage in group.stages for load in stage.loads() if load.buffer.data not in data]
    most = max((len(load.indices) for load in loads), default=0)
    votes: dict[Axis, int] = {}
    for load in loads:
        last = load.indices[-1] if len(load.indices) == most > 0 else None
        if isinstance(last, Var) and last in axes:
            votes[axes[last]] = votes.get(axes[last], 0) + 1
    by_votes = sorted(votes, key=lambda axis: -votes[axis])
    long = [axis for axis in by_votes if axis in group.rows or axis.size is None or axis.size >= SHORT]
    for axis in long:
        if all(runs_along_memory(stage, axis.var) for stage in reductions):
            return axis
    used = {var for load in loads if load.indices for var in free_vars(load.indices[-1])}
    moving = [axis for axis in group.rows if axis.var in used]
    return moving[-1] if moving else long[0] if long else None


# ------------------------------------------------------------------------------------------ in parts


def _in_parts(group: Group, target: Target) -> Stmt | None:
    """Split a reduction of few rows into partial reductions and their combination; None if that does not pay."""
    (stage, *others) = group.stages
    if others or stage.combination is None or not may_reorder(stage) or not stage.reduced:
        return None
    rows = _known_product(group.rows)
    if rows is None or rows >= (FEW_ROWS if _vector_axis(group, set()) not in group.rows else FEW_ROWS * ROW_STRIP):
        return None
    first, *inner = stage.reduced
    inside = _known_product(inner)
    count = max(1, PART // max((inside or 64) * max(rows, 1), 1))
    if first.size is not None:
        count = max(count, -(-first.size // (MOST_PARTS * TERMS)) * TERMS)
    if first.size is not None and (first.size * (inside or 1) * max(rows, 1) < 4 * PART or first.size < 2 * count):
        return None
    dtype = first.var.dtype
    part = Axis(Var("part", dtype), simplify(ceildiv(first.extent, count)))
    start = part.var * count
    length = minimum(const(count, dtype), first.extent - start)
    if first.size is not None and first.size % count == 0:
        length = const(count, dtype)
    piece = Axis(Var(first.var.name, dtype), length)
    return _two_reductions(group, stage, part, start, first, piece, target)


def _stages_in_parts(group: Group, target: Target) -> Stmt | None:
    """Return the loops of each stage by itself, with reductions in parts, or None.

    The stages that are no reductions must compute one value per row: the elements of a row are then read by reductions
    only, which share no pass.
    """
    if len(group.stages) < 2 or any(not s.is_reduction and group.elements(s) for s in group.stages):
        return None
    if any(len(one.stages) > 1 and one.elements for one in passes_of(group)):
        return None
    result: list[Stmt] = []
    for stage in group.stages:
        alone = Group((stage,), group.rows)
        parts = _in_parts(alone, target)
        if parts is None and stage.is_reduction:
            return None
        result.append(_arranged(alone, set(), target, _vector_axis(alone, set())) if parts is None else parts)
    return within(group, block(map(renew_bound_vars, result)))


def _known_product(axes: Sequence[Axis]) -> int | None:
    total = 1
    for axis in axes:
        if axis.size is None:
            return None
        total *= axis.size
    return total


def _two_reductions(
    group: Group, stage: Stage, part: Axis, start: PrimExpr, first: Axis, piece: Axis, target: Target
) -> Stmt:
    """Return the reduction into one result per part, and the reduction of these results."""
    combination = stage.combination
    assert combination is not None
    row_vars = tuple(axis.var for axis in group.rows)
    extents = [part.extent, *(axis.extent for axis in group.rows)]
    partial = {b: decl_buffer(extents, str(b.dtype), f"{b.name}_parts") for b in combination.buffers}
    place = (part.var, *row_vars)
    redirect = Redirect({b: (lambda _, p=p: (p, place)) for b, p in partial.items()})

    identities = zip(combination.buffers, combination.identity, strict=True)
    starts = tuple(BufferStore(partial[b], value, place) for b, value in identities)
    body: Stmt = redirect.visit(substitute(stage.body, {first.var: start + piece.var}))
    part_stage = Stage(
        (part, *(piece if axis is first else axis for axis in stage.axes)),
        tuple(piece if axis is first else axis for axis in stage.reduced),
        stores_in(body), body, replace(combination, buffers=tuple(partial.values()), indices=place), starts,
    )  # fmt: skip
    last = _second(stage, combination, partial, part, row_vars)
    vector = _vector_axis(group, set())
    parts = Group((part_stage,), (part, *group.rows))
    results = Group((last,), group.rows)
    result: Stmt = block([
        _arranged(parts, set(), target, piece if vector is first else vector),
        renew_bound_vars(_arranged(results, set(), target, _vector_axis(results, set()))),
    ])  # fmt: skip
    for buffer in partial.values():
        result = AllocBuffer(buffer, result)
    return within(group, result)


def _second(
    stage: Stage, combination: Combination, partial: dict[Buffer, Buffer], part: Axis, rows: tuple[Var, ...]
) -> Stage:
    """Return the reduction of the partial results."""
    so_far = tuple(BufferLoad(b, combination.indices) for b in combination.buffers)
    more = tuple(BufferLoad(partial[b], (part.var, *rows)) for b in combination.buffers)
    body = store_all(combination.buffers, combination.indices, combination.combine(so_far, more))
    axes = (*stage.spatial, part)
    return Stage(axes, (part,), stores_in(body), body, combination, stage.starts)


# ------------------------------------------------------------------------------------------ along the elements


class Along(Rows):
    """Memory runs along the elements of a row: vectorise over elements."""

    def __init__(self, group: Group, own: set[Buffer], target: Target, vector: Axis | None) -> None:
        super().__init__(group, own, target)
        self.vector = vector

    def loops(self) -> Stmt:
        """Return the parallel loop over all rows."""
        group = self.localised()
        passes = passes_of(group)
        row = block(renew_bound_vars(self.pass_(passes, position)) for position in range(len(passes)))
        return parallel_over(group.rows, self.allocated(row))

    def pass_(self, passes: Sequence[Pass], position: int) -> Stmt:
        one = passes[position]
        if not one.elements:
            return block(block([*stage.starts, stage.body]) for stage in one.stages)
        element = element_of(self, passes, position)
        vector = self.vector
        if vector is None or vector not in one.elements:
            return updated(one.elements, element)
        if not all(runs_along_memory(stage, vector.var) for stage in one.stages):
            return updated(one.elements, element)
        if not all(may_reorder(stage) for stage in element.updates):
            return updated(one.elements, element)
        element, fixed = without_invariants(element, one, vector)
        if not element.updates:
            return self.spatial(one, element, vector, fixed)
        extreme = first_extreme(element, one.elements)
        if extreme is not None:
            return along_elements(extreme, element, fixed, self.target)
        only = extreme_of(element)
        if only is not None:
            return Extremes(self.target, one, element, vector, fixed, only).loops()
        return Lanes(self.target, one, element, vector, fixed).loops()

    def spatial(self, one: Pass, element: Element, vector: Axis, fixed: list[Binding]) -> Stmt:
        """Return a vectorised loop without reductions; bind `fixed` before it."""
        body = element.statement(lambda value: value, element.stores)
        inner = For(vector.var, const(0, vector.var.dtype), vector.extent, ForKind.VECTORIZED, body)
        return nested([axis for axis in one.elements if axis is not vector], bound(fixed, inner))


# ------------------------------------------------------------------------------------------ across the rows


class Across(Rows):
    """Memory runs along the rows: vectorise over a strip of rows, inside the loops over elements."""

    def __init__(self, group: Group, own: set[Buffer], target: Target, vector: Axis) -> None:
        super().__init__(group, own, target)
        self.vector = vector
        size = vector.size
        self.width = ROW_STRIP if size is None else self._width(size)
        self.at = Var("lane", vector.var.dtype)

    def _width(self, size: int) -> int:
        """Rows of a strip of a static number of rows: as many as leave a strip for each core."""
        others = _known_product([axis for axis in self.group.rows if axis is not self.vector]) or 1
        width = WIDE_STRIP
        while width > LEAST_STRIP and others * -(-size // width) < self.target.num_cores:
            width //= 2
        return min(width, size)

    def loops(self) -> Stmt:
        """Return the parallel loop over strips of rows."""
        width = const(self.width, "int64")
        group = self.localised((width,), (self.at,))
        strips = Axis(Var("strip", self.at.dtype), simplify(ceildiv(self.vector.extent, self.width)))
        start = simplify(strips.var * self.width)
        others = [axis for axis in group.rows if axis is not self.vector]
        passes = passes_of(group)

        def strip(count: PrimExpr) -> Stmt:
            parts = [self.pass_(passes, position, count) for position in range(len(passes))]
            whole = substitute(self.allocated(block(parts)), {self.vector.var: start + self.at})
            assert isinstance(whole, Stmt)
            return renew_bound_vars(whole)

        if is_const(simplify(floormod(self.vector.extent, self.width)), 0):
            return parallel_over([*others, strips], strip(const(self.width, self.at.dtype)))
        length = minimum(const(self.width, self.at.dtype), self.vector.extent - start)
        return parallel_over([*others, strips], let("length", length, strip))

    def each(self, body: Stmt, count: PrimExpr, along: bool = True) -> Stmt:
        """Return a loop over the rows of the strip."""
        kind = ForKind.VECTORIZED if along else ForKind.SERIAL
        return For(self.at, const(0, self.at.dtype), count, kind, body)

    def pass_(self, passes: Sequence[Pass], position: int, count: PrimExpr) -> Stmt:
        one = passes[position]
        along = all(runs_along_memory(stage, self.vector.var) for stage in self.group.stages)
        if not one.elements:
            return block(self.each(block([*stage.starts, stage.body]), count, along) for stage in one.stages)
        element = element_of(self, passes, position)
        extreme = first_extreme(element, one.elements) if along else None
        if extreme is not None:
            return across_rows(extreme, element, lambda body: self.each(body, count), self.at, self.width)

        def each(stmt: Stmt) -> Stmt:
            return self.each(stmt, count, along)

        blocks = SumsInBlocks(element.updates, one.elements, (self.width,), (self.at,))
        element = blocks.of(element)
        places: dict[Buffer, Place] = {}
        behind: list[Stmt] = []
        starts = [start for stage in element.updates for start in stage.starts]
        for start in starts:
            if start.buffer not in blocks.totals and all(start.buffer is not local for local in self.locals):
                sums = decl_buffer((self.width,), str(start.buffer.dtype), f"{start.buffer.name}_strip")
                self.locals.append(sums)
                places[start.buffer] = lambda _, b=sums: (b, (self.at,))
                behind.append(each(start.replace(value=BufferLoad(sums, (self.at,)))))
        redirect = Redirect(places)
        parts = [*element.stores, *(redirect.visit(stage.body) for stage in element.updates)]
        body = self._elements(blocks.axes, element, parts, each)
        return block([blocks.around(body, [redirect.visit(start) for start in starts], each), *behind])

    def _elements(
        self, axes: Sequence[Axis], element: Element, parts: Sequence[Stmt], each: Callable[[Stmt], Stmt]
    ) -> Stmt:
        """Return the loops over elements, of which several cheap, distant ones share a loop over the strip's rows."""
        body = element.statement(lambda value: value, parts)
        *outer, inner = axes
        is_close = self.vector.size is None or self.vector.size < WIDE_STRIP
        if is_close or element.stores or _has_calls(body) or (inner.size is not None and inner.size < TOGETHER):
            return nested(axes, each(body))

        def at(k: PrimExpr) -> Stmt:
            return renew_bound_vars(substitute(body, {inner.var: k}))

        dtype = inner.var.dtype
        groups, left = (simplify(f(inner.extent, TOGETHER)) for f in (floordiv, floormod))
        group, rest = Axis(Var("group", dtype), groups), Axis(inner.var, left)
        several = each(block(at(group.var * TOGETHER + i) for i in range(TOGETHER)))
        loops = [nested([group], several)]
        if not is_const(left, 0):
            loops.append(nested([rest], each(at(groups * TOGETHER + rest.var))))
        return nested(outer, block(loops))


def _has_calls(stmt: Stmt) -> bool:
    """True if a statement computes functions, which take longer than reading an accumulator."""
    calls: list[Node] = []
    post_order_visit(stmt, lambda node: calls.append(node) if isinstance(node, Call) else None)
    return bool(calls)
