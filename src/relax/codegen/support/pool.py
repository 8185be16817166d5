"""The thread pool that runs parallel loops: one object, which the loader keeps once in a process.

    int relax.parallel.v1(int (*body)(void *captures, int64 begin, int64 end), void *captures, int64 count, int64 grain)

runs `body` over [0, count) in chunks of at least `grain` iterations (its magnitude), and returns 0, or -1 with an error
set. The chunks depend on `count` and `grain` alone, so that a result does not depend on the number of threads, nor on
what else runs.

The state is memory that the loader provides (`relax.runtime.threads`). A *region* is one parallel loop being run.

* The chunks are divided into one part per thread. A thread claims the chunks of its own part in order by an atomic
  counter, then those of other parts. The thread that entered the region has the first part. So a thread reads in one
  region the data it wrote in the last one, if both traverse the same rows: reading a cache line that another core wrote
  takes 50 to 90 ns if the cores share no cache, and writing one that both have read takes 27 ns (two cores of a virtual
  AMD EPYC, Zen 4).
* A negative `grain` marks a loop whose work pays for several threads only if its data are already in several caches:
  the loop is serial unless it is one of the next few after another loop that ran on several threads.
* `gate` is one word: the number of the region, an open bit, and the number of free seats. A worker takes a seat only
  while the gate is open; the thread that closes it waits for the taken seats, never for a worker that has not come.
* Idle workers spin for a moment, then yield their processor between polls, then sleep in a futex. As many workers are
  woken as seats would stay free.
* A worker excludes from its affinity mask, before it sleeps, the processor of the thread that entered the last region,
  and, while it runs, a processor that it shares with that thread. If processors share no cache, Linux wakes a thread on
  the processor of its waker although another one is free: the worker then waited 1.7 ms for that thread to be
  preempted; on the other processor it begins 0.07 ms after it was woken (two cores of a virtual AMD EPYC, Linux 6.18).
  A mask set by other code is respected from then on. A worker that has no other processor leaves its only one to the
  thread that entered the region.
* The thread that entered a region records the time that workers save and the time spent waiting for them, in ticks of
  the processor's clock, with less weight for older regions. If other programs use the processors, a worker may be
  preempted within a chunk, and waiting for it may take longer than was saved. After a loss, regions are serial for some
  time.
* A region in progress (nested, or entered by another thread) makes the next one serial, on the thread that asks.
* After an error chunks behind it are claimed and not run. Those before it are, so the error of the lowest chunk is the
  one that serial execution would raise. It is moved to the calling thread.
* Workers compute with the caller's floating-point mode.

Where there is no futex (any system but Linux on an architecture with `ISA.pool`), all chunks run on the calling thread.
"""

from __future__ import annotations

from ...runtime.threads import LAUNCH, LIMIT, MOST_THREADS, STATE, STATE_BYTES
from ...script import tir as T
from ...target.c_structs import STRUCTS
from ..plain import Data
from .c import NULL, C, udiv
from .pool_chunks import (
    FREE,
    FUTEX_WAIT,
    FUTEX_WAKE,
    OPEN,
    REGION,
    WAITING,
    Pool,
    chunk_of,
    internal,
    keep_error,
    run_chunks,
    run_serially,
)
from .pool_worker import avoid, same_masks, start_workers, worker

_WAITS = 256
"""Polls of the gate before the thread that entered a region assumes that workers in it may be stopped."""
_OFFERS = 64
"""Number of times that thread then yields its processor before it falls asleep."""
_REST = 16.0
"""Regions are serial for as long as was lost; with successive losses, the factor doubles, up to this one."""
_FOLLOWERS = 8
"""Number of loops of negative grain that run on several threads after one of positive grain."""
_HUGE = 1 << 48
"""Number of iterations from which a loop is serial: in 64 bits, shares of larger ones could overflow."""
_MOST_PARTS = STRUCTS["PoolState"].fields["part"].length


@internal(attributes="nounwind noinline")
def settle(start: T.int64, used: T.int64, mine: T.int64, count: T.int64, others: T.int32):
    """Update the balance of time saved and lost by regions, and make regions serial for some time after a loss.

    Time saved is the estimate for this thread alone, extrapolated from its own chunks, minus the elapsed time. It is
    limited to the number of workers times the elapsed time, in case this thread was preempted in a chunk.
    """
    pool = Pool(T.symbol_address(STATE))
    now = T.cpu_clock()
    time = T.float64(now - start)
    most = time * T.float64(others)
    alone = T.float64(used) * T.float64(count) / T.float64(mine) - time
    saved = T.Select(mine > 0 and alone < most, alone, most)
    balance = pool.balance * 0.9375 + saved
    if balance < time * -0.25:
        pool.balance = 0.0
        times = T.Select(pool.times < 1.0, T.float64(1.0), pool.times)
        twice = times + times
        pool.times = T.Select(twice > _REST, T.float64(_REST), twice)
        T.atomic_store(T.address_of(pool.until), now + T.int64(-balance * times), "monotonic")
        return
    pool.balance = balance
    if saved > 0.0:
        pool.times = pool.times * 0.9375


@internal
def enter() -> T.bool:
    """Take the pool's lock; false while regions are serial or another one is in progress."""
    pool = Pool(T.symbol_address(STATE))
    until = T.atomic_load("int64", T.address_of(pool.until), "monotonic")
    if until != 0:
        if until - T.cpu_clock() > 0:
            return False
        T.atomic_store(T.address_of(pool.until), T.int64(0), "monotonic")
    if T.atomic_load("int32", T.address_of(pool.lock), "monotonic") != 0:
        return False
    return T.atomic_cmpxchg(T.address_of(pool.lock), 0, 1, "acquire", "monotonic") == 0


@internal
def publish(body: T.handle, captures: T.handle, count: T.int64, chunk: T.int64, chunks: T.int64, threads: T.int32):
    """Write the region to the state, and divide its chunks into one part per thread."""
    pool = Pool(T.symbol_address(STATE))
    pool.body = body
    pool.captures = captures
    pool.chunk = chunk
    pool.mode = T.float_mode()
    pool.seats = threads - 1
    T.atomic_store(T.address_of(pool.processor), C.sched_getcpu(), "monotonic")
    pool.failed = count
    pool.error = NULL
    parts = T.min(threads, _MOST_PARTS)
    pool.parts = parts
    start = T.alloc_var("int64", 0)
    for k in range(T.int64(parts)):
        chunks_before_end = udiv((k + 1) * chunks + T.int64(parts) - 1, T.int64(parts))
        end = T.min(chunks_before_end * chunk, count)
        part = pool.part[k]
        part.next = start
        part.end = end
        start = end


@internal
def open_gate(others: T.int32, workers: T.int32):
    """Open the gate to workers, and wake as many as are missing."""
    pool = Pool(T.symbol_address(STATE))
    gate = T.atomic_load("int32", T.address_of(pool.gate), "monotonic")
    region = (gate >> REGION) + 1
    T.atomic_store(T.address_of(pool.gate), region << REGION | others | OPEN, "seq_cst")
    T.atomic_add(T.address_of(pool.wake), 1, "seq_cst")
    sleepers = T.atomic_load("int32", T.address_of(pool.sleepers), "seq_cst")
    missing = others - T.max(workers - sleepers, 0)
    if missing > 0 and sleepers > 0:
        T.system_call("futex", T.address_of(pool.wake), FUTEX_WAKE, missing)


@internal
def wait_for_workers(others: T.int32, chunk: T.int64, mine: T.int64, used: T.int64, ready_at: T.int64):
    """Wait until all workers have left the region."""
    pool = Pool(T.symbol_address(STATE))
    spins = T.alloc_var("uint32", 0)
    offers = T.alloc_var("uint32", 0)
    while True:
        state = T.atomic_load("int32", T.address_of(pool.gate), "seq_cst")
        if state & FREE == others:
            return
        T.cpu_pause()
        spins += 1
        if spins < _WAITS:
            continue
        waited = T.cpu_clock() - ready_at
        if waited < T.truncdiv(used << 1, T.truncdiv(mine + chunk, chunk)):  # two of the chunks of this thread
            continue
        if offers < _OFFERS:
            T.system_call("sched_yield")
            offers += 1
            continue
        marked = state | WAITING
        if T.atomic_cmpxchg(T.address_of(pool.gate), state, marked, "seq_cst", "seq_cst") == state:
            T.system_call("futex", T.address_of(pool.gate), FUTEX_WAIT, marked, NULL)


@T.prim_func(name=LAUNCH, linkage="external", attributes="nounwind")
def launch(body: T.handle, captures: T.handle, count: T.int64, grain: T.int64) -> T.int32:
    """Run a parallel loop."""
    pool = Pool(T.symbol_address(STATE))
    chunk = chunk_of(count, grain)
    limit = T.atomic_load("int32", T.symbol_address(LIMIT), "monotonic")
    if limit < 2 or chunk >= count or count >= _HUGE:
        return run_serially(body, captures, count, chunk)
    lately = T.atomic_load("int32", T.address_of(pool.lately), "monotonic")
    if (grain < 0 and lately < 1) or not enter():
        return run_serially(body, captures, count, chunk)
    chunks = udiv(count + chunk - 1, chunk)
    threads = T.min(T.int32(chunks), limit)
    others = threads - 1
    if pool.started < others:
        start_workers(others)
    entered_at = T.cpu_clock()
    T.atomic_store(T.address_of(pool.lately), T.Select(grain < 0, lately - 1, _FOLLOWERS), "monotonic")
    workers = pool.started
    publish(body, captures, count, chunk, chunks, threads)
    open_gate(others, workers)
    begun_at = T.cpu_clock()
    mine = run_chunks(0)
    T.atomic_and(T.address_of(pool.gate), ~OPEN, "seq_cst")
    ready_at = T.cpu_clock()
    used = ready_at - begun_at
    wait_for_workers(others, chunk, mine, used, ready_at)
    error: T.handle = pool.error
    failed_at = pool.failed
    settle(entered_at, used, mine, count, others)
    T.atomic_store(T.address_of(pool.lock), 0, "release")
    if failed_at >= count:
        return 0
    if not T.isnullptr(error):
        C.TVMFFIErrorSetRaised(error)
        C.TVMFFIObjectDecRef(error)
    return -1


@T.prim_func(name=LAUNCH, linkage="external", attributes="nounwind")
def launch_serially(body: T.handle, captures: T.handle, count: T.int64, grain: T.int64) -> T.int32:
    """Run a parallel loop on the calling thread."""
    return run_serially(body, captures, count, chunk_of(count, grain))


ALL_SERIAL = (run_serially, chunk_of, launch_serially)
"""The pool of a system without futexes."""
FUNCTIONS = (
    run_serially, chunk_of, keep_error, run_chunks, same_masks, avoid, worker, start_workers, settle, enter, publish,
    open_gate, wait_for_workers, launch,
)  # fmt: skip
DATA = (Data(STATE, linkage="external"), Data(LIMIT, linkage="external"))

assert MOST_THREADS <= FREE
assert STRUCTS["PoolState"].layout(64).size <= STATE_BYTES
