"""Functions that move values between cells, call packed functions, and add source locations to errors.

LLVM IR; `support_code` defines the placeholders in angle brackets.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Passed(IntEnum):
    """Non-constant arguments of `call_with`: codes that stand in its table in place of a type index."""

    REGISTER = -1
    CELL = -2
    POINTER = -3


class Refused(IntEnum):
    """Results of `run` for calls that are rejected by the function itself, which sets the error."""

    MISCOUNTED = 1
    LONELY = 2


INNER_CALL: Final = 0x52454C44
"""Reserved type index in the result cell by which a compiled function marks a call of another."""

VALUES: Final = """
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
define hidden void @<P>own(ptr %to, ptr %object, i32 %type) nounwind {
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
define i32 @<P>enter(ptr %args, i32 %count, ptr %cells, ptr %table, i1 %known) nounwind {
entry:
  ; arguments of a compiled function are values of the machine, as is known: nobody looks into their tuples again
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
  br i1 %known, label %copy, label %check
check:
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
define i32 @<P>deeper(ptr %function, ptr %args, i32 %count, i32 %depth, ptr %result) cold nounwind {
  ; a call with one more argument, the depth
  %more = add i32 %count, 1
  %all = alloca <ANY>, i32 %more, align 16
  %n = zext i32 %count to i64
  %bytes = shl i64 %n, 4
  call void @llvm.memcpy.p0.p0.i64(ptr %all, ptr %args, i64 %bytes, i1 false)
  %last = getelementptr <ANY>, ptr %all, i64 %n
  store i64 1, ptr %last
  %number = getelementptr i8, ptr %last, i64 8
  %wide = zext i32 %depth to i64
  store i64 %wide, ptr %number
  store i128 0, ptr %result, align 8
  %at = getelementptr i8, ptr %function, i64 8
  %object = load ptr, ptr %at
  %status = call i32 @TVMFFIFunctionCall(ptr %object, ptr %all, i32 %more, ptr %result)
  ret i32 %status
}
define i32 @<P>run(ptr %self, ptr %args, i32 %count, ptr %result, ptr %body, ptr %facts) nounwind {
entry:
  ; the packed form of a compiled function (`relax.codegen.entry`), whose facts are four numbers: its parameters, the
  ; most arguments, its registers, its cell in the table (0: none)
  %given = load i32, ptr %facts
  %most_at = getelementptr i32, ptr %facts, i64 1
  %most = load i32, ptr %most_at
  %enough = icmp sge i32 %count, %given
  %few = icmp sle i32 %count, %most
  %counted = and i1 %enough, %few
  br i1 %counted, label %known, label %miscounted
known:
  %there = icmp ne ptr %self, null
  br i1 %there, label %look, label %alone
look:
  %mark_at = getelementptr i8, ptr %self, i64 12
  %mark = load i32, ptr %mark_at
  %marked = icmp eq i32 %mark, <MARK>
  br i1 %marked, label %go, label %alone
alone:
  ; a function that was made of its address alone is called with itself, or with nothing: then its table is that of the
  ; shared library which it is in
  %own = call ptr @<P>program()
  %address = ptrtoint ptr %own to i64
  switch i64 %address, label %go [ i64 0, label %lonely i64 1, label %refused ]
go:
  %context = phi ptr [ %self, %look ], [ %own, %alone ]
  %table = getelementptr i8, ptr %context, i64 16
  %registers_at = getelementptr i32, ptr %facts, i64 2
  %registers = load i32, ptr %registers_at
  %n = zext i32 %registers to i64
  %frame = add i64 %n, 1
  %r = alloca <ANY>, i64 %frame, align 16
  ; behind the registers, the depth of the call, and where the stack began
  %kind = load i32, ptr %result
  %inner = icmp eq i32 %kind, <INNER_CALL>
  %told = load i64, ptr %result
  %told_base_at = getelementptr i8, ptr %result, i64 8
  %told_base = load i64, ptr %told_base_at
  %here = ptrtoint ptr %r to i64
  %told_depth = sub i64 %told, <INNER_CALL>
  %first = select i1 %inner, i64 %told_depth, i64 0
  %base = select i1 %inner, i64 %told_base, i64 %here
  %behind = getelementptr <ANY>, ptr %r, i64 %n
  store i64 %first, ptr %behind
  %base_at = getelementptr i8, ptr %behind, i64 8
  store i64 %base, ptr %base_at
  ; where calls are too deep for the machine or the stack, the function in the function's own cell is called instead
  %depth = lshr i64 %first, 32
  %used = sub i64 %base, %here
  %most_calls_at = getelementptr i8, ptr %table, i64 <MOST_CALLS>
  %most_calls = load i64, ptr %most_calls_at
  %limit_at = getelementptr i8, ptr %table, i64 <STACK_LIMIT>
  %limit = load i64, ptr %limit_at
  %many = icmp sgt i64 %depth, %most_calls
  %deep = icmp sgt i64 %used, %limit
  %deeper = or i1 %many, %deep
  %cell_at = getelementptr i32, ptr %facts, i64 3
  %cell = load i32, ptr %cell_at
  %has_cell = icmp ne i32 %cell, 0
  %elsewhere = and i1 %deeper, %has_cell
  br i1 %elsewhere, label %hand_on, label %flat
hand_on:
  %index = zext i32 %cell to i64
  %function = getelementptr <ANY>, ptr %table, i64 %index
  %short = trunc i64 %depth to i32
  %handed = call i32 @<P>deeper(ptr %function, ptr %args, i32 %given, i32 %short, ptr %result)
  ret i32 %handed
flat:
  %bytes = shl i64 %n, 4
  call void @llvm.memset.p0.i64(ptr align 16 %r, i8 0, i64 %bytes, i1 false)
  %entered = call i32 @<P>enter(ptr %args, i32 %given, ptr %r, ptr %table, i1 %inner)
  %is_in = icmp eq i32 %entered, 0
  br i1 %is_in, label %rest, label %finish
rest:
  ; memory for results
  %offered = sub i32 %count, %given
  %wide = zext i32 %given to i64
  %to = getelementptr <ANY>, ptr %r, i64 %wide
  %none = icmp eq i32 %offered, 0
  br i1 %none, label %start, label %take
take:
  %more = getelementptr <ANY>, ptr %args, i64 %wide
  %memory = getelementptr <ANY>, ptr %to, i64 1
  %taken = call i32 @<P>enter(ptr %more, i32 %offered, ptr %memory, ptr %table, i1 false)
  %all_in = icmp eq i32 %taken, 0
  br i1 %all_in, label %start, label %finish
start:
  %done = call i32 %body(ptr %r, ptr %table)
  %fine = icmp eq i32 %done, 0
  br i1 %fine, label %move, label %finish
move:
  %all = load <2 x i64>, ptr %to, align 8
  store <2 x i64> %all, ptr %result, align 8
  store <2 x i64> zeroinitializer, ptr %to, align 8
  br label %finish
finish:
  %status = phi i32 [ -1, %flat ], [ -1, %take ], [ -1, %start ], [ 0, %move ]
  call void @<P>leave(ptr %r, i64 %n)
  ret i32 %status
miscounted:
  ret i32 <MISCOUNTED>
lonely:
  ret i32 <LONELY>
refused:
  ret i32 -1
}
define i32 @<P>call_with(ptr %function, ptr %r, ptr %table, ptr %pointer, ptr %told, ptr %to) nounwind {
entry:
  ; a call with the arguments that a constant table tells, in the form of cells, behind their number: values, and in the
  ; place of a type index what is passed in the place of a cell (`Passed`)
  %count_at = getelementptr i8, ptr %told, i64 8
  %count = load i64, ptr %count_at
  %first = getelementptr <ANY>, ptr %told, i64 1
  %args = alloca <ANY>, i64 %count, align 16
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %store ]
  %end = icmp eq i64 %i, %count
  br i1 %end, label %done, label %one
one:
  %from = getelementptr <ANY>, ptr %first, i64 %i
  %type = load i64, ptr %from
  %value_at = getelementptr i8, ptr %from, i64 8
  %value = load i64, ptr %value_at
  switch i64 %type, label %store [ i64 <REGISTER>, label %cell i64 <CELL>, label %cell i64 <POINTER>, label %address ]
cell:
  %is_register = icmp eq i64 %type, <REGISTER>
  %cells = select i1 %is_register, ptr %r, ptr %table
  %held = getelementptr <ANY>, ptr %cells, i64 %value
  %held_type = load i64, ptr %held
  %held_at = getelementptr i8, ptr %held, i64 8
  %held_value = load i64, ptr %held_at
  br label %store
address:
  %number = ptrtoint ptr %pointer to i64
  br label %store
store:
  %word = phi i64 [ %type, %one ], [ %held_type, %cell ], [ 4, %address ]
  %payload = phi i64 [ %value, %one ], [ %held_value, %cell ], [ %number, %address ]
  %arg = getelementptr <ANY>, ptr %args, i64 %i
  store i64 %word, ptr %arg
  %payload_at = getelementptr i8, ptr %arg, i64 8
  store i64 %payload, ptr %payload_at
  %next = add nuw i64 %i, 1
  br label %test
done:
  %short = trunc i64 %count to i32
  %status = call i32 @<P>call(ptr %function, ptr %args, i32 %short, ptr %to)
  ret i32 %status
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
