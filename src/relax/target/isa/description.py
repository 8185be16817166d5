"""Description of an architecture: an `ISA`, composed of the dataclasses before it.

A field that is None means that the architecture lacks the feature, or that relax does not support it there. The reader
of the field then reports a diagnostic, or falls back to a slower form (a dot product by multiplications, a parallel
loop on the calling thread). Values are compared by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

from ...runtime.machine_code import Architecture
from ...runtime.records import dataclass
from .products import Dot, kind_of


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vector registers provided by CPU features."""

    bits: int
    registers: int
    features: str
    """Required features in LLVM's form, such as ``+avx512f``; empty if all CPUs of the architecture have the registers.
    """
    pattern: str
    """Regular expression matching the assembly of an addition of 16 float32 in these registers."""
    name: str = ""
    """Usual name of the extension; empty for one without."""


@dataclass(frozen=True, eq=False)
class DotInstruction:
    """An instruction that computes a dot product in every lane."""

    dot: Dot
    """Definition of the dot product."""
    mnemonic: str
    intrinsics: Mapping[int, str]
    """LLVM's intrinsic by register width in bits. Its arguments are the sums and two vectors of packed operands."""
    pattern: str = ""
    """Regular expression matching the assembly of a CPU with the instruction; empty: the mnemonic.

    Dot products of bytes are recognised in a sum of 16 products, that of bfloat16 in a conversion of 16 float32.
    """
    pairs: Mapping[int, str] = field(default_factory=dict[int, str])
    """LLVM's intrinsic, by register width in bits, that multiplies int16 and adds pairs of products as int32: for an
    instruction whose results are sums of two products, as int16, and that has no sums as its first argument.
    """
    extension: str = ""
    """Usual name of the extension that tells processors apart; empty where it does not matter."""
    magnitudes: Mapping[int, str] = field(default_factory=dict[int, str])
    """Regular expressions by register width, one of which matches the assembly of the absolute values of 64 bytes on a
    CPU with the instruction; empty: `pattern` says how it is recognised.
    """


@dataclass(frozen=True, eq=False)
class TileProduct:
    """An instruction that multiplies two tile registers and accumulates in a third."""

    dot: Dot
    """Definition of the product of two packed groups."""
    feature: str
    """LLVM's name of the feature, without the common prefix."""
    intrinsic: str
    """LLVM's intrinsic; its arguments are the numbers of three tile registers: sums, left, right."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """Tile registers, and LLVM's intrinsics for them."""

    prefix: str
    """Common prefix of LLVM's feature names."""
    feature: str
    """LLVM's name, without the prefix, of the feature that provides the registers."""
    rows: int
    """Number of rows of a register, equal to the columns of a 32-bit matrix in it."""
    row_bytes: int
    configure: str
    """Loads the shapes of the registers from 64 bytes of memory."""
    release: str
    load: str
    """Loads a register from rows in memory with a given stride."""
    store: str
    products: Mapping[str, TileProduct]
    """Products by kind, such as ``"u8s8"`` (`products.TILES`)."""


@dataclass(frozen=True, eq=False)
class MathInstructions:
    """Instructions on 16 float32 lanes used by table-based functions such as exp and tanh; LLVM's intrinsics."""

    bits: int
    """Register width in bits; targets with narrower vectors do not use them."""
    scale: str
    """x · 2^⌊n⌋, rounded once; the last two arguments are a mask and a rounding mode."""
    permute: str
    """Permutes a vector by indices in another one."""
    permute_two: str
    """Permutes the elements of two vectors by indices from 0 to 31 in the second argument."""


@dataclass(frozen=True, eq=False)
class BfloatRounding:
    """An instruction that rounds float32 to bfloat16, flushing subnormal numbers to 0."""

    bits: int
    """Width in bits of the longest operand. Targets with narrower vectors round by integer arithmetic."""
    intrinsic: str
    """LLVM's intrinsic, without the operand's width at its end."""

    def of(self, lanes: int) -> str:
        """Return LLVM's intrinsic for `lanes` float32."""
        return f"{self.intrinsic}.{32 * lanes}"


@dataclass(frozen=True, eq=False)
class Snippet:
    """LLVM text: module declarations, and a call."""

    declarations: str
    call: str


@dataclass(frozen=True, eq=False)
class PoolCode:
    """Architecture-specific parts of the thread pool (`relax.codegen.support.pool`)."""

    futex: int
    """Linux system call number."""
    sched_yield: int
    """Linux system call number."""
    clock: Snippet
    """A clock readable in user mode, in ticks of constant length (i64)."""
    pause: Snippet
    """Hints to the CPU that the thread spins."""
    float_mode: str
    """The functions ``i64 @get_mode()`` and ``void @set_mode(i64)`` for the rounding and subnormal modes, without
    flags.
    """


@dataclass(slots=True)
class Effect:
    """Effect of an instruction that matters to the speed of a loop."""

    loads: int = 0
    stores: int = 0
    stack: bool = False
    """True if its memory operand is on the stack."""
    flops: int = 0
    """Floating-point operations on elements; a fused multiply-add counts as two."""
    fmas: int = 0
    """1 for a fused multiply-add."""
    divisions: int = 0
    """1 for a division or a square root."""
    vector_bits: int = 0
    """Width in bits of the vectors it computes, loads or stores; 0 for scalars."""
    is_scalar_float: bool = False
    lanes_apart: int = 0
    """Number of elements that a gather or scatter accesses one by one."""
    is_gather: bool = False
    is_scatter: bool = False
    is_shuffle: bool = False
    callee: str = ""
    """Called function; a register for an indirect call."""
    target: str = ""
    """Label of the branch target."""
    is_conditional: bool = False
    """True for a conditional branch."""


@dataclass(frozen=True, eq=False)
class Level:
    """Features that most CPUs of some years have: what is compiled for them runs on each of these CPUs."""

    name: str
    """Name in the names of files."""
    cpu: str
    """LLVM's name of a CPU with no features but these and such as all CPUs with them have."""
    features: frozenset[str]
    """LLVM's names of the features that a CPU of the level must have."""


@dataclass(frozen=True, eq=False)
class ISA:
    """An architecture: all that relax knows about it, apart from LLVM's code generation."""

    name: str
    """First component of LLVM triples, in LLVM's spelling."""
    aliases: tuple[str, ...] = ()
    """Other spellings of the first component."""
    pointer_bits: int = 64
    vectors: tuple[Vectors, ...] = ()
    """Vector registers, widest first. A CPU may have none of them."""
    fma: str | None = r"\bfn?madd"
    """Regular expression matching the assembly of a float32 ``llvm.fmuladd`` that is one instruction; None: never one.
    """
    dots: tuple[DotInstruction, ...] = ()
    levels: tuple[Level, ...] = ()
    """Levels of its CPUs, highest first."""
    tiles: Tiles | None = None
    math: MathInstructions | None = None
    bfloat_rounding: BfloatRounding | None = None
    pool: PoolCode | None = None
    """None: parallel loops run on the calling thread."""
    machine_code: Architecture | None = None
    """The loader's description; None: machine code is generated, but not loaded."""
    abi_by_features: bool = False
    """True if CPU features decide how functions pass floats: support code is then compiled with the target's."""
    comment: str | None = None
    """Start of a comment in LLVM's assembly; None: loops in the assembly are not parsed."""
    effect: Callable[[str, Sequence[str]], Effect] | None = None
    """Effect of an instruction, from its mnemonic and operands; None: instructions are not classified."""

    @property
    def names(self) -> tuple[str, ...]:
        """First components of triples for this architecture."""
        return (self.name, *self.aliases)

    @property
    def widest(self) -> int:
        """Width in bits of the widest vector registers; 0 if none are described."""
        return self.vectors[0].bits if self.vectors else 0

    def dot(self, kind: str) -> DotInstruction | None:
        """Return the instruction for a kind of dot product (`products.DOTS`); None if the architecture has none."""
        return next((instruction for instruction in self.dots if kind_of(instruction.dot) == kind), None)


def intrinsics(pattern: str, *widths: int) -> Mapping[int, str]:
    """LLVM intrinsics whose names differ in the register width: ``"llvm.x86.avx512.vpdpbusd.{}"``."""
    return MappingProxyType({bits: pattern.format(bits) for bits in widths})
