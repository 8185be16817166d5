"""compute_at: move a producer under a loop of its consumers, to compute what an iteration needs.

    for i in range(n):                              for io in range((n + 15) // 16):
        with T.block("P"):                              for ax0 in range(18):
            vi = T.axis.spatial(n + 2, i)                   with T.block("P"):
            P[vi] = A[vi] * 2.0                                 vi = T.axis.spatial(n + 2, io * 16 + ax0)
    for io, ii in T.grid((n + 15) // 16, 16):                   T.where(io * 16 + ax0 < n + 2)
        with T.block("B"):                                      P[vi] = A[vi] * 2.0
            vi = T.axis.spatial(n, io * 16 + ii)        for ii in range(16):
            T.where(io * 16 + ii < n)                       with T.block("B"):
            B[vi] = P[vi] + P[vi + 2]                           vi = T.axis.spatial(n, io * 16 + ii)
                                                                T.where(io * 16 + ii < n)
                                                                B[vi] = P[vi] + P[vi + 2]

New loops run over the values of the producer's variables needed for the bounding box of all elements that the consumers
below the loop read; over the whole domain of a variable where these values are unknown, and of a reduction.

Rejected: a block of another scope; a loop that encloses the block already; a block that is neither complete nor a
reduction block, or does not run over its whole domains; an output block; consumers that are not all below the loop, or
precede the block; a block that may read other values at the new place, because their writers are in between, or have
not written them in that iteration; a loop below a non-serial loop whose iterations would then depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....prim import Analyzer
from ...buffer import Buffer
from ...dependence import accesses
from ...statements import NOTHING, seq_of
from ...stmt import BlockRealize
from ..base import ScheduleBase, primitive
from ..conditions import require_complete_or_reduction
from ..domains import require_whole_domain
from ..error import STRUCTURE, ScheduleError
from ..facts import analyzer_at
from ..order import (
    blocks_in,
    require_intermediate,
    require_only_loops_around,
    require_order_kept,
    require_readers_behind,
    require_same_scope,
    require_settled,
    require_still_parallel,
    writers_before,
)
from ..place import Domain, box_below, children_of_body, chosen_place, last_writer, nest, solve_domain, union, within
from ..regions import Box, read_regions
from ..rv import BlockRV, LoopRV
from ..state import ScheduleState


@primitive
def compute_at(
    sch: ScheduleBase, block: BlockRV, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
) -> None:
    """Move a producer under a loop of its consumers, where it computes the elements that an iteration reads.

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
    require_intermediate(state, block)
    require_only_loops_around(state, block)
    consumers = require_readers_behind(state, block)
    require_below(state, loop, realize, consumers)
    require_settled(state, block.function, realize)
    require_whole_domain(state, block)
    before = writers_before(state, block)
    analyzer = analyzer_at(state, loop, inclusive=True)
    domain = _needed_domain(state, loop, realize, consumers, analyzer)
    new, _, placed = nest(realize, domain, analyzer, preserve_unit_loops)
    state.replace(realize, NOTHING, block.function)
    node = state.loop(loop)
    children = children_of_body(node.body)
    first = last_writer(children, before) + 1
    last = next(i for i, child in enumerate(children) if any(c in consumers for c in blocks_in(child)))
    position = chosen_place(index, first, last, node)
    state.replace(node, node.replace(body=seq_of([*children[:position], new, *children[position:]])), loop.function)
    require_order_kept(state, block, before)
    require_settled(state, block.function, placed)
    require_still_parallel(state, block)


def require_below(state: ScheduleState, loop: LoopRV, realize: BlockRealize, consumers: Sequence[BlockRealize]) -> None:
    """Raise unless there are consumers, and all of them are below a loop."""
    node, name = state.loop(loop), realize.block.name_hint
    if not consumers:
        raise ScheduleError(STRUCTURE, f"block {name} has no consumers", realize)
    for consumer in consumers:
        rv = state.block_rv(consumer, loop.function)
        if not any(item is node for item in state.loops(rv)):
            raise ScheduleError(
                STRUCTURE,
                f"block {consumer.block.name_hint}, which reads what block {name} writes, is not below loop "
                f"{loop.var.name}",
                node,
                consumer,
                hint="choose a loop around all consumers, or move the other consumers below this one first",
            )


# ------------------------------------------------------------------------------------------ the domain needed


def _needed_domain(
    state: ScheduleState, loop: LoopRV, realize: BlockRealize, consumers: Sequence[BlockRealize], analyzer: Analyzer
) -> Domain:
    """Return the values of a producer's variables whose elements an iteration of a loop reads."""
    domains: list[Domain] = []
    for region in accesses(realize.block).writes:
        boxes = [box for consumer in consumers for box in _read_boxes(state, loop, consumer, region.buffer)]
        if boxes:
            box = within(union(boxes, analyzer), region.buffer)
            domains.append(solve_domain(realize.block, region, box, touching=True))
    return union(domains, analyzer)


def _read_boxes(state: ScheduleState, loop: LoopRV, consumer: BlockRealize, buffer: Buffer) -> list[Box]:
    return [box_below(state, loop, consumer, region) for region in read_regions(consumer, buffer)]
