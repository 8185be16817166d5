"""Writing a relocatable ELF object, for a linker: the reverse of `elf`.

Sections of one protection become one section, in their order; symbols and relocations move along.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from .elf import (
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHN_ABS,
    SHN_COMMON,
    SHN_UNDEF,
    SHT_NOBITS,
    SHT_RELA,
    SHT_SYMTAB,
    STB_LOCAL,
    ObjectFile,
    Relocation,
    Section,
    Symbol,
)

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_SYM = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_PROGBITS, _STRTAB = 1, 3
_STT_SECTION: Final = 3
_RESERVED: Final = {SHN_ABS: 0xFFF1, SHN_COMMON: 0xFFF2}

_GROUPS: Final = (
    (".text", _PROGBITS, SHF_ALLOC | SHF_EXECINSTR),
    (".rodata", _PROGBITS, SHF_ALLOC),
    (".data", _PROGBITS, SHF_ALLOC | SHF_WRITE),
    (".bss", SHT_NOBITS, SHF_ALLOC | SHF_WRITE),
)
"""The sections of a merged object: name, kind, flags."""


def merged(obj: ObjectFile) -> ObjectFile:
    """Return the object with its loaded sections merged into four: code, constants, data, and zeros."""
    members: dict[int, list[Section]] = {number: [] for number in range(len(_GROUPS))}
    locations: dict[int, tuple[int, int]] = {}
    sizes, aligns = [0] * len(_GROUPS), [1] * len(_GROUPS)
    for index, section in enumerate(obj.sections):
        if section.loaded:
            group = _group_of(section)
            start = -(-sizes[group] // section.align) * section.align
            locations[index] = group + 1, start
            members[group].append(section)
            sizes[group], aligns[group] = start + section.size, max(aligns[group], section.align)
    sections = [Section("", 0, 0, 1, 0, memoryview(b""))]
    for number, (name, kind, flags) in enumerate(_GROUPS):
        data = b"" if kind == SHT_NOBITS else _joined(members[number])
        sections.append(Section(name, kind, flags, aligns[number], sizes[number], memoryview(data)))
    symbols = [_moved(symbol, locations) for symbol in obj.symbols]
    relocations: dict[int, tuple[Relocation, ...]] = {}
    for index, group_ in obj.relocations.items():
        number, start = locations[index]
        shifted = tuple(relocation._replace(offset=relocation.offset + start) for relocation in group_)
        relocations[number] = relocations.get(number, ()) + shifted
    return ObjectFile(obj.machine, tuple(sections), tuple(symbols), relocations, obj.flags)


def _group_of(section: Section) -> int:
    if section.flags & SHF_EXECINSTR:
        return 0
    if not section.flags & SHF_WRITE:
        return 1
    return 3 if section.kind == SHT_NOBITS else 2


def _joined(sections: Sequence[Section]) -> bytes:
    data = bytearray()
    for section in sections:
        data += bytes(-len(data) % section.align)
        data += section.contents if len(section.contents) else bytes(section.size)
    return bytes(data)


def _moved(symbol: Symbol, locations: dict[int, tuple[int, int]]) -> Symbol:
    if symbol.section <= 0:
        return symbol
    if symbol.section not in locations:  # of a section that takes no memory, which no code refers to
        return Symbol("", SHN_UNDEF, 0, 0, STB_LOCAL, 0)
    section, start = locations[symbol.section]
    kind = 0 if symbol.kind == _STT_SECTION else symbol.kind
    return symbol._replace(section=section, value=symbol.value + start, kind=kind)


def write_object(obj: ObjectFile) -> bytes:
    """The file of an object. Symbols that are not local are seen from outside."""
    order = sorted(range(1, len(obj.symbols)), key=lambda i: obj.symbols[i].binding != STB_LOCAL)
    numbers = {0: 0} | {old: new for new, old in enumerate(order, 1)}
    names = bytearray(b"\0")
    table = bytearray(_SYM.pack(0, 0, 0, 0, 0, 0))
    for old in order:
        symbol = obj.symbols[old]
        at = 0
        if symbol.name:
            at = len(names)
            names += symbol.name.encode() + b"\0"
        section = _RESERVED.get(symbol.section, symbol.section)
        table += _SYM.pack(at, symbol.binding << 4 | symbol.kind, 0, section, symbol.value, symbol.size)
    locals_ = 1 + sum(obj.symbols[old].binding == STB_LOCAL for old in order)

    contents: list[tuple[str, bytes | memoryview, tuple[int, ...]]] = []  # kind, flags, size, link, info, align, entry
    count = len(obj.sections)
    for section in obj.sections[1:]:
        contents.append(
            (section.name, section.contents, (section.kind, section.flags, section.size, 0, 0, section.align, 0))
        )
    contents.append((".note.GNU-stack", b"", (_PROGBITS, 0, 0, 0, 0, 1, 0)))
    symtab = count + 1
    contents.append((".symtab", bytes(table), (SHT_SYMTAB, 0, len(table), symtab + 1, locals_, 8, _SYM.size)))
    contents.append((".strtab", bytes(names), (_STRTAB, 0, len(names), 0, 0, 1, 0)))
    for index, group in sorted(obj.relocations.items()):
        data = b"".join(_RELA.pack(r.offset, numbers[r.symbol] << 32 | r.kind, r.addend) for r in group)
        name = f".rela{obj.sections[index].name}"
        contents.append((name, data, (SHT_RELA, 0, len(data), symtab, index, 8, _RELA.size)))
    return _file(obj.machine, obj.flags, contents)


def _file(machine: int, machine_flags: int, contents: list[tuple[str, bytes | memoryview, tuple[int, ...]]]) -> bytes:
    strings = bytearray(b"\0")
    body = bytearray(_EHDR.size)
    headers = [_SHDR.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)]
    named = [*contents, (".shstrtab", b"", (_STRTAB, 0, 0, 0, 0, 1, 0))]
    for number, (name, data, (kind, flags, size, link, info, align, entry)) in enumerate(named, 1):
        at = len(strings)
        strings += name.encode() + b"\0"
        if number == len(named):
            data, size = bytes(strings), len(strings)
        body += bytes(-len(body) % max(align, 1))
        headers.append(_SHDR.pack(at, kind, flags, 0, len(body), size, link, info, align, entry))
        body += data
    body += bytes(-len(body) % 8)
    _EHDR.pack_into(
        body, 0, b"\x7fELF\x02\x01\x01", 1, machine, 1, 0, 0, len(body), machine_flags, _EHDR.size, 0, 0, _SHDR.size,
        len(headers), len(headers) - 1,
    )  # fmt: skip
    return bytes(body) + b"".join(headers)
