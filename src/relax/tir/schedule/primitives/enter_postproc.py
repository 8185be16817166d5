"""enter_postproc: the instruction behind which post-processing begins.

It changes nothing. A trace can be replayed, simplified and saved up to it, without what post-processing added.
"""

from __future__ import annotations

from ..base import ScheduleBase, primitive


@primitive
def enter_postproc(sch: ScheduleBase) -> None:
    """Mark the beginning of post-processing in the trace."""
    del sch


__all__ = ["enter_postproc"]
