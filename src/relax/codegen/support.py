"""Support code of compiled kernels: raising an error, and checking a tensor argument.

It is one object for all kernels, which the loader links to them. Everything outside is found by the
loader: ``snprintf``, ``aligned_alloc``, ``madvise``, ``free`` and libm in the C library, errors in tvm-ffi.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ..runtime.messages import ARGUMENT_DTYPE, ARGUMENT_RANK, DEVICE, KIND
from ..runtime.tensor import LARGE_PAGE
from ..tir.sizes import LARGEST_PRODUCT
from .builder import ModuleBuilder, Operand
from .types import DTYPE_FORMATS

MADV_HUGEPAGE: Final = 14
"""The advice, by its number in Linux."""

#: layouts of tvm-ffi's and DLPack's C headers
ANY_TYPE = "{ i32, i32, i64 }"
TENSOR_TYPE = "{ ptr, i32, i32, i32, i8, i8, i16, ptr, ptr, i64 }"
OBJECT_HEADER = 24

MESSAGES: Final = "@relax.messages"
"""The messages of a kernel, which the loader binds."""

#: TVMFFITypeIndex
NONE, INT, BOOL, FLOAT, POINTER, TENSOR_POINTER, TENSOR = 0, 1, 2, 3, 4, 7, 70

#: how messages call the kinds of arguments, by type index
_KINDS = {
    0: "None", 1: "an int", 2: "a bool", 3: "a float", 4: "a pointer", 5: "a dtype", 6: "a device", 7: "a tensor",
    8: "a string", 9: "bytes", 11: "a string", 12: "bytes", 65: "a string", 66: "bytes", 67: "an error",
    68: "a function", 69: "a shape", 70: "a tensor", 71: "a tuple", 72: "a dict", 73: "a module",
}  # fmt: skip

# None of these is worth optimising: they are short, and would take longer to compile than the kernels.

RAISE = """define hidden void @relax.raise(ptr %messages, i32 %index, i64 %a, i64 %b, i64 %c, i64 %d)
    cold noinline optnone {
  %double = mul i32 %index, 2
  %kind = call ptr @relax.message(ptr %messages, i32 %double)
  %next = add i32 %double, 1
  %format = call ptr @relax.message(ptr %messages, i32 %next)
  call void @relax.set_error(ptr %kind, ptr %format, i64 %a, i64 %b, i64 %c, i64 %d)
  ret void
}
define internal void @relax.set_error(ptr %kind, ptr %format, i64 %a, i64 %b, i64 %c, i64 %d)
    cold noinline optnone {
  %text = alloca [1024 x i8], align 16
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %text, i64 1024, ptr %format, i64 %a, i64 %b, i64 %c, i64 %d)
  call void @TVMFFIErrorSetRaisedFromCStr(ptr %kind, ptr %text)
  ret void
}
define internal ptr @relax.message(ptr %messages, i32 %count) cold noinline optnone {
entry:
  br label %test
test:
  %at = phi ptr [ %messages, %entry ], [ %behind, %next ]
  %left = phi i32 [ %count, %entry ], [ %fewer, %next ]
  %found = icmp eq i32 %left, 0
  br i1 %found, label %done, label %next
next:
  %length = call i64 @strlen(ptr %at)
  %size = add i64 %length, 1
  %behind = getelementptr i8, ptr %at, i64 %size
  %fewer = sub i32 %left, 1
  br label %test
done:
  ret ptr %at
}
define internal i64 @relax.who(ptr %messages, i32 %index) cold noinline optnone {
  %double = mul i32 %index, 2
  %name = call ptr @relax.message(ptr %messages, i32 %double)
  %address = ptrtoint ptr %name to i64
  ret i64 %address
}"""

# Large pages are asked for where the memory fills some: there are 512 times fewer page faults when it is touched first
# (relax.runtime.tensor). It need not begin with one: the C library keeps memory that is freed only if it was asked for
# without much of an alignment. A system without large pages refuses the advice, and may.
RESERVE = f"""define hidden noalias ptr @relax.reserve(i64 %bytes) noinline optnone {{
entry:
  %found = call ptr @aligned_alloc(i64 64, i64 %bytes)
  %there = icmp ne ptr %found, null
  %large = icmp uge i64 %bytes, {LARGE_PAGE}
  %fit = and i1 %there, %large
  br i1 %fit, label %measure, label %done
measure:
  %start = ptrtoint ptr %found to i64
  %end = add i64 %start, %bytes
  %behind = add i64 %start, {LARGE_PAGE - 1}
  %first = and i64 %behind, -{LARGE_PAGE}
  %last = and i64 %end, -{LARGE_PAGE}
  %filled = icmp ult i64 %first, %last
  br i1 %filled, label %advise, label %done
advise:
  %pages = inttoptr i64 %first to ptr
  %size = sub i64 %last, %first
  %answer = call i32 @madvise(ptr %pages, i64 %size, i32 {MADV_HUGEPAGE})
  br label %done
done:
  ret ptr %found
}}"""

KIND_NAME = """define hidden ptr @relax.kind_name(i32 %kind) cold noinline optnone {{
  %known = icmp ult i32 %kind, {count}
  %index = select i1 %known, i32 %kind, i32 10
  %wide = zext i32 %index to i64
  %place = getelementptr ptr, ptr {table}, i64 %wide
  %name = load ptr, ptr %place
  ret ptr %name
}}"""

# Checks what all tensor parameters share: kind, device, dtype, rank; compactness unless %strided. The result is the
# DLTensor, or null with the error set. The message of that number has the argument's name for its kind.
# Elements of 2 and 4 bits are padded to a byte, which their strides show (relax.runtime.dtypes).
CHECK_TENSOR = """define hidden ptr @relax.tensor(ptr %any, ptr %messages, i32 %index, i32 %dtype, i32 %ndim,
    i32 %strided) noinline optnone {{
entry:
  %shown = alloca [64 x i8], align 16
  %wanted = alloca [64 x i8], align 16
  %kind = load i32, ptr %any
  %payload = getelementptr i8, ptr %any, i64 8
  %object = load ptr, ptr %payload
  %is_pointer = icmp eq i32 %kind, {pointer}
  %is_object = icmp eq i32 %kind, {object}
  %inside = getelementptr i8, ptr %object, i64 {header}
  %t = select i1 %is_pointer, ptr %object, ptr %inside
  %is_tensor = or i1 %is_pointer, %is_object
  br i1 %is_tensor, label %device, label %bad_kind
device:
  %device_at = getelementptr {tensor}, ptr %t, i32 0, i32 1
  %device_type = load i32, ptr %device_at
  %on_cpu = icmp eq i32 %device_type, 1
  br i1 %on_cpu, label %type, label %bad_device
type:
  %type_at = getelementptr {tensor}, ptr %t, i32 0, i32 4
  %found_type = load i32, ptr %type_at, align 4
  %type_fits = icmp eq i32 %found_type, %dtype
  br i1 %type_fits, label %rank, label %bad_type
rank:
  %rank_at = getelementptr {tensor}, ptr %t, i32 0, i32 3
  %found_rank = load i32, ptr %rank_at
  %rank_fits = icmp eq i32 %found_rank, %ndim
  br i1 %rank_fits, label %data, label %bad_rank
data:
  %shape_at = getelementptr {tensor}, ptr %t, i32 0, i32 7
  %shape = load ptr, ptr %shape_at
  %strides_at = getelementptr {tensor}, ptr %t, i32 0, i32 8
  %strides = load ptr, ptr %strides_at
  %implicit = icmp eq ptr %strides, null
  %unchecked = icmp ne i32 %strided, 0
  %skip = or i1 %implicit, %unchecked
  %n = sext i32 %ndim to i64
  %type_bits = lshr i32 %dtype, 8
  %type_bits8 = and i32 %type_bits, 255
  %whole_bits = call i32 @llvm.umin.i32(i32 %type_bits8, i32 8)
  %unit32 = udiv i32 8, %whole_bits
  %first = zext i32 %unit32 to i64
  %padded = icmp ugt i32 %unit32, 1
  %packed = and i1 %padded, %implicit
  br i1 %packed, label %bad_packing, label %compact
compact:
  br i1 %skip, label %empty, label %strides_loop
strides_loop:
  %i = phi i64 [ %n, %compact ], [ %k, %strides_next ]
  %expected = phi i64 [ %first, %compact ], [ %next_expected, %strides_next ]
  %more = icmp sgt i64 %i, 0
  br i1 %more, label %strides_check, label %empty
strides_check:
  %k = sub nsw i64 %i, 1
  %size_at = getelementptr i64, ptr %shape, i64 %k
  %size = load i64, ptr %size_at
  %stride_at = getelementptr i64, ptr %strides, i64 %k
  %stride = load i64, ptr %stride_at
  %fits = icmp eq i64 %stride, %expected
  %unit = icmp eq i64 %size, 1
  %fine = or i1 %fits, %unit
  %next_expected = mul i64 %expected, %size
  br i1 %fine, label %strides_next, label %maybe_empty
strides_next:
  br label %strides_loop
maybe_empty:
  ; strides of a tensor without elements mean nothing
  %j = phi i64 [ 0, %strides_check ], [ %j1, %maybe_empty_next ]
  %past = icmp eq i64 %j, %n
  br i1 %past, label %bad_stride, label %maybe_empty_check
maybe_empty_check:
  %any_size_at = getelementptr i64, ptr %shape, i64 %j
  %any_size = load i64, ptr %any_size_at
  %zero = icmp eq i64 %any_size, 0
  br i1 %zero, label %empty, label %maybe_empty_next
maybe_empty_next:
  %j1 = add nsw i64 %j, 1
  br label %maybe_empty
empty:
  %data_at = getelementptr {tensor}, ptr %t, i32 0, i32 0
  %address = load i64, ptr %data_at
  %offset_at = getelementptr {tensor}, ptr %t, i32 0, i32 9
  %offset = load i64, ptr %offset_at
  %start = add i64 %address, %offset
  %bits = lshr i32 %dtype, 8
  %bits8 = and i32 %bits, 255
  %bits_up = add i32 %bits8, 7
  %bytes = lshr i32 %bits_up, 3
  %mask32 = sub i32 %bytes, 1
  %mask = zext i32 %mask32 to i64
  %low = and i64 %start, %mask
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %bytes_of_item, label %bad_alignment
bytes_of_item:
  ; the dimensions other than 0 have a product that leaves room to compute offsets
  %lanes = lshr i32 %dtype, 16
  %item32 = mul i32 %bytes, %lanes
  %item = zext i32 %item32 to i64
  br label %product_loop
product_loop:
  %axis = phi i64 [ 0, %bytes_of_item ], [ %next_axis, %product_next ]
  %product = phi i64 [ %item, %bytes_of_item ], [ %next_product, %product_next ]
  %counted = icmp eq i64 %axis, %n
  br i1 %counted, label %done, label %product_next
product_next:
  %extent_at = getelementptr i64, ptr %shape, i64 %axis
  %extent = load i64, ptr %extent_at
  %factor = call i64 @llvm.umax.i64(i64 %extent, i64 1)
  %pair = call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 %product, i64 %factor)
  %next_product = extractvalue {{ i64, i1 }} %pair, 0
  %overflows = extractvalue {{ i64, i1 }} %pair, 1
  %large = icmp ugt i64 %next_product, {largest}
  %too_large = or i1 %overflows, %large
  %next_axis = add nsw i64 %axis, 1
  br i1 %too_large, label %bad_size, label %product_loop
done:
  ret ptr %t
bad_kind:
  %kind_text = call ptr @relax.kind_name(i32 %kind)
  %who_i = call i64 @relax.who(ptr %messages, i32 %index)
  %kind_i = ptrtoint ptr %kind_text to i64
  call void @relax.set_error(ptr {type_error}, ptr {kind_format}, i64 %who_i, i64 %kind_i, i64 0, i64 0)
  ret ptr null
bad_device:
  %who_d = call i64 @relax.who(ptr %messages, i32 %index)
  %device_i = sext i32 %device_type to i64
  call void @relax.set_error(ptr {value_error}, ptr {device_format}, i64 %who_d, i64 %device_i, i64 0, i64 0)
  ret ptr null
bad_type:
  %who_t = call i64 @relax.who(ptr %messages, i32 %index)
  call void @relax.dtype_name(ptr %shown, i32 %found_type)
  call void @relax.dtype_name(ptr %wanted, i32 %dtype)
  %shown_i = ptrtoint ptr %shown to i64
  %wanted_i = ptrtoint ptr %wanted to i64
  call void @relax.set_error(ptr {type_error}, ptr {type_format}, i64 %who_t, i64 %shown_i, i64 %wanted_i, i64 0)
  ret ptr null
bad_rank:
  %who_r = call i64 @relax.who(ptr %messages, i32 %index)
  %rank_i = sext i32 %found_rank to i64
  %ndim_i = sext i32 %ndim to i64
  call void @relax.set_error(ptr {value_error}, ptr {rank_format}, i64 %who_r, i64 %rank_i, i64 %ndim_i, i64 0)
  ret ptr null
bad_stride:
  %who_s = call i64 @relax.who(ptr %messages, i32 %index)
  call void @relax.set_error(ptr {value_error}, ptr {stride_format}, i64 %who_s, i64 %k, i64 %stride, i64 %expected)
  ret ptr null
bad_packing:
  %who_b = call i64 @relax.who(ptr %messages, i32 %index)
  call void @relax.set_error(ptr {value_error}, ptr {packing_format}, i64 %who_b, i64 0, i64 0, i64 0)
  ret ptr null
bad_size:
  %who_p = call i64 @relax.who(ptr %messages, i32 %index)
  call void @relax.set_error(ptr {value_error}, ptr {size_format}, i64 %who_p, i64 0, i64 0, i64 0)
  ret ptr null
bad_alignment:
  %who_a = call i64 @relax.who(ptr %messages, i32 %index)
  %bytes_i = zext i32 %bytes to i64
  call void @relax.set_error(ptr {value_error}, ptr {alignment_format}, i64 %who_a, i64 %bytes_i, i64 0, i64 0)
  ret ptr null
}}"""

DTYPE_NAME = """define internal void @relax.dtype_name(ptr %text, i32 %dtype) cold noinline optnone {{
  %code = and i32 %dtype, 255
  %bits = lshr i32 %dtype, 8
  %bits8 = and i32 %bits, 255
  %known = icmp ult i32 %code, {count}
  %index = select i1 %known, i32 %code, i32 3
  %wide = zext i32 %index to i64
  %place = getelementptr ptr, ptr {table}, i64 %wide
  %format = load ptr, ptr %place
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %text, i64 64, ptr %format, i32 %bits8)
  ret void
}}"""


# The numbers of tensors that were checked before: these are on the way of every call, and worth optimising.
NUMBERS = """define hidden ptr @relax.data(ptr %t) nounwind {{
  %data_at = getelementptr {tensor}, ptr %t, i32 0, i32 0
  %data = load ptr, ptr %data_at
  %offset_at = getelementptr {tensor}, ptr %t, i32 0, i32 9
  %offset = load i64, ptr %offset_at
  %start = getelementptr i8, ptr %data, i64 %offset
  ret ptr %start
}}
define hidden i1 @relax.shape(ptr %t, i64 %first, i64 %count, ptr %expected, ptr %messages, i32 %index) nounwind {{
entry:
  %shape_at = getelementptr {tensor}, ptr %t, i32 0, i32 7
  %whole = load ptr, ptr %shape_at
  %shape = getelementptr i64, ptr %whole, i64 %first
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %fits ]
  %end = icmp eq i64 %i, %count
  br i1 %end, label %fine, label %compare
compare:
  %size_at = getelementptr i64, ptr %shape, i64 %i
  %size = load i64, ptr %size_at
  %wanted_at = getelementptr i64, ptr %expected, i64 %i
  %wanted = load i64, ptr %wanted_at
  %same = icmp eq i64 %size, %wanted
  br i1 %same, label %fits, label %bad
fits:
  %next = add nuw i64 %i, 1
  br label %test
fine:
  ret i1 true
bad:
  %past = trunc i64 %i to i32
  %message = add i32 %index, %past
  call void @relax.raise(ptr %messages, i32 %message, i64 %size, i64 0, i64 0, i64 0)
  ret i1 false
}}
define internal {{ i64, i64 }} @relax.span(ptr %t, i1 %strided) nounwind {{
entry:
  %start_p = call ptr @relax.data(ptr %t)
  %start = ptrtoint ptr %start_p to i64
  %bits_at = getelementptr {tensor}, ptr %t, i32 0, i32 5
  %bits8 = load i8, ptr %bits_at
  %lanes_at = getelementptr {tensor}, ptr %t, i32 0, i32 6
  %lanes16 = load i16, ptr %lanes_at
  %bits = zext i8 %bits8 to i64
  %bits_up = add i64 %bits, 7
  %bytes = lshr i64 %bits_up, 3
  %lanes = zext i16 %lanes16 to i64
  %item = mul i64 %bytes, %lanes
  %ndim_at = getelementptr {tensor}, ptr %t, i32 0, i32 3
  %ndim32 = load i32, ptr %ndim_at
  %ndim = zext i32 %ndim32 to i64
  %shape_at = getelementptr {tensor}, ptr %t, i32 0, i32 7
  %shape = load ptr, ptr %shape_at
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %more ]
  %size = phi i64 [ %item, %entry ], [ %larger, %more ]
  %done = icmp eq i64 %i, %ndim
  br i1 %done, label %end, label %more
more:
  %extent_at = getelementptr i64, ptr %shape, i64 %i
  %extent = load i64, ptr %extent_at
  %one = call i64 @llvm.umin.i64(i64 %extent, i64 1)
  %factor = select i1 %strided, i64 %one, i64 %extent
  %larger = mul i64 %size, %factor
  %next = add nuw i64 %i, 1
  br label %test
end:
  %behind = add i64 %start, %size
  %from = insertvalue {{ i64, i64 }} poison, i64 %start, 0
  %span = insertvalue {{ i64, i64 }} %from, i64 %behind, 1
  ret {{ i64, i64 }} %span
}}
define hidden i1 @relax.apart(ptr %a, i1 %a_strided, ptr %b, i1 %b_strided) nounwind {{
  %x = call {{ i64, i64 }} @relax.span(ptr %a, i1 %a_strided)
  %y = call {{ i64, i64 }} @relax.span(ptr %b, i1 %b_strided)
  %x0 = extractvalue {{ i64, i64 }} %x, 0
  %x1 = extractvalue {{ i64, i64 }} %x, 1
  %y0 = extractvalue {{ i64, i64 }} %y, 0
  %y1 = extractvalue {{ i64, i64 }} %y, 1
  %start = call i64 @llvm.umax.i64(i64 %x0, i64 %y0)
  %end = call i64 @llvm.umin.i64(i64 %x1, i64 %y1)
  %apart = icmp uge i64 %start, %end
  ret i1 %apart
}}"""


@lru_cache(maxsize=1)
def support_text() -> str:
    """LLVM IR of the support code, without a target."""
    module = ModuleBuilder()
    module.declare("snprintf", "i32", "ptr, i64, ptr, ...")
    module.declare("strlen", "i64", "ptr")
    module.declare("TVMFFIErrorSetRaisedFromCStr", "void", "ptr, ptr")
    module.intrinsic("llvm.umax.i64", "i64", "i64", "i64")
    module.intrinsic("llvm.umin.i64", "i64", "i64", "i64")
    module.intrinsic("llvm.umin.i32", "i32", "i32", "i32")
    module.intrinsic("llvm.umul.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
    count = max(_KINDS) + 1
    kinds = [module.string(_KINDS.get(i, "an object")) for i in range(count)]
    formats = [module.string(text) for text in DTYPE_FORMATS]
    module.add_text(RAISE)
    module.declare("aligned_alloc", "ptr", "i64, i64")
    module.declare("madvise", "i32", "ptr, i64, i32")
    module.add_text(RESERVE)
    module.add_text(KIND_NAME.format(count=count, table=module.table("relax.kinds", "ptr", kinds)))
    module.add_text(DTYPE_NAME.format(count=len(formats), table=module.table("relax.dtypes", "ptr", formats)))
    module.add_text(
        CHECK_TENSOR.format(
            pointer=TENSOR_POINTER,
            object=TENSOR,
            header=OBJECT_HEADER,
            tensor=TENSOR_TYPE,
            type_error=module.string("TypeError"),
            value_error=module.string("ValueError"),
            kind_format=module.string(KIND.fill(context="%s", expected="a tensor", found="%s")),
            device_format=module.string(DEVICE.fill(context="%s", expected="cpu", found="device type %lld")),
            type_format=module.string(ARGUMENT_DTYPE.fill(context="%s", found="%s", expected="%s")),
            rank_format=module.string(ARGUMENT_RANK.fill(context="%s", found="%lld", expected="%lld")),
            stride_format=module.string(
                "%s: is not compact: the stride of dimension %lld is %lld, expected %lld"
            ),
            packing_format=module.string("%s: its elements are packed, expected one in a byte"),
            largest=LARGEST_PRODUCT,
            size_format=module.string("%s: its dimensions that are not 0 make more than 2**62 bytes"),
            alignment_format=module.string("%s: its data is not aligned to %lld bytes"),
        )
    )
    module.add_text(NUMBERS.format(tensor=TENSOR_TYPE))
    return module.text()


# ------------------------------------------------------------------------------- how kernels call it


def raise_error(module: ModuleBuilder, kind: str, text: str, arguments: Sequence[Operand]) -> str:
    """The call that sets an error: of a kind, with the message printf makes of a text and up to four integers."""
    function = module.support("relax.raise", "void", "ptr, i32, i64, i64, i64, i64")
    operands = [f"i64 {a}" for a in arguments] + ["i64 0"] * (4 - len(arguments))
    return f"call void {function}(ptr {MESSAGES}, i32 {module.message(kind, text)}, {', '.join(operands)})"


def kind_name(module: ModuleBuilder, kind: Operand) -> str:
    """The call that gives what messages call a value of the ABI, a C string."""
    return f"call ptr {module.support('relax.kind_name', 'ptr', 'i32')}(i32 {kind})"


def reserve(module: ModuleBuilder, size: Operand) -> str:
    """The call that gives a multiple of 64 bytes, aligned to 64, for `free` to take back; null if there is none."""
    function = module.support("relax.reserve", "noalias ptr", "i64")
    return f"call noalias align 64 ptr {function}(i64 {size}) nounwind willreturn"


def checked_tensor(
    module: ModuleBuilder, any_: Operand, who: str, dtype: int, ndim: int, strided: bool
) -> str:
    """The call that checks a tensor argument, which errors call `who`: its DLTensor, or null with the error set."""
    function = module.support("relax.tensor", "ptr", "ptr, ptr, i32, i32, i32, i32")
    return (
        f"call ptr {function}(ptr {any_}, ptr {MESSAGES}, i32 {module.message(who, '')}, i32 {dtype}, "
        f"i32 {ndim}, i32 {int(strided)})"
    )


def tensor_data(module: ModuleBuilder, tensor: Operand) -> str:
    """The call that gives the first element of a checked tensor."""
    return f"call ptr {module.support('relax.data', 'ptr', 'ptr')}(ptr {tensor})"


def has_shape(
    module: ModuleBuilder, tensor: Operand, first: int, expected: Sequence[int], texts: Sequence[str]
) -> str:
    """The call that compares dimensions with numbers: an i1, false with an error set.

    `first` is the axis of the first dimension; the texts are of one ValueError for each, about what was found.
    """
    function = module.support("relax.shape", "i1", "ptr, i64, i64, ptr, ptr, i32")
    name = "relax.sizes." + ".".join(map(str, expected))
    sizes = module.table(name, "i64", map(str, expected))
    return (
        f"call i1 {function}(ptr {tensor}, i64 {first}, i64 {len(expected)}, ptr {sizes}, "
        f"ptr {MESSAGES}, i32 {module.message_run('ValueError', texts)})"
    )


def tensors_apart(module: ModuleBuilder, a: Operand, a_strided: bool, b: Operand, b_strided: bool) -> str:
    """The call that says, as an i1, whether two tensors share no byte; of a strided one, its first element counts."""
    function = module.support("relax.apart", "i1", "ptr, i1, ptr, i1")
    return f"call i1 {function}(ptr {a}, i1 {int(a_strided)}, ptr {b}, i1 {int(b_strided)})"
