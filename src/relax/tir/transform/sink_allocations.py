"""Move allocations into loops whose every iteration fills the buffer before reading it.

    with T.block("root"):                             with T.block("root"):
        t = T.alloc_buffer((64,))                         for i in range(16):
        for i in range(16):                                   with T.allocate((64,)) as t:
            for j in range(4):                                    for j in range(4):
                with T.block("t"):                                    with T.block("t"):
                    t[i * 4 + j] = A[i * 4 + j] * 2.0    gives              t[i * 4 + j] = A[i * 4 + j] * 2.0
            for j in range(4):                                    for j in range(4):
                with T.block("B"):                                    with T.block("B"):
                    B[i * 4 + j] = t[i * 4 + j]                            B[i * 4 + j] = t[i * 4 + j]

`CompactBufferAllocation` can then reduce it to the elements that one iteration uses: a tile that stays in registers.

Declines unless every block that uses the buffer is in the loop, and each reading block is proved to read only elements
that another block has written in the same iteration. The proof needs blocks: lowered functions do not change.
"""

from __future__ import annotations

from ...ir import IRModule
from ..buffer import Buffer
from ..dependence import BlockScope, accesses, scope_of, touches
from ..functor import post_order_visit
from ..schedule.cover import covers, shared_loops, sums_up_over
from ..schedule.rv import BlockRV
from ..schedule.state import ScheduleState
from ..statements import has_blocks
from ..stmt import AllocBuffer, Block, BlockRealize, For, ForKind, PrimFunc
from .each_prim_func import each_prim_func

_NAME = "main"


def sink_allocations(func: PrimFunc) -> PrimFunc:
    """The function with buffers allocated in the loops that fill them anew in each iteration."""
    if not has_blocks(func.body) or not any(block.alloc_buffers for block in _blocks(func)):
        return func
    state = ScheduleState(IRModule({_NAME: func}))
    changed = False
    for name in [item.block.name_hint for item in state.blocks(_NAME)]:
        around = BlockRV(_NAME, name)
        for buffer in state.block(around).alloc_buffers:
            loop = _loop_of_its_own(state, scope_of(state.block(around)), buffer)
            if loop is not None:
                changed = True
                state.replace(loop, loop.replace(body=AllocBuffer(buffer, loop.body)), _NAME)
                realize = state.realize(around)
                kept = tuple(item for item in realize.block.alloc_buffers if item is not buffer)
                block = realize.block.replace(alloc_buffers=kept)
                state.replace(realize, realize.replace(block=block), _NAME)
    return state.func(_NAME) if changed else func


def _blocks(func: PrimFunc) -> list[Block]:
    blocks: list[Block] = []
    post_order_visit(func.body, lambda node: blocks.append(node) if isinstance(node, Block) else None)
    return blocks


def _loop_of_its_own(state: ScheduleState, scope: BlockScope, buffer: Buffer) -> For | None:
    """Return the innermost loop whose iterations can each have a separate buffer, or None."""
    writers, readers = scope.writers.get(buffer, []), scope.readers.get(buffer, [])
    users = [*writers, *readers]
    shared = scope.by_pointer.get(buffer.data, set()) != {buffer}
    if not writers or buffer in scope.loose or shared or any(accesses(u.block).opaque for u in users):
        return None
    if any(touches(child.block, buffer) and child not in users for child in scope.children):
        return None  # by a block inside of it that does not say so: see unsafe_hide_buffer_access
    nests = [state.loops(state.block_rv(user, _NAME)) for user in users]
    depth = min(shared_loops(nests[0], nest) for nest in nests)
    loops = nests[0][:depth]
    while loops and (loops[-1].kind is ForKind.VECTORIZED or _is_summed_over(writers, loops)):
        loops = loops[:-1]
    if not loops or not all(_is_filled(state, writers, reader, buffer) for reader in readers):
        return None
    return loops[-1]


def _is_summed_over(writers: list[BlockRealize], loops: list[For]) -> bool:
    variables = {loop.loop_var for loop in loops}
    return any(sums_up_over(writer, variables) for writer in writers)


def _is_filled(state: ScheduleState, writers: list[BlockRealize], reader: BlockRealize, buffer: Buffer) -> bool:
    """True if another block writes all elements that `reader` reads, within the same iteration of their common
    loops.
    """
    return any(writer is not reader and covers(state, _NAME, writer, reader, buffer) for writer in writers)


SinkAllocations = each_prim_func(sink_allocations, "SinkAllocations")
"""Pass: move allocations into loops whose iterations refill the buffer."""
