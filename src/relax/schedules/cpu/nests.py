"""Nests other than products and convolutions; each kind of nest has its own module.

Nests that read each other's results run row by row together if possible (`stages`): in the chain of reductions and
element-wise nests of a softmax or normalisation, a row is reread from cache. Nests of no supported kind are left
unchanged.

Not supported: functions without tir.noalias, as a row is stored before the next one is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ...target import Target
from ...tir import Block, BlockRealize, Buffer, BufferStore, PrimFunc, Stmt
from ...tir.nests import Nest, buffers_used, is_compact, loads_in, nest_of, root_of
from ...tir.statements import seq_of
from ..cut_nests import divides, with_cut_axes
from ..rule import ALIASED, Refusal, ScheduleRule, refused
from ..split_axes import with_split_axes
from ..stages import Group, group_of
from ..unit_dimensions import without_unit_dimensions
from .elementwise.elementwise import elementwise
from .elementwise.interleaved import interleaved
from .elementwise.pieces import in_pieces
from .elementwise.repeated import repeated
from .elementwise.transposed import transposed
from .rows.row_stages import rows_of
from .rows.sum_blocks import TERMS, float_sums

SMALL: Final = 1024
"""Number of points below which a kernel is left unchanged."""


class Nests(ScheduleRule):
    """Schedule rule for element-wise nests, reductions, and chains of them."""

    complements = True

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable
        if not func.attrs.get("tir.noalias"):
            return ALIASED
        allocated, statements = root_of(func)
        results: list[Stmt] = []
        refusals: list[Refusal] = []
        position = 0
        while position < len(statements):
            count, group = _group_from(statements[position:])
            cut, cut_group = _cut_group_from(statements, position, allocated)
            if cut > count:
                count, group = cut, cut_group
            own = _intermediates(statements, position, count, allocated)
            written = group if isinstance(group, Refusal) else _written(group, own, target)
            if isinstance(written, Refusal):
                refusals.append(written)
                written, count = statements[position], 1
            results.append(written)
            position += count
        if all(any(result is old for old in statements) for result in results):
            return refused(refusals, "the function has no statement")
        return _with_body(func, seq_of(results))


def _group_from(statements: Sequence[Stmt]) -> tuple[int, Group | Refusal]:
    """Return the longest group of statements from the first on, and its length."""
    nests: list[Nest] = []
    best: tuple[int, Group | Refusal] = (1, Refusal("the variables of one axis have different extents or dtypes"))
    for statement in statements:
        nest = _ordinary_nest(statement)
        if not nest:
            best = best if nests else (1, nest)
            break
        if nest.is_in_place and nests:  # a group may read its inputs again
            break
        nests.append(nest)
        group = group_of(nests)
        if group is not None:
            best = (len(nests), group)
        if nest.is_in_place or (group is None and len(nests) > 1):
            break
    return best


def _cut_group_from(
    statements: Sequence[Stmt], position: int, allocated: Sequence[Buffer]
) -> tuple[int, Group | Refusal]:
    """Return the longest group of statements from `position` on with split axes, and its length, or (0, a refusal)."""
    nests: list[Nest] = []
    for statement in statements[position:]:
        nest = _ordinary_nest(statement)
        if not nest or nest.is_in_place:
            break
        nests.append(nest)
    while len(nests) > 1 and any(nest.is_reduction for nest in nests) and divides(nests):
        own = {buffer.data for buffer in _intermediates(statements, position, len(nests), allocated)}
        cut = with_cut_axes(nests, own)
        group = None if cut is None else group_of(cut[0])
        if cut is not None and group is not None:
            return len(nests), replace(group, views=cut[1])
        nests.pop()
    return 0, Refusal("no axes of the nests are split alike")


def _ordinary_nest(statement: Stmt) -> Nest | Refusal:
    """Return a statement as a nest of compact buffers of scalars."""
    nest = nest_of(statement, in_place=True)
    if nest is None:
        return Refusal("a statement is not a nest of serial loops around one block that stores results")
    if not all(map(_is_ordinary, _buffers(nest))):
        return Refusal("a buffer is not compact, or has vectors as elements")
    return nest


def _buffers(nest: Nest) -> set[Buffer]:
    return {store.buffer for store in nest.stores} | {load.buffer for load in nest.loads()}


def _is_ordinary(buffer: Buffer) -> bool:
    return is_compact(buffer) and buffer.dtype.lanes == 1


def _written(group: Group, own: set[Buffer], target: Target) -> Stmt | Refusal:
    pieces = None if _is_in_place(group) else in_pieces(group)
    if pieces is not None:
        return seq_of(pieces)
    points = _points_of_small(group)
    if points is not None:
        return Refusal(f"only {points:,} points, fewer than {SMALL:,}")
    if any(stage.is_reduction for stage in group.stages):
        return rows_of(group, own, target)
    if isinstance(group.stages[0].body, BufferStore):
        group = with_split_axes(without_unit_dimensions(group))
    if _is_in_place(group):
        return elementwise(group)
    copied = transposed(group)
    if copied is None:
        copied = interleaved(group)
    if copied is None:
        copied = repeated(group)
    return elementwise(group) if copied is None else copied


def _is_in_place(group: Group) -> bool:
    """True if an element-wise stage reads the elements that it replaces."""
    first = group.stages[0]
    return not first.is_reduction and any(load.buffer in first.buffers for load in loads_in(first.body))


def _points_of_small(group: Group) -> int | None:
    """Return the points of stages with statically few points, which do not pay for compiling more code; else None.

    A loop without iterations has no points, however long the other loops are. Sums of more floats than a block are
    always rewritten, as their accuracy does not depend on their size.
    """
    points = 0
    for stage in float_sums(group.stages):
        if math.prod(axis.size or 0 for axis in stage.reduced) > TERMS:
            return None
    for stage in group.stages:
        sizes = [axis.size for axis in stage.axes]
        if 0 in sizes:
            continue
        if None in sizes:
            return None
        points += math.prod(size for size in sizes if size is not None)
    return points if points < SMALL else None


def _intermediates(statements: Sequence[Stmt], position: int, count: int, allocated: Sequence[Buffer]) -> set[Buffer]:
    """Return the allocated buffers used only by these statements."""
    others: set[object] = set()
    for number, statement in enumerate(statements):
        if not position <= number < position + count:
            reads, writes = buffers_used(statement)
            others |= reads | writes
    return {buffer for buffer in allocated if buffer.data not in others}


def _with_body(func: PrimFunc, body: Stmt) -> PrimFunc:
    """Replace the body of the function's root; drop allocations that the new body does not use."""
    root = func.body
    if not isinstance(root, BlockRealize):
        return func.replace(body=body)
    block: Block = root.block
    reads, writes = buffers_used(body)
    kept = tuple(buffer for buffer in block.alloc_buffers if buffer.data in reads | writes)
    return func.replace(body=root.replace(block=block.replace(body=body, alloc_buffers=kept)))
