"""Elements of constants that stay in a file: they are read when somebody asks for them, and given back after.

    file = StoredFile("model.onnx")
    weights = StoredArray(file, 4096, (1024, 768), "float32")
    weights.array()        reads them; memory that is still in use is not read again
    weights.digest(hash)   reads a piece at a time

A model that is built need not be in memory as well as what is made of it. The file stays open; it must stay as it is.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, final

import numpy as np
import tvm_ffi

from ..runtime.dtypes import NUMPY_DTYPES
from ..runtime.files import BLOCK, read_places, shares_reads
from ..runtime.tensor import new_tensor, numpy_view, tensor_under
from .diagnostics import Diagnostic, DiagnosticError

Array: TypeAlias = "np.ndarray[Any, Any]"

CHANGED: Final = "E6006"
"""A file that was written to while constants were in it."""


class Hash(Protocol):
    """A hash that takes bytes one after the other."""

    def update(self, data: memoryview, /) -> object: ...


@final
class StoredFile:
    """An open file with elements of constants."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file. Raises OSError if it cannot be opened."""
        self.name = str(path)
        self.stream = Path(path).open("rb")  # noqa: SIM115  (it is open as long as there are constants in it)
        self._state = self._stat()
        self.is_regular = stat.S_ISREG(os.fstat(self.stream.fileno()).st_mode)
        """False for a pipe, of which nobody knows the size."""
        self._lock = contextlib.nullcontext() if shares_reads(self.stream) else threading.Lock()

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self._state[0]

    def read(self, offset: int, memory: memoryview) -> None:
        """Fill memory with what is in the file from an offset on. Raises DiagnosticError if it is not as it was."""
        with self._lock:
            whole = read_places(self.stream, [(offset, memory)])
        if not whole or self._stat() != self._state:
            message = "the file has changed since it was imported, and constants of the program are in it"
            hint = "import it again; a file that is replaced, and not written to, does no harm"
            raise DiagnosticError(Diagnostic(CHANGED, message, None, self.name, (), hint))

    def contents(self, offset: int, size: int) -> bytes:
        """Some bytes of the file. Raises DiagnosticError if it is not as it was."""
        data = bytearray(size)
        self.read(offset, memoryview(data))
        return bytes(data)

    def _stat(self) -> tuple[int, int]:
        status = os.fstat(self.stream.fileno())
        return status.st_size, status.st_mtime_ns

    def __del__(self) -> None:
        if hasattr(self, "stream"):
            self.stream.close()


@final
class StoredArray:
    """The elements of a constant in a file: little-endian, row-major, of a dtype whose elements take whole bytes."""

    __slots__ = ("_array", "_lock", "_tensor", "dtype", "file", "offset", "shape")

    def __init__(self, file: StoredFile, offset: int, shape: Sequence[int], dtype: str) -> None:
        self.file, self.offset, self.shape = file, offset, tuple(shape)
        self.dtype: Any = NUMPY_DTYPES[dtype]
        self._lock = threading.Lock()
        self._array: weakref.ref[Array] | None = None
        self._tensor: tvm_ffi.Tensor | None = None
        if offset < 0 or offset + self.nbytes > file.size:
            raise ValueError(f"{self.nbytes} bytes at {offset} are not in a file of {file.size}")

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.size * self.dtype.itemsize

    def array(self) -> Array:
        """The elements, read-only, in memory of a tensor. Raises DiagnosticError if the file has changed."""
        with self._lock:
            return self._read()

    def tensor(self) -> tvm_ffi.Tensor:
        """The elements as a tensor, the same each time. Raises DiagnosticError if the file has changed."""
        with self._lock:
            if self._tensor is None:
                self._tensor = tensor_under(self._read())
            assert self._tensor is not None
            return self._tensor

    def _read(self) -> Array:
        array = None if self._array is None else self._array()
        if array is None:
            if self._tensor is None:
                array = numpy_view(new_tensor(self.shape, self.dtype.name))
                self.file.read(self.offset, memoryview(array.reshape(-1).view("u1")))
            else:
                array = numpy_view(self._tensor)
            array.flags.writeable = False
            self._array = weakref.ref(array)
        return array

    def digest(self, to: Hash) -> None:
        """Give the bytes of the elements to a hash, piece by piece. Raises DiagnosticError if the file has changed."""
        memory = memoryview(bytearray(min(BLOCK, self.nbytes)))
        for start in range(0, self.nbytes, BLOCK):
            block = memory[: min(BLOCK, self.nbytes - start)]
            self.file.read(self.offset + start, block)
            to.update(block)

    def item(self, index: int) -> Any:
        """One element, by its number in row-major order, as a number of Python."""
        array = None if self._array is None else self._array()
        if array is not None:
            return array.item(index)
        place = self.offset + index * self.dtype.itemsize
        return np.frombuffer(self.file.contents(place, self.dtype.itemsize), self.dtype).item()

    def tobytes(self) -> bytes:
        """The bytes of the elements. Raises DiagnosticError if the file has changed."""
        return self.array().tobytes()

    def __repr__(self) -> str:
        return f"<{self.dtype.name} {self.shape} in {self.file.name}>"


__all__ = ["CHANGED", "StoredArray", "StoredFile"]
