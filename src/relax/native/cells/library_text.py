"""Functions that format messages by concatenating texts of values.

A text is its length in bytes (8 bytes), then at most 1,024 zero-terminated bytes. LLVM IR; `library` defines the
placeholders in angle brackets.
"""

from __future__ import annotations

from typing import Final

_KINDS: Final = {
    0: "the null object", 5: "a dtype", 6: "a device", 7: "a tensor", 66: "bytes", 67: "an error",
    68: "a packed function", 70: "a tensor", 72: "a dict", 73: "a module", 75: "a list",
}  # fmt: skip

_UINT64: Final = -1
"""Additional kind of number: a uint64 in a slot, which may look negative."""

_CASES: Final = " ".join(f"i32 {kind}, label %k{kind}" for kind in _KINDS)
_NAMED: Final = "".join(
    f'k{kind}:\n  call void @<L>put(ptr %text, ptr <"{words}">)\n  ret void\n' for kind, words in _KINDS.items()
)

TEXTS: Final = f"""
define internal void @<L>put_bytes(ptr %text, ptr %bytes, i64 %count) nounwind {{
  %used = load i64, ptr %text
  %room = sub i64 1023, %used
  %n = call i64 @llvm.umin.i64(i64 %count, i64 %room)
  %start = getelementptr i8, ptr %text, i64 8
  %to = getelementptr i8, ptr %start, i64 %used
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %bytes, i64 %n, i1 false)
  %end = getelementptr i8, ptr %to, i64 %n
  store i8 0, ptr %end
  %now = add i64 %used, %n
  store i64 %now, ptr %text
  ret void
}}
define internal void @<L>put(ptr %text, ptr %chars) nounwind {{
  %n = call i64 @strlen(ptr %chars)
  call void @<L>put_bytes(ptr %text, ptr %chars, i64 %n)
  ret void
}}
define internal void @<L>put_digits(ptr %text, ptr %format, i64 %value) nounwind {{
  %digits = alloca [32 x i8], align 8
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %digits, i64 32, ptr %format, i64 %value)
  call void @<L>put(ptr %text, ptr %digits)
  ret void
}}
define internal void @<L>put_int(ptr %text, i64 %value) nounwind {{
  call void @<L>put_digits(ptr %text, ptr <"%lld">, i64 %value)
  ret void
}}
define internal void @<L>put_float(ptr %text, double %value) nounwind {{
  %digits = alloca [64 x i8], align 8
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %digits, i64 64, ptr <"%.9g">, double %value)
  call void @<L>put(ptr %text, ptr %digits)
  ; a point, an exponent, or a name
  %mark = call ptr @strpbrk(ptr %digits, ptr <".en">)
  %whole = icmp eq ptr %mark, null
  %zero = select i1 %whole, ptr <".0">, ptr <"">
  call void @<L>put(ptr %text, ptr %zero)
  ret void
}}
define internal void @<L>put_number(ptr %text, i32 %kind, i64 %bits) nounwind {{
  switch i32 %kind, label %int [ i32 2, label %bool i32 3, label %float i32 {_UINT64}, label %uint64 ]
int:
  call void @<L>put_int(ptr %text, i64 %bits)
  ret void
uint64:
  call void @<L>put_digits(ptr %text, ptr <"%llu">, i64 %bits)
  ret void
bool:
  %set = icmp ne i64 %bits, 0
  %word = select i1 %set, ptr <"True">, ptr <"False">
  call void @<L>put(ptr %text, ptr %word)
  ret void
float:
  %value = bitcast i64 %bits to double
  call void @<L>put_float(ptr %text, double %value)
  ret void
}}
define internal ptr @<L>string(ptr %any, ptr %length) nounwind {{
entry:
  ; the bytes of a string, which end in zero, and their number
  %kind = load i32, ptr %any
  %at = getelementptr i8, ptr %any, i64 8
  switch i32 %kind, label %raw [ i32 11, label %small i32 65, label %object ]
raw:
  %chars = load ptr, ptr %at
  %n = call i64 @strlen(ptr %chars)
  store i64 %n, ptr %length
  ret ptr %chars
small:
  %size_at = getelementptr i8, ptr %any, i64 4
  %size = load i32, ptr %size_at
  %wide = zext i32 %size to i64
  store i64 %wide, ptr %length
  ret ptr %at
object:
  %held = load ptr, ptr %at
  %array = getelementptr i8, ptr %held, i64 <HEADER>
  %bytes = load ptr, ptr %array
  %count_at = getelementptr i8, ptr %array, i64 8
  %count = load i64, ptr %count_at
  store i64 %count, ptr %length
  ret ptr %bytes
}}
define internal void @<L>put_string(ptr %text, ptr %any) nounwind {{
  %length = alloca i64, align 8
  %bytes = call ptr @<L>string(ptr %any, ptr %length)
  %n = load i64, ptr %length
  call void @<L>put_bytes(ptr %text, ptr %bytes, i64 %n)
  ret void
}}
define internal void @<L>put_dtype(ptr %text, i32 %dtype) nounwind {{
  %place = alloca i32, align 4
  %name = alloca <ANY>, align 8
  store i32 %dtype, ptr %place
  store i128 0, ptr %name, align 8
  %status = call i32 @TVMFFIDataTypeToString(ptr %place, ptr %name)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %show, label %done
show:
  call void @<L>put_string(ptr %text, ptr %name)
  %kind = load i32, ptr %name
  %is_object = icmp sge i32 %kind, 64
  br i1 %is_object, label %drop, label %done
drop:
  %at = getelementptr i8, ptr %name, i64 8
  %object = load ptr, ptr %at
  call i32 @TVMFFIObjectDecRef(ptr %object)
  br label %done
done:
  ret void
}}
define internal void @<L>put_dims(ptr %text, ptr %any) nounwind {{
entry:
  ; the sizes of a tensor or shape, in parentheses
  %rank = call i32 @<P>rank(ptr %any)
  %n = sext i32 %rank to i64
  call void @<L>put(ptr %text, ptr <"(">)
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %look, label %end
look:
  %first = icmp eq i64 %i, 0
  br i1 %first, label %one, label %comma
comma:
  call void @<L>put(ptr %text, ptr <", ">)
  br label %one
one:
  %size = call i64 @<P>dim(ptr %any, i64 %i)
  call void @<L>put_int(ptr %text, i64 %size)
  %next = add i64 %i, 1
  br label %test
end:
  %single = icmp eq i64 %n, 1
  %close = select i1 %single, ptr <",)">, ptr <")">
  call void @<L>put(ptr %text, ptr %close)
  ret void
}}
define internal void @<L>put_kind(ptr %text, ptr %any) nounwind {{
entry:
  ; a value in a few words, with their article
  %kind = load i32, ptr %any
  %at = getelementptr i8, ptr %any, i64 8
  %bits = load i64, ptr %at
  %is_int = icmp eq i32 %kind, 1
  %is_bool = icmp eq i32 %kind, 2
  switch i32 %kind, label %other [ i32 1, label %number i32 2, label %number i32 3, label %number i32 8, label %string
    i32 11, label %string i32 65, label %string i32 69, label %shape i32 71, label %array {_CASES} ]
number:
  %names = select i1 %is_int, ptr <"the int ">, ptr <"the float ">
  %name = select i1 %is_bool, ptr <"the bool ">, ptr %names
  call void @<L>put(ptr %text, ptr %name)
  call void @<L>put_number(ptr %text, i32 %kind, i64 %bits)
  ret void
string:
  call void @<L>put(ptr %text, ptr <"the string '">)
  call void @<L>put_string(ptr %text, ptr %any)
  call void @<L>put(ptr %text, ptr <"'">)
  ret void
shape:
  call void @<L>put(ptr %text, ptr <"the shape ">)
  call void @<L>put_dims(ptr %text, ptr %any)
  ret void
array:
  call void @<L>put(ptr %text, ptr <"a tuple of ">)
  %count = call i64 @<P>count(ptr %any)
  call void @<L>put_int(ptr %text, i64 %count)
  ret void
other:
  call void @<L>put(ptr %text, ptr <"an object">)
  ret void
{_NAMED}}}
define internal ptr @<L>note(ptr %notes, i64 %slot, ptr %note) nounwind {{
entry:
  ; the note on a slot of a shape heap, of which `notes` has all, copied; without its dtype
  %length = alloca i64, align 8
  %all = call ptr @<L>string(ptr %notes, ptr %length)
  %n = load i64, ptr %length
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %i_next, %step ]
  %left = phi i64 [ %slot, %entry ], [ %left_next, %step ]
  %used = phi i64 [ 0, %entry ], [ %used_next, %step ]
  %past = icmp uge i64 %i, %n
  br i1 %past, label %ready, label %look
look:
  %char_at = getelementptr i8, ptr %all, i64 %i
  %char = load i8, ptr %char_at
  %is_tab = icmp eq i8 %char, 9
  %here = icmp eq i64 %left, 0
  %ends = and i1 %is_tab, %here
  br i1 %ends, label %ready, label %step
step:
  %one = zext i1 %is_tab to i64
  %left_next = sub i64 %left, %one
  %room = icmp ult i64 %used, 256
  %write = and i1 %here, %room
  %to = getelementptr i8, ptr %note, i64 %used
  store i8 %char, ptr %to
  %count = zext i1 %write to i64
  %used_next = add i64 %used, %count
  %i_next = add i64 %i, 1
  br label %test
ready:
  %end = getelementptr i8, ptr %note, i64 %used
  store i8 0, ptr %end
  %typed = call ptr @strstr(ptr %note, ptr <": ">)
  %is_typed = icmp ne ptr %typed, null
  %after_type = getelementptr i8, ptr %typed, i64 2
  %start = select i1 %is_typed, ptr %after_type, ptr %note
  ret ptr %start
}}
define internal void @<L>put_slot(ptr %text, ptr %note, ptr %start, i64 %value) nounwind {{
  ; a number of the dtype with which a note begins, up to `start`
  %floats = call ptr @strstr(ptr %note, ptr <"float">)
  %there = icmp ne ptr %floats, null
  %before = icmp ult ptr %floats, %start
  %is_float = and i1 %there, %before
  %bools = call ptr @strstr(ptr %note, ptr <"bool: ">)
  %first = icmp eq ptr %bools, %note
  %uints = call ptr @strstr(ptr %note, ptr <"uint64: ">)
  %is_uint = icmp eq ptr %uints, %note
  %whole = select i1 %is_uint, i32 {_UINT64}, i32 1
  %or_int = select i1 %first, i32 2, i32 %whole
  %kind = select i1 %is_float, i32 3, i32 %or_int
  call void @<L>put_number(ptr %text, i32 %kind, i64 %value)
  ret void
}}
define internal i1 @<L>put_variable(ptr %text, ptr %note, ptr %start, i64 %value, ptr %between, ptr %after) nounwind {{
  ; a variable, its value and what bound it, if the note is one on a variable
  %bound = call ptr @strstr(ptr %start, ptr <" bound by ">)
  %is_bound = icmp ne ptr %bound, null
  br i1 %is_bound, label %variable, label %no
variable:
  store i8 0, ptr %bound
  call void @<L>put(ptr %text, ptr %start)
  call void @<L>put(ptr %text, ptr <" = ">)
  call void @<L>put_slot(ptr %text, ptr %note, ptr %start, i64 %value)
  call void @<L>put(ptr %text, ptr %between)
  %first = load i8, ptr %between
  %silent = icmp eq i8 %first, 0
  br i1 %silent, label %origin, label %repeat
repeat:
  call void @<L>put(ptr %text, ptr %start)
  br label %origin
origin:
  call void @<L>put(ptr %text, ptr <" was bound by ">)
  %where = getelementptr i8, ptr %bound, i64 10
  call void @<L>put(ptr %text, ptr %where)
  call void @<L>put(ptr %text, ptr %after)
  ret i1 true
no:
  ret i1 false
}}
define internal void @<L>put_expected(ptr %text, ptr %notes, i64 %slot, ptr %slots) nounwind {{
entry:
  ; a slot of a shape heap by its note, as relax.runtime.heap describes it
  %note = alloca [264 x i8], align 8
  %source = alloca [264 x i8], align 8
  %stop = alloca ptr, align 8
  %value_at = getelementptr i64, ptr %slots, i64 %slot
  %value = load i64, ptr %value_at
  %start = call ptr @<L>note(ptr %notes, i64 %slot, ptr %note)
  %variable = call i1 @<L>put_variable(ptr %text, ptr %note, ptr %start, i64 %value, ptr <" (">, ptr <")">)
  br i1 %variable, label %done, label %computed
computed:
  %from = call ptr @strstr(ptr %start, ptr <" from ">)
  %is_from = icmp ne ptr %from, null
  br i1 %is_from, label %expression, label %number
number:
  call void @<L>put_int(ptr %text, i64 %value)
  ret void
expression:
  store i8 0, ptr %from
  call void @<L>put(ptr %text, ptr %start)
  call void @<L>put(ptr %text, ptr <" = ">)
  call void @<L>put_slot(ptr %text, ptr %note, ptr %start, i64 %value)
  %sources = getelementptr i8, ptr %from, i64 6
  br label %test
test:
  %at = phi ptr [ %sources, %expression ], [ %next, %one ]
  %before = phi ptr [ <" (">, %expression ], [ <"; ">, %one ]
  %other = call i64 @strtol(ptr %at, ptr %stop, i32 10)
  %next = load ptr, ptr %stop
  %none = icmp eq ptr %next, %at
  br i1 %none, label %end, label %one
one:
  call void @<L>put(ptr %text, ptr %before)
  %other_at = getelementptr i64, ptr %slots, i64 %other
  %other_value = load i64, ptr %other_at
  %other_start = call ptr @<L>note(ptr %notes, i64 %other, ptr %source)
  %shown = call i1 @<L>put_variable(ptr %text, ptr %source, ptr %other_start, i64 %other_value, ptr <"">, ptr <"">)
  br label %test
end:
  %some = icmp ne ptr %at, %sources
  %close = select i1 %some, ptr <")">, ptr <"">
  call void @<L>put(ptr %text, ptr %close)
  br label %done
done:
  ret void
}}
"""
