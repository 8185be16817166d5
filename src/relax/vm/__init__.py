"""Compilation of modules to executables: bytecode for Relax functions, machine code for PrimFuncs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing
from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from ..runtime import Executable, VirtualMachine, VMInstrumentReturnKind
    from .driver import build, compile
    from .eager import eager
    from .find_nan import NaNReport, find_nan

__all__ = [
    "Executable",
    "NaNReport",
    "VMInstrumentReturnKind",
    "VirtualMachine",
    "build",
    "compile",
    "eager",
    "find_nan",
]

load_when_used(__name__, HOMES)
answer_missing(__name__)
