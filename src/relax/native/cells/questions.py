"""Functions that query the value in a cell: kind, rank, sizes, fields and truth.

LLVM IR; `support_code` defines the placeholders in angle brackets.
"""

from __future__ import annotations

from typing import Final

QUESTIONS: Final = """
define internal i1 @<P>sizes(ptr %dims, i64 %n) nounwind {
entry:
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %yes, label %one
one:
  %at = getelementptr i64, ptr %dims, i64 %i
  %dim = load i64, ptr %at
  %is_size = icmp ult i64 %dim, <LIMIT>
  %next = add nuw i64 %i, 1
  br i1 %is_size, label %test, label %no
yes:
  ret i1 true
no:
  ret i1 false
}
define i1 @<P>plain(ptr %cell) nounwind {
entry:
  %type = load i32, ptr %cell
  %at = getelementptr i8, ptr %cell, i64 8
  %object = load ptr, ptr %at
  switch i32 %type, label %yes [ i32 70, label %tensor i32 69, label %shape i32 71, label %array i32 75, label %no ]
shape:
  %dims_at = getelementptr i8, ptr %object, i64 <HEADER>
  %dims = load ptr, ptr %dims_at
  %n_at = getelementptr i8, ptr %object, i64 32
  %n = load i64, ptr %n_at
  %sizes = call i1 @<P>sizes(ptr %dims, i64 %n)
  ret i1 %sizes
array:
  %fields_at = getelementptr i8, ptr %object, i64 <HEADER>
  %fields = load ptr, ptr %fields_at
  %m_at = getelementptr i8, ptr %object, i64 32
  %m = load i64, ptr %m_at
  br label %fields_test
fields_test:
  %f = phi i64 [ 0, %array ], [ %f_next, %field ]
  %all = icmp eq i64 %f, %m
  br i1 %all, label %yes, label %field
field:
  %field_at = getelementptr <ANY>, ptr %fields, i64 %f
  %field_plain = call i1 @<P>plain(ptr %field_at)
  %f_next = add nuw i64 %f, 1
  br i1 %field_plain, label %fields_test, label %no
tensor:
  %t = getelementptr i8, ptr %object, i64 <HEADER>
  %device_at = getelementptr <TENSOR>, ptr %t, i32 0, i32 1
  %device = load i32, ptr %device_at
  %on_cpu = icmp eq i32 %device, 1
  %offset_at = getelementptr <TENSOR>, ptr %t, i32 0, i32 9
  %offset = load i64, ptr %offset_at
  %at_start = icmp eq i64 %offset, 0
  %bits_at = getelementptr <TENSOR>, ptr %t, i32 0, i32 5
  %bits8 = load i8, ptr %bits_at
  %bits = zext i8 %bits8 to i64
  %lanes_at = getelementptr <TENSOR>, ptr %t, i32 0, i32 6
  %lanes = load i16, ptr %lanes_at
  %one_lane = icmp eq i16 %lanes, 1
  %data_at = getelementptr <TENSOR>, ptr %t, i32 0, i32 0
  %data = load i64, ptr %data_at
  %bits_up = add i64 %bits, 7
  %bytes = lshr i64 %bits_up, 3
  %mask = sub i64 %bytes, 1
  %low = and i64 %data, %mask
  %aligned = icmp eq i64 %low, 0
  %has_bits = icmp ne i64 %bits, 0
  %a = and i1 %on_cpu, %at_start
  %b = and i1 %one_lane, %aligned
  %c = and i1 %a, %b
  %d = and i1 %c, %has_bits
  br i1 %d, label %strides, label %no
strides:
  %ndim_at = getelementptr <TENSOR>, ptr %t, i32 0, i32 3
  %ndim32 = load i32, ptr %ndim_at
  %ndim = sext i32 %ndim32 to i64
  %shape_at = getelementptr <TENSOR>, ptr %t, i32 0, i32 7
  %shape_p = load ptr, ptr %shape_at
  %strides_at = getelementptr <TENSOR>, ptr %t, i32 0, i32 8
  %strides_p = load ptr, ptr %strides_at
  %unit = call i64 @<P>unit(i64 %bits)
  %stated = icmp ne ptr %strides_p, null
  br i1 %stated, label %axes, label %no
axes:
  %k = phi i64 [ %ndim, %strides ], [ %axis, %axis_fine ]
  %expected = phi i64 [ %unit, %strides ], [ %next_expected, %axis_fine ]
  %gaps = phi i1 [ false, %strides ], [ %gaps_next, %axis_fine ]
  %more = icmp sgt i64 %k, 0
  br i1 %more, label %look, label %counted
counted:
  ; the strides of a tensor without elements mean nothing, and its other sizes may be more than can be counted
  %empty = icmp eq i64 %expected, 0
  br i1 %empty, label %measure, label %filled
filled:
  %compact = xor i1 %gaps, true
  ret i1 %compact
measure:
  %dtype_at = getelementptr <TENSOR>, ptr %t, i32 0, i32 4
  %dtype = load i32, ptr %dtype_at, align 4
  %room = call i64 @<P>bytes(i32 %dtype, i32 %ndim32, ptr %shape_p)
  %fine = icmp sge i64 %room, 0
  ret i1 %fine
look:
  %axis = sub i64 %k, 1
  %size_at = getelementptr i64, ptr %shape_p, i64 %axis
  %size = load i64, ptr %size_at
  %stride_at = getelementptr i64, ptr %strides_p, i64 %axis
  %stride = load i64, ptr %stride_at
  %fits = icmp eq i64 %stride, %expected
  %single = icmp eq i64 %size, 1
  %positive = icmp sge i64 %size, 0
  %small = icmp slt i64 %size, <LIMIT>
  %either = or i1 %fits, %single
  %elsewhere = xor i1 %either, true
  %gaps_next = or i1 %gaps, %elsewhere
  %sized = and i1 %positive, %small
  br i1 %sized, label %axis_fine, label %no
axis_fine:
  %next_expected = mul i64 %expected, %size
  br label %axes
yes:
  ret i1 true
no:
  ret i1 false
}
define internal i64 @<P>unit(i64 %bits) nounwind {
  ; an element of 2 or 4 bits takes the room of several in its strides
  %whole = call i64 @llvm.umin.i64(i64 %bits, i64 8)
  %unit = udiv i64 8, %whole
  ret i64 %unit
}
define i32 @<P>rank(ptr %cell) nounwind {
  %type = load i32, ptr %cell
  %at = getelementptr i8, ptr %cell, i64 8
  %object = load ptr, ptr %at
  switch i32 %type, label %neither [ i32 70, label %tensor i32 69, label %shape ]
tensor:
  %ndim_at = getelementptr i8, ptr %object, i64 40
  %ndim = load i32, ptr %ndim_at
  ret i32 %ndim
shape:
  %n_at = getelementptr i8, ptr %object, i64 32
  %n = load i64, ptr %n_at
  %n32 = trunc i64 %n to i32
  ret i32 %n32
neither:
  ret i32 -1
}
define i64 @<P>dim(ptr %cell, i64 %axis) nounwind {
  %rank = call i32 @<P>rank(ptr %cell)
  %wide = sext i32 %rank to i64
  %there = icmp slt i64 %axis, %wide
  br i1 %there, label %read, label %none
read:
  %type = load i32, ptr %cell
  %at = getelementptr i8, ptr %cell, i64 8
  %object = load ptr, ptr %at
  %is_tensor = icmp eq i32 %type, 70
  %offset = select i1 %is_tensor, i64 48, i64 <HEADER>
  %dims_at = getelementptr i8, ptr %object, i64 %offset
  %dims = load ptr, ptr %dims_at
  %dim_at = getelementptr i64, ptr %dims, i64 %axis
  %dim = load i64, ptr %dim_at
  ret i64 %dim
none:
  ret i64 -1
}
define i64 @<P>count(ptr %cell) nounwind {
  %type = load i32, ptr %cell
  %is_array = icmp eq i32 %type, 71
  br i1 %is_array, label %read, label %none
read:
  %at = getelementptr i8, ptr %cell, i64 8
  %object = load ptr, ptr %at
  %n_at = getelementptr i8, ptr %object, i64 32
  %n = load i64, ptr %n_at
  ret i64 %n
none:
  ret i64 -1
}
define i1 @<P>field(ptr %to, ptr %cell, i64 %index) nounwind {
  %n = call i64 @<P>count(ptr %cell)
  %there = icmp slt i64 %index, %n
  br i1 %there, label %read, label %none
read:
  %at = getelementptr i8, ptr %cell, i64 8
  %object = load ptr, ptr %at
  %fields_at = getelementptr i8, ptr %object, i64 <HEADER>
  %fields = load ptr, ptr %fields_at
  %field = getelementptr <ANY>, ptr %fields, i64 %index
  call void @<P>set(ptr %to, ptr %field)
  ret i1 true
none:
  ret i1 false
}
; rank and dtype of a tensor that is a condition, and nothing of its dimensions
@<P>condition = private constant [3 x <ANY>] [<ANY> zeroinitializer, <ANY> { i32 0, i32 0, i64 67590 },
  <ANY> zeroinitializer]
define i32 @<P>truth(ptr %cell) nounwind {
  ; 0 or 1; 2 if the value is neither a bool nor a tensor that is one
  %type = load i32, ptr %cell
  %at = getelementptr i8, ptr %cell, i64 8
  switch i32 %type, label %neither [ i32 2, label %bool i32 70, label %tensor ]
bool:
  %value = load i64, ptr %at
  %is = icmp ne i64 %value, 0
  %truth = zext i1 %is to i32
  ret i32 %truth
tensor:
  %fits = call i1 @<P>fits_tensor(ptr %cell, ptr @<P>condition, ptr null, ptr null)
  br i1 %fits, label %read, label %neither
read:
  %object = load ptr, ptr %at
  %data_at = getelementptr i8, ptr %object, i64 <HEADER>
  %data = load ptr, ptr %data_at
  %byte = load i8, ptr %data
  %set = icmp ne i8 %byte, 0
  %wide = zext i1 %set to i32
  ret i32 %wide
neither:
  ret i32 2
}
"""
