"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".error": "ScheduleError",
    ".instruction": "Instruction InstructionKind",
    ".rv": "BlockRV ExprRV LoopRV",
    ".schedule": "PRIMITIVES Schedule",
    ".sref": "StmtSRef",
    ".state": "ScheduleState",
    ".trace": "Trace",
}
