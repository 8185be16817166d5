"""Linker of one object into a memory image: layout and relocations.

The image has three parts, each on pages of its own: code (with the stubs through which far functions are
called), read-only data (with the table of addresses that position-independent code reads), writable data.
Nothing here touches memory or this machine: an image can be made, and tested, for any base address.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from .elf import (
    SHF_EXECINSTR,
    SHF_WRITE,
    SHN_ABS,
    SHN_COMMON,
    SHN_UNDEF,
    STB_LOCAL,
    STB_WEAK,
    ObjectFile,
    ObjectFileError,
    Relocation,
    Symbol,
)
from .machine_code import ARCHITECTURES, STUB_SIZE, Image, OutOfReachError
from .records import dataclass

PAGE: Final = 1 << 16  # the largest page size among the systems of interest
_COMMON_ALIGN: Final = 64
_MAX_IMAGE: Final = 1 << 31


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
            at = _align(at, STUB_SIZE)
            for symbol in stubs:
                layout.stubs[symbol] = at
                at += STUB_SIZE
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
    kinds = ARCHITECTURES[obj.machine].relocations
    stubs: dict[int, None] = {}
    addresses: dict[int, None] = {}
    for index, group in obj.relocations.items():
        section = obj.sections[index]
        for relocation in group:
            kind = kinds.get(relocation.kind)
            if kind is None:
                raise ObjectFileError(f"{section.name} has a relocation of unsupported type {relocation.kind}")
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
        image[offset : offset + STUB_SIZE] = ARCHITECTURES[obj.machine].stub(_address_of(obj, values, symbol))
    for symbol, offset in layout.addresses.items():
        struct.pack_into("<Q", image, offset, _address_of(obj, values, symbol))
    kinds = ARCHITECTURES[obj.machine].relocations
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
                target = _address_of(obj, values, relocation.symbol)
            place = start + relocation.offset
            try:
                kind.apply(image, place, base + place, target + relocation.addend)
            except (struct.error, OutOfReachError):
                raise _too_far(obj, index, relocation) from None


def defined_symbols(obj: ObjectFile, layout: ImageLayout) -> dict[str, tuple[int, int]]:
    """Name → (offset in the image, kind) of every symbol the object offers to others."""
    symbols: dict[str, tuple[int, int]] = {}
    for symbol in obj.symbols:
        if symbol.binding != STB_LOCAL and symbol.section in layout.sections:
            symbols[symbol.name] = layout.sections[symbol.section] + symbol.value, symbol.kind
    return symbols


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


def _address_of(obj: ObjectFile, values: list[int | None], index: int) -> int:
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
