"""Memory of storages: blocks that a VM reuses once nothing refers to them.

    allocator = Allocator()
    storage = allocator.take(1000)     a uint8 tensor; tensors cut from it keep it busy
    allocator.stats()                  bytes in use, kept, at most in use so far
    allocator.release()                gives back what is not in use
    allocator.prepare(4 << 20)         touches memory for a request to come

A block is in use as long as the storage, or a tensor cut from it, is alive, wherever that is: the allocator holds one
reference and asks tvm-ffi whether there are others. A request takes the smallest free block that is large enough, but
none that is far too large; else the largest free one is given back, and a block is allocated. So there are never more
blocks than were in use at once, whatever sizes are asked for. A block that many requests passed over is given back too.

A large block has addresses for several times its size. Those behind it take no memory, until a larger request comes: it
gets the same block, and new memory only for what it asks for more.

Memory that was never used is dear: the system clears each page when it is touched first, and the host of a virtual
machine has to find it. So blocks are in small pages, of which a system has more that it used lately: on a virtual AMD
EPYC, 2 MB of them take 1 to 1.5 ms and one large page 0.3 to 5, and runs take the same time after. A thread touches
new memory while the program computes, if there are more processors than threads that run loops; else all memory that
is new is touched before, by two threads if loops may run on two: 1 MB takes 0.3 ms of a processor, and 0.5 if the
program touches it page by page.

The first call of a program would take most of its new memory at once. So a machine that knows how much that will be
has it touched by a thread while nothing runs yet (`prepare`): the first large request takes that memory, touched as
far as the thread came.

Compiled functions allocate storages of up to `SMALL_STORAGE` bytes themselves, and free them with their last tensor:
the C library keeps such memory for the next call. The allocator counts them.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from typing import Any, Final, NamedTuple

import tvm_ffi

from .devices import Device
from .forks import ForkLock
from .tensor import MAX_BYTES, new_tensor, numpy_view, view_tensor
from .threads import num_threads

FITS: Final = 16
"""Smallest request that a block serves, as a fraction of its size."""
SMALL: Final = 1 << 16
"""Size in bytes up to which a block serves any request that fits."""
PATIENCE: Final = 256
"""Number of consecutive requests after which an unused block is freed."""
SMALL_STORAGE: Final = 1 << 20
"""Largest storage in bytes that a compiled function allocates without calling the allocator."""
POLICIES: Final = ("pooled", "naive")

AHEAD: Final = 1 << 20
"""Smallest request in bytes that takes prepared memory."""

_TOUCHED: Final = 2 << 20
"""Size in bytes from which new memory is pre-faulted."""
_ROOM: Final = 4
"""Address space reserved for a block of `_TOUCHED` bytes or more, as a multiple of its size."""
_AT_ONCE: Final = 1 << 19
"""Bytes pre-faulted at a time; the kernel's memory map is locked for that long."""
_POPULATE_WRITE: Final = 23
"""MADV_POPULATE_WRITE, by its number in Linux: touch pages as if they were written to. Older systems refuse it."""

_madvise = ctypes.CDLL(None).madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class MemoryStats(NamedTuple):
    """Bytes of storages of a machine, in which its functions lay out the tensors that they need themselves.

    Tensors that a function returns, or others may keep, are allocated one by one, and not counted.
    """

    in_use: int
    """Bytes asked for by storages that are alive."""
    reserved: int
    """Bytes held, in use or not."""
    peak: int
    """The most bytes that were in use at once."""
    allocations: int
    """The number of times that memory was asked of the operating system."""
    requests: int
    """The number of times that a storage was asked for."""


class _Block:
    """Memory, and the size of the request it serves or served last."""

    __slots__ = ("_references", "capacity", "idle", "place", "size", "tensor")

    def __init__(self, size: int, device: Device | None, room: int, tensor: tvm_ffi.Tensor | None = None) -> None:
        self.tensor = tensor or new_tensor((room,), "uint8", device, large_pages=False)
        """The addresses, of which the first `capacity` bytes were asked for so far."""
        self.capacity = self.size = size
        self.place = 0 if device is None else device.index
        self.idle = 0
        """Requests since it was used last."""
        # The count of strong references stands first in an object of tvm-ffi; all of Python's are one.
        self._references = ctypes.c_uint32.from_address(self.tensor.__chandle__())

    def is_free(self) -> bool:
        """True if no storage and no tensor cut from it is alive."""
        return self._references.value == 1

    def serves(self, size: int, device_index: int) -> bool:
        """True if the block is large enough for a request on a device, and not far too large."""
        fits = size <= self.tensor.numel() and self.capacity <= max(FITS * size, SMALL)
        return fits and self.place == device_index and self.is_free()


class _Ahead:
    """Memory for the first large request, and the thread that touches it."""

    __slots__ = ("_ends", "_thread", "size", "tensor", "touched")

    def __init__(self, size: int, room: int) -> None:
        self.tensor = new_tensor((room,), "uint8", large_pages=False)
        self.size = size
        self.touched = 0
        """The bytes that are touched so far."""
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="relax-memory", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self.touched < self.size and not self._ends:
            first = self.tensor.data_ptr() + self.touched
            count = min(_AT_ONCE, self.size - self.touched)
            if not _touch_pages(first, first + count):
                return
            self.touched += count

    def stop(self) -> None:
        """Have the thread end, which takes no longer than `_AT_ONCE` bytes."""
        self._ends = True
        self._thread.join()


class Allocator:
    """The storages of one machine; it may be used from several threads."""

    def __init__(self, policy: str = "pooled") -> None:
        """Make an allocator.

        Parameters
        ----------
        policy
            ``"pooled"`` keeps memory for the next request, ``"naive"`` gives it back before the next.
        """
        if policy not in POLICIES:
            raise ValueError(f"memory_cfg {policy!r} is not known; there are: {', '.join(POLICIES)}")
        self._keeps = policy == "pooled"
        self._lock = ForkLock()
        self._blocks: list[_Block] = []
        self._ahead: _Ahead | None = None
        self._peak = 0
        self._allocations = 0
        self._requests = 0
        self.counts = new_tensor((4,), "int64")
        """Of compiled functions: bytes of small storages in use, the most bytes of storages so far, requests for small
        ones, and bytes of large storages in use.
        """
        self._counts: Any = numpy_view(self.counts)
        self._counts[:] = 0

    def take(self, size: int, device: Device | None = None) -> tvm_ffi.Tensor:
        """A storage of `size` bytes, aligned to 64 bytes. Raises MemoryError."""
        with self._lock:
            self._requests += 1
            block = self._block(size, device)
            if size > block.capacity:
                self._touch(block, block.capacity, size)
                block.capacity = size
            block.size, block.idle = size, 0
            storage = view_tensor(block.tensor, (size,), "uint8")
            self._peak = max(self._peak, self._in_use() + int(self._counts[0]))
        return storage

    def prepare(self, size: int, most: int = 0) -> None:
        """Have memory touched for the first request of `AHEAD` bytes or more: `size` bytes, with `most` addresses."""
        if not self._keeps or size < AHEAD or not hasattr(os, "sched_getaffinity"):
            return
        try:
            ahead = _Ahead(size, max(most, min(_ROOM * size, MAX_BYTES)))
        except (MemoryError, RuntimeError):  # not so many addresses, no more threads
            return
        with self._lock:
            self._ahead = ahead

    def stats(self) -> MemoryStats:
        """Counts of bytes, now and so far."""
        with self._lock:
            small, peak, requests, _ = (int(count) for count in self._counts)
            return MemoryStats(
                in_use=self._in_use() + small,
                reserved=self._reserved() + small,
                peak=max(self._peak, peak),
                allocations=self._allocations,
                requests=self._requests + requests,
            )

    def release(self) -> int:
        """Give back the memory that is not in use; its bytes."""
        with self._lock:
            before = self._reserved()
            self._drop([block for block in self._blocks if block.is_free()])
            self._taken_ahead()
            return before - self._reserved()

    def _reserved(self) -> int:
        ahead = 0 if self._ahead is None else self._ahead.size
        return ahead + sum(block.capacity for block in self._blocks)

    def _taken_ahead(self) -> _Ahead | None:
        """Take and return the prepared memory, or None."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.stop()
        return ahead

    def _in_use(self) -> int:
        return sum([block.size for block in self._blocks if not block.is_free()])

    def _block(self, size: int, device: Device | None) -> _Block:
        device_index = 0 if device is None else device.index
        best: _Block | None = None
        expired = False
        for block in self._blocks:
            block.idle += 1
            expired = expired or block.idle > PATIENCE
            if block.serves(size, device_index) and (best is None or _waste(block, size) < _waste(best, size)):
                best = block
        if expired:
            self._drop([b for b in self._blocks if b.idle > PATIENCE and b is not best and b.is_free()])
        return best if best is not None and self._keeps else self._allocate(size, device)

    def _allocate(self, size: int, device: Device | None) -> _Block:
        free = sorted((b for b in self._blocks if b.is_free()), key=lambda block: block.capacity)
        self._drop(free[-1:] if self._keeps else free)
        ahead = self._taken_ahead() if size >= AHEAD and self._ahead is not None else None
        if ahead is not None and size <= ahead.tensor.numel() and (device is None or device.index == 0):
            block = _Block(size, device, 0, ahead.tensor)
            self._allocations += 1
            self._blocks.append(block)
            self._touch(block, ahead.touched, size)
            return block
        grows = self._keeps and size >= _TOUCHED
        room = max(size, min(_ROOM * size, MAX_BYTES)) if grows else size
        try:
            block = _Block(size, device, room)
        except MemoryError:
            self._drop(free)
            block = _Block(size, device, size)
        self._allocations += 1
        self._blocks.append(block)
        self._touch(block, 0, size)
        return block

    def _touch(self, block: _Block, start: int, end: int) -> None:
        """Pre-fault the part of a block that may be new."""
        if self._keeps and end - start >= _TOUCHED:
            touch(block.tensor, start, end)

    def _drop(self, blocks: list[_Block]) -> None:
        if blocks:
            self._blocks = [block for block in self._blocks if block not in blocks]


def _waste(block: _Block, size: int) -> tuple[bool, int]:
    """Sort key of a block for a request: bytes left unused, with bytes newly mapped counting more."""
    return size > block.capacity, abs(block.capacity - size)


def touch(tensor: tvm_ffi.Tensor, start: int, end: int) -> threading.Thread | None:
    """Touch the pages of some bytes of a tensor, whose contents stay what they are; the thread that goes on with it.

    Where no processor is free, all are touched before this returns.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    first, last = tensor.data_ptr() + start, tensor.data_ptr() + end
    threads = num_threads()
    if len(os.sched_getaffinity(0)) > threads:
        return _touching(tensor, first, last)
    middle = (first + last) // 2
    other = _touching(tensor, middle, last) if threads > 1 else None
    _touch_pages(first, last if other is None else middle)
    if other is not None:
        other.join()
    return None


def _touching(tensor: tvm_ffi.Tensor, first: int, last: int) -> threading.Thread | None:
    """A thread that touches the pages between two addresses of a tensor, which it keeps alive; None if none starts."""

    def run(_alive: tvm_ffi.Tensor) -> None:
        _touch_pages(first, last)

    thread = threading.Thread(target=run, args=(tensor,), name="relax-memory", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads, or the interpreter ends
        return None
    return thread


def _touch_pages(first: int, last: int) -> bool:
    """Touch the pages between two addresses; False if the system does not know how, or has no memory."""
    return not any(
        _madvise(at, min(_AT_ONCE, last - at), _POPULATE_WRITE)
        for at in range(first // mmap.PAGESIZE * mmap.PAGESIZE, last, _AT_ONCE)
    )
