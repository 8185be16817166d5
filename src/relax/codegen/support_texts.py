"""LLVM IR of the support code, written from its functions in TIR (`relax.codegen.support`).

Modules of an object are imported, and so their scripts parsed, when its text is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ..runtime.rooms import ModuleWhenUsed
from ..target.isa import isa_of
from ..tir import PrimFunc
from .plain import Data, plain_module_text


def _modules(*names: str) -> list[ModuleWhenUsed]:
    return [ModuleWhenUsed(f"relax.codegen.support.{name}") for name in names]


_KERNELS: Final = _modules("errors", "arguments")
(_POOL,) = _modules("pool")
_CELLS: Final = _modules(
    "cells.values", "cells.questions", "cells.matching", "cells.freed_memory", "cells.objects", "cells.overlaps",
    "cells.makers", "cells.tables", "cells.kernels", "cells.attention",
)  # fmt: skip
_LIBRARY: Final = _modules("library.program", "library.texts", "library.builtins")
"""Modules with the functions of each object, and their data."""


def _functions(modules: Sequence[ModuleWhenUsed]) -> list[PrimFunc]:
    return [function for module in modules for function in module.FUNCTIONS]


def _data(modules: Sequence[ModuleWhenUsed]) -> list[Data]:
    return [data for module in modules for data in module.DATA]


@lru_cache(maxsize=4)
def support_text(triple: str) -> str:
    """Text of the support code of kernels: errors, checks of arguments, memory of buffers."""
    return plain_module_text(_functions(_KERNELS), triple, data=_data(_KERNELS[:1]))


@lru_cache(maxsize=4)
def pool_text(triple: str) -> str:
    """Text of the thread pool; a loop on the calling thread where there is no futex."""
    if isa_of(triple).pool is None or "linux" not in triple.partition("-")[2]:
        return plain_module_text(_POOL.ALL_SERIAL, triple)
    return plain_module_text(_POOL.FUNCTIONS, triple, data=_POOL.DATA)


@lru_cache(maxsize=4)
def cells_text(triple: str) -> str:
    """Text of the support code of compiled Relax functions."""
    values, questions, _, freed_memory, *_ = _CELLS
    functions = [*_functions(_CELLS), values.program]
    return plain_module_text(functions, triple, data=_data([questions, freed_memory]))


@lru_cache(maxsize=4)
def library_text(triple: str) -> str:
    """Text of the support code of shared libraries."""
    data = _data(_LIBRARY[:2])
    return plain_module_text(_functions(_LIBRARY), triple, declared=_functions(_CELLS), data=data)
