"""Functions that create and free tensors and shapes: allocations, views, copies."""

from __future__ import annotations

from ....native import ffi_layouts as ffi
from ....script import tir as T
from ..c import NULL, C, address, u64
from .freed_memory import LEAST_KEPT, kept_put, kept_take
from .questions import Shape, TensorObject, bytes, plain, sizes, unit
from .values import Any, Object, cells, hidden, internal, own

Tail = T.struct("TensorTail")

STRONG, WEAK = 1, 2
"""Flags of a deleter: the value ends; the memory is no longer used."""
_ALIGNMENT = 64


def tail_of(tensor, ndim):
    """Return the tail of a tensor object, which follows its sizes and strides."""
    return Tail(T.handle_add_byte_offset(tensor.dims, T.int64(ndim) * 16))


def device_of(tensor):
    """Pack the device of a DLTensor into an int64."""
    return T.int64(T.Cast("uint32", tensor.device_type)) | T.int64(tensor.device_id) << 32


@internal
def free(object: TensorObject, flags: T.int32):
    """Deleter of a tensor object."""
    if flags & STRONG != 0 and not T.isnullptr(object.owner):
        C.TVMFFIObjectDecRef(object.owner)
    if flags & WEAK != 0:
        capacity = tail_of(object, object.tensor.ndim).capacity
        if capacity == 0:
            C.free(object)
        else:
            kept_put(object, capacity)


@internal
def free_shape(object: T.handle, flags: T.int32):
    """Deleter of a shape object."""
    if flags & WEAK != 0:
        C.free(object)


@internal
def header(object: Object, type: T.int32, deleter: T.handle):
    """Write the header of an object with one reference."""
    object.references = 1 << 32 | 1
    object.type_index = type
    object.padding = 0
    object.deleter = deleter


@hidden
def tensor(device: T.int64, dtype: T.int32, ndim: T.int32, dims: T.handle, data: T.handle, room: T.int64) -> T.handle:
    """Return a new tensor object, or null if there is no memory.

    Its elements are at `data`, or, if that is null, in `room` new bytes aligned to 64. Memory comes from malloc:
    aligned_alloc of the C library is far slower, as it splits larger blocks and returns the remainders.
    """
    capacity = T.alloc_var("int64", 0)
    n = T.int64(ndim)
    head = T.struct_size("TensorObject") + n * 16 + T.struct_size("TensorTail")
    fresh = T.isnullptr(data)
    behind = T.Select(fresh, T.int64(T.max(u64(room + 126), T.uint64(127))), T.int64(0))
    total = head + behind
    memory = T.alloc_var("handle", NULL)
    if u64(total) >= u64(LEAST_KEPT):
        memory = kept_take(total, T.address_of(capacity))
    else:
        memory = C.malloc(total)
    if T.isnullptr(memory):
        return NULL
    object = TensorObject(memory)
    tail_of(object, n).capacity = capacity
    header(object, ffi.TENSOR, T.symbol_address(free))
    to = object.tensor
    first = head + (-(address(object) + head) & (_ALIGNMENT - 1))
    to.data = T.Select(fresh, T.handle_add_byte_offset(object, first), data)
    to.device_type = T.int32(device)
    to.device_id = T.int32(device >> 32)
    to.ndim = ndim
    to.dtype = dtype
    shape = T.decl_buffer((n,), "int64", data=object.dims)
    strides = T.decl_buffer((n,), "int64", data=T.handle_add_byte_offset(object.dims, n * 8))
    to.shape = shape
    to.strides = strides
    to.byte_offset = 0
    object.owner = NULL
    given = T.decl_buffer((n,), "int64", data=dims)
    stride = T.alloc_var("int64", unit(T.int64((dtype >> 8) & 255)))
    for i in range(n):
        axis = n - 1 - i
        shape[axis] = given[axis]
        strides[axis] = stride
        stride *= given[axis]
    return object


@cells
def alloc(to: Any, device: Any, dtype: T.int32, ndim: T.int32, dims: T.handle) -> T.bool:
    """Allocate a tensor; false if its size in bytes overflows or there is no memory."""
    needed = bytes(dtype, ndim, dims)
    if needed < 0:
        return False
    object = tensor(device.value, dtype, ndim, dims, NULL, needed)
    if T.isnullptr(object):
        return False
    own(to, object, ffi.TENSOR)
    return True


@internal
def over(to: Any, source: Any, offset: T.int64, dtype: T.int32, ndim: T.int32, dims: T.handle) -> T.bool:
    """Create a tensor that views the memory of another one."""
    owner = TensorObject(source.object)
    viewed = owner.tensor
    start = T.handle_add_byte_offset(viewed.data, offset)
    object = TensorObject(tensor(device_of(viewed), dtype, ndim, dims, start, 0))
    if T.isnullptr(object):
        return False
    T.atomic_add(T.address_of(owner.header.references), T.int64(1), "monotonic")
    object.owner = owner
    own(to, object, ffi.TENSOR)
    return True


@hidden
def held(cell: Any) -> T.int64:
    """Return the size in bytes of a plain tensor, -1 for another value."""
    if not plain(cell) or cell.type_index != ffi.TENSOR:
        return -1
    object = TensorObject(cell.object).tensor
    return bytes(object.dtype, object.ndim, object.shape)


@cells
def view(to: Any, storage: Any, offset: T.int64, dtype: T.int32, ndim: T.int32, dims: T.handle) -> T.bool:
    """Create a tensor in a storage, `offset` bytes from its start; false if it does not fit."""
    there = held(storage)
    needed = bytes(dtype, ndim, dims)
    if there < 0 or needed < 0 or offset < 0 or offset > there or needed > there - offset:
        return False
    return over(to, storage, offset, dtype, ndim, dims)


@cells
def reshape(to: Any, source: Any, ndim: T.int32, dims: T.handle) -> T.bool:
    """Create a view with another shape; false if the number of bytes differs."""
    there = held(source)
    if there < 0:
        return False
    dtype = TensorObject(source.object).tensor.dtype
    if bytes(dtype, ndim, dims) != there:
        return False
    return over(to, source, 0, dtype, ndim, dims)


@cells
def copy(to: Any, source: Any, unused: T.handle) -> T.bool:
    """Create a tensor with the contents of another one; false if it is not plain or there is no memory."""
    there = held(source)
    if there < 0:
        return False
    old = TensorObject(source.object).tensor
    fresh = TensorObject(tensor(device_of(old), old.dtype, old.ndim, old.shape, NULL, there))
    if T.isnullptr(fresh):
        return False
    C.memcpy(fresh.tensor.data, old.data, there)
    own(to, fresh, ffi.TENSOR)
    return True


@cells
def shape(to: Any, ndim: T.int32, dims: T.handle) -> T.bool:
    """Create a shape; false if a dimension is invalid or there is no memory."""
    n = T.int64(ndim)
    if not sizes(dims, n):
        return False
    object = Shape(C.malloc(T.struct_size("ShapeObject") + n * 8))
    if T.isnullptr(object):
        return False
    header(object, ffi.SHAPE, T.symbol_address(free_shape))
    C.memcpy(object.own, dims, n * 8)
    object.data = object.own
    object.size = n
    own(to, object, ffi.SHAPE)
    return True


FUNCTIONS = (free, free_shape, header, tensor, alloc, over, held, view, reshape, copy, shape)
