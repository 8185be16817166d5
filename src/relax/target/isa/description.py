"""The description of an architecture: an `ISA`, made of the dataclasses before it.

A field that is None says that the architecture has no such thing, or that relax does not support it there. Who reads
the field says so: by a diagnostic, or by a slower way to do the same (a dot product by multiplications, a parallel
loop on the calling thread). Values are compared by identity: there is one of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ...runtime.machine_code import Architecture
from .products import Dot, kind_of


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vector registers that features provide."""

    bits: int
    registers: int
    features: str
    """LLVM's text of the features, ``+avx512f``; empty if every processor of the architecture has them."""
    pattern: str
    """Regular expression for the assembly of an addition of 16 float32 in these registers."""


@dataclass(frozen=True, eq=False)
class DotInstruction:
    """An instruction that computes a dot product in all lanes of its registers."""

    dot: Dot
    """Its meaning."""
    mnemonic: str
    intrinsics: Mapping[int, str]
    """LLVM's intrinsic, by the bits of a register. Its arguments are the sums and two vectors of the narrow numbers."""
    pattern: str = ""
    """Regular expression for the assembly of a processor that has it; empty: its mnemonic.

    Dot products of bytes are recognised in a sum of 16 products, that of bfloat16 in a conversion of 16 float32.
    """


@dataclass(frozen=True, eq=False)
class TileProduct:
    """An instruction that adds the product of two tile registers to a third one."""

    dot: Dot
    """The meaning of the product of one word by another."""
    feature: str
    """LLVM's name of the feature, without the prefix that all have."""
    intrinsic: str
    """LLVM's intrinsic; its arguments are the numbers of three tile registers: sums, left, right."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """Tile registers, and LLVM's intrinsics for them."""

    prefix: str
    """Beginning of LLVM's names of the features."""
    feature: str
    """LLVM's name, without the prefix, of the feature that provides the registers."""
    rows: int
    """Rows of a register, which are also the columns of a matrix of 32-bit sums in it."""
    row_bytes: int
    configure: str
    """Loads the shapes of the registers from memory of 64 bytes."""
    release: str
    load: str
    """Loads a register from rows at a distance in memory."""
    store: str
    products: Mapping[str, TileProduct]
    """The products by kind, ``"u8s8"`` (`products.TILES`)."""


@dataclass(frozen=True, eq=False)
class MathInstructions:
    """Instructions on 16 lanes of float32 by which functions such as exp and tanh are looked up; LLVM's intrinsics."""

    bits: int
    """The bits of their registers: targets whose vectors are narrower do not use them."""
    scale: str
    """x · 2^⌊n⌋, rounded once, under a mask and with a rounding mode (the last two arguments)."""
    permute: str
    """Elements of a vector, by their numbers in another one."""
    permute_two: str
    """Elements of two vectors, by their numbers from 0 to 31 in the second argument."""


@dataclass(frozen=True, eq=False)
class BfloatRounding:
    """An instruction that rounds float32 to bfloat16, subnormal numbers taken for 0."""

    bits: int
    """The bits of the longest operand. Targets whose vectors are narrower round by integers."""
    intrinsic: str
    """LLVM's intrinsic, but for the bits of the operand at its end."""

    def of(self, lanes: int) -> str:
        """Return LLVM's intrinsic for `lanes` float32."""
        return f"{self.intrinsic}.{32 * lanes}"


@dataclass(frozen=True, eq=False)
class Snippet:
    """LLVM text: declarations for a module, and a call."""

    declarations: str
    call: str


@dataclass(frozen=True, eq=False)
class PoolCode:
    """The parts of the thread pool (`relax.native.pool`) that LLVM has no general form for."""

    futex: int
    """Number of the system call in Linux."""
    sched_yield: int
    """Number of the system call in Linux."""
    clock: Snippet
    """A clock that any program may read, in ticks of constant length (i64)."""
    pause: Snippet
    """Tells the processor that the thread waits in a loop."""
    float_mode: str
    """The functions ``i64 @get_mode()`` and ``void @set_mode(i64)``: rounding and subnormal numbers, without flags."""


@dataclass(slots=True)
class Effect:
    """The effect of an instruction that matters to the speed of a loop."""

    loads: int = 0
    stores: int = 0
    stack: bool = False
    """True if the memory it uses is on the stack."""
    flops: int = 0
    """Floating-point operations on elements; a fused multiply-add is two."""
    fmas: int = 0
    """1 for a fused multiply-add."""
    divisions: int = 0
    """1 for a division or a square root."""
    vector_bits: int = 0
    """The width of the vectors that it computes, loads or stores; 0 for a scalar."""
    is_scalar_float: bool = False
    lanes_apart: int = 0
    """The elements that a gather or scatter reads or writes one by one."""
    is_gather: bool = False
    is_scatter: bool = False
    is_shuffle: bool = False
    callee: str = ""
    """The function that it calls; a register if that depends."""
    target: str = ""
    """The label that it branches to."""
    is_conditional: bool = False
    """True if it may also go on without branching."""


@dataclass(frozen=True, eq=False)
class ISA:
    """An architecture: all that relax knows of it beside the code that LLVM makes."""

    name: str
    """The first word of LLVM's triples, as LLVM writes it."""
    aliases: tuple[str, ...] = ()
    """Other first words that mean the same."""
    pointer_bits: int = 64
    vectors: tuple[Vectors, ...] = ()
    """Vector registers, widest first. A processor may have none of them."""
    fma: str | None = r"\bfn?madd"
    """Regular expression for the assembly of a float32 ``llvm.fmuladd`` where it is one instruction; None: never."""
    dots: tuple[DotInstruction, ...] = ()
    tiles: Tiles | None = None
    math: MathInstructions | None = None
    bfloat_rounding: BfloatRounding | None = None
    pool: PoolCode | None = None
    """None: parallel loops run on the calling thread."""
    machine_code: Architecture | None = None
    """The loader's description; None: machine code is written, but not loaded."""
    comment: str | None = None
    """The beginning of a comment in LLVM's assembly; None: the loops in it are not read."""
    effect: Callable[[str, Sequence[str]], Effect] | None = None
    """The effect of an instruction, given its mnemonic and operands; None: instructions are not told apart."""

    @property
    def names(self) -> tuple[str, ...]:
        """The first words of triples that mean this architecture."""
        return (self.name, *self.aliases)

    @property
    def widest(self) -> int:
        """The bits of the widest vector registers; 0 if none are known."""
        return self.vectors[0].bits if self.vectors else 0

    def dot(self, kind: str) -> DotInstruction | None:
        """Return the instruction for a kind of dot product (`products.DOTS`); None if the architecture has none."""
        return next((instruction for instruction in self.dots if kind_of(instruction.dot) == kind), None)


def intrinsics(pattern: str, *widths: int) -> Mapping[int, str]:
    """LLVM's intrinsics whose names differ in the bits of a register: ``"llvm.x86.avx512.vpdpbusd.{}"``."""
    return MappingProxyType({bits: pattern.format(bits) for bits in widths})


__all__ = [
    "ISA", "BfloatRounding", "DotInstruction", "Effect", "MathInstructions", "PoolCode", "Snippet",
    "TileProduct", "Tiles", "Vectors", "intrinsics",
]  # fmt: skip
