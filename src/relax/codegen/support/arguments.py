"""Support code of kernels: checks of all arguments of a call, each by itself, and of overlaps between tensors.

The table of the parameters and the words are described in `relax.native.argument_checks`.
"""

from __future__ import annotations

from ...native import ffi_layouts as ffi
from ...native.argument_checks import MEMORY_WORDS
from ...runtime.limits import DIMENSION_LIMIT
from ...runtime.messages import (
    ARGUMENT_DTYPE,
    ARGUMENT_RANK,
    DEVICE,
    IS,
    KIND,
    NO_NUMBER,
    NO_ROOM,
    NO_SIZE,
    NOT_ALIGNED,
    NOT_COMPACT,
    PACKED,
    Message,
)
from ...script import tir as T
from ...tir.sizes import LARGEST_PRODUCT
from .c import address, is_size, u64, udiv
from .errors import dtype_name, kind_name, raise_error, set_error, who

Any = T.struct("TVMFFIAny")
Tensor = T.struct("DLTensor")
Object = T.struct("TVMFFIObject")
Row = T.struct("ArgumentRow")

internal = T.prim_func(prefix="relax.", linkage="internal", attributes="nounwind")
hidden = T.prim_func(prefix="relax.", linkage="hidden", attributes="nounwind")


def texts(message: Message, **fields: str) -> tuple[str, str]:
    """Return the kind and the printf format of a message about an argument.

    The arguments of printf are the argument's name, then the numbers passed to `refuse`. `fields` are printf
    conversions, ``%lld`` by default.
    """
    number = "%lld"
    shown = {"place": f"dimension {number}", "found": number, "expected": number, **fields}
    return message.printf(context="%s", **shown)


@internal(attributes="cold noinline nounwind")
def refuse(
    kind: T.handle, format: T.handle, messages: T.handle, row: Row, a: T.int64, b: T.int64, c: T.int64
) -> T.bool:
    """Raise the error of an argument and return false."""
    set_error(kind, format, who(messages, T.int32(row.name)), a, b, c)
    return False


@internal
def as_double(value: T.int64, bits: T.int64) -> T.float64:
    """Convert an integer to the double that rounds to the nearest value of a float of `bits`.

    Beyond 2^53 the integer is rounded to odd with at least 43 bits for narrower floats, so that rounding again is
    correct.
    """
    if bits == 64 or u64(value + (1 << 53)) <= u64(2 << 53):
        return T.float64(value)
    last = value & 2047
    return T.float64((value ^ last) | T.Select(last != 0, T.int64(2048), T.int64(0)))


@internal
def scalar(any: Any, messages: T.handle, row: Row, word: T.handle) -> T.bool:
    """Check a scalar against its dtype, and write its word. An integer for a float is rounded once, to that dtype."""
    text = T.alloc_buffer((64,), "uint8", scope="local")
    words = T.decl_buffer((1,), "int64", data=word)
    value, code, bits = any.value, row.dtype & 255, (row.dtype >> 8) & 255
    if row.kind == ffi.INT:
        # All bits above those of the dtype are the same; of an unsigned one they are 0.
        above = value >> T.min(bits - T.Select(code == 0, T.int64(1), T.int64(0)), 63)
        if above != 0 and (code != 0 or above != -1):
            return refuse(*texts(NO_NUMBER, dtype="%s"), messages, row, value, dtype_name(text, T.int32(row.dtype)), 0)
    if row.open != 0 and not is_size(value, DIMENSION_LIMIT):
        return refuse(*texts(NO_SIZE, place="the value"), messages, row, value, 0, 0)
    words[0] = value
    if row.kind == ffi.FLOAT and (any.type_index == ffi.INT or any.type_index == ffi.BOOL):
        words[0] = T.reinterpret("int64", as_double(value, bits))
    return True


@internal
def strides_fit(
    tensor: Tensor, messages: T.handle, row: Row, unit: T.int64, is_empty: T.bool, words: T.handle
) -> T.bool:
    """Check that a tensor is compact, or read its strides. A tensor without elements counts as compact.

    Elements of 2 and 4 bits are padded to a byte, which their strides reflect (`relax.runtime.dtypes`).
    """
    ndim, has_strides = row.rank, row.open != 0
    stated = not T.isnullptr(tensor.strides)
    if not stated and unit != 1:
        return refuse(*texts(PACKED), messages, row, 0, 0, 0)
    shape = T.decl_buffer((ndim,), "int64", data=tensor.shape)
    strides = T.decl_buffer((ndim,), "int64", data=tensor.strides)
    shown = T.decl_buffer((ndim,), "int64", data=words)
    compact = T.alloc_var("int64", unit)
    if (stated and not is_empty) or has_strides:
        for i in range(ndim):
            axis = ndim - 1 - i
            stride = T.if_then_else(stated and not is_empty, strides[axis], compact)
            if not has_strides and stride != compact and shape[axis] != 1:
                return refuse(*texts(NOT_COMPACT), messages, row, axis, stride, compact)
            if has_strides:
                if (stride & (unit - 1)) != 0:
                    return refuse(
                        *texts(
                            IS,
                            place="the stride of dimension %lld",
                            expected="a multiple of %lld: its elements are packed, expected one in a byte",
                        ),
                        messages, row, axis, stride, unit,
                    )  # fmt: skip
                shown[axis] = T.truncdiv(stride, unit)
            compact *= shape[axis]
    return True


@internal
def tensor_fits(tensor: Tensor, messages: T.handle, row: Row, sizes: T.handle, words: T.handle) -> T.bool:
    """Check a tensor against its row of the table.

    It must be in host memory, aligned, of the right dtype and rank, compact unless the parameter has strides, with the
    right static dimensions, and small enough to compute offsets.
    """
    text = T.alloc_buffer((64,), "uint8", scope="local")
    other = T.alloc_buffer((64,), "uint8", scope="local")
    if tensor.device_type != 1:
        found = T.int64(tensor.device_type)
        return refuse(*texts(DEVICE, expected="cpu", found="device type %lld"), messages, row, found, 0, 0)
    if T.int64(tensor.dtype) != row.dtype:
        found = dtype_name(text, tensor.dtype)
        expected = dtype_name(other, T.int32(row.dtype))
        return refuse(*texts(ARGUMENT_DTYPE, found="%s", expected="%s"), messages, row, found, expected, 0)
    ndim = row.rank
    if tensor.ndim != ndim:
        return refuse(*texts(ARGUMENT_RANK), messages, row, T.int64(tensor.ndim), ndim, 0)
    shape = T.decl_buffer((ndim,), "int64", data=tensor.shape)
    bits = (row.dtype >> 8) & 255
    width = (bits + 7) >> 3
    item = width * (row.dtype >> 16)
    is_empty = T.alloc_var("bool", T.bool(False))
    room = T.alloc_var("int64", item)
    for axis in range(ndim):
        if shape[axis] == 0:
            is_empty = T.bool(True)
        factor = T.max(u64(shape[axis]), T.uint64(1))
        product = T.int64(u64(room) * factor)
        if T.umul_overflows(room, T.int64(factor)) or u64(product) > u64(LARGEST_PRODUCT):
            return refuse(*texts(NO_ROOM), messages, row, 0, 0, 0)
        room = product
    strides = T.handle_add_byte_offset(words, (MEMORY_WORDS + ndim) * 8)
    if not strides_fit(tensor, messages, row, udiv(8, T.min(bits, 8)), is_empty, strides):
        return False
    data = address(tensor.data)
    start = data + tensor.byte_offset
    if (start & (width - 1)) != 0:
        return refuse(*texts(NOT_ALIGNED), messages, row, width, 0, 0)
    written = T.decl_buffer((MEMORY_WORDS + ndim,), "int64", data=words)
    written[0] = data
    written[1] = start
    written[2] = start + T.Select(is_empty, T.int64(0), T.Select(row.open != 0, item, room))
    wanted = T.decl_buffer((ndim,), "int64", data=sizes)
    for axis in range(ndim):
        if wanted[axis] >= 0 and shape[axis] != wanted[axis]:
            return refuse(*texts(IS), messages, row, axis, shape[axis], wanted[axis])
        written[MEMORY_WORDS + axis] = shape[axis]
    return True


@internal
def argument(any: Any, messages: T.handle, table: T.handle, row: Row, words: T.handle) -> T.bool:
    """Check one argument against its row, and write its words."""
    kind, wanted = any.type_index, T.int32(row.kind)
    is_whole = kind == ffi.INT or kind == ffi.BOOL
    is_pointer = (wanted == ffi.POINTER and kind == ffi.NONE) or (wanted == ffi.TENSOR and kind == ffi.TENSOR_POINTER)
    if not (kind == wanted or is_pointer or (is_whole and wanted <= ffi.FLOAT)):
        found = kind_name(kind)
        return refuse(*texts(KIND, expected="%s", found="%s"), messages, row, kind_name(wanted), found, 0)
    own = T.handle_add_byte_offset(words, row.words * 8)
    if wanted != ffi.TENSOR:
        return scalar(any, messages, row, own)
    header = T.Select(kind == ffi.TENSOR_POINTER, T.int64(0), T.struct_size("TVMFFIObject"))
    tensor = Tensor(T.handle_add_byte_offset(any.object, header))
    return tensor_fits(tensor, messages, row, T.handle_add_byte_offset(table, row.sizes * 8), own)


@hidden
def arguments(count: T.int64, args: Any, messages: T.handle, table: Row, words: T.handle) -> T.int32:
    """Check all arguments of a call. Return 0, or -1 with the error set."""
    for i in range(count):
        if not argument(args[i], messages, table, table[i], words):
            return -1
    return 0


@hidden
def apart(count: T.int64, messages: T.handle, pairs: T.handle, words: T.handle) -> T.int32:
    """Check that pairs of tensors do not overlap. Return 0, or -1 with the error set.

    A row of `pairs` holds the positions of the words with the start and end of both tensors, and a message number.
    """
    rows = T.decl_buffer((count, 3), "int64", data=pairs)
    ends = T.decl_buffer((count,), "uint64", data=words)
    for i in range(count):
        a, b = rows[i, 0], rows[i, 1]
        if T.max(ends[a], ends[b]) < T.min(ends[a + 1], ends[b + 1]):
            raise_error(messages, T.int32(rows[i, 2]), 0, 0, 0, 0)
            return -1
    return 0


FUNCTIONS = (refuse, as_double, scalar, strides_fit, tensor_fits, argument, arguments, apart)
