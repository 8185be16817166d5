"""Archives of compiled kernels: each distinct object once, and a table of the kernels made of them.

    archive   magic (8 bytes) | number of objects | per object: size, bytes | number of units | the units
    unit      index of its object | names of its kernels | messages

A unit is one copy of an object in memory. Objects hold no names, so that kernels that differ only in names share one:
an object defines its kernels as ``relax.function.0``, ``relax.function.1``, … and reads its messages from
``relax.messages``, which the loader binds for each unit. Objects that define other symbols (the support code) offer
them to the other units of the archive. Numbers and strings are written as in the sections of an executable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .elf import ObjectFileError
from .encoding import ExecutableError, Reader, Writer
from .records import dataclass

MAGIC: Final = b"RLXARCH1"

_MAX_COPIED: Final = 1 << 28
"""Limit on the bytes of all units, so that a short malformed table cannot ask for unbounded memory."""


@dataclass(frozen=True)
class Unit:
    """A copy of an object: the names of its kernels, and its messages."""

    object: int
    """Index of the object in the archive."""
    names: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    """Strings of C in the order in which the object counts them; none contains a zero byte."""


@dataclass(frozen=True)
class Archive:
    """Objects, and the units made of them."""

    objects: tuple[bytes, ...]
    units: tuple[Unit, ...]


def is_archive(data: bytes) -> bool:
    """True for bytes that begin as an archive does."""
    return data[: len(MAGIC)] == MAGIC


def write_archive(units: Sequence[tuple[bytes, tuple[str, ...], tuple[str, ...]]]) -> bytes:
    """The archive of units given as (object, names, messages); equal objects are kept once."""
    indices: dict[bytes, int] = {}
    for data, _, _ in units:
        indices.setdefault(data, len(indices))
    w = Writer()
    w.data += MAGIC
    w.uint(len(indices))
    for data in indices:
        w.uint(len(data))
        w.data += data
    w.uint(len(units))
    for data, names, messages in units:
        w.uint(indices[data])
        for texts in (names, messages):
            w.uint(len(texts))
            for text in texts:
                w.text(text)
    return bytes(w.data)


def read_archive(data: bytes) -> Archive:
    """The contents of an archive. Raises ObjectFileError for what is malformed."""
    reader = Reader(memoryview(data), "NATV")
    try:
        if bytes(reader.take(len(MAGIC))) != MAGIC:
            raise reader.fail("it is no archive of kernels")
        objects = reader.many(lambda r: bytes(r.take(r.uint())))
        units = reader.many(_read_unit)
        reader.finish()
    except ExecutableError as error:
        raise ObjectFileError(str(error)) from None
    archive = Archive(objects, units)
    _check(archive)
    return archive


def _read_unit(r: Reader) -> Unit:
    return Unit(r.uint(), r.many(Reader.text), r.many(Reader.text))


def _check(archive: Archive) -> None:
    seen: set[str] = set()
    copied = 0
    for unit in archive.units:
        if unit.object >= len(archive.objects):
            raise ObjectFileError(f"a unit is made of object {unit.object} of {len(archive.objects)}")
        copied += len(archive.objects[unit.object])
        for name in unit.names:
            if name in seen:
                raise ObjectFileError(f"two kernels are called {name}")
            seen.add(name)
        if any("\0" in message for message in unit.messages):
            raise ObjectFileError("a message contains a zero byte")
    if copied > _MAX_COPIED:
        raise ObjectFileError(f"its units are made of {copied} bytes of objects, more than {_MAX_COPIED}")
