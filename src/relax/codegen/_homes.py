"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "..farm.host": "executes resolve",
    "..farm.kernel_text": "symbol_name",
    "..farm.recall": "KernelMemory Recall",
    ".build": "CompileStatistics CompiledFunction CompiledModule build_module compile_count compile_module "
        "statistics",
    ".evaluate": "CompiledKernels",
}
