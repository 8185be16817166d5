"""Compiled functions of a module, for an executable under construction."""

from __future__ import annotations

from collections.abc import Iterator

from ..codegen.module import LaterFunctions
from ..expr import Constant, Function
from ..ir import IRModule
from ..runtime import ExecBuilder
from ..runtime.bytecode import Operand
from ..runtime.compiled import COMPILED_PREFIX
from ..tir import PrimFunc
from .compilable import compilable_functions
from .host_builtins import FORMS
from .host_function import HostFunction
from .program_table import ProgramTable


def compile_functions(
    builder: ExecBuilder, mod: IRModule, constants: dict[int, tuple[Constant, Operand]] | None = None
) -> LaterFunctions:
    """Compiled forms of the functions of a lowered module that have one, by name, created lazily.

    At the end, they are declared to the executable. It contains the functions as bytecode as well (`relax.vm.codegen`),
    and both share constants.
    """
    names = compilable_functions(mod)
    compiled = frozenset(names)
    table = ProgramTable(builder, {} if constants is None else constants)

    def compile_lazily() -> Iterator[tuple[str, PrimFunc]]:
        for name in names:
            function = mod[name]
            assert isinstance(function, Function)
            yield (f"{COMPILED_PREFIX}{name}", HostFunction(mod, table, compiled, FORMS).compile(name, function))
        builder.set_compiled(names, table.cells)

    return LaterFunctions([f"{COMPILED_PREFIX}{name}" for name in names], compile_lazily())
