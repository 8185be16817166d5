"""Code generation: PrimFuncs to LLVM IR to machine code, and the cache of compiled kernels.

What compiled code promises:

* Integers wrap around; division is defined for every pair but zero, which is an error; shifts beyond the width are
  defined. An index outside of its buffer is an error, whether it depends on data or not. Errors are Python exceptions
  that name the function; nothing a program does ends the process.
* Floating point is rounded after every operation, without fast-math, with one exception: where a loop adds up a sum in
  memory (``s[i] = s[i] + x``), the terms may be added in another order and a product may be fused into the addition.
  float16, bfloat16 and the 8-bit floats are computed in float32 and rounded after every operation, sums included.
* Results do not depend on the number of threads. (Parallel loops run serially so far.)
* Parameters of a function with the attribute ``tir.noalias`` must not overlap if one of them is written.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
from .evaluate import CompiledKernels, executes
from .host import resolve
from .recall import KernelMemory, Recall
from .wrapper import symbol_name

if TYPE_CHECKING:
    from .explanation import Explanation, LoopReport, explain
else:

    def __getattr__(name: str) -> Any:
        """Names of the reports on machine code, which need the printer of programs: they are loaded when first used."""
        if name in ("Explanation", "LoopReport", "explain"):
            return getattr(importlib.import_module("relax.codegen.explanation"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "CompileStatistics",
    "CompiledFunction",
    "CompiledKernels",
    "CompiledModule",
    "Explanation",
    "KernelMemory",
    "LoopReport",
    "Recall",
    "build_module",
    "cache",
    "compile_count",
    "compile_module",
    "executes",
    "explain",
    "resolve",
    "statistics",
    "symbol_name",
]
