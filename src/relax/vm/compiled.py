"""The compiled functions of a module, for an executable under construction."""

from __future__ import annotations

from dataclasses import dataclass

from ..expr import Constant, Function
from ..ir import IRModule
from ..runtime import ExecBuilder
from ..runtime.bytecode import Operand
from ..runtime.compiled import COMPILED_PREFIX
from ..tir import PrimFunc
from .compilable import compilable_functions
from .host_function import HostFunction
from .program_table import ProgramTable


@dataclass(frozen=True)
class CompiledProgram:
    """The functions of a module that are compiled."""

    functions: tuple[str, ...]
    prim_funcs: dict[str, PrimFunc]
    """Their compiled forms, by the names of those."""


def compile_functions(
    builder: ExecBuilder, mod: IRModule, constants: dict[int, tuple[Constant, Operand]] | None = None
) -> CompiledProgram:
    """Compile what can be compiled of a lowered module, and declare it to the executable.

    The functions are part of the executable as bytecode as well (`relax.vm.codegen`), whose constants they share.
    """
    names = compilable_functions(mod)
    compiled = frozenset(names)
    table = ProgramTable(builder, {} if constants is None else constants)
    prim_funcs: dict[str, PrimFunc] = {}
    for name in names:
        function = mod[name]
        assert isinstance(function, Function)
        prim_funcs[f"{COMPILED_PREFIX}{name}"] = HostFunction(mod, table, compiled).compile(name, function)
    builder.set_compiled(names, table.cells)
    return CompiledProgram(tuple(names), prim_funcs)
