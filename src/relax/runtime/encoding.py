"""The encoding of numbers and strings in a section of an executable: a writer, and a reader that checks every bound.

Numbers are variable-length (7 bits a byte, least significant first; signed ones zig-zag), strings are UTF-8 after
their length. All fixed-width fields are little-endian.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

_DOUBLE = struct.Struct("<d")
_MAX_DEPTH: Final = 200
"""The deepest nesting of values in a file; nothing deeper is written, or read."""

_T = TypeVar("_T")


class ExecutableError(ValueError):
    """A file that is no executable this runtime can run; the message says why."""


class Writer:
    """Appends values to a growing byte string."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.depth = 0

    @contextlib.contextmanager
    def nested(self) -> Generator[None]:
        """One level deeper, as the reader counts them. Raises ExecutableError where it would not read on."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise ExecutableError(f"structural information nested more than {_MAX_DEPTH} deep cannot be saved")
        yield
        self.depth -= 1

    def uint(self, value: int) -> None:
        while value > 0x7F:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def int(self, value: int) -> None:
        self.uint(value << 1 if value >= 0 else (-value << 1) - 1)

    def bool(self, value: bool) -> None:
        self.data.append(value)

    def double(self, value: float) -> None:
        self.data += _DOUBLE.pack(value)

    def text(self, value: str) -> None:
        raw = value.encode("utf-8", "surrogatepass")
        self.uint(len(raw))
        self.data += raw

    def align(self, alignment: int) -> None:
        self.data += bytes(-len(self.data) % alignment)


class Pieces:
    """Contents of a section that are not put together: tensors stay where they are."""

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []
        self.length = 0

    def add(self, part: bytes | memoryview) -> None:
        self.parts.append(part)
        self.length += len(part)

    def align(self, alignment: int) -> None:
        self.add(bytes(-self.length % alignment))


class Reader:
    """Takes values from a section; what does not fit is an ExecutableError."""

    def __init__(self, data: memoryview, section: str) -> None:
        self.data = data
        self.at = 0
        self.section = section
        self.depth = 0
        self.known: dict[bytes, Any] = {}
        """Values that were read, by their bytes, for readers that share what is written alike."""

    def fail(self, problem: str) -> ExecutableError:
        return ExecutableError(f"section {self.section} is malformed at byte {self.at}: {problem}")

    def take(self, count: int) -> memoryview:
        if count > len(self.data) - self.at:
            raise self.fail(f"{count} bytes are missing")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def uint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise self.fail("a number is too long")

    def int(self) -> int:
        value = self.uint()
        return value >> 1 if not value & 1 else -((value + 1) >> 1)

    def bool(self) -> bool:
        return self.byte() != 0

    def double(self) -> float:
        return _DOUBLE.unpack(self.take(8))[0]

    def text(self) -> str:
        try:
            return bytes(self.take(self.uint())).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise self.fail("a string is not UTF-8") from None

    def count(self) -> int:
        """A number of items, each of which takes a byte at least."""
        count = self.uint()
        if count > len(self.data) - self.at:
            raise self.fail(f"{count} items are announced")
        return count

    def nested(self, read: Callable[[Reader], _T]) -> _T:
        """The value that `read` takes, one level deeper. Raises ExecutableError where values nest too deeply."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.fail("values are nested too deeply")
        result = read(self)
        self.depth -= 1
        return result

    def many(self, read: Callable[[Reader], _T]) -> tuple[_T, ...]:
        return self.nested(lambda reader: tuple(read(reader) for _ in range(reader.count())))

    def finish(self) -> None:
        if self.at != len(self.data):
            raise self.fail(f"{len(self.data) - self.at} bytes are left over")
