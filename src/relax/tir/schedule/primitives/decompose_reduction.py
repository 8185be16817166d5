"""decompose_reduction: move the init of a reduction block into a separate block before a loop.

    for i, k in T.grid(n, m):                 for i_init in range(n):
        with T.block("B"):                        with T.block("B_init"):
            vi, vk = T.axis.remap("SR", [i, k])       vi = T.axis.spatial(n, i_init)
            with T.init():                            B[vi] = 0.0
                B[vi] = 0.0                       for i, k in T.grid(n, m):
            B[vi] = B[vi] + A[vi, vk]                 with T.block("B_update"):
                                                          vi, vk = T.axis.remap("SR", [i, k])
                                                          B[vi] = B[vi] + A[vi, vk]

The data-parallel loops, from `loop` inwards, are copied around the new block, which keeps the parts of the predicate
that do not depend on the reduction. The original random variable then denotes the update block.

Rejected: a loop that does not enclose the block in its scope; a block that is no reduction block; a reduction loop
outside of `loop`; loops that reach the start of the reduction in later iterations, or twice; copied loops whose bounds
depend on the reduction; blocks inside the loop that read the result before its init has run, or write what the init
reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....prim import Var, free_vars
from ...buffer import Buffer
from ...dependence import accesses, scope_of
from ...functor import substitute
from ...regions import complete_block
from ...statements import seq_of
from ...stmt import Block, BlockRealize, For, SeqStmt, Stmt
from ...usage import undefined_buffers
from ..base import ScheduleBase, primitive
from ..conditions import analyzer_at, blocks_below, loop_range, require_reduction
from ..error import ORDER, STRUCTURE, ScheduleError
from ..reductions import BoundLoops, bound_loops, fresh_copy, path_between, require_single_start, start_predicate
from ..regions import in_own_slab, relaxed_box, written_regions
from ..rv import BlockRV, LoopRV
from ..state import ScheduleState


@primitive
def decompose_reduction(sch: ScheduleBase, block: BlockRV, loop: LoopRV) -> BlockRV:
    """Move the init of a reduction block into a new block before `loop`, which is returned.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    state = sch.state
    realize, node = state.realize(block), state.loop(loop)
    inside = _loops_from(state, block, loop)
    require_reduction(state, block)
    kinds = bound_loops(realize, inside)
    analyzer = analyzer_at(state, loop)
    for item in inside:
        if item.loop_var not in kinds.only_reduce:
            analyzer.bind(item.loop_var, loop_range(item))
    require_single_start(realize, inside, analyzer)
    predicate = start_predicate(realize, inside, analyzer)
    _require_path(node, realize, inside, kinds)
    _require_untouched(state, block, loop, inside)

    init_name = state.fresh_name(block.function, f"{realize.block.name_hint}_init")
    update_name = state.fresh_name(block.function, f"{realize.block.name_hint}_update")
    nest: Stmt = _init_block(realize, init_name).replace(predicate=predicate)
    for item in reversed(inside):
        if item.loop_var in kinds.spatial:
            nest = item.replace(body=nest)
    nest = _with_init_names(nest, inside)
    nest = fresh_copy(nest, state, block.function)

    update = complete_block(realize.block.replace(init=None, name_hint=update_name))
    state.replace(realize, realize.replace(block=update), block.function)
    state.rename(block.function, realize.block.name_hint, update_name)
    node = state.loop(loop)
    state.replace(node, seq_of([nest, node]), block.function)
    return BlockRV(block.function, init_name)


def _loops_from(state: ScheduleState, block: BlockRV, loop: LoopRV) -> list[For]:
    """Return the loops around a block from `loop` inwards.

    Raises ScheduleError if `loop` is not around the block, or if a loop outside of `loop` reduces.
    """
    realize, loops = state.realize(block), state.loops(block)
    position = next((i for i, item in enumerate(loops) if item.loop_var is loop.var), None)
    name = realize.block.name_hint
    if position is None:
        raise ScheduleError(
            STRUCTURE,
            f"loop {loop.var.name} is not around block {name} in its scope",
            state.loop(loop),
            realize,
            hint=f"the loops around it are {', '.join(item.loop_var.name for item in loops) or 'none'}",
        )
    for item in loops[:position]:
        if item.loop_var in bound_loops(realize, loops).reduce:
            raise ScheduleError(
                STRUCTURE,
                f"loop {item.loop_var.name}, outside of {loop.var.name}, is bound to a reduction variable of block "
                f"{name}",
                item,
                realize,
                hint=f"give loop {item.loop_var.name}, or one outside of it",
            )
    return loops[position:]


def _require_path(node: For, realize: BlockRealize, inside: Sequence[For], kinds: BoundLoops) -> None:
    """Raise unless only loops and sequences are between the loop and the block, and the loops can be copied."""
    for stmt in path_between(node, realize):
        if not isinstance(stmt, (For, SeqStmt, BlockRealize)):
            raise ScheduleError(
                STRUCTURE,
                f"between loop {node.loop_var.name} and block {realize.block.name_hint} is more than loops",
                stmt,
                hint="choose a loop further inside",
            )
    dropped = {item.loop_var for item in inside if item.loop_var not in kinds.spatial}
    for item in inside:
        bounds = {*free_vars(item.min), *free_vars(item.extent)}
        if item.loop_var in kinds.spatial and dropped & bounds:
            raise ScheduleError(
                STRUCTURE,
                f"the bounds of loop {item.loop_var.name} depend on a loop of the reduction",
                item,
                hint="reorder the loops, so that those of the reduction are inside",
            )


def _require_untouched(state: ScheduleState, block: BlockRV, loop: LoopRV, inside: Sequence[For]) -> None:
    """Raise if a block inside the loop would see the init run earlier, or writes what the init reads."""
    realize = state.realize(block)
    result = accesses(realize.block).written_buffers
    assert realize.block.init is not None
    inputs = set(undefined_buffers(realize.block.init)) - _written_by(realize.block.init)
    for buffer in scope_of(state.scope(block).block).loose & inputs:
        raise ScheduleError(
            ORDER,
            f"the init of block {realize.block.name_hint} reads buffer {buffer.name}, which a statement outside of "
            "blocks uses",
            realize,
        )
    children = blocks_below(state.loop(loop))
    for child in children:
        for buffer in accesses(child.block).written_buffers & inputs:
            raise ScheduleError(
                ORDER,
                f"the init of block {realize.block.name_hint} reads buffer {buffer.name}, which block "
                f"{child.block.name_hint} writes inside of loop {loop.var.name}",
                child,
            )
        if child is not realize:
            for buffer in accesses(child.block).read_buffers & result:
                _require_read_behind(state, block, child, buffer, inside)


def _written_by(init: Stmt) -> set[Buffer]:
    """Return the buffers that an init writes and does not read."""
    facts = accesses(Block((), (), (), "init", init))
    return facts.written_buffers - facts.read_buffers


def _require_read_behind(
    state: ScheduleState, block: BlockRV, reader: BlockRealize, buffer: Buffer, inside: Sequence[For]
) -> None:
    """Raise unless a block reads only elements whose init has already run."""
    realize = state.realize(block)
    reader_rv = state.block_rv(reader, block.function)
    reader_loops = state.loops(reader_rv)
    reducing = bound_loops(realize, inside).only_reduce
    siblings = blocks_below(inside[0])
    behind = _index_of(siblings, reader) > _index_of(siblings, realize)
    analyzer = analyzer_at(state, reader_rv)
    for i, common in enumerate(inside):
        below = next((j for j, item in enumerate(reader_loops) if item is common), None)
        if below is None:
            break
        if common.loop_var in reducing:
            continue
        (written,) = written_regions(realize, buffer)
        writes = relaxed_box(written, realize, inside[i + 1 :])
        for region in (r for r in accesses(reader.block).reads if r.buffer is buffer):
            reads = relaxed_box(region, reader, reader_loops[below + 1 :])
            behind = behind and in_own_slab(writes, reads, common.loop_var, analyzer)
    if not behind:
        raise ScheduleError(
            ORDER,
            f"block {reader.block.name_hint} may read elements of {buffer.name} before the init of block "
            f"{realize.block.name_hint} has run, and would then see it",
            reader,
            realize,
            hint=f"give a loop inside of {inside[0].loop_var.name}",
        )


def _index_of(children: Sequence[BlockRealize], child: BlockRealize) -> int:
    return next(i for i, item in enumerate(children) if item is child)


def _init_block(realize: BlockRealize, name: str) -> BlockRealize:
    """Return the block for the init of a reduction block, with its data-parallel bindings."""
    block = realize.block
    assert block.init is not None
    pairs = [
        (v, value) for v, value in zip(block.iter_vars, realize.iter_values, strict=True) if v.iter_type != "reduce"
    ]
    used = set(undefined_buffers(block.init))
    init_block = Block(
        tuple(v for v, _ in pairs),
        (),
        (),
        name,
        block.init,
        annotations=block.annotations,
        alloc_buffers=tuple(buffer for buffer in block.alloc_buffers if buffer in used),
        match_buffers=tuple(match for match in block.match_buffers if match.buffer in used),
    )
    return realize.replace(iter_values=tuple(value for _, value in pairs), block=complete_block(init_block))


def _with_init_names(nest: Stmt, loops: Sequence[For]) -> Stmt:
    """Rename the variables of copied loops after the originals."""
    renamed = {loop.loop_var: Var(f"{loop.loop_var.name}_init", loop.loop_var.dtype) for loop in loops}

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            body = change(stmt.body)
            return stmt.replace(loop_var=renamed[stmt.loop_var], body=body)
        return stmt

    return substitute(change(nest), renamed)
