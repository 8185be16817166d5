"""The thread pool's worker and its start, as LLVM IR with placeholders filled in by `pool`."""

from __future__ import annotations

from typing import Final

# Gives up a processor, and tells if this thread may run on another one. `own` is the mask it had, `given` the one that
# was set here last: if the mask differs from that, somebody else has set it. False where a mask has over 1,024 bits.
AVOID: Final = """define internal i1 @avoid(i32 %processor, ptr %own, ptr %given) nounwind noinline cold {
entry:
  %found = alloca i1024, align 16
  %wanted = alloca i1024, align 16
  %bad = icmp ugt i32 %processor, 1023
  br i1 %bad, label %none, label %ask
ask:
  %got = call i32 @sched_getaffinity(i32 0, i64 128, ptr %found)
  %known = icmp eq i32 %got, 0
  br i1 %known, label %see, label %none
see:
  %now = load i1024, ptr %found
  %last = load i1024, ptr %given
  %same = icmp eq i1024 %now, %last
  br i1 %same, label %choose, label %adopt
adopt:
  store i1024 %now, ptr %own
  store i1024 %now, ptr %given
  br label %choose
choose:
  %all = load i1024, ptr %own
  %place = zext i32 %processor to i1024
  %bit = shl i1024 1, %place
  %others = xor i1024 %bit, -1
  %rest = and i1024 %all, %others
  %alone = icmp eq i1024 %rest, 0
  br i1 %alone, label %none, label %compare
compare:
  %done = icmp eq i1024 %rest, %now
  br i1 %done, label %fine, label %set
set:
  store i1024 %rest, ptr %wanted
  %status = call i32 @sched_setaffinity(i32 0, i64 128, ptr %wanted)
  %taken = icmp eq i32 %status, 0
  br i1 %taken, label %keep, label %none
keep:
  %read = call i32 @sched_getaffinity(i32 0, i64 128, ptr %found)
  %as_set = load i1024, ptr %found
  store i1024 %as_set, ptr %given
  br label %fine
fine:
  ret i1 true
none:
  ret i1 false
}
"""

WORKER: Final = """define internal ptr @worker(ptr %named) nounwind noinline {
entry:
  %address = ptrtoint ptr %named to i64
  %number = trunc i64 %address to i32
  %mode0 = call i64 @get_mode()
  %own = alloca i1024, align 16
  %given = alloca i1024, align 16
  store i1024 0, ptr %own
  store i1024 0, ptr %given
  br label %idle
idle:
  %seen = phi i32 [ 0, %entry ], [ %seen, %slept ], [ %region, %left ]
  %mode = phi i64 [ %mode0, %entry ], [ %mode, %slept ], [ %wanted, %left ]
  %woken = phi i1 [ false, %entry ], [ true, %slept ], [ false, %left ]
  %wake = load atomic i32, ptr <WAKE> seq_cst, align 4
  br label %look
look:
  %spins = phi i32 [ 0, %idle ], [ %more, %next ], [ %more1, %offer ]
  %gate = load atomic i32, ptr <GATE> seq_cst, align 4
  %region = lshr i32 %gate, <REGION>
  %new = icmp ne i32 %region, %seen
  %open_bit = and i32 %gate, <OPEN>
  %open = icmp ne i32 %open_bit, 0
  %seats = and i32 %gate, <FREE>
  %free = icmp ne i32 %seats, 0
  %a = and i1 %new, %open
  %may = and i1 %a, %free
  br i1 %may, label %place, label %next
place:
  %here = call i32 @sched_getcpu()
  %there = load atomic i32, ptr <PROCESSOR> monotonic, align 4
  %apart = icmp ne i32 %here, %there
  br i1 %apart, label %enter, label %beside
beside:
  %moved = call i1 @avoid(i32 %there, ptr %own, ptr %given)
  br i1 %moved, label %next, label %stay
stay:
  br i1 %woken, label %offer, label %leave
leave:
  %later = load atomic i32, ptr <WAKE> seq_cst, align 4
  br label %sleep
next:
  <PAUSE>
  %more = add i32 %spins, 1
  %low = and i32 %more, 15
  %rest = icmp ne i32 %low, 0
  %early = icmp ult i32 %more, <PAUSES>
  %keep = or i1 %early, %rest
  br i1 %keep, label %look, label %offer
offer:
  %passed = phi i32 [ %more, %next ], [ %spins, %stay ]
  %y = call i64 (i64, ...) @syscall(i64 <YIELD>)
  %more1 = add i32 %passed, 1
  %awake = icmp ult i32 %more1, <LOOKS>
  br i1 %awake, label %look, label %tired
tired:
  %entered_on = load atomic i32, ptr <PROCESSOR> monotonic, align 4
  %free_of_it = call i1 @avoid(i32 %entered_on, ptr %own, ptr %given)
  br label %sleep
sleep:
  %heard = phi i32 [ %wake, %tired ], [ %later, %leave ]
  %s0 = atomicrmw add ptr <SLEEPERS>, i32 1 seq_cst
  %r = call i64 (i64, ...) @syscall(i64 <FUTEX>, ptr <WAKE>, i64 128, i32 %heard, ptr null)
  %s1 = atomicrmw sub ptr <SLEEPERS>, i32 1 seq_cst
  br label %slept
slept:
  br label %idle
enter:
  %fewer = sub i32 %gate, 1
  %pair = cmpxchg ptr <GATE>, i32 %gate, i32 %fewer seq_cst seq_cst
  %in = extractvalue { i32, i1 } %pair, 1
  br i1 %in, label %work, label %next
work:
  %wanted = load i64, ptr <MODE>
  %all = load i32, ptr <SEATS>
  %same = icmp eq i64 %wanted, %mode
  br i1 %same, label %chunks, label %switch
switch:
  call void @set_mode(i64 %wanted)
  br label %chunks
chunks:
  %mine = call i64 @run_chunks(i32 %number)
  %was = atomicrmw add ptr <GATE>, i32 1 seq_cst
  %now = add i32 %was, 1
  %state = and i32 %now, <FREE | WAITING>
  %last = or i32 %all, <WAITING>
  %waited = icmp eq i32 %state, %last
  br i1 %waited, label %tell, label %left
tell:
  %t = call i64 (i64, ...) @syscall(i64 <FUTEX>, ptr <GATE>, i64 129, i32 1)
  br label %left
left:
  br label %idle
}
"""

# Workers take no signals: a program's handlers run on its own threads. One that cannot be started is not tried again.
START: Final = """define internal void @start_workers(i32 %wanted) nounwind noinline cold {
entry:
  %all = alloca [128 x i8], align 16
  %old = alloca [128 x i8], align 16
  %thread = alloca i64
  call void @llvm.memset.p0.i64(ptr align 16 %all, i8 -1, i64 128, i1 false)
  %masked = call i32 @pthread_sigmask(i32 <SIG_SETMASK>, ptr %all, ptr %old)
  br label %head
head:
  %started = load i32, ptr <STARTED>
  %enough = icmp sge i32 %started, %wanted
  br i1 %enough, label %done, label %start
start:
  %number = add i32 %started, 1
  %wide = zext i32 %number to i64
  %named = inttoptr i64 %wide to ptr
  %status = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %named)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %count, label %done
count:
  %id = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %id)
  store i32 %number, ptr <STARTED>
  br label %head
done:
  %restored = call i32 @pthread_sigmask(i32 <SIG_SETMASK>, ptr %old, ptr null)
  ret void
}
"""
