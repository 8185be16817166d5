"""From modules to executables: bytecode for Relax functions, machine code for PrimFuncs."""

from __future__ import annotations

from .build import build

__all__ = ["build"]
