"""Reuse of the memory of freed large tensors.

The C library returns large blocks to the system at once, and the system clears the pages of new ones: a call that
returns 38 MB took 9,200 page faults, 20 of its 38 ms (GPT-2 with 512 tokens in its cache, AMD Zen 4). Therefore the
process keeps freed blocks of `LEAST_KEPT` bytes or more:

* sizes are rounded up to one of 16 between two powers of two, so that blocks fit results that grow from call to call;
* a request takes the smallest block that is large enough, if it is at most a quarter too large;
* blocks in use and kept blocks together never exceed the peak of blocks in use, and kept ones never `MOST_KEPT`;
* a block that `PATIENCE` requests passed over is returned to the C library, and all blocks by `give_back`.

A thread that finds the lock taken uses the C library: no thread waits for another.
"""

from __future__ import annotations

from ....native import ffi_layouts as ffi
from ....runtime.allocator import PATIENCE
from ....runtime.native import CELLS
from ....runtime.tensor import LARGE_PAGE
from ....script import tir as T
from ....target.c_structs import STRUCTS
from ...plain import Data
from ..c import NULL, C, u64
from ..errors import large_pages
from .values import Any, cells, internal

LEAST_KEPT = 1 << 17
"""Bytes of the smallest memory block that is kept: the C library serves such blocks by mmap."""
MOST_KEPT = 1 << 28
"""Maximum total of kept bytes."""
_SLOTS = STRUCTS["KeptBlocks"].fields["blocks"].length

Kept = T.struct("KeptBlocks")
KEPT = T.symbol_address(f"{CELLS}kept")
"""The kept blocks; those before `count` are filled. The holder of the lock changes all but the bytes in use."""
DATA = (Data(f"{CELLS}kept", "KeptBlocks"),)


@internal
def kept_enter() -> T.bool:
    """Try to take the lock; return true on success."""
    return T.atomic_cmpxchg(T.address_of(Kept(KEPT).lock), 0, 1, "acquire", "monotonic") == 0


@internal
def kept_leave():
    """Release the lock."""
    T.atomic_store(T.address_of(Kept(KEPT).lock), 0, "release")


@internal
def kept_remove(index: T.int64) -> T.handle:
    """Remove a slot and move the last one to its position. The caller holds the lock."""
    kept = Kept(KEPT)
    slot = kept.blocks[index]
    memory: T.handle = slot.memory
    kept.bytes -= slot.bytes
    kept.count -= 1
    C.memcpy(slot, kept.blocks[kept.count], T.struct_size("KeptBlock"))
    return memory


@internal
def kept_oldest() -> T.int64:
    """Return the slot that was filled first; there is at least one. The caller holds the lock."""
    kept = Kept(KEPT)
    oldest = T.alloc_var("int64", 0)
    for i in range(kept.count):
        if kept.blocks[i].time < kept.blocks[oldest].time:
            oldest = i
    return oldest


@internal
def kept_fit(bytes: T.int64) -> T.int64:
    """Return the slot of the smallest block that is large enough, or -1. The caller holds the lock."""
    kept = Kept(KEPT)
    fit = T.alloc_var("int64", -1)
    least = T.alloc_var("int64", bytes + (bytes >> 2) + 1)
    for i in range(kept.count):
        size = kept.blocks[i].bytes
        if size >= bytes and size < least:
            fit = i
            least = size
    return fit


@internal
def kept_shrink(bytes: T.int64):
    """Free the oldest blocks until at most `bytes` are cached. The caller holds the lock."""
    kept = Kept(KEPT)
    while kept.bytes > bytes and kept.count != 0:
        C.free(kept_remove(kept_oldest()))


@internal
def kept_expire(now: T.int64):
    """Free the oldest block if enough requests passed over it. The caller holds the lock."""
    kept = Kept(KEPT)
    if kept.count == 0:
        return
    oldest = kept_oldest()
    if now - kept.blocks[oldest].time > PATIENCE:
        C.free(kept_remove(oldest))


@internal
def kept_count_used(bytes: T.int64):
    """Add to the bytes in use, and update their peak."""
    kept = Kept(KEPT)
    used = T.atomic_add(T.address_of(kept.used), bytes, "monotonic") + bytes
    T.atomic_max(T.address_of(kept.peak), used, "monotonic")


@internal
def kept_empty() -> T.int64:
    """Free all cached blocks and return their total size in bytes."""
    if not kept_enter():
        return 0
    held = Kept(KEPT).bytes
    kept_shrink(0)
    kept_leave()
    return held


@internal
def kept_take(bytes: T.int64, capacity: T.handle) -> T.handle:
    """Return a block of at least `bytes` and write its size to `capacity`; null if there is no memory."""
    kept = Kept(KEPT)
    has = T.decl_buffer((1,), "int64", data=capacity)
    step = T.shift_left(T.int64(1), 59 - T.int64(T.clz(bytes)))
    size = (bytes + (step - 1)) & (0 - step)
    has[0] = size
    if kept_enter():
        now = kept.clock + 1
        kept.clock = now
        fit = kept_fit(size)
        if fit >= 0:
            has[0] = kept.blocks[fit].bytes
            memory = kept_remove(fit)
            kept_count_used(has[0])
            kept_expire(now)
            kept_leave()
            return memory
        kept_expire(now)
        wanted = T.atomic_load("int64", T.address_of(kept.used), "monotonic") + size
        room = T.atomic_load("int64", T.address_of(kept.peak), "monotonic") - wanted
        kept_shrink(T.max(room, 0))
        kept_leave()
    memory = T.alloc_var("handle", C.malloc(size))
    if T.isnullptr(memory):
        kept_empty()
        memory = C.malloc(size)
        if T.isnullptr(memory):
            return NULL
    kept_count_used(size)
    if u64(size) >= u64(LARGE_PAGE):
        large_pages(memory, size)
    return memory


@internal
def kept_put(memory: T.handle, bytes: T.int64):
    """Cache a block returned by `kept_take` that is no longer used, or free it."""
    kept = Kept(KEPT)
    T.atomic_sub(T.address_of(kept.used), bytes, "monotonic")
    if u64(bytes) > u64(MOST_KEPT) or not kept_enter():
        C.free(memory)
        return
    kept_shrink(MOST_KEPT - bytes)
    if kept.count == _SLOTS:
        C.free(kept_remove(kept_oldest()))
    slot = kept.blocks[kept.count]
    slot.memory = memory
    slot.bytes = bytes
    slot.time = kept.clock
    kept.count += 1
    kept.bytes += bytes
    kept_leave()


@cells
def give_back(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function () -> int: free all cached blocks and return the bytes freed."""
    result.word = ffi.INT
    result.value = kept_empty()
    return 0


FUNCTIONS = (
    kept_enter, kept_leave, kept_remove, kept_oldest, kept_fit, kept_shrink, kept_expire, kept_count_used, kept_empty,
    kept_take, kept_put, give_back, large_pages,
)  # fmt: skip
