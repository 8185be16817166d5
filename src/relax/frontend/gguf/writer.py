"""Writing GGUF files: `write`, with tensors that are made one by one while the file is written.

write("model.gguf", {"general.architecture": "llama", "llama.block_count": 2}, {
    "token_embd.weight": Stored("q8_0", (100, 64), make_rows),
    "output_norm.weight": np.ones(64, np.float32),
})
"""

# NumPy's stubs leave the results of reshape and view partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO, Final, cast

import numpy as np

from ...runtime.dtypes import NUMPY_DTYPES
from ...runtime.files import in_place_of
from ...runtime.records import dataclass
from ..tensor_files import Array
from .cursor import StringArray
from .parts import ALIGNMENT_KEY, DEFAULT_ALIGNMENT, LONGEST_NAME, MAGIC
from .types import ARRAY, GGML_TYPES, SCALARS, STRING, GGMLType

VERSION: Final = 3
LONGEST_TENSOR_NAME: Final = 63
"""Bytes of a tensor's name that GGML reads, at most."""
MOST_DIMS: Final = 4
"""Dimensions of a tensor that GGML reads, at most."""

_BY_NAME: Final = {type_.name: type_ for type_ in GGML_TYPES.values()}
_PLAIN: Final = {type_.dtype: type_ for type_ in GGML_TYPES.values() if type_.elements == 1}
_SCALARS: Final = {name: (number, form) for number, (name, form, _) in SCALARS.items()}


@dataclass(frozen=True, slots=True)
class Stored:
    """Tensor to write: its layout, its shape in elements, and its contents.

    `layout` is a block format ("q4_k", with rows of blocks as uint8 for contents) or a dtype ("float32"). `data` is an
    array, or a function that returns the array or pieces of it in order, which is called when the tensor is written.
    """

    layout: str
    shape: tuple[int, ...]
    data: Array | Callable[[], Array | Iterable[Array]]

    @property
    def nbytes(self) -> int:
        """Size in the file. Raises ValueError for a layout that GGUF does not have."""
        type_ = _type_of(self.layout)
        return math.prod(self.shape) // type_.elements * type_.nbytes


def write(
    path: str | os.PathLike[str],
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Array | Stored],
    *,
    value_types: Mapping[str, str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> None:
    """Write a GGUF file of version 3, which takes the place of `path` when it is complete.

    Parameters
    ----------
    path
        The file. If writing fails, what was there before stays.
    metadata
        Values by keys. A Python bool, str and float has the type bool, string and float32; an int is uint32, or int32,
        uint64 or int64 where it does not fit; NumPy numbers and arrays have their dtypes. A list holds strings or
        Python numbers, a tuple holds arrays. ``general.alignment`` is obeyed; without it, tensors are
        aligned to 32 bytes.
    tensors
        Arrays, or `Stored` for block formats and for what is to be made while the file is written, by their names.
    value_types
        Types of single numbers of the metadata by keys, such as ``{"general.file_type": "uint32"}``, as
        `GGUFFile.value_types` has them.
    progress
        Called before each tensor with its name, the bytes written and all bytes of tensors.

    Raises OSError if the file cannot be written, and ValueError for a value or tensor that GGUF cannot hold, or whose
    contents have another size than its shape says.
    """
    alignment = int(metadata.get(ALIGNMENT_KEY, DEFAULT_ALIGNMENT))
    if alignment < 8 or alignment & (alignment - 1):
        raise ValueError(f"{ALIGNMENT_KEY} is {alignment}, expected a power of two from 8 on")
    kinds: Mapping[str, str] = {} if value_types is None else value_types
    head = bytearray(MAGIC + struct.pack("<IQQ", VERSION, len(tensors), len(metadata)))
    for key, value in metadata.items():
        head += _text(_name(key, LONGEST_NAME, "key"))
        head += _value(key, np.uint32(value) if key == ALIGNMENT_KEY else value, kinds.get(key))
    stored = {name: _stored(item) for name, item in tensors.items()}
    offset = 0
    for name, item in stored.items():
        head += _description(name, item, offset)
        offset += -(-item.nbytes // alignment) * alignment
    total, done = sum(item.nbytes for item in stored.values()), 0
    with in_place_of(path) as temporary, temporary.open("wb") as file:
        file.write(head)
        for name, item in stored.items():
            if progress is not None:
                progress(name, done, total)
            _pad(file, alignment)
            _contents(file, name, item)
            done += item.nbytes
        _pad(file, alignment)


# ------------------------------------------------------------------------------------- metadata


def _text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def _name(name: str, longest: int, subject: str) -> bytes:
    data = name.encode()
    if not 0 < len(data) <= longest:
        raise ValueError(f"the {subject} {name[:80]!r} has {len(data)} bytes, expected 1 to {longest}")
    return data


def _value(key: str, value: object, kind: str | None) -> bytes:
    """Return a value behind its type; `kind` is the type of a single number."""
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _text(value.encode())
    if isinstance(value, np.ndarray | Sequence):
        return struct.pack("<I", ARRAY) + _array(key, cast(Any, value))
    if isinstance(value, np.generic):
        scalar = cast("np.generic[Any]", value)
        kind, value = _known(key, scalar.dtype.name), scalar.item()
    elif kind is None or kind not in _SCALARS:
        kind = _kind_of(key, [value])
    return struct.pack("<I", _SCALARS[kind][0]) + _number(key, kind, value)


def _number(key: str, kind: str, value: Any) -> bytes:
    """Pack a number of a type."""
    try:
        return struct.pack(f"<{_SCALARS[kind][1]}", value)
    except (struct.error, OverflowError):
        raise ValueError(f"the value of {key!r} is {value!r}, which is no {kind}") from None


def _known(key: str, kind: str) -> str:
    if kind not in _SCALARS:
        raise ValueError(f"the value of {key!r} has the type {kind}, expected one of {', '.join(_SCALARS)} or string")
    return kind


def _kind_of(key: str, values: Sequence[Any]) -> str:
    """Return the type of metadata that holds some Python numbers."""
    if all(isinstance(value, bool) for value in values):
        return "bool"
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        kinds = sorted({type(value).__name__ for value in values})
        raise ValueError(f"the value of {key!r} is of {' and '.join(kinds)}, which GGUF has no type for")
    if not all(isinstance(value, int) for value in values):
        return "float32"
    low, high = min(values), max(values)
    if low >= 0:
        return "uint32" if high < 1 << 32 else "uint64"
    return "int32" if low >= -(1 << 31) and high < 1 << 31 else "int64"


def _array(key: str, values: Any) -> bytes:
    """Return an array: the type of its elements, their number, and they."""
    count = len(values)
    if isinstance(values, StringArray):
        return struct.pack("<IQ", STRING, count) + b"".join(_text(values.raw(index)) for index in range(count))
    if isinstance(values, np.ndarray):
        array = cast(Array, values)
        if array.ndim != 1:
            raise ValueError(f"the value of {key!r} has {array.ndim} dimensions, expected one")
        if array.dtype.kind == "U":
            return struct.pack("<IQ", STRING, count) + b"".join(_text(str(value).encode()) for value in array)
        number, _ = _SCALARS[_known(key, array.dtype.name)]
        return struct.pack("<IQ", number, count) + array.tobytes()
    if isinstance(values, tuple):
        return struct.pack("<IQ", ARRAY, count) + b"".join(_array(key, item) for item in cast(Any, values))
    if not count:
        raise ValueError(f"the value of {key!r} is an empty list, which has no type: give a NumPy array")
    if all(isinstance(value, str) for value in values):
        return struct.pack("<IQ", STRING, count) + b"".join(_text(value.encode()) for value in values)
    kind = _kind_of(key, values)
    return struct.pack("<IQ", _SCALARS[kind][0], count) + b"".join(_number(key, kind, value) for value in values)


# ------------------------------------------------------------------------------------- tensors


def _type_of(layout: str) -> GGMLType:
    found = _PLAIN.get(layout) or _BY_NAME.get(layout)
    if found is None:
        names = ", ".join([*_PLAIN, *(type_.name for type_ in GGML_TYPES.values() if type_.elements > 1)])
        raise ValueError(f"GGUF has no tensors of {layout!r}; there are {names}")
    return found


def _stored(item: Array | Stored) -> Stored:
    return item if isinstance(item, Stored) else Stored(item.dtype.name, item.shape, item)


def _description(name: str, item: Stored, offset: int) -> bytes:
    """Return the header record of a tensor: name, dimensions, type and data offset."""
    type_, dims = _type_of(item.layout), tuple(reversed(item.shape))
    if len(dims) > MOST_DIMS:
        raise ValueError(f"the tensor {name!r} has {len(dims)} dimensions, expected at most {MOST_DIMS}")
    row = dims[0] if dims else 1
    if row % type_.elements:
        raise ValueError(
            f"the tensor {name!r} has rows of {row} elements, expected a multiple of {type_.elements} for {type_.name}"
        )
    head = _text(_name(name, LONGEST_TENSOR_NAME, "name of a tensor"))
    return head + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, type_.id, offset)


def _contents(file: BinaryIO, name: str, item: Stored) -> None:
    """Write the bytes of a tensor."""
    type_ = _type_of(item.layout)
    dtype = np.dtype(NUMPY_DTYPES[type_.dtype])
    made = item.data() if callable(item.data) else item.data
    written = 0
    for piece in [cast(Array, made)] if isinstance(made, np.ndarray) else made:
        if piece.dtype != dtype:
            raise ValueError(f"the tensor {name!r} is of {item.layout}, its contents of {piece.dtype}, not {dtype}")
        file.write(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)
        written += piece.nbytes
    if written != item.nbytes:
        raise ValueError(
            f"the tensor {name!r} has contents of {written} bytes, expected {item.nbytes} for the shape {item.shape}"
        )


def _pad(file: BinaryIO, alignment: int) -> None:
    """Write zeros up to the next aligned place."""
    file.write(bytes(-file.tell() % alignment))


__all__ = ["Stored", "write"]
