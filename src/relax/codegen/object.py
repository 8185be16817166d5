"""LLVM IR to machine code: the optimisation pipeline, object files, assembly text.

llvmlite lets one thread at a time into LLVM, so modules are compiled one after the other; many small functions are
best compiled as one module.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import version
from typing import Any

import llvmlite.binding as llvm

from ..ir import Diagnostic, DiagnosticError
from ..target import Target
from .host import target_machine

#: part of every cache key: raise it when the pipeline below changes
PIPELINE_VERSION = 1


def compiler_version() -> str:
    """What, beside the IR and the target, decides the machine code."""
    numbers = ".".join(map(str, llvm.llvm_version_info))
    return f"pipeline {PIPELINE_VERSION}, llvmlite {version('llvmlite')}, LLVM {numbers}"


@lru_cache(maxsize=8)
def _machine(triple: str, cpu: str, features: str, level: int) -> Any:
    return target_machine(triple, cpu, features, level)


def machine_for(target: Target) -> Any:
    """LLVM's target machine for a target."""
    return _machine(target.triple, target.mcpu, target.features, target.opt_level)


def optimised(text: str, target: Target) -> Any:
    """The LLVM module of an IR text, verified and optimised."""
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        message = f"LLVM does not accept the code that was generated: {str(error).strip()}"
        hint = "this is an error of relax, or a C function is called that the module itself defines"
        raise DiagnosticError(Diagnostic("E5909", message, hint=hint)) from None
    options = llvm.create_pipeline_tuning_options(speed_level=target.opt_level)
    options.loop_vectorization = options.slp_vectorization = target.opt_level >= 2
    options.loop_interleaving = options.loop_unrolling = target.opt_level >= 2
    passes = llvm.create_pass_builder(machine_for(target), options)
    passes.getModulePassManager().run(module, passes)
    return module


def emit_object(text: str, target: Target) -> bytes:
    """A relocatable ELF object."""
    return bytes(machine_for(target).emit_object(optimised(text, target)))


def emit_assembly(text: str, target: Target) -> str:
    """The assembly of what `emit_object` would give."""
    return str(machine_for(target).emit_assembly(optimised(text, target)))
