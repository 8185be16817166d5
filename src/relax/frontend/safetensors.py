"""Models in the format safetensors, in one file or in shards with an index: `read`.

The package ``safetensors`` opens each file first, and so checks the header: its length, JSON, dtypes, and that the
tensors fill the file without holes or overlap. Its own arrays are not used: with ``framework="numpy"`` it cannot make
arrays of 8-bit floats (version 0.8.0 looks for ``numpy.float8_e4m3fn``). So the header, which is valid then, is read
once more here, and the arrays are views of the mapped file, with dtypes of ml_dtypes.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from ..runtime.dtypes import NUMPY_DTYPES
from .tensor_files import (
    BROKEN,
    INCOMPLETE,
    PARTS,
    PLAIN,
    UNSUPPORTED,
    MappedFile,
    TensorFile,
    TensorInfo,
    broken,
    failure,
)

INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"

DTYPES: Final[Mapping[str, str]] = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip
"""Names of dtypes by their names in headers."""

_LARGEST_INDEX: Final = 100_000_000
"""Maximum size in bytes of an index; the package has the same limit for headers."""


def read(path: str | os.PathLike[str]) -> TensorFile:
    """Map a file, or the files of a folder: ``model.safetensors.index.json`` names shards, else ``model.safetensors``.

    The path of an index is accepted, too. Nothing is copied: arrays are read-only views of the mapped files, which
    must not be modified while they are in use. `metadata` has the texts of the header, or the "metadata" of the
    index. Raises OSError if a file cannot be opened, and DiagnosticError if it is corrupt (E6011), has dtypes that
    are not read, or the package ``safetensors`` is missing (E6012), or index and shards do not agree (E6013).
    """
    place = Path(path)
    if place.is_dir():
        place = place / INDEX if (place / INDEX).exists() or not (place / SINGLE).exists() else place / SINGLE
        if not place.exists():
            message = "the folder has no weights in the format safetensors"
            raise failure(PARTS, str(path), message, f"expected {SINGLE} or {INDEX} in it")
    if place.suffix == ".json":
        return _read_shards(place)
    file = MappedFile(place)
    tensors, metadata = _read_file(file)
    return TensorFile((file,), tensors, metadata)


def _read_file(file: MappedFile) -> tuple[dict[str, TensorInfo], dict[str, str]]:
    """Read the header of a file, checked by the package: descriptions of tensors, and the texts of ``__metadata__``."""
    _check(file)
    (size,) = struct.unpack_from("<Q", file.bytes.data)
    start = 8 + size
    try:
        header: dict[str, Any] = json.loads(bytes(file.bytes[8:start]), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:  # changed since the package has read it, or JSON that only it reads
        raise broken(file.name, "the header is not JSON", 8, f"JSON with an error ({error})", "JSON") from None
    metadata = cast("dict[str, str]", header.pop("__metadata__", None) or {})
    tensors: dict[str, TensorInfo] = {}
    for name, entry in header.items():
        dtype = DTYPES.get(entry["dtype"])
        if dtype is None:
            note = f"found {entry['dtype']}, expected one of {', '.join(DTYPES)}"
            raise failure(UNSUPPORTED, file.name, f"the dtype of tensor {name!r} is not read", note)
        shape = tuple(entry["shape"])
        first, last = entry["data_offsets"]
        if start + last > file.size or last - first != math.prod(shape) * NUMPY_DTYPES[dtype].itemsize:
            found = f"bytes {first} to {last} of the data for {dtype} {shape}"
            raise broken(
                file.name, f"tensor {name!r} does not fit its bytes", 8, found, "as many bytes as elements take"
            )
        tensors[name] = TensorInfo(name, shape, dtype, PLAIN, shape, start + first, last - first, file)
    ordered = sorted(tensors.values(), key=lambda tensor: tensor.offset)
    return {tensor.name: tensor for tensor in ordered}, metadata


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict. Raises ValueError if two members have one name."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("two members of an object have one name")
    return members


def _check(file: MappedFile) -> None:
    """Let the package check a file. Raises DiagnosticError with its message."""
    try:
        package: Any = importlib.import_module("safetensors")
    except ImportError:
        message = "reading this format needs the package safetensors"
        raise failure(UNSUPPORTED, file.name, message, hint="install it: pip install relax[llm]") from None
    try:
        with package.safe_open(file.name, framework="numpy"):
            pass
    except (package.SafetensorError, ValueError) as error:
        reason = str(error).removeprefix("Error while deserializing header: ")
        found = f"a file of {file.size} bytes with a wrong header ({reason})"
        raise broken(
            file.name, f"the file is not safetensors: {reason}", 0, found, "a valid header", INCOMPLETE
        ) from None


def _read_shards(index: Path) -> TensorFile:
    """Read the files that an index names."""
    weight_map, metadata = _read_index(index)
    files: dict[str, MappedFile] = {}
    found: dict[str, TensorInfo] = {}
    for shard in sorted(set(weight_map.values())):
        if not shard or Path(shard).name != shard or not shard.isprintable():
            message = f"the index names the shard {shard!r}, which is not in its folder"
            raise failure(PARTS, str(index), message, "expected the name of a file beside the index")
        place = index.with_name(shard)
        try:
            files[shard] = MappedFile(place)
        except OSError as error:
            message = f"the shard {shard} cannot be opened: {error.strerror or error}"
            raise failure(PARTS, str(index), message, hint="put all shards into the folder of the index") from None
        for name, tensor in _read_file(files[shard])[0].items():
            if name in found:
                note = f"it is in {found[name].file.name}, too"
                raise failure(PARTS, files[shard].name, f"the tensor {name!r} is in two shards", note)
            found[name] = tensor
    for name, shard in weight_map.items():
        if name not in found or found[name].file is not files[shard]:
            elsewhere = f"it is in {found[name].file.name}" if name in found else "no shard has it"
            message = f"the index says that the tensor {name!r} is in {shard}, where it is not"
            raise failure(PARTS, str(index), message, elsewhere)
    if len(found) > len(weight_map):
        name = next(name for name in found if name not in weight_map)
        message = f"the index does not name the tensor {name!r}"
        raise failure(PARTS, str(index), message, f"it is in {found[name].file.name}")
    return TensorFile(tuple(files.values()), found, metadata)


def _read_index(index: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """Read an index: the file of each tensor, and the metadata."""
    file = MappedFile(index)
    if file.size > _LARGEST_INDEX:
        raise broken(file.name, "the index is too large", 0, f"{file.size} bytes", f"at most {_LARGEST_INDEX}")
    try:
        content: Any = json.loads(bytes(file.bytes), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise broken(file.name, "the index is not JSON", getattr(error, "pos", 0), str(error), "JSON") from None
    weight_map = cast("dict[str, Any]", content).get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not all(
        isinstance(shard, str) for shard in cast("dict[str, Any]", weight_map).values()
    ):
        message = "the index has no map from tensors to files"
        raise failure(BROKEN, file.name, message, 'expected {"weight_map": {"name of a tensor": "file"}}')
    metadata: Any = cast("dict[str, Any]", content).get("metadata")
    texts = cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}
    return cast("dict[str, str]", weight_map), texts
