"""The module of each name of this package. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "BlockRV": ".rv",
    "ExprRV": ".rv",
    "Instruction": ".instruction",
    "InstructionKind": ".instruction",
    "LoopRV": ".rv",
    "PRIMITIVES": ".schedule",
    "Schedule": ".schedule",
    "ScheduleError": ".error",
    "ScheduleState": ".state",
    "StmtSRef": ".sref",
    "Trace": ".trace",
}
