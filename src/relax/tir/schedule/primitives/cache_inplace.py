"""cache_inplace: let a block update a copy of a buffer, which is copied back afterwards.

    for i in range(64):                    for ax0 in range(64):
        with T.block("B"):                     with T.block("A_local"):
            vi = T.axis.spatial(64, i)             v0 = T.axis.spatial(64, ax0)
            A[vi] = A[vi] + 1.0                    A_local[v0] = A[v0]
                                           for i in range(64):
                                               with T.block("B"):
                                                   vi = T.axis.spatial(64, i)
                                                   A_local[vi] = A_local[vi] + 1.0
                                           for ax0 in range(64):
                                               with T.block("A_local_1"):
                                                   v0 = T.axis.spatial(64, ax0)
    after cache_inplace(B, 0, "local")             A[v0] = A_local[v0]

All elements that the block reads or writes are copied both ways, so elements it does not write keep their values.

Rejected: a buffer that the block does not both read and write, whose pointer is passed on, or that has views; copies
inside a parallel loop whose iterations would then depend on each other.
"""

from __future__ import annotations

from ...buffer import Buffer
from ...dependence import scope_of
from ..base import ScheduleBase, primitive
from ..buffers import buffer_argument, require_accesses_only, require_scope_name, stored_outside_blocks
from ..coverage import require_copied_after_init
from ..error import BUFFER, ORDER, ScheduleError
from ..regions import read_regions, written_regions
from ..rv import BlockRV
from ..sites import copy_nest, index_dtypes, paths, portion_of, site_behind
from .cache_read_write import cached_in, put_beside, require_apart, using


@primitive
def cache_inplace(
    sch: ScheduleBase, block: BlockRV, read_buffer_index: int | str | Buffer, storage_scope: str
) -> list[BlockRV]:
    """Let a block read and write a copy of a buffer; returns the blocks that copy in and copy back.

    Parameters
    ----------
    read_buffer_index : the buffer, which the block also writes: an index into its reads, a name, or a Buffer.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    state, realize = sch.state, sch.state.realize(block)
    buffer = buffer_argument(sch, realize, read_buffer_index, "read", "read_buffer_index")
    storage_scope = require_scope_name(storage_scope)
    require_accesses_only(state, block.function, buffer)
    regions = [*read_regions(realize, buffer), *written_regions(realize, buffer)]
    if not written_regions(realize, buffer):
        raise ScheduleError(
            BUFFER,
            f"block {block.name} does not write buffer {buffer.name}",
            realize,
            hint="cache_read is for buffers that are only read",
        )
    scope = BlockRV(block.function, state.scope(block).block.name_hint)
    facts = scope_of(state.block(scope))
    if buffer in facts.loose and stored_outside_blocks(facts.block.body, buffer):
        raise ScheduleError(ORDER, f"a statement outside of blocks writes buffer {buffer.name}")
    ways = paths(facts.block.body)
    users = {*facts.readers.get(buffer, ()), *facts.writers.get(buffer, ())} - {realize}
    site = site_behind(state, scope, ways[realize], [ways[user] for user in users])
    require_copied_after_init(site, realize)
    boxes = [site.box(region, realize, ways[realize]) for region in regions]
    portion = portion_of(site, buffer, boxes, index_dtypes(buffer, regions))
    require_apart(state, scope, buffer, [site.anchor])
    new = cached_in(buffer, storage_scope)
    name = state.fresh_name(block.function, new.name)
    before = copy_nest(name, buffer, new, portion)
    behind = copy_nest(state.fresh_name(block.function, new.name, {name}), new, buffer, portion)
    changes = {state.realize(block): using({buffer: new})}
    return put_beside(state, site, [before], [behind], [new], changes)
