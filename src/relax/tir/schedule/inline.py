"""Shared parts of inlining in both directions: single-store blocks, load replacement, removal of buffers."""

from __future__ import annotations

from collections.abc import Callable

from ...prim import PrimExpr
from ..buffer import Buffer, BufferLoad
from ..dependence import free_variables, scope_of
from ..functor import StmtExprMutator
from ..regions import complete_block
from ..statements import NOTHING
from ..stmt import Block, BlockRealize, BufferStore
from .error import BUFFER, STRUCTURE, ScheduleError
from .rv import BlockRV
from .state import ScheduleState


def single_store(realize: BlockRealize) -> BufferStore:
    """Return the only store of a block; raise if the block contains anything else."""
    block = realize.block
    body = block.body
    if not isinstance(body, BufferStore) or block.alloc_buffers or block.match_buffers or block.init is not None:
        raise ScheduleError(
            STRUCTURE, f"block {block.name_hint} does not consist of one store", realize, hint="buffer[...] = value"
        )
    if any(index.dtype.lanes != 1 for index in body.indices):
        raise ScheduleError(STRUCTURE, f"block {block.name_hint} stores a vector", realize)
    return body


class LoadReplacement(StmtExprMutator):
    """Replace the loads of a buffer by expressions of their indices, and update the reads of blocks."""

    def __init__(self, buffer: Buffer, value: Callable[[tuple[PrimExpr, ...]], PrimExpr]) -> None:
        super().__init__()
        self.buffer, self.value = buffer, value

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        node = self.visit_children(node)
        return self.value(node.indices) if node.buffer is self.buffer else node

    def visit_Block(self, node: Block) -> Block:
        body = self.visit(node.body)
        init = None if node.init is None else self.visit(node.init)
        if body is node.body and init is node.init:
            return node
        kept = tuple(region for region in node.reads if region.buffer is not self.buffer)
        new = complete_block(node.replace(body=body, init=init), mask=1)
        present = {region.buffer for region in new.reads}
        # What is read through a pointer is not seen in the body.
        return new.replace(
            reads=(*new.reads, *(r for r in kept if r.buffer not in present and r.buffer not in _own(new)))
        )


def _own(block: Block) -> set[Buffer]:
    return {region.buffer for region in block.writes}


def forget_buffer(state: ScheduleState, block: BlockRV, buffer: Buffer) -> None:
    """Remove a buffer from the scope of a block. Raises if it is still used there."""
    scope = state.scope(block)
    inside = scope.block.replace(alloc_buffers=tuple(item for item in scope.block.alloc_buffers if item is not buffer))
    facts = scope_of(scope.block)
    users = [child for child in facts.children if uses_buffer(child, buffer)]
    if users or buffer in facts.loose:
        raise ScheduleError(
            BUFFER,
            f"buffer {buffer.name} is used in another way than by loads of elements",
            *users[:1],
            hint="inline before blocks are tensorized or calls are given the buffer's pointer",
        )
    state.replace(scope, scope.replace(block=inside), block.function)


def uses_buffer(child: BlockRealize, buffer: Buffer) -> bool:
    """True if a block loads, stores, views or passes on a buffer."""
    return any(var is buffer.data for var in free_variables(child.block))


def remove_block(state: ScheduleState, realize: BlockRealize, function: str) -> None:
    """Remove a block, and the loops that become empty."""
    state.replace(realize, NOTHING, function)
