"""The architectures whose machine code the runtime loads or exports, as values: rows of `ARCHITECTURES` and `OBJECTS`.

The facts that loading, checking, linking and running need of a processor stand here and in no other file of
`relax.runtime`: names, relocations, feature names of Linux, control registers. `relax.target.isa` refers to these rows.

Sources: System V ABI for x86-64 (psABI 1.0, chapter 4: relocations), for AArch64 (AAELF64) and for RISC-V (psABI 1.0,
chapter 8: ELF object files); Linux'
arch/x86/kernel/cpu/capflags.c and arch/arm64/kernel/cpuinfo.c (names in /proc/cpuinfo); glibc's fenv.h (`fenv_t`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from .records import dataclass

Image = bytearray | memoryview
"""Memory in which code and data are placed."""


class OutOfReachError(Exception):
    """The target of a relocation does not fit into the field of the instruction."""


Apply = Callable[[Image, int, int, int], None]
"""Write a relocation: the image, the offset of the place in it, the address of the place, symbol plus addend."""


@dataclass(frozen=True, eq=False)
class RelocationKind:
    """A type of relocation: the bytes that it changes, and how."""

    width: int
    """Bytes at the place; 0 for a relocation that changes nothing."""
    apply: Apply
    through: str = ""
    """``"stub"``: an undefined symbol is called through one; ``"table"``: the target is its table entry."""


@dataclass(frozen=True, eq=False)
class FloatMode:
    """The place of the bits of a C library's ``fenv_t`` that replace subnormal numbers by zero (glibc and musl)."""

    size: int
    """Bytes of ``fenv_t``."""
    offset: int
    """Offset of the 32-bit word with the mode."""
    bits: int
    """Bits that are set while operands and results are flushed."""


@dataclass(frozen=True, eq=False)
class TileRegisters:
    """Registers that hold tiles of matrices, which Linux saves only for processes that ask."""

    prefix: str
    """Beginning of LLVM's names of the features that need them."""
    request: tuple[int, int, int]
    """Arguments of ``syscall`` by which a process asks for them."""


@dataclass(frozen=True, eq=False)
class FloatABI:
    """Convention for float arguments that an object declares in its ELF header (``e_flags``)."""

    mask: int
    """Bits of the field."""
    value: int
    """The field's value in C libraries of Linux."""
    features: str
    """Target features with which LLVM uses this convention."""


@dataclass(frozen=True, eq=False)
class ObjectFormat:
    """ELF objects of an architecture, of which a linker makes shared libraries, on machines of any architecture."""

    title: str
    """The name in messages."""
    elf_machine: int
    """The number of the architecture in ELF headers (``e_machine``)."""
    absolute: int
    """Number of the relocation that stores an address of 64 bits."""
    triple: str
    """The target of cross compilers for Linux, and the prefix of their commands."""
    float_abi: FloatABI | None = None
    """The convention that libraries of Linux follow; None where objects do not declare it."""


@dataclass(frozen=True, eq=False)
class Architecture:
    """An architecture whose machine code the runtime loads."""

    objects: ObjectFormat
    """Its objects."""
    names: tuple[str, ...]
    """First words of target triples, and names of machines (``uname -m``), in lower case."""
    relocations: Mapping[int, RelocationKind]
    """Supported types of relocations, by number."""
    stub: Callable[[int], bytes]
    """Machine code of `STUB_SIZE` bytes that jumps to an address."""
    checked_features: frozenset[str]
    """LLVM's names of the features for which kernels are compiled; tuning and system instructions are left out."""
    cpuinfo_names: Mapping[str, str]
    """LLVM's name of a feature → the word in Linux' /proc/cpuinfo, where they differ."""
    float_mode: FloatMode
    """The mode for subnormal numbers, as C libraries of Linux store it."""
    tiles: TileRegisters | None = None
    """The registers that hold tiles of matrices; None if the architecture has none."""

    @property
    def elf_machine(self) -> int:
        """The number of the architecture in ELF headers."""
        return self.objects.elf_machine


STUB_SIZE: Final = 16
"""Bytes of a stub."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ------------------------------------------------------------------------------ relocations


def _absolute(fmt: str) -> Apply:
    def apply(image: Image, offset: int, place: int, target: int) -> None:
        if fmt == "<Q":
            target &= 0xFFFFFFFFFFFFFFFF
        struct.pack_into(fmt, image, offset, target)

    return apply


def _relative(fmt: str) -> Apply:
    def apply(image: Image, offset: int, place: int, target: int) -> None:
        struct.pack_into(fmt, image, offset, target - place)

    return apply


def _stub_x86_64(address: int) -> bytes:
    """``jmp [rip]`` and the address."""
    return b"\xff\x25\0\0\0\0" + struct.pack("<Q", address) + b"\xcc\xcc"


_X86_64_RELOCATIONS: Final = {
    0: RelocationKind(0, _absolute("<Q")),  # NONE
    1: RelocationKind(8, _absolute("<Q")),  # 64
    2: RelocationKind(4, _relative("<i")),  # PC32
    4: RelocationKind(4, _relative("<i"), "stub"),  # PLT32
    9: RelocationKind(4, _relative("<i"), "table"),  # GOTPCREL
    10: RelocationKind(4, _absolute("<I")),  # 32
    11: RelocationKind(4, _absolute("<i")),  # 32S
    24: RelocationKind(8, _relative("<q")),  # PC64
    41: RelocationKind(4, _relative("<i"), "table"),  # GOTPCRELX
    42: RelocationKind(4, _relative("<i"), "table"),  # REX_GOTPCRELX
}


def _stub_aarch64(address: int) -> bytes:
    """``ldr x16, 8; br x16`` and the address."""
    return struct.pack("<IIQ", 0x58000050, 0xD61F0200, address)


def _field(image: Image, offset: int, value: int, low: int, bits: int) -> None:
    """Put `value` into a bit field of the instruction at `offset`."""
    (word,) = struct.unpack_from("<I", image, offset)
    mask = (1 << bits) - 1
    struct.pack_into("<I", image, offset, word & ~(mask << low) | (value & mask) << low)


def _scaled(value: int, shift: int, bits: int) -> int:
    """A signed displacement in units of ``1 << shift`` that must fit `bits`."""
    if value & ((1 << shift) - 1) or not -(1 << (bits - 1)) <= value >> shift < 1 << (bits - 1):
        raise OutOfReachError
    return value >> shift


def _branch(low: int, bits: int) -> Apply:
    def apply(image: Image, offset: int, place: int, target: int) -> None:
        _field(image, offset, _scaled(target - place, 2, bits), low, bits)

    return apply


def _adr(shift: int) -> Apply:
    def apply(image: Image, offset: int, place: int, target: int) -> None:
        delta = (target >> shift) - (place >> shift)
        if not -(1 << 20) <= delta < 1 << 20:
            raise OutOfReachError
        _field(image, offset, delta, 29, 2)
        _field(image, offset, delta >> 2, 5, 19)

    return apply


def _low12(shift: int) -> Apply:
    def apply(image: Image, offset: int, place: int, target: int) -> None:
        if target & ((1 << shift) - 1):
            raise OutOfReachError
        _field(image, offset, (target & 0xFFF) >> shift, 10, 12)

    return apply


def _movw(shift: int, checked: bool) -> Apply:
    def apply(image: Image, offset: int, place: int, target: int) -> None:
        if checked and target >> (shift + 16):
            raise OutOfReachError
        _field(image, offset, target >> shift, 5, 16)

    return apply


_AARCH64_RELOCATIONS: Final = {
    0: RelocationKind(0, _absolute("<Q")),  # NONE
    257: RelocationKind(8, _absolute("<Q")),  # ABS64
    258: RelocationKind(4, _absolute("<I")),  # ABS32
    260: RelocationKind(8, _relative("<q")),  # PREL64
    261: RelocationKind(4, _relative("<i")),  # PREL32
    263: RelocationKind(4, _movw(0, True)),  # MOVW_UABS_G0
    264: RelocationKind(4, _movw(0, False)),
    265: RelocationKind(4, _movw(16, True)),
    266: RelocationKind(4, _movw(16, False)),
    267: RelocationKind(4, _movw(32, True)),
    268: RelocationKind(4, _movw(32, False)),
    269: RelocationKind(4, _movw(48, True)),  # MOVW_UABS_G3
    273: RelocationKind(4, _branch(5, 19)),  # LD_PREL_LO19
    274: RelocationKind(4, _adr(0)),  # ADR_PREL_LO21
    275: RelocationKind(4, _adr(12)),  # ADR_PREL_PG_HI21
    276: RelocationKind(4, _adr(12)),  # ADR_PREL_PG_HI21_NC
    277: RelocationKind(4, _low12(0)),  # ADD_ABS_LO12_NC
    278: RelocationKind(4, _low12(0)),  # LDST8_ABS_LO12_NC
    279: RelocationKind(4, _branch(5, 14)),  # TSTBR14
    280: RelocationKind(4, _branch(5, 19)),  # CONDBR19
    282: RelocationKind(4, _branch(0, 26), "stub"),  # JUMP26
    283: RelocationKind(4, _branch(0, 26), "stub"),  # CALL26
    284: RelocationKind(4, _low12(1)),  # LDST16_ABS_LO12_NC
    285: RelocationKind(4, _low12(2)),  # LDST32_ABS_LO12_NC
    286: RelocationKind(4, _low12(3)),  # LDST64_ABS_LO12_NC
    299: RelocationKind(4, _low12(4)),  # LDST128_ABS_LO12_NC
    311: RelocationKind(4, _adr(12), "table"),  # ADR_GOT_PAGE
    312: RelocationKind(4, _low12(3), "table"),  # LD64_GOT_LO12_NC
    314: RelocationKind(4, _relative("<i"), "stub"),  # PLT32
}


# ------------------------------------------------------------------------------ names of features in /proc/cpuinfo

_X86_64_FEATURES: Final = {
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "lzcnt": "abm",
    "bmi": "bmi1",
    "cx16": "cx16",
    "prfchw": "3dnowprefetch",
    "avx512bf16": "avx512_bf16",
    "avx512bitalg": "avx512_bitalg",
    "avx512fp16": "avx512_fp16",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avxvnni": "avx_vnni",
    "amx-bf16": "amx_bf16",
    "amx-int8": "amx_int8",
    "amx-tile": "amx_tile",
}
_AARCH64_FEATURES: Final = {
    "neon": "asimd",
    "fullfp16": "asimdhp",
    "dotprod": "asimddp",
    "lse": "atomics",
    "rdm": "asimdrdm",
    "crc": "crc32",
    "fp16fml": "asimdfhm",
    "fp-armv8": "fp",
}

# ------------------------------------------------------------------------------ the architectures

X86_64: Final = Architecture(
    objects=ObjectFormat("x86-64", 62, 1, "x86_64-linux-gnu"),
    names=("x86_64", "amd64"),
    relocations=MappingProxyType(_X86_64_RELOCATIONS),
    stub=_stub_x86_64,
    checked_features=_words(
        """
        sse sse2 sse3 ssse3 sse4.1 sse4.2 popcnt lzcnt bmi bmi2 f16c fma movbe avx avx2 avxvnni vaes gfni
        vpclmulqdq avx512f avx512bw avx512cd avx512dq avx512vl avx512ifma avx512vbmi avx512vbmi2 avx512vnni
        avx512bitalg avx512vpopcntdq avx512bf16 avx512fp16 amx-tile amx-bf16 amx-int8
        """
    ),
    cpuinfo_names=MappingProxyType(_X86_64_FEATURES),
    float_mode=FloatMode(32, 28, 1 << 15 | 1 << 6),  # MXCSR: flush results (FTZ), take operands for zero (DAZ)
    tiles=TileRegisters("amx-", (158, 0x1023, 18)),  # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA)
)

AARCH64: Final = Architecture(
    objects=ObjectFormat("AArch64", 183, 257, "aarch64-linux-gnu"),
    names=("aarch64", "arm64"),
    relocations=MappingProxyType(_AARCH64_RELOCATIONS),
    stub=_stub_aarch64,
    checked_features=_words("neon fp-armv8 fullfp16 dotprod lse rdm crc fp16fml sve sve2 bf16 i8mm"),
    cpuinfo_names=MappingProxyType(_AARCH64_FEATURES),
    float_mode=FloatMode(8, 0, 1 << 24),  # FPCR: FZ, both
)

ARCHITECTURES: Final[Mapping[int, Architecture]] = MappingProxyType(
    {architecture.elf_machine: architecture for architecture in (X86_64, AARCH64)}
)
"""The architectures by their number in ELF headers."""

RISCV64_OBJECTS: Final = ObjectFormat(
    "RISC-V", 243, 2, "riscv64-linux-gnu", FloatABI(mask=6, value=4, features="+m,+a,+f,+d,+c")
)

OBJECTS: Final[Mapping[int, ObjectFormat]] = MappingProxyType(
    {objects.elf_machine: objects for objects in (X86_64.objects, AARCH64.objects, RISCV64_OBJECTS)}
)
"""The formats of objects that are exported, by the number in ELF headers. Not all of them are loaded."""

_BY_NAME: Final = {name: architecture for architecture in ARCHITECTURES.values() for name in architecture.names}


def architecture_named(name: str) -> Architecture | None:
    """Return the architecture with `name` among its names, in any case; None if its code cannot be loaded."""
    return _BY_NAME.get(name.lower())


def title(machine: int, otherwise: str = "another machine") -> str:
    """Return the name, for messages, of the architecture with the number `machine` in ELF headers."""
    return OBJECTS[machine].title if machine in OBJECTS else otherwise
