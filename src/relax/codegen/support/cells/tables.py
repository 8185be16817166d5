"""Functions that create the table of a program, and the packed functions that hold it."""

from __future__ import annotations

from ....native import ffi_layouts as ffi
from ....native.cells import TABLE_MARK
from ....script import tir as T
from ..c import NULL, C
from .values import CELL_BYTES, Any, Table, cells, hidden, leave

TABLE_BYTES = T.struct_size("ProgramTable")


@hidden
def drop(table: Table):
    """Release a reference to a table; delete it with the last one."""
    if T.atomic_sub(T.address_of(table.references), T.int64(1), "acq_rel") == 1:
        leave(table.cells, T.int64(T.Cast("uint32", table.count)))
        C.free(table)


@hidden
def new_table(count: T.int32) -> T.handle:
    """Return a table of empty cells with one reference, or null with the error set if there is no memory."""
    bytes = T.int64(count) * CELL_BYTES
    table = Table(C.malloc(TABLE_BYTES + bytes))
    if T.isnullptr(table):
        C.TVMFFIErrorSetRaisedFromCStr("MemoryError", "out of memory: cannot make the table of a program")
        return NULL
    table.references = 1
    table.count = count
    table.mark = TABLE_MARK
    C.memset(table.cells, 0, bytes)
    return table


@cells(name="table")
def make_table(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (values …) -> pointer: create a table of the values."""
    table = Table(new_table(count))
    if T.isnullptr(table):
        return -1
    own = Any(table.cells)
    for i in range(count):
        if C.TVMFFIAnyViewToOwnedAny(args[i], own[i]) != 0:
            drop(table)
            return -1
    result.word = ffi.POINTER
    result.object = table
    return 0


@cells
def function(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (table, code address) -> function that holds a reference to the table."""
    table = Table(args.object)
    made = T.alloc_var("handle", NULL)
    T.atomic_add(T.address_of(table.references), T.int64(1), "monotonic")
    if C.TVMFFIFunctionCreate(table, args[1].object, T.symbol_address(drop), T.address_of(made)) != 0:
        drop(table)
        return -1
    result.word = ffi.FUNCTION
    result.object = made
    return 0


@cells
def release(self: T.handle, args: Any, count: T.int32, result: Any) -> T.int32:
    """Packed function (table) -> None: release the creator's reference."""
    drop(args.object)
    return 0


FUNCTIONS = (drop, new_table, make_table, function, release)
