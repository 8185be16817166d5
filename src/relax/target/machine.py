"""The description of a machine that code is generated for.

A description is a value: graph passes, TIR lowering and schedule rules read sizes and instructions from it. It is made
by whoever can ask LLVM and the system (`relax.codegen.resolve`), never here.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Caches:
    """Sizes of the data caches one core uses, in bytes; 0 for a level that is absent."""

    l1: int = 32 * 1024
    l2: int = 512 * 1024
    l3: int = 0


@dataclass(frozen=True)
class Machine:
    """Instruction set, registers and caches of one kind of processor."""

    triple: str
    """LLVM's target triple, with ELF as object format."""
    cpu: str
    """The processor's name in LLVM's spelling; empty for the baseline of the triple."""
    features: str
    """LLVM's feature text, ``+avx2,-fma``: features on top of those the processor's name implies."""
    pointer_bits: int = 64
    vector_bits: int = 128
    vector_registers: int = 16
    fma: bool = False
    """Fused multiply-add in one instruction."""
    half_conversion: bool = False
    """float16 to and from float32 in one instruction."""
    dot_products: frozenset[str] = frozenset()
    """Operands of the instructions that add products of neighbouring narrow numbers to 32-bit sums: "u8s8" (vpdpbusd,
    usdot), "s8s8", "u8u8", "bf16" (vdpbf16ps, bfdot)."""
    tiles: frozenset[str] = frozenset()
    """Operands of the instructions that multiply tiles of matrices: "int8" (of bytes with and without a sign), "bf16".
    Only of features that are named, such as the host's: a system must grant their use."""
    caches: Caches = field(default_factory=Caches)
    cores: int = 1
