"""set_scope, unsafe_set_dtype: change the storage scope or the dtype of an allocated buffer.

    B = T.alloc_buffer((128,))             B = T.alloc_buffer((128,), scope="shared")

    after set_scope(block, 0, "shared"); and after unsafe_set_dtype(block, 0, "float16")

    B = T.alloc_buffer((128,))             B = T.alloc_buffer((128,), "float16")
    B[vi] = A[vi] * 2.0                    B[vi] = T.Cast("float16", A[vi] * 2.0)
    C[vi] = B[vi] + 1.0                    C[vi] = T.Cast("float32", B[vi]) + 1.0

Another dtype may round and overflow, which changes the function's results; hence "unsafe".

Rejected: buffers of parameters; by unsafe_set_dtype also buffers whose pointer is passed on, or that have views.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....ir import DataType
from ....prim import PrimExpr
from ...buffer import Buffer, BufferLoad, decl_buffer
from ...dependence import touches
from ...functor import StmtExprMutator
from ...stmt import Block, BufferStore, DeclBuffer, MatchBufferRegion
from ..base import ScheduleBase, primitive
from ..block_kinds import nodes_of
from ..buffers import allocating_block, buffer_argument, require_accesses_only, require_scope_name, viewed_pointers
from ..error import ARGUMENT, ScheduleError
from ..rv import BlockRV


@primitive
def set_scope(sch: ScheduleBase, block: BlockRV, buffer_index: int | str | Buffer, storage_scope: str) -> None:
    """Move a buffer that a block writes to another storage scope.

    Parameters
    ----------
    buffer_index : an index into the block's writes, a name, or a Buffer.

    Raises ScheduleError for a buffer that no block allocates.
    """
    realize = sch.state.realize(block)
    buffer = buffer_argument(sch, realize, buffer_index, "write", "buffer_index")
    storage_scope = require_scope_name(storage_scope)
    around = allocating_block(sch.state, block, buffer)
    if buffer.scope == storage_scope:
        return
    moved = {item: item.replace(scope=storage_scope) for item in [buffer, *_views_of(around.block, buffer)]}
    changed = _Moved(moved).visit(around.block)
    sch.state.replace(around, around.replace(block=changed), block.function)


def _views_of(block: Block, buffer: Buffer) -> list[Buffer]:
    """Return the buffers that view a buffer, directly or through other views, in a block."""
    if buffer.data not in viewed_pointers(block):
        return []
    views: dict[Buffer, Buffer] = {}
    same_pointer: list[Buffer] = []

    for node in nodes_of(block, MatchBufferRegion):
        views[node.buffer] = node.source.buffer
    for node in nodes_of(block, DeclBuffer):
        if node.buffer.data is buffer.data:
            same_pointer.append(node.buffer)
    reached = {buffer, *same_pointer}
    while True:
        more = {view for view, source in views.items() if source in reached} - reached
        if not more:
            return list(reached - {buffer})
        reached |= more


@primitive
def unsafe_set_dtype(sch: ScheduleBase, block: BlockRV, buffer_index: int | str | Buffer, dtype: str) -> None:
    """Change the dtype of a buffer that a block writes: stored and loaded values are cast.

    Parameters
    ----------
    buffer_index : an index into the block's writes, a name, or a Buffer.

    Raises ScheduleError for a buffer that no block allocates, or with accesses other than loads and stores.
    """
    realize = sch.state.realize(block)
    buffer = buffer_argument(sch, realize, buffer_index, "write", "buffer_index")
    try:
        kind = DataType(dtype)
    except (TypeError, ValueError) as error:
        raise ScheduleError(ARGUMENT, f"dtype must be that of a scalar, found {dtype!r}") from error
    if kind.lanes != 1 or not (kind.is_float or kind.is_integer or kind.is_bool):
        raise ScheduleError(ARGUMENT, f"dtype must be that of a scalar, found {dtype!r}")
    around = allocating_block(sch.state, block, buffer)
    require_accesses_only(sch.state, block.function, buffer)
    if buffer.dtype == kind:
        return
    new = decl_buffer(buffer.shape, str(kind), buffer.name, scope=buffer.scope)
    changed = _Converting(buffer, new).visit(around.block)
    sch.state.replace(around, around.replace(block=changed), block.function)


class _Moved(StmtExprMutator):
    """Change the scopes of buffers, keeping their pointers."""

    def __init__(self, moved: Mapping[Buffer, Buffer]) -> None:
        super().__init__()
        self.moved = moved

    def define_buffer(self, buffer: Buffer) -> None:
        if buffer not in self.moved:
            super().define_buffer(buffer)

    def visit_Buffer(self, node: Buffer) -> Buffer:
        return self.moved.get(node, node)

    def visit_Block(self, node: Block) -> Block:
        touched = any(touches(node, buffer) for buffer in self.moved)
        return self.visit_children(node) if touched else node


class _Converting(StmtExprMutator):
    """Redirect accesses of one buffer to another, with casts."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        super().__init__()
        self.old, self.new = old, new

    def define_buffer(self, buffer: Buffer) -> None:
        if buffer is not self.old:
            super().define_buffer(buffer)

    def visit_Buffer(self, node: Buffer) -> Buffer:
        return self.new if node is self.old else super().visit_Buffer(node)

    def visit_Block(self, node: Block) -> Block:
        return self.visit_children(node) if touches(node, self.old) else node

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        if node.buffer is not self.old:
            return self.visit_children(node)
        predicate = self.visit_predicate(node.predicate)
        load = BufferLoad(self.new, self.visit_all(node.indices), predicate, span=node.span)
        return load.astype(node.dtype)

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        if node.buffer is not self.old:
            return self.visit_children(node)
        value, predicate = self.visit(node.value), self.visit_predicate(node.predicate)
        kind = self.new.dtype.with_lanes(value.dtype.lanes)
        indices = self.visit_all(node.indices)
        return BufferStore(self.new, value.astype(kind), indices, predicate, span=node.span)
