"""Cursor over the bytes of a GGUF file, which checks every length against the bytes that are left before it is used."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, overload

from ...ir import DiagnosticError
from ..tensor_files import INCOMPLETE, Array, broken
from .types import ARRAY, SCALARS, STRING

MOST_NESTED: Final = 1 << 20
"""Maximum number of arrays inside arrays, in a file."""
DEEPEST: Final = 8
"""Maximum nesting depth of arrays."""

_LENGTH: Final = struct.Struct("<Q")
_AT_ONCE: Final = 4096
"""Number of strings whose bytes are copied together when all of an array are read."""


class StringArray(Sequence[str]):
    """Strings of a metadata array, which stay in the file and are decoded when they are read.

    Reading a string that is not UTF-8 raises DiagnosticError; `raw` returns the bytes of any string.
    """

    def __init__(self, data: memoryview, starts: array[int], path: str) -> None:
        self._data, self._starts, self._path = data, starts, path

    def __len__(self) -> int:
        return len(self._starts) - 1

    def raw(self, index: int) -> bytes:
        """Bytes of the string at an index from 0 to the length - 1. Raises IndexError for another one."""
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} strings")
        return bytes(self._data[self._starts[index] + _LENGTH.size : self._starts[index + 1]])

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        return text_of(self.raw(place), self._path, self._starts[place] + _LENGTH.size, f"string {place} of an array")

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _AT_ONCE):
            starts = self._starts[first : first + _AT_ONCE + 1]
            base = starts[0]
            data = bytes(self._data[base : starts[-1]])
            for index, (start, end) in enumerate(pairwise(starts), first):
                try:
                    yield data[start - base + _LENGTH.size : end - base].decode()
                except UnicodeDecodeError:
                    yield self[index]  # raises the error with its place

    def __repr__(self) -> str:
        return f"<{len(self)} strings in {self._path}>"


def text_of(data: bytes, path: str, offset: int, subject: str) -> str:
    """Decode UTF-8. Raises DiagnosticError with the offset of the first wrong byte."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"0x{data[error.start]:02x}"
        raise broken(path, f"{subject} is not UTF-8", offset + error.start, found, "UTF-8") from None


class Cursor:
    """Position in the bytes of a file, `at`; reading moves it, and raises DiagnosticError at the end of the bytes."""

    def __init__(self, data: Array, path: str) -> None:
        self.bytes, self.path = data, path
        self.at = 0
        self._memory: memoryview = data.data
        self._nested = 0

    @property
    def left(self) -> int:
        """Number of bytes after the position."""
        return len(self._memory) - self.at

    def error(self, message: str, offset: int, found: object, expected: str, hint: str = INCOMPLETE) -> DiagnosticError:
        """Return a diagnostic on the bytes at an offset."""
        return broken(self.path, message, offset, found, expected, hint)

    def require(self, size: int, subject: str) -> None:
        """Raise DiagnosticError unless `size` bytes follow."""
        if size > self.left:
            raise self.error(f"the file ends within {subject}", self.at, f"{self.left} bytes", f"{size} bytes")

    def number(self, form: str, subject: str) -> Any:
        """Read a little-endian number; `form` is a format character of Python's module struct, such as "I"."""
        size = struct.calcsize(f"<{form}")
        self.require(size, subject)
        (value,) = struct.unpack_from(f"<{form}", self._memory, self.at)
        self.at += size
        return value

    def count(self, subject: str, least: int, limit: int = 1 << 63) -> int:
        """Read a count of things with `least` bytes each at least, which must be in the file, at most `limit`."""
        at = self.at
        count = self.number("Q", f"the number of {subject}")
        most = min(self.left // least, limit)
        if count > most:
            raise self.error(f"the number of {subject} is too large", at, count, f"at most {most}")
        return count

    def text(self, subject: str, limit: int = 1 << 63) -> str:
        """Read a string of at most `limit` bytes."""
        at = self.at
        size = self.number("Q", f"the length of {subject}")
        if size > min(self.left, limit):
            raise self.error(f"the length of {subject} is too large", at, size, f"at most {min(self.left, limit)}")
        start = self.at
        self.at += size
        return text_of(bytes(self._memory[start : self.at]), self.path, start, subject)

    def value(self, subject: str) -> tuple[str, Any]:
        """Read a metadata value behind its type; return the name of the type, and the value."""
        kind = self.number("I", f"the type of {subject}")
        return self._value(kind, subject, 0)

    def _value(self, kind: int, subject: str, depth: int) -> tuple[str, Any]:
        if kind == STRING:
            return "string", self.text(subject)
        if kind == ARRAY:
            return self._array(subject, depth + 1)
        if kind not in SCALARS:
            raise self.error(f"the type of {subject} is unknown", self.at - 4, kind, "a type from 0 to 12")
        name, form, _ = SCALARS[kind]
        value = self.number(form, subject)
        if name == "bool":
            if value > 1:
                raise self.error(f"{subject} is no boolean", self.at - 1, value, "0 or 1")
            value = bool(value)
        return name, value

    def _array(self, subject: str, depth: int) -> tuple[str, Any]:
        """Read an array: numbers as a view of the file, strings as a StringArray, arrays as a tuple."""
        if depth > DEEPEST:
            raise self.error(f"{subject} is nested too deeply", self.at, f"depth {depth}", f"at most {DEEPEST}")
        kind = self.number("I", f"the element type of {subject}")
        if kind == STRING:
            return "array of string", self._strings(self.count(f"strings of {subject}", 8), subject)
        if kind == ARRAY:
            return self._arrays(self.count(f"arrays of {subject}", 12, MOST_NESTED - self._nested), subject, depth)
        if kind not in SCALARS:
            raise self.error(f"the element type of {subject} is unknown", self.at - 4, kind, "a type from 0 to 12")
        name, _, size = SCALARS[kind]
        start = self.at + 8
        count = self.count(f"elements of {subject}", size)
        self.at = start + count * size
        values: Any = self.bytes[start : self.at]
        if name == "bool":
            wrong = values > 1
            if wrong.any():
                index = int(wrong.argmax())
                raise self.error(f"an element of {subject} is no boolean", start + index, values[index], "0 or 1")
        return f"array of {name}", values.view(name)

    def _arrays(self, count: int, subject: str, depth: int) -> tuple[str, tuple[Any, ...]]:
        self._nested += count
        if self._nested > MOST_NESTED:  # arrays inside of arrays inside of these
            raise self.error(f"{subject} has too many arrays", self.at, self._nested, f"at most {MOST_NESTED}")
        return "array of array", tuple(self._array(subject, depth + 1)[1] for _ in range(count))

    def _strings(self, count: int, subject: str) -> StringArray:
        """Find the strings of an array; their lengths stand between them, so this is a loop, of 0.1 µs a string."""
        starts, at, end, memory = array("Q"), self.at, len(self._memory), self._memory
        read, note = _LENGTH.unpack_from, starts.append
        last = end - _LENGTH.size
        for index in range(count):
            note(at)
            if at > last:
                message = f"the file ends within string {index} of {subject}"
                raise self.error(message, at, f"{end - at} bytes", "8 bytes")
            (size,) = read(memory, at)
            if size > last - at:
                message = f"the length of string {index} of {subject} is too large"
                raise self.error(message, at, size, f"at most {last - at}")
            at += 8 + size
        note(at)
        self.at = at
        return StringArray(memory, starts, self.path)
