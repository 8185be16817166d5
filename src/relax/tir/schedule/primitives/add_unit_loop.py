"""add_unit_loop: add a loop of one iteration around a block or loop.

    with T.block("B"):              for u in range(1):
        B[()] = A[()]                   with T.block("B"):
                                            B[()] = A[()]

A block without loops then has a loop to bind, or to compute other blocks at.

Rejected: the root block.
"""

from __future__ import annotations

from ....prim import Var, const
from ...stmt import For, ForKind
from ..base import ScheduleBase, primitive
from ..error import STRUCTURE, ScheduleError
from ..rv import BlockRV, LoopRV


@primitive
def add_unit_loop(sch: ScheduleBase, block_or_loop: BlockRV | LoopRV) -> LoopRV:
    """Add a loop of one iteration around a block or loop, and return it. Raises ScheduleError for the root block."""
    node = sch.state.placed(block_or_loop)
    if sch.state.parent(block_or_loop) is None:
        raise ScheduleError(STRUCTURE, "no loop can stand around the root block", node)
    dtype = node.loop_var.dtype if isinstance(node, For) else "int32"
    unit = For(Var("u", dtype), const(0, dtype), const(1, dtype), ForKind.SERIAL, node)
    sch.state.replace(node, unit, block_or_loop.function)
    return LoopRV(block_or_loop.function, unit.loop_var)
