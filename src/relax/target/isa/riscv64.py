"""RISC-V of 64 bits (RV64), with the vector extension V.

Machine code is generated and exported as libraries, but the runtime does not load it, and parallel loops run on the
calling thread: the pool needs atomic operations (extension A), which no target feature guarantees. Multiplication of
bytes in 32-bit lanes (Zvqdotq) is not ratified.

Sources: The RISC-V Instruction Set Manual, volume I (chapter 31, "V": VLEN of at least 128 bits, 32 registers; "Zvl*"
for longer ones); LLVM's RISCVFeatures.td. Vectors of a fixed length are in groups of registers (LMUL): 16 float32 fill
one register of 512 bits (``e32, m1``), two of 256 or four of 128.
"""

from __future__ import annotations

from typing import Final

from .description import ISA, Vectors

RISCV64: Final = ISA(
    name="riscv64",
    vectors=(
        Vectors(512, 32, "+v,+zvl512b", r"e32, m1,"),
        Vectors(256, 32, "+v,+zvl256b", r"e32, m2,"),
        Vectors(128, 32, "+v", r"e32, m4,"),
    ),
    abi_by_features=True,  # LP64 without D, LP64D with it
    comment="#",
)
"""RV64."""
