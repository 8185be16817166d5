"""Files of named tensors, mapped into memory: what the readers of GGUF and safetensors return.

    file = relax.frontend.gguf.read("model.gguf")
    file.tensors["output.weight"].layout     "q6_k"
    file["output.weight"]                    array of bytes, (rows, bytes of a row), a view of the file

Nothing is copied: arrays are read-only views of the mapped file, and the system loads the pages that are read. The
file must not be modified while it is in use; a file that is replaced by another one does no harm.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import numpy as np

from ..ir import Diagnostic, DiagnosticError, StoredFile
from ..runtime.dtypes import NUMPY_DTYPES
from ..runtime.records import dataclass

Array: TypeAlias = "np.ndarray[Any, Any]"

BROKEN: Final = "E6011"
"""Error code: a file of weights is corrupt."""
UNSUPPORTED: Final = "E6012"
"""Error code: a file of weights has a version, byte order, or element type that is not read."""
PARTS: Final = "E6013"
"""Error code: the parts of a file of weights do not fit together, or one is missing."""

PLAIN: Final = "plain"
"""Layout of tensors whose elements are stored one by one."""

INCOMPLETE: Final = "the file may be incomplete or damaged: download or write it again"


def broken(
    path: str, message: str, offset: int, found: object, expected: str, hint: str = INCOMPLETE
) -> DiagnosticError:
    """Return the error of a corrupt file: what was found at which byte offset, and what was expected there."""
    return failure(BROKEN, path, message, f"at byte {offset}: found {found}, expected {expected}", hint=hint)


def failure(code: str, path: str, message: str, *notes: str, hint: str = "") -> DiagnosticError:
    """Return the error of a file that is not read."""
    return DiagnosticError(Diagnostic(code, message, None, path, notes, hint))


@final
class MappedFile:
    """Regular file mapped read-only into memory, as an array of bytes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Map the file. Raises OSError if it cannot be opened, DiagnosticError if it is not a regular file."""
        name = Path(path)
        self.name = str(name)
        if not stat.S_ISREG(name.stat().st_mode):  # opening a pipe would wait for its writer
            message = "tensors are read from regular files only"
            raise failure(UNSUPPORTED, self.name, message, hint="copy a stream to a file first")
        self.stored = StoredFile(name)
        size = self.stored.size
        self.bytes: Array = np.empty(0, np.uint8)
        if size:
            try:
                mapped = mmap.mmap(self.stored.stream.fileno(), size, access=mmap.ACCESS_READ)
            except ValueError as error:  # cut off since its size was read
                self.stored.check()
                raise broken(self.name, "the file cannot be mapped", 0, str(error), f"{size} bytes") from None
            self.bytes = np.frombuffer(mapped, np.uint8)
        self.bytes.flags.writeable = False

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return len(self.bytes)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Description of a tensor in a file: its name, logical shape, element type, layout, and bytes in the file.

    A plain tensor has a NumPy dtype. The `dtype` of a packed tensor is "uint8", its `shape` still counts elements,
    and its array has the shape `stored_shape`: dimensions in NumPy's order, the last one in bytes.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: str
    stored_shape: tuple[int, ...]
    offset: int
    nbytes: int
    file: MappedFile

    def array(self) -> Array:
        """Read-only view of the tensor in the mapped file. Raises DiagnosticError (E6006) if the file has changed."""
        self.file.stored.check()
        data: Any = self.file.bytes[self.offset : self.offset + self.nbytes]
        return data.view(NUMPY_DTYPES[self.dtype]).reshape(self.stored_shape)

    def __repr__(self) -> str:
        form = self.dtype if self.layout == PLAIN else self.layout
        return f"<{self.name}: {form} {self.shape} in {self.file.name}>"


class TensorFile(Mapping[str, Array]):
    """Read-only mapping from names to arrays, in the order of the file; `tensors` has their descriptions.

    `paths` are the files, several for a model stored in parts; `metadata` is what the format stores beside tensors.
    """

    def __init__(
        self, files: tuple[MappedFile, ...], tensors: Mapping[str, TensorInfo], metadata: Mapping[str, Any]
    ) -> None:
        self.paths: tuple[str, ...] = tuple(file.name for file in files)
        self.tensors: Mapping[str, TensorInfo] = tensors
        self.metadata: Mapping[str, Any] = metadata

    def __getitem__(self, name: str) -> Array:
        """Read-only view of a tensor, by its name. Raises KeyError for an unknown name."""
        return self.tensors[name].array()

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    @property
    def nbytes(self) -> int:
        """Sum of the sizes of the tensors in bytes."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} tensors, {self.nbytes} bytes, in {self.paths[0]}>"
