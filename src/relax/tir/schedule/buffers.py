"""Buffer arguments of primitives, and preconditions for moving a buffer's accesses.

* All accesses are loads and stores: the buffer's pointer is not passed to a call, and no other buffer views its memory.
* Parameters may overlap unless the function has the attribute ``tir.noalias``. A primitive that moves accesses of a
  parameter across stores to another parameter sets it, so that calls with overlapping arguments are rejected instead of
  returning different results.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, Final, Literal, cast

from ...ir import GlobalVar
from ...prim import Call, Var
from ..buffer import Buffer, BufferLoad, BufferRegion
from ..dependence import accesses
from ..functor import StmtExprVisitor
from ..statements import parts_of
from ..stmt import Block, BlockRealize, BufferStore, DeclBuffer, MatchBufferRegion, PrimFunc, Stmt
from .base import ScheduleBase
from .error import ARGUMENT, BUFFER, ScheduleError
from .rv import BlockRV
from .state import ScheduleState

Access = Literal["read", "write"]
_BY_ADDRESS: Final = frozenset({"address_of", "tvm_access_ptr"})


# ------------------------------------------------------------------------------------------ arguments


def buffer_argument(sch: ScheduleBase, realize: BlockRealize, argument: Any, access: Access, name: str) -> Buffer:
    """`accessed_buffer`, which records a Buffer by its index in the trace, so that it can be replayed on other
    functions.
    """
    buffer = accessed_buffer(realize, argument, access, name)
    if not isinstance(argument, (int, str)):
        sch.recorded[name] = accessed_buffers(realize, access).index(buffer)
    return buffer


def accessed_buffers(realize: BlockRealize, access: Access) -> list[Buffer]:
    """Return the buffers that a block reads or writes: declared ones in order, then others that its body accesses."""
    block = realize.block
    declared = block.reads if access == "read" else block.writes
    taken = accesses(block).reads if access == "read" else accesses(block).writes
    return list(dict.fromkeys(region.buffer for region in (*declared, *taken)))


def accessed_buffer(realize: BlockRealize, argument: Any, access: Access, name: str = "buffer") -> Buffer:
    """Return the buffer denoted by an argument: an index into the block's reads or writes, a name, a Buffer or its
    region.

    Raises ScheduleError if the block has no such access.
    """
    block = realize.block
    buffers = accessed_buffers(realize, access)
    verb = "reads" if access == "read" else "writes"
    if isinstance(argument, bool) or not isinstance(argument, (int, str, Buffer, BufferRegion)):
        raise ScheduleError(ARGUMENT, f"{name} must be an index, a name or a Buffer, found {type(argument).__name__}")
    there = ", ".join(buffer.name for buffer in buffers) or "none"
    if isinstance(argument, int):
        if not 0 <= argument < len(buffers):
            message = f"block {block.name_hint} {verb} no buffer of index {argument}"
            raise ScheduleError(ARGUMENT, message, realize, hint=f"it {verb} {there}")
        return buffers[argument]
    if isinstance(argument, str):
        matched = [buffer for buffer in buffers if buffer.name == argument]
    else:
        wanted = argument.buffer if isinstance(argument, BufferRegion) else argument
        matched = [buffer for buffer in buffers if buffer is wanted]
    if len(matched) != 1:
        shown = argument if isinstance(argument, str) else getattr(argument, "name", "that")
        count = "no buffer" if not matched else f"{len(matched)} buffers"
        message = f"block {block.name_hint} {verb} {count} called {shown}"
        raise ScheduleError(ARGUMENT, message, realize, hint=f"it {verb} {there}; an index says which")
    return matched[0]


def either_buffer(sch: ScheduleBase, realize: BlockRealize, argument: Any) -> Buffer:
    """Return the buffer denoted by ``("read", 0)``, ``("write", "B")``, a name, or a Buffer; see `buffer_argument`."""
    if isinstance(argument, (tuple, list)):
        items = list(cast("Iterable[Any]", argument))
        if len(items) != 2 or items[0] not in ("read", "write"):
            raise ScheduleError(ARGUMENT, f'buffer must be like ("read", 0) or ("write", 0), found {argument!r}')
        return accessed_buffer(realize, items[1], items[0])
    if isinstance(argument, int):
        raise ScheduleError(
            ARGUMENT,
            "an index alone does not say whether reads or writes are meant",
            hint=f'give ("read", {argument}) or ("write", {argument})',
        )
    access: Access = "write"
    try:
        buffer = accessed_buffer(realize, argument, "write")
    except ScheduleError:
        access, buffer = "read", accessed_buffer(realize, argument, "read")
    if not isinstance(argument, str):
        sch.recorded["buffer"] = (access, accessed_buffers(realize, access).index(buffer))
    return buffer


def require_scope_name(storage_scope: str) -> str:
    """Return the name of a storage scope; raise ScheduleError if it is empty."""
    if not storage_scope:
        raise ScheduleError(
            ARGUMENT,
            f"storage_scope must be the name of a scope, found {storage_scope!r}",
            hint='as "global", "local" or "shared"',
        )
    return storage_scope


# ------------------------------------------------------------------------------------------ pointers and views

_viewed: weakref.WeakKeyDictionary[Block, frozenset[Var]] = weakref.WeakKeyDictionary()


def viewed_pointers(block: Block) -> frozenset[Var]:
    """Return the pointers that a block passes to calls, or declares views on."""
    result = _viewed.get(block)
    if result is None:
        visitor = _Views()
        visitor.block(block)
        result = _viewed[block] = frozenset(visitor.pointers)
    return result


class _Views(StmtExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.pointers: set[Var] = set()

    def block(self, block: Block) -> None:
        for match in block.match_buffers:
            self.visit(match)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    def visit_Var(self, node: Var) -> None:
        if node.dtype.is_handle:
            self.pointers.add(node)

    def visit_Buffer(self, node: Buffer) -> None:
        """Do nothing: accessing a buffer does not pass its pointer on."""

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        self.pointers.add(node.buffer.data)
        self.visit(node.body)

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> None:
        self.pointers.add(node.source.buffer.data)

    def visit_Call(self, node: Call) -> None:
        if isinstance(node.op, GlobalVar) or node.intrinsic in _BY_ADDRESS:
            self.pointers.update(arg.buffer.data for arg in node.args if isinstance(arg, BufferLoad))
        self.visit_children(node)

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        for value in (*node.iter_values, node.predicate):
            self.visit(value)
        self.pointers |= viewed_pointers(node.block)


def require_accesses_only(state: ScheduleState, function: str, buffer: Buffer) -> None:
    """Raise if the memory of a buffer is accessed through a view, a pointer or another parameter."""
    func = state.func(function)
    shared = [b for b in func.buffer_map.values() if b.data is buffer.data and b is not buffer]
    if shared or buffer.data in viewed_pointers(state.root(function).block):
        other = f"buffer {shared[0].name}" if shared else "a view, or a call that gets its pointer"
        raise ScheduleError(
            BUFFER,
            f"the memory of buffer {buffer.name} is also used through {other}",
            hint="read and write the buffer by its elements only",
        )


def stored_outside_blocks(body: Stmt, buffer: Buffer) -> bool:
    """True if a statement of a scope, outside of its child blocks, stores to a buffer."""
    if isinstance(body, BufferStore):
        return body.buffer is buffer
    if isinstance(body, BlockRealize):
        return False
    return any(stored_outside_blocks(part, buffer) for part in parts_of(body))


# ------------------------------------------------------------------------------------------ where a buffer lives


def is_parameter(func: PrimFunc, buffer: Buffer) -> bool:
    """True if a buffer belongs to a parameter."""
    return any(item is buffer for item in func.buffer_map.values())


def is_allocated_in(block: Block, buffer: Buffer) -> bool:
    """True if a block allocates a buffer."""
    return any(item is buffer for item in block.alloc_buffers)


def allocating_block(state: ScheduleState, block: BlockRV, buffer: Buffer) -> BlockRealize:
    """Return the innermost block, from `block` outwards, that allocates a buffer. Raises ScheduleError if none does."""
    for stmt in (state.realize(block), *state.ancestors(block)):
        if isinstance(stmt, BlockRealize) and is_allocated_in(stmt.block, buffer):
            return stmt
    kind = "a parameter" if is_parameter(state.func(block.function), buffer) else "no buffer of a block"
    raise ScheduleError(
        BUFFER,
        f"buffer {buffer.name} is {kind}: it must be allocated in a block",
        hint="cache_read or cache_write makes a buffer of the function's own",
    )


def demand_apart(state: ScheduleState, function: str, buffer: Buffer, other_buffers: Iterable[Buffer]) -> None:
    """Set ``tir.noalias`` if a parameter's memory must not overlap that of other parameters."""
    func = state.func(function)
    if func.attrs.get("tir.noalias") or not is_parameter(func, buffer):
        return
    if any(other is not buffer and is_parameter(func, other) for other in other_buffers):
        promised = func.replace(attrs={**func.attrs, "tir.noalias": True})
        state.replace_function(function, promised)
