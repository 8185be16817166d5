"""Schedules: programs of rewrites of loops and blocks, each proved to keep what a function computes."""

from __future__ import annotations

from ...ir.tvm_names import answer_missing
from .base import PRIMITIVES
from .error import ScheduleError
from .instruction import Instruction, InstructionKind
from .rv import BlockRV, ExprRV, LoopRV
from .schedule import Schedule
from .sref import StmtSRef
from .state import ScheduleState
from .trace import Trace

__all__ = [
    "PRIMITIVES",
    "BlockRV",
    "ExprRV",
    "Instruction",
    "InstructionKind",
    "LoopRV",
    "Schedule",
    "ScheduleError",
    "ScheduleState",
    "StmtSRef",
    "Trace",
]

answer_missing(__name__)
answer_missing("relax.tir.Schedule", Schedule)
