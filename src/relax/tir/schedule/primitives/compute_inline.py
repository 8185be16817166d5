"""compute_inline: inline an elementwise producer into its consumers, and remove its buffer.

    for i in range(128):                            for i in range(128):
        with T.block("P"):                              with T.block("B"):
            vi = T.axis.spatial(128, i)                     vi = T.axis.spatial(128, i)
            P[vi] = A[vi] * 2.0                             B[vi] = A[vi] * 2.0 + 1.0
    for i in range(128):
        with T.block("B"):
            vi = T.axis.spatial(128, i)
            B[vi] = P[vi] + 1.0

The values of the producer's variables are computed from the indices of the read element, so the indices of the store
must be invertible: distinct variables, possibly plus constants, or an invertible affine map.

Rejected: a block that is not complete or not a single store; an output block; a block without consumers; indices that
are not invertible; a consumer that reads elements which the block does not write; a consumer that would read other
values than the block, because it or a block in between overwrites them; a buffer whose pointer is used.
"""

from __future__ import annotations

from ....prim import PrimExpr, Var
from ...dependence import accesses
from ...functor import substitute
from ...renew import renew_bound_vars
from ...stmt import BlockRealize, BufferStore
from ..base import ScheduleBase, primitive
from ..conditions import require_complete
from ..cover import covers, stays_in_domain
from ..error import BINDING, COVER, ORDER, STRUCTURE, ScheduleError
from ..facts import outer_facts
from ..inline import LoadReplacement, forget_buffer, remove_block, single_store
from ..inverse import inverse_of
from ..order import (
    require_intermediate,
    require_only_loops_around,
    require_order_kept,
    require_readers_behind,
    require_settled,
    require_still_parallel,
    writers_before,
)
from ..rv import BlockRV
from ..state import ScheduleState


@primitive
def compute_inline(sch: ScheduleBase, block: BlockRV) -> None:
    """Inline a producer into its consumers. Raises ScheduleError in the cases listed in the module's docstring."""
    state = sch.state
    realize = state.realize(block)
    require_complete(state, block)
    store = single_store(realize)
    require_intermediate(state, block)
    require_only_loops_around(state, block)
    consumers = require_readers_behind(state, block)
    if not consumers:
        raise ScheduleError(STRUCTURE, f"block {block.name} has no consumers", realize)
    require_settled(state, block.function, realize)
    _require_written(state, realize, consumers, block.function, store)
    points, values = _inverse(state, block, store)
    before = writers_before(state, block)
    inputs = accesses(realize.block).read_buffers

    def value_at(indices: tuple[PrimExpr, ...]) -> PrimExpr:
        at = {point: index.astype(point.dtype) for point, index in zip(points, indices, strict=True)}
        expr = substitute(store.value, {var: substitute(value, at) for var, value in values.items()})
        return renew_bound_vars(expr)

    for consumer in consumers:
        rewritten = LoadReplacement(store.buffer, value_at).visit(consumer)
        state.replace(consumer, rewritten, block.function)
    remove_block(state, realize, block.function)
    forget_buffer(state, BlockRV(block.function, consumers[0].block.name_hint), store.buffer)
    for consumer in consumers:
        rv = BlockRV(block.function, consumer.block.name_hint)
        if accesses(consumer.block).written_buffers & inputs:
            raise ScheduleError(
                ORDER, f"block {rv.name} writes what block {block.name} reads, and may read it after that", consumer
            )
        require_order_kept(state, rv, before)
        require_settled(state, block.function, state.realize(rv), inputs)
        require_still_parallel(state, rv)


def _require_written(
    state: ScheduleState, realize: BlockRealize, consumers: list[BlockRealize], function: str, store: BufferStore
) -> None:
    """Raise if a consumer may read an element that a block does not write: computing it there might fail."""
    for consumer in consumers:
        if not covers(state, function, realize, consumer, store.buffer):
            raise ScheduleError(
                COVER,
                f"block {consumer.block.name_hint} may read elements of buffer {store.buffer.name} that block "
                f"{realize.block.name_hint} does not write",
                consumer,
                realize,
            )


def _inverse(state: ScheduleState, block: BlockRV, store: BufferStore) -> tuple[list[Var], dict[Var, PrimExpr]]:
    """Return fresh variables for an element's indices, and the block's variables as functions of them."""
    realize = state.realize(block)
    points = [Var(f"i{k}", index.dtype) for k, index in enumerate(store.indices)]
    values = inverse_of(realize.block.iter_vars, store.indices, points)
    if values is None:
        raise ScheduleError(
            BINDING,
            f"the indices at which block {block.name} writes buffer {store.buffer.name} do not decide the values of "
            "its variables",
            realize,
            hint="the indices must be distinct variables of the block, or an affine map of them that has an inverse",
        )
    if not stays_in_domain(realize, state.loops(block), outer_facts(state, block)):
        raise ScheduleError(
            BINDING, f"block {block.name} may be run for values outside of the domains of its variables", realize
        )
    return points, values
