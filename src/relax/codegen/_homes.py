"""The module of each name of this package. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "CompileStatistics": ".build",
    "CompiledFunction": ".build",
    "CompiledKernels": ".evaluate",
    "CompiledModule": ".build",
    "KernelMemory": "..farm.recall",
    "Recall": "..farm.recall",
    "build_module": ".build",
    "compile_count": ".build",
    "compile_module": ".build",
    "executes": "..farm.host",
    "resolve": "..farm.host",
    "statistics": ".build",
    "symbol_name": "..farm.kernel_text",
}
