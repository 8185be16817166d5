"""read_at, write_at: copy the elements that an iteration of a loop reads or writes, at its start or end.

    for i in range(8):                             for i in range(8):
        for j in range(16):                            with T.block("A_shared"):
            with T.block("B"):                             v0 = T.axis.spatial(8, i)
                vi = T.axis.spatial(128, i * 16 + j)       T.block_attr({"auto_copy": True})
                B[vi] = A[vi] * 2.0                        for ax0 in range(16):
                                                               A_shared[v0 * 16 + ax0] = A[v0 * 16 + ax0]
                                                       for j in range(16):
                                                           with T.block("B"):
                                                               vi = T.axis.spatial(128, i * 16 + j)
    after read_at(i, B, 0, "shared")                           B[vi] = A_shared[vi] * 2.0

After `read_at`, all blocks in the loop that read the buffer read the copy. The copy is one block, with loops inside.

Rejected: the cases that `cache_read` and `cache_write` reject; a block that is not below the loop; a buffer that is
written in the loop (read_at), or also read there by another block (write_at).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ....prim import PrimExpr, Var, const, free_vars, is_const, substitute
from ...buffer import Buffer, BufferLoad, BufferRegion, IterVar, Range
from ...dependence import scope_of
from ...statements import conjunction
from ...stmt import Block, BlockRealize, BufferStore, For, ForKind, IfThenElse, Stmt
from ..base import ScheduleBase, primitive
from ..buffers import buffer_argument, is_allocated_in, require_accesses_only, require_scope_name
from ..conditions import loop_range, require_complete_or_reduction
from ..coverage import require_copied_after_init, writes_all_of
from ..error import ARGUMENT, COVER, ORDER, ScheduleError
from ..regions import read_regions, written_regions
from ..rv import BlockRV, LoopRV
from ..sites import Path, Portion, Site, index_dtypes, paths, portion_of
from ..state import ScheduleState
from .cache_read_write import blocks_in, cached_in, put_beside, require_apart, using

AUTO_COPY: Final = "auto_copy"


@primitive
def read_at(
    sch: ScheduleBase, loop: LoopRV, block: BlockRV, read_buffer_index: int | str | Buffer, storage_scope: str
) -> BlockRV:
    """Copy the elements of a buffer that an iteration of a loop reads, at its start; returns the copying block.

    Parameters
    ----------
    read_buffer_index : an index into the reads of `block`, a name, or a Buffer.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    state, realize = sch.state, sch.state.realize(block)
    buffer = buffer_argument(sch, realize, read_buffer_index, "read", "read_buffer_index")
    storage_scope = require_scope_name(storage_scope)
    require_accesses_only(state, block.function, buffer)
    site = _site(state, loop, block)
    ways = paths(scope_of(state.block(site.scope)).block.body)
    below = blocks_in(site.anchor)
    for child in below:
        if written_regions(child, buffer):
            raise ScheduleError(
                ORDER, f"block {child.block.name_hint} writes buffer {buffer.name} in loop {loop.var.name}", child
            )
    readers = [child for child in below if read_regions(child, buffer)]
    regions = [(child, region) for child in readers for region in read_regions(child, buffer)]
    boxes = [site.box(region, child, ways[child]) for child, region in regions]
    portion = portion_of(site, buffer, boxes, index_dtypes(buffer, [region for _, region in regions]))
    require_apart(state, site.scope, buffer, [site.anchor])
    new = cached_in(buffer, storage_scope)
    name = state.fresh_name(block.function, new.name)
    copy = _copy(name, buffer, new, portion, site)
    changes = {child: using({buffer: new}) for child in readers}
    return put_beside(state, site, [copy], [], [new], changes)[0]


@primitive
def write_at(
    sch: ScheduleBase, loop: LoopRV, block: BlockRV, write_buffer_index: int | str | Buffer, storage_scope: str
) -> BlockRV:
    """Copy the elements of a buffer that an iteration of a loop writes, at its end; returns the copying block.

    Parameters
    ----------
    write_buffer_index : an index into the writes of `block`, a name, or a Buffer.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    state, realize = sch.state, sch.state.realize(block)
    buffer = buffer_argument(sch, realize, write_buffer_index, "write", "write_buffer_index")
    storage_scope = require_scope_name(storage_scope)
    require_accesses_only(state, block.function, buffer)
    site = _site(state, loop, block)
    scope = state.block(site.scope)
    require_complete_or_reduction(realize, scope)
    for child in blocks_in(site.anchor):
        if child is not realize and read_regions(child, buffer):
            raise ScheduleError(
                ORDER,
                f"block {child.block.name_hint} reads buffer {buffer.name} in loop {loop.var.name}, before it is "
                "copied back",
                child,
            )
    require_copied_after_init(site, realize)
    way = paths(scope.body)[realize]
    regions = written_regions(realize, buffer)
    boxes = [site.box(region, realize, way) for region in regions]
    portion = portion_of(site, buffer, boxes, index_dtypes(buffer, regions))
    if not is_allocated_in(scope, buffer) and not all(
        writes_all_of(site, realize, way, region, portion) for region in regions
    ):
        raise ScheduleError(
            COVER,
            f"block {block.name} is not known to write all elements of {buffer.name} that would be copied",
            realize,
        )
    require_apart(state, site.scope, buffer, [site.anchor])
    new = cached_in(buffer, storage_scope)
    copy = _copy(state.fresh_name(block.function, new.name), new, buffer, portion, site)
    changes = {state.realize(block): using({buffer: new})}
    return put_beside(state, site, [], [copy], [new], changes)[0]


def _site(state: ScheduleState, loop: LoopRV, block: BlockRV) -> Site:
    """Return the site beside the body of a loop, which must be around a block."""
    scope = BlockRV(block.function, state.scope(block).block.name_hint)
    way: Path = paths(state.block(scope).body)[state.realize(block)]
    node = state.loop(loop)
    for position, stmt in enumerate(way):
        if stmt is node:
            return Site(state, scope, way, position + 1)
    raise ScheduleError(ARGUMENT, f"block {block.name} is not below loop {loop.var.name}, in one scope with it", node)


def _copy(name: str, source: Buffer, target: Buffer, portion: Portion, site: Site) -> BlockRealize:
    """Return a block that copies a part of a buffer in inner loops; its variables are the outer loops it depends on."""
    used = {var for extent in portion.ranges for end in (extent.min, extent.extent) for var in free_vars(end)}
    loops = [loop for loop in site.around if loop.loop_var in used]
    iter_vars = [IterVar(loop_range(loop), Var(f"v{i}", loop.loop_var.dtype)) for i, loop in enumerate(loops)]
    table = {loop.loop_var: iter_var.var for loop, iter_var in zip(loops, iter_vars, strict=True)}
    ranges = [
        Range.from_min_extent(substitute(extent.min, table), substitute(extent.extent, table))
        for extent in portion.ranges
    ]
    variables = [Var(f"ax{d}", extent.extent.dtype) for d, extent in enumerate(ranges)]
    indices = [
        var if is_const(extent.min, 0) else extent.min + var for var, extent in zip(variables, ranges, strict=True)
    ]
    conditions = [limit(index) for index, limits in zip(indices, portion.conditions, strict=True) for limit in limits]
    body: Stmt = BufferStore(target, BufferLoad(source, indices), indices)
    if conditions:
        body = IfThenElse(conjunction(conditions), body)
    for var, extent in zip(reversed(variables), reversed(ranges), strict=True):
        body = For(var, const(0, var.dtype), extent.extent, ForKind.SERIAL, body)
    block = Block(
        tuple(iter_vars),
        (BufferRegion(source, tuple(ranges)),),
        (BufferRegion(target, tuple(ranges)),),
        name,
        body,
        annotations={AUTO_COPY: True},
    )
    return BlockRealize(_values(loops), conjunction(()), block)


def _values(loops: Sequence[For]) -> tuple[PrimExpr, ...]:
    return tuple(loop.loop_var for loop in loops)
