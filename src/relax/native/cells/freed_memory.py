"""Reuse of the memory of freed large tensors.

LLVM IR; `support_code` defines the placeholders in angle brackets.

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

from typing import Final

from ...runtime.allocator import PATIENCE

LEAST_KEPT: Final = 1 << 17
"""Bytes of the smallest memory block that is kept: the C library serves such blocks by mmap."""
MOST_KEPT: Final = 1 << 28
"""Maximum total of kept bytes."""
_SLOTS: Final = 256

_KEPT = """
@<P>kept = internal global [<SLOTS> x { ptr, i64, i64 }] zeroinitializer
@<P>kept_count = internal global i64 0
@<P>kept_bytes = internal global i64 0
@<P>kept_clock = internal global i64 0
@<P>kept_lock = internal global i32 0
@<P>kept_used = internal global i64 0
@<P>kept_peak = internal global i64 0
define internal i1 @<P>kept_enter() nounwind {
  %pair = cmpxchg ptr @<P>kept_lock, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %pair, 1
  ret i1 %mine
}
define internal void @<P>kept_leave() nounwind {
  store atomic i32 0, ptr @<P>kept_lock release, align 4
  ret void
}
define internal ptr @<P>kept_remove(i64 %index) nounwind {
  ; the memory of a slot, whose place the last one takes; by the holder of the lock
  %slot = getelementptr [<SLOTS> x { ptr, i64, i64 }], ptr @<P>kept, i64 0, i64 %index
  %memory = load ptr, ptr %slot
  %size_at = getelementptr i8, ptr %slot, i64 8
  %size = load i64, ptr %size_at
  %held = load i64, ptr @<P>kept_bytes
  %less = sub i64 %held, %size
  store i64 %less, ptr @<P>kept_bytes
  %count = load i64, ptr @<P>kept_count
  %last_index = sub i64 %count, 1
  store i64 %last_index, ptr @<P>kept_count
  %last = getelementptr [<SLOTS> x { ptr, i64, i64 }], ptr @<P>kept, i64 0, i64 %last_index
  %moved = load { ptr, i64, i64 }, ptr %last
  store { ptr, i64, i64 } %moved, ptr %slot
  ret ptr %memory
}
define internal i64 @<P>kept_least(i64 %offset, i64 %low, i64 %high) nounwind {
  ; the slot whose word at an offset (8: its bytes, 16: when it was filled) is the least from low on and below high;
  ; -1 if there is none; by the holder of the lock
entry:
  %count = load i64, ptr @<P>kept_count
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %best = phi i64 [ -1, %entry ], [ %best1, %one ]
  %least = phi i64 [ %high, %entry ], [ %least1, %one ]
  %end = icmp uge i64 %i, %count
  br i1 %end, label %done, label %one
one:
  %slot = getelementptr [<SLOTS> x { ptr, i64, i64 }], ptr @<P>kept, i64 0, i64 %i
  %word_at = getelementptr i8, ptr %slot, i64 %offset
  %word = load i64, ptr %word_at
  %enough = icmp uge i64 %word, %low
  %less = icmp ult i64 %word, %least
  %better = and i1 %enough, %less
  %best1 = select i1 %better, i64 %i, i64 %best
  %least1 = select i1 %better, i64 %word, i64 %least
  %next = add nuw i64 %i, 1
  br label %test
done:
  ret i64 %best
}
define internal i64 @<P>kept_oldest() nounwind {
  ; the slot that was filled first, of one at least
  %oldest = call i64 @<P>kept_least(i64 16, i64 0, i64 -1)
  ret i64 %oldest
}
define internal void @<P>kept_shrink(i64 %bytes) nounwind {
  ; give back what was kept first until at most so many bytes are kept; by the holder of the lock
entry:
  br label %test
test:
  %held = load i64, ptr @<P>kept_bytes
  %count = load i64, ptr @<P>kept_count
  %many = icmp sgt i64 %held, %bytes
  %some = icmp ne i64 %count, 0
  %more = and i1 %many, %some
  br i1 %more, label %one, label %done
one:
  %oldest = call i64 @<P>kept_oldest()
  %memory = call ptr @<P>kept_remove(i64 %oldest)
  call void @free(ptr %memory)
  br label %test
done:
  ret void
}
define internal void @<P>kept_expire(i64 %now) nounwind {
  ; give back the memory that was kept first, if it was passed over long enough
entry:
  %count = load i64, ptr @<P>kept_count
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %look
look:
  %oldest = call i64 @<P>kept_oldest()
  %time_at = getelementptr [<SLOTS> x { ptr, i64, i64 }], ptr @<P>kept, i64 0, i64 %oldest, i32 2
  %time = load i64, ptr %time_at
  %age = sub i64 %now, %time
  %expired = icmp sgt i64 %age, <PATIENCE>
  br i1 %expired, label %end, label %done
end:
  %memory = call ptr @<P>kept_remove(i64 %oldest)
  call void @free(ptr %memory)
  br label %done
done:
  ret void
}
define internal i64 @<P>kept_fit(i64 %bytes) nounwind {
  ; the slot of the smallest memory that fits, -1 if none does; by the holder of the lock
  %quarter = lshr i64 %bytes, 2
  %most = add i64 %bytes, %quarter
  %end = add i64 %most, 1
  %fit = call i64 @<P>kept_least(i64 8, i64 %bytes, i64 %end)
  ret i64 %fit
}
define internal void @<P>kept_count_used(i64 %bytes) nounwind {
  %before = atomicrmw add ptr @<P>kept_used, i64 %bytes monotonic
  %used = add i64 %before, %bytes
  %peak = atomicrmw max ptr @<P>kept_peak, i64 %used monotonic
  ret void
}
define internal ptr @<P>kept_take(i64 %bytes, ptr %capacity) nounwind {
entry:
  ; memory of at least so many bytes, and how many it has; null if there is none
  %zeros = call i64 @llvm.ctlz.i64(i64 %bytes, i1 false)
  %shift = sub i64 59, %zeros
  %unit = shl i64 1, %shift
  %rest = sub i64 %unit, 1
  %up = add i64 %bytes, %rest
  %mask = sub i64 0, %unit
  %size = and i64 %up, %mask
  store i64 %size, ptr %capacity
  %mine = call i1 @<P>kept_enter()
  br i1 %mine, label %search, label %fresh
search:
  %then = load i64, ptr @<P>kept_clock
  %now = add i64 %then, 1
  store i64 %now, ptr @<P>kept_clock
  %fit = call i64 @<P>kept_fit(i64 %size)
  %none = icmp slt i64 %fit, 0
  br i1 %none, label %miss, label %hit
hit:
  %size_at = getelementptr [<SLOTS> x { ptr, i64, i64 }], ptr @<P>kept, i64 0, i64 %fit, i32 1
  %has = load i64, ptr %size_at
  store i64 %has, ptr %capacity
  %kept = call ptr @<P>kept_remove(i64 %fit)
  call void @<P>kept_count_used(i64 %has)
  call void @<P>kept_expire(i64 %now)
  call void @<P>kept_leave()
  ret ptr %kept
miss:
  call void @<P>kept_expire(i64 %now)
  %used = load atomic i64, ptr @<P>kept_used monotonic, align 8
  %wanted = add i64 %used, %size
  %peak = load atomic i64, ptr @<P>kept_peak monotonic, align 8
  %room = sub i64 %peak, %wanted
  %left = call i64 @llvm.smax.i64(i64 %room, i64 0)
  call void @<P>kept_shrink(i64 %left)
  call void @<P>kept_leave()
  br label %fresh
fresh:
  %first = call ptr @malloc(i64 %size)
  %failed = icmp eq ptr %first, null
  br i1 %failed, label %retry, label %made
retry:
  %freed = call i64 @<P>kept_empty()
  %second = call ptr @malloc(i64 %size)
  %no = icmp eq ptr %second, null
  br i1 %no, label %refused, label %made
made:
  %memory = phi ptr [ %first, %fresh ], [ %second, %retry ]
  call void @<P>kept_count_used(i64 %size)
  %large = icmp uge i64 %size, <LARGE_PAGE>
  br i1 %large, label %advise, label %done
advise:
  call void @<P>large_pages(ptr %memory, i64 %size)
  br label %done
done:
  ret ptr %memory
refused:
  ret ptr null
}
define internal void @<P>kept_put(ptr %memory, i64 %bytes) nounwind {
entry:
  ; memory of `kept_take` that is no longer used
  %before = atomicrmw sub ptr @<P>kept_used, i64 %bytes monotonic
  %huge = icmp ugt i64 %bytes, <MOST_KEPT>
  br i1 %huge, label %give, label %try
try:
  %mine = call i1 @<P>kept_enter()
  br i1 %mine, label %room, label %give
room:
  %left = sub i64 <MOST_KEPT>, %bytes
  call void @<P>kept_shrink(i64 %left)
  %count0 = load i64, ptr @<P>kept_count
  %full = icmp eq i64 %count0, <SLOTS>
  br i1 %full, label %replace, label %add
replace:
  %oldest = call i64 @<P>kept_oldest()
  %old = call ptr @<P>kept_remove(i64 %oldest)
  call void @free(ptr %old)
  br label %add
add:
  %count = load i64, ptr @<P>kept_count
  %slot = getelementptr [<SLOTS> x { ptr, i64, i64 }], ptr @<P>kept, i64 0, i64 %count
  store ptr %memory, ptr %slot
  %size_at = getelementptr i8, ptr %slot, i64 8
  store i64 %bytes, ptr %size_at
  %now = load i64, ptr @<P>kept_clock
  %time_at = getelementptr i8, ptr %slot, i64 16
  store i64 %now, ptr %time_at
  %one_more = add i64 %count, 1
  store i64 %one_more, ptr @<P>kept_count
  %held = load i64, ptr @<P>kept_bytes
  %more = add i64 %held, %bytes
  store i64 %more, ptr @<P>kept_bytes
  call void @<P>kept_leave()
  ret void
give:
  call void @free(ptr %memory)
  ret void
}
define internal i64 @<P>kept_empty() nounwind {
entry:
  ; give back all that is kept; its bytes
  %mine = call i1 @<P>kept_enter()
  br i1 %mine, label %all, label %none
all:
  %held = load i64, ptr @<P>kept_bytes
  call void @<P>kept_shrink(i64 0)
  call void @<P>kept_leave()
  ret i64 %held
none:
  ret i64 0
}
define i32 @<P>give_back(ptr %self, ptr %args, i32 %count, ptr %result) nounwind {
  ; () -> the bytes that were kept, and are not now
  %bytes = call i64 @<P>kept_empty()
  store i64 1, ptr %result
  %value = getelementptr i8, ptr %result, i64 8
  store i64 %bytes, ptr %value
  ret i32 0
}
"""

KEPT: Final = (
    _KEPT.replace("<SLOTS>", str(_SLOTS)).replace("<PATIENCE>", str(PATIENCE)).replace("<MOST_KEPT>", str(MOST_KEPT))
)
