"""From modules to executables: bytecode for Relax functions, machine code for PrimFuncs."""

from __future__ import annotations

from ..runtime import Executable, VirtualMachine
from .driver import build, compile
from .find_nan import NaNReport, find_nan

__all__ = ["Executable", "NaNReport", "VirtualMachine", "build", "compile", "find_nan"]
