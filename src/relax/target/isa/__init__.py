"""Architectures as values, with a file each, used by all packages (``target.isa``).

No other file compares the name of an architecture: code reads a field of the `ISA`. To add an architecture, add a file
here and its ISA to `ISAS`. For the runtime to load its code, add a row to `relax.runtime.machine_code`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from .aarch64 import AARCH64
from .description import (
    ISA,
    BfloatRounding,
    DotInstruction,
    Effect,
    Level,
    MathInstructions,
    PoolCode,
    Snippet,
    TileProduct,
    Tiles,
    Vectors,
)  # fmt: skip
from .riscv64 import RISCV64
from .wasm32 import WASM32
from .x86_64 import X86_64

ISAS: Final = (AARCH64, RISCV64, WASM32, X86_64)
"""All described architectures."""

_BY_NAME: Final = {name: isa for isa in ISAS for name in isa.names}


@lru_cache(maxsize=64)
def isa_of(triple: str) -> ISA:
    """Return the architecture of an LLVM triple; an empty description if it is not in `ISAS`."""
    name = triple.partition("-")[0]
    return _BY_NAME.get(name) or ISA(name)


__all__ = [
    "AARCH64", "ISA", "ISAS", "RISCV64", "WASM32", "X86_64", "BfloatRounding", "DotInstruction",
    "Effect", "Level", "MathInstructions", "PoolCode", "Snippet", "TileProduct", "Tiles", "Vectors", "isa_of",
]  # fmt: skip
