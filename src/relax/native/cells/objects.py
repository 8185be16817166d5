"""Functions that create and free tensors and shapes: allocations, views, copies.

LLVM IR; `support_code` defines the placeholders in angle brackets.
"""

from __future__ import annotations

from typing import Final

OBJECTS: Final = """
define internal void @<P>free(ptr %object, i32 %flags) nounwind {
entry:
  %strong = and i32 %flags, 1
  %ends = icmp ne i32 %strong, 0
  br i1 %ends, label %value, label %memory
value:
  %owner_at = getelementptr i8, ptr %object, i64 <OWNER>
  %owner = load ptr, ptr %owner_at
  %owned = icmp ne ptr %owner, null
  br i1 %owned, label %drop, label %memory
drop:
  call i32 @TVMFFIObjectDecRef(ptr %owner)
  br label %memory
memory:
  %weak = and i32 %flags, 2
  %last = icmp ne i32 %weak, 0
  br i1 %last, label %give, label %done
give:
  %ndim_at = getelementptr i8, ptr %object, i64 40
  %ndim = load i32, ptr %ndim_at
  %n = sext i32 %ndim to i64
  %dims_bytes = shl i64 %n, 4
  %in_head = add i64 %dims_bytes, <CAPACITY>
  %capacity_at = getelementptr i8, ptr %object, i64 %in_head
  %capacity = load i64, ptr %capacity_at
  %small = icmp eq i64 %capacity, 0
  br i1 %small, label %back, label %put
back:
  call void @free(ptr %object)
  br label %done
put:
  call void @<P>kept_put(ptr %object, i64 %capacity)
  br label %done
done:
  ret void
}
define internal void @<P>free_shape(ptr %object, i32 %flags) nounwind {
  %weak = and i32 %flags, 2
  %last = icmp ne i32 %weak, 0
  br i1 %last, label %give, label %done
give:
  call void @free(ptr %object)
  br label %done
done:
  ret void
}
define internal void @<P>header(ptr %object, i32 %type, ptr %deleter) nounwind {
  store i64 4294967297, ptr %object
  %type_at = getelementptr i8, ptr %object, i64 8
  store i32 %type, ptr %type_at
  %pad_at = getelementptr i8, ptr %object, i64 12
  store i32 0, ptr %pad_at
  %deleter_at = getelementptr i8, ptr %object, i64 16
  store ptr %deleter, ptr %deleter_at
  ret void
}
define hidden i64 @<P>bytes(i32 %dtype, i32 %ndim, ptr %dims) nounwind {
entry:
  ; the bytes of a compact tensor; -1 if that is not simple to say
  %n = sext i32 %ndim to i64
  %bits32 = lshr i32 %dtype, 8
  %bits8 = and i32 %bits32, 255
  %bits = zext i32 %bits8 to i64
  %up = add i64 %bits, 7
  %item = lshr i64 %up, 3
  %unit = call i64 @<P>unit(i64 %bits)
  %step = call i64 @llvm.umax.i64(i64 %item, i64 %unit)
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %grow ]
  %total = phi i64 [ %item, %entry ], [ %more, %grow ]
  %room = phi i64 [ %step, %entry ], [ %wider, %grow ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %done, label %one
one:
  %at = getelementptr i64, ptr %dims, i64 %i
  %dim = load i64, ptr %at
  %is_size = icmp ult i64 %dim, <LIMIT>
  br i1 %is_size, label %count, label %bad
count:
  %factor = call i64 @llvm.umax.i64(i64 %dim, i64 1)
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %room, i64 %factor)
  %wider = extractvalue { i64, i1 } %pair, 0
  %overflows = extractvalue { i64, i1 } %pair, 1
  %large = icmp ugt i64 %wider, <MOST>
  %no = or i1 %overflows, %large
  br i1 %no, label %bad, label %grow
grow:
  %more = mul i64 %total, %dim
  %next = add nuw i64 %i, 1
  br label %test
done:
  ret i64 %total
bad:
  ret i64 -1
}
define internal void @<P>large_pages(ptr %memory, i64 %bytes) cold nounwind {
entry:
  ; ask for the large pages that memory fills; a system without them refuses the advice, and may
  %start = ptrtoint ptr %memory to i64
  %end = add i64 %start, %bytes
  %behind = add i64 %start, <IN_PAGE>
  %first = and i64 %behind, -<LARGE_PAGE>
  %last = and i64 %end, -<LARGE_PAGE>
  %filled = icmp ult i64 %first, %last
  br i1 %filled, label %ask, label %done
ask:
  %pages = inttoptr i64 %first to ptr
  %size = sub i64 %last, %first
  %answer = call i32 @madvise(ptr %pages, i64 %size, i32 <ADVICE>)
  br label %done
done:
  ret void
}
define hidden ptr @<P>tensor(i64 %device_value, i32 %dtype, i32 %ndim, ptr %dims, ptr %data, i64 %room) nounwind {
entry:
  ; a tensor object; its data are `data`, or `room` fresh bytes if that is null, at a multiple of 64.
  ; malloc, since aligned_alloc of the C library is far slower: it splits larger memory and puts the pieces back.
  ; behind the strides and a storage's pointer, the bytes of memory that is kept for others once it is free, or 0
  %capacity = alloca i64, align 8
  %n = sext i32 %ndim to i64
  %dims_bytes = shl i64 %n, 4
  %head = add i64 %dims_bytes, <HEAD>
  %own = icmp eq ptr %data, null
  %room_up = add i64 %room, 126
  %room_some = call i64 @llvm.umax.i64(i64 %room_up, i64 127)
  %behind = select i1 %own, i64 %room_some, i64 0
  %total = add i64 %head, %behind
  store i64 0, ptr %capacity
  %large = icmp uge i64 %total, <LEAST_KEPT>
  br i1 %large, label %take, label %plain
take:
  %taken = call ptr @<P>kept_take(i64 %total, ptr %capacity)
  br label %made
plain:
  %fresh_object = call ptr @malloc(i64 %total)
  br label %made
made:
  %object = phi ptr [ %taken, %take ], [ %fresh_object, %plain ]
  %failed = icmp eq ptr %object, null
  br i1 %failed, label %none, label %fill
fill:
  %in_head = add i64 %dims_bytes, <CAPACITY>
  %capacity_at = getelementptr i8, ptr %object, i64 %in_head
  %has = load i64, ptr %capacity
  store i64 %has, ptr %capacity_at
  call void @<P>header(ptr %object, i32 70, ptr @<P>free)
  %t = getelementptr i8, ptr %object, i64 <HEADER>
  %head_up = add i64 %head, 63
  %after_head = getelementptr i8, ptr %object, i64 %head_up
  %fresh = call ptr @llvm.ptrmask.p0.i64(ptr %after_head, i64 -64)
  %place = select i1 %own, ptr %fresh, ptr %data
  store ptr %place, ptr %t
  %device_at = getelementptr i8, ptr %t, i64 8
  store i64 %device_value, ptr %device_at
  %ndim_at = getelementptr i8, ptr %t, i64 16
  store i32 %ndim, ptr %ndim_at
  %dtype_at = getelementptr i8, ptr %t, i64 20
  store i32 %dtype, ptr %dtype_at
  %shape = getelementptr i8, ptr %object, i64 <DIMS>
  %shape_at = getelementptr i8, ptr %t, i64 24
  store ptr %shape, ptr %shape_at
  %strides = getelementptr i64, ptr %shape, i64 %n
  %strides_at = getelementptr i8, ptr %t, i64 32
  store ptr %strides, ptr %strides_at
  %offset_at = getelementptr i8, ptr %t, i64 40
  store i64 0, ptr %offset_at
  %owner_at = getelementptr i8, ptr %object, i64 <OWNER>
  store ptr null, ptr %owner_at
  %bits32 = lshr i32 %dtype, 8
  %bits8 = and i32 %bits32, 255
  %bits = zext i32 %bits8 to i64
  %unit = call i64 @<P>unit(i64 %bits)
  br label %test
test:
  %k = phi i64 [ %n, %fill ], [ %axis, %one ]
  %stride = phi i64 [ %unit, %fill ], [ %next, %one ]
  %more = icmp sgt i64 %k, 0
  br i1 %more, label %one, label %done
one:
  %axis = sub i64 %k, 1
  %from = getelementptr i64, ptr %dims, i64 %axis
  %size = load i64, ptr %from
  %size_at = getelementptr i64, ptr %shape, i64 %axis
  store i64 %size, ptr %size_at
  %stride_at = getelementptr i64, ptr %strides, i64 %axis
  store i64 %stride, ptr %stride_at
  %next = mul i64 %stride, %size
  br label %test
done:
  ret ptr %object
none:
  ret ptr null
}
define i1 @<P>alloc(ptr %to, ptr %device, i32 %dtype, i32 %ndim, ptr %dims) nounwind {
  %bytes = call i64 @<P>bytes(i32 %dtype, i32 %ndim, ptr %dims)
  %odd = icmp slt i64 %bytes, 0
  br i1 %odd, label %no, label %make
make:
  %at = getelementptr i8, ptr %device, i64 8
  %place = load i64, ptr %at
  %object = call ptr @<P>tensor(i64 %place, i32 %dtype, i32 %ndim, ptr %dims, ptr null, i64 %bytes)
  %failed = icmp eq ptr %object, null
  br i1 %failed, label %no, label %keep
keep:
  call void @<P>own(ptr %to, ptr %object, i32 70)
  ret i1 true
no:
  ret i1 false
}
define internal i1 @<P>over(ptr %to, ptr %source, i64 %offset, i32 %dtype, i32 %ndim, ptr %dims) nounwind {
  %at = getelementptr i8, ptr %source, i64 8
  %owner = load ptr, ptr %at
  %t = getelementptr i8, ptr %owner, i64 <HEADER>
  %data = load ptr, ptr %t
  %place_at = getelementptr i8, ptr %t, i64 8
  %place = load i64, ptr %place_at
  %start = getelementptr i8, ptr %data, i64 %offset
  %object = call ptr @<P>tensor(i64 %place, i32 %dtype, i32 %ndim, ptr %dims, ptr %start, i64 0)
  %failed = icmp eq ptr %object, null
  br i1 %failed, label %no, label %keep
keep:
  %old = atomicrmw add ptr %owner, i64 1 monotonic
  %owner_at = getelementptr i8, ptr %object, i64 <OWNER>
  store ptr %owner, ptr %owner_at
  call void @<P>own(ptr %to, ptr %object, i32 70)
  ret i1 true
no:
  ret i1 false
}
define hidden i64 @<P>held(ptr %cell) nounwind {
  ; the bytes of a tensor with elements, -1 for another value
  %plain = call i1 @<P>plain(ptr %cell)
  %type = load i32, ptr %cell
  %is_tensor = icmp eq i32 %type, 70
  %both = and i1 %plain, %is_tensor
  br i1 %both, label %count, label %none
count:
  %at = getelementptr i8, ptr %cell, i64 8
  %object = load ptr, ptr %at
  %ndim_at = getelementptr i8, ptr %object, i64 40
  %ndim = load i32, ptr %ndim_at
  %dtype_at = getelementptr i8, ptr %object, i64 44
  %dtype = load i32, ptr %dtype_at
  %dims_at = getelementptr i8, ptr %object, i64 48
  %dims = load ptr, ptr %dims_at
  %bytes = call i64 @<P>bytes(i32 %dtype, i32 %ndim, ptr %dims)
  ret i64 %bytes
none:
  ret i64 -1
}
define i1 @<P>view(ptr %to, ptr %storage, i64 %offset, i32 %dtype, i32 %ndim, ptr %dims) nounwind {
  %held = call i64 @<P>held(ptr %storage)
  %needed = call i64 @<P>bytes(i32 %dtype, i32 %ndim, ptr %dims)
  %some = icmp sge i64 %held, 0
  %simple = icmp sge i64 %needed, 0
  %after = icmp sge i64 %offset, 0
  %within = icmp sle i64 %offset, %held
  %left = sub i64 %held, %offset
  %enough = icmp sle i64 %needed, %left
  %a = and i1 %some, %simple
  %b = and i1 %after, %within
  %c = and i1 %a, %b
  %d = and i1 %c, %enough
  br i1 %d, label %make, label %no
make:
  %made = call i1 @<P>over(ptr %to, ptr %storage, i64 %offset, i32 %dtype, i32 %ndim, ptr %dims)
  ret i1 %made
no:
  ret i1 false
}
define i1 @<P>reshape(ptr %to, ptr %source, i32 %ndim, ptr %dims) nounwind {
  %held = call i64 @<P>held(ptr %source)
  %some = icmp sge i64 %held, 0
  br i1 %some, label %count, label %no
count:
  %at = getelementptr i8, ptr %source, i64 8
  %object = load ptr, ptr %at
  %dtype_at = getelementptr i8, ptr %object, i64 44
  %dtype = load i32, ptr %dtype_at
  %needed = call i64 @<P>bytes(i32 %dtype, i32 %ndim, ptr %dims)
  %same = icmp eq i64 %needed, %held
  br i1 %same, label %make, label %no
make:
  %made = call i1 @<P>over(ptr %to, ptr %source, i64 0, i32 %dtype, i32 %ndim, ptr %dims)
  ret i1 %made
no:
  ret i1 false
}
define i1 @<P>copy(ptr %to, ptr %source, ptr %unused) nounwind {
  %held = call i64 @<P>held(ptr %source)
  %some = icmp sge i64 %held, 0
  br i1 %some, label %make, label %no
make:
  %at = getelementptr i8, ptr %source, i64 8
  %object = load ptr, ptr %at
  %place_at = getelementptr i8, ptr %object, i64 32
  %place = load i64, ptr %place_at
  %ndim_at = getelementptr i8, ptr %object, i64 40
  %ndim = load i32, ptr %ndim_at
  %dtype_at = getelementptr i8, ptr %object, i64 44
  %dtype = load i32, ptr %dtype_at
  %dims_at = getelementptr i8, ptr %object, i64 48
  %dims = load ptr, ptr %dims_at
  %fresh = call ptr @<P>tensor(i64 %place, i32 %dtype, i32 %ndim, ptr %dims, ptr null, i64 %held)
  %failed = icmp eq ptr %fresh, null
  br i1 %failed, label %no, label %fill
fill:
  %from_at = getelementptr i8, ptr %object, i64 <HEADER>
  %from = load ptr, ptr %from_at
  %into_at = getelementptr i8, ptr %fresh, i64 <HEADER>
  %into = load ptr, ptr %into_at
  call void @llvm.memcpy.p0.p0.i64(ptr %into, ptr %from, i64 %held, i1 false)
  call void @<P>own(ptr %to, ptr %fresh, i32 70)
  ret i1 true
no:
  ret i1 false
}
define i1 @<P>shape(ptr %to, i32 %ndim, ptr %dims) nounwind {
  %n = sext i32 %ndim to i64
  %bytes = shl i64 %n, 3
  %total = add i64 %bytes, 40
  %sizes = call i1 @<P>sizes(ptr %dims, i64 %n)
  br i1 %sizes, label %make, label %no
make:
  %object = call ptr @malloc(i64 %total)
  %failed = icmp eq ptr %object, null
  br i1 %failed, label %no, label %fill
fill:
  call void @<P>header(ptr %object, i32 69, ptr @<P>free_shape)
  %own = getelementptr i8, ptr %object, i64 40
  call void @llvm.memcpy.p0.p0.i64(ptr %own, ptr %dims, i64 %bytes, i1 false)
  %data_at = getelementptr i8, ptr %object, i64 <HEADER>
  store ptr %own, ptr %data_at
  %n_at = getelementptr i8, ptr %object, i64 32
  store i64 %n, ptr %n_at
  call void @<P>own(ptr %to, ptr %object, i32 69)
  ret i1 true
no:
  ret i1 false
}
"""
