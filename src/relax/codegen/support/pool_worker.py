"""The thread pool's workers, and their start (`pool`)."""

from __future__ import annotations

from ...runtime.threads import STATE
from ...script import tir as T
from .c import NULL, C, address, pointer
from .pool_chunks import FREE, FUTEX_WAIT, FUTEX_WAKE, OPEN, REGION, WAITING, Pool, internal, run_chunks

_PAUSES = 1024
"""Polls of the gate before a worker begins to yield its processor, about 10 to 40 ns apart."""
_LOOKS = 16384
"""Polls of the gate before a worker falls asleep. It yields its processor at every sixteenth of the later ones."""
_PROCESSORS = 1024
"""Bits of an affinity mask."""
_WORDS, _BYTES = _PROCESSORS // 64, _PROCESSORS // 8
_SIG_SETMASK = 2


@internal
def same_masks(first: T.handle, second: T.handle) -> T.bool:
    """Compare two affinity masks."""
    a = T.decl_buffer((_WORDS,), "uint64", data=first)
    b = T.decl_buffer((_WORDS,), "uint64", data=second)
    for i in range(_WORDS):
        if a[i] != b[i]:
            return False
    return True


@internal(attributes="nounwind noinline cold")
def avoid(processor: T.int32, own: T.handle, given: T.handle) -> T.bool:
    """Exclude a processor from this thread's affinity mask; true if the thread may run on another one.

    `own` is the thread's original mask, `given` the one that was set here last: a mask that differs from `given` was
    set by other code. False for masks of over 1,024 bits.
    """
    now = T.alloc_buffer((_WORDS,), "uint64", scope="local")
    wanted = T.alloc_buffer((_WORDS,), "uint64", scope="local")
    if T.Cast("uint32", processor) >= T.uint32(_PROCESSORS) or C.sched_getaffinity(0, _BYTES, now) != 0:
        return False
    if not same_masks(now.data, given):
        C.memcpy(own, now, _BYTES)
        C.memcpy(given, now, _BYTES)
    C.memcpy(wanted, own, _BYTES)
    bit = T.shift_left(T.uint64(1), T.Cast("uint64", processor & 63))
    wanted[processor >> 6] &= ~bit
    left = T.alloc_var("uint64", 0)
    for i in range(_WORDS):
        left |= wanted[i]
    if left == 0:
        return False
    if same_masks(wanted.data, now.data):
        return True
    if C.sched_setaffinity(0, _BYTES, wanted) != 0:
        return False
    C.sched_getaffinity(0, _BYTES, given)
    return True


@internal(attributes="nounwind noinline")
def worker(named: T.handle) -> T.handle:
    """Run chunks of regions for ever. The argument is the worker's number."""
    pool = Pool(T.symbol_address(STATE))
    own = T.alloc_buffer((_WORDS,), "uint64", scope="local")
    given = T.alloc_buffer((_WORDS,), "uint64", scope="local")
    C.memset(own, 0, _BYTES)
    C.memset(given, 0, _BYTES)
    number = T.int32(address(named))
    mode = T.alloc_var("int64", T.float_mode())
    seen = T.alloc_var("int32", 0)
    woken = T.alloc_var("bool", T.bool(False))
    while True:
        heard = T.alloc_var("int32", T.atomic_load("int32", T.address_of(pool.wake), "seq_cst"))
        spins = T.alloc_var("uint32", 0)
        sleeps = T.alloc_var("bool", T.bool(False))
        while True:
            gate = T.atomic_load("int32", T.address_of(pool.gate), "seq_cst")
            region = gate >> REGION
            yields = T.alloc_var("bool", T.bool(False))
            if region != seen and gate & OPEN != 0 and gate & FREE != 0:
                here = C.sched_getcpu()
                there = T.atomic_load("int32", T.address_of(pool.processor), "monotonic")
                if here != there:
                    if T.atomic_cmpxchg(T.address_of(pool.gate), gate, gate - 1, "seq_cst", "seq_cst") == gate:
                        wanted = pool.mode
                        last = pool.seats | WAITING
                        if wanted != mode:
                            T.set_float_mode(wanted)
                        run_chunks(number)
                        now = T.atomic_add(T.address_of(pool.gate), 1, "seq_cst") + 1
                        if now & (FREE | WAITING) == last:
                            T.system_call("futex", T.address_of(pool.gate), FUTEX_WAKE, T.int64(1))
                        mode = wanted
                        seen = region
                        woken = T.bool(False)
                        break
                else:
                    if not avoid(there, own.data, given.data):
                        if not woken:
                            heard = T.atomic_load("int32", T.address_of(pool.wake), "seq_cst")
                            sleeps = T.bool(True)
                            break
                        yields = T.bool(True)
            if not yields:
                T.cpu_pause()
                spins += 1
                if spins < _PAUSES or spins & 15 != 0:
                    continue
            T.system_call("sched_yield")
            spins += 1
            if spins >= _LOOKS:
                avoid(T.atomic_load("int32", T.address_of(pool.processor), "monotonic"), own.data, given.data)
                sleeps = T.bool(True)
                break
        if sleeps:
            T.atomic_add(T.address_of(pool.sleepers), 1, "seq_cst")
            T.system_call("futex", T.address_of(pool.wake), FUTEX_WAIT, heard, NULL)
            T.atomic_sub(T.address_of(pool.sleepers), 1, "seq_cst")
            woken = T.bool(True)


@internal(attributes="nounwind noinline cold")
def start_workers(wanted: T.int32):
    """Start workers until there are `wanted`. A failed start is not retried.

    Workers block all signals: a program's handlers run on its own threads.
    """
    pool = Pool(T.symbol_address(STATE))
    all = T.alloc_buffer((128,), "uint8", scope="local")
    old = T.alloc_buffer((128,), "uint8", scope="local")
    thread = T.alloc_var("int64", 0)
    C.memset(all, -1, 128)
    C.pthread_sigmask(_SIG_SETMASK, all, old)
    while pool.started < wanted:
        number = pool.started + 1
        if C.pthread_create(T.address_of(thread), NULL, T.symbol_address(worker), pointer(T.int64(number))) != 0:
            break
        C.pthread_detach(thread)
        pool.started = number
    C.pthread_sigmask(_SIG_SETMASK, old, NULL)
