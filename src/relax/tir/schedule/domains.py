"""Domains of blocks: a block must run for all values in its variables' domains, and once for each reduction step."""

from __future__ import annotations

from ...prim import Analyzer
from ..dependence import accesses
from ..stmt import BlockRealize
from .cover import domain_conditions, domain_points, fresh_points, implied, stays_in_domain, sums_all, sums_once
from .error import BINDING, ScheduleError
from .facts import outer_facts
from .rv import BlockRV
from .state import ScheduleState


def require_whole_domain(state: ScheduleState, block: BlockRV) -> None:
    """Raise unless a block runs for all values in the domains of its variables, and for no others.

    Values may be left out if running the block for them is harmless: it then only reads inside its buffers.
    """
    realize, loops = state.realize(block), state.loops(block)
    analyzer = outer_facts(state, block)
    if not stays_in_domain(realize, loops, analyzer):
        raise ScheduleError(
            BINDING, f"block {block.name} may be run for values outside of the domains of its variables", realize
        )
    if any(v.iter_type == "reduce" for v in realize.block.iter_vars) and not sums_once(realize, loops, analyzer):
        raise ScheduleError(
            BINDING,
            f"block {block.name} is not bound affinely to its loops: it may add a step of its sum several times",
            realize,
        )
    points = fresh_points([v.var for v in realize.block.iter_vars])
    reached = domain_points(realize, loops, points, analyzer)
    if reached is not None and implied(analyzer, domain_conditions(realize.block, points), reached):
        return
    if not sums_all(realize, loops, analyzer) or not _reads_inside(realize, analyzer):
        reason = "" if reached is not None else ": its values are no affine map of its loops"
        raise ScheduleError(
            BINDING, f"block {block.name} may not run over the whole of its variables' domains{reason}", realize
        )


def _reads_inside(realize: BlockRealize, analyzer: Analyzer) -> bool:
    """True if a block reads inside its buffers for all values in the domains of its variables."""
    facts = analyzer.copy()
    for condition in domain_conditions(realize.block, [v.var for v in realize.block.iter_vars]):
        facts.assume(condition)
    for region in accesses(realize.block).reads:
        for extent, size in zip(region.region, region.buffer.shape, strict=True):
            inside = (extent.min >= 0, extent.min + extent.extent <= size)
            if not all(facts.can_prove(condition) for condition in inside):
                return False
    return True
