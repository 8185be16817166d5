"""The description of a machine that code is generated for.

A description is a value: graph passes, TIR lowering and schedule rules read sizes and instructions from it. It is made
by whoever can ask LLVM and the system (`relax.codegen.resolve`), never here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .isa import ISA, isa_of


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
    vector_bits: int = 128
    vector_registers: int = 16
    fma: bool = False
    """Fused multiply-add in one instruction."""
    half_conversion: bool = False
    """float16 to and from float32 in one instruction."""
    dot_products: frozenset[str] = frozenset()
    """Kinds of dot products for which the processor has an instruction (`ISA.dots`): ``"u8s8"``, ``"bf16"``."""
    tiles: frozenset[str] = frozenset()
    """Features by which tiles of matrices are multiplied (`TileProduct.feature`): ``"int8"``, ``"bf16"``. Only those
    that are named in `features`, such as the host's: a system must grant their use."""
    caches: Caches = field(default_factory=Caches)
    cores: int = 1

    @property
    def isa(self) -> ISA:
        """The architecture that the triple names."""
        return isa_of(self.triple)

    def multiplies_tiles(self, kind: str) -> bool:
        """True if an instruction multiplies tiles of a kind (`isa.products.TILES`): ``"u8s8"``, ``"bf16"``."""
        tiles = self.isa.tiles
        product = None if tiles is None else tiles.products.get(kind)
        return product is not None and product.feature in self.tiles

    @property
    def pointer_bits(self) -> int:
        """The bits of an address."""
        return self.isa.pointer_bits
