"""Support code of kernels: errors, names in messages, and memory of buffers."""

from __future__ import annotations

from ...native import ffi_layouts as ffi
from ...native.support import MADV_HUGEPAGE
from ...native.types import DTYPE_FORMATS
from ...runtime.tensor import LARGE_PAGE
from ...script import tir as T
from ..plain import Data
from .c import C, address, pointer, u64

_KINDS = {
    ffi.NONE: "None", ffi.INT: "an int", ffi.BOOL: "a bool", ffi.FLOAT: "a float", ffi.POINTER: "a pointer",
    ffi.DTYPE: "a dtype", ffi.DEVICE: "a device", ffi.TENSOR_POINTER: "a tensor", ffi.RAW_STRING: "a string",
    ffi.RAW_BYTES: "bytes", ffi.SMALL_STRING: "a string", ffi.SMALL_BYTES: "bytes", ffi.STRING: "a string",
    ffi.BYTES: "bytes", ffi.ERROR: "an error", ffi.FUNCTION: "a function", ffi.SHAPE: "a shape", ffi.TENSOR: "a tensor",
    ffi.ARRAY: "a tuple", ffi.MAP: "a dict", ffi.MODULE: "a module",
}  # fmt: skip
_KIND_COUNT = max(_KINDS) + 1
_NO_KIND = ffi.RAW_BYTES + 1
"""A type index without a name: "an object"."""
_FORMAT_COUNT = len(DTYPE_FORMATS)
_HANDLE = DTYPE_FORMATS.index("handle")

DATA = (
    Data("relax.kinds", texts=tuple(_KINDS.get(kind, "an object") for kind in range(_KIND_COUNT))),
    Data("relax.dtypes", texts=DTYPE_FORMATS),
)

# None of these is worth optimising: they are short, and would take longer to compile than the kernels.
internal = T.prim_func(prefix="relax.", linkage="internal", attributes="cold noinline optnone")
hidden = T.prim_func(prefix="relax.", linkage="hidden", attributes="cold noinline optnone")


@internal
def message(messages: T.handle, count: T.int32) -> T.handle:
    """Return string number `count` of the zero-terminated strings at `messages`."""
    at = T.alloc_var("handle", messages)
    for _ in range(count):
        at = T.handle_add_byte_offset(at, C.strlen(at) + 1)
    return at


@internal
def who(messages: T.handle, index: T.int32) -> T.int64:
    """Return the address of a name among the messages."""
    return address(message(messages, index * 2))


@internal
def set_error(kind: T.handle, format: T.handle, a: T.int64, b: T.int64, c: T.int64, d: T.int64):
    """Set an error with a message formatted by printf."""
    text = T.alloc_buffer((1024,), "uint8", scope="local")
    C.snprintf(text, 1024, format, a, b, c, d)
    C.TVMFFIErrorSetRaisedFromCStr(kind, text)


@hidden(name="raise")
def raise_error(messages: T.handle, index: T.int32, a: T.int64, b: T.int64, c: T.int64, d: T.int64):
    """Set error number `index` of the messages, with up to four numbers for its printf format."""
    set_error(message(messages, index * 2), message(messages, index * 2 + 1), a, b, c, d)


@internal
def kind_name(kind: T.int32) -> T.int64:
    """Return the address of the name of a type index."""
    names = T.decl_buffer((_KIND_COUNT,), "handle", data=T.symbol_address("relax.kinds"))
    known = T.Cast("uint32", kind) < T.uint32(_KIND_COUNT)
    return address(names[T.Select(known, kind, _NO_KIND)])


@internal
def dtype_name(text: T.handle, dtype: T.int32) -> T.int64:
    """Write the name of a dtype to a buffer of 64 bytes, and return its address."""
    formats = T.decl_buffer((_FORMAT_COUNT,), "handle", data=T.symbol_address("relax.dtypes"))
    code = dtype & 255
    C.snprintf(text, 64, formats[T.Select(code < _FORMAT_COUNT, code, _HANDLE)], (dtype >> 8) & 255)
    return address(text)


@internal(attributes="noinline nounwind")
def large_pages(memory: T.handle, bytes: T.int64):
    """Request large pages for a block of memory. A system without them ignores the request."""
    start = address(memory)
    first = (start + (LARGE_PAGE - 1)) & -LARGE_PAGE
    last = (start + bytes) & -LARGE_PAGE
    if u64(first) < u64(last):
        C.madvise(pointer(first), last - first, MADV_HUGEPAGE)


@hidden(attributes="noinline optnone")
def reserve(bytes: T.int64) -> T.handle:
    """Return memory aligned to 64 bytes, or null.

    Large pages are requested for blocks that fill some: page faults at the first touch are 512 times fewer
    (`relax.runtime.tensor`). The block is not aligned to a page, since the C library only reuses freed blocks of small
    alignment.
    """
    memory: T.handle = C.aligned_alloc(64, bytes)
    if not T.isnullptr(memory) and u64(bytes) >= u64(LARGE_PAGE):
        large_pages(memory, bytes)
    return memory


FUNCTIONS = (message, who, set_error, raise_error, kind_name, dtype_name, large_pages, reserve)
