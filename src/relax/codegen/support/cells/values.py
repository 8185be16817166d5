"""Functions that move values between cells, call packed functions, and add source locations to errors."""

from __future__ import annotations

from ....native import ffi_layouts as ffi
from ....native.cells import INNER_CALL, TABLE_MARK, Passed, Refused
from ....runtime.compiled import MOST_CALLS, STACK_LIMIT
from ....runtime.native import CELLS
from ....script import tir as T
from ..c import NULL, C, address, u64

Any = T.struct("TVMFFIAny")
Object = T.struct("TVMFFIObject")
Table = T.struct("ProgramTable")
Facts = T.struct("EntryFacts")
CELL_BYTES = T.struct_size("TVMFFIAny")

cells = T.prim_func(prefix=CELLS, linkage="external", attributes="nounwind")
hidden = T.prim_func(prefix=CELLS, linkage="hidden", attributes="nounwind")
internal = T.prim_func(prefix=CELLS, linkage="internal", attributes="nounwind")


@T.macro
def copy_cell(to, source):
    """Copy the words of a cell, without a new reference."""
    to.word = source.word
    to.value = source.value


@T.macro
def clear_cell(cell):
    """Set a cell to None without releasing its value."""
    cell.word = 0
    cell.value = 0


@cells
def reset(cell: Any):
    """Release the value in a cell and set the cell to None."""
    type = cell.type_index
    cell.word = 0
    if type >= ffi.OBJECT:
        C.TVMFFIObjectDecRef(cell.object)


@cells
def keep(to: Any, source: Any):
    """Copy a value to an empty cell, with a reference of its own."""
    copy_cell(to, source)
    if source.type_index >= ffi.OBJECT:
        T.atomic_add(source.object, T.int64(1), "monotonic")


@cells(name="set")
def set_cell(to: Any, source: Any):
    """Replace the value in a cell."""
    held = Any.alloc()
    keep(held, source)
    reset(to)
    copy_cell(to, held)


@hidden
def own(to: Any, object: T.handle, type: T.int32):
    """Move a new object to a cell."""
    reset(to)
    to.type_index = type
    to.object = object


@cells
def leave(cells: Any, count: T.int64):
    """Release the values in an array of cells."""
    for i in range(count):
        reset(cells[i])


@cells
def call(function: Any, args: Any, count: T.int32, to: Any) -> T.int32:
    """Call a packed function and move its result to a cell unless that is null."""
    result = Any.alloc()
    clear_cell(result)
    status = C.TVMFFIFunctionCall(function.object, args, count, result)
    if status == 0:
        if T.isnullptr(to):
            reset(result)
        else:
            reset(to)
            copy_cell(to, result)
    return status


@cells
def enter(args: Any, count: T.int32, cells: Any, table: Any, known: T.bool) -> T.int32:
    """Copy arguments to registers, converted to values of the VM. Return 0, or -1 with the error set.

    `known` is true if a compiled function passes them: its tuples hold values of the VM already.
    """
    C.memset(cells, 0, T.int64(count) * CELL_BYTES)
    for i in range(T.int64(count)):
        source, to = args[i], cells[i]
        type = source.type_index
        if type < ffi.TENSOR_POINTER or type >= ffi.OBJECT:
            if known or T.call_extern("bool", f"{CELLS}plain", source):
                keep(to, source)
                continue
        elif type != ffi.TENSOR_POINTER:
            if C.TVMFFIAnyViewToOwnedAny(source, to) != 0:
                return -1
            continue
        if table.type_index != ffi.FUNCTION:
            C.TVMFFIErrorSetRaisedFromCStr(
                "ValueError", "an argument is no compact tensor in host memory; pass a compact copy"
            )
            return -1
        if call(table, source, 1, to) != 0:
            return -1
    return 0


@cells(attributes="cold nounwind")
def deeper(function: Any, args: Any, count: T.int32, depth: T.int32, result: Any) -> T.int32:
    """Call a function with the call depth as an additional argument."""
    all = Any.alloc(count + 1)
    C.memcpy(all, args, T.int64(count) * CELL_BYTES)
    last = all[count]
    last.word = ffi.INT
    last.value = T.int64(depth)
    clear_cell(result)
    return C.TVMFFIFunctionCall(function.object, all, count + 1, result)


@T.prim_func(prefix=CELLS, linkage="weak", attributes="nounwind")
def program() -> T.handle:
    """Return the table for functions that are called without one: null here, as the VM creates it."""
    return NULL


@cells
def run(self: Table, args: Any, count: T.int32, result: Any, body: T.handle, facts: Facts) -> T.int32:
    """Run a compiled function in its packed form (`relax.codegen.entry`).

    The facts are its number of parameters, the maximum number of arguments, its number of registers, and its cell in
    the table (0 if it has none).
    """
    given = facts.given
    if count < given or count > facts.most:
        return int(Refused.MISCOUNTED)
    context = T.alloc_var("handle", self)
    if T.isnullptr(self) or self.mark != TABLE_MARK:
        # A function that was made of its address alone is called with itself, or with nothing: then its table is that
        # of the shared library which it is in.
        context = program()
        if T.isnullptr(context):
            return int(Refused.LONELY)
        if address(context) == 1:
            return -1
    table = Any(Table(context).cells)
    registers = T.int64(facts.registers)
    r = Any.alloc(registers + 1)
    # Behind the registers, the depth of the call, and where the stack began.
    here = address(r)
    inner = result.type_index == INNER_CALL
    first = T.Select(inner, result.word - INNER_CALL, T.int64(0))
    base = T.Select(inner, result.value, here)
    frame = r[registers]
    frame.word = first
    frame.value = base
    # Where calls are too deep for the machine or the stack, the function in the function's own cell is called instead.
    depth = T.int64(u64(first) >> 32)
    if (depth > table[MOST_CALLS].value or base - here > table[STACK_LIMIT].value) and facts.cell != 0:
        return deeper(table[facts.cell], args, given, T.int32(depth), result)
    status = T.alloc_var("int32", -1)
    to = r[given]
    C.memset(r, 0, registers * CELL_BYTES)
    if enter(args, given, r, table, inner) == 0:
        taken = T.alloc_var("int32", 0)
        if count != given:  # memory for results
            taken = enter(args[given], count - given, to[1], table, T.bool(False))
        if taken == 0 and T.call_pointer("int32", body, r, table) == 0:
            C.memcpy(result, to, CELL_BYTES)
            C.memset(to, 0, CELL_BYTES)
            status = 0
    leave(r, registers)
    return status


@cells
def call_with(function: Any, r: Any, table: Any, pointer: T.handle, told: Any, to: Any) -> T.int32:
    """Call a function with arguments described by a constant table: their number, then a cell for each.

    A cell is a constant, or has a code of `Passed` as its type index and stands for another value.
    """
    count = told.value
    args = Any.alloc(count)
    for i in range(count):
        item, arg = told[i + 1], args[i]
        word, value = item.word, item.value
        if word == int(Passed.REGISTER) or word == int(Passed.CELL):
            copy_cell(arg, Any(T.Select(word == int(Passed.REGISTER), r.asobject(), table.asobject()))[value])
        elif word == int(Passed.POINTER):
            arg.word = ffi.POINTER
            arg.value = address(pointer)
        else:
            arg.word = word
            arg.value = value
    return call(function, args, T.int32(count), to)


@cells(attributes="cold nounwind")
def locate(table: Any, messages: T.handle, index: T.int32):
    """Add location number `index` of the messages to the raised error, by a packed function in the table."""
    to = table[1]
    if to.type_index != ffi.FUNCTION:
        return
    place = T.alloc_var("handle", messages)
    for _ in range(index):
        place = T.handle_add_byte_offset(place, C.strlen(place) + 1)
    raised = T.alloc_var("handle", NULL)
    C.TVMFFIErrorMoveFromRaised(T.address_of(raised))
    error: T.handle = raised
    if T.isnullptr(error):
        return
    args = Any.alloc(2)
    args.word = ffi.RAW_STRING
    args.object = place
    args[1].word = ffi.ERROR
    args[1].object = error
    call(to, args, 2, NULL)
    C.TVMFFIErrorSetRaised(error)
    C.TVMFFIObjectDecRef(error)


FUNCTIONS = (
    reset, keep, set_cell, own, leave, call, enter, deeper, run, call_with, locate,
)  # fmt: skip
"""Functions of the object; `program` is another one in shared libraries."""
