"""The thread pool that runs parallel loops, as LLVM IR: one object, which the loader keeps once in a process.

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

from collections.abc import Mapping
from typing import Final

from ..runtime.threads import LAUNCH, LIMIT, MOST_THREADS, STATE, STATE_BYTES
from ..target.isa import isa_of
from .pool_worker import AVOID, START, WORKER

_PAUSES: Final = 1024
"""Polls of the gate before a worker begins to yield its processor, about 10 to 40 ns apart."""
_LOOKS: Final = 16384
"""Polls of the gate before a worker falls asleep. It yields its processor at every sixteenth of the later ones."""
_WAITS: Final = 256
"""Polls of the gate before the thread that entered a region assumes that workers in it may be stopped."""
_OFFERS: Final = 64
"""Number of times that thread then yields its processor before it falls asleep."""
_REST: Final = 16
"""Regions are serial for as long as was lost; with successive losses, the factor doubles, up to this one."""
_FOLLOWERS: Final = 8
"""Number of loops of negative grain that run on several threads after one of positive grain."""
_CHUNKS: Final = 256
"""Maximum number of chunks, and so of useful threads."""

#: offsets in the state; words that different threads write have cache lines of their own
_LOCK, _GATE, _WAKE, _SLEEPERS, _STARTED = 0, 128, 256, 260, 512
_BODY, _CAPTURES, _PARTS, _CHUNK, _MODE, _SEATS, _PROCESSOR = 640, 648, 656, 664, 672, 680, 684
_ERROR_LOCK, _FAILED, _ERROR = 768, 776, 784
_UNTIL, _BALANCE, _TIMES, _LATELY = 896, 904, 912, 920
_PART, _PART_BYTES, _MOST_PARTS = 1024, 128, 16

#: bits of the gate
_OPEN, _WAITING, _FREE, _REGION = 1 << 12, 1 << 13, (1 << 12) - 1, 14

_SERIAL = """define internal i32 @run_serially(ptr %body, ptr %captures, i64 %count, i64 %chunk) nounwind noinline {
entry:
  br label %head
head:
  %at = phi i64 [ 0, %entry ], [ %end, %more ]
  %left = sub i64 %count, %at
  %done = icmp sle i64 %left, 0
  br i1 %done, label %fine, label %run
run:
  %size = call i64 @llvm.smin.i64(i64 %left, i64 %chunk)
  %end = add i64 %at, %size
  %status = call i32 %body(ptr %captures, i64 %at, i64 %end)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %more, label %bad
more:
  br label %head
fine:
  ret i32 0
bad:
  ret i32 -1
}
define internal i64 @chunk_of(i64 %count, i64 %grain) alwaysinline {
  %up = add i64 %count, <CHUNKS - 1>
  %even = sdiv i64 %up, <CHUNKS>
  %size = call i64 @llvm.abs.i64(i64 %grain, i1 false)
  %least = call i64 @llvm.smax.i64(i64 %size, i64 1)
  %chunk = call i64 @llvm.smax.i64(i64 %even, i64 %least)
  ret i64 %chunk
}
declare i64 @llvm.abs.i64(i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)
"""

_ALL_SERIAL = """define i32 @<LAUNCH>(ptr %body, ptr %captures, i64 %count, i64 %grain) nounwind {
  %chunk = call i64 @chunk_of(i64 %count, i64 %grain)
  %status = call i32 @run_serially(ptr %body, ptr %captures, i64 %count, i64 %chunk)
  ret i32 %status
}
"""

# Claims chunks of the open region until none is left, and returns the number of their iterations that it ran. The error
# of the lowest chunk that failed is kept; chunks behind it are claimed and not run.
_CHUNKS_OF_REGION = """define internal i64 @run_chunks(i32 %number) nounwind noinline {
entry:
  %body = load ptr, ptr <BODY>
  %captures = load ptr, ptr <CAPTURES>
  %chunk = load i64, ptr <CHUNK>
  %parts = load i32, ptr <PARTS>
  %slot = alloca ptr
  %home = urem i32 %number, %parts
  br label %part
part:
  %sum0 = phi i64 [ 0, %entry ], [ %sum, %leave ]
  %passed = phi i32 [ 0, %entry ], [ %passed1, %leave ]
  %which0 = phi i32 [ %home, %entry ], [ %which2, %leave ]
  %wide = zext i32 %which0 to i64
  %next_at = getelementptr [<PART_BYTES> x i8], ptr <FIRST_PART>, i64 %wide
  %end_at = getelementptr i8, ptr %next_at, i64 8
  %end = load i64, ptr %end_at
  br label %look
look:
  %sum = phi i64 [ %sum0, %part ], [ %sum, %skip ], [ %sum1, %ran ], [ %sum1, %drop ], [ %sum1, %keep ]
  %seen = load atomic i64, ptr %next_at monotonic, align 8
  %over = icmp sge i64 %seen, %end
  br i1 %over, label %leave, label %claim
claim:
  %at = atomicrmw add ptr %next_at, i64 %chunk monotonic
  %left = sub i64 %end, %at
  %none = icmp sle i64 %left, 0
  br i1 %none, label %leave, label %check
check:
  %lowest_yet = load atomic i64, ptr <FAILED> monotonic, align 8
  %behind = icmp sgt i64 %at, %lowest_yet
  br i1 %behind, label %skip, label %run
skip:
  br label %look
run:
  %size = call i64 @llvm.smin.i64(i64 %left, i64 %chunk)
  %stop = add i64 %at, %size
  %sum1 = add i64 %sum, %size
  %status = call i32 %body(ptr %captures, i64 %at, i64 %stop)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %ran, label %failed
ran:
  br label %look
failed:
  store ptr null, ptr %slot
  call void @TVMFFIErrorMoveFromRaised(ptr %slot)
  %error = load ptr, ptr %slot
  br label %take
take:
  %pair = cmpxchg ptr <ERROR_LOCK>, i32 0, i32 1 acquire monotonic
  %taken = extractvalue { i32, i1 } %pair, 1
  br i1 %taken, label %keep, label %again
again:
  <PAUSE>
  br label %take
keep:
  %before = load atomic i64, ptr <FAILED> monotonic, align 8
  %old = load ptr, ptr <ERROR>
  %first = icmp slt i64 %at, %before
  %lowest = select i1 %first, i64 %at, i64 %before
  %kept = select i1 %first, ptr %error, ptr %old
  %dropped = select i1 %first, ptr %old, ptr %error
  store atomic i64 %lowest, ptr <FAILED> monotonic, align 8
  store ptr %kept, ptr <ERROR>
  store atomic i32 0, ptr <ERROR_LOCK> release, align 4
  %empty = icmp eq ptr %dropped, null
  br i1 %empty, label %look, label %drop
drop:
  %released = call i32 @TVMFFIObjectDecRef(ptr %dropped)
  br label %look
leave:
  %passed1 = add i32 %passed, 1
  %which1 = add i32 %which0, 1
  %last = icmp eq i32 %which1, %parts
  %which2 = select i1 %last, i32 0, i32 %which1
  %more = icmp ult i32 %passed1, %parts
  br i1 %more, label %part, label %done
done:
  ret i64 %sum
}
"""

# Keeps the account of regions: the time that this thread alone would have needed, as its own chunks tell, less the time
# that passed. What k workers save is at most k times the time that passed, also if this thread was stopped in a chunk.
_SETTLE = """define internal void @settle(i64 %from, i64 %used, i64 %mine, i64 %count, i32 %others) nounwind noinline {
entry:
  %now = <TICKS>
  %passed = sub i64 %now, %from
  %time = sitofp i64 %passed to double
  %part = sitofp i64 %used to double
  %own = sitofp i64 %mine to double
  %all = sitofp i64 %count to double
  %k = sitofp i32 %others to double
  %some = icmp sgt i64 %mine, 0
  %a = fmul double %part, %all
  %b = fdiv double %a, %own
  %saved0 = fsub double %b, %time
  %most = fmul double %time, %k
  %less = fcmp olt double %saved0, %most
  %c = and i1 %some, %less
  %saved = select i1 %c, double %saved0, double %most
  %before = load double, ptr <BALANCE>
  %faded = fmul double %before, 0.9375
  %balance = fadd double %faded, %saved
  %allowed = fmul double %time, -0.25
  %lost = fcmp olt double %balance, %allowed
  br i1 %lost, label %rest, label %on
rest:
  store double 0.0, ptr <BALANCE>
  %times = load double, ptr <TIMES>
  %once = fcmp olt double %times, 1.0
  %now_times = select i1 %once, double 1.0, double %times
  %twice = fadd double %now_times, %now_times
  %too_many = fcmp ogt double %twice, <REST>.0
  %next_times = select i1 %too_many, double <REST>.0, double %twice
  store double %next_times, ptr <TIMES>
  %loss = fneg double %balance
  %length = fmul double %loss, %now_times
  %ticks = fptosi double %length to i64
  %until = add i64 %now, %ticks
  store atomic i64 %until, ptr <UNTIL> monotonic, align 8
  ret void
on:
  store double %balance, ptr <BALANCE>
  %gain = fcmp ogt double %saved, 0.0
  br i1 %gain, label %better, label %done
better:
  %times1 = load double, ptr <TIMES>
  %fewer = fmul double %times1, 0.9375
  store double %fewer, ptr <TIMES>
  br label %done
done:
  ret void
}
"""

_LAUNCH = """define i32 @<LAUNCH>(ptr %body, ptr %captures, i64 %count, i64 %grain) nounwind {
entry:
  %chunk = call i64 @chunk_of(i64 %count, i64 %grain)
  %limit = load atomic i32, ptr @<LIMIT> monotonic, align 4
  %alone = icmp slt i32 %limit, 2
  %single = icmp sge i64 %chunk, %count
  %huge = icmp sge i64 %count, <1 << 48>
  %a = or i1 %alone, %single
  %b = or i1 %a, %huge
  br i1 %b, label %serial, label %ask
ask:
  %lately = load atomic i32, ptr <LATELY> monotonic, align 4
  %follows = icmp slt i64 %grain, 0
  %long_ago = icmp slt i32 %lately, 1
  %small = and i1 %follows, %long_ago
  br i1 %small, label %serial, label %rested
rested:
  %until = load atomic i64, ptr <UNTIL> monotonic, align 8
  %restless = icmp eq i64 %until, 0
  br i1 %restless, label %lock, label %resting
resting:
  %asked_at = <TICKS>
  %ahead = sub i64 %until, %asked_at
  %early = icmp sgt i64 %ahead, 0
  br i1 %early, label %serial, label %awaken
awaken:
  store atomic i64 0, ptr <UNTIL> monotonic, align 8
  br label %lock
lock:
  %busy = load atomic i32, ptr <LOCK> monotonic, align 4
  %free = icmp eq i32 %busy, 0
  br i1 %free, label %try, label %serial
try:
  %pair = cmpxchg ptr <LOCK>, i32 0, i32 1 acquire monotonic
  %locked = extractvalue { i32, i1 } %pair, 1
  br i1 %locked, label %plan, label %serial
plan:
  %up = add i64 %count, %chunk
  %up1 = sub i64 %up, 1
  %chunks = sdiv i64 %up1, %chunk
  %chunks32 = trunc i64 %chunks to i32
  %threads = call i32 @llvm.smin.i32(i32 %chunks32, i32 %limit)
  %others = sub i32 %threads, 1
  %started = load i32, ptr <STARTED>
  %enough = icmp sge i32 %started, %others
  br i1 %enough, label %publish, label %start
start:
  call void @start_workers(i32 %others)
  br label %publish
publish:
  %entered_at = <TICKS>
  %fewer = sub i32 %lately, 1
  %followers = select i1 %follows, i32 %fewer, i32 <FOLLOWERS>
  store atomic i32 %followers, ptr <LATELY> monotonic, align 4
  %workers = load i32, ptr <STARTED>
  %mode = call i64 @get_mode()
  store ptr %body, ptr <BODY>
  store ptr %captures, ptr <CAPTURES>
  store i64 %chunk, ptr <CHUNK>
  store i64 %mode, ptr <MODE>
  store i32 %others, ptr <SEATS>
  %processor = call i32 @sched_getcpu()
  store atomic i32 %processor, ptr <PROCESSOR> monotonic, align 4
  store i64 %count, ptr <FAILED>
  store ptr null, ptr <ERROR>
  %parts = call i32 @llvm.smin.i32(i32 %threads, i32 <MOST_PARTS>)
  store i32 %parts, ptr <PARTS>
  %parts64 = zext i32 %parts to i64
  br label %part
part:
  %k = phi i64 [ 0, %publish ], [ %k1, %part ]
  %from = phi i64 [ 0, %publish ], [ %to, %part ]
  %next_at = getelementptr [<PART_BYTES> x i8], ptr <FIRST_PART>, i64 %k
  %end_at = getelementptr i8, ptr %next_at, i64 8
  %k1 = add i64 %k, 1
  %share = mul i64 %k1, %chunks
  %share1 = add i64 %share, %parts64
  %share2 = sub i64 %share1, 1
  %before = sdiv i64 %share2, %parts64
  %all = mul i64 %before, %chunk
  %to = call i64 @llvm.smin.i64(i64 %all, i64 %count)
  store i64 %from, ptr %next_at
  store i64 %to, ptr %end_at
  %another = icmp ult i64 %k1, %parts64
  br i1 %another, label %part, label %open
open:
  %gate = load atomic i32, ptr <GATE> monotonic, align 4
  %region = lshr i32 %gate, <REGION>
  %region1 = add i32 %region, 1
  %named = shl i32 %region1, <REGION>
  %seated = or i32 %named, %others
  %opened = or i32 %seated, <OPEN>
  store atomic i32 %opened, ptr <GATE> seq_cst, align 4
  %w = atomicrmw add ptr <WAKE>, i32 1 seq_cst
  %sleepers = load atomic i32, ptr <SLEEPERS> seq_cst, align 4
  %spinning0 = sub i32 %workers, %sleepers
  %spinning = call i32 @llvm.smax.i32(i32 %spinning0, i32 0)
  %missing = sub i32 %others, %spinning
  %some = icmp sgt i32 %missing, 0
  %any = icmp sgt i32 %sleepers, 0
  %wake = and i1 %some, %any
  br i1 %wake, label %rouse, label %work
rouse:
  %r = call i64 (i64, ...) @syscall(i64 <FUTEX>, ptr <WAKE>, i64 129, i32 %missing)
  br label %work
work:
  %begun_at = <TICKS>
  %mine = call i64 @run_chunks(i32 0)
  %was = atomicrmw and ptr <GATE>, i32 <~OPEN> seq_cst
  %ready_at = <TICKS>
  %used = sub i64 %ready_at, %begun_at
  br label %wait
wait:
  %spins = phi i32 [ 0, %work ], [ %more, %pause ], [ %more, %doubt ], [ %more, %offer ], [ %more, %slept ]
  %offers = phi i32 [ 0, %work ], [ %offers, %pause ], [ %offers, %doubt ], [ %offers1, %offer ], [ %offers, %slept ]
  %state = load atomic i32, ptr <GATE> seq_cst, align 4
  %seats = and i32 %state, <FREE>
  %empty = icmp eq i32 %seats, %others
  br i1 %empty, label %finish, label %pause
pause:
  <PAUSE>
  %more = add i32 %spins, 1
  %soon = icmp ult i32 %more, <WAITS>
  br i1 %soon, label %wait, label %doubt
doubt:
  %looked_at = <TICKS>
  %waited = sub i64 %looked_at, %ready_at
  %up2 = add i64 %mine, %chunk
  %own_chunks = sdiv i64 %up2, %chunk
  %twice = shl i64 %used, 1
  %two_chunks = sdiv i64 %twice, %own_chunks
  %usual = icmp slt i64 %waited, %two_chunks
  br i1 %usual, label %wait, label %impatient
impatient:
  %more_offers = icmp ult i32 %offers, <OFFERS>
  br i1 %more_offers, label %offer, label %sleep
offer:
  %y = call i64 (i64, ...) @syscall(i64 <YIELD>)
  %offers1 = add i32 %offers, 1
  br label %wait
sleep:
  %marked = or i32 %state, <WAITING>
  %mark = cmpxchg ptr <GATE>, i32 %state, i32 %marked seq_cst seq_cst
  %set = extractvalue { i32, i1 } %mark, 1
  br i1 %set, label %doze, label %slept
doze:
  %f = call i64 (i64, ...) @syscall(i64 <FUTEX>, ptr <GATE>, i64 128, i32 %marked, ptr null)
  br label %slept
slept:
  br label %wait
finish:
  %error = load ptr, ptr <ERROR>
  %failed_at = load i64, ptr <FAILED>
  call void @settle(i64 %entered_at, i64 %used, i64 %mine, i64 %count, i32 %others)
  store atomic i32 0, ptr <LOCK> release, align 4
  %failed = icmp slt i64 %failed_at, %count
  br i1 %failed, label %raise, label %fine
raise:
  %gone = icmp eq ptr %error, null
  br i1 %gone, label %bad, label %set_error
set_error:
  call void @TVMFFIErrorSetRaised(ptr %error)
  %released = call i32 @TVMFFIObjectDecRef(ptr %error)
  br label %bad
bad:
  ret i32 -1
fine:
  ret i32 0
serial:
  %status = call i32 @run_serially(ptr %body, ptr %captures, i64 %count, i64 %chunk)
  ret i32 %status
}
"""

_DECLARATIONS = f"""@{STATE} = external global [{STATE_BYTES} x i8]
@{LIMIT} = external global i32
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare void @TVMFFIErrorMoveFromRaised(ptr)
declare void @TVMFFIErrorSetRaised(ptr)
declare i32 @TVMFFIObjectDecRef(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


def pool_text(triple: str) -> str:
    """LLVM IR of the pool for an architecture, without a target triple."""
    parts = isa_of(triple).pool
    serial = _filled(_SERIAL, {"CHUNKS - 1": _CHUNKS - 1, "CHUNKS": _CHUNKS})
    if parts is None or "linux" not in triple.partition("-")[2]:
        return serial + _filled(_ALL_SERIAL, {"LAUNCH": LAUNCH})
    fields = {
        "LOCK": _LOCK, "GATE": _GATE, "WAKE": _WAKE, "SLEEPERS": _SLEEPERS, "FIRST_PART": _PART, "STARTED": _STARTED,
        "BODY": _BODY, "CAPTURES": _CAPTURES, "PARTS": _PARTS, "CHUNK": _CHUNK, "MODE": _MODE, "SEATS": _SEATS,
        "PROCESSOR": _PROCESSOR, "UNTIL": _UNTIL, "BALANCE": _BALANCE, "TIMES": _TIMES, "LATELY": _LATELY,
        "ERROR_LOCK": _ERROR_LOCK, "FAILED": _FAILED, "ERROR": _ERROR,
    }  # fmt: skip
    words = {
        "LAUNCH": LAUNCH, "LIMIT": LIMIT, "PAUSE": parts.pause.call, "FUTEX": parts.futex,
        "YIELD": parts.sched_yield, "TICKS": parts.clock.call, "PAUSES": _PAUSES, "LOOKS": _LOOKS, "WAITS": _WAITS,
        "OFFERS": _OFFERS, "REST": _REST, "FOLLOWERS": _FOLLOWERS,
        "REGION": _REGION, "MOST_PARTS": _MOST_PARTS, "PART_BYTES": _PART_BYTES,
        "OPEN": _OPEN, "~OPEN": ~_OPEN, "WAITING": _WAITING, "FREE": _FREE, "FREE | WAITING": _FREE | _WAITING,
        "1 << 48": 1 << 48, "SIG_SETMASK": 2,
        **{name: f"getelementptr (i8, ptr @{STATE}, i64 {offset})" for name, offset in fields.items()},
    }  # fmt: skip
    code = "".join((_CHUNKS_OF_REGION, AVOID, WORKER, START, _SETTLE, _LAUNCH))
    declared = f"{_DECLARATIONS}{parts.pause.declarations}\n{parts.clock.declarations}\n{parts.float_mode}\n"
    return f"{declared}{serial}{_filled(code, words)}"


def _filled(text: str, words: Mapping[str, object]) -> str:
    """Replace words in angle brackets by values."""
    for word, value in words.items():
        text = text.replace(f"<{word}>", str(value))
    return text


assert MOST_THREADS <= _FREE
assert _PART + _PART_BYTES * _MOST_PARTS <= STATE_BYTES
