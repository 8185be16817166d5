"""Linker of one object into a memory image: layout and relocations.

The image has three parts, each on pages of its own: code (with the stubs through which far functions are
called), read-only data (with the table of addresses that position-independent code reads), writable data.
Nothing here touches memory or this machine: an image can be made, and tested, for any base address.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from .elf import (
    AARCH64,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHN_ABS,
    SHN_COMMON,
    SHN_UNDEF,
    STB_LOCAL,
    STB_WEAK,
    X86_64,
    ObjectFile,
    ObjectFileError,
    Relocation,
    Symbol,
)

PAGE: Final = 1 << 16  # the largest page size among the systems of interest
_STUB_SIZE: Final = 16
_COMMON_ALIGN: Final = 64
_MAX_IMAGE: Final = 1 << 31

Image = bytearray | memoryview


@dataclass(frozen=True)
class Segment:
    """A range of the image with one protection: ``"rx"``, ``"r"`` or ``"rw"``."""

    protection: str
    offset: int
    size: int


@dataclass
class ImageLayout:
    """Offsets, from the start of the image, of all that goes into it."""

    sections: dict[int, int] = field(default_factory=dict[int, int])
    stubs: dict[int, int] = field(default_factory=dict[int, int])
    addresses: dict[int, int] = field(default_factory=dict[int, int])
    common: dict[int, int] = field(default_factory=dict[int, int])
    segments: list[Segment] = field(default_factory=list[Segment])
    size: int = 0


def undefined_symbols(obj: ObjectFile) -> list[str]:
    """Names the object needs from outside, weak ones excepted."""
    used = {relocation.symbol for group in obj.relocations.values() for relocation in group}
    names = {
        obj.symbols[i].name
        for i in used
        if i and obj.symbols[i].section == SHN_UNDEF and obj.symbols[i].binding != STB_WEAK
    }
    return sorted(names)


def plan_layout(obj: ObjectFile) -> ImageLayout:
    """Assign offsets to all loaded sections, stubs and address-table entries. Raises ObjectFileError if too large."""
    layout = ImageLayout()
    groups: dict[str, list[int]] = {"rx": [], "r": [], "rw": []}
    for index, section in enumerate(obj.sections):
        if section.loaded:
            flags = section.flags
            groups["rx" if flags & SHF_EXECINSTR else "rw" if flags & SHF_WRITE else "r"].append(index)
    stubs, addresses = _needed(obj)
    at = 0
    for protection, members in groups.items():
        start = at = _align(at, PAGE)
        for index in members:
            at = _align(at, obj.sections[index].align)
            layout.sections[index] = at
            at += obj.sections[index].size
        if protection == "rx":
            at = _align(at, _STUB_SIZE)
            for symbol in stubs:
                layout.stubs[symbol] = at
                at += _STUB_SIZE
        elif protection == "r":
            at = _align(at, 8)
            for symbol in addresses:
                layout.addresses[symbol] = at
                at += 8
        else:
            for index, symbol in enumerate(obj.symbols):
                if symbol.section == SHN_COMMON:
                    layout.common[index] = at = _align(at, _COMMON_ALIGN)
                    at += symbol.size
        if at > start:
            layout.segments.append(Segment(protection, start, at - start))
    layout.size = _align(at, PAGE)
    if layout.size > _MAX_IMAGE:
        raise ObjectFileError(f"it takes {layout.size} bytes of memory, more than relative addresses reach")
    return layout


def _needed(obj: ObjectFile) -> tuple[list[int], list[int]]:
    """Symbols called through a stub, and symbols read through the address table."""
    kinds = _KINDS[obj.machine]
    stubs: dict[int, None] = {}
    addresses: dict[int, None] = {}
    for index, group in obj.relocations.items():
        section = obj.sections[index]
        for relocation in group:
            kind = kinds.get(relocation.kind)
            if kind is None:
                raise ObjectFileError(
                    f"{section.name} has a relocation of unsupported type {relocation.kind}"
                )
            if relocation.offset + kind.width > section.size:
                raise ObjectFileError(f"a relocation of {section.name} lies outside it")
            if kind.through == "stub" and obj.symbols[relocation.symbol].section == SHN_UNDEF:
                stubs[relocation.symbol] = None
            elif kind.through == "table":
                addresses[relocation.symbol] = None
    return list(stubs), list(addresses)


def _align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def link(obj: ObjectFile, layout: ImageLayout, image: Image, base: int, external: Mapping[str, int]) -> None:
    """Write the image, as it is at address `base`, into `image`, which must be zeros.

    `external` gives the addresses of the undefined symbols.
    """
    for index, offset in layout.sections.items():
        contents = obj.sections[index].contents
        image[offset : offset + len(contents)] = contents
    values = [_value(obj, layout, base, external, i, symbol) for i, symbol in enumerate(obj.symbols)]
    for symbol, offset in layout.stubs.items():
        image[offset : offset + _STUB_SIZE] = _STUBS[obj.machine](_known(obj, values, symbol))
    for symbol, offset in layout.addresses.items():
        struct.pack_into("<Q", image, offset, _known(obj, values, symbol))
    kinds = _KINDS[obj.machine]
    for index, group in obj.relocations.items():
        start = layout.sections[index]
        for relocation in group:
            kind = kinds[relocation.kind]
            if kind.width == 0:
                continue
            if kind.through == "table":
                target = base + layout.addresses[relocation.symbol]
            elif kind.through == "stub" and relocation.symbol in layout.stubs:
                target = base + layout.stubs[relocation.symbol]
            else:
                target = _known(obj, values, relocation.symbol)
            place = start + relocation.offset
            try:
                kind.apply(image, place, base + place, target + relocation.addend)
            except (struct.error, _OutOfReachError):
                raise _too_far(obj, index, relocation) from None


def defined_symbols(obj: ObjectFile, layout: ImageLayout) -> dict[str, tuple[int, int]]:
    """Name → (offset in the image, kind) of every symbol the object offers to others."""
    found: dict[str, tuple[int, int]] = {}
    for symbol in obj.symbols:
        if symbol.binding != STB_LOCAL and symbol.section in layout.sections:
            found[symbol.name] = layout.sections[symbol.section] + symbol.value, symbol.kind
    return found


def _value(
    obj: ObjectFile, layout: ImageLayout, base: int, external: Mapping[str, int], index: int, symbol: Symbol
) -> int | None:
    if symbol.section == SHN_UNDEF:
        return 0 if index == 0 else external.get(symbol.name, 0 if symbol.binding == STB_WEAK else None)
    if symbol.section == SHN_ABS:
        return symbol.value
    if symbol.section == SHN_COMMON:
        return base + layout.common[index]
    offset = layout.sections.get(symbol.section)
    return None if offset is None else base + offset + symbol.value


def _known(obj: ObjectFile, values: list[int | None], index: int) -> int:
    value = values[index]
    if value is None:
        symbol = obj.symbols[index]
        where = "is not defined" if symbol.section == SHN_UNDEF else "lies in a section that is not loaded"
        raise ObjectFileError(f"symbol {symbol.name} {where}")
    return value


def _too_far(obj: ObjectFile, section: int, relocation: Relocation) -> ObjectFileError:
    name = obj.symbols[relocation.symbol].name or "a section"
    return ObjectFileError(
        f"{name} is out of reach of {obj.sections[section].name} (relocation type {relocation.kind}); "
        "compile position-independent code"
    )


# ------------------------------------------------------------------------------ kinds of relocation


class _OutOfReachError(Exception):
    pass


_Apply = Callable[[Image, int, int, int], None]  # image, offset in it, address of that, S + A


@dataclass(frozen=True)
class _Kind:
    width: int
    apply: _Apply
    through: str = ""
    """``"stub"``: an undefined symbol is called through one; ``"table"``: the target is its table entry."""


def _absolute(fmt: str) -> _Apply:
    def apply(image: Image, offset: int, place: int, target: int) -> None:
        if fmt == "<Q":
            target &= 0xFFFFFFFFFFFFFFFF
        struct.pack_into(fmt, image, offset, target)

    return apply


def _relative(fmt: str) -> _Apply:
    def apply(image: Image, offset: int, place: int, target: int) -> None:
        struct.pack_into(fmt, image, offset, target - place)

    return apply


def _stub_x86_64(address: int) -> bytes:
    """``jmp [rip]`` and the address."""
    return b"\xff\x25\0\0\0\0" + struct.pack("<Q", address) + b"\xcc\xcc"


_X86_64_KINDS: Final = {
    0: _Kind(0, _absolute("<Q")),  # NONE
    1: _Kind(8, _absolute("<Q")),  # 64
    2: _Kind(4, _relative("<i")),  # PC32
    4: _Kind(4, _relative("<i"), "stub"),  # PLT32
    9: _Kind(4, _relative("<i"), "table"),  # GOTPCREL
    10: _Kind(4, _absolute("<I")),  # 32
    11: _Kind(4, _absolute("<i")),  # 32S
    24: _Kind(8, _relative("<q")),  # PC64
    41: _Kind(4, _relative("<i"), "table"),  # GOTPCRELX
    42: _Kind(4, _relative("<i"), "table"),  # REX_GOTPCRELX
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
        raise _OutOfReachError
    return value >> shift


def _branch(low: int, bits: int) -> _Apply:
    def apply(image: Image, offset: int, place: int, target: int) -> None:
        _field(image, offset, _scaled(target - place, 2, bits), low, bits)

    return apply


def _adr(shift: int) -> _Apply:
    def apply(image: Image, offset: int, place: int, target: int) -> None:
        delta = (target >> shift) - (place >> shift)
        if not -(1 << 20) <= delta < 1 << 20:
            raise _OutOfReachError
        _field(image, offset, delta, 29, 2)
        _field(image, offset, delta >> 2, 5, 19)

    return apply


def _low12(shift: int) -> _Apply:
    def apply(image: Image, offset: int, place: int, target: int) -> None:
        if target & ((1 << shift) - 1):
            raise _OutOfReachError
        _field(image, offset, (target & 0xFFF) >> shift, 10, 12)

    return apply


def _movw(shift: int, checked: bool) -> _Apply:
    def apply(image: Image, offset: int, place: int, target: int) -> None:
        if checked and target >> (shift + 16):
            raise _OutOfReachError
        _field(image, offset, target >> shift, 5, 16)

    return apply


_AARCH64_KINDS: Final = {
    0: _Kind(0, _absolute("<Q")),  # NONE
    257: _Kind(8, _absolute("<Q")),  # ABS64
    258: _Kind(4, _absolute("<I")),  # ABS32
    260: _Kind(8, _relative("<q")),  # PREL64
    261: _Kind(4, _relative("<i")),  # PREL32
    263: _Kind(4, _movw(0, True)),  # MOVW_UABS_G0
    264: _Kind(4, _movw(0, False)),
    265: _Kind(4, _movw(16, True)),
    266: _Kind(4, _movw(16, False)),
    267: _Kind(4, _movw(32, True)),
    268: _Kind(4, _movw(32, False)),
    269: _Kind(4, _movw(48, True)),  # MOVW_UABS_G3
    273: _Kind(4, _branch(5, 19)),  # LD_PREL_LO19
    274: _Kind(4, _adr(0)),  # ADR_PREL_LO21
    275: _Kind(4, _adr(12)),  # ADR_PREL_PG_HI21
    276: _Kind(4, _adr(12)),  # ADR_PREL_PG_HI21_NC
    277: _Kind(4, _low12(0)),  # ADD_ABS_LO12_NC
    278: _Kind(4, _low12(0)),  # LDST8_ABS_LO12_NC
    279: _Kind(4, _branch(5, 14)),  # TSTBR14
    280: _Kind(4, _branch(5, 19)),  # CONDBR19
    282: _Kind(4, _branch(0, 26), "stub"),  # JUMP26
    283: _Kind(4, _branch(0, 26), "stub"),  # CALL26
    284: _Kind(4, _low12(1)),  # LDST16_ABS_LO12_NC
    285: _Kind(4, _low12(2)),  # LDST32_ABS_LO12_NC
    286: _Kind(4, _low12(3)),  # LDST64_ABS_LO12_NC
    299: _Kind(4, _low12(4)),  # LDST128_ABS_LO12_NC
    311: _Kind(4, _adr(12), "table"),  # ADR_GOT_PAGE
    312: _Kind(4, _low12(3), "table"),  # LD64_GOT_LO12_NC
    314: _Kind(4, _relative("<i"), "stub"),  # PLT32
}

_KINDS: Final = {X86_64: _X86_64_KINDS, AARCH64: _AARCH64_KINDS}
_STUBS: Final = {X86_64: _stub_x86_64, AARCH64: _stub_aarch64}
