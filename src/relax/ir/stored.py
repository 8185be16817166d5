"""Constants stored in files: their elements are read on demand, and released after use.

    file = StoredFile("model.onnx")
    weights = StoredArray(file, 4096, (1024, 768), "float32")
    weights.array()        reads the elements, unless an earlier array is still in use
    weights.digest()       their SHA-256, computed block by block
    digest_beside([weights])   compute digests in background threads
    read_beside([weights])     read the elements in a background thread

A built model thus need not be in memory twice. The file stays open and must not be modified.
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
from ..runtime.forks import hold_at_fork
from ..runtime.tensor import new_tensor, numpy_view, tensor_under
from .diagnostics import Diagnostic, DiagnosticError

Array: TypeAlias = "np.ndarray[Any, Any]"

CHANGED: Final = "E6006"
"""Error code: a file was modified while constants referred to it."""


_PIECE: Final = 4 * BLOCK
"""Bytes read at once for a digest."""

_THREADS: Final = 4

_lock: Final = threading.Lock()
_reading: Final = threading.Lock()
hold_at_fork(_reading)
_own: Final = threading.local()
"""Read buffers, one per thread."""


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
        """Size of the file in bytes."""
        return self._state[0]

    def read(self, offset: int, memory: memoryview, threads: bool = True) -> None:
        """Read from `offset` into `memory`, by several threads if it is large.

        Raises DiagnosticError if the file has changed.
        """
        with self._lock:
            whole = read_places(self.stream, [(offset, memory)], threads)
        self.check(whole)

    def check(self, whole: bool = True) -> None:
        """Raise DiagnosticError if the file has changed, or data read from it are incomplete (`whole` is False)."""
        if not whole or self._stat() != self._state:
            message = "the file has changed since it was imported, and constants of the program are in it"
            hint = "import it again; a file that is replaced, and not written to, does no harm"
            raise DiagnosticError(Diagnostic(CHANGED, message, None, self.name, (), hint))

    def contents(self, offset: int, size: int) -> bytes:
        """Read bytes of the file. Raises DiagnosticError if it has changed."""
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
    """Elements of a constant in a file: little-endian, row-major, of a dtype with whole bytes per element."""

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
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Size of the elements in bytes."""
        return self.size * self.dtype.itemsize

    def array(self) -> Array:
        """Read-only array of the elements, in tensor memory. Raises DiagnosticError if the file has changed."""
        with self._lock:
            return self._read()

    def tensor(self) -> tvm_ffi.Tensor:
        """Elements as a tensor, which is cached. Raises DiagnosticError if the file has changed."""
        return self._as_tensor(threads=True)

    @property
    def loaded(self) -> tvm_ffi.Tensor | None:
        """The tensor of the elements if `tensor` has read them."""
        return self._tensor

    def _as_tensor(self, threads: bool) -> tvm_ffi.Tensor:
        with self._lock:
            if self._tensor is None:
                self._tensor = tensor_under(self._read(threads))
            assert self._tensor is not None
            return self._tensor

    def _read(self, threads: bool = True) -> Array:
        array = None if self._array is None else self._array()
        if array is None:
            if self._tensor is None:
                array = numpy_view(new_tensor(self.shape, self.dtype.name))
                self.file.read(self.offset, memoryview(array.reshape(-1).view("u1")), threads)
            else:
                array = numpy_view(self._tensor)
            array.flags.writeable = False
            self._array = weakref.ref(array)
        return array

    def digest(self) -> bytes:
        """SHA-256 of the elements, computed once. Raises DiagnosticError if the file has changed."""
        while self._digest is None:
            with _lock:  # a thread of the process that this one was forked from makes nothing here
                other = self._hashing if self._hashing is not None and self._hashing[0] == os.getpid() else None
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
        """One element by its row-major index, as a Python number."""
        array = None if self._array is None else self._array()
        if array is not None:
            return array.item(index)
        offset = self.offset + index * self.dtype.itemsize
        return np.frombuffer(self.file.contents(offset, self.dtype.itemsize), self.dtype).item()

    def tobytes(self) -> bytes:
        """Elements as bytes. Raises DiagnosticError if the file has changed."""
        return self.array().tobytes()

    def __repr__(self) -> str:
        return f"<{self.dtype.name} {self.shape} in {self.file.name}>"


def digest_beside(arrays: Iterable[StoredArray]) -> list[threading.Thread]:
    """Compute digests of arrays in threads, largest first; `StoredArray.digest` waits for one in progress."""
    pending = deque(sorted(arrays, key=lambda array: -array.nbytes))
    threads: list[threading.Thread] = []

    def make() -> None:
        with contextlib.suppress(IndexError, OSError, MemoryError, DiagnosticError):  # who asks is told
            while True:
                pending.popleft().digest()

    if (os.cpu_count() or 1) > 1:
        with contextlib.suppress(RuntimeError):  # no more threads
            for _ in range(min(_THREADS, len(pending))):
                thread = threading.Thread(target=make, name="relax-digest", daemon=True)
                thread.start()
                threads.append(thread)
    return threads


def read_beside(arrays: Iterable[StoredArray]) -> threading.Thread | None:
    """Read the elements of arrays in a thread, in order; `StoredArray.tensor` waits for one in progress.

    Returns None where no thread is started: on a single processor, for little data, or if the system has no more.
    """
    pending = [array for array in dict.fromkeys(arrays) if array.size]

    def read() -> None:
        with contextlib.suppress(OSError, MemoryError, DiagnosticError):  # who asks is told
            for array in pending:
                with _reading:  # a process forked meanwhile would wait for this thread, which it has not
                    array._as_tensor(threads=False)  # pyright: ignore[reportPrivateUsage]

    if (os.cpu_count() or 1) == 1 or sum(array.nbytes for array in pending) < _PIECE:
        return None
    thread = threading.Thread(target=read, name="relax-read", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
