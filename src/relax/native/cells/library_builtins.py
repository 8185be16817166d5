"""Native forms of the builtins that allocate, copy and decompose values.

Compiled functions call them if their fast path declines. The messages are those of `relax.runtime`. LLVM IR; `library`
defines the placeholders in angle brackets.
"""

from __future__ import annotations

from typing import Final

from .library_writer import builtin, dims, fail, integer, kind


def _cell(name: str, arguments: str, allowed: str) -> str:
    """Call a maker of cells for the result; raise the error `allowed` if it declines."""
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

_ALLOC: Final = f"""
  %device = alloca <ANY>, align 8
  store i64 6, ptr %device
  %place = getelementptr i8, ptr %device, i64 8
  store i64 1, ptr %place
  %dtype = trunc i64 %p1 to i32
{_SHAPE.format(0)}
{
    _cell(
        "alloc",
        "ptr %device, i32 %dtype, i32 %ndim0, ptr %dims0",
        fail("MEMORY_ERROR", "out of memory: a tensor of shape ", dims("%a0"), " cannot be allocated"),
    )
}
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
{
    _cell(
        "alloc",
        "ptr %device, i32 67585, i32 1, ptr %size",
        fail("MEMORY_ERROR", "out of memory: a storage of ", integer("%bytes"), " bytes is asked for"),
    )
}
"""
"""A storage is a tensor of bytes: DLPack code 1, 8 bits, one lane."""

_RESHAPE: Final = f"""
{_SHAPE.format(1)}
{
    _cell(
        "reshape",
        "ptr %a0, i32 %ndim1, ptr %dims1",
        fail("VALUE_ERROR", "reshape: a tensor of shape ", dims("%a0"), " cannot become ", dims("%a1")),
    )
}
"""

_COPY: Final = _cell("copy", "ptr %a0", fail("MEMORY_ERROR", "out of memory: a tensor cannot be copied"))

_FIELD: Final = _cell("field", "ptr %a0, i64 %p1", fail("TYPE_ERROR", "there is no field ", integer("%p1"), " in ",
                                                         kind("%a0")))  # fmt: skip

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
{_cell("shape", "i32 %ndim, ptr %dims", fail("TYPE_ERROR", "shape_of: expected a tensor, found ", kind("%a0")))}
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
{fail("VALUE_ERROR", "expected a tensor on cpu with elements of whole bytes, found another one")}
bad_shape:
{fail("VALUE_ERROR", "a shape cannot have a negative or a larger dimension than there can be")}
bad_tuple:
{fail("VALUE_ERROR", "a tuple holds a tensor that is not compact; pass a compact copy")}
memory:
{fail("MEMORY_ERROR", "out of memory: a tensor cannot be copied")}
"""

BUILTINS: Final = "\n".join(
    [
        builtin("refuse", 0, _REFUSE),
        builtin("import", 1, _IMPORT),
        builtin("alloc_tensor", 2, _ALLOC),
        builtin("alloc_storage", 2, _STORAGE),
        builtin("reshape", 2, _RESHAPE),
        builtin("copy_tensor", 1, _COPY),
        builtin("shape_of", 1, _SHAPE_OF),
        builtin("tuple_getitem", 2, _FIELD),
    ]
)
