"""Functions that move values between cells, call packed functions, and place errors.

LLVM IR; `support_code` says what the names in angle brackets stand for.
"""

from __future__ import annotations

from typing import Final

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
