"""Native forms of the checks of values, and of matching sizes and scalars: the checks of `matching`, in packed form.

The messages are those of `relax.runtime.messages`. LLVM IR; `library` says what the names in angle brackets stand for.
"""

from __future__ import annotations

from typing import Final

from ...runtime.messages import NEGATIVE, NO_SHAPE, TOO_LARGE
from .library_writer import builtin, fail

_BEFORE, _BETWEEN = NO_SHAPE.text.removesuffix("{shape}").split("{what}")

_SIZES: Final = f"""
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


def _checked(check: str, context: int, other: str = "null") -> str:
    """The body of a builtin that makes a check; the argument of that number is the context."""
    operands = f"ptr %a0, ptr %a1, ptr null, ptr {other}, ptr null, ptr %a{context}"
    return f"  %status = call i32 @<L>refuse_{check}({operands})\n  ret i32 %status"


_ON_HEAP: Final = """
  ; (name, position of the heap, slots, their number, notes, arguments but for the heap …)
  %slots = inttoptr i64 %p2 to ptr
  %behind_heap = getelementptr <ANY>, ptr %args, i64 6
  %makes = icmp eq i64 %p1, 0
  br i1 %makes, label %shape, label %named
shape:
  %status0 = call i32 @<L>sizes(ptr %behind_heap, i64 %p5, ptr %slots)
  ret i32 %status0
named:
  %length = alloca i64, align 8
  %name = call ptr @<L>string(ptr %a0, ptr %length)
  %different = call i32 @strcmp(ptr %name, ptr <"vm.builtin.match_shape">)
  %dims = icmp eq i32 %different, 0
  br i1 %dims, label %match, label %number
match:
  %status1 = call i32 @<L>refuse_sizes(ptr %a5, ptr %behind_heap, ptr %slots, ptr null, ptr %a4, ptr %context)
  ret i32 %status1
number:
  %status2 = call i32 @<L>refuse_number(ptr %a5, ptr %behind_heap, ptr %slots, ptr null, ptr %a4, ptr %context)
  ret i32 %status2
"""

_MAKE_SHAPE: Final = """
  %codes = getelementptr <ANY>, ptr %args, i64 2
  %status = call i32 @<L>sizes(ptr %codes, i64 %p1, ptr null)
  ret i32 %status
"""

FORMS: Final = "\n".join(
    [
        _SIZES.strip(),
        builtin("check_tensor", 4, _checked("tensor", 3)),
        builtin("check_shape", 3, _checked("shape", 2)),
        builtin("check_prim", 3, _checked("scalar", 2)),
        builtin("check_tuple", 3, _checked("tuple", 2)),
        builtin("match_shape_value", 3, _checked("same_sizes", 2, "%a1")),
        builtin("make_shape", 2, _MAKE_SHAPE),
        builtin("on_heap", 6, _ON_HEAP, last=True),
    ]
)

__all__ = ["FORMS"]
