"""Schedule rules: how loops of a kind run fast, as functions from PrimFunc to PrimFunc.

A rule looks at the structure of a function, never at its name, so that a user's formula is treated as an operator's is.
Its result is TIR: it prints, runs in `tir.interpret`, and is compared there with what it was made from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing
from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from . import cpu
    from .apply import ApplyDefaultSchedule
    from .packing import PACKED_CONSTANTS, PACKED_KERNELS, PackConstants
    from .rule import IS_SCHEDULED, PackedFunction, ScheduleRule, schedule

__all__ = [
    "IS_SCHEDULED", "PACKED_CONSTANTS", "PACKED_KERNELS", "ApplyDefaultSchedule", "PackConstants", "PackedFunction",
    "ScheduleRule", "cpu", "schedule",
]  # fmt: skip

load_when_used(__name__, HOMES)
answer_missing(__name__)
