"""reverse_compute_inline: inline an elementwise consumer into its producer, and remove the intermediate buffer.

    for i in range(128):                            for i in range(128):
        with T.block("P"):                              with T.block("P"):
            vi = T.axis.spatial(128, i)                     vi = T.axis.spatial(128, i)
            P[vi] = A[vi] * 2.0                             B[vi] = A[vi] * 2.0 + 1.0
    for i in range(128):
        with T.block("B"):
            vi = T.axis.spatial(128, i)
            B[vi] = P[vi] + 1.0

The values of the consumer's variables are computed from the indices of the written element, so the indices of the load
must be invertible. If the producer writes elements that the consumer does not read, it gets a condition.

Rejected: a consumer or producer that is not complete (a reduction's elements are not final when they are written) or
not a single store; a consumer that reads the producer's buffer at several indices, at indices that are not invertible,
or elements that the producer does not write; a buffer with other readers, or that the scope does not allocate; a
consumer that would read other values, because a block in between overwrites them; a reader of the consumer's buffer
that precedes the consumer.
"""

from __future__ import annotations

from ....ir import structural_equal
from ....prim import Analyzer, PrimExpr, Var
from ...buffer import BufferLoad
from ...dependence import accesses
from ...functor import pre_order_visit, substitute
from ...regions import complete_block
from ...renew import renew_bound_vars
from ...statements import conjunction, conjuncts
from ...stmt import BlockRealize, BufferStore
from ..base import ScheduleBase, primitive
from ..conditions import is_complete, require_complete
from ..cover import covers, domain_conditions, domain_points, fresh_points, implied, stays_in_domain
from ..error import BINDING, COVER, KIND, STRUCTURE, ScheduleError
from ..facts import analyzer_at, outer_facts
from ..inline import LoadReplacement, forget_buffer, remove_block, single_store
from ..inverse import inverse_of
from ..order import (
    require_intermediate,
    require_only_loops_around,
    require_order_kept,
    require_readers_behind,
    require_settled,
    require_still_parallel,
    scope_at,
    writers_before,
)
from ..rv import BlockRV
from ..state import ScheduleState


@primitive
def reverse_compute_inline(sch: ScheduleBase, block: BlockRV) -> None:
    """Inline a consumer into its producer. Raises ScheduleError in the cases listed in the module's docstring."""
    state = sch.state
    realize = state.realize(block)
    require_complete(state, block)
    store = single_store(realize)
    require_only_loops_around(state, block)
    require_readers_behind(state, block)
    require_settled(state, block.function, realize)
    _require_exact_domain(state, block)
    producer = _producer(state, block)
    source = state.block_rv(producer, block.function)
    written = single_store(producer)
    values, conditions = _values(realize, written)
    if not covers(state, block.function, producer, realize, written.buffer):
        raise ScheduleError(
            COVER,
            f"block {block.name} may read elements of buffer {written.buffer.name} that block {source.name} does not "
            "write",
            realize,
            producer,
        )
    before = {name: first for name, first in writers_before(state, block).items() if name != source.name}
    inputs = accesses(realize.block).read_buffers - {written.buffer}
    placed = _merged(producer, written, store, values, conditions, analyzer_at(state, source))
    state.replace(producer, placed, block.function)
    remove_block(state, realize, block.function)
    forget_buffer(state, source, written.buffer)
    before |= {name: first for name, first in writers_before(state, source).items() if name not in before}
    require_order_kept(state, source, before)
    require_settled(state, block.function, placed, inputs)
    require_still_parallel(state, source)


def _producer(state: ScheduleState, block: BlockRV) -> BlockRealize:
    """Return the last block before the consumer that computes what it reads."""
    realize, scope = state.realize(block), scope_at(state, block)
    here = scope.position(realize)
    read = accesses(realize.block).read_buffers
    candidates = [item for item in scope.children[:here] if accesses(item.block).written_buffers & read]
    if not candidates:
        raise ScheduleError(STRUCTURE, f"block {block.name} has no producer", realize)
    producer = candidates[-1]
    source = state.block_rv(producer, block.function)
    if not is_complete(producer, scope.block) and producer.block.init is not None:
        raise ScheduleError(
            KIND,
            f"block {source.name} is a reduction block: its elements are not finished when they are written",
            producer,
            hint="reverse_compute_at moves the consumer into the reduction's loops",
        )
    require_complete(state, source)
    require_intermediate(state, source)
    require_only_loops_around(state, source)
    for reader in require_readers_behind(state, source):
        if reader is not realize:
            raise ScheduleError(
                STRUCTURE,
                f"block {reader.block.name_hint} reads what block {source.name} writes, too",
                producer,
                reader,
            )
    require_settled(state, block.function, producer)
    return producer


def _require_exact_domain(state: ScheduleState, block: BlockRV) -> None:
    """Raise unless a block runs for exactly the values in the domains of its variables."""
    realize, loops, analyzer = state.realize(block), state.loops(block), outer_facts(state, block)
    points = fresh_points([v.var for v in realize.block.iter_vars])
    reached = domain_points(realize, loops, points, analyzer)
    whole = reached is not None and implied(analyzer, domain_conditions(realize.block, points), reached)
    if not whole or not stays_in_domain(realize, loops, analyzer):
        raise ScheduleError(
            BINDING, f"block {block.name} may not run for just the values in its variables' domains", realize
        )


def _values(realize: BlockRealize, written: BufferStore) -> tuple[dict[Var, PrimExpr], list[PrimExpr]]:
    """Return a consumer's variables as functions of the written element, and the conditions under which it is read."""
    name, buffer = realize.block.name_hint, written.buffer
    loads: list[BufferLoad] = []

    def look(node: object) -> None:
        if isinstance(node, BufferLoad) and node.buffer is buffer:
            loads.append(node)

    pre_order_visit(realize.block.body, look)
    first = loads[0].indices
    if not all(structural_equal(load.indices, first) for load in loads):
        raise ScheduleError(STRUCTURE, f"block {name} reads buffer {buffer.name} at several places", realize)
    points = fresh_points(first)
    values = inverse_of(realize.block.iter_vars, first, points)
    if values is None:
        raise ScheduleError(
            BINDING,
            f"the indices at which block {name} reads buffer {buffer.name} do not decide the values of its variables",
            realize,
            hint="the indices must be distinct variables of the block, or an affine map of them that has an inverse",
        )
    at = {point: index.astype(point.dtype) for point, index in zip(points, written.indices, strict=True)}
    result = {var: substitute(value, at) for var, value in values.items()}
    read = [substitute(index, result).equal(at[point]) for index, point in zip(first, points, strict=True)]
    return result, [*domain_conditions(realize.block, [result[v.var] for v in realize.block.iter_vars]), *read]


def _merged(
    producer: BlockRealize,
    written: BufferStore,
    store: BufferStore,
    values: dict[Var, PrimExpr],
    conditions: list[PrimExpr],
    analyzer: Analyzer,
) -> BlockRealize:
    """Return the producer with the consumer's store, under the conditions."""
    placed: BufferStore = substitute(store, values)

    def element(indices: tuple[PrimExpr, ...]) -> PrimExpr:
        return renew_bound_vars(written.value)

    body = LoadReplacement(written.buffer, element).visit(placed)
    block = complete_block(producer.block.replace(body=body))
    bound = {v.var: w for v, w in zip(producer.block.iter_vars, producer.iter_values, strict=True)}
    facts = analyzer.copy()
    for condition in conjuncts(producer.predicate):
        facts.assume(condition)
    predicate = list(conjuncts(producer.predicate))
    for condition in conditions:
        needed = facts.simplify(substitute(condition, bound))
        if not facts.can_prove(needed):
            predicate.append(needed)
            facts.assume(needed)
    return producer.replace(block=block, predicate=conjunction(predicate))
