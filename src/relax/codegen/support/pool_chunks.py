"""Chunks of the regions of the thread pool (`pool`), and the bits of its gate."""

from __future__ import annotations

from ...runtime.threads import STATE
from ...script import tir as T
from .c import NULL, C

Pool = T.struct("PoolState")
internal = T.prim_func(linkage="internal", attributes="nounwind")

OPEN, WAITING, FREE, REGION = 1 << 12, 1 << 13, (1 << 12) - 1, 14
"""Bits of the gate; the number of the region begins at bit `REGION`."""
FUTEX_WAIT, FUTEX_WAKE = T.int64(128), T.int64(129)
"""Operations of Linux's futex within one process."""
_CHUNKS = 256
"""Maximum number of chunks, and so of useful threads."""


@internal(attributes="nounwind noinline")
def run_serially(body: T.handle, captures: T.handle, count: T.int64, chunk: T.int64) -> T.int32:
    """Run all chunks on this thread, up to the first that fails."""
    at = T.alloc_var("int64", 0)
    while at < count:
        end = at + T.min(count - at, chunk)
        if T.call_pointer("int32", body, captures, at, end) != 0:
            return -1
        at = end
    return 0


@internal(attributes="alwaysinline")
def chunk_of(count: T.int64, grain: T.int64) -> T.int64:
    """Return the number of iterations of a chunk."""
    return T.max(T.truncdiv(count + (_CHUNKS - 1), _CHUNKS), T.max(T.abs(grain), 1))


@internal(attributes="cold noinline nounwind")
def keep_error(at: T.int64):
    """Record the raised error if its chunk is the lowest one that failed so far."""
    pool = Pool(T.symbol_address(STATE))
    slot = T.alloc_var("handle", NULL)
    C.TVMFFIErrorMoveFromRaised(T.address_of(slot))
    dropped = T.alloc_var("handle", slot)
    while T.atomic_cmpxchg(T.address_of(pool.error_lock), 0, 1, "acquire", "monotonic") != 0:
        T.cpu_pause()
    if at < T.atomic_load("int64", T.address_of(pool.failed), "monotonic"):
        dropped = pool.error
        pool.error = slot
        T.atomic_store(T.address_of(pool.failed), at, "monotonic")
    T.atomic_store(T.address_of(pool.error_lock), 0, "release")
    if not T.isnullptr(dropped):
        C.TVMFFIObjectDecRef(dropped)


@internal(attributes="nounwind noinline")
def run_chunks(number: T.int32) -> T.int64:
    """Claim and run chunks of the open region until none is left; return the number of iterations run here.

    Chunks behind the lowest one that failed are claimed and not run.
    """
    pool = Pool(T.symbol_address(STATE))
    body: T.handle = pool.body
    captures: T.handle = pool.captures
    chunk, parts = pool.chunk, T.int64(pool.parts)
    ran = T.alloc_var("int64", 0)
    own = T.truncmod(T.Cast("uint32", number), T.Cast("uint32", pool.parts))
    which = T.alloc_var("int64", T.int64(own))
    for _ in range(parts):
        part = pool.part[which]
        next: T.handle = T.address_of(part.next)
        end = part.end
        while T.atomic_load("int64", next, "monotonic") < end:
            at = T.atomic_add(next, chunk, "monotonic")
            if at >= end:
                break
            if at > T.atomic_load("int64", T.address_of(pool.failed), "monotonic"):
                continue
            stop = at + T.min(end - at, chunk)
            ran += stop - at
            if T.call_pointer("int32", body, captures, at, stop) != 0:
                keep_error(at)
        which = T.Select(which + 1 == parts, T.int64(0), which + 1)
    return ran
