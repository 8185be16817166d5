"""sample_compute_location: sample a loop of a block's consumers for `compute_at`.

    loop = sch.sample_compute_location(block)
    sch.compute_at(block, loop)

The candidates are the loops around all consumers at which `compute_at` is legal, the block's current place
(`LoopRV.root_mark()`, for which `compute_at` does nothing) and inlining (`LoopRV.inline_mark()`), where possible. The
decision is the index of the loop, outermost first, or -1 for the current place, -2 for inlining.

Rejected: a decision that is no candidate.
"""

from __future__ import annotations

from ...dependence import scope_of
from ...stmt import For
from ..base import PRIMITIVES, ScheduleBase, query
from ..error import ARGUMENT, ScheduleError
from ..rv import BlockRV, LoopRV

ROOT, INLINE = -1, -2


@query
def sample_compute_location(sch: ScheduleBase, block: BlockRV, decision: int | None = None) -> LoopRV:
    """Sample a loop at which a block may be computed, uniformly. Raises ScheduleError for an invalid decision."""
    choices = _choices(sch, block)
    choice = sch.random.choice(list(choices)) if decision is None else sch.integer(decision)
    if choice not in choices:
        raise ScheduleError(
            ARGUMENT,
            f"the decision {choice} is no place at which block {block.name} may be computed",
            sch.state.realize(block),
            hint=f"there are {', '.join(map(str, choices))} (-1 for where it is, -2 for inlining)",
        )
    sch.decision = choice
    return choices[choice]


def _choices(sch: ScheduleBase, block: BlockRV) -> dict[int, LoopRV]:
    """Return the locations by decision."""
    result = {ROOT: LoopRV.root_mark()}
    if _applies(sch, "compute_inline", block):
        result[INLINE] = LoopRV.inline_mark()
    consumers = scope_of(sch.state.scope(block).block).consumers(sch.state.realize(block))
    if not consumers:
        return result
    chains = [sch.state.loops(sch.state.block_rv(item, block.function)) for item in consumers]
    for number, node in enumerate(chains[0]):
        if not all(_has(chain, node) for chain in chains[1:]):
            break
        loop = LoopRV(block.function, node.loop_var)
        if _applies(sch, "compute_at", block, loop):
            result[number] = loop
    return result


def _has(chain: list[For], node: For) -> bool:
    return any(item is node for item in chain)


def _applies(sch: ScheduleBase, method: str, *args: BlockRV | LoopRV) -> bool:
    """True if a primitive accepts these arguments; the program is restored."""
    kind = PRIMITIVES.get(method)
    if kind is None:
        return False
    before = sch.state.copy()
    try:
        kind.function(sch, *args)
    except ScheduleError:
        return False
    finally:
        sch.state.restore(before)
    return True
