"""cache_read, cache_write: let a block access a copy of a buffer in another storage scope.

    for i in range(128):                      for ax0 in range(128):
        with T.block("B"):                        with T.block("A_local"):
            vi = T.axis.spatial(128, i)               v0 = T.axis.spatial(128, ax0)
            B[vi] = A[vi] * 2.0                       A_local[v0] = A[v0]
                                              for i in range(128):
                                                  with T.block("B"):
    after cache_read(B, 0, "local")                   vi = T.axis.spatial(128, i)
                                                      B[vi] = A_local[vi] * 2.0

After ``cache_write(B, 0, "local")`` the block writes B_local, and a following block B_local copies it to B. The new
buffer has the shape of the old one and is allocated in the scope; only the accessed part is copied.

A read copy is placed directly after the only writer of the buffer, if the scope allocates the buffer; else before its
first reader, inside the loops that its readers share with its writers. A write copy is placed directly after the block,
inside the loops that it shares with the readers.

Rejected: buffers whose pointer is passed on, or that have views; writes of the buffer between the reads; a writing
block that is neither complete nor a reduction; parameters of which the block may write only some of the copied
elements. If accesses of a parameter move across accesses of other parameters, the function gets the attribute
``tir.noalias``: calls with overlapping arguments are then rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...buffer import Buffer, decl_buffer
from ...dependence import BlockScope, accesses, scope_of
from ...functor import substitute
from ...regions import complete_block
from ...statements import seq_of
from ...stmt import Block, BlockRealize, Stmt
from ..base import ScheduleBase, primitive
from ..buffers import (
    buffer_argument,
    demand_apart,
    is_allocated_in,
    require_accesses_only,
    require_scope_name,
    stored_outside_blocks,
)
from ..conditions import require_complete_or_reduction
from ..coverage import require_copied_after_init, writes_all_of
from ..error import ARGUMENT, BUFFER, COVER, ORDER, ScheduleError
from ..regions import read_regions, written_regions
from ..rv import BlockRV
from ..sites import Site, copy_nest, edited, index_dtypes, paths, portion_of, site_before, site_behind
from ..state import Placed, ScheduleState


@primitive
def cache_read(
    sch: ScheduleBase,
    block: BlockRV,
    read_buffer_index: int | str | Buffer,
    storage_scope: str,
    consumer_blocks: Sequence[BlockRV | str] | None = None,
) -> BlockRV:
    """Let the readers of a buffer read a copy in another storage scope; returns the copying block.

    Parameters
    ----------
    read_buffer_index : the buffer that `block` reads: an index into its reads, a name, or a Buffer.
    consumer_blocks : the blocks in the scope that read the copy; by default all that read the buffer and do not write
        it.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    state, realize = sch.state, sch.state.realize(block)
    buffer = buffer_argument(sch, realize, read_buffer_index, "read", "read_buffer_index")
    storage_scope = require_scope_name(storage_scope)
    scope = BlockRV(block.function, state.scope(block).block.name_hint)
    facts = scope_of(state.block(scope))
    readers = [child for child in facts.children if read_regions(child, buffer)]
    pure = [reader for reader in readers if reader is realize or not written_regions(reader, buffer)]
    consumers = _consumers(sch, block, consumer_blocks, readers, buffer) or pure
    require_accesses_only(state, block.function, buffer)
    _require_read_only(facts, consumers, buffer)
    new = cached_in(buffer, storage_scope)
    site, boxes, dtypes = _site_of_read(state, scope, facts, consumers, buffer)
    copy = copy_nest(state.fresh_name(block.function, new.name), buffer, new, portion_of(site, buffer, boxes, dtypes))
    return put_copy(state, site, copy, new, {c: using({buffer: new}) for c in consumers})


@primitive
def cache_write(
    sch: ScheduleBase,
    block: BlockRV,
    write_buffer_index: int | str | Buffer,
    storage_scope: str,
    consumer_blocks: Sequence[BlockRV | str] | None = None,
) -> BlockRV:
    """Let a block write a buffer in another storage scope, which is then copied back; returns the copying block.

    Parameters
    ----------
    write_buffer_index : the buffer that `block` writes: an index into its writes, a name, or a Buffer.
    consumer_blocks : the blocks in the scope that read the new buffer; by default all readers read the old one.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    state, realize = sch.state, sch.state.realize(block)
    buffer = buffer_argument(sch, realize, write_buffer_index, "write", "write_buffer_index")
    storage_scope = require_scope_name(storage_scope)
    scope = BlockRV(block.function, state.scope(block).block.name_hint)
    facts = scope_of(state.block(scope))
    require_accesses_only(state, block.function, buffer)
    require_complete_or_reduction(realize, facts.block)
    readers = [c for c in facts.readers.get(buffer, ()) if c is not realize]
    consumers = _consumers(sch, block, consumer_blocks, readers, buffer)
    own = is_allocated_in(facts.block, buffer)
    if consumers and not own:
        raise ScheduleError(
            BUFFER,
            f"buffer {buffer.name} is not allocated in the scope: what the block does not write has values already, "
            "which the consumers would not see",
            realize,
            hint="leave consumer_blocks out: they read the old buffer then",
        )
    new = cached_in(buffer, storage_scope)
    ways = paths(facts.block.body)
    site = site_behind(state, scope, ways[realize], [ways[reader] for reader in readers])
    require_copied_after_init(site, realize)
    regions = written_regions(realize, buffer)
    boxes = [site.box(region, realize, ways[realize]) for region in regions]
    portion = portion_of(site, buffer, boxes, index_dtypes(buffer, regions))
    if not own and not all(writes_all_of(site, realize, ways[realize], r, portion) for r in regions):
        raise ScheduleError(
            COVER,
            f"block {block.name} is not known to write all elements of {buffer.name} that would be copied",
            realize,
            hint="let the block write a box of the buffer without gaps",
        )
    require_apart(state, scope, buffer, [site.anchor])
    copy = copy_nest(state.fresh_name(block.function, new.name), new, buffer, portion)
    changes = {item: using({buffer: new}) for item in (state.realize(block), *consumers)}
    return put_copy(state, site, copy, new, changes)


# ------------------------------------------------------------------------------------------ what is cached


def cached_in(buffer: Buffer, storage_scope: str, suffix: str = "") -> Buffer:
    """Return a new buffer of the same shape in a storage scope, with a derived name."""
    name = f"{buffer.name}_{suffix or storage_scope.replace('.', '_')}"
    return decl_buffer(buffer.shape, str(buffer.dtype), name, scope=storage_scope)


def _consumers(
    sch: ScheduleBase,
    block: BlockRV,
    named: Sequence[BlockRV | str] | None,
    readers: Sequence[BlockRealize],
    buffer: Buffer,
) -> list[BlockRealize]:
    """Return the named blocks, which must be among the readers of the buffer in the scope."""
    result: list[BlockRealize] = []
    for item in named or ():
        name = item if isinstance(item, str) else item.name
        matched = [reader for reader in readers if reader.block.name_hint == name]
        if not matched:
            there = ", ".join(reader.block.name_hint for reader in readers) or "no block"
            raise ScheduleError(
                ARGUMENT,
                f"block {name} does not read buffer {buffer.name} in the scope of block {block.name}",
                hint=f"{there} reads it there",
            )
        result += matched
    return [reader for reader in readers if reader in result]


def _require_read_only(facts: BlockScope, consumers: Sequence[BlockRealize], buffer: Buffer) -> None:
    """Raise if a consumer, or a statement outside of blocks, writes the buffer."""
    for child in consumers:
        if written_regions(child, buffer):
            name = child.block.name_hint
            raise ScheduleError(
                ORDER, f"block {name} reads and writes buffer {buffer.name}: it would not see what it writes", child
            )
    if buffer in facts.loose and stored_outside_blocks(facts.block.body, buffer):
        raise ScheduleError(ORDER, f"a statement outside of blocks writes buffer {buffer.name}")


# ------------------------------------------------------------------------------------------ where it is copied


def _site_of_read(
    state: ScheduleState, scope: BlockRV, facts: BlockScope, consumers: Sequence[BlockRealize], buffer: Buffer
) -> tuple[Site, list[Any], list[str]]:
    """Return the site of a copy that is read, the boxes to copy, and the dtypes of indices."""
    ways = paths(facts.block.body)
    writers = facts.writers.get(buffer, [])
    if len(writers) == 1 and is_allocated_in(facts.block, buffer):
        site = site_behind(state, scope, ways[writers[0]], [ways[child] for child in consumers])
        require_copied_after_init(site, writers[0])
        regions = written_regions(writers[0], buffer)
        boxes = [site.box(region, writers[0], ways[writers[0]]) for region in regions]
        return site, boxes, index_dtypes(buffer, regions)
    site, span = site_before(state, scope, [ways[c] for c in consumers], [ways[w] for w in writers])
    for stmt in span:
        for child in blocks_in(stmt):
            if child in writers:
                raise ScheduleError(
                    ORDER,
                    f"block {child.block.name_hint} writes buffer {buffer.name} between the copy and a block that "
                    "would read it",
                    child,
                    hint="name fewer consumer_blocks",
                )
    require_apart(state, scope, buffer, span)
    uses = [(child, region) for child in consumers for region in read_regions(child, buffer)]
    boxes = [site.box(region, child, ways[child]) for child, region in uses]
    return site, boxes, index_dtypes(buffer, [region for _, region in uses])


def blocks_in(stmt: Stmt) -> list[BlockRealize]:
    """Return the blocks of a scope in one of its statements, including the statement itself."""
    return [stmt] if isinstance(stmt, BlockRealize) else list(paths(stmt))


def require_apart(state: ScheduleState, scope: BlockRV, buffer: Buffer, span: Sequence[Stmt]) -> None:
    """Set ``tir.noalias`` if a parameter must not overlap buffers accessed while its copy is in use.

    For a read copy, these are the buffers that the statements in `span` write; for a written copy, all they access.
    """
    children = [child for stmt in span for child in blocks_in(stmt)]
    is_written = any(written_regions(child, buffer) for child in children)
    accessed = set(scope_of(state.block(scope)).loose)
    for child in children:
        used = accesses(child.block)
        accessed |= used.written_buffers
        if is_written or used.opaque:
            accessed |= used.read_buffers
    demand_apart(state, scope.function, buffer, accessed)


# ------------------------------------------------------------------------------------------ changing the program


def put_copy(
    state: ScheduleState, site: Site, copy: Placed, new: Buffer, changes: Mapping[BlockRealize, Callable[[Stmt], Stmt]]
) -> BlockRV:
    """Insert a copy nest beside an anchor, allocate a buffer in the scope, and rewrite blocks.

    Returns the copying block.
    """
    before, behind = ([], [copy]) if site.behind else ([copy], [])
    (copy_block,) = put_beside(state, site, before, behind, [new], changes)
    return copy_block


def put_beside(
    state: ScheduleState,
    site: Site,
    before: Sequence[Placed],
    behind: Sequence[Placed],
    new: Sequence[Buffer],
    changes: Mapping[BlockRealize, Callable[[Stmt], Stmt]],
) -> list[BlockRV]:
    """Insert nests before and after an anchor, allocate buffers in the scope, and rewrite blocks.

    Returns the blocks of the nests.
    """
    edits: dict[Stmt, Callable[[Stmt], Stmt]] = {**changes}
    inner = edits.get(site.anchor)

    def beside(stmt: Stmt) -> Stmt:
        return seq_of((*before, stmt if inner is None else inner(stmt), *behind))

    edits[site.anchor] = beside
    scope = state.realize(site.scope)
    block = scope.block.replace(body=edited(scope.block.body, edits), alloc_buffers=(*scope.block.alloc_buffers, *new))
    state.replace(scope, scope.replace(block=block), site.scope.function)
    refresh_accesses(state, site.scope)
    site.require_parallel_around()
    added = [child for nest in (*before, *behind) for child in blocks_in(nest)]
    return [BlockRV(site.scope.function, child.block.name_hint) for child in added]


def using(buffers: dict[Buffer, Buffer]) -> Callable[[Stmt], Stmt]:
    """Return a rewrite of blocks that replaces buffers."""

    def change(stmt: Stmt) -> Stmt:
        assert isinstance(stmt, BlockRealize)
        block: Block = substitute(stmt.block, buffers)
        return stmt.replace(block=block)

    return change


def refresh_accesses(state: ScheduleState, scope: BlockRV) -> None:
    """Recompute the declared accesses of the blocks around a change; a root block declares none."""
    around: list[BlockRealize] = [state.realize(scope)]
    around += [stmt for stmt in state.ancestors(scope) if isinstance(stmt, BlockRealize)]
    for realize in around[:-1]:
        name = realize.block.name_hint
        current = state.realize(BlockRV(scope.function, name))
        if not accesses(current.block).opaque:
            state.replace(current, current.replace(block=complete_block(current.block)), scope.function)
