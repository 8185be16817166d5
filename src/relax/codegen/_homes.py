"""The module of each name of this package. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "CompileStatistics": ".build",
    "CompiledFunction": ".build",
    "CompiledKernels": ".evaluate",
    "CompiledModule": ".build",
    "Explanation": ".explanation",
    "KernelMemory": ".recall",
    "LoopReport": ".explanation",
    "Recall": ".recall",
    "build_module": ".build",
    "cache": ".cache:",
    "compile_count": ".build",
    "compile_module": ".build",
    "executes": ".host",
    "explain": ".explanation",
    "resolve": ".host",
    "statistics": ".build",
    "symbol_name": ".wrapper",
}
