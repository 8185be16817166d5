"""Reading GGUF models, in one file or in several parts beside each other: `read`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, final

from ..tensor_files import PARTS, MappedFile, TensorFile, TensorInfo, failure
from .parts import Part, parse
from .tokenizer import Tokenizer

SPLIT_NUMBER: Final = "split.no"
SPLIT_COUNT: Final = "split.count"
SPLIT_TENSORS: Final = "split.tensors.count"

_PART_NAME: Final = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL)


@final
class GGUFFile(TensorFile):
    """GGUF model: a mapping from names to arrays, with `metadata`, `tensors`, and the tokenizer's data.

    Values of `metadata` are Python numbers and strings, read-only NumPy arrays of numbers, StringArrays, and tuples
    of arrays. `value_types` has the types of these values as the file declares them: "uint32", "array of string".
    Plain tensors are arrays of their dtype; block-quantised ones are arrays of bytes, the last dimension a row of
    blocks, in the layout ``tensors[name].layout``.
    """

    def __init__(self, files: tuple[MappedFile, ...], tensors: Mapping[str, TensorInfo], part: Part) -> None:
        super().__init__(files, tensors, part.metadata)
        self.version: int = part.version
        self.value_types: Mapping[str, str] = part.value_types

    @property
    def architecture(self) -> str | None:
        """Value of ``general.architecture``, such as "llama"; None if the file does not tell."""
        value = self.metadata.get("general.architecture")
        return value if isinstance(value, str) else None

    @property
    def tokenizer(self) -> Tokenizer:
        """Metadata of the tokenizer. Raises DiagnosticError (E6011) for keys of wrong types."""
        return Tokenizer.of(self.metadata, self.value_types, self.paths[0])


def read(path: str | os.PathLike[str]) -> GGUFFile:
    """Map a GGUF file of version 2 or 3; a file that is a part of a model is read with the other parts beside it.

    Nothing is copied: arrays are views of the mapped files, which must not be modified while they are in use.
    Metadata is that of the first part. Raises OSError if the file cannot be opened, and DiagnosticError if it is
    corrupt (E6011), has a version or type that is not read (E6012), or its parts do not fit together (E6013).
    """
    file = MappedFile(path)
    part = parse(file.bytes, file.name)
    count = _number(part, SPLIT_COUNT, file.name, 1)
    if count <= 1:
        return GGUFFile((file,), {name: item.of(file) for name, item in part.tensors.items()}, part)
    return _joined(file, part, count)


def _joined(opened: MappedFile, part: Part, count: int) -> GGUFFile:
    """Read all parts of a model, of which one is open."""
    path = Path(opened.name)
    match = _PART_NAME.fullmatch(path.name)
    if match is None or int(match[3]) != count:
        message = f"the file is one of {count} parts, and its name does not tell which"
        note = f"expected a name that ends in -00001-of-{count:05d}.gguf"
        raise failure(PARTS, opened.name, message, note, hint="rename the parts as llama.cpp writes them")
    files: list[MappedFile] = []
    parts: list[Part] = []
    tensors: dict[str, TensorInfo] = {}
    for index in range(count):
        place = path.with_name(f"{match[1]}-{index + 1:05d}-of-{count:05d}.gguf")
        if place == path:
            file, current = opened, part
        else:
            file = _part_file(place, index, count)
            current = parse(file.bytes, file.name)
        _check_number(current, file.name, index, count)
        for name, item in current.tensors.items():
            if name in tensors:
                note = f"it is in {tensors[name].file.name}, too"
                raise failure(PARTS, file.name, f"the tensor {name!r} is in two parts", note)
            tensors[name] = item.of(file)
        files.append(file)
        parts.append(current)
    expected = _number(parts[0], SPLIT_TENSORS, files[0].name, len(tensors))
    if expected != len(tensors):
        message = f"the parts have {len(tensors)} tensors, {SPLIT_TENSORS} says {expected}"
        raise failure(PARTS, files[0].name, message, hint="are all parts of the same model?")
    return GGUFFile(tuple(files), tensors, parts[0])


def _part_file(place: Path, index: int, count: int) -> MappedFile:
    try:
        return MappedFile(place)
    except OSError as error:
        message = f"part {index + 1} of {count} cannot be opened: {error.strerror or error}"
        raise failure(PARTS, str(place), message, hint="put all parts into one folder") from None


def _check_number(part: Part, path: str, index: int, count: int) -> None:
    """Raise DiagnosticError unless the metadata agrees with the name of the file."""
    for key, expected in ((SPLIT_COUNT, count), (SPLIT_NUMBER, index)):
        found = _number(part, key, path, -1)
        if found != expected:
            message = f"the name of the file and its metadata do not agree: {key} is {found}, expected {expected}"
            raise failure(PARTS, path, message, hint="are all parts of the same model, under their own names?")


def _number(part: Part, key: str, path: str, default: int) -> int:
    """Integer value of a metadata key."""
    value: Any = part.metadata.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        kind = part.value_types[key]
        raise failure(PARTS, path, f"the metadata value {key} is no integer", f"its type is {kind}")
    return value
