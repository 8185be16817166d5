"""rolling_buffer: reuse elements that earlier iterations computed, in a circular buffer.

    B = T.alloc_buffer((10,))                       B = T.alloc_buffer((6,))
    for io in range(2):                             for io in range(2):
        for ax0 in range(6):                            for ax0 in range(6):
            with T.block("B"):                              with T.block("B"):
                vi = T.axis.spatial(10, io * 4 + ax0)           vi = T.axis.spatial(10, io * 4 + ax0)
                B[vi] = A[vi] * 2.0                             T.where(io < 1 or 2 <= ax0)
        for ii in range(4):                                     B[vi % 6] = A[vi] * 2.0
            with T.block("C"):                          for ii in range(4):
                vi = T.axis.spatial(8, io * 4 + ii)         with T.block("C"):
                C[vi] = B[vi] + B[vi + 2]                       vi = T.axis.spatial(8, io * 4 + ii)
                                                                C[vi] = B[vi % 6] + B[(vi + 2) % 6]

A dimension overlaps if a common loop of producer and consumers advances it by less than the extent computed in an
iteration. The producer gets a condition for each overlapping dimension; the buffer becomes circular in the dimension
whose loop is outermost.

Rejected: a block that is neither complete nor a reduction block; an output block; consumers that share no loop with it,
or read elements it has not written in the iteration; a common loop that is not serial; a buffer without an overlapping
dimension, or with accesses other than loads and stores.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....prim import CompareExpr, IntImm, Or, PrimExpr, Var, const, free_vars, is_const, simplify
from ....prim.intrin import floormod
from ....runtime.records import dataclass
from ...buffer import Buffer, BufferLoad
from ...dependence import scope_of
from ...functor import StmtExprMutator, substitute
from ...regions import complete_block
from ...statements import conjunction, conjuncts
from ...stmt import Block, BlockRealize, BufferStore, For, ForKind
from ..base import ScheduleBase, primitive
from ..conditions import require_complete_or_reduction
from ..cover import shared_loops
from ..error import ARGUMENT, BINDING, BUFFER, ORDER, STRUCTURE, ScheduleError
from ..inline import uses_buffer
from ..order import require_intermediate, require_only_loops_around, require_readers_behind, require_settled, scope_at
from ..rv import BlockRV
from ..state import ScheduleState


@dataclass(frozen=True)
class _Overlap:
    """A dimension of which an iteration of `loop` computes `extent` indices, `overlap` of them computed before."""

    dimension: int
    loop: For
    depth: int
    """Index of `loop` among the loops shared by producer and consumers."""
    inner: For
    step: int
    extent: int

    @property
    def overlap(self) -> int:
        return self.extent - self.step


@primitive
def rolling_buffer(sch: ScheduleBase, block: BlockRV, write_buffer_index: int) -> None:
    """Keep elements computed by earlier iterations of a loop in a circular buffer.

    `write_buffer_index` is the index of the buffer among the block's writes. Raises ScheduleError in the cases listed
    in the module's docstring.
    """
    state = sch.state
    realize = state.realize(block)
    require_complete_or_reduction(realize, state.scope(block).block)
    writes = realize.block.writes
    if not 0 <= write_buffer_index < len(writes):
        raise ScheduleError(
            ARGUMENT, f"block {block.name} writes {len(writes)} buffers, found index {write_buffer_index}", realize
        )
    buffer = writes[write_buffer_index].buffer
    require_intermediate(state, block)
    require_only_loops_around(state, block)
    shared = _shared(state, block, require_readers_behind(state, block))
    require_settled(state, block.function, realize)
    overlaps = _overlaps(state, block, buffer, shared)
    rolled = min(overlaps, key=lambda item: item.depth)
    conditions = [
        Or(item.loop.loop_var < 1, const(item.overlap, item.inner.loop_var.dtype) <= item.inner.loop_var)
        for item in sorted(overlaps, key=lambda item: item.depth)
    ]
    predicate = conjunction([*conjuncts(realize.predicate), *conditions])
    state.replace(realize, realize.replace(predicate=predicate), block.function)
    _fold(state, block, buffer, rolled)


def _shared(state: ScheduleState, block: BlockRV, consumers: Sequence[BlockRealize]) -> list[For]:
    """Return the loops that a block shares with all of its consumers, which must be serial."""
    loops = state.loops(block)
    if len(state.realize(block).block.writes) > 1:
        raise ScheduleError(BUFFER, f"block {block.name} writes several buffers", state.realize(block))
    around = [state.loops(state.block_rv(consumer, block.function)) for consumer in consumers]
    count = min((shared_loops(loops, other) for other in around), default=0)
    if not count:
        raise ScheduleError(
            STRUCTURE,
            f"block {block.name} shares no loop with its consumers",
            state.realize(block),
            hint="compute_at moves it under a loop of them",
        )
    for loop in loops[:count]:
        if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            raise ScheduleError(
                ORDER,
                f"loop {loop.loop_var.name} is not serial: its iterations would use what others have computed",
                loop,
            )
    return loops[:count]


# ------------------------------------------------------------------------------------------ overlaps


def _overlaps(state: ScheduleState, block: BlockRV, buffer: Buffer, shared: list[For]) -> list[_Overlap]:
    """Return the overlapping dimensions of a buffer across iterations of shared loops."""
    realize, loops = state.realize(block), state.loops(block)
    values = {v.var: w for v, w in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
    indices = [extent.min for region in realize.block.writes for extent in region.region if region.buffer is buffer]
    moved = [substitute(index, values) for index in indices]
    result: list[_Overlap] = []
    for dimension, (index, value) in enumerate(zip(indices, moved, strict=True)):
        if not isinstance(index, Var):
            continue
        candidate = _overlap(dimension, value, shared, loops[len(shared) :])
        if candidate is not None and _moves_alone(candidate, realize, index, shared, loops):
            result.append(candidate)
    if not result:
        raise ScheduleError(
            BINDING,
            f"no dimension of buffer {buffer.name} overlaps between iterations of the loops that block {block.name} "
            "shares with its consumers",
            realize,
            hint="an index must be a variable of the block, bound to step * loop + inner loop, with a constant step "
            "that is less than the extent of the inner loop",
        )
    return result


def _overlap(dimension: int, value: PrimExpr, shared: list[For], inside: list[For]) -> _Overlap | None:
    """Return the overlap for an index of the form step * loop + inner + constant, else None."""
    used = set(free_vars(value))
    outer = [(depth, loop) for depth, loop in enumerate(shared) if loop.loop_var in used]
    inner = [loop for loop in inside if loop.loop_var in used]
    if len(outer) != 1 or len(inner) != 1 or not isinstance(inner[0].extent, IntImm):
        return None
    depth, loop = outer[0]
    if not is_const(loop.min, 0) or not is_const(inner[0].min, 0):
        return None
    step = simplify(substitute(value, {loop.loop_var: loop.loop_var + 1}) - value)
    along = simplify(substitute(value, {inner[0].loop_var: inner[0].loop_var + 1}) - value)
    if not isinstance(step, IntImm) or not is_const(along, 1) or not 0 < step.value < inner[0].extent.value:
        return None
    return _Overlap(dimension, loop, depth, inner[0], step.value, inner[0].extent.value)


def _moves_alone(overlap: _Overlap, realize: BlockRealize, index: Var, shared: list[For], loops: list[For]) -> bool:
    """True if a step of the loop affects only this index: no other variables, loops or conditions."""
    own = {overlap.loop.loop_var, overlap.inner.loop_var}
    for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if iter_var.var is not index and not own.isdisjoint(free_vars(value)):
            return False
    for loop in loops:
        if not own.isdisjoint([*free_vars(loop.min), *free_vars(loop.extent)]):
            return False
    outer, inner = overlap.loop.loop_var, overlap.inner.loop_var
    before = {outer: outer - 1, inner: inner + overlap.step}
    for condition in conjuncts(realize.predicate):
        if own.isdisjoint(free_vars(condition)):
            continue
        if not isinstance(condition, CompareExpr):
            return False
        difference = condition.a - condition.b
        if not is_const(simplify(substitute(difference, before) - difference), 0):
            return False
    return True


# ------------------------------------------------------------------------------------------ the folded buffer


class _Folding(StmtExprMutator):
    """Redirect accesses of a buffer to the circular buffer."""

    def __init__(self, old: Buffer, new: Buffer, dimension: int) -> None:
        super().__init__()
        self.old, self.new, self.dimension = old, new, dimension

    def folded(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Return the indices of an element in the circular buffer."""
        size = self.new.shape[self.dimension]
        return tuple(
            floormod(index, const(int(size.value), index.dtype))
            if i == self.dimension and isinstance(size, IntImm)
            else index
            for i, index in enumerate(indices)
        )

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        node = self.visit_children(node)
        if node.buffer is not self.old:
            return node
        return node.replace(buffer=self.new, indices=self.folded(node.indices))

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        node = self.visit_children(node)
        if node.buffer is not self.old:
            return node
        return node.replace(buffer=self.new, indices=self.folded(node.indices))

    def visit_Block(self, node: Block) -> Block:
        body = self.visit(node.body)
        init = None if node.init is None else self.visit(node.init)
        return node if body is node.body and init is node.init else complete_block(node.replace(body=body, init=init))


def _fold(state: ScheduleState, block: BlockRV, buffer: Buffer, rolled: _Overlap) -> None:
    """Reduce a dimension of a buffer to the extent of one iteration, and wrap its indices around."""
    scope = scope_at(state, block)
    sizes = list(buffer.shape)
    sizes[rolled.dimension] = const(rolled.extent, sizes[rolled.dimension].dtype)
    folded = buffer.replace(data=Var(buffer.data.name, buffer.data.dtype), shape=tuple(sizes))
    folding = _Folding(buffer, folded, rolled.dimension)
    for child in scope.children:
        new = folding.visit(child)
        if new is not child:
            state.replace(child, new, block.function)
    realize = state.scope(block)
    inside = realize.block
    facts = scope_of(inside)
    if buffer in facts.loose or any(uses_buffer(child, buffer) for child in facts.children):
        raise ScheduleError(BUFFER, f"a pointer of buffer {buffer.name} is used", state.realize(block))
    buffers = tuple(folded if item is buffer else item for item in inside.alloc_buffers)
    state.replace(realize, realize.replace(block=inside.replace(alloc_buffers=buffers)), block.function)
