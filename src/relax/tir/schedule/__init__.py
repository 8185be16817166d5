"""Schedules: sequences of loop and block transformations, each proved to preserve a function's results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.tvm_names import answer_missing
from ...runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from .error import ScheduleError
    from .instruction import Instruction, InstructionKind
    from .rv import BlockRV, ExprRV, LoopRV
    from .schedule import PRIMITIVES, Schedule
    from .sref import StmtSRef
    from .state import ScheduleState
    from .trace import Trace

__all__ = [
    "PRIMITIVES", "BlockRV", "ExprRV", "Instruction", "InstructionKind", "LoopRV", "Schedule", "ScheduleError",
    "ScheduleState", "StmtSRef", "Trace",
]  # fmt: skip

load_when_used(__name__, HOMES)
answer_missing(__name__)
