"""StmtSRef: a lasting reference to a block or loop of a schedule's program, under TVM's name.

sref = sch.get_sref(loop)
sref.stmt       the current For
sref.parent     the reference to the enclosing block or loop
"""

from __future__ import annotations

from ...runtime.records import dataclass
from ..stmt import Block, For
from .rv import BlockRV, LoopRV
from .state import ScheduleState


@dataclass(frozen=True, slots=True, eq=False)
class StmtSRef:
    """A reference to a block or loop of a schedule, valid across rewrites while the block or loop exists."""

    state: ScheduleState
    rv: BlockRV | LoopRV

    @property
    def stmt(self) -> For | Block:
        """The current For or Block. Raises ScheduleError if it no longer exists."""
        return self.state.loop(self.rv) if isinstance(self.rv, LoopRV) else self.state.block(self.rv)

    @property
    def parent(self) -> StmtSRef | None:
        """The block or loop directly around it; None for a root block."""
        around = self.state.parent(self.rv)
        return None if around is None else StmtSRef(self.state, self.state.rv_of(around, self.rv.function))
