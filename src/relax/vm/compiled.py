"""The compiled functions of a module, for an executable under construction."""

from __future__ import annotations

from dataclasses import dataclass

from ..expr import Constant, Function
from ..info.runtime import InfoMaker
from ..ir import IRModule
from ..runtime import ExecBuilder
from ..runtime.bytecode import Operand
from ..runtime.compiled import COMPILED_PREFIX
from ..struct_info import ObjectStructInfo
from ..tir import PrimFunc
from .compilable import compilable_functions
from .host_function import HostFunction, ProgramTable


@dataclass(frozen=True)
class CompiledProgram:
    """The functions of a module that are compiled, and what they are made of."""

    functions: tuple[str, ...]
    prim_funcs: dict[str, PrimFunc]
    """Their compiled forms, by the names of those."""
    inlined: frozenset[str]
    """Shape functions that became part of them."""
    constants: dict[int, tuple[Constant, Operand]]
    """The constants they have put into the executable, by identity."""


def compile_functions(builder: ExecBuilder, mod: IRModule) -> CompiledProgram:
    """Compile what can be compiled of a lowered module, and declare it to the executable."""
    names = compilable_functions(mod)
    table = ProgramTable(builder)
    prim_funcs: dict[str, PrimFunc] = {}
    inlined: set[str] = set()
    for name in names:
        function = mod[name]
        assert isinstance(function, Function)
        host = HostFunction(mod, table, names)
        prim_funcs[f"{COMPILED_PREFIX}{name}"] = host.compile(name, function)
        inlined |= host.inlined
        infos = InfoMaker()
        builder.compiled_function(
            name,
            [param.name_hint for param in function.params],
            [infos.info(param.struct_info_) for param in function.params],
            infos.info(function.ret_struct_info or ObjectStructInfo()),
            pure=function.is_pure,
            exported="global_symbol" in function.attrs,
        )
    if names:
        builder.set_table(table.cells)
    return CompiledProgram(tuple(names), prim_funcs, frozenset(inlined), table.constants)
