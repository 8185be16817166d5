"""Kernels of operators whose operands are met at run time (`relax.runtime.operators`), found by dtypes and ranks.

A program has one table. Its packed function takes the arguments of ``relax.run.operator``: the text of a call, kernels
compiled beforehand, the operands. It calls the kernel that it holds for this text and these operands, or else the
function for missing kernels, which may hand it the one to hold.

    KernelTable   number of entries; function for missing kernels; the first entry of each bucket, or 0
    KernelEntry   next entry of the bucket, or 0; kernel; text of the call; number of operands; the `kind` of each

Entries are added by any thread, and freed with the table: threads read the table without a lock.
"""

from __future__ import annotations

from ....native import ffi_layouts as ffi
from ....runtime.operators import MOST_KERNELS
from ....script import tir as T
from ..c import NULL, C, address, pointer, u64
from .questions import Shape, TensorObject
from .values import CELL_BYTES, Any, Object, cells, clear_cell, internal, reset, set_cell

Kernels = T.struct("KernelTable")
Entry = T.struct("KernelEntry")
TABLE_BYTES = T.struct_size("KernelTable")
ENTRY_BYTES = T.struct_size("KernelEntry")
BUCKETS = 256
MULTIPLIER = -7046029254386353131
"""2**64 divided by the golden ratio, as a signed number: its products spread over their upper bits (Knuth, The Art of
Computer Programming, 6.4)."""
TENSOR_KIND = 1 << 62


@internal
def kind(value: Any) -> T.int64:
    """Return the dtype and rank of a tensor, the rank of a shape, or the type of another value, as a number."""
    if value.type_index == ffi.TENSOR:
        tensor = TensorObject(value.object).tensor
        return T.int64(T.Cast("uint32", tensor.dtype)) | (T.int64(tensor.ndim) << 32) | T.int64(TENSOR_KIND)
    if value.type_index == ffi.SHAPE:
        return (Shape(value.object).size << 8) | ffi.SHAPE
    return T.int64(value.type_index)


@internal
def bucket(args: Any, count: T.int32) -> T.int64:
    """Return the number of the bucket for the arguments of a call."""
    hash = T.alloc_var("int64", address(args.object))
    for i in range(count - 2):
        hash = (hash + kind(args[i + 2])) * T.int64(MULTIPLIER)
    return T.Cast("int64", u64(hash) >> 56)


@internal
def is_for(entry: Entry, args: Any, count: T.int32) -> T.bool:
    """Return true if an entry is for the text and operands of a call."""
    if address(entry.spec) != address(args.object) or entry.count != T.int64(count - 2):
        return False
    kinds = T.decl_buffer((count,), "int64", data=entry.kinds)
    for i in range(count - 2):
        if kinds[i] != kind(args[i + 2]):
            return False
    return True


@internal
def add(table: Kernels, args: Any, count: T.int32, kernel: Object):
    """Add an entry, unless the table is full or memory is short."""
    if T.atomic_load("int64", T.address_of(table.count), "monotonic") >= MOST_KERNELS:
        return
    entry = Entry(C.malloc(ENTRY_BYTES + T.int64(count) * 8))
    if T.isnullptr(entry):
        return
    T.atomic_add(T.address_of(table.count), T.int64(1), "monotonic")
    T.atomic_add(kernel, T.int64(1), "monotonic")
    T.atomic_add(args.object, T.int64(1), "monotonic")
    entry.kernel = kernel
    entry.spec = args.object
    entry.count = T.int64(count - 2)
    kinds = T.decl_buffer((count,), "int64", data=entry.kinds)
    for i in range(count - 2):
        kinds[i] = kind(args[i + 2])
    buckets = T.decl_buffer((BUCKETS,), "int64", data=table.buckets)
    first = T.address_of(buckets[bucket(args, count)])
    while True:
        next = T.atomic_load("int64", first, "monotonic")
        entry.next = next
        if T.atomic_cmpxchg(first, next, address(entry), "release", "monotonic") == next:
            return


@cells
def run_operator(self: Kernels, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (text, kernels, operands …): call the kernel for the operands."""
    if count >= 2 and args.type_index == ffi.STRING:
        buckets = T.decl_buffer((BUCKETS,), "int64", data=self.buckets)
        at = T.alloc_var("int64", T.atomic_load("int64", T.address_of(buckets[bucket(args, count)]), "acquire"))
        while at != 0:
            entry = Entry(pointer(at))
            if is_for(entry, args, count):
                return C.TVMFFIFunctionCall(entry.kernel, args[2], count - 2, result)
            at = entry.next
    # The function for missing kernels gets the address of a cell as one more argument, in front.
    made = Any.alloc()
    clear_cell(made)
    all = Any.alloc(count + 1)
    all.word = ffi.POINTER
    all.object = made
    C.memcpy(all[1], args, T.int64(count) * CELL_BYTES)
    status = C.TVMFFIFunctionCall(self.missing, all, count + 1, result)
    if status == 0 and made.type_index == ffi.FUNCTION and count >= 2 and args.type_index == ffi.STRING:
        add(self, args, count, made.object)
    reset(made)
    return status


@cells
def hold_kernel(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (address of a cell, kernel) -> None: hand over a kernel for a table to hold."""
    set_cell(args.object, args[1])
    return 0


@internal
def drop_kernels(table: Kernels):
    """Delete a table."""
    buckets = T.decl_buffer((BUCKETS,), "int64", data=table.buckets)
    for i in range(BUCKETS):
        at = T.alloc_var("int64", buckets[i])
        while at != 0:
            entry = Entry(pointer(at))
            at = entry.next
            C.TVMFFIObjectDecRef(entry.kernel)
            C.TVMFFIObjectDecRef(entry.spec)
            C.free(entry)
    C.TVMFFIObjectDecRef(table.missing)
    C.free(table)


@cells
def kernel_table(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (function for missing kernels) -> function `run_operator` with a table of its own."""
    table = Kernels(C.malloc(TABLE_BYTES))
    if T.isnullptr(table):
        C.TVMFFIErrorSetRaisedFromCStr("MemoryError", "out of memory: cannot make the table of kernels")
        return -1
    C.memset(table, 0, TABLE_BYTES)
    T.atomic_add(args.object, T.int64(1), "monotonic")
    table.missing = args.object
    made = T.alloc_var("handle", NULL)
    function, deleter = T.symbol_address(run_operator), T.symbol_address(drop_kernels)
    if C.TVMFFIFunctionCreate(table, function, deleter, T.address_of(made)) != 0:
        drop_kernels(table)
        return -1
    result.word = ffi.FUNCTION
    result.object = made
    return 0


FUNCTIONS = (kind, bucket, is_for, add, run_operator, hold_kernel, drop_kernels, kernel_table)
