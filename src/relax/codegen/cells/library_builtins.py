"""Native forms of builtins: what the checks and allocations of compiled functions call in a library where they decline.

Each has the packed form. The messages are those of `relax.runtime.match` and its neighbours. LLVM IR; `library` says
what the names in angle brackets stand for.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from ...runtime.limits import DIMENSION_LIMIT

LOG_LIMIT: Final = DIMENSION_LIMIT.bit_length() - 1
_numbers = count()


def _builtin(name: str, arguments: int, body: str, last: bool = False) -> str:
    """A builtin: the addresses of its arguments are ``%a0``, …, their payloads ``%p0``, …; with `last`, that of the last
    argument is ``%context``.
    """
    lines = [f"define hidden i32 @<L>{name}(ptr %self, ptr %args, i32 %count, ptr %result) nounwind {{", "entry:"]
    lines.append("  %text = alloca [1040 x i8], align 8\n  store i64 0, ptr %text")
    for i in range(arguments):
        lines.append(f"  %a{i} = getelementptr <ANY>, ptr %args, i64 {i}")
        lines.append(f"  %at{i} = getelementptr i8, ptr %a{i}, i64 8\n  %p{i} = load i64, ptr %at{i}")
    if last:
        lines.append("  %behind = sub i32 %count, 1\n  %behind64 = sext i32 %behind to i64")
        lines.append("  %context = getelementptr <ANY>, ptr %args, i64 %behind64")
    return "\n".join([*lines, body.strip("\n"), "}"])


def _fail(kind: str, *parts: str | tuple[str, str]) -> str:
    """Raise an error and return. A part of its message is a text, or a function that writes one, and its operands."""
    lines: list[str] = []
    for part in parts:
        what, operands = ("put", f'ptr <"{part}">') if isinstance(part, str) else part
        lines.append(f"  call void @<L>{what}(ptr %text, {operands})")
    number = next(_numbers)
    lines.append(f"  %chars{number} = getelementptr i8, ptr %text, i64 8")
    lines.append(f"  call void @TVMFFIErrorSetRaisedFromCStr(ptr <{kind}>, ptr %chars{number})")
    return "\n".join([*lines, "  ret i32 -1"])


def _string(operand: str) -> tuple[str, str]:
    return "put_string", f"ptr {operand}"


def _kind(operand: str) -> tuple[str, str]:
    return "put_kind", f"ptr {operand}"


def _dims(operand: str) -> tuple[str, str]:
    return "put_dims", f"ptr {operand}"


def _int(operand: str) -> tuple[str, str]:
    return "put_int", f"i64 {operand}"


def _cell(name: str, arguments: str, allowed: str) -> str:
    """Have a function of cells make the result; fail as said if it declines."""
    return f"""
  %made = call i1 @<P>{name}(ptr %result, {arguments})
  br i1 %made, label %fine, label %declined
fine:
  ret i32 0
declined:
{allowed}
"""


#: the sizes of a shape in the argument of that number
_SHAPE: Final = """
  %held{0} = inttoptr i64 %p{0} to ptr
  %dims_at{0} = getelementptr i8, ptr %held{0}, i64 <HEADER>
  %dims{0} = load ptr, ptr %dims_at{0}
  %ndim_at{0} = getelementptr i8, ptr %held{0}, i64 32
  %wide{0} = load i64, ptr %ndim_at{0}
  %ndim{0} = trunc i64 %wide{0} to i32
"""

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
{_fail("TYPE_ERROR", _string("%a3"), ": expected a tensor, found ", _kind("%a0"))}
bad_rank:
{_fail("VALUE_ERROR", _string("%a3"), ": expected rank ", _int("%p1"), ", found rank ", _int("%rank"), " (shape ",
       _dims("%a0"), ")")}
bad_type:
{_fail("TYPE_ERROR", _string("%a3"), ": expected dtype ", ("put_dtype", "i32 %wanted"), ", found ",
       ("put_dtype", "i32 %dtype"))}
bad_device:
{_fail("VALUE_ERROR", _string("%a3"), ": expected a tensor on cpu, found one on another device")}
"""

_CHECK_SHAPE: Final = f"""
  %kind = load i32, ptr %a0
  %is_shape = icmp eq i32 %kind, 69
  br i1 %is_shape, label %bad_rank, label %bad_kind
bad_kind:
{_fail("TYPE_ERROR", _string("%a2"), ": expected a shape, found ", _kind("%a0"))}
bad_rank:
  %rank32 = call i32 @<P>rank(ptr %a0)
  %rank = sext i32 %rank32 to i64
{_fail("VALUE_ERROR", _string("%a2"), ": expected a shape of ", _int("%p1"), " dimensions, found ", _int("%rank"),
       " (shape ", _dims("%a0"), ")")}
"""

_CHECK_PRIM: Final = f"""
  %dtype = trunc i64 %p1 to i32
  %code = and i32 %dtype, 255
  %is_int = icmp eq i32 %code, 0
  %article = select i1 %is_int, ptr <": expected an ">, ptr <": expected a ">
{_fail("TYPE_ERROR", _string("%a2"), ("put", "ptr %article"), ("put_dtype", "i32 %dtype"), " value, found ",
       _kind("%a0"))}
"""

_CHECK_TUPLE: Final = f"""
  %kind = load i32, ptr %a0
  %is_tuple = icmp eq i32 %kind, 71
  %error = select i1 %is_tuple, ptr <VALUE_ERROR>, ptr <TYPE_ERROR>
{_fail("VALUE_ERROR", _string("%a2"), ": expected a tuple of ", _int("%p1"), ", found ", _kind("%a0"))
 .replace("ErrorSetRaisedFromCStr(ptr <VALUE_ERROR>", "ErrorSetRaisedFromCStr(ptr %error")}
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
{_fail("VALUE_ERROR", _string("%context"), ": expected rank ", _int("%ndim"), ", found rank ", _int("%rank"),
       " (shape ", _dims("%value"), ")")}
bad_size:
{_fail("VALUE_ERROR", _string("%context"), ": dimension ", _int("%axis"), " is ", _int("%size"), ", expected ",
       _int("%number"))}
no_size:
{_fail("VALUE_ERROR", _string("%context"), ": dimension ", _int("%axis"), " is ", _int("%size"),
       ", expected a size, ", ("put", "ptr <SIZE_RANGE>"))}
bad_variable:
{_fail("VALUE_ERROR", _string("%context"), ": dimension ", _int("%axis"), " is ", _int("%size"), ", expected ",
       ("put_expected", "ptr %notes, i64 %number, ptr %slots"))}
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
{_fail("VALUE_ERROR", _string("%context"), ": the value is ", ("put_float", "double %a"), ", expected ",
       ("put_float", "double %b"))}
bad_integer:
  %named = icmp eq i64 %code, 3
  br i1 %named, label %bad_variable, label %bad_constant
bad_variable:
{_fail("VALUE_ERROR", _string("%context"), ": the value is ", _int("%bits"), ", expected ",
       ("put_expected", "ptr %notes, i64 %other, ptr %slots"))}
bad_constant:
{_fail("VALUE_ERROR", _string("%context"), ": the value is ", _int("%bits"), ", expected ", _int("%expected"))}
no_size:
{_fail("VALUE_ERROR", _string("%context"), ": the value is ", _int("%bits"), ", expected a size, ",
       ("put", "ptr <SIZE_RANGE>"))}
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
  %why = select i1 %negative, ptr <"a negative dimension">, ptr <"a dimension of 2**{LOG_LIMIT} or more">
  call void @<L>put(ptr %text, ptr <"a shape cannot have ">)
  call void @<L>put(ptr %text, ptr %why)
  call void @<L>put(ptr %text, ptr <", as in (">)
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
{_fail("VALUE_ERROR", ("put", "ptr %close"))}
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
{_fail("VALUE_ERROR", _string("%a2"), ": the shape is ", _dims("%a0"), ", expected ", _dims("%a1"))}
"""

_ALLOC: Final = f"""
  %device = alloca <ANY>, align 8
  store i64 6, ptr %device
  %place = getelementptr i8, ptr %device, i64 8
  store i64 1, ptr %place
  %dtype = trunc i64 %p1 to i32
{_SHAPE.format(0)}
{_cell("alloc", "ptr %device, i32 %dtype, i32 %ndim0, ptr %dims0",
       _fail("MEMORY_ERROR", "out of memory: a tensor of shape ", _dims("%a0"), " cannot be allocated"))}
"""

_STORAGE: Final = f"""
  %device = alloca <ANY>, align 8
  %size = alloca i64, align 8
  store i64 6, ptr %device
  %place = getelementptr i8, ptr %device, i64 8
  store i64 1, ptr %place
  %dtype = trunc i64 %p1 to i32
  %bits_low = lshr i32 %dtype, 8
  %bits = and i32 %bits_low, 255
  %bits_up = add i32 %bits, 7
  %item32 = lshr i32 %bits_up, 3
  %item = zext i32 %item32 to i64
  %kind = load i32, ptr %a0
  %is_number = icmp eq i32 %kind, 1
  br i1 %is_number, label %number, label %sizes
number:
  %product = call {{ i64, i1 }} @llvm.smul.with.overflow.i64(i64 %p0, i64 %item)
  %total = extractvalue {{ i64, i1 }} %product, 0
  %overflows = extractvalue {{ i64, i1 }} %product, 1
  %counted = select i1 %overflows, i64 -1, i64 %total
  br label %allocate
sizes:
{_SHAPE.format(0)}
  %measured = call i64 @<P>bytes(i32 %dtype, i32 %ndim0, ptr %dims0)
  br label %allocate
allocate:
  %bytes = phi i64 [ %counted, %number ], [ %measured, %sizes ]
  store i64 %bytes, ptr %size
{_cell("alloc", "ptr %device, i32 67585, i32 1, ptr %size",
       _fail("MEMORY_ERROR", "out of memory: a storage of ", _int("%bytes"), " bytes is asked for"))}
"""
"""The storage is a tensor of bytes: code 1, 8 bits, one lane."""

_RESHAPE: Final = f"""
{_SHAPE.format(1)}
{_cell("reshape", "ptr %a0, i32 %ndim1, ptr %dims1",
       _fail("VALUE_ERROR", "reshape: a tensor of shape ", _dims("%a0"), " cannot become ", _dims("%a1")))}
"""

_COPY: Final = _cell("copy", "ptr %a0", _fail("MEMORY_ERROR", "out of memory: a tensor cannot be copied"))

_FIELD: Final = _cell("field", "ptr %a0, i64 %p1", _fail("TYPE_ERROR", "there is no field ", _int("%p1"), " in ",
                                                         _kind("%a0")))  # fmt: skip

_SHAPE_OF: Final = f"""
  %held = inttoptr i64 %p0 to ptr
  %ndim_at = getelementptr i8, ptr %held, i64 40
  %kind = load i32, ptr %a0
  %is_tensor = icmp eq i32 %kind, 70
  br i1 %is_tensor, label %tensor, label %declined
tensor:
  %ndim = load i32, ptr %ndim_at
  %dims_at = getelementptr i8, ptr %held, i64 48
  %dims = load ptr, ptr %dims_at
{_cell("shape", "i32 %ndim, ptr %dims", _fail("TYPE_ERROR", "shape_of: expected a tensor, found ", _kind("%a0")))}
"""

_REFUSE: Final = """
  %words = load ptr, ptr %self
  %at = getelementptr i8, ptr %self, i64 8
  %message = load ptr, ptr %at
  call void @TVMFFIErrorSetRaisedFromCStr(ptr %words, ptr %message)
  ret i32 -1
"""

_IMPORT: Final = f"""
  %kind = load i32, ptr %a0
  %object = inttoptr i64 %p0 to ptr
  %inside = getelementptr i8, ptr %object, i64 <HEADER>
  switch i32 %kind, label %other [ i32 7, label %tensor i32 70, label %tensor i32 69, label %bad_shape
    i32 71, label %bad_tuple i32 75, label %bad_tuple ]
other:
  %status = call i32 @TVMFFIAnyViewToOwnedAny(ptr %a0, ptr %result)
  ret i32 %status
tensor:
  ; a compact copy
  %lent = icmp eq i32 %kind, 7
  %t = select i1 %lent, ptr %object, ptr %inside
  %data = load ptr, ptr %t
  %device_at = getelementptr i8, ptr %t, i64 8
  %device = load i32, ptr %device_at
  %place = load i64, ptr %device_at
  %ndim_at = getelementptr i8, ptr %t, i64 16
  %ndim = load i32, ptr %ndim_at
  %dtype_at = getelementptr i8, ptr %t, i64 20
  %dtype = load i32, ptr %dtype_at
  %dims_at = getelementptr i8, ptr %t, i64 24
  %dims = load ptr, ptr %dims_at
  %strides_at = getelementptr i8, ptr %t, i64 32
  %strides = load ptr, ptr %strides_at
  %offset_at = getelementptr i8, ptr %t, i64 40
  %offset = load i64, ptr %offset_at
  %lanes = lshr i32 %dtype, 16
  %bits_low = lshr i32 %dtype, 8
  %bits = and i32 %bits_low, 255
  %on_cpu = icmp eq i32 %device, 1
  %single = icmp eq i32 %lanes, 1
  %whole = icmp uge i32 %bits, 8
  %b1 = and i1 %on_cpu, %single
  %b2 = and i1 %b1, %whole
  br i1 %b2, label %measure, label %bad_tensor
measure:
  %bytes = call i64 @<P>bytes(i32 %dtype, i32 %ndim, ptr %dims)
  %sized = icmp sge i64 %bytes, 0
  br i1 %sized, label %make, label %bad_shape
make:
  %fresh = call ptr @<P>tensor(i64 %place, i32 %dtype, i32 %ndim, ptr %dims, ptr null, i64 %bytes)
  %none = icmp eq ptr %fresh, null
  br i1 %none, label %memory, label %fill
fill:
  %to_at = getelementptr i8, ptr %fresh, i64 <HEADER>
  %to = load ptr, ptr %to_at
  %from = getelementptr i8, ptr %data, i64 %offset
  %item32 = lshr i32 %bits, 3
  %item = zext i32 %item32 to i64
  %total = udiv i64 %bytes, %item
  %n = sext i32 %ndim to i64
  br label %elements
elements:
  %i = phi i64 [ 0, %fill ], [ %i_next, %copy ]
  %last = icmp eq i64 %i, %total
  br i1 %last, label %done, label %axes
axes:
  %k = phi i64 [ %n, %elements ], [ %axis, %step ]
  %rest = phi i64 [ %i, %elements ], [ %rest_next, %step ]
  %compact = phi i64 [ 1, %elements ], [ %compact_next, %step ]
  %at = phi i64 [ 0, %elements ], [ %at_next, %step ]
  %more = icmp sgt i64 %k, 0
  br i1 %more, label %look, label %copy
look:
  %axis = sub i64 %k, 1
  %dim_at = getelementptr i64, ptr %dims, i64 %axis
  %dim = load i64, ptr %dim_at
  %implicit = icmp eq ptr %strides, null
  br i1 %implicit, label %step, label %stated
stated:
  %stride_at = getelementptr i64, ptr %strides, i64 %axis
  %own_stride = load i64, ptr %stride_at
  br label %step
step:
  %stride = phi i64 [ %compact, %look ], [ %own_stride, %stated ]
  %index = urem i64 %rest, %dim
  %rest_next = udiv i64 %rest, %dim
  %moved = mul i64 %index, %stride
  %at_next = add i64 %at, %moved
  %compact_next = mul i64 %compact, %dim
  br label %axes
copy:
  %byte = mul i64 %at, %item
  %source = getelementptr i8, ptr %from, i64 %byte
  %byte_to = mul i64 %i, %item
  %target = getelementptr i8, ptr %to, i64 %byte_to
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %item, i1 false)
  %i_next = add i64 %i, 1
  br label %elements
done:
  call void @<P>own(ptr %result, ptr %fresh, i32 70)
  ret i32 0
bad_tensor:
{_fail("VALUE_ERROR", "expected a tensor on cpu with elements of whole bytes, found another one")}
bad_shape:
{_fail("VALUE_ERROR", "a shape cannot have a negative or a larger dimension than there can be")}
bad_tuple:
{_fail("VALUE_ERROR", "a tuple holds a tensor that is not compact; pass a compact copy")}
memory:
{_fail("MEMORY_ERROR", "out of memory: a tensor cannot be copied")}
"""

BUILTINS: Final = "\n".join(
    [
        _MATCH.strip(),
        _builtin("refuse", 0, _REFUSE),
        _builtin("import", 1, _IMPORT),
        _builtin("check_tensor", 4, _CHECK_TENSOR),
        _builtin("check_shape", 3, _CHECK_SHAPE),
        _builtin("check_prim", 3, _CHECK_PRIM),
        _builtin("check_tuple", 3, _CHECK_TUPLE),
        _builtin("on_heap", 7, _ON_HEAP, last=True),
        _builtin("match_shape", 3, _MATCH_SHAPE, last=True),
        _builtin("match_prim", 2, _MATCH_PRIM, last=True),
        _builtin("match_shape_value", 3, _MATCH_SHAPE_VALUE),
        _builtin("make_shape", 2, _MAKE_SHAPE),
        _builtin("alloc_tensor", 2, _ALLOC),
        _builtin("alloc_storage", 2, _STORAGE),
        _builtin("reshape", 2, _RESHAPE),
        _builtin("copy_tensor", 1, _COPY),
        _builtin("shape_of", 1, _SHAPE_OF),
        _builtin("tuple_getitem", 2, _FIELD),
    ]
)
