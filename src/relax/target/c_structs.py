"""C structs that generated code and support code access, and their layout by the width of pointers.

A struct is declared as in C, a field a line: a type, an array length in brackets, a name. ``|`` separates the members
of a union, ``@128`` aligns a field to 128 bytes. Types are dtypes, ``pointer``, ``size`` (an unsigned integer as wide
as a pointer; TIR reads it as int64), and structs declared before. Integers of 64 bits are aligned to 8 bytes on each
architecture that is described (`relax.target.isa`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from ..ir import DataType
from ..runtime.records import dataclass

_FIELD: Final = re.compile(r"(\w+)(?:\[(\d+)\])?\s+(\w+)")


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its name, its C type, and the length of the array if it is one."""

    name: str
    type: str
    length: int | None = None
    union: bool = False
    """True if the field begins where the one before it does."""
    align: int = 1

    @property
    def dtype(self) -> DataType:
        """Dtype of the field's value in TIR; arrays and structs are given by their address, as in C."""
        if self.length is not None or self.type == "pointer" or self.type in STRUCTS:
            return DataType("handle")
        return DataType("int64" if self.type == "size" else self.type)

    @property
    def is_embedded(self) -> bool:
        """True for an array or struct inside of the struct."""
        return self.length is not None or self.type in STRUCTS


@dataclass(frozen=True, slots=True)
class Layout:
    """Offsets of the fields, size and alignment of a struct in bytes."""

    offsets: Mapping[str, int]
    size: int
    align: int


@dataclass(frozen=True, slots=True)
class Struct:
    """A C struct."""

    name: str
    fields: Mapping[str, Field]

    def layout(self, pointer_bits: int) -> Layout:
        """Layout for pointers of `pointer_bits`."""
        return _layout(self.name, pointer_bits)


STRUCTS: Final[dict[str, Struct]] = {}
"""Structs by name."""


def _extent(type_: str, pointer_bits: int) -> tuple[int, int]:
    """Size and alignment of a type in bytes."""
    if type_ in STRUCTS:
        layout = STRUCTS[type_].layout(pointer_bits)
        return layout.size, layout.align
    size = pointer_bits // 8 if type_ in ("pointer", "size") else DataType(type_).bits // 8
    return size, size


@lru_cache(maxsize=64)
def _layout(name: str, pointer_bits: int) -> Layout:
    offsets: dict[str, int] = {}
    start = end = 0
    most = 1
    for field in STRUCTS[name].fields.values():
        size, align = _extent(field.type, pointer_bits)
        align = max(align, field.align)
        most = max(most, align)
        if not field.union:
            start = -(-end // align) * align
        offsets[field.name] = start
        end = max(end, start + size * (1 if field.length is None else field.length))
    return Layout(offsets, -(-end // most) * most, most)


def declare(name: str, text: str) -> Struct:
    """Add a struct to the table. Raises ValueError for text that declares none."""
    fields: dict[str, Field] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        declared, _, align = line.partition("@")
        for number, part in enumerate(declared.split("|")):
            match = _FIELD.fullmatch(part.strip())
            if match is None:
                raise ValueError(f"struct {name}: {part.strip()!r} declares no field")
            type_, length, field = match.groups()
            elements = None if length is None else int(length)
            fields[field] = Field(field, type_, elements, number > 0, int(align or 1))
    STRUCTS[name] = struct = Struct(name, fields)
    return struct


def field_of(kind: str) -> tuple[Struct, Field | None]:
    """Return the struct and field of ``"DLTensor.ndim"``; the field is None for ``"DLTensor"``, the struct itself.

    Raises ValueError for a name that is not declared.
    """
    name, dot, field = kind.partition(".")
    struct = STRUCTS.get(name)
    if struct is None:
        raise ValueError(f"there is no struct {name!r}; declared are: {', '.join(STRUCTS)}")
    if not dot:
        return struct, None
    if field not in struct.fields:
        raise ValueError(f"struct {name} has no field {field!r}; its fields: {', '.join(struct.fields)}")
    return struct, struct.fields[field]


# ----------------------------------------------------------------------------------- DLPack and tvm-ffi

declare(
    "DLTensor",
    """
    pointer data
    int32 device_type
    int32 device_id
    int32 ndim
    int32 dtype | uint8 code
    pointer shape
    pointer strides
    int64 byte_offset
    """,
)
declare(
    "TVMFFIAny",
    """
    int64 word | int32 type_index | int32[2] halves
    int64 value | pointer object | uint8[8] bytes
    """,
)
declare(
    "TVMFFIObject",
    """
    int64 references
    int32 type_index
    int32 padding
    int64 aligned | pointer deleter
    """,
)

declare(
    "TVMFFIByteArray",
    """
    pointer data
    size size
    """,
)
declare(
    "StringObject",
    """
    TVMFFIObject header
    TVMFFIByteArray text
    """,
)
declare(
    "ShapeObject",
    """
    TVMFFIObject header
    pointer data
    size size
    int64[0] own
    """,
)
declare(
    "ArrayObject",
    """
    TVMFFIObject header
    pointer data
    int64 size
    """,
)

# ----------------------------------------------------------------------------------------- support code

declare(
    "TensorObject",
    """
    TVMFFIObject header
    DLTensor tensor
    pointer owner
    int64[0] dims
    """,
)
declare(
    "TensorTail",
    """
    pointer pooled
    int64 capacity
    """,
)
declare(
    "ProgramTable",
    """
    int64 references
    int32 count
    int32 mark
    TVMFFIAny[0] cells
    """,
)
declare(
    "EntryFacts",
    """
    int32 given
    int32 most
    int32 registers
    int32 cell
    """,
)
declare(
    "StorageCounts",
    """
    int64 small
    int64 peak
    int64 requests
    int64 large
    """,
)
declare(
    "KernelTable",
    """
    int64 count
    pointer missing
    int64[256] buckets
    """,
)
declare(
    "KernelEntry",
    """
    int64 next
    pointer kernel
    pointer spec
    int64 count
    int64[0] kinds
    """,
)
declare(
    "AttentionCaches",
    """
    pointer missing
    int64 count
    int64[128] pairs
    """,
)
declare(
    "AttentionStep",
    """
    int64 ready
    int64 first_layer
    int64 layers
    int64 tokens
    int64 width
    int64 heads
    int64 columns
    int64 dtype
    int64 scale
    pointer append
    pointer attend
    TVMFFIAny[16] shared
    TVMFFIAny[0] cells
    """,
)
declare(
    "OpaqueObject",
    """
    TVMFFIObject header
    pointer handle
    """,
)
declare(
    "MessageText",
    """
    int64 length
    uint8[1032] chars
    """,
)
declare(
    "ProgramHead",
    """
    int64 count
    pointer records
    """,
)
declare(
    "ProgramRecord",
    """
    int64 kind
    pointer address
    int64 number
    pointer second
    """,
)
declare(
    "Span",
    """
    uint64 start
    uint64 end
    int64 number
    """,
)
declare(
    "KeptBlock",
    """
    pointer memory
    int64 bytes
    int64 time
    """,
)
declare(
    "KeptBlocks",
    """
    int32 lock
    int64 count
    int64 bytes
    int64 clock
    int64 used
    int64 peak
    KeptBlock[256] blocks
    """,
)

declare(
    "PoolPart",
    """
    int64 next @128
    int64 end
    """,
)
declare(
    "PoolState",
    """
    int32 lock @128
    int32 gate @128
    int32 wake @128
    int32 sleepers
    int32 started @256
    pointer body @128
    pointer captures
    int32 parts
    int64 chunk
    int64 mode
    int32 seats
    int32 processor
    int32 error_lock @128
    int64 failed
    pointer error
    int64 until @128
    float64 balance
    float64 times
    int32 lately
    PoolPart[16] part
    """,
)

declare(
    "ArgumentRow",
    """
    int64 name
    int64 kind
    int64 dtype
    int64 open
    int64 rank
    int64 sizes
    int64 words
    """,
)
