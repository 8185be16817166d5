"""Support code of compiled Relax functions: cells, which hold values, and the objects of tvm-ffi in them.

A cell is a TVMFFIAny that owns the object in it. The registers of a running function are an array of cells, and so is
the table of what it names (constants, packed functions, devices). Code reads and writes them by the functions here;
those that may decline answer false, and have then changed nothing: the caller asks the builtin of the same purpose,
which raises the error or does the rare thing.

The code is one object, which a process loads once and keeps, since tensors made here are freed by it: see
`relax.runtime.native`. The number in the prefix changes with the meaning of a function.

    object of a tensor   header of tvm-ffi (24 bytes), DLTensor (48), the object whose memory it views, or null (8),
                         sizes, strides; then, at a multiple of 64, its elements
    object of a shape    header, pointer to the sizes, their number; the sizes
    table                number of references, number of cells and `TABLE_MARK`; the cells. Functions hold references
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ..runtime.limits import DIMENSION_LIMIT
from ..runtime.native import CELLS
from .builder import ModuleBuilder
from .support import ANY_TYPE, OBJECT_HEADER, TENSOR_TYPE

TABLE_MARK: Final = 0x52454C58
"""The upper half of a table's second word: no object of tvm-ffi has it there."""
_RAW: Final = 8
_OWNER: Final = 72
_DIMS: Final = 80
_MOST_BYTES: Final = 1 << 47

#: functions, by name: the result's type and those of the parameters
FUNCTIONS: Final[dict[str, tuple[str, str]]] = {
    "reset": ("void", "ptr"),
    "set": ("void", "ptr, ptr"),
    "call": ("i32", "ptr, ptr, i32, ptr"),
    "keep": ("void", "ptr, ptr"),
    "enter": ("i32", "ptr, i32, ptr, ptr"),
    "leave": ("void", "ptr, i64"),
    "plain": ("i1", "ptr"),
    "fits": ("i1", "ptr, i32, i32, ptr"),
    "rank": ("i32", "ptr"),
    "dim": ("i64", "ptr, i64"),
    "count": ("i64", "ptr"),
    "field": ("i1", "ptr, ptr, i64"),
    "truth": ("i32", "ptr"),
    "alloc": ("i1", "ptr, ptr, i32, i32, ptr"),
    "view": ("i1", "ptr, ptr, i64, i32, i32, ptr"),
    "reshape": ("i1", "ptr, ptr, i32, ptr"),
    "copy": ("i1", "ptr, ptr, ptr"),
    "shape": ("i1", "ptr, i32, ptr"),
    "locate": ("void", "ptr, ptr, i32"),
}

_CELLS = """
define void @<P>reset(ptr %cell) nounwind {
  %type = load i32, ptr %cell
  store i64 0, ptr %cell
  %is_object = icmp sge i32 %type, 64
  br i1 %is_object, label %drop, label %done
drop:
  %at = getelementptr i8, ptr %cell, i64 8
  %object = load ptr, ptr %at
  call i32 @TVMFFIObjectDecRef(ptr %object)
  br label %done
done:
  ret void
}
define void @<P>keep(ptr %to, ptr %from) nounwind {
  ; a value for a cell that holds nothing
  %all = load i128, ptr %from, align 8
  store i128 %all, ptr %to, align 8
  %type = load i32, ptr %from
  %is_object = icmp sge i32 %type, 64
  br i1 %is_object, label %hold, label %done
hold:
  %at = getelementptr i8, ptr %from, i64 8
  %object = load ptr, ptr %at
  %old = atomicrmw add ptr %object, i64 1 monotonic
  br label %done
done:
  ret void
}
define void @<P>set(ptr %to, ptr %from) nounwind {
  %held = alloca <ANY>, align 8
  call void @<P>keep(ptr %held, ptr %from)
  call void @<P>reset(ptr %to)
  %all = load i128, ptr %held, align 8
  store i128 %all, ptr %to, align 8
  ret void
}
define internal void @<P>own(ptr %to, ptr %object, i32 %type) nounwind {
  call void @<P>reset(ptr %to)
  store i32 %type, ptr %to
  %at = getelementptr i8, ptr %to, i64 8
  store ptr %object, ptr %at
  ret void
}
define i32 @<P>call(ptr %function, ptr %args, i32 %count, ptr %to) nounwind {
entry:
  %result = alloca <ANY>, align 8
  store i128 0, ptr %result, align 8
  %at = getelementptr i8, ptr %function, i64 8
  %object = load ptr, ptr %at
  %status = call i32 @TVMFFIFunctionCall(ptr %object, ptr %args, i32 %count, ptr %result)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %store, label %done
store:
  %dropped = icmp eq ptr %to, null
  br i1 %dropped, label %drop, label %keep
drop:
  call void @<P>reset(ptr %result)
  br label %done
keep:
  call void @<P>reset(ptr %to)
  %all = load i128, ptr %result, align 8
  store i128 %all, ptr %to, align 8
  br label %done
done:
  ret i32 %status
}
define i32 @<P>enter(ptr %args, i32 %count, ptr %cells, ptr %table) nounwind {
entry:
  %n = zext i32 %count to i64
  %bytes = shl i64 %n, 4
  call void @llvm.memset.p0.i64(ptr align 8 %cells, i8 0, i64 %bytes, i1 false)
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %fine ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %done, label %one
one:
  %from = getelementptr <ANY>, ptr %args, i64 %i
  %to = getelementptr <ANY>, ptr %cells, i64 %i
  %type = load i32, ptr %from
  %scalar = icmp slt i32 %type, 7
  %object = icmp sge i32 %type, 64
  %simple = or i1 %scalar, %object
  br i1 %simple, label %look, label %convert
look:
  %plain = call i1 @<P>plain(ptr %from)
  br i1 %plain, label %copy, label %import
copy:
  call void @<P>keep(ptr %to, ptr %from)
  br label %fine
convert:
  %lent = icmp eq i32 %type, 7
  br i1 %lent, label %import, label %own
own:
  %owned = call i32 @TVMFFIAnyViewToOwnedAny(ptr %from, ptr %to)
  %is_owned = icmp eq i32 %owned, 0
  br i1 %is_owned, label %fine, label %failed
import:
  %kind = load i32, ptr %table
  %callable = icmp eq i32 %kind, 68
  br i1 %callable, label %ask, label %refuse
ask:
  %status = call i32 @<P>call(ptr %table, ptr %from, i32 1, ptr %to)
  %imported = icmp eq i32 %status, 0
  br i1 %imported, label %fine, label %failed
refuse:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr <VALUE_ERROR>, ptr <NOT_PLAIN>)
  br label %failed
fine:
  %next = add nuw i64 %i, 1
  br label %test
failed:
  ret i32 -1
done:
  ret i32 0
}
define void @<P>leave(ptr %cells, i64 %count) nounwind {
entry:
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %end = icmp eq i64 %i, %count
  br i1 %end, label %done, label %one
one:
  %cell = getelementptr <ANY>, ptr %cells, i64 %i
  call void @<P>reset(ptr %cell)
  %next = add nuw i64 %i, 1
  br label %test
done:
  ret void
}
define void @<P>locate(ptr %table, ptr %messages, i32 %index) cold nounwind {
entry:
  %raised = alloca ptr, align 8
  %arg = alloca [2 x <ANY>], align 8
  %to = getelementptr <ANY>, ptr %table, i64 1
  %kind = load i32, ptr %to
  %callable = icmp eq i32 %kind, 68
  br i1 %callable, label %find, label %done
find:
  %text_at = phi ptr [ %messages, %entry ], [ %behind, %skip ]
  %left = phi i32 [ %index, %entry ], [ %fewer, %skip ]
  %found = icmp eq i32 %left, 0
  br i1 %found, label %tell, label %skip
skip:
  %length = call i64 @strlen(ptr %text_at)
  %size = add i64 %length, 1
  %behind = getelementptr i8, ptr %text_at, i64 %size
  %fewer = sub i32 %left, 1
  br label %find
tell:
  call void @TVMFFIErrorMoveFromRaised(ptr %raised)
  %error = load ptr, ptr %raised
  %there = icmp ne ptr %error, null
  br i1 %there, label %again, label %done
again:
  store i64 <RAW>, ptr %arg
  %text = getelementptr i8, ptr %arg, i64 8
  store ptr %text_at, ptr %text
  %second = getelementptr i8, ptr %arg, i64 16
  store i64 67, ptr %second
  %object = getelementptr i8, ptr %arg, i64 24
  store ptr %error, ptr %object
  call i32 @<P>call(ptr %to, ptr %arg, i32 2, ptr null)
  call void @TVMFFIErrorSetRaised(ptr %error)
  call i32 @TVMFFIObjectDecRef(ptr %error)
  br label %done
done:
  ret void
}
"""

_LOOKS = """
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
  %more = icmp sgt i64 %k, 0
  br i1 %more, label %look, label %yes
look:
  %axis = sub i64 %k, 1
  %size_at = getelementptr i64, ptr %shape_p, i64 %axis
  %size = load i64, ptr %size_at
  %stride_at = getelementptr i64, ptr %strides_p, i64 %axis
  %stride = load i64, ptr %stride_at
  %fits = icmp eq i64 %stride, %expected
  %single = icmp eq i64 %size, 1
  %positive = icmp sgt i64 %size, 0
  %small = icmp slt i64 %size, <LIMIT>
  %either = or i1 %fits, %single
  %sized = and i1 %positive, %small
  %good = and i1 %either, %sized
  br i1 %good, label %axis_fine, label %no
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
define i1 @<P>fits(ptr %cell, i32 %ndim, i32 %dtype, ptr %device) nounwind {
entry:
  %type = load i32, ptr %cell
  %is_tensor = icmp eq i32 %type, 70
  br i1 %is_tensor, label %tensor, label %no
tensor:
  %at = getelementptr i8, ptr %cell, i64 8
  %object = load ptr, ptr %at
  %t = getelementptr i8, ptr %object, i64 <HEADER>
  %ndim_at = getelementptr <TENSOR>, ptr %t, i32 0, i32 3
  %ndim_is = load i32, ptr %ndim_at
  %same_rank = icmp eq i32 %ndim, %ndim_is
  %any_rank = icmp slt i32 %ndim, 0
  %rank = or i1 %same_rank, %any_rank
  %dtype_at = getelementptr <TENSOR>, ptr %t, i32 0, i32 4
  %dtype_is = load i32, ptr %dtype_at, align 4
  %same_dtype = icmp eq i32 %dtype, %dtype_is
  %any_dtype = icmp eq i32 %dtype, 0
  %element = or i1 %same_dtype, %any_dtype
  %both = and i1 %rank, %element
  br i1 %both, label %place, label %no
place:
  %device_at = getelementptr <TENSOR>, ptr %t, i32 0, i32 1
  %kind = load i32, ptr %device_at
  %on_cpu = icmp eq i32 %kind, 1
  %anywhere = icmp eq ptr %device, null
  br i1 %anywhere, label %cpu, label %exact
cpu:
  ret i1 %on_cpu
exact:
  %wanted_at = getelementptr i8, ptr %device, i64 8
  %wanted = load i64, ptr %wanted_at
  %is = load i64, ptr %device_at, align 4
  %same = icmp eq i64 %wanted, %is
  ret i1 %same
no:
  ret i1 false
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
  %fits = call i1 @<P>fits(ptr %cell, i32 0, i32 67590, ptr null)
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

_OBJECTS = """
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
  call void @free(ptr %object)
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
define internal i64 @<P>bytes(i32 %dtype, i32 %ndim, ptr %dims) nounwind {
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
define internal ptr @<P>tensor(i64 %device_value, i32 %dtype, i32 %ndim, ptr %dims, ptr %data, i64 %room) nounwind {
entry:
  ; a tensor object; its data are `data`, or `room` fresh bytes if that is null
  %n = sext i32 %ndim to i64
  %dims_bytes = shl i64 %n, 4
  %head = add i64 %dims_bytes, <DIMS>
  %head_up = add i64 %head, 63
  %head64 = and i64 %head_up, -64
  %own = icmp eq ptr %data, null
  %room_up = add i64 %room, 63
  %room_some = call i64 @llvm.umax.i64(i64 %room_up, i64 64)
  %room64 = and i64 %room_some, -64
  %behind = select i1 %own, i64 %room64, i64 0
  %total = add i64 %head64, %behind
  %object = call ptr @aligned_alloc(i64 64, i64 %total)
  %failed = icmp eq ptr %object, null
  br i1 %failed, label %none, label %fill
fill:
  call void @<P>header(ptr %object, i32 70, ptr @<P>free)
  %t = getelementptr i8, ptr %object, i64 <HEADER>
  %fresh = getelementptr i8, ptr %object, i64 %head64
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
define internal i64 @<P>held(ptr %cell) nounwind {
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

_TABLES = """
define internal void @<P>drop(ptr %table) nounwind {
  %old = atomicrmw sub ptr %table, i64 1 acq_rel
  %last = icmp eq i64 %old, 1
  br i1 %last, label %end, label %done
end:
  %count_at = getelementptr i8, ptr %table, i64 8
  %count = load i32, ptr %count_at
  %n = zext i32 %count to i64
  %cells = getelementptr i8, ptr %table, i64 16
  call void @<P>leave(ptr %cells, i64 %n)
  call void @free(ptr %table)
  br label %done
done:
  ret void
}
define i32 @<P>table(ptr %self, ptr %args, i32 %count, ptr %result) nounwind {
entry:
  ; (values ...) -> a table of them, as a pointer
  %n = zext i32 %count to i64
  %bytes = shl i64 %n, 4
  %total = add i64 %bytes, 16
  %table = call ptr @malloc(i64 %total)
  %failed = icmp eq ptr %table, null
  br i1 %failed, label %no, label %fill
fill:
  store i64 1, ptr %table
  %count_at = getelementptr i8, ptr %table, i64 8
  store i32 %count, ptr %count_at
  %mark_at = getelementptr i8, ptr %table, i64 12
  store i32 <MARK>, ptr %mark_at
  %cells = getelementptr i8, ptr %table, i64 16
  call void @llvm.memset.p0.i64(ptr align 8 %cells, i8 0, i64 %bytes, i1 false)
  br label %test
test:
  %i = phi i64 [ 0, %fill ], [ %next, %kept ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %done, label %one
one:
  %from = getelementptr <ANY>, ptr %args, i64 %i
  %to = getelementptr <ANY>, ptr %cells, i64 %i
  %status = call i32 @TVMFFIAnyViewToOwnedAny(ptr %from, ptr %to)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %kept, label %bad
kept:
  %next = add nuw i64 %i, 1
  br label %test
bad:
  call void @<P>drop(ptr %table)
  ret i32 -1
done:
  store i64 4, ptr %result
  %value = getelementptr i8, ptr %result, i64 8
  store ptr %table, ptr %value
  ret i32 0
no:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr <MEMORY_ERROR>, ptr <NO_MEMORY>)
  ret i32 -1
}
define i32 @<P>function(ptr %self, ptr %args, i32 %count, ptr %result) nounwind {
  ; (table, address of a function's code) -> the function, which holds the table
  %made = alloca ptr, align 8
  %table_at = getelementptr i8, ptr %args, i64 8
  %table = load ptr, ptr %table_at
  %code_at = getelementptr i8, ptr %args, i64 24
  %code = load ptr, ptr %code_at
  %old = atomicrmw add ptr %table, i64 1 monotonic
  %status = call i32 @TVMFFIFunctionCreate(ptr %table, ptr %code, ptr @<P>drop, ptr %made)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %done, label %no
done:
  %function = load ptr, ptr %made
  store i64 68, ptr %result
  %value = getelementptr i8, ptr %result, i64 8
  store ptr %function, ptr %value
  ret i32 0
no:
  call void @<P>drop(ptr %table)
  ret i32 -1
}
define i32 @<P>release(ptr %self, ptr %args, i32 %count, ptr %result) nounwind {
  ; (table): its maker lets go of it
  %table_at = getelementptr i8, ptr %args, i64 8
  %table = load ptr, ptr %table_at
  call void @<P>drop(ptr %table)
  ret i32 0
}
"""


@lru_cache(maxsize=1)
def cells_text() -> str:
    """LLVM IR of the support code, without a target."""
    module = ModuleBuilder()
    module.declare("TVMFFIErrorSetRaisedFromCStr", "void", "ptr, ptr")
    module.declare("TVMFFIErrorMoveFromRaised", "void", "ptr")
    module.declare("TVMFFIErrorSetRaised", "void", "ptr")
    module.declare("TVMFFIObjectDecRef", "i32", "ptr")
    module.declare("TVMFFIFunctionCall", "i32", "ptr, ptr, i32, ptr")
    module.declare("TVMFFIFunctionCreate", "i32", "ptr, ptr, ptr, ptr")
    module.declare("TVMFFIAnyViewToOwnedAny", "i32", "ptr, ptr")
    module.declare("aligned_alloc", "ptr", "i64, i64")
    module.declare("malloc", "ptr", "i64")
    module.declare("free", "void", "ptr")
    module.declare("strlen", "i64", "ptr")
    module.intrinsic("llvm.umin.i64", "i64", "i64", "i64")
    module.intrinsic("llvm.umax.i64", "i64", "i64", "i64")
    module.intrinsic("llvm.umul.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
    module.intrinsic("llvm.memset.p0.i64", "void", "ptr", "i8", "i64", "i1")
    module.intrinsic("llvm.memcpy.p0.p0.i64", "void", "ptr", "ptr", "i64", "i1")
    values = {
        "P": CELLS,
        "ANY": ANY_TYPE,
        "TENSOR": TENSOR_TYPE,
        "HEADER": str(OBJECT_HEADER),
        "OWNER": str(_OWNER),
        "DIMS": str(_DIMS),
        "LIMIT": str(DIMENSION_LIMIT),
        "MOST": str(_MOST_BYTES),
        "MARK": str(TABLE_MARK),
        "RAW": str(_RAW),
        "VALUE_ERROR": module.string("ValueError"),
        "MEMORY_ERROR": module.string("MemoryError"),
        "NOT_PLAIN": module.string("an argument is no compact tensor in host memory; pass a compact copy"),
        "NO_MEMORY": module.string("out of memory: cannot make the table of a program"),
    }
    for text in (_CELLS, _LOOKS, _OBJECTS, _TABLES):
        for name, value in values.items():
            text = text.replace(f"<{name}>", value)
        module.add_text(text.strip())
    return module.text()


def cell_function(module: ModuleBuilder, name: str) -> tuple[str, str]:
    """The result's type and the symbol of a function of the support code."""
    result, parameters = FUNCTIONS[name]
    return result, module.declare(f"{CELLS}{name}", result, parameters)


__all__ = ["FUNCTIONS", "TABLE_MARK", "cell_function", "cells_text"]
