"""Functions that write a new value to a cell, or call a builtin that does so or raises the error.

They return 0, or -1 with the error set.
"""

from __future__ import annotations

from ....native import ffi_layouts as ffi
from ....runtime.allocator import SMALL_STORAGE
from ....script import tir as T
from ..c import NULL, C, u64
from .objects import STRONG, alloc, copy, device_of, free, reshape, shape, tail_of, tensor, view
from .questions import TensorObject
from .values import Any, call, cells, clear_cell, copy_cell, internal, own, reset

BYTE = 1 | 8 << 8 | 1 << 16
"""DLPack's dtype uint8."""
Counts = T.struct("StorageCounts")


@internal(attributes="cold nounwind")
def ask(to: Any, builtin: Any, args: Any, count: T.int32, at: T.int32, ndim: T.int32, dims: T.handle) -> T.int32:
    """Call a builtin that raises the error or handles the rare case, with a shape as argument number `at`."""
    place = args[at]
    clear_cell(place)
    if not shape(place, ndim, dims):
        C.TVMFFIErrorSetRaisedFromCStr("MemoryError", "out of memory: cannot make a shape")
        return -1
    status = call(builtin, args, count, to)
    reset(place)
    return status


@internal(attributes="cold nounwind")
def put(args: Any, at: T.int32, kind: T.int32, bits: T.int64):
    """Write an argument that is not an object to a cell."""
    cell = args[at]
    cell.word = T.int64(kind)
    cell.value = bits


@cells
def make_tensor(to: Any, builtin: Any, device: Any, dtype: T.int32, ndim: T.int32, dims: T.handle) -> T.int32:
    """Allocate a tensor."""
    if alloc(to, device, dtype, ndim, dims):
        return 0
    args = Any.alloc(3)
    put(args, 1, ffi.DTYPE, T.int64(T.Cast("uint32", dtype)))
    copy_cell(args[2], device)
    return ask(to, builtin, args, 3, 0, ndim, dims)


@internal
def note_peak(counts: Counts):
    """Update the peak of the bytes in use."""
    small = T.atomic_load("int64", T.address_of(counts.small), "monotonic")
    large = T.atomic_load("int64", T.address_of(counts.large), "monotonic")
    T.atomic_umax(T.address_of(counts.peak), small + large, "monotonic")


@internal
def free_storage(object: TensorObject, flags: T.int32):
    """Delete a storage whose owner counts the bytes in use (see `make_storage`)."""
    if flags & STRONG != 0:
        counts = Counts(TensorObject(object.owner).tensor.data)
        size = T.decl_buffer((1,), "int64", data=object.dims)
        T.atomic_sub(T.address_of(counts.small), size[0], "monotonic")
        owner: T.handle = object.owner
        object.owner = NULL
        C.TVMFFIObjectDecRef(owner)
    free(object, flags)


@internal
def free_pooled(object: TensorObject, flags: T.int32):
    """Delete a tensor that views a storage of the VM's pool."""
    if flags & STRONG != 0:
        counts = Counts(TensorObject(object.owner).tensor.data)
        size = T.decl_buffer((1,), "int64", data=object.dims)
        T.atomic_sub(T.address_of(counts.large), size[0], "monotonic")
        owner: T.handle = object.owner
        object.owner = NULL
        C.TVMFFIObjectDecRef(owner)
        C.TVMFFIObjectDecRef(tail_of(object, 1).pooled)
    free(object, flags)


@internal
def hold_counts(object: TensorObject, counts: Any, deleter: T.handle):
    """Let a storage own the tensor of counts that its deleter updates."""
    T.atomic_add(counts.object, T.int64(1), "monotonic")
    object.owner = counts.object
    object.header.deleter = deleter


@internal
def count_pooled(to: Any, pooled: Any, counts: Any, bytes: T.int64):
    """Create a counted view of a tensor of the VM's pool, or return that tensor if memory is short."""
    size = T.alloc_var("int64", bytes)
    old = TensorObject(pooled.object)
    data: T.handle = old.tensor.data
    object = TensorObject(tensor(device_of(old.tensor), BYTE, 1, T.address_of(size), data, 0))
    if T.isnullptr(object):
        own(to, old, ffi.TENSOR)
        return
    tail_of(object, 1).pooled = old
    hold_counts(object, counts, T.symbol_address(free_pooled))
    numbers = Counts(TensorObject(counts.object).tensor.data)
    T.atomic_add(T.address_of(numbers.large), bytes, "monotonic")
    note_peak(numbers)
    own(to, object, ffi.TENSOR)


@cells
def make_storage(to: Any, builtin: Any, device: Any, counts: Any, bytes: T.int64) -> T.int32:
    """Allocate a storage: small ones by malloc, others by the builtin, which has a pool.

    `counts` holds a tensor of `StorageCounts`, or nothing.
    """
    if u64(bytes) <= u64(SMALL_STORAGE):
        size = T.alloc_var("int64", bytes)
        object = TensorObject(tensor(device.value, BYTE, 1, T.address_of(size), NULL, bytes))
        if not T.isnullptr(object):
            if counts.type_index == ffi.TENSOR:
                hold_counts(object, counts, T.symbol_address(free_storage))
                numbers = Counts(TensorObject(counts.object).tensor.data)
                T.atomic_add(T.address_of(numbers.small), bytes, "monotonic")
                note_peak(numbers)
                T.atomic_add(T.address_of(numbers.requests), T.int64(1), "monotonic")
            own(to, object, ffi.TENSOR)
            return 0
    args = Any.alloc(3)
    put(args, 0, ffi.INT, bytes)
    put(args, 1, ffi.DTYPE, BYTE)
    copy_cell(args[2], device)
    got = Any.alloc()
    clear_cell(got)
    status = call(builtin, args, 3, got)
    if status == 0:
        if counts.type_index == ffi.TENSOR:
            count_pooled(to, got, counts, bytes)
        else:
            reset(to)
            copy_cell(to, got)
    return status


@cells
def make_view(
    to: Any, builtin: Any, storage: Any, offset: T.int64, dtype: T.int32, ndim: T.int32, dims: T.handle
) -> T.int32:
    """Create a tensor in a storage."""
    if view(to, storage, offset, dtype, ndim, dims):
        return 0
    args = Any.alloc(4)
    copy_cell(args, storage)
    put(args, 1, ffi.INT, offset)
    put(args, 3, ffi.DTYPE, T.int64(T.Cast("uint32", dtype)))
    return ask(to, builtin, args, 4, 2, ndim, dims)


@cells
def make_reshaped(to: Any, builtin: Any, source: Any, ndim: T.int32, dims: T.handle) -> T.int32:
    """Create a view of a tensor with another shape."""
    if reshape(to, source, ndim, dims):
        return 0
    args = Any.alloc(2)
    copy_cell(args, source)
    return ask(to, builtin, args, 2, 1, ndim, dims)


@cells
def make_copy(to: Any, builtin: Any, source: Any) -> T.int32:
    """Create a tensor with the contents of another one."""
    if copy(to, source, NULL):
        return 0
    return call(builtin, source, 1, to)


@cells
def make_shape(to: Any, builtin: Any, ndim: T.int32, dims: T.handle) -> T.int32:
    """Create a shape.

    The builtin takes no heap, the number of sizes, and a pair for each: the code 0, for a constant, and the size.
    """
    if shape(to, ndim, dims):
        return 0
    given = T.decl_buffer((ndim,), "int64", data=dims)
    count = ndim * 2 + 2
    args = Any.alloc(count)
    put(args, 0, ffi.INT, 0)
    put(args, 1, ffi.INT, T.int64(ndim))
    for i in range(ndim):
        put(args, i * 2 + 2, ffi.INT, 0)
        put(args, i * 2 + 3, ffi.INT, given[i])
    return call(builtin, args, count, to)


FUNCTIONS = (
    ask, put, make_tensor, note_peak, free_storage, free_pooled, hold_counts, count_pooled, make_storage, make_view,
    make_reshaped, make_copy, make_shape,
)  # fmt: skip
