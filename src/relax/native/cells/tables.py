"""Functions that create the table of a program, and the packed functions that hold it.

LLVM IR; `support_code` defines the placeholders in angle brackets.
"""

from __future__ import annotations

from typing import Final

TABLES: Final = """
define hidden void @<P>drop(ptr %table) nounwind {
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
define weak ptr @<P>program() nounwind {
  ; the table that functions called without one belong to: null here, where a machine makes a table
  ret ptr null
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
