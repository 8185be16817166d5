"""Memory-mapped program files: constants are not copied where the page cache holds the file in large pages.

A file that was read or written lately is in the system's memory already. To copy hundreds of megabytes of constants
takes most of the time of loading them, for memory that was never used is dear: the system clears it, and the host of a
virtual machine has to find it first (AMD EPYC: 256 MB take 2 ms to map, and 250 to 780 to allocate).

A mapped file whose owner writes to it changes the constants, and one that is cut off ends the process. So only files
that are replaced and never written to are mapped: those of the cache (`relax.farm.cache`), on a file system of this
machine. What the program writes to the memory stays its own, and the memory outlives the file's name.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import resource
import sys
from typing import Any, Final

import numpy as np
import tvm_ffi

from .tensor import LARGE_PAGE

LEAST: Final = 2 * LARGE_PAGE
"""Bytes of the smallest file that is mapped."""

_TOUCH: Final = 1 << 16
"""Stride in bytes of the probe for large pages: what the system maps per fault of a file in small pages."""

_FAULTS: Final = 4
"""Page faults per large page up to which memory counts as mapped in large pages; small pages take 32."""

_LOCAL: Final = frozenset({0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630})
"""Magic numbers of local file systems (ext4, XFS, Btrfs, tmpfs, overlayfs); remote ones may truncate files."""

_MAP_FIXED: Final = 0x10
_FAILED: Final = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_longlong]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class _Mapping:
    """A mapped file, as an ``__array_interface__``: the array keeps this alive."""

    __slots__ = ("__array_interface__", "_address", "_end", "_unmap")

    def __init__(self, address: int, size: int, end: int) -> None:
        self._address, self._end, self._unmap = address, end, _libc.munmap
        self.__array_interface__: dict[str, Any] = {
            "data": (address, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        self._unmap(self._address, self._end - self._address)


def mapped(file: io.BufferedIOBase) -> tvm_ffi.Tensor | None:
    """The bytes of an open file as memory that may be written to, all of it mapped; None where it is better to read it.

    The file must not be written to or cut off as long as the memory is in use.
    """
    if sys.platform != "linux":
        return None
    try:
        descriptor = file.fileno()
    except OSError:  # it is in memory
        return None
    size = os.fstat(descriptor).st_size
    if size < LEAST or not _is_local(descriptor):
        return None
    memory = _map(descriptor, size)
    if memory is None or not _in_large_pages(memory):
        return None
    return tvm_ffi.from_dlpack(memory)


def _is_local(descriptor: int) -> bool:
    """True for a file on a file system of this machine."""
    status = (ctypes.c_long * 32)()  # struct statfs, which begins with the kind
    return _libc.fstatfs(descriptor, status) == 0 and status[0] in _LOCAL


def _map(descriptor: int, size: int) -> np.ndarray[Any, Any] | None:
    """A file as memory that begins with a large page; None if the system refuses."""
    end = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    room: int | None = _libc.mmap(None, end + LARGE_PAGE, 0, flags, -1, 0)
    if room is None or room == _FAILED:
        return None
    address = -(-room // LARGE_PAGE) * LARGE_PAGE
    for start, behind in ((room, address), (address + end, room + end + LARGE_PAGE)):
        if start < behind:
            _libc.munmap(start, behind - start)
    mapping = _Mapping(address, size, address + end)  # from here on it is given back
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    if _libc.mmap(address, end, protection, mmap.MAP_PRIVATE | _MAP_FIXED, descriptor, 0) != address:
        return None
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is not None:  # have what is not in memory yet read in large pages
        _libc.madvise(address, end, advice)
    return np.asarray(mapping)


def _in_large_pages(memory: np.ndarray[Any, Any]) -> bool:
    """Touch mapped memory; return True if the system mapped it in large pages."""
    before = _faults()
    memory[::_TOUCH].max()
    return _faults() - before <= _FAULTS * -(-memory.size // LARGE_PAGE)


def _faults() -> int:
    """Return the page fault count of this thread."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_minflt + usage.ru_majflt
