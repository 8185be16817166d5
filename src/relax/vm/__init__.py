"""From modules to executables: bytecode for Relax functions, machine code for PrimFuncs."""

from __future__ import annotations

from ..runtime import Executable, VirtualMachine
from .driver import build

__all__ = ["Executable", "VirtualMachine", "build"]
