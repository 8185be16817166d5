"""New loops for a moved block: the iterations required at its new place.

consumer reads [io * 16, io * 16 + 17] of P; the block writes P[vi], vi in [0, n)

for ax0 in range(18):
    with T.block("P"):
        vi = T.axis.spatial(n, io * 16 + ax0)
        T.where(io * 16 + ax0 < n)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ...ir import DataType
from ...prim import Analyzer, FloorDiv, IntImm, PrimExpr, Var, const, free_vars, is_const, prove, simplify, substitute
from ...prim.intrin import max as maximum
from ...prim.intrin import min as minimum
from ..buffer import Buffer, BufferRegion
from ..regions import Interval, bounds_of
from ..statements import conjunction
from ..stmt import Block, BlockRealize, For, ForKind, SeqStmt, Stmt
from .error import ARGUMENT, ScheduleError
from .inverse import as_dtype, inverse_of
from .order import blocks_in, scope_at
from .regions import Box, reads_memory, relaxed_box
from .rv import LoopRV
from .state import ScheduleState

Domain: TypeAlias = "list[Interval | None]"
"""Least and greatest value of each variable of a block; None for the whole domain."""


def union(boxes: Sequence[Box], analyzer: Analyzer) -> Box:
    """Return the bounding box of several boxes or domains."""
    result = boxes[0]
    for box in boxes[1:]:
        result = [
            None if a is None or b is None else (_least(a[0], b[0], analyzer), _greatest(a[1], b[1], analyzer))
            for a, b in zip(result, box, strict=True)
        ]
    return result


def _least(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    if analyzer.can_prove(a <= b):
        return a
    return b if analyzer.can_prove(b <= a) else minimum(a, b)


def _greatest(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    if analyzer.can_prove(b <= a):
        return a
    return b if analyzer.can_prove(a <= b) else maximum(a, b)


def within(box: Box, buffer: Buffer) -> Box:
    """Replace unknown intervals of a box by the whole dimension."""
    return [
        (const(0, size.dtype), simplify(size - 1)) if interval is None else interval
        for interval, size in zip(box, buffer.shape, strict=True)
    ]


def box_below(state: ScheduleState, loop: LoopRV, realize: BlockRealize, region: BufferRegion) -> Box:
    """Return a box that contains a region of a block, over all iterations of the loops inside `loop`."""
    rv = state.block_rv(realize, loop.function)
    loops = state.loops(rv)
    depth = len(state.loops(loop))
    inner = scope_at(state, loop).variables - {item.loop_var for item in loops[:depth]}
    box = relaxed_box(region, realize, loops[depth:])
    return [
        None
        if interval is None or any(inner & set(free_vars(end)) or reads_memory(end) for end in interval)
        else interval
        for interval in box
    ]


# ------------------------------------------------------------------------------------------ domains


def solve_domain(block: Block, region: BufferRegion, box: Box, touching: bool) -> Domain:
    """Return the values of a block's variables for which a region, over these variables, lies in a box.

    With `touching`, those for which the region intersects the box. The result is an over-approximation.
    """
    exact = _at_points(block, region, box)
    result: Domain = []
    for iter_var in block.iter_vars:
        value = exact.get(iter_var.var)
        if iter_var.iter_type != "spatial":
            result.append(None)
        elif value is not None:
            result.append((value, value))
        else:
            result.append(_solve(iter_var.var, block, region, box, touching))
    return result


def _at_points(block: Block, region: BufferRegion, box: Box) -> dict[Var, PrimExpr]:
    """Return the values of variables that are determined by the dimensions in which the box is a single index."""
    indices: list[PrimExpr] = []
    points: list[PrimExpr] = []
    for extent, interval in zip(region.region, box, strict=True):
        if interval is not None and is_const(extent.extent, 1) and prove(interval[0].equal(interval[1])):
            indices.append(extent.min)
            points.append(interval[0])
    used = {var for index in indices for var in free_vars(index)}
    variables = [v for v in block.iter_vars if v.var in used]
    return inverse_of(variables, indices, points) or {}


def _solve(var: Var, block: Block, region: BufferRegion, box: Box, touching: bool) -> Interval | None:
    other_bounds: dict[Var, Interval | None] = {
        v.var: None if v.dom is None else (v.dom.min, v.dom.min + v.dom.extent - 1)
        for v in block.iter_vars
        if v.var is not var
    }
    for extent, interval in zip(region.region, box, strict=True):
        if interval is None or var not in set(free_vars(extent.min)):
            continue
        length = simplify(extent.extent - 1)
        if not {var, *other_bounds}.isdisjoint(free_vars(length)):
            continue
        low, high = interval
        low, high = (low - length, high) if touching else (low, high - length)
        solved = _inverted(var, extent.min, (low, high), other_bounds)
        if solved is not None:
            return solved
    return None


def _inverted(var: Var, index: PrimExpr, target: Interval, other_bounds: dict[Var, Interval | None]) -> Interval | None:
    """Return the values of a variable for which an index may lie in an interval, for any values of the other
    variables.
    """
    low, high = target
    if isinstance(index, FloorDiv) and isinstance(index.b, IntImm) and index.b.value > 0:
        return _inverted(var, index.a, (low * index.b, high * index.b + (index.b.value - 1)), other_bounds)
    step = simplify(substitute(index, {var: var + 1}) - index)
    rest = bounds_of(simplify(substitute(index, {var: const(0, var.dtype)})), other_bounds)
    if not isinstance(step, IntImm) or step.value == 0 or rest is None:
        return None
    factor = abs(step.value)
    if step.value > 0:
        low, high = low - rest[1], high - rest[0]
    else:
        low, high = rest[0] - high, rest[1] - low
    return simplify((low + (factor - 1)) // factor), simplify(high // factor)


# ------------------------------------------------------------------------------------------ loops


def nest(
    realize: BlockRealize, domain: Domain, analyzer: Analyzer, preserve_unit_loops: bool
) -> tuple[Stmt, list[For], BlockRealize]:
    """Return new loops over a domain around a block; the loops, outermost first; and the block.

    The block gets a condition where iterations may leave the domain of a variable.
    """
    variables: list[Var] = []
    extents: list[PrimExpr] = []
    values: list[PrimExpr] = []
    conditions: list[PrimExpr] = []
    facts = analyzer.copy()
    for iter_var, interval in zip(realize.block.iter_vars, domain, strict=True):
        assert iter_var.dom is not None
        dtype = iter_var.var.dtype
        whole = (
            as_dtype(iter_var.dom.min, dtype),
            as_dtype(simplify(iter_var.dom.min + iter_var.dom.extent - 1), dtype),
        )
        (low, high), low_open, high_open = _clipped(interval, whole, dtype, analyzer)
        extent = analyzer.simplify(high - low + 1)
        if not analyzer.can_prove(extent >= 0):
            extent = maximum(extent, const(0, extent.dtype))
        if is_const(extent, 1) and not preserve_unit_loops:
            value = low
        else:
            var = Var(f"ax{len(variables)}", dtype)
            value = var if is_const(low, 0) else low + var
            variables.append(var)
            extents.append(extent)
            facts.bind(var, _Span(const(0, dtype), extent))
        if low_open:
            conditions.append(facts.simplify(whole[0] <= value))
        if high_open:
            conditions.append(facts.simplify(value < whole[1] + 1))
        values.append(value)
    placed = realize.replace(iter_values=tuple(values), predicate=conjunction(conditions))
    stmt: Stmt = placed
    loops: list[For] = []
    for var, extent in zip(reversed(variables), reversed(extents), strict=True):
        stmt = For(var, const(0, var.dtype), extent, ForKind.SERIAL, stmt)
        loops.insert(0, stmt)
    return stmt, loops, placed


class _Span:
    """The range of a new loop's variable."""

    def __init__(self, low: PrimExpr, extent: PrimExpr) -> None:
        self.min, self.extent = low, extent


def _clipped(
    interval: Interval | None, whole: Interval, dtype: DataType, analyzer: Analyzer
) -> tuple[Interval, bool, bool]:
    """Return the interval to iterate over, and whether its lower and upper end may leave the whole domain.

    The interval is not clipped if its extent is simpler than the clipped one; the block then gets a condition.
    """
    if interval is None:
        return whole, False, False
    low, high = (analyzer.simplify(as_dtype(end, dtype)) for end in interval)
    if analyzer.can_prove(low <= whole[0]):
        low = whole[0]
    if analyzer.can_prove(high >= whole[1]):
        high = whole[1]
    low_open = not analyzer.can_prove(low >= whole[0])
    high_open = not analyzer.can_prove(high <= whole[1])
    if low_open or high_open:
        first = analyzer.simplify(maximum(low, whole[0])) if low_open else low
        last = analyzer.simplify(minimum(high, whole[1])) if high_open else high
        extent, clipped = (analyzer.simplify(b - a + 1) for a, b in ((low, high), (first, last)))
        if isinstance(clipped, IntImm) and not (isinstance(extent, IntImm) and extent.value <= clipped.value):
            return (first, last), False, False
    return (low, high), low_open, high_open


# ------------------------------------------------------------------------------------------ among statements


def children_of_body(body: Stmt) -> tuple[Stmt, ...]:
    """Return the statements of a loop's body in sequence."""
    return body.seq if isinstance(body, SeqStmt) else (body,)


def last_writer(children: Sequence[Stmt], before: dict[str, bool]) -> int:
    """Return the index of the last statement with a block that must precede, or -1."""
    result = -1
    for i, child in enumerate(children):
        if any(before.get(item.block.name_hint, False) for item in blocks_in(child)):
            result = i
    return result


def chosen_place(index: int, first: int, last: int, node: For) -> int:
    """Resolve the argument `index`, a position among the statements of a loop."""
    if index == -1:
        return last
    if index == -2:
        return first
    if not first <= index <= last:
        raise ScheduleError(
            ARGUMENT,
            f"index must be one of the places {first} to {last} among the statements in loop {node.loop_var.name}, "
            f"or -1 for the last, -2 for the first, found {index}",
            node,
        )
    return index
