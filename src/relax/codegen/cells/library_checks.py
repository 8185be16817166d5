"""Native forms of the checks of values, and of matching sizes and scalars.

The messages are those of `relax.runtime.messages`. LLVM IR; `library` says what the names in angle brackets stand for.
"""

from __future__ import annotations

from typing import Final

from ...runtime.messages import (
    DEVICE,
    DIMENSIONS,
    DTYPE,
    IS,
    KIND,
    LENGTH,
    NEGATIVE,
    NO_SHAPE,
    NO_SIZE,
    NO_TUPLE,
    RANK,
    SCALAR,
    TOO_LARGE,
)
from .library_writer import builtin, dims, dtype, fail, floating, integer, kind, refuse, slot, string

_BEFORE, _BETWEEN = NO_SHAPE.text.removesuffix("{shape}").split("{what}")
_CONTEXT: Final = string("%context")
_AXIS: Final = ["dimension ", integer("%axis")]

_CHECK_TENSOR: Final = f"""
  %kind = load i32, ptr %a0
  %is_tensor = icmp eq i32 %kind, 70
  br i1 %is_tensor, label %tensor, label %bad_kind
tensor:
  %object = inttoptr i64 %p0 to ptr
  %rank32 = call i32 @<P>rank(ptr %a0)
  %rank = sext i32 %rank32 to i64
  %same = icmp eq i64 %rank, %p1
  %any = icmp slt i64 %p1, 0
  %rank_fits = or i1 %same, %any
  br i1 %rank_fits, label %type, label %bad_rank
type:
  %dtype_at = getelementptr i8, ptr %object, i64 44
  %dtype = load i32, ptr %dtype_at
  %dtype_kind = load i32, ptr %a2
  %stated = icmp eq i32 %dtype_kind, 5
  %wanted = trunc i64 %p2 to i32
  %differs = icmp ne i32 %dtype, %wanted
  %bad = and i1 %stated, %differs
  br i1 %bad, label %bad_type, label %bad_device
bad_kind:
{refuse(KIND, context=string("%a3"), expected="a tensor", found=kind("%a0"))}
bad_rank:
{refuse(RANK, context=string("%a3"), expected=integer("%p1"), found=integer("%rank"), shape=dims("%a0"))}
bad_type:
{refuse(DTYPE, context=string("%a3"), expected=dtype("%wanted"), found=dtype("%dtype"))}
bad_device:
{refuse(DEVICE, context=string("%a3"), expected="cpu", found="another device")}
"""

_CHECK_SHAPE: Final = f"""
  %kind = load i32, ptr %a0
  %is_shape = icmp eq i32 %kind, 69
  br i1 %is_shape, label %bad_rank, label %bad_kind
bad_kind:
{refuse(KIND, context=string("%a2"), expected="a shape", found=kind("%a0"))}
bad_rank:
  %rank32 = call i32 @<P>rank(ptr %a0)
  %rank = sext i32 %rank32 to i64
{refuse(DIMENSIONS, context=string("%a2"), expected=integer("%p1"), found=integer("%rank"), shape=dims("%a0"))}
"""

_CHECK_PRIM: Final = f"""
  %dtype = trunc i64 %p1 to i32
  %code = and i32 %dtype, 255
  %is_int = icmp eq i32 %code, 0
  %article = select i1 %is_int, ptr <"an">, ptr <"a">
{refuse(SCALAR, context=string("%a2"), article=("put", "ptr %article"), expected=dtype("%dtype"), found=kind("%a0"))}
"""

_CHECK_TUPLE: Final = f"""
  %kind = load i32, ptr %a0
  %is_tuple = icmp eq i32 %kind, 71
  br i1 %is_tuple, label %bad_length, label %bad_kind
bad_length:
{refuse(LENGTH, context=string("%a2"), expected=integer("%p1"), found=kind("%a0"))}
bad_kind:
{refuse(NO_TUPLE, context=string("%a2"), expected=integer("%p1"), found=kind("%a0"))}
"""

_MATCH: Final = f"""
define internal i32 @<L>match(ptr %value, i64 %ndim, ptr %codes, ptr %slots, ptr %notes, ptr %context) nounwind {{
entry:
  ; the sizes of a value by pairs of a code and a number, as relax.runtime.match has them
  %text = alloca [1040 x i8], align 8
  store i64 0, ptr %text
  %rank32 = call i32 @<P>rank(ptr %value)
  %rank = sext i32 %rank32 to i64
  %same_rank = icmp eq i64 %rank, %ndim
  br i1 %same_rank, label %test, label %bad_rank
test:
  %axis = phi i64 [ 0, %entry ], [ %next, %fine ]
  %end = icmp eq i64 %axis, %ndim
  br i1 %end, label %done, label %look
look:
  %pair = shl i64 %axis, 1
  %code_any = getelementptr <ANY>, ptr %codes, i64 %pair
  %code_at = getelementptr i8, ptr %code_any, i64 8
  %code = load i64, ptr %code_at
  %number_at = getelementptr i8, ptr %code_any, i64 24
  %number = load i64, ptr %number_at
  %size = call i64 @<P>dim(ptr %value, i64 %axis)
  %slot = getelementptr i64, ptr %slots, i64 %number
  switch i64 %code, label %fine [ i64 0, label %constant i64 1, label %store i64 3, label %variable ]
constant:
  %as_stated = icmp eq i64 %size, %number
  br i1 %as_stated, label %fine, label %bad_size
store:
  %is_size = icmp ult i64 %size, <DIMENSIONS>
  br i1 %is_size, label %bind, label %no_size
bind:
  store i64 %size, ptr %slot
  br label %fine
variable:
  %bound = load i64, ptr %slot
  %as_bound = icmp eq i64 %size, %bound
  br i1 %as_bound, label %fine, label %bad_variable
fine:
  %next = add i64 %axis, 1
  br label %test
done:
  ret i32 0
bad_rank:
{refuse(RANK, context=_CONTEXT, expected=integer("%ndim"), found=integer("%rank"), shape=dims("%value"))}
bad_size:
{refuse(IS, context=_CONTEXT, place=_AXIS, found=integer("%size"), expected=integer("%number"))}
no_size:
{refuse(NO_SIZE, context=_CONTEXT, place=_AXIS, found=integer("%size"))}
bad_variable:
{refuse(IS, context=_CONTEXT, place=_AXIS, found=integer("%size"), expected=slot("%number"))}
}}
define internal i32 @<L>match_number(ptr %value, ptr %code_any, ptr %slots, ptr %notes, ptr %context) nounwind {{
entry:
  ; a scalar by a code and a number
  %text = alloca [1040 x i8], align 8
  store i64 0, ptr %text
  %bits_at = getelementptr i8, ptr %value, i64 8
  %bits = load i64, ptr %bits_at
  %code_at = getelementptr i8, ptr %code_any, i64 8
  %code = load i64, ptr %code_at
  %other_at = getelementptr i8, ptr %code_any, i64 24
  %other = load i64, ptr %other_at
  %slot = getelementptr i64, ptr %slots, i64 %other
  switch i64 %code, label %done [ i64 0, label %compare i64 3, label %look i64 4, label %no_size ]
look:
  %bound = load i64, ptr %slot
  br label %compare
compare:
  %expected = phi i64 [ %other, %entry ], [ %bound, %look ]
  %kind = load i32, ptr %value
  %is_float = icmp eq i32 %kind, 3
  br i1 %is_float, label %floats, label %integers
floats:
  %a = bitcast i64 %bits to double
  %b = bitcast i64 %expected to double
  %equal = fcmp oeq double %a, %b
  %a_nan = fcmp uno double %a, %a
  %b_nan = fcmp uno double %b, %b
  %nans = and i1 %a_nan, %b_nan
  %same = or i1 %equal, %nans
  br i1 %same, label %done, label %bad_float
integers:
  %is = icmp eq i64 %bits, %expected
  br i1 %is, label %done, label %bad_integer
done:
  ret i32 0
bad_float:
{refuse(IS, context=_CONTEXT, place="the value", found=floating("%a"), expected=floating("%b"))}
bad_integer:
  %named = icmp eq i64 %code, 3
  br i1 %named, label %bad_variable, label %bad_constant
bad_variable:
{refuse(IS, context=_CONTEXT, place="the value", found=integer("%bits"), expected=slot("%other"))}
bad_constant:
{refuse(IS, context=_CONTEXT, place="the value", found=integer("%bits"), expected=integer("%expected"))}
no_size:
{refuse(NO_SIZE, context=_CONTEXT, place="the value", found=integer("%bits"))}
}}
define internal i64 @<L>size(ptr %codes, i64 %axis, ptr %slots) nounwind {{
  %pair = shl i64 %axis, 1
  %code_any = getelementptr <ANY>, ptr %codes, i64 %pair
  %code_at = getelementptr i8, ptr %code_any, i64 8
  %code = load i64, ptr %code_at
  %number_at = getelementptr i8, ptr %code_any, i64 24
  %number = load i64, ptr %number_at
  %loads = icmp eq i64 %code, 1
  br i1 %loads, label %load, label %constant
load:
  %slot = getelementptr i64, ptr %slots, i64 %number
  %bound = load i64, ptr %slot
  ret i64 %bound
constant:
  ret i64 %number
}}
define internal i32 @<L>sizes(ptr %codes, i64 %ndim, ptr %slots) nounwind {{
entry:
  ; sizes that are none, by pairs of a code and a number: their error
  %text = alloca [1040 x i8], align 8
  store i64 0, ptr %text
  br label %test
test:
  %axis = phi i64 [ 0, %entry ], [ %next, %one ]
  %least = phi i64 [ 0, %entry ], [ %less, %one ]
  %counted = icmp eq i64 %axis, %ndim
  br i1 %counted, label %begin, label %one
one:
  %dim = call i64 @<L>size(ptr %codes, i64 %axis, ptr %slots)
  %less = call i64 @llvm.smin.i64(i64 %least, i64 %dim)
  %next = add i64 %axis, 1
  br label %test
begin:
  %negative = icmp slt i64 %least, 0
  %why = select i1 %negative, ptr <"{NEGATIVE}">, ptr <"{TOO_LARGE}">
  call void @<L>put(ptr %text, ptr <"{_BEFORE}">)
  call void @<L>put(ptr %text, ptr %why)
  call void @<L>put(ptr %text, ptr <"{_BETWEEN}(">)
  br label %show
show:
  %k = phi i64 [ 0, %begin ], [ %k_next, %size ]
  %shown = icmp eq i64 %k, %ndim
  br i1 %shown, label %done, label %look
look:
  %first = icmp eq i64 %k, 0
  br i1 %first, label %size, label %comma
comma:
  call void @<L>put(ptr %text, ptr <", ">)
  br label %size
size:
  %value = call i64 @<L>size(ptr %codes, i64 %k, ptr %slots)
  call void @<L>put_int(ptr %text, i64 %value)
  %k_next = add i64 %k, 1
  br label %show
done:
  %single = icmp eq i64 %ndim, 1
  %close = select i1 %single, ptr <",)">, ptr <")">
{fail("VALUE_ERROR", ("put", "ptr %close"))}
}}
"""

_ON_HEAP: Final = """
  %behind_slots = getelementptr <ANY>, ptr %args, i64 5
  %slots = inttoptr i64 %p2 to ptr
  %makes = icmp eq i64 %p1, 0
  br i1 %makes, label %shape, label %named
shape:
  %codes0 = getelementptr <ANY>, ptr %args, i64 6
  %status0 = call i32 @<L>sizes(ptr %codes0, i64 %p5, ptr %slots)
  ret i32 %status0
named:
  %length = alloca i64, align 8
  %name = call ptr @<L>string(ptr %a0, ptr %length)
  %different = call i32 @strcmp(ptr %name, ptr <"vm.builtin.match_shape">)
  %dims = icmp eq i32 %different, 0
  %codes6 = getelementptr <ANY>, ptr %args, i64 6
  %codes7 = getelementptr <ANY>, ptr %args, i64 7
  br i1 %dims, label %match, label %number
match:
  %status1 = call i32 @<L>match(ptr %behind_slots, i64 %p6, ptr %codes7, ptr %slots, ptr %a4, ptr %context)
  ret i32 %status1
number:
  %status2 = call i32 @<L>match_number(ptr %behind_slots, ptr %codes6, ptr %slots, ptr %a4, ptr %context)
  ret i32 %status2
"""

_MATCH_SHAPE: Final = """
  %codes = getelementptr <ANY>, ptr %args, i64 3
  %status = call i32 @<L>match(ptr %a0, i64 %p2, ptr %codes, ptr null, ptr %a0, ptr %context)
  ret i32 %status
"""

_MATCH_PRIM: Final = """
  %codes = getelementptr <ANY>, ptr %args, i64 2
  %status = call i32 @<L>match_number(ptr %a0, ptr %codes, ptr null, ptr %a0, ptr %context)
  ret i32 %status
"""

_MAKE_SHAPE: Final = """
  %codes = getelementptr <ANY>, ptr %args, i64 2
  %status = call i32 @<L>sizes(ptr %codes, i64 %p1, ptr null)
  ret i32 %status
"""

_MATCH_SHAPE_VALUE: Final = f"""
  %rank_a = call i32 @<P>rank(ptr %a0)
  %rank_b = call i32 @<P>rank(ptr %a1)
  %n = sext i32 %rank_a to i64
  %ranks = icmp eq i32 %rank_a, %rank_b
  br i1 %ranks, label %test, label %bad
test:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %done, label %one
one:
  %size_a = call i64 @<P>dim(ptr %a0, i64 %i)
  %size_b = call i64 @<P>dim(ptr %a1, i64 %i)
  %same = icmp eq i64 %size_a, %size_b
  %next = add i64 %i, 1
  br i1 %same, label %test, label %bad
done:
  ret i32 0
bad:
{refuse(IS, context=string("%a2"), place="the shape", found=dims("%a0"), expected=dims("%a1"))}
"""

CHECKS: Final = "\n".join(
    [
        _MATCH.strip(),
        builtin("check_tensor", 4, _CHECK_TENSOR),
        builtin("check_shape", 3, _CHECK_SHAPE),
        builtin("check_prim", 3, _CHECK_PRIM),
        builtin("check_tuple", 3, _CHECK_TUPLE),
        builtin("on_heap", 7, _ON_HEAP, last=True),
        builtin("match_shape", 3, _MATCH_SHAPE, last=True),
        builtin("match_prim", 2, _MATCH_PRIM, last=True),
        builtin("match_shape_value", 3, _MATCH_SHAPE_VALUE),
        builtin("make_shape", 2, _MAKE_SHAPE),
    ]
)
