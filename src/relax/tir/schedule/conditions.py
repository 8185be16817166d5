"""Preconditions shared by primitives: functions that raise a ScheduleError with the violated condition.

* Affine bindings: the values of a block's variables are sums of parts of the loop variables that reach each point of
  the
  domain at most once (see `prim.iter_map`).
* Complete and reduction blocks: see `block_kinds`.
* Parallel loops: the iterations write distinct elements, and none reads an element that another one writes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ...prim import Var, free_vars
from ...prim.iter_map import IterMapLevel, detect_iter_map
from ...prim.traits import has_effects
from ..buffer import Buffer
from ..dependence import accesses, scope_of
from ..statements import parts_of
from ..stmt import Block, BlockRealize, BufferStore, Evaluate, For, Stmt, While
from .block_kinds import COMPLETE_HINT, REDUCTION_HINT, complete_problem, kind_hint, reduction_problem
from .cover import covers
from .error import KIND, ORDER, STRUCTURE, ScheduleError
from .facts import analyzer_at, loop_range
from .regions import in_own_slab, read_regions, relaxed_box, written_regions
from .rv import BlockRV, LoopRV
from .state import Placed, ScheduleState


def blocks_below(stmt: Placed) -> list[BlockRealize]:
    """Return the blocks in a loop, or in a block's body, within the same scope, in program order."""
    result: list[BlockRealize] = []
    stack = list(reversed(parts_of(stmt)))
    while stack:
        node = stack.pop()
        if isinstance(node, BlockRealize):
            result.append(node)
        else:
            stack.extend(reversed(parts_of(node)))
    return result


# ------------------------------------------------------------------------------------------ bindings


def binding_problem(realize: BlockRealize, loops: Iterable[For]) -> str | None:
    """Return why a block's variables are not bound affinely to the loops of its scope, or None if they are."""
    ranges = {loop.loop_var: loop_range(loop) for loop in loops}
    mapped = detect_iter_map(list(realize.iter_values), ranges, realize.predicate, IterMapLevel.Surjective, False)
    if mapped.indices or not realize.iter_values:
        return None
    return "; ".join(mapped.errors) or "the values of its variables are no affine map of the loops"


# ------------------------------------------------------------------------------------------ kinds of blocks


def is_complete(child: BlockRealize, scope: Block) -> bool:
    """True for a complete block of a scope."""
    return complete_problem(child, scope) is None


def is_reduction(child: BlockRealize, scope: Block) -> bool:
    """True for a reduction block of a scope."""
    return reduction_problem(child, scope) is None


def require_complete(state: ScheduleState, block: BlockRV) -> None:
    """Raise unless a block is complete."""
    realize = state.realize(block)
    problem = complete_problem(realize, state.scope(block).block)
    if problem is not None:
        raise ScheduleError(KIND, f"block {block.name} is not complete: {problem}", realize, hint=COMPLETE_HINT)


def require_reduction(state: ScheduleState, block: BlockRV) -> None:
    """Raise unless a block is a reduction block."""
    realize = state.realize(block)
    problem = reduction_problem(realize, state.scope(block).block)
    if problem is not None:
        raise ScheduleError(
            KIND, f"block {block.name} is not a reduction block: {problem}", realize, hint=REDUCTION_HINT
        )


def require_complete_or_reduction(child: BlockRealize, scope: Block) -> None:
    """Raise unless a child of a scope is a complete or a reduction block."""
    first = complete_problem(child, scope)
    second = None if first is None else reduction_problem(child, scope)
    if first is not None and second is not None:
        reason = first if child.block.init is None else second
        raise ScheduleError(
            KIND,
            f"block {child.block.name_hint} is neither complete nor a reduction block: {reason}",
            child,
            hint=kind_hint(child),
        )


def bound_loops(child: BlockRealize, kind: str) -> set[Var]:
    """Return the variables in the values of a block's axes of this kind."""
    pairs = zip(child.block.iter_vars, child.iter_values, strict=True)
    return {var for iter_var, value in pairs if iter_var.iter_type == kind for var in free_vars(value)}


def require_started(state: ScheduleState, child: BlockRealize, function: str, consequence: str) -> None:
    """Raise if a reduction may be empty, so that a primitive would leave its results uninitialised."""
    reduced = bound_loops(child, "reduce")
    for node in state.loops(state.block_rv(child, function)):
        if node.loop_var not in reduced:
            continue
        if not analyzer_at(state, LoopRV(function, node.loop_var)).can_prove(node.extent >= 1):
            raise ScheduleError(
                STRUCTURE,
                f"loop {node.loop_var.name}, over which block {child.block.name_hint} sums up, may have no iteration, "
                f"in which case {consequence} would not start the sums",
                node,
                child,
                hint="decompose the reduction first",
            )


# ------------------------------------------------------------------------------------------ parallel iterations


def require_only_blocks(stmt: Placed) -> None:
    """Raise if a statement outside of blocks in a loop stores, has effects, or is a while loop."""
    stack: list[Stmt] = [*parts_of(stmt)]
    while stack:
        part = stack.pop()
        effect = isinstance(part, Evaluate) and has_effects(part.value)
        if isinstance(part, (BufferStore, While)) or effect:
            raise ScheduleError(
                KIND,
                "a statement stands outside of blocks, so that nothing is declared of the order it needs",
                part,
                stmt,
                hint="put the statement into a block, with variables bound to the loops",
            )
        if not isinstance(part, BlockRealize):
            stack.extend(parts_of(part))


def require_parallel(state: ScheduleState, loop: LoopRV) -> None:
    """Raise unless the iterations of a loop may run in any order and concurrently.

    Every block below is a complete or a reduction block, or would be one if no other block wrote its buffers; the loop
    is bound to data-parallel variables only; a block that accesses elements written by another block below the loop
    does so in the iteration that wrote them: either the loop's variable partitions the buffer into slabs, or each
    iteration first writes what it reads from a buffer private to the iteration. Bindings need not be affine: a complete
    block that runs twice for the same values writes the same values, and a reduction block needs slabs.
    """
    node = state.loop(loop)
    scope = state.scope(loop).block
    require_only_blocks(node)
    for child in blocks_below(node):
        _require_order_free(child, scope)
        for iter_var, value in zip(child.block.iter_vars, child.iter_values, strict=True):
            if iter_var.iter_type != "spatial" and loop.var in set(free_vars(value)):
                raise ScheduleError(
                    ORDER,
                    f"loop {loop.var.name} is bound to {iter_var.var.name} of block {child.block.name_hint}, over "
                    "which it sums up: its iterations depend on each other",
                    node,
                    hint="rfactor the reduction, or choose a loop of a data-parallel variable",
                )
    _require_separate(state, loop, node, scope)


def _require_order_free(child: BlockRealize, scope: Block) -> None:
    """Raise unless instances of a block for different data-parallel values are independent."""
    if complete_problem(child, scope, alone=False) is None:
        return
    problem = reduction_problem(child, scope, alone=False, initialised=True)
    if problem is not None:
        raise ScheduleError(
            KIND,
            f"block {child.block.name_hint} is neither complete nor a reduction block: {problem}",
            child,
            hint=kind_hint(child),
        )


def _require_separate(state: ScheduleState, loop: LoopRV, node: For, scope: Block) -> None:
    """Raise if an iteration may access elements that a block below the loop writes in another iteration."""
    children = blocks_below(node)
    analyzer = analyzer_at(state, loop, inclusive=True)
    for child in children:
        for region in accesses(child.block).writes:
            buffer = region.buffer
            box = relaxed_box(region, child, _loops_inside(state, child, loop))
            for other in children:
                touched = [*read_regions(other, buffer), *written_regions(other, buffer)]
                if touched and _is_written_again(state, loop, child, other, buffer):
                    continue
                for item in touched:
                    seen = relaxed_box(item, other, _loops_inside(state, other, loop))
                    if not in_own_slab(box, seen, loop.var, analyzer, loop_range(node)):
                        raise _shared_between_iterations(loop, node, child, other, buffer)


def _is_written_again(
    state: ScheduleState, loop: LoopRV, writer: BlockRealize, other: BlockRealize, buffer: Buffer
) -> bool:
    """True if each iteration rewrites what it reads: in private storage, or with the same values as other iterations.

    A complete block writes the same values each time; a reduction block has different intermediate values.
    """
    complete = is_complete(writer, state.scope(loop).block)
    if other is writer:
        return complete or has_own_storage(state, buffer, loop)
    own = _is_private(state, buffer, loop) if complete else has_own_storage(state, buffer, loop)
    return own and covers(state, loop.function, writer, other, buffer)


def has_own_storage(state: ScheduleState, buffer: Buffer, loop: LoopRV) -> bool:
    """True if lowering gives each iteration a separate buffer: see `transform.plan_buffer_allocation`."""
    if not _is_private(state, buffer, loop):
        return False
    return buffer.scope.startswith("local") or not any(
        loop.var in set(free_vars(end))
        for child in blocks_below(state.loop(loop))
        for region in [*read_regions(child, buffer), *written_regions(child, buffer)]
        for interval in relaxed_box(region, child, _loops_inside(state, child, loop))
        for end in interval or (loop.var,)
    )


def _shared_between_iterations(
    loop: LoopRV, node: For, writer: BlockRealize, other: BlockRealize, buffer: Buffer
) -> ScheduleError:
    name = other.block.name_hint
    return ScheduleError(
        ORDER,
        f"block {name} may touch elements of {buffer.name} that block {writer.block.name_hint} writes in another "
        f"iteration of loop {loop.var.name}",
        node,
        other,
    )


def _loops_inside(state: ScheduleState, child: BlockRealize, loop: LoopRV) -> list[For]:
    """Return the loops around a block that are inside `loop`, outermost first."""
    loops = state.loops(state.block_rv(child, loop.function))
    position = next(i for i, item in enumerate(loops) if item.loop_var is loop.var)
    return loops[position + 1 :]


def _is_private(state: ScheduleState, buffer: Buffer, loop: LoopRV) -> bool:
    """True if the scope of a loop allocates a buffer, and all its users are below the loop."""
    scope = state.scope(loop).block
    if buffer not in set(scope.alloc_buffers):
        return False
    inside = {id(child) for child in blocks_below(state.loop(loop))}
    facts = scope_of(scope)
    users = [*facts.writers.get(buffer, ()), *facts.readers.get(buffer, ())]
    return buffer not in facts.loose and all(id(user) in inside for user in users)


def require_chain(state: ScheduleState, loops: Iterable[LoopRV]) -> list[For]:
    """Return the loops outermost first; raise unless each is directly inside the previous one."""
    nodes = [state.loop(rv) for rv in loops]
    for outer, inner in itertools.pairwise(nodes):
        if outer.body is not inner:
            raise ScheduleError(
                STRUCTURE,
                f"loop {inner.loop_var.name} does not stand directly inside loop {outer.loop_var.name}",
                outer,
                inner,
            )
    return nodes


__all__ = [
    "analyzer_at", "binding_problem", "blocks_below", "bound_loops", "has_own_storage", "is_complete", "is_reduction",
    "loop_range",
    "require_chain", "require_complete", "require_complete_or_reduction",
    "require_only_blocks", "require_parallel", "require_reduction", "require_started",
]  # fmt: skip
