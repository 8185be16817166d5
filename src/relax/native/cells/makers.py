"""Functions that write a new value to a cell, or call a builtin that does so or raises the error.

LLVM IR; `support_code` defines the placeholders in angle brackets. Status 0, or -1 with the error set.
"""

from __future__ import annotations

from typing import Final

MAKERS: Final = """
define internal i32 @<P>ask(ptr %to, ptr %builtin, ptr %args, i32 %count, i32 %at, i32 %ndim, ptr %dims) cold nounwind {
  ; call a builtin, with a shape as its argument number `at`
  %shape = getelementptr <ANY>, ptr %args, i32 %at
  store i128 0, ptr %shape, align 8
  %made = call i1 @<P>shape(ptr %shape, i32 %ndim, ptr %dims)
  br i1 %made, label %call, label %none
call:
  %status = call i32 @<P>call(ptr %builtin, ptr %args, i32 %count, ptr %to)
  call void @<P>reset(ptr %shape)
  ret i32 %status
none:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr <MEMORY_ERROR>, ptr <NO_SHAPE>)
  ret i32 -1
}
define internal void @<P>put(ptr %args, i32 %at, i32 %kind, i64 %bits) cold nounwind {
  %cell = getelementptr <ANY>, ptr %args, i32 %at
  %wide = zext i32 %kind to i64
  store i64 %wide, ptr %cell
  %payload = getelementptr i8, ptr %cell, i64 8
  store i64 %bits, ptr %payload
  ret void
}
define i32 @<P>make_tensor(ptr %to, ptr %builtin, ptr %device, i32 %dtype, i32 %ndim, ptr %dims) nounwind {
  %made = call i1 @<P>alloc(ptr %to, ptr %device, i32 %dtype, i32 %ndim, ptr %dims)
  br i1 %made, label %fine, label %declined
fine:
  ret i32 0
declined:
  %args = alloca [3 x <ANY>], align 8
  %word = zext i32 %dtype to i64
  call void @<P>put(ptr %args, i32 1, i32 5, i64 %word)
  %place = getelementptr <ANY>, ptr %args, i32 2
  %all = load i128, ptr %device, align 8
  store i128 %all, ptr %place, align 8
  %status = call i32 @<P>ask(ptr %to, ptr %builtin, ptr %args, i32 3, i32 0, i32 %ndim, ptr %dims)
  ret i32 %status
}
define internal void @<P>free_storage(ptr %object, i32 %flags) nounwind {
entry:
  ; the owner counts the bytes in use: see make_storage
  %strong = and i32 %flags, 1
  %ends = icmp ne i32 %strong, 0
  br i1 %ends, label %count, label %memory
count:
  %owner_at = getelementptr i8, ptr %object, i64 <OWNER>
  %owner = load ptr, ptr %owner_at
  %numbers_at = getelementptr i8, ptr %owner, i64 <HEADER>
  %numbers = load ptr, ptr %numbers_at
  %size_at = getelementptr i8, ptr %object, i64 <DIMS>
  %size = load i64, ptr %size_at
  %before = atomicrmw sub ptr %numbers, i64 %size monotonic
  store ptr null, ptr %owner_at
  call i32 @TVMFFIObjectDecRef(ptr %owner)
  br label %memory
memory:
  call void @<P>free(ptr %object, i32 %flags)
  ret void
}
define internal void @<P>free_pooled(ptr %object, i32 %flags) nounwind {
entry:
  %strong = and i32 %flags, 1
  %ends = icmp ne i32 %strong, 0
  br i1 %ends, label %count, label %memory
count:
  %owner_at = getelementptr i8, ptr %object, i64 <OWNER>
  %owner = load ptr, ptr %owner_at
  %numbers_at = getelementptr i8, ptr %owner, i64 <HEADER>
  %numbers = load ptr, ptr %numbers_at
  %large_at = getelementptr i64, ptr %numbers, i64 3
  %size_at = getelementptr i8, ptr %object, i64 <DIMS>
  %size = load i64, ptr %size_at
  %before = atomicrmw sub ptr %large_at, i64 %size monotonic
  store ptr null, ptr %owner_at
  call i32 @TVMFFIObjectDecRef(ptr %owner)
  %pooled_at = getelementptr i8, ptr %size_at, i64 16
  %pooled = load ptr, ptr %pooled_at
  call i32 @TVMFFIObjectDecRef(ptr %pooled)
  br label %memory
memory:
  call void @<P>free(ptr %object, i32 %flags)
  ret void
}
define internal void @<P>count_pooled(ptr %to, ptr %pooled, ptr %counts, i64 %bytes) nounwind {
entry:
  ; a tensor over that of the pool, which counts as long as it lives; the tensor of the pool if there is no memory
  %size = alloca i64, align 8
  store i64 %bytes, ptr %size
  %at = getelementptr i8, ptr %pooled, i64 8
  %tensor = load ptr, ptr %at
  %t = getelementptr i8, ptr %tensor, i64 <HEADER>
  %data = load ptr, ptr %t
  %place_at = getelementptr i8, ptr %t, i64 8
  %place = load i64, ptr %place_at
  %object = call ptr @<P>tensor(i64 %place, i32 67585, i32 1, ptr %size, ptr %data, i64 0)
  %failed = icmp eq ptr %object, null
  br i1 %failed, label %plain, label %count
plain:
  call void @<P>own(ptr %to, ptr %tensor, i32 70)
  ret void
count:
  %pooled_at = getelementptr i8, ptr %object, i64 <SECOND_OWNER>
  store ptr %tensor, ptr %pooled_at
  %holder_at = getelementptr i8, ptr %counts, i64 8
  %holder = load ptr, ptr %holder_at
  %old = atomicrmw add ptr %holder, i64 1 monotonic
  %owner_at = getelementptr i8, ptr %object, i64 <OWNER>
  store ptr %holder, ptr %owner_at
  %deleter_at = getelementptr i8, ptr %object, i64 16
  store ptr @<P>free_pooled, ptr %deleter_at
  %numbers_at = getelementptr i8, ptr %holder, i64 <HEADER>
  %numbers = load ptr, ptr %numbers_at
  %large_at = getelementptr i64, ptr %numbers, i64 3
  %before = atomicrmw add ptr %large_at, i64 %bytes monotonic
  call void @<P>note_peak(ptr %numbers)
  call void @<P>own(ptr %to, ptr %object, i32 70)
  ret void
}
define internal void @<P>note_peak(ptr %numbers) nounwind {
  %small = load atomic i64, ptr %numbers monotonic, align 8
  %large_at = getelementptr i64, ptr %numbers, i64 3
  %large = load atomic i64, ptr %large_at monotonic, align 8
  %in_use = add i64 %small, %large
  %peak_at = getelementptr i64, ptr %numbers, i64 1
  %peak = atomicrmw umax ptr %peak_at, i64 %in_use monotonic
  ret void
}
define i32 @<P>make_storage(ptr %to, ptr %builtin, ptr %device, ptr %counts, i64 %bytes) nounwind {
entry:
  ; a small storage is memory of malloc; the builtin has a pool for others. `counts`: a tensor of numbers, or nothing
  %size = alloca i64, align 8
  store i64 %bytes, ptr %size
  %small = icmp ule i64 %bytes, <SMALL>
  br i1 %small, label %make, label %declined
make:
  %place_at = getelementptr i8, ptr %device, i64 8
  %place = load i64, ptr %place_at
  %object = call ptr @<P>tensor(i64 %place, i32 67585, i32 1, ptr %size, ptr null, i64 %bytes)
  %failed = icmp eq ptr %object, null
  br i1 %failed, label %declined, label %look
look:
  %kind = load i32, ptr %counts
  %counted = icmp eq i32 %kind, 70
  br i1 %counted, label %count, label %keep
count:
  %holder_at = getelementptr i8, ptr %counts, i64 8
  %holder = load ptr, ptr %holder_at
  %old = atomicrmw add ptr %holder, i64 1 monotonic
  %owner_at = getelementptr i8, ptr %object, i64 <OWNER>
  store ptr %holder, ptr %owner_at
  %deleter_at = getelementptr i8, ptr %object, i64 16
  store ptr @<P>free_storage, ptr %deleter_at
  %numbers_at = getelementptr i8, ptr %holder, i64 <HEADER>
  %in_use_at = load ptr, ptr %numbers_at
  %before = atomicrmw add ptr %in_use_at, i64 %bytes monotonic
  call void @<P>note_peak(ptr %in_use_at)
  %requests_at = getelementptr i64, ptr %in_use_at, i64 2
  %requests = atomicrmw add ptr %requests_at, i64 1 monotonic
  br label %keep
keep:
  call void @<P>own(ptr %to, ptr %object, i32 70)
  ret i32 0
declined:
  %args = alloca [3 x <ANY>], align 8
  call void @<P>put(ptr %args, i32 0, i32 1, i64 %bytes)
  call void @<P>put(ptr %args, i32 1, i32 5, i64 67585)
  %last = getelementptr <ANY>, ptr %args, i32 2
  %all = load i128, ptr %device, align 8
  store i128 %all, ptr %last, align 8
  %got = alloca <ANY>, align 8
  store i128 0, ptr %got, align 8
  %status = call i32 @<P>call(ptr %builtin, ptr %args, i32 3, ptr %got)
  %made = icmp eq i32 %status, 0
  br i1 %made, label %pooled, label %done
pooled:
  %counts_kind = load i32, ptr %counts
  %has_counts = icmp eq i32 %counts_kind, 70
  br i1 %has_counts, label %note, label %move
note:
  call void @<P>count_pooled(ptr %to, ptr %got, ptr %counts, i64 %bytes)
  br label %done
move:
  call void @<P>reset(ptr %to)
  %value = load i128, ptr %got, align 8
  store i128 %value, ptr %to, align 8
  br label %done
done:
  ret i32 %status
}
define i32 @<P>make_view(ptr %to, ptr %builtin, ptr %storage, i64 %offset, i32 %dtype, i32 %ndim, ptr %dims) nounwind {
  %made = call i1 @<P>view(ptr %to, ptr %storage, i64 %offset, i32 %dtype, i32 %ndim, ptr %dims)
  br i1 %made, label %fine, label %declined
fine:
  ret i32 0
declined:
  %args = alloca [4 x <ANY>], align 8
  %all = load i128, ptr %storage, align 8
  store i128 %all, ptr %args, align 8
  call void @<P>put(ptr %args, i32 1, i32 1, i64 %offset)
  %word = zext i32 %dtype to i64
  call void @<P>put(ptr %args, i32 3, i32 5, i64 %word)
  %status = call i32 @<P>ask(ptr %to, ptr %builtin, ptr %args, i32 4, i32 2, i32 %ndim, ptr %dims)
  ret i32 %status
}
define i32 @<P>make_reshaped(ptr %to, ptr %builtin, ptr %source, i32 %ndim, ptr %dims) nounwind {
  %made = call i1 @<P>reshape(ptr %to, ptr %source, i32 %ndim, ptr %dims)
  br i1 %made, label %fine, label %declined
fine:
  ret i32 0
declined:
  %args = alloca [2 x <ANY>], align 8
  %all = load i128, ptr %source, align 8
  store i128 %all, ptr %args, align 8
  %status = call i32 @<P>ask(ptr %to, ptr %builtin, ptr %args, i32 2, i32 1, i32 %ndim, ptr %dims)
  ret i32 %status
}
define i32 @<P>make_copy(ptr %to, ptr %builtin, ptr %source) nounwind {
  %made = call i1 @<P>copy(ptr %to, ptr %source, ptr null)
  br i1 %made, label %fine, label %declined
fine:
  ret i32 0
declined:
  %status = call i32 @<P>call(ptr %builtin, ptr %source, i32 1, ptr %to)
  ret i32 %status
}
define i32 @<P>make_shape(ptr %to, ptr %builtin, i32 %ndim, ptr %dims) nounwind {
entry:
  %made = call i1 @<P>shape(ptr %to, i32 %ndim, ptr %dims)
  br i1 %made, label %fine, label %declined
fine:
  ret i32 0
declined:
  ; the builtin takes no heap, the number of sizes, and for each of them a 0, which says that it is a number
  %twice = mul i32 %ndim, 2
  %count = add i32 %twice, 2
  %args = alloca <ANY>, i32 %count, align 8
  %number = zext i32 %ndim to i64
  call void @<P>put(ptr %args, i32 0, i32 1, i64 0)
  call void @<P>put(ptr %args, i32 1, i32 1, i64 %number)
  br label %test
test:
  %i = phi i32 [ 0, %declined ], [ %next, %one ]
  %end = icmp eq i32 %i, %ndim
  br i1 %end, label %ask, label %one
one:
  %from = getelementptr i64, ptr %dims, i32 %i
  %dim = load i64, ptr %from
  %pair = mul i32 %i, 2
  %code = add i32 %pair, 2
  %place = add i32 %pair, 3
  call void @<P>put(ptr %args, i32 %code, i32 1, i64 0)
  call void @<P>put(ptr %args, i32 %place, i32 1, i64 %dim)
  %next = add nuw i32 %i, 1
  br label %test
ask:
  %status = call i32 @<P>call(ptr %builtin, ptr %args, i32 %count, ptr %to)
  ret i32 %status
}
"""
