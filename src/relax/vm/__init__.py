"""From modules to executables: bytecode for Relax functions, machine code for PrimFuncs."""

from __future__ import annotations

from .driver import build

__all__ = ["build"]
