"""reverse_compute_at: move a consumer under a loop of its producers, to use what an iteration has computed.

    for io, ii in T.grid(8, 16):                    for io in range(8):
        with T.block("P"):                              for ii in range(16):
            vi = T.axis.spatial(128, io * 16 + ii)          with T.block("P"):
            P[vi] = A[vi] * 2.0                                 vi = T.axis.spatial(128, io * 16 + ii)
    for i in range(128):                                        P[vi] = A[vi] * 2.0
        with T.block("B"):                              for ax0 in range(16):
            vi = T.axis.spatial(128, i)                     with T.block("B"):
            B[vi] = P[vi] + 1.0                                 vi = T.axis.spatial(128, io * 16 + ax0)
                                                                B[vi] = P[vi] + 1.0

New loops run over the values of the consumer's variables for which it reads elements that the producers below the loop
write in an iteration; over the whole domain of a variable where these values are unknown, and of a reduction.

Rejected: a block of another scope; a loop that encloses the block already; a block that is neither complete nor a
reduction block, has no producers below the loop, reads elements that an iteration has not finished (such as a halo),
would run for other values than before, would move past a writer of what it reads, or has readers before its place; a
loop below a non-serial loop whose iterations would then depend on each other.
"""

from __future__ import annotations

from ....prim import Analyzer
from ...dependence import accesses
from ...statements import NOTHING, seq_of
from ...stmt import BlockRealize, For
from ..base import ScheduleBase, primitive
from ..conditions import require_complete_or_reduction
from ..cover import domain_points, fresh_points, implied, shared_loops, sums_once
from ..error import BINDING, ORDER, STRUCTURE, ScheduleError
from ..facts import analyzer_at
from ..order import (
    blocks_in,
    require_only_loops_around,
    require_order_kept,
    require_readers_behind,
    require_same_scope,
    require_settled,
    require_still_parallel,
    scope_at,
    writers_before,
)
from ..place import Domain, box_below, children_of_body, chosen_place, last_writer, nest, solve_domain, union, within
from ..regions import written_regions
from ..rv import BlockRV, LoopRV
from ..state import ScheduleState


@primitive
def reverse_compute_at(
    sch: ScheduleBase, block: BlockRV, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
) -> None:
    """Move a consumer under a loop of its producers, where it reads the elements that an iteration has written.

    Parameters
    ----------
    preserve_unit_loops : False omits loops of one iteration.
    index : position among the statements in the loop; -1 is the last possible one, -2 the first.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    state = sch.state
    require_same_scope(state, block, loop)
    realize = state.realize(block)
    require_complete_or_reduction(realize, state.scope(block).block)
    require_only_loops_around(state, block)
    require_readers_behind(state, block)
    require_settled(state, block.function, realize)
    producers = _producers_below(state, block, loop)
    before = writers_before(state, block)
    old_loops = state.loops(block)
    count = shared_loops(old_loops, state.loops(loop))
    domain = _provided_domain(state, loop, realize, producers, analyzer_at(state, loop, inclusive=True))
    new, inner, placed = nest(realize, domain, analyzer_at(state, loop, inclusive=True), preserve_unit_loops)
    loops = [*state.loops(loop)[count:], *inner]
    _require_same_values(analyzer_at(state, loop), realize, old_loops[count:], placed, loops)
    state.replace(realize, NOTHING, block.function)
    node = state.loop(loop)
    children = children_of_body(node.body)
    position = chosen_place(index, last_writer(children, before) + 1, len(children), node)
    state.replace(node, node.replace(body=seq_of([*children[:position], new, *children[position:]])), loop.function)
    require_order_kept(state, block, before)
    require_settled(state, block.function, placed)
    require_still_parallel(state, block)


def _producers_below(state: ScheduleState, block: BlockRV, loop: LoopRV) -> list[BlockRealize]:
    """Return the blocks below a loop that write what a block reads."""
    realize, node = state.realize(block), state.loop(loop)
    scope = scope_at(state, block)
    read = accesses(realize.block).read_buffers
    result = [item for item in blocks_in(node.body) if accesses(item.block).written_buffers & read]
    if not result:
        raise ScheduleError(
            STRUCTURE,
            f"no block below loop {loop.var.name} writes what block {block.name} reads",
            node,
            realize,
            hint="choose a loop around the block's producers",
        )
    if any(scope.position(item) > scope.position(realize) for item in result):
        raise ScheduleError(
            ORDER,
            f"loop {loop.var.name} runs behind block {block.name}, which would read other values there",
            node,
            realize,
        )
    return result


def _provided_domain(
    state: ScheduleState, loop: LoopRV, realize: BlockRealize, producers: list[BlockRealize], analyzer: Analyzer
) -> Domain:
    """Return the values of a consumer's variables for which it reads elements that an iteration of a loop writes."""
    result: Domain = [None] * len(realize.block.iter_vars)
    for region in accesses(realize.block).reads:
        boxes = [
            box_below(state, loop, producer, written)
            for producer in producers
            for written in written_regions(producer, region.buffer)
        ]
        if boxes:
            box = within(union(boxes, analyzer), region.buffer)
            solved = solve_domain(realize.block, region, box, touching=False)
            result = [a if a is not None else b for a, b in zip(result, solved, strict=True)]
    return result


def _require_same_values(
    analyzer: Analyzer, old: BlockRealize, old_loops: list[For], new: BlockRealize, loops: list[For]
) -> None:
    """Raise unless a block runs for the same values of its variables as before, over the loops that are not shared."""
    name = old.block.name_hint
    points = fresh_points([v.var for v in old.block.iter_vars])
    first = domain_points(old, old_loops, points, analyzer)
    if first is None:
        raise ScheduleError(BINDING, f"block {name} is not bound affinely to its loops", old)
    second = domain_points(new, loops, points, analyzer)
    if second is None or not (implied(analyzer, first, second) and implied(analyzer, second, first)):
        raise ScheduleError(
            BINDING,
            f"block {name} would not run for the same values of its variables at the new place: the parts that "
            "iterations of the loop write are not the parts that it reads",
            old,
            hint="choose a loop further outside, or other factors where loops are split",
        )
    if any(v.iter_type == "reduce" for v in old.block.iter_vars):
        for realize, around in ((old, old_loops), (new, loops)):
            if not sums_once(realize, around, analyzer):
                raise ScheduleError(BINDING, f"block {name} may add a step of its sum several times", old)
