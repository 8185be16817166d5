"""The number of threads that run parallel loops, and the memory of the pool that holds them.

    RELAX_NUM_THREADS     how many threads run one parallel loop, the calling one included
                          (default: one per processor this process may run on)

A process has one pool, whichever libraries are loaded. Its machine code comes with the first library that has parallel
loops (`relax.codegen.support.pool`), and stays as long as the process does, for its threads are in it. The first loop
that needs threads starts them. The child of a fork has none: the page of the state is zeros there, and it starts its
own.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import lru_cache
from typing import Any, Final

LAUNCH: Final = "relax.parallel.v1"
"""The symbol by which kernels enter a parallel loop. The number changes with the meaning of the state."""
STATE: Final = "relax.pool.v1.state"
STATE_BYTES: Final = 4096
"""The bytes of the state, which are zeros at first."""
LIMIT: Final = "relax.pool.v1.limit"
MOST_THREADS: Final = 1024
VARIABLE: Final = "RELAX_NUM_THREADS"

_PAGE: Final = max(STATE_BYTES, mmap.PAGESIZE)
_MADV_WIPEONFORK: Final = 18


def num_threads() -> int:
    """The number of threads that run a parallel loop, the calling one included.

    Raises ValueError if RELAX_NUM_THREADS is not a number of threads.
    """
    limit = _limit()
    if not limit.value:
        limit.value = _default()
    return limit.value


def set_num_threads(count: int) -> None:
    """Run parallel loops on `count` threads from now on, in the whole process; 1 makes them serial.

    Results do not depend on it. Raises ValueError for less than 1 or more than 1024, TypeError for what is no int.
    """
    if isinstance(count, bool) or not isinstance(count, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"set_num_threads: expected an int, found {type(count).__name__}")
    if not 1 <= count <= MOST_THREADS:
        raise ValueError(f"set_num_threads: expected 1 to {MOST_THREADS} threads, found {count}")
    _limit().value = count


def _default() -> int:
    text = os.environ.get(VARIABLE, "")
    if not text:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return min(cores or 1, MOST_THREADS)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_THREADS):
        raise ValueError(f"{VARIABLE}={text!r}: expected a number of threads from 1 to {MOST_THREADS}")
    return int(text)


def pool_symbols() -> dict[str, int]:
    """The addresses of what the pool's code reads: its state, zeros at first, and the number of threads."""
    num_threads()
    return {STATE: _memory(), LIMIT: _memory() + _PAGE}


def _limit() -> ctypes.c_int32:
    """Number of threads as a C int; 0 until first requested."""
    return ctypes.c_int32.from_address(_memory() + _PAGE)


@lru_cache(maxsize=1)
def _memory() -> int:
    """Allocate a page for the state and one for the settings; never freed, since threads read them until exit."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_longlong]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address: Any = libc.mmap(None, 2 * _PAGE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"out of memory: cannot map {2 * _PAGE} bytes for the thread pool")
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if libc.madvise(address, _PAGE, _MADV_WIPEONFORK) and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: ctypes.memset(address, 0, _PAGE))
    return int(address)
