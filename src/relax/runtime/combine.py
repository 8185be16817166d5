"""Several objects as one, which is then linked as any other: sections and symbols one after the other, renumbered.

A kernel of a unit becomes a global symbol under its own name. Its body, which checks no arguments, is found by the
other units under that name too (`body_symbol`). All else that an object defines is found by the other
units, and by nobody outside. Units may also call each other's kernels, by these names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Final

from .archive import Archive, Unit
from .elf import (
    SHF_ALLOC,
    SHN_ABS,
    SHN_COMMON,
    SHN_UNDEF,
    STB_GLOBAL,
    STB_LOCAL,
    STB_WEAK,
    STT_FUNC,
    ObjectFile,
    ObjectFileError,
    Relocation,
    Section,
    Symbol,
    parse_object,
)
from .machine_code import title
from .records import dataclass

MESSAGES: Final = "relax.messages"
"""The symbol by which an object reads the messages of its unit."""
FUNCTION: Final = "relax.function."
"""The prefix of an object's kernels, before their numbers."""
BODY: Final = "relax.body."
"""The prefix of the bodies of an object's kernels, before their numbers."""
_KERNEL: Final = "relax.kernel."

_NULL_SECTION: Final = Section("", 0, 0, 1, 0, memoryview(b""))
_NOT_LOADED: Final = 1
"""Number of the section that stands for all sections that take no memory."""


@dataclass
class _Combined:
    """The object that is being put together."""

    sections: list[Section] = field(
        default_factory=lambda: [_NULL_SECTION, replace(_NULL_SECTION, name="a section that is not loaded")]
    )
    symbols: list[Symbol] = field(default_factory=lambda: [Symbol("", SHN_UNDEF, 0, 0, STB_LOCAL, 0)])
    relocations: dict[int, tuple[Relocation, ...]] = field(default_factory=dict[int, tuple[Relocation, ...]])
    defined: dict[str, int] = field(default_factory=dict[str, int])
    """Symbols the units offer each other, by name."""
    weak: set[str] = field(default_factory=set[str])
    """Those of them that another unit's definition replaces."""
    replaceable: list[int] = field(default_factory=list[int])
    """The weak definitions: they are what is defined under their name, for their own unit as well."""
    wanted: dict[tuple[str, bool], int] = field(default_factory=dict[tuple[str, bool], int])
    """Symbols that are not defined, by name and by whether they may be absent."""

    def add(self, symbol: Symbol) -> int:
        self.symbols.append(symbol)
        return len(self.symbols) - 1


def body_symbol(name: str) -> str:
    """The symbol by which one unit calls the body of another unit's kernel."""
    return f"{_KERNEL}{name}"


def combine(archive: Archive, prefix: str) -> ObjectFile:
    """One object with every unit of an archive; its kernels are the global symbols ``prefix + name``.

    Raises ObjectFileError if there are no objects, or objects for several machines.
    """
    shared = {unit.object for unit in archive.units if not unit.names}
    parsed = [
        _parsed_support(data) if index in shared else parse_object(data) for index, data in enumerate(archive.objects)
    ]
    if not parsed:
        raise ObjectFileError("it has no objects")
    machine = parsed[0].machine
    for obj in parsed:
        if obj.machine != machine:
            raise ObjectFileError(f"one object is for {title(machine)}, another for {title(obj.machine)}")
    into = _Combined()
    placed = [_add_unit(into, unit, parsed[unit.object], prefix) for unit in archive.units]
    final = list(range(len(into.symbols)))
    for (name, _), index in into.wanted.items():
        final[index] = into.defined.get(name, index)
    for index in into.replaceable:
        final[index] = into.defined[into.symbols[index].name]
    for unit, (sections, symbols) in zip(archive.units, placed, strict=True):
        targets = [final[index] for index in symbols]
        for section, group in parsed[unit.object].relocations.items():
            into.relocations[sections[section]] = tuple([
                Relocation(offset, kind, targets[symbol], addend) for offset, kind, symbol, addend in group
            ])  # fmt: skip
    return ObjectFile(machine, tuple(into.sections), tuple(into.symbols), into.relocations, parsed[0].flags)


@lru_cache(maxsize=8)
def _parsed_support(data: bytes) -> ObjectFile:
    """An object without kernels. Remembered: it is in every archive."""
    return parse_object(data)


def _add_unit(into: _Combined, unit: Unit, obj: ObjectFile, prefix: str) -> tuple[list[int], list[int]]:
    """Add the sections and symbols of a unit; their numbers in the combined object, by those in its own."""
    sections: list[int] = []
    for section in obj.sections:
        sections.append(len(into.sections) if section.loaded else _NOT_LOADED)
        if section.loaded:
            into.sections.append(section)
    symbols = [0]
    kernels = {f"{FUNCTION}{i}": f"{prefix}{name}" for i, name in enumerate(unit.names)}
    bodies = {f"{BODY}{i}": body_symbol(name) for i, name in enumerate(unit.names)}
    for symbol in obj.symbols[1:]:
        if symbol.section == SHN_UNDEF:
            symbols.append(_wanted(into, unit, symbol))
        elif symbol.binding == STB_LOCAL:
            symbols.append(into.add(_moved(symbol, sections)))
        elif symbol.name in kernels:
            name = kernels.pop(symbol.name)
            if symbol.kind != STT_FUNC or symbol.section in (SHN_ABS, SHN_COMMON):
                raise ObjectFileError(f"the kernel {name.removeprefix(prefix)} is no function")
            symbols.append(into.add(_moved(symbol, sections)._replace(name=name, binding=STB_GLOBAL)))
            into.defined[name] = symbols[-1]
        else:
            local = symbol._replace(name=bodies.get(symbol.name, symbol.name), binding=STB_LOCAL)
            symbols.append(into.add(_moved(local, sections)))
            _offer(into, local.name, symbol.binding, symbols[-1])
            if symbol.binding == STB_WEAK:
                into.replaceable.append(symbols[-1])
    if kernels:
        names = ", ".join(name.removeprefix(prefix) for name in kernels.values())
        raise ObjectFileError(f"object {unit.object} does not define all of its kernels: {names}")
    return sections, symbols


def _offer(into: _Combined, name: str, binding: int, number: int) -> None:
    """Have a symbol be found by the other units; a weak one only if no other defines it."""
    if name not in into.defined or name in into.weak:
        into.defined[name] = number
        (into.weak.add if binding == STB_WEAK else into.weak.discard)(name)
    elif binding != STB_WEAK:
        raise ObjectFileError(f"two units define {name}")


def _moved(symbol: Symbol, sections: Sequence[int]) -> Symbol:
    return symbol if symbol.section < 0 else symbol._replace(section=sections[symbol.section])


def _wanted(into: _Combined, unit: Unit, symbol: Symbol) -> int:
    """The number of a symbol that its object does not define."""
    if symbol.name == MESSAGES:
        text = "".join(f"{message}\0" for message in unit.messages) + "\0"
        data = memoryview(text.encode("utf-8", "replace"))
        into.sections.append(Section(MESSAGES, 1, SHF_ALLOC, 1, len(data), data))
        return into.add(Symbol(MESSAGES, len(into.sections) - 1, 0, len(data), STB_LOCAL, 0))
    key = symbol.name, symbol.binding == STB_WEAK
    if key not in into.wanted:
        into.wanted[key] = into.add(symbol)
    return into.wanted[key]
