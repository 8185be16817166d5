"""reorder: change the nesting order of loops; reorder_block_iter_var: change the order of a block's variables.

    for i, j, k in T.grid(8, 8, 8):          for k, i, j in T.grid(8, 8, 8):
        with T.block("C"):                       with T.block("C"):
            ...                                      ...

Loops between the named ones keep their positions. Reductions may be reordered if they are sums, minima, maxima or
products of integers.

Rejected: loops that are not part of one perfect nest; a loop that would enclose a loop its bounds depend on; blocks
below that are neither complete nor reductions, or that depend on each other across iterations; statements outside of
blocks.

    vi, vj = T.axis.remap("SS", [i, j])          vj, vi = T.axis.remap("SS", [j, i])
"""

from __future__ import annotations

from collections.abc import Sequence

from ....prim import free_vars
from ...stmt import For, ForKind, Stmt
from ..base import ScheduleBase, primitive
from ..conditions import blocks_below, require_chain, require_only_blocks, require_parallel
from ..error import ARGUMENT, STRUCTURE, ScheduleError
from ..interchange import Nest, require_order_free
from ..rv import BlockRV, LoopRV


@primitive
def reorder(sch: ScheduleBase, *ordered_loops: LoopRV) -> None:
    """Nest loops of a chain in the given order, outermost first.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    if not ordered_loops:
        raise ScheduleError(ARGUMENT, "reorder takes at least one loop")
    wanted = [sch.state.loop(loop) for loop in ordered_loops]
    if len({node.loop_var for node in wanted}) < len(wanted):
        raise ScheduleError(ARGUMENT, "a loop is given twice", *wanted)
    chain = _chain(sch, ordered_loops)
    pending = iter(wanted)
    chosen = {node.loop_var for node in wanted}
    order = [next(pending) if node.loop_var in chosen else node for node in chain]
    if all(a is b for a, b in zip(chain, order, strict=True)):
        return
    _require_bounds_inside(order)
    function = ordered_loops[0].function
    require_only_blocks(chain[0])
    scope = sch.state.scope(ordered_loops[0]).block
    nest = Nest(chain, blocks_below(chain[-1]), sch.state, function)
    require_order_free(nest, order, scope)
    body: Stmt = chain[-1].body
    for node in reversed(order):
        body = node.replace(body=body)
    sch.state.replace(chain[0], body, function)
    for node in order:
        if node.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            require_parallel(sch.state, LoopRV(function, node.loop_var))


def _chain(sch: ScheduleBase, loops: Sequence[LoopRV]) -> list[For]:
    """Return the loops from the outermost to the innermost of `loops`; raise unless they are perfectly nested."""
    around = max((sch.state.loops(loop) for loop in loops), key=len)
    variables = [node.loop_var for node in around]
    positions: list[int] = []
    for loop in loops:
        position = next((i for i, var in enumerate(variables) if var is loop.var), None)
        if position is None:
            raise ScheduleError(
                STRUCTURE,
                f"the loops {loop.var.name} and {variables[-1].name} are not nested in each other",
                sch.state.loop(loop),
                around[-1],
            )
        positions.append(position)
    function = loops[0].function
    return require_chain(
        sch.state, [LoopRV(function, node.loop_var) for node in around[min(positions) : max(positions) + 1]]
    )


def _require_bounds_inside(order: Sequence[For]) -> None:
    """Raise if a loop would enclose a loop that its bounds depend on."""
    for position, node in enumerate(order):
        used = {*free_vars(node.min), *free_vars(node.extent)}
        for inner in order[position + 1 :]:
            if inner.loop_var in used:
                raise ScheduleError(
                    STRUCTURE,
                    f"the bounds of loop {node.loop_var.name} depend on loop {inner.loop_var.name}, which would stand "
                    "inside of it",
                    inner,
                    node,
                )


@primitive
def reorder_block_iter_var(sch: ScheduleBase, block: BlockRV, new_order: Sequence[int]) -> None:
    """Permute the variables of a block: `new_order` holds the old index for each position.

    Raises ScheduleError if it is no permutation.
    """
    realize = sch.state.realize(block)
    order = [sch.integer(index) for index in new_order]
    count = len(realize.iter_values)
    if sorted(order) != list(range(count)):
        raise ScheduleError(
            ARGUMENT, f"new_order must have each of the numbers from 0 to {count - 1} once, found {order}", realize
        )
    variables = realize.block.iter_vars
    new = realize.replace(
        iter_values=tuple(realize.iter_values[i] for i in order),
        block=realize.block.replace(iter_vars=tuple(variables[i] for i in order)),
    )
    if order != list(range(count)):
        sch.state.replace(realize, new, block.function)
