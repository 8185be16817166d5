"""LLVM IR of the support code, written from its functions in TIR (`relax.codegen.support`)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from ..target.isa import isa_of
from .plain import plain_module_text
from .support import arguments, errors, pool
from .support.cells import freed_memory, makers, matching, objects, overlaps, questions, tables, values
from .support.library import builtins, program, texts

_KERNELS: Final[tuple[Any, ...]] = errors, arguments
_CELLS: Final[tuple[Any, ...]] = values, questions, matching, freed_memory, objects, overlaps, makers, tables
_LIBRARY: Final[tuple[Any, ...]] = program, texts, builtins
"""Modules with the functions of each object, and their data."""


def _functions(modules: tuple[Any, ...]) -> list[Any]:
    return [function for module in modules for function in module.FUNCTIONS]


def _data(modules: tuple[Any, ...]) -> list[Any]:
    return [data for module in modules for data in getattr(module, "DATA", ())]


@lru_cache(maxsize=4)
def support_text(triple: str) -> str:
    """Text of the support code of kernels: errors, checks of arguments, memory of buffers."""
    return plain_module_text(_functions(_KERNELS), triple, data=_data(_KERNELS))


@lru_cache(maxsize=4)
def pool_text(triple: str) -> str:
    """Text of the thread pool; a loop on the calling thread where there is no futex."""
    serial: Any = pool.ALL_SERIAL
    functions: Any = pool.FUNCTIONS
    if isa_of(triple).pool is None or "linux" not in triple.partition("-")[2]:
        return plain_module_text(serial, triple)
    return plain_module_text(functions, triple, data=pool.DATA)


@lru_cache(maxsize=4)
def cells_text(triple: str) -> str:
    """Text of the support code of compiled Relax functions."""
    own: Any = values.program
    return plain_module_text([*_functions(_CELLS), own], triple, data=_data(_CELLS))


@lru_cache(maxsize=4)
def library_text(triple: str) -> str:
    """Text of the support code of shared libraries."""
    return plain_module_text(_functions(_LIBRARY), triple, declared=_functions(_CELLS), data=_data(_LIBRARY))
