"""A model's file without the elements of its large initializers, which stay in the file.

    data, places = without_elements(StoredFile("model.onnx"))     bytes to parse; {0: (4096, 3145728)}

An ONNX file is one message of Protocol Buffers. To parse it whole takes twice its size in memory, nearly all of it
elements of initializers. So the fields on the way to those are looked at here, and those that are left out are known by
the number of their initializer, their offset and their size. A message that is not understood stays as it is, for the
parser to say what is wrong with it.

    ModelProto.graph = 7    GraphProto.initializer = 5    TensorProto.raw_data = 9
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ...ir import StoredFile
from ...runtime.records import dataclass

LARGE: Final = 1 << 20
"""Bytes from which on the elements of an initializer stay in the file."""

_GRAPH: Final = 7
_INITIALIZER: Final = 5
_RAW_DATA: Final = 9
_VARINT: Final = 0
_BYTES: Final = 2
_SIZES: Final = {1: 8, 5: 4}
"""The bytes of values of a fixed size, by their kind."""

_LONGEST: Final = 20
"""The bytes of a tag and a length, or a number, at most."""

_WINDOW: Final = 1 << 14
"""Bytes that are read at once."""


class _NotUnderstood(Exception):
    """Raised for bytes that are not a valid protobuf message."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a message: where it begins, where its value does, and where both end."""

    number: int
    kind: int
    start: int
    value: int
    end: int

    @property
    def size(self) -> int:
        """The bytes of the value."""
        return self.end - self.value


def without_elements(file: StoredFile) -> tuple[bytes, dict[int, tuple[int, int]]]:
    """The message in a file without large elements of initializers, and these by the number of the initializer."""
    if not file.is_regular:
        return file.stream.read(), {}
    reader = _Reader(file)
    try:
        return reader.model(), reader.places
    except _NotUnderstood:
        return file.contents(0, file.size), {}


class _Reader:
    """Reads the messages of a file."""

    def __init__(self, file: StoredFile) -> None:
        self.file = file
        self.window = b""
        """Bytes of the file from `offset` on."""
        self.offset = 0
        self.initializers = 0
        self.places: dict[int, tuple[int, int]] = {}

    def model(self) -> bytes:
        """A ModelProto. A graph in several parts is one graph."""
        return self._message(0, self.file.size, _GRAPH, self._graph)

    def _graph(self, field: _Field) -> bytes:
        return self._message(field.value, field.end, _INITIALIZER, self._initializer)

    def _initializer(self, field: _Field) -> bytes | None:
        """A TensorProto without its elements; None for one that stays as it is."""
        index = self.initializers
        self.initializers += 1
        if field.size < LARGE:
            return None
        fields = list(self._fields(field.value, field.end))
        elements = [subfield for subfield in fields if subfield.number == _RAW_DATA]
        if len(elements) != 1 or elements[0].kind != _BYTES or elements[0].size < LARGE:
            return None
        left_out = elements[0]
        self.places[index] = (left_out.value, left_out.size)
        before = self._bytes(field.value, left_out.start)
        return before + self._bytes(left_out.end, field.end)

    def _message(self, start: int, end: int, number: int, shortened: Callable[[_Field], bytes | None]) -> bytes:
        """The bytes of a message. Fields of a number have the values that `shortened` gives, unless that is None."""
        pieces: list[bytes] = []
        for field in self._fields(start, end):
            value = shortened(field) if (field.number, field.kind) == (number, _BYTES) else None
            if value is not None:
                pieces += [self._bytes(start, field.start), _varint(number << 3 | _BYTES), _varint(len(value)), value]
                start = field.end
        return b"".join([*pieces, self._bytes(start, end)])

    def _fields(self, start: int, end: int) -> Iterator[_Field]:
        """The fields of a message that is between two offsets. Raises _NotUnderstood."""
        while start < end:
            head = self._head(start, end)
            tag, at = _number(head, 0)
            kind, size = tag & 7, 0
            if kind == _VARINT:
                _, at = _number(head, at)
            elif kind == _BYTES:
                size, at = _number(head, at)
            elif kind in _SIZES:
                size = _SIZES[kind]
            else:  # groups, which ONNX has not
                raise _NotUnderstood
            field = _Field(tag >> 3, kind, start, start + at, start + at + size)
            if not field.number or field.end > end:
                raise _NotUnderstood
            yield field
            start = field.end

    def _head(self, start: int, end: int) -> bytes:
        """The bytes of a field up to its value, and some more; fields that follow one another are read together."""
        at = start - self.offset
        if not 0 <= at <= len(self.window) - _LONGEST:
            self.offset, at = start, 0
            self.window = self._bytes(start, min(start + _WINDOW, self.file.size))
        return self.window[at : at + min(_LONGEST, end - start)]

    def _bytes(self, start: int, end: int) -> bytes:
        return self.file.contents(start, end - start)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of 7 bits a byte, the lowest first, and where it ends."""
    value = 0
    for index, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, at + index + 1
    raise _NotUnderstood


def _varint(value: int) -> bytes:
    """A number as `_number` reads it."""
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes([*data, value])
