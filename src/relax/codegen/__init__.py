"""Code generation: PrimFuncs to LLVM IR, and through the farm (`relax.farm`) to machine code.

Semantics of compiled code:

* Integers wrap around; division is defined except by zero, which is an error; shifts beyond the width are defined. An
  index outside of its buffer is an error, whether it depends on data or not. Errors are Python exceptions that name the
  function; no program can abort the process.
* Floating point is rounded after every operation, without fast-math, with one exception: in a reduction in memory
  (``s[i] = s[i] + x``), terms may be reordered and a product may be fused into the addition. float16, bfloat16 and the
  8-bit floats are computed in float32 and rounded after every operation, sums included.
* Results do not depend on the number of threads.
* Parameters of a function with the attribute ``tir.noalias`` must not overlap if one of them is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..farm import cache
from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from ..farm.host import executes, resolve
    from ..farm.kernel_text import symbol_name
    from ..farm.recall import KernelMemory, Recall
    from .build import (
        CompiledFunction,
        CompiledModule,
        CompileStatistics,
        build_module,
        compile_count,
        compile_module,
        statistics,
    )
    from .evaluate import CompiledKernels

    explain: Callable[..., Any]
    """Reports on the loops of a kernel's machine code: `relax.explanation.explain`."""

__all__ = [
    "CompileStatistics", "CompiledFunction", "CompiledKernels", "CompiledModule", "KernelMemory", "Recall",
    "build_module", "cache", "compile_count", "compile_module", "executes", "explain", "resolve", "statistics",
    "symbol_name",
]  # fmt: skip

load_when_used(__name__, {**HOMES, "..ir.provided": "explain"})
