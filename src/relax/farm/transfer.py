"""Entries of the cache in one file, to take them to another machine: `export_entries`, `Imported`.

    magic            "relax cache 1" and a line end
    description      length (4 bytes) and JSON: texts that say for which machine and by which versions it was made
    per entry        length of its name (1 byte, not 0), the name, its size (8 bytes), its contents, their checksum
    end              0 (1 byte), number of entries (8 bytes)

Numbers are little-endian. Contents are those of the entry's file; the checksum (32 bytes) is that of its name, a line
end and the contents. A file may be damaged or made with intent: names, sizes and checksums are checked before anything
is written, and the checksum of each entry once more before it gets its name in the store. But the kernels in a file
will run: whoever imports it must trust whoever made it, as for a program.
"""

from __future__ import annotations

import io
import json
import os
import struct
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from . import cache
from .store import LARGEST_FILE, Key, body_of, digest_state, is_intact

MAGIC: Final = b"relax cache 1\n"
_LENGTH: Final = struct.Struct("<I")
_SIZE: Final = struct.Struct("<Q")
_CHECKSUM: Final = 32
_LONGEST: Final = 1 << 16
"""Maximum size of a description in bytes."""
_BLOCK: Final = 1 << 20


class TransferError(ValueError):
    """Raised for a file that is not one of exported entries, or is damaged; its text says how."""


class Totals(NamedTuple):
    """Number of entries, and bytes of their contents."""

    entries: int
    size: int


class EntryRange(NamedTuple):
    """Range of bytes of an entry's contents in a file."""

    key: Key
    offset: int
    size: int


def export_entries(path: Path, description: Mapping[str, str], keys: Iterable[Key]) -> Totals:
    """Write entries of the cache to a file, which appears when it is whole. Entries that are gone are left out.

    Raises OSError if the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "xb") as file:
            totals = _write(file, description, keys)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return totals


def _write(file: io.BufferedWriter, description: Mapping[str, str], keys: Iterable[Key]) -> Totals:
    text = json.dumps(dict(description)).encode()
    file.write(MAGIC + _LENGTH.pack(len(text)) + text)
    count = total = 0
    for key in keys:
        try:
            entry, size = cache.open_entry(key)
        except OSError:
            continue
        with entry:
            name = key.name.encode()
            file.write(bytes([len(name)]) + name + _SIZE.pack(size))
            state = digest_state([name, b"\n"], _CHECKSUM)
            for block in _blocks(entry, size):
                state.update(block)
                file.write(block)
            file.write(state.digest())
        count, total = count + 1, total + size
    file.write(b"\0" + _SIZE.pack(count))
    return Totals(count, total)


class Imported:
    """A file of exported entries that was read and checked, except for the contents of the entries."""

    def __init__(self, file: io.BufferedReader) -> None:
        """Read a file. Raises TransferError if it is damaged, OSError if it cannot be read."""
        self._file = file
        self._end = os.fstat(file.fileno()).st_size
        self.description = self._description()
        """Texts that say for which machine and by which versions the file was made."""
        self._ranges = {place.key: place for place in self._read_ranges()}

    def keys(self) -> list[Key]:
        """Keys of the entries, in the order of the file."""
        return list(self._ranges)

    def size_of(self, key: Key) -> int:
        """Size of an entry in bytes."""
        return self._ranges[key].size

    @property
    def ranges(self) -> Mapping[Key, EntryRange]:
        """Range of bytes of each entry's contents in the file."""
        return self._ranges

    def note(self, key: Key) -> bytes:
        """Contents of a note, which must be checked already."""
        self._file.seek(self._ranges[key].offset)
        return body_of(self._take(self._ranges[key].size))

    def write(self, keys: Iterable[Key]) -> Totals:
        """Write entries to the cache; those that are there already are replaced.

        Raises TransferError for a damaged entry, after which the cache holds the entries before it, and OSError if the
        cache cannot be written.
        """
        count = total = 0
        for key, offset, size in map(self._ranges.__getitem__, keys):
            self._file.seek(offset)
            cache.write_entry(key, self._checked(key, size))
            count, total = count + 1, total + size
        return Totals(count, total)

    def check(self) -> None:
        """Compare the contents of all entries with their checksums. Raises TransferError for a damaged entry."""
        for key, offset, size in self._ranges.values():
            self._file.seek(offset)
            blocks = self._checked(key, size)
            if key.kind == cache.PROGRAM:
                for _ in blocks:  # the elements are checked when the program is loaded
                    pass
            elif size > LARGEST_FILE or not is_intact(key, b"".join(blocks)):
                raise TransferError(f"the entry {key.name} is none of a cache")

    def _checked(self, key: Key, size: int) -> Iterator[bytes]:
        """Contents of an entry in blocks; raises TransferError at the end if they are damaged."""
        state = digest_state([key.name.encode(), b"\n"], _CHECKSUM)
        for block in _blocks(self._file, size):
            state.update(block)
            yield block
        if self._file.read(_CHECKSUM) != state.digest():
            raise TransferError(f"the entry {key.name} is damaged")

    def _take(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise TransferError("the file ends too early")
        return data

    def _description(self) -> dict[str, str]:
        if self._file.read(len(MAGIC)) != MAGIC:
            raise TransferError("it was not written by relax cache export, or by another version")
        (length,) = _LENGTH.unpack(self._take(_LENGTH.size))
        if length > _LONGEST:
            raise TransferError("its description is too long")
        try:
            texts = json.loads(self._take(length))
        except (ValueError, RecursionError):
            texts = None
        if not isinstance(texts, dict):
            raise TransferError("its description cannot be read")
        pairs = cast("dict[str, Any]", texts).items()
        return {name: value for name, value in pairs if isinstance(value, str) and value.isprintable()}

    def _read_ranges(self) -> Iterator[EntryRange]:
        count = 0
        while length := self._take(1)[0]:
            try:
                key = Key.named(self._take(length).decode("ascii"))
            except ValueError:
                raise TransferError(f"entry {count} has a name that no entry has") from None
            if key.kind not in cache.KINDS:
                raise TransferError(f"entry {count} is of a kind that this version does not know: {key.kind}")
            (size,) = _SIZE.unpack(self._take(_SIZE.size))
            offset = self._file.tell()
            if size > self._end - offset:
                raise TransferError("the file ends too early")
            self._file.seek(offset + size + _CHECKSUM)
            yield EntryRange(key, offset, size)
            count += 1
        if _SIZE.unpack(self._take(_SIZE.size)) != (count,) or self._file.read(1):
            raise TransferError("the file does not end where it says")


@contextmanager
def imported(path: Path) -> Generator[Imported]:
    """Context manager: open a file of exported entries. Raises as `Imported`."""
    with open(path, "rb") as file:
        yield Imported(file)


def _blocks(file: io.BufferedIOBase, size: int) -> Iterator[bytes]:
    """The next `size` bytes of a file. Raises TransferError if it ends before."""
    while size:
        block = file.read(min(size, _BLOCK))
        if not block:
            raise TransferError("the file ends too early")
        size -= len(block)
        yield block
