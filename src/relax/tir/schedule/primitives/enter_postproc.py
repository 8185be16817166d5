"""enter_postproc: mark the beginning of post-processing in a trace.

The program does not change. A trace can be replayed, simplified and saved up to this instruction.
"""

from __future__ import annotations

from ..base import ScheduleBase, primitive


@primitive
def enter_postproc(sch: ScheduleBase) -> None:
    """Mark the beginning of post-processing in the trace."""
    del sch
