"""Code generation: PrimFuncs to LLVM IR to machine code, and the cache of compiled kernels."""

from __future__ import annotations

from . import cache
from .build import (
    CompiledFunction,
    CompiledModule,
    CompileStatistics,
    build_module,
    compile_count,
    compile_module,
    statistics,
)
from .wrapper import symbol_name

__all__ = [
    "CompileStatistics",
    "CompiledFunction",
    "CompiledModule",
    "build_module",
    "cache",
    "compile_count",
    "compile_module",
    "statistics",
    "symbol_name",
]
