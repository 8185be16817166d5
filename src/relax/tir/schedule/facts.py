"""Facts known at a block or loop, for the prover."""

from __future__ import annotations

from ...prim import Analyzer
from ..buffer import Range
from ..stmt import For
from .rv import BlockRV, LoopRV
from .state import ScheduleState


def loop_range(loop: For) -> Range:
    """Return the range of a loop's variable."""
    return Range.from_min_extent(loop.min, loop.extent)


def analyzer_at(state: ScheduleState, rv: BlockRV | LoopRV, inclusive: bool = False) -> Analyzer:
    """Return the facts at a block or loop: ranges of the enclosing loops and block variables; `inclusive`: also its
    own.
    """
    analyzer = Analyzer()
    around = state.ancestors(rv)[::-1]
    for stmt in [*around, state.placed(rv)] if inclusive else around:
        if isinstance(stmt, For):
            analyzer.bind(stmt.loop_var, loop_range(stmt))
        else:
            for iter_var in stmt.block.iter_vars:
                if iter_var.dom is not None:
                    analyzer.bind(iter_var.var, iter_var.dom)
            analyzer.assume(stmt.predicate)
    return analyzer


def outer_facts(state: ScheduleState, block: BlockRV) -> Analyzer:
    """Return the facts in the scope of a block, outside of its loops."""
    scope = state.scope(block)
    return analyzer_at(state, state.block_rv(scope, block.function), inclusive=True)
