"""Elements of constants that stay in a file: they are read when somebody asks for them, and given back after.

    file = StoredFile("model.onnx")
    weights = StoredArray(file, 4096, (1024, 768), "float32")
    weights.array()        reads them; memory that is still in use is not read again
    weights.digest()       their SHA-256, of which it reads a piece at a time
    digest_beside([weights])   threads do so while the program goes on

A model that is built need not be in memory as well as what is made of it. The file stays open; it must stay as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import stat
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import numpy as np
import tvm_ffi

from ..runtime.dtypes import NUMPY_DTYPES
from ..runtime.files import BLOCK, read_places, shares_reads
from ..runtime.tensor import new_tensor, numpy_view, tensor_under
from .diagnostics import Diagnostic, DiagnosticError

Array: TypeAlias = "np.ndarray[Any, Any]"

CHANGED: Final = "E6006"
"""A file that was written to while constants were in it."""


_PIECE: Final = 4 * BLOCK
"""The bytes that are read at once for a digest."""

_THREADS: Final = 4

_lock: Final = threading.Lock()
_own: Final = threading.local()
"""Memory for pieces, of each thread."""


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
        self.check(whole)

    def check(self, whole: bool = True) -> None:
        """Raise DiagnosticError if the file is not as it was, or what was read of it is not whole."""
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

    __slots__ = ("_array", "_digest", "_hashing", "_lock", "_tensor", "dtype", "file", "offset", "shape")

    def __init__(self, file: StoredFile, offset: int, shape: Sequence[int], dtype: str) -> None:
        self.file, self.offset, self.shape = file, offset, tuple(shape)
        self.dtype: Any = NUMPY_DTYPES[dtype]
        self._lock = threading.Lock()
        self._array: weakref.ref[Array] | None = None
        self._tensor: tvm_ffi.Tensor | None = None
        self._digest: bytes | None = None
        self._hashing: tuple[int, threading.Event] | None = None
        """The process that makes the digest, and what it sets when it has."""
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

    def digest(self) -> bytes:
        """The SHA-256 of the elements, made once. Raises DiagnosticError if the file has changed."""
        while self._digest is None:
            with _lock:  # a thread of the process that this one was forked from makes nothing here
                other = (
                    self._hashing if self._hashing is not None and self._hashing[0] == os.getpid() else None
                )
                mine = None if other is not None else (os.getpid(), threading.Event())
                self._hashing = other or mine
            if other is not None:
                other[1].wait()
            elif mine is not None:
                try:
                    self._digest = self._hashed()
                finally:
                    with _lock:
                        self._hashing = None
                    mine[1].set()
        self.file.check()
        return self._digest

    def _hashed(self) -> bytes:
        digest = hashlib.sha256()
        if not hasattr(_own, "piece"):
            _own.piece = memoryview(bytearray(_PIECE))
        for start in range(0, self.nbytes, _PIECE):
            piece = _own.piece[: min(_PIECE, self.nbytes - start)]
            self.file.read(self.offset + start, piece)
            digest.update(piece)
        return digest.digest()

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


def digest_beside(arrays: Iterable[StoredArray]) -> list[threading.Thread]:
    """Have threads make the digests of arrays, the largest first. Who asks for one waits for it, or makes it."""
    left = deque(sorted(arrays, key=lambda array: -array.nbytes))
    threads: list[threading.Thread] = []

    def make() -> None:
        with contextlib.suppress(IndexError, OSError, MemoryError, DiagnosticError):  # who asks is told
            while True:
                left.popleft().digest()

    if (os.cpu_count() or 1) > 1:
        with contextlib.suppress(RuntimeError):  # no more threads
            for _ in range(min(_THREADS, len(left))):
                thread = threading.Thread(target=make, name="relax-digest", daemon=True)
                thread.start()
                threads.append(thread)
    return threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)

__all__ = ["CHANGED", "StoredArray", "StoredFile", "digest_beside"]
