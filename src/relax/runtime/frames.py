"""Frames of the bytecode interpreter, and the source locations of errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .compiled import passed
from .decode import CALL_VM, INVOKE, Code
from .places import CallSite, annotate

CALLS: Final = (CALL_VM, INVOKE)
"""Instruction kinds that may call functions of the program."""


class Frame:
    """A suspended function."""

    __slots__ = ("after", "code", "dst", "pc", "registers")

    def __init__(self, code: Code, registers: list[Any], pc: int, dst: int, after: Any) -> None:
        self.code = code
        self.registers = registers
        self.pc = pc
        self.dst = dst
        self.after = after


def locate(error: Exception, code: Code, pc: int, frames: Sequence[Frame]) -> Exception:
    """Return the error (the original one if it passed machine code), annotated with the call sites it passed."""
    op = code.ops[min(pc, len(code.ops) - 1)]
    call_sites: list[CallSite] = []
    if op.kind in CALLS:
        error, call_sites = passed(error)
    if not (call_sites and op.tail):
        unnamed = op.name.startswith("vm.builtin.") or call_sites or op.kind == CALL_VM
        shown = "" if unnamed else op.name
        call_sites.append(CallSite(code.function.name, location_of(code, pc), shown, op.foreign))
    call_sites += [
        CallSite(frame.code.function.name, location_of(frame.code, frame.pc - 1)) for frame in reversed(frames)
    ]
    annotate(error, call_sites)
    return error


def location_of(code: Code, pc: int) -> str:
    """Return the source location of an instruction, or ""."""
    locations = code.function.locations
    return locations[pc] if 0 <= pc < len(locations) else ""
