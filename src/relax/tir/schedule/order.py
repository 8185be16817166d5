"""Dependence order of the blocks of a scope: conditions under which a block may be moved.

A block is *settled* if every element it reads has its final value: each writer of a buffer it reads

* has no loop in common with the block, so it has finished or not started; or
* precedes and covers the block (see `cover`), is a complete or a reduction block, and is settled itself.

A settled complete or reduction block computes the same results at every place where it is settled, and may be executed
again there.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir import Node
from ..buffer import Buffer
from ..dependence import BlockScope, accesses, scope_of
from ..statements import parts_of
from ..stmt import BlockRealize, For, ForKind, SeqStmt, Stmt
from .conditions import require_complete_or_reduction, require_parallel
from .cover import covers, shared_loops
from .error import BUFFER, COVER, ORDER, STRUCTURE, ScheduleError
from .rv import BlockRV, LoopRV
from .state import ScheduleState


def scope_at(state: ScheduleState, rv: BlockRV | LoopRV) -> BlockScope:
    """Return the dependence facts of the scope that contains a block or loop."""
    return scope_of(state.scope(rv).block)


def blocks_in(stmt: Stmt) -> Iterator[BlockRealize]:
    """Yield the outermost blocks in a statement, which may be a block itself."""
    if isinstance(stmt, BlockRealize):
        yield stmt
        return
    for part in parts_of(stmt):
        yield from blocks_in(part)


def require_same_scope(state: ScheduleState, block: BlockRV, loop: LoopRV) -> None:
    """Raise unless a block and a loop are in the same scope, and the loop does not enclose the block."""
    node, realize = state.loop(loop), state.realize(block)
    if block.function != loop.function or state.scope(block) is not state.scope(loop):
        raise ScheduleError(
            STRUCTURE,
            f"block {block.name} and loop {loop.var.name} are not in the same scope",
            realize,
            node,
            hint="choose a loop of the block in which this one is directly",
        )
    if any(item is node for item in state.loops(block)):
        raise ScheduleError(
            STRUCTURE,
            f"loop {loop.var.name} is around block {block.name} already",
            node,
            realize,
            hint="choose a loop around the blocks that it shall stand beside",
        )


def require_only_loops_around(state: ScheduleState, block: BlockRV) -> None:
    """Raise if a block is enclosed in its scope by statements other than loops and sequences, such as a condition."""
    realize = state.realize(block)
    chain: list[Node] = [*state.loops(block), realize]
    stmt: Stmt = state.scope(block).block.body
    for item in chain:
        children = stmt.seq if isinstance(stmt, SeqStmt) else (stmt,)
        if not any(child is item for child in children):
            raise ScheduleError(
                STRUCTURE,
                f"block {block.name} stands below a statement that is no loop",
                realize,
                hint="make a condition around a block its predicate, T.where",
            )
        if isinstance(item, For):
            stmt = item.body


def require_intermediate(state: ScheduleState, block: BlockRV) -> None:
    """Raise for an output block: one that writes a buffer which its scope does not allocate."""
    realize, scope = state.realize(block), scope_at(state, block)
    own = set(scope.block.alloc_buffers)
    for region in accesses(realize.block).writes:
        if region.buffer not in own:
            raise ScheduleError(
                BUFFER,
                f"block {block.name} is an output block: its scope does not allocate buffer {region.buffer.name}, "
                "which others may read",
                realize,
                hint="cache_write it first; the block that then computes is no output block",
            )


# ------------------------------------------------------------------------------------------ settled blocks


def require_settled(
    state: ScheduleState, function: str, child: BlockRealize, buffers: set[Buffer] | None = None
) -> None:
    """Raise unless a block is settled with respect to `buffers` (default: all it reads); see the module's docstring."""
    _require_settled(state, function, child, scope_at(state, state.block_rv(child, function)), set(), buffers)


def _require_settled(
    state: ScheduleState,
    function: str,
    child: BlockRealize,
    scope: BlockScope,
    seen: set[int],
    buffers: set[Buffer] | None,
) -> None:
    if id(child) in seen:
        return
    seen.add(id(child))
    name, here = child.block.name_hint, scope.position(child)
    loops = state.loops(state.block_rv(child, function))
    for region in accesses(child.block).reads:
        buffer = region.buffer
        if buffers is not None and buffer not in buffers:
            continue
        if buffer in scope.loose:
            raise ScheduleError(
                ORDER, f"a statement outside of blocks uses buffer {buffer.name}, which block {name} reads", child
            )
        for writer in scope.writers.get(buffer, ()):
            around = state.loops(state.block_rv(writer, function))
            if writer is child or not shared_loops(loops, around):
                continue
            if scope.position(writer) > here:
                raise ScheduleError(
                    ORDER,
                    f"block {name} reads elements of buffer {buffer.name} that block {writer.block.name_hint}, behind "
                    "it in the same loops, overwrites",
                    child,
                    writer,
                )
            require_cover(state, function, writer, child, buffer)
            _require_settled(state, function, writer, scope, seen, None)


def require_cover(
    state: ScheduleState, function: str, writer: BlockRealize, reader: BlockRealize, buffer: Buffer
) -> None:
    """Raise unless a complete or reduction block covers everything that a later block reads from a buffer.

    A writer without common loops is finished before the reader starts.
    """
    first, second = (state.block_rv(item, function) for item in (writer, reader))
    if not shared_loops(state.loops(first), state.loops(second)):
        return
    require_complete_or_reduction(writer, state.scope(first).block)
    if not covers(state, function, writer, reader, buffer):
        raise ScheduleError(
            COVER,
            f"block {reader.block.name_hint} may read elements of buffer {buffer.name} that block "
            f"{writer.block.name_hint} has not written before in the same iterations of the loops around both",
            writer,
            reader,
        )


def require_readers_behind(state: ScheduleState, block: BlockRV) -> list[BlockRealize]:
    """Return the blocks that read what `block` writes. Raises if one precedes it, or reads more than it writes."""
    realize, scope = state.realize(block), scope_at(state, block)
    here = scope.position(realize)
    readers: dict[BlockRealize, None] = {}
    for region in accesses(realize.block).writes:
        for reader in scope.readers.get(region.buffer, ()):
            if reader is realize:
                continue
            if scope.position(reader) < here:
                raise ScheduleError(
                    ORDER,
                    f"block {reader.block.name_hint} reads buffer {region.buffer.name} before block {block.name} "
                    "writes it",
                    reader,
                    realize,
                )
            require_cover(state, block.function, realize, reader, region.buffer)
            readers[reader] = None
    return sorted(readers, key=scope.position)


def writers_before(state: ScheduleState, block: BlockRV) -> dict[str, bool]:
    """Return the writers of what a block reads, by name: True for those that precede it."""
    realize, scope = state.realize(block), scope_at(state, block)
    here = scope.position(realize)
    result: dict[str, bool] = {}
    for region in accesses(realize.block).reads:
        for writer in scope.writers.get(region.buffer, ()):
            if writer is not realize:
                result[writer.block.name_hint] = scope.position(writer) < here
    return result


def require_order_kept(state: ScheduleState, block: BlockRV, before: dict[str, bool]) -> None:
    """Raise if a block has moved past a writer of what it reads; `before` is from `writers_before`."""
    for name, first in writers_before(state, block).items():
        if before.get(name, first) is not first:
            other = state.realize(BlockRV(block.function, name))
            raise ScheduleError(
                ORDER,
                f"block {block.name} would move past block {name}, which writes what it reads",
                state.realize(block),
                other,
            )


def require_still_parallel(state: ScheduleState, rv: BlockRV | LoopRV) -> None:
    """Raise if a non-serial loop around a block or loop is no longer parallel."""
    for loop in state.loops(rv):
        if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            require_parallel(state, LoopRV(rv.function, loop.loop_var))
