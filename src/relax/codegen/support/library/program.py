"""The table of a program in a shared library, and its number of threads."""

from __future__ import annotations

from ....native import ffi_layouts as ffi
from ....runtime.export import LIBRARY, PROGRAM
from ....runtime.native import CELLS
from ....runtime.threads import LIMIT, MOST_THREADS, STATE, STATE_BYTES, VARIABLE
from ....script import tir as T
from ...plain import Data
from ..c import NULL, C, pointer
from ..cells.objects import shape, tensor
from ..cells.tables import drop, new_table
from ..cells.values import Any, Table, own
from .texts import Bytes, Text, fail, internal, put, put_bytes

Head = T.struct("ProgramHead")
Record = T.struct("ProgramRecord")

VALUE, STRING, TENSOR, SHAPE, GLOBAL = range(5)
"""Kinds of records:

    a value      its bits as the address, its type index as the number
    a string     bytes, length
    a tensor     elements, dtype and rank, sizes
    a shape      -, rank, sizes
    a global     the name of a packed function of the process, length, what to do if the process has none
    others       a function of this object: code, -, its context
"""
_NO_MEMORY = "out of memory: cannot make the table of a program"
_MASK_WORDS = 16

DATA = (
    Data(f"{LIBRARY}table_made", "int64"),
    Data(STATE, "int8", STATE_BYTES, linkage="hidden", align=4096),
    Data(LIMIT, "int32", linkage="hidden", align=4),
    Data(PROGRAM, linkage="hidden"),
)


@internal
def threads():
    """Set the number of threads of parallel loops from the environment, or to the number of processors."""
    wanted = T.alloc_var("int64", 0)
    text = C.getenv(VARIABLE)
    if not T.isnullptr(text):
        wanted = C.strtol(text, NULL, 10)
    if wanted <= 0:
        wanted = T.int64(0)
        mask = T.alloc_buffer((_MASK_WORDS,), "uint64", scope="local")
        C.memset(mask, 0, _MASK_WORDS * 8)
        C.sched_getaffinity(0, _MASK_WORDS * 8, mask)
        for i in range(_MASK_WORDS):
            wanted += T.Cast("int64", T.popcount(mask[i]))
    T.atomic_store(T.symbol_address(LIMIT), T.int32(T.min(T.max(wanted, 1), MOST_THREADS)), "monotonic")


@internal
def make(record: Record, cell: Any) -> T.bool:
    """Write the value of a record to a cell; false with the error set on failure."""
    slot = T.alloc_var("handle", NULL)
    kind, number = record.kind, record.number
    if kind == VALUE:
        cell.word = number
        cell.object = record.address
        return True
    name = Bytes.alloc()
    name.data = record.address
    name.size = number
    if kind == STRING:
        return C.TVMFFIStringFromByteArray(name, cell) == 0
    if kind == TENSOR or kind == SHAPE:
        made = T.alloc_var("bool", T.bool(False))
        if kind == SHAPE:
            made = shape(cell, T.int32(number), record.second)
        else:
            object = tensor(1, T.int32(number), T.int32(number >> 32), record.second, record.address, 0)
            if not T.isnullptr(object):
                own(cell, object, ffi.TENSOR)
                made = T.bool(True)
        if not made:
            C.TVMFFIErrorSetRaisedFromCStr("MemoryError", _NO_MEMORY)
        return made
    if kind == GLOBAL:
        if C.TVMFFIFunctionGetGlobal(name, T.address_of(slot)) != 0:
            return False
        if T.isnullptr(slot):
            text = Text.alloc()
            text.length = 0
            fail(
                text, "ValueError", "the library calls the packed function ",
                put_bytes(text, record.address, number),
                ", which this process has not; ", put(text, record.second),
            )  # fmt: skip
            return False
    elif C.TVMFFIFunctionCreate(record.second, record.address, NULL, T.address_of(slot)) != 0:
        return False
    cell.word = ffi.FUNCTION
    cell.object = slot
    return True


@internal
def build() -> T.handle:
    """Build the table of the program; null with the error set on failure."""
    head = Head(T.symbol_address(PROGRAM))
    records = Record(head.records)
    table = Table(new_table(T.int32(head.count)))
    if T.isnullptr(table):
        return NULL
    cells = Any(table.cells)
    for i in range(head.count):
        if not make(records[i], cells[i]):
            drop(table)
            return NULL
    return table


@T.prim_func(prefix=CELLS, linkage="hidden", attributes="nounwind")
def program() -> T.handle:
    """Return the program's table, which the first call builds; 1 with the error set on failure."""
    place = T.symbol_address(f"{LIBRARY}table_made")
    ready = T.atomic_load("handle", place, "acquire")
    if not T.isnullptr(ready):
        return ready
    threads()
    made = build()
    if T.isnullptr(made):
        return pointer(T.int64(1))
    theirs = T.atomic_cmpxchg(place, NULL, made, "acq_rel", "acquire")
    if T.isnullptr(theirs):
        return made
    drop(made)
    return theirs


FUNCTIONS = (threads, make, build, program)
