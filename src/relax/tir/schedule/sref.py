"""StmtSRef: a lasting reference to a block or loop of a schedule's program, under TVM's name.

sref = sch.get_sref(loop)
sref.stmt       the For as it is at present
sref.parent     the reference to the block or loop around it
"""

from __future__ import annotations

from dataclasses import dataclass

from ..stmt import Block, For
from .rv import BlockRV, LoopRV
from .state import ScheduleState


@dataclass(frozen=True, slots=True, eq=False)
class StmtSRef:
    """A block or loop of a schedule, whatever becomes of it while it exists."""

    state: ScheduleState
    rv: BlockRV | LoopRV

    @property
    def stmt(self) -> For | Block:
        """The For or Block at present. Raises ScheduleError if it is gone."""
        return self.state.loop(self.rv) if isinstance(self.rv, LoopRV) else self.state.block(self.rv)

    @property
    def parent(self) -> StmtSRef | None:
        """The block or loop directly around it; None for a root block."""
        around = self.state.parent(self.rv)
        return None if around is None else StmtSRef(self.state, self.state.rv_of(around, self.rv.function))


__all__ = ["StmtSRef"]
