"""Description of the machine that code is generated for.

A description is a value: graph passes, TIR lowering and schedule rules read sizes and instructions from it.
`relax.codegen.resolve` creates it from LLVM's and the system's answers.
"""

from __future__ import annotations

from dataclasses import field

from ..runtime.records import dataclass
from .isa import ISA, isa_of


@dataclass(frozen=True)
class Caches:
    """Sizes in bytes of the data caches of one core; 0 for a missing level."""

    l1: int = 32 * 1024
    l2: int = 512 * 1024
    l3: int = 0


@dataclass(frozen=True)
class Machine:
    """Instruction set, registers and caches of one CPU model."""

    triple: str
    """LLVM's target triple, with ELF as object format."""
    cpu: str
    """CPU name in LLVM's spelling; empty for the baseline of the triple."""
    features: str
    """Features in LLVM's form, ``+avx2,-fma``, in addition to those the CPU name implies."""
    vector_bits: int = 128
    vector_registers: int = 16
    fma: bool = False
    """Fused multiply-add in one instruction."""
    half_conversion: bool = False
    """Conversion between float16 and float32 in one instruction."""
    dot_products: frozenset[str] = frozenset()
    """Kinds of dot products with an instruction (`ISA.dots`): ``"u8s8"``, ``"bf16"``."""
    tiles: frozenset[str] = frozenset()
    """Features for tile multiplication (`TileProduct.feature`): ``"int8"``, ``"bf16"``. Only those listed in `features`
    (for the host: all it has), since the system must grant their use.
    """
    caches: Caches = field(default_factory=Caches)
    cores: int = 1

    @property
    def isa(self) -> ISA:
        """Architecture of the triple."""
        return isa_of(self.triple)

    def multiplies_tiles(self, kind: str) -> bool:
        """True if an instruction multiplies tiles of `kind` (`isa.products.TILES`): ``"u8s8"``, ``"bf16"``."""
        tiles = self.isa.tiles
        product = None if tiles is None else tiles.products.get(kind)
        return product is not None and product.feature in self.tiles

    @property
    def pointer_bits(self) -> int:
        """Size of an address in bits."""
        return self.isa.pointer_bits
