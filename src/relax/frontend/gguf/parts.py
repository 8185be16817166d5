"""One GGUF file: header, metadata and descriptions of tensors, all checked against the file before they are used.

    magic "GGUF", version (32 bits), number of tensors, number of keys (64 bits)
    for each key: name, type, value
    for each tensor: name, number of dimensions, dimensions (the fastest first), element type, offset
    padding to the alignment, and the tensors

Offsets count from the end of the padding; sizes are little endian.
"""

from __future__ import annotations

import math
from typing import Any, Final

from ...runtime.records import dataclass
from ..tensor_files import UNSUPPORTED, Array, MappedFile, TensorInfo, failure
from .cursor import Cursor
from .types import GGML_TYPES, REMOVED, GGMLType

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
ALIGNMENT_KEY: Final = "general.alignment"
DEFAULT_ALIGNMENT: Final = 32
MOST_KEYS: Final = 1 << 16
MOST_TENSORS: Final = 1 << 20
MOST_DIMS: Final = 8
LONGEST_NAME: Final = (1 << 16) - 1
LARGEST: Final = (1 << 63) - 1
"""Maximum number of elements and bytes of a tensor."""


@dataclass(frozen=True, slots=True)
class Described:
    """Description of a tensor as one file has it; `offset` counts from the beginning of the file."""

    name: str
    shape: tuple[int, ...]
    type: GGMLType
    offset: int
    nbytes: int
    place: int
    """Byte offset of the description."""

    def of(self, file: MappedFile) -> TensorInfo:
        """Return the description with its file."""
        stored = self.shape
        if self.type.elements > 1:
            stored = (*stored[:-1], stored[-1] // self.type.elements * self.type.nbytes)
        type_ = self.type
        return TensorInfo(self.name, self.shape, type_.dtype, type_.layout, stored, self.offset, self.nbytes, file)


@dataclass(frozen=True, slots=True)
class Part:
    """Contents of one file, with the types of the metadata values."""

    version: int
    metadata: dict[str, Any]
    value_types: dict[str, str]
    tensors: dict[str, Described]


def parse(data: Array, path: str) -> Part:
    """Read a file given as an array of bytes. Raises DiagnosticError (E6011, E6012) for one that is not valid."""
    cursor = Cursor(data, path)
    version = _version(cursor)
    at = cursor.at
    tensor_count = cursor.count("tensors", 24, MOST_TENSORS)
    key_count = cursor.count("keys", 13, MOST_KEYS)
    if tensor_count * 24 + key_count * 13 > cursor.left:
        found = f"{tensor_count} tensors and {key_count} keys"
        raise cursor.error("the file is too small for its contents", at, found, f"what {cursor.left} bytes can hold")
    metadata: dict[str, Any] = {}
    value_types: dict[str, str] = {}
    for index in range(key_count):
        place = cursor.at
        key = cursor.text(f"key {index}", LONGEST_NAME)
        if key in metadata:
            raise cursor.error(f"two metadata keys are {key!r}", place, f"{key!r} again", "another key")
        value_types[key], metadata[key] = cursor.value(f"the value of {key!r}")
    alignment = _alignment(cursor, metadata, value_types)
    described = [_description(cursor, index) for index in range(tensor_count)]
    start = -(-cursor.at // alignment) * alignment
    return Part(version, metadata, value_types, _placed(cursor, described, start, alignment))


def _version(cursor: Cursor) -> int:
    """Read magic and version."""
    magic = bytes(cursor.bytes[:4])
    if magic != MAGIC:
        hint = "is it a GGUF file? relax.frontend.safetensors and relax.frontend.onnx read other formats"
        raise cursor.error("the file is not GGUF", 0, repr(magic), f"{MAGIC!r}", hint)
    cursor.at = 4
    version: int = cursor.number("I", "the version")
    if version in VERSIONS:
        return version
    if not version & 0xFFFF and version:
        message, hint = (
            "big-endian GGUF files are not read",
            "convert it with the script gguf_convert_endian of llama.cpp",
        )
    else:
        message, hint = f"version {version} of GGUF is not read", "convert the model again with a current llama.cpp"
    note = f"at byte 4: found {version:#x}, expected 2 or 3, little endian"
    raise failure(UNSUPPORTED, cursor.path, message, note, hint=hint)


def _alignment(cursor: Cursor, metadata: dict[str, Any], value_types: dict[str, str]) -> int:
    """Return the alignment of tensors in bytes."""
    value = metadata.get(ALIGNMENT_KEY, DEFAULT_ALIGNMENT)
    kind = value_types.get(ALIGNMENT_KEY, "uint32")
    if kind != "uint32" or value < 1 or value & (value - 1):
        found = f"{kind} {value}" if kind != "uint32" else value
        raise cursor.error(f"{ALIGNMENT_KEY} is no alignment", cursor.at, found, "a power of two as uint32 before here")
    return int(value)


def _description(cursor: Cursor, index: int) -> Described:
    """Read the description of a tensor, whose offset counts from the first tensor."""
    place = cursor.at
    name = cursor.text(f"the name of tensor {index}", LONGEST_NAME)
    subject = f"tensor {name!r}"
    at = cursor.at
    ndim = cursor.number("I", f"the number of dimensions of {subject}")
    if ndim > MOST_DIMS:
        raise cursor.error(f"{subject} has too many dimensions", at, ndim, f"at most {MOST_DIMS}")
    dims = [int(cursor.number("Q", f"a dimension of {subject}")) for _ in range(ndim)]
    type_at = cursor.at
    number = cursor.number("I", f"the type of {subject}")
    type_ = GGML_TYPES.get(number)
    if type_ is None:
        known = REMOVED.get(number)
        message = (
            f"{subject} has the type {known}, which GGML removed" if known else f"the type of {subject} is unknown"
        )
        hint = (
            "convert the model again" if known else "a newer version of relax may know it, if the file is not damaged"
        )
        note = f"at byte {type_at}: found {number}, expected one of {', '.join(map(str, GGML_TYPES))}"
        raise failure(UNSUPPORTED, cursor.path, message, note, hint=hint)
    if math.prod(max(dim, 1) for dim in dims) * type_.nbytes > LARGEST:
        raise cursor.error(f"{subject} is too large", at + 4, f"dimensions {dims}", "at most 2**63 - 1 bytes")
    row = dims[0] if dims else 1
    if row % type_.elements:
        expected = f"a multiple of {type_.elements}, the elements of a block of {type_.name}"
        raise cursor.error(f"the rows of {subject} are no whole blocks", at + 4, f"{row} elements", expected)
    nbytes = math.prod(dims) // type_.elements * type_.nbytes
    offset = cursor.number("Q", f"the offset of {subject}")
    return Described(name, tuple(reversed(dims)), type_, offset, nbytes, place)


def _placed(cursor: Cursor, described: list[Described], start: int, alignment: int) -> dict[str, Described]:
    """Return the tensors by name, with offsets from the beginning of the file; `start` is the offset of the first."""
    placed: dict[str, Described] = {}
    size = len(cursor.bytes)
    for item in described:
        subject = f"tensor {item.name!r}"
        if item.name in placed:
            raise cursor.error(f"two tensors are named {item.name!r}", item.place, "the name again", "another name")
        if item.offset % alignment:
            expected = f"a multiple of {alignment}"
            raise cursor.error(f"the offset of {subject} is not aligned", item.place, item.offset, expected)
        offset = start + item.offset
        if offset + item.nbytes > size and (item.nbytes or item.offset):
            found = f"bytes {offset} to {offset + item.nbytes}"
            raise cursor.error(f"{subject} is not in the file", item.place, found, f"at most {size}, the file's size")
        first = min(offset, size)
        placed[item.name] = Described(item.name, item.shape, item.type, first, item.nbytes, item.place)
    end, before = 0, ""
    for item in sorted(placed.values(), key=lambda item: (item.offset, item.nbytes)):
        if item.nbytes and item.offset < end:
            message = f"the tensors {before!r} and {item.name!r} overlap"
            raise cursor.error(message, item.place, f"the first byte at {item.offset}", f"{end} or more")
        if item.nbytes:
            end, before = item.offset + item.nbytes, item.name
    return placed
