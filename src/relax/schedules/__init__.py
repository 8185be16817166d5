"""Schedule rules: optimise loop nests of one kind, as functions from PrimFunc to PrimFunc.

A rule matches the structure of a function, never its name, so a user's formula is optimised like an operator's. Its
result is TIR: it can be printed and run in `tir.interpret`, and tests compare it there with the original.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing
from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from . import cpu
    from .apply import ApplyDefaultSchedule, schedule
    from .rule import IS_SCHEDULED, PackedFunction, Refusal, ScheduleRule

__all__ = ["IS_SCHEDULED", "ApplyDefaultSchedule", "PackedFunction", "Refusal", "ScheduleRule", "cpu", "schedule"]

load_when_used(__name__, HOMES)
answer_missing(__name__)
