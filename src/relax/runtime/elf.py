"""Reading a relocatable ELF object: sections, symbols, relocations, nothing trusted.

Only what compilers emit for functions and data is accepted: 64-bit, little endian, of an architecture in
`machine_code.OBJECTS`. Every offset, index and size is checked against the file before it is used; what is
wrong is said in an ObjectFileError, so that linking need not check again.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from .machine_code import OBJECTS
from .records import dataclass

SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_REL = 2, 4, 8, 9
_SHT_INIT_ARRAYS: Final = {14, 15, 16}
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHF_COMPRESSED = 1, 2, 4, 0x400, 0x800
SHN_UNDEF, SHN_ABS, SHN_COMMON = 0, -1, -2
_RESERVED: Final[dict[int, int]] = {0xFFF1: SHN_ABS, 0xFFF2: SHN_COMMON}
"""Section numbers with a special meaning; negative here, so that real section numbers are unrestricted."""
_SHN_LORESERVE: Final = 0xFF00
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STT_FUNC, STT_TLS, STT_GNU_IFUNC = 2, 6, 10

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_SYM = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")

_MAX_SECTION: Final = 1 << 30
_MAX_ALIGN: Final = 1 << 16


class ObjectFileError(ValueError):
    """The bytes are no object file this loader can take; the message says why."""


@dataclass(frozen=True)
class Section:
    """A run of code or data with one protection and alignment."""

    name: str
    kind: int
    flags: int
    align: int
    size: int
    contents: memoryview
    """The bytes; empty for a section that is zeros (SHT_NOBITS)."""

    @property
    def loaded(self) -> bool:
        """True if the section takes memory at run time."""
        return bool(self.flags & SHF_ALLOC) and self.size > 0 and not self.name.startswith((".eh_frame", ".note"))


class Symbol(NamedTuple):
    """A name for a place in a section, or for something the object expects from outside."""

    name: str
    section: int
    value: int
    size: int
    binding: int
    kind: int


class Relocation(NamedTuple):
    """A place whose bytes depend on where symbols end up."""

    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True)
class ObjectFile:
    """A parsed relocatable object."""

    machine: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: dict[int, tuple[Relocation, ...]]
    """Section index → relocations of that section; only sections that are loaded."""
    flags: int = 0
    """Facts about the code that an architecture declares (``e_flags``)."""


def parse_object(data: bytes) -> ObjectFile:
    """Read a relocatable ELF file."""
    view = memoryview(data)
    machine, flags, headers, names_index = _read_headers(view)
    names = bytes(_section_bytes(view, headers, names_index, "section name table"))
    sections = tuple(_read_section(view, names, i, header) for i, header in enumerate(headers))
    for section in sections:
        _check_section(section)
    tables = [i for i, header in enumerate(headers) if header[1] == SHT_SYMTAB]
    if len(tables) > 1:
        raise ObjectFileError("it has more than one symbol table")
    symbols = _read_symbols(view, headers, sections, tables[0]) if tables else ()
    relocations: dict[int, tuple[Relocation, ...]] = {}
    for i, header in enumerate(headers):
        target = header[7]
        if header[1] not in (SHT_RELA, SHT_REL) or not (0 < target < len(sections)):
            continue
        if not sections[target].loaded:
            continue
        if header[1] == SHT_REL:
            raise ObjectFileError(f"section {sections[i].name} has relocations without addends")
        if header[6] not in tables:
            raise ObjectFileError(f"section {sections[i].name} refers to no symbol table")
        records = _read_relocations(view, headers, i, sections[target], len(symbols))
        relocations[target] = relocations.get(target, ()) + records
    return ObjectFile(machine, sections, symbols, relocations, flags)


_Header = tuple[int, ...]  # name, type, flags, addr, offset, size, link, info, addralign, entsize


def _read_headers(view: memoryview) -> tuple[int, int, list[_Header], int]:
    if len(view) < _EHDR.size:
        raise ObjectFileError(f"it is truncated: {len(view)} bytes are less than an ELF header")
    ident, kind, machine, _, _, _, table, flags, *_rest = _EHDR.unpack_from(view)
    entry_size, count, names = _rest[-3:]
    if ident[:4] != b"\x7fELF":
        raise ObjectFileError("it is no ELF file")
    if ident[4] != 2 or ident[5] != 1:
        raise ObjectFileError("it is no 64-bit little-endian ELF file")
    if kind != 1:
        raise ObjectFileError("it is no relocatable object (but a program or a shared library)")
    if machine not in OBJECTS:
        raise ObjectFileError(f"it is for an unknown machine (ELF number {machine})")
    if entry_size != _SHDR.size or not table:
        raise ObjectFileError("its section table is malformed")
    if count == 0:  # the true number is in the first header when it does not fit 16 bits
        _check_range(view, table, _SHDR.size, "section table")
        count = _SHDR.unpack_from(view, table)[5]
    _check_range(view, table, count * _SHDR.size, "section table")
    headers: list[_Header] = [_SHDR.unpack_from(view, table + i * _SHDR.size) for i in range(count)]
    if names == 0xFFFF and headers:
        names = headers[0][6]
    return machine, flags, headers, names


def _check_range(view: memoryview, offset: int, size: int, name: str) -> None:
    if offset > len(view) or size > len(view) - offset:
        raise ObjectFileError(f"it is truncated: the {name} ends at {offset + size}, the file at {len(view)}")


def _section_bytes(view: memoryview, headers: list[_Header], index: int, name: str) -> memoryview:
    if not 0 < index < len(headers):
        raise ObjectFileError(f"it has no {name}")
    _, kind, _, _, offset, size, *_ = headers[index]
    if kind == SHT_NOBITS:
        raise ObjectFileError(f"its {name} has no contents")
    _check_range(view, offset, size, name)
    return view[offset : offset + size]


def _read_section(view: memoryview, names: bytes, index: int, header: _Header) -> Section:
    name_at, kind, flags, _, offset, size, _, _, align, _ = header
    if index == 0:
        return Section("", 0, 0, 1, 0, view[:0])
    name = _string(names, name_at, f"name of section {index}")
    if align & (align - 1) or align > _MAX_ALIGN:
        raise ObjectFileError(f"section {name} has alignment {align}")
    if size > _MAX_SECTION:
        raise ObjectFileError(f"section {name} is {size} bytes long")
    if kind == SHT_NOBITS or kind == 0:
        contents = view[:0]
    else:
        _check_range(view, offset, size, f"section {name}")
        contents = view[offset : offset + size]
    return Section(name, kind, flags, max(align, 1), size, contents)


def _check_section(section: Section) -> None:
    if not section.loaded:
        return
    if section.flags & SHF_TLS:
        raise ObjectFileError(f"section {section.name} holds thread-local data, which is not supported")
    if section.flags & SHF_COMPRESSED:
        raise ObjectFileError(f"section {section.name} is compressed")
    if section.kind in _SHT_INIT_ARRAYS:
        raise ObjectFileError(f"section {section.name} holds static constructors, which are not supported")
    if section.flags & SHF_WRITE and section.flags & SHF_EXECINSTR:
        raise ObjectFileError(f"section {section.name} is both writable and executable")


def _string(table: bytes, offset: int, name: str) -> str:
    end = table.find(b"\0", offset) if offset < len(table) else -1
    if end < 0:
        raise ObjectFileError(f"the {name} lies outside its string table")
    return table[offset:end].decode("utf-8", "replace")


def _read_symbols(
    view: memoryview, headers: list[_Header], sections: tuple[Section, ...], index: int
) -> tuple[Symbol, ...]:
    table = _section_bytes(view, headers, index, "symbol table")
    if len(table) % _SYM.size:
        raise ObjectFileError("its symbol table is malformed")
    names = bytes(_section_bytes(view, headers, headers[index][6], "symbol name table"))
    symbols: list[Symbol] = []
    for name_at, info, _, section, value, size in _SYM.iter_unpack(table):
        name = _string(names, name_at, f"name of symbol {len(symbols)}")
        symbol = Symbol(name, _section_number(section), value, size, info >> 4, info & 15)
        _check_symbol(symbol, sections)
        symbols.append(symbol)
    return tuple(symbols)


def _section_number(number: int) -> int:
    return _RESERVED.get(number, number)


def _check_symbol(symbol: Symbol, sections: tuple[Section, ...]) -> None:
    if symbol.kind in (STT_TLS, STT_GNU_IFUNC):
        raise ObjectFileError(f"symbol {symbol.name} is thread-local or indirect, which is not supported")
    if symbol.section >= _SHN_LORESERVE:
        raise ObjectFileError(f"symbol {symbol.name} has section index {symbol.section:#x}")
    if symbol.section < 0:
        if symbol.section == SHN_COMMON and symbol.size > _MAX_SECTION:
            raise ObjectFileError(f"symbol {symbol.name} is {symbol.size} bytes long")
    elif symbol.section >= len(sections):
        raise ObjectFileError(f"symbol {symbol.name} lies in section {symbol.section}, which there is not")
    elif symbol.section and symbol.value > sections[symbol.section].size:
        raise ObjectFileError(f"symbol {symbol.name} lies outside section {sections[symbol.section].name}")


def _read_relocations(
    view: memoryview, headers: list[_Header], index: int, target: Section, symbols: int
) -> tuple[Relocation, ...]:
    table = _section_bytes(view, headers, index, f"relocations of {target.name}")
    if len(table) % _RELA.size:
        raise ObjectFileError(f"the relocations of {target.name} are malformed")
    if len(table) and target.kind == SHT_NOBITS:
        raise ObjectFileError(f"section {target.name} has no contents to relocate")
    relocations = tuple([
        Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend)
        for offset, info, addend in _RELA.iter_unpack(table)
    ])  # fmt: skip
    for relocation in relocations:
        if relocation.symbol >= symbols:
            raise ObjectFileError(f"a relocation of {target.name} names symbol {relocation.symbol} of {symbols}")
        if relocation.offset >= target.size:
            raise ObjectFileError(f"a relocation of {target.name} lies outside it")
    return relocations
