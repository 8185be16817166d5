"""Overlap check of all output tensors with the arguments at once.

The tensors are sorted by address: a few by insertion on the stack, many by the C library. In a sweep over them, a
tensor is compared with the greatest end of the arguments so far, and with the last output tensor: outputs accepted so
far overlap nothing, so earlier ones end before the last one begins. LLVM IR; `support_code` defines the placeholders
in angle brackets.
"""

from __future__ import annotations

from typing import Final

OVERLAPS: Final = """
define internal i32 @<P>earlier(ptr %a, ptr %b) nounwind {
  %x = load i64, ptr %a
  %y = load i64, ptr %b
  %before = icmp ult i64 %x, %y
  %behind = icmp ugt i64 %x, %y
  %up = zext i1 %behind to i32
  %down = sext i1 %before to i32
  %order = or i32 %up, %down
  ret i32 %order
}
define void @<P>keep_apart(ptr %cells, i64 %arguments, i64 %results) nounwind {
entry:
  %few = alloca [32 x { i64, i64, i64 }], align 8
  ; Let go of the memory given for results, in the cells behind those of the arguments and of the result, where it
  ; overlaps an argument or what is given for a result before.
  %given = add i64 %arguments, 1
  %n = add i64 %given, %results
  br label %look
look:
  %g = phi i64 [ %given, %entry ], [ %g_next, %other ]
  %none = icmp eq i64 %g, %n
  br i1 %none, label %done, label %given_one
given_one:
  %g_cell = getelementptr <ANY>, ptr %cells, i64 %g
  %g_kind = load i32, ptr %g_cell
  %is_tensor = icmp eq i32 %g_kind, 70
  %g_next = add i64 %g, 1
  br i1 %is_tensor, label %some, label %other
other:
  br label %look
some:
  %is_few = icmp ule i64 %n, 32
  br i1 %is_few, label %begin, label %many
many:
  %room = mul i64 %n, 24
  %made = call ptr @malloc(i64 %room)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %drop_all, label %begin
begin:
  %spans = phi ptr [ %few, %some ], [ %made, %many ]
  br label %measure
measure:
  %i = phi i64 [ 0, %begin ], [ %i_next, %measured ]
  %m = phi i64 [ 0, %begin ], [ %m_next, %measured ]
  %all = icmp eq i64 %i, %n
  br i1 %all, label %sort, label %tensor
tensor:
  %cell = getelementptr <ANY>, ptr %cells, i64 %i
  %bytes = call i64 @<P>held(ptr %cell)
  %i_next = add i64 %i, 1
  %holds = icmp sgt i64 %bytes, 0
  br i1 %holds, label %note, label %measured
note:
  %object_at = getelementptr i8, ptr %cell, i64 8
  %object = load ptr, ptr %object_at
  %data_at = getelementptr i8, ptr %object, i64 <HEADER>
  %data = load i64, ptr %data_at
  %data_end = add i64 %data, %bytes
  %more = add i64 %m, 1
  br label %place
place:
  %p = phi i64 [ %m, %note ], [ %q, %shift ]
  %span = getelementptr { i64, i64, i64 }, ptr %spans, i64 %p
  %first = icmp eq i64 %p, 0
  %unsorted = xor i1 %is_few, true
  %stop = or i1 %first, %unsorted
  br i1 %stop, label %write, label %compare
compare:
  %q = sub i64 %p, 1
  %lower = getelementptr { i64, i64, i64 }, ptr %spans, i64 %q
  %lower_data = load i64, ptr %lower
  %in_order = icmp ule i64 %lower_data, %data
  br i1 %in_order, label %write, label %shift
shift:
  call void @llvm.memcpy.p0.p0.i64(ptr %span, ptr %lower, i64 24, i1 false)
  br label %place
write:
  store i64 %data, ptr %span
  %end_at = getelementptr i8, ptr %span, i64 8
  store i64 %data_end, ptr %end_at
  %number_at = getelementptr i8, ptr %span, i64 16
  store i64 %i, ptr %number_at
  br label %measured
measured:
  %m_next = phi i64 [ %m, %tensor ], [ %more, %write ]
  br label %measure
sort:
  br i1 %is_few, label %go, label %sort_many
sort_many:
  call void @qsort(ptr %spans, i64 %m, i64 24, ptr @<P>earlier)
  br label %go
go:
  br label %test
test:
  ; the end of the arguments so far, and the last tensor kept for a result: its number and end
  %k = phi i64 [ 0, %go ], [ %k_next, %passed ]
  %used = phi i64 [ 0, %go ], [ %used_next, %passed ]
  %kept = phi i64 [ 0, %go ], [ %kept_next, %passed ]
  %kept_end = phi i64 [ 0, %go ], [ %kept_end_next, %passed ]
  %end = icmp eq i64 %k, %m
  br i1 %end, label %release, label %one
one:
  %at = getelementptr { i64, i64, i64 }, ptr %spans, i64 %k
  %k_next = add i64 %k, 1
  %from = load i64, ptr %at
  %to_at = getelementptr i8, ptr %at, i64 8
  %to = load i64, ptr %to_at
  %index_at = getelementptr i8, ptr %at, i64 16
  %index = load i64, ptr %index_at
  %is_argument = icmp ult i64 %index, %given
  %is_result = xor i1 %is_argument, true
  %in_use = icmp ult i64 %from, %used
  %in_kept = icmp ult i64 %from, %kept_end
  %is_later = icmp ugt i64 %index, %kept
  %after_kept = and i1 %in_kept, %is_later
  %overlaps = or i1 %in_use, %after_kept
  %goes = and i1 %is_result, %overlaps
  %stays = xor i1 %goes, true
  %kept_goes = and i1 %in_kept, %stays
  %keeps = and i1 %is_result, %stays
  %further = call i64 @llvm.umax.i64(i64 %used, i64 %to)
  %used_next = select i1 %is_argument, i64 %further, i64 %used
  %kept_next = select i1 %keeps, i64 %index, i64 %kept
  %end_left = select i1 %kept_goes, i64 0, i64 %kept_end
  %kept_end_next = select i1 %keeps, i64 %to, i64 %end_left
  %drops = or i1 %goes, %kept_goes
  br i1 %drops, label %drop, label %passed
drop:
  %dropped = select i1 %goes, i64 %index, i64 %kept
  %dropped_cell = getelementptr <ANY>, ptr %cells, i64 %dropped
  call void @<P>reset(ptr %dropped_cell)
  br label %passed
passed:
  br label %test
drop_all:
  %d = phi i64 [ %given, %many ], [ %d_next, %drop_one ]
  %dropped_all = icmp eq i64 %d, %n
  br i1 %dropped_all, label %done, label %drop_one
drop_one:
  %d_cell = getelementptr <ANY>, ptr %cells, i64 %d
  call void @<P>reset(ptr %d_cell)
  %d_next = add i64 %d, 1
  br label %drop_all
release:
  br i1 %is_few, label %done, label %release_many
release_many:
  call void @free(ptr %spans)
  br label %done
done:
  ret void
}
"""
