"""LLVM IR of the support code, written from its functions in TIR (`relax.codegen.support`)."""

from __future__ import annotations

from functools import lru_cache

from ..native.cells import cells_text as cells_text
from ..native.cells import library_text as library_text
from ..target.isa import isa_of
from .plain import plain_module_text
from .support import arguments, errors, pool


@lru_cache(maxsize=4)
def support_text(triple: str) -> str:
    """Text of the support code of kernels: errors, checks of arguments, memory of buffers."""
    return plain_module_text([*errors.FUNCTIONS, *arguments.FUNCTIONS], triple, data=errors.DATA)


@lru_cache(maxsize=4)
def pool_text(triple: str) -> str:
    """Text of the thread pool; a loop on the calling thread where there is no futex."""
    if isa_of(triple).pool is None or "linux" not in triple.partition("-")[2]:
        return plain_module_text(pool.ALL_SERIAL, triple)
    return plain_module_text(pool.FUNCTIONS, triple, data=pool.DATA)
