"""Native forms of builtins in the packed form, which raise the errors of `relax.runtime`."""

from __future__ import annotations

from ....native import ffi_layouts as ffi
from ....runtime.export import LIBRARY
from ....runtime.match import LOAD_SLOT
from ....runtime.messages import NEGATIVE, NO_SHAPE, TOO_LARGE
from ....script import tir as T
from ..c import NULL, C, udiv, umod
from ..cells import objects
from ..cells.makers import BYTE
from ..cells.matching import CHECKS, KINDS, same_number
from ..cells.objects import device_of, tensor
from ..cells.questions import Shape, Tensor, TensorObject, bytes, field
from ..cells.values import Any, own
from .texts import Raising, Text, fail, internal, put, put_int, string

_BEFORE, _BETWEEN = NO_SHAPE.text.removesuffix("{shape}").split("{what}")
_HOST = T.int64(1)
"""The device cpu(0), as a number."""

_NO_COPY = "out of memory: a tensor cannot be copied"
_NOT_PLAIN = "expected a tensor on cpu with elements of whole bytes, found another one"
_NO_SHAPE = "a shape cannot have a negative or a larger dimension than there can be"
_NO_TUPLE = "a tuple holds a tensor that is not compact; pass a compact copy"

hidden = T.prim_func(prefix=LIBRARY, linkage="hidden", attributes="nounwind")


def _refuse(check):
    """Return a packed function that raises the error of a check if the value does not pass it."""
    macro = CHECKS[check]

    @internal(name=f"refuse_{check}")
    def refuse_unfit(value: Any, numbers: Any, slots: T.handle, other: Any, notes: Any, context: Any) -> T.int32:
        text = Text.alloc()
        text.length = 0
        out = Raising(text, context, notes, slots)
        macro(out, value, numbers, slots, other)
        return 0

    return refuse_unfit


_CHECKS = {check: _refuse(check) for check in CHECKS}
_tensor, _shape, _scalar, _tuple = (_CHECKS[kind] for kind in KINDS)
_same_sizes = _CHECKS["same_sizes"]


@T.macro
def read_size(codes, slots, axis):
    """Read a size given as a pair of a code and a number."""
    heap = T.decl_buffer((1,), "int64", data=slots)
    number = codes[axis * 2 + 1].value
    return T.if_then_else(codes[axis * 2].value == LOAD_SLOT, heap[number], number)


@internal
def sizes(codes: Any, ndim: T.int64, slots: T.handle) -> T.int32:
    """Raise the error of invalid sizes."""
    text = Text.alloc()
    text.length = 0
    least = T.alloc_var("int64", 0)
    for axis in range(ndim):
        size = read_size(codes, slots, axis)
        least = T.min(least, size)
    put(text, _BEFORE)
    put(text, T.Select(least < 0, T.StringImm(NEGATIVE), T.StringImm(TOO_LARGE)))
    put(text, f"{_BETWEEN}(")
    for axis in range(ndim):
        if axis != 0:
            put(text, ", ")
        size = read_size(codes, slots, axis)
        put_int(text, size)
    put(text, T.Select(ndim == 1, T.StringImm(",)"), T.StringImm(")")))
    fail(text, "ValueError")
    return -1


@hidden
def match_shape_value(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (value, other, context): match a shape with another one."""
    return _same_sizes(args[0], args[1], NULL, args[1], NULL, args[2])


@hidden
def make_shape(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (heap, number of sizes, code and number of each) -> shape."""
    return sizes(args[2], args[1].value, NULL)


@hidden
def on_heap(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (name, heap position, slots, slot count, notes, arguments …): call a builtin with a shape heap.

    The arguments omit the heap. Those of ``vm.builtin.match`` are the value, the kind or device, the numbers, and the
    context.
    """
    slots: T.handle = args[2].object
    if args[1].value == 0:
        return sizes(args[6], args[5].value, slots)
    value, kind, numbers, notes, context = args[5], args[6], args[7], args[4], args[count - 1]
    if kind.type_index == ffi.DEVICE:
        return _tensor(value, numbers, slots, kind, notes, context)
    length = T.alloc_var("int64", 0)
    name = string(kind, T.address_of(length))
    if C.strcmp(name, "tensor") == 0:
        return _tensor(value, numbers, slots, NULL, notes, context)
    if C.strcmp(name, "shape") == 0:
        return _shape(value, numbers, slots, NULL, notes, context)
    if C.strcmp(name, "scalar") == 0:
        return _scalar(value, numbers, slots, NULL, notes, context)
    return _tuple(value, numbers, slots, NULL, notes, context)


@hidden
def refuse(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Raise the error whose kind and message the context of the function points to."""
    words = T.decl_buffer((2,), "handle", data=self)
    C.TVMFFIErrorSetRaisedFromCStr(words[0], words[1])
    return -1


@hidden
def raise_message(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (message) that raises ValueError."""
    length = T.alloc_var("int64", 0)
    C.TVMFFIErrorSetRaisedFromCStr("ValueError", string(args, T.address_of(length)))
    return -1


@T.macro
def host_device(device):
    """Write the device cpu(0) to a cell."""
    device.word = ffi.DEVICE
    device.value = _HOST


@hidden
def alloc_tensor(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (shape, dtype, device) -> tensor."""
    device = Any.alloc()
    host_device(device)
    shape = Shape(args.object)
    if objects.alloc(result, device, T.int32(args[1].value), T.int32(shape.size), shape.data):
        return 0
    text = Text.alloc()
    text.length = 0
    out = Raising(text)
    fail(text, "MemoryError", "out of memory: a tensor of shape ", out.dims(args), " cannot be allocated")
    return -1


@hidden
def alloc_storage(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (number of elements or shape, dtype) -> storage, which is a tensor of bytes."""
    device = Any.alloc()
    host_device(device)
    dtype = T.int32(args[1].value)
    item = T.int64((((dtype >> 8) & 255) + 7) >> 3)
    size = T.alloc_var("int64", 0)
    if args.type_index == ffi.INT:
        elements = args.value
        size = elements * item
        if item != 0 and T.truncdiv(elements * item, item) != elements:  # more than 64 bits
            size = T.int64(-1)
    else:
        shape = Shape(args.object)
        size = bytes(dtype, T.int32(shape.size), shape.data)
    if objects.alloc(result, device, BYTE, 1, T.address_of(size)):
        return 0
    text = Text.alloc()
    text.length = 0
    out = Raising(text)
    fail(text, "MemoryError", "out of memory: a storage of ", out.integer(size), " bytes is asked for")
    return -1


@hidden
def reshape(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (tensor, shape) -> view."""
    shape = Shape(args[1].object)
    if objects.reshape(result, args, T.int32(shape.size), shape.data):
        return 0
    text = Text.alloc()
    text.length = 0
    out = Raising(text)
    fail(text, "ValueError", "reshape: a tensor of shape ", out.dims(args), " cannot become ", out.dims(args[1]))
    return -1


@hidden
def copy_tensor(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (tensor) -> copy."""
    if objects.copy(result, args, NULL):
        return 0
    C.TVMFFIErrorSetRaisedFromCStr("MemoryError", _NO_COPY)
    return -1


@hidden
def shape_of(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (tensor) -> shape."""
    if args.type_index == ffi.TENSOR:
        tensor = TensorObject(args.object).tensor
        if objects.shape(result, tensor.ndim, tensor.shape):
            return 0
    text = Text.alloc()
    text.length = 0
    out = Raising(text)
    fail(text, "TypeError", "shape_of: expected a tensor, found ", out.kind(args))
    return -1


@hidden
def tuple_getitem(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (tuple, index) -> field."""
    if field(result, args, args[1].value):
        return 0
    text = Text.alloc()
    text.length = 0
    out = Raising(text)
    fail(text, "TypeError", "there is no field ", out.integer(args[1].value), " in ", out.kind(args))
    return -1


@internal
def copy_elements(to: T.handle, source: Tensor, item: T.int64, total: T.int64):
    """Copy the elements of a strided tensor to compact memory."""
    n = T.int64(source.ndim)
    dims = T.decl_buffer((n,), "int64", data=source.shape)
    strides = T.decl_buffer((n,), "int64", data=source.strides)
    first: T.handle = T.handle_add_byte_offset(source.data, source.byte_offset)
    for i in range(total):
        rest = T.alloc_var("int64", i)
        compact = T.alloc_var("int64", 1)
        at = T.alloc_var("int64", 0)
        for k in range(n):
            axis = n - 1 - k
            stride = T.if_then_else(T.isnullptr(source.strides), compact, strides[axis])
            at += umod(rest, dims[axis]) * stride
            rest = udiv(rest, dims[axis])
            compact *= dims[axis]
        C.memcpy(T.handle_add_byte_offset(to, i * item), T.handle_add_byte_offset(first, at * item), item)


@internal
def compact_copy(tensor_: Tensor, result: Any) -> T.int32:
    """Create a compact tensor with the contents of a strided one in host memory."""
    dtype, ndim = tensor_.dtype, tensor_.ndim
    bits = (dtype >> 8) & 255
    if tensor_.device_type != 1 or T.Cast("uint32", dtype) >> 16 != 1 or bits < 8:
        C.TVMFFIErrorSetRaisedFromCStr("ValueError", _NOT_PLAIN)
        return -1
    needed = bytes(dtype, ndim, tensor_.shape)
    if needed < 0:
        C.TVMFFIErrorSetRaisedFromCStr("ValueError", _NO_SHAPE)
        return -1
    fresh = TensorObject(tensor(device_of(tensor_), dtype, ndim, tensor_.shape, NULL, needed))
    if T.isnullptr(fresh):
        C.TVMFFIErrorSetRaisedFromCStr("MemoryError", _NO_COPY)
        return -1
    item = T.int64(bits >> 3)
    copy_elements(fresh.tensor.data, tensor_, item, udiv(needed, item))
    own(result, fresh, ffi.TENSOR)
    return 0


@hidden(name="import")
def import_value(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (value) -> value of the VM: strided tensors are copied to compact ones."""
    kind = args.type_index
    if kind == ffi.TENSOR_POINTER:
        return compact_copy(args.object, result)
    if kind == ffi.TENSOR:
        return compact_copy(TensorObject(args.object).tensor, result)
    if kind == ffi.SHAPE:
        C.TVMFFIErrorSetRaisedFromCStr("ValueError", _NO_SHAPE)
        return -1
    if kind == ffi.ARRAY or kind == ffi.LIST:
        C.TVMFFIErrorSetRaisedFromCStr("ValueError", _NO_TUPLE)
        return -1
    return C.TVMFFIAnyViewToOwnedAny(args, result)


FUNCTIONS = (
    same_number, *_CHECKS.values(), sizes, match_shape_value, make_shape, on_heap, refuse, raise_message, alloc_tensor,
    alloc_storage,
    reshape, copy_tensor, shape_of, tuple_getitem, copy_elements, compact_copy, import_value,
)  # fmt: skip
