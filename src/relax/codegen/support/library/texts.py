"""Functions that format messages by concatenating texts of values, and the writer of errors in scripts."""

from __future__ import annotations

from ....native import ffi_layouts as ffi
from ....prim import convert
from ....runtime.export import LIBRARY
from ....runtime.messages import Message
from ....script import tir as T
from ....tir import Evaluate, SeqStmt
from ...plain import Data
from ..c import NULL, C, address, called, u64
from ..cells.questions import count, dim, rank
from ..cells.values import Any, reset

Text = T.struct("MessageText")
Bytes = T.struct("TVMFFIByteArray")
String = T.struct("StringObject")
internal = T.prim_func(prefix=LIBRARY, linkage="internal", attributes="nounwind")

_MOST = 1023
"""Bytes of the longest message; the rest is cut."""
_UINT64 = -1
"""Additional kind of number: a uint64 in a slot, which may look negative."""
_NOTE = 264

_KINDS = {
    ffi.NONE: "the null object", ffi.DTYPE: "a dtype", ffi.DEVICE: "a device", ffi.TENSOR_POINTER: "a tensor",
    ffi.BYTES: "bytes", ffi.ERROR: "an error", ffi.FUNCTION: "a packed function", ffi.TENSOR: "a tensor",
    ffi.MAP: "a dict", ffi.MODULE: "a module", ffi.LIST: "a list",
}  # fmt: skip
_KIND_COUNT = max(_KINDS) + 1
DATA = (Data(f"{LIBRARY}kinds", texts=tuple(_KINDS.get(kind, "an object") for kind in range(_KIND_COUNT))),)


@internal
def put_bytes(text: Text, bytes: T.handle, size: T.int64):
    """Append bytes, truncated to the remaining room."""
    used = text.length
    n = T.Cast("int64", T.min(u64(size), u64(_MOST - used)))
    to: T.handle = T.handle_add_byte_offset(text.chars, used)
    C.memcpy(to, bytes, n)
    end = T.decl_buffer((1,), "uint8", data=T.handle_add_byte_offset(to, n))
    end[0] = 0
    text.length = used + n


@internal
def put(text: Text, chars: T.handle):
    """Append a C string."""
    put_bytes(text, chars, C.strlen(chars))


@internal
def put_digits(text: Text, format: T.handle, value: T.int64):
    """Append an integer in a printf format."""
    digits = T.alloc_buffer((32,), "uint8", scope="local")
    C.snprintf(digits, 32, format, value)
    put(text, digits.data)


@internal
def put_int(text: Text, value: T.int64):
    """Append an integer."""
    put_digits(text, "%lld", value)


@internal
def put_float(text: Text, value: T.float64):
    """Append a float, with a point, an exponent, or a name."""
    digits = T.alloc_buffer((64,), "uint8", scope="local")
    C.snprintf(digits, 64, "%.9g", value)
    put(text, digits.data)
    if T.isnullptr(C.strpbrk(digits, ".en")):
        put(text, ".0")


@internal
def put_number(text: Text, kind: T.int32, bits: T.int64):
    """Append a number by its type index; an unknown one is a dimension."""
    if kind == ffi.BOOL:
        put(text, T.Select(bits != 0, T.StringImm("True"), T.StringImm("False")))
    elif kind == ffi.FLOAT:
        put_float(text, T.reinterpret("float64", bits))
    elif kind == _UINT64:
        put_digits(text, "%llu", bits)
    else:
        put_int(text, bits)


@internal
def string(any: Any, length: T.handle) -> T.handle:
    """Return the zero-terminated bytes of a string, and write their number."""
    size = T.decl_buffer((1,), "int64", data=length)
    if any.type_index == ffi.SMALL_STRING:
        halves = T.decl_buffer((2,), "int32", data=any.halves)
        size[0] = T.int64(T.Cast("uint32", halves[1]))
        return any.bytes
    if any.type_index == ffi.STRING:
        held = String(any.object).text
        size[0] = held.size
        return held.data
    size[0] = C.strlen(any.object)
    return any.object


@internal
def put_string(text: Text, any: Any):
    """Append a string of tvm-ffi."""
    length = T.alloc_var("int64", 0)
    bytes = string(any, T.address_of(length))
    put_bytes(text, bytes, length)


@internal
def put_dtype(text: Text, dtype: T.int32):
    """Append the name of a dtype."""
    place = T.alloc_var("int32", dtype)
    name = Any.alloc()
    name.word = 0
    name.value = 0
    if C.TVMFFIDataTypeToString(T.address_of(place), name) == 0:
        put_string(text, name)
        reset(name)


@internal
def put_dims(text: Text, any: Any):
    """Append the sizes of a tensor or shape, in parentheses."""
    n = T.int64(rank(any))
    put(text, "(")
    for axis in range(n):
        if axis != 0:
            put(text, ", ")
        put_int(text, dim(any, axis))
    put(text, T.Select(n == 1, T.StringImm(",)"), T.StringImm(")")))


@internal
def put_kind(text: Text, any: Any):
    """Append a short description of a value, with its article."""
    kind = any.type_index
    if kind == ffi.INT or kind == ffi.BOOL or kind == ffi.FLOAT:
        name = T.Select(kind == ffi.INT, T.StringImm("the int "), T.StringImm("the float "))
        put(text, T.Select(kind == ffi.BOOL, T.StringImm("the bool "), name))
        put_number(text, kind, any.value)
    elif kind == ffi.RAW_STRING or kind == ffi.SMALL_STRING or kind == ffi.STRING:
        put(text, "the string '")
        put_string(text, any)
        put(text, "'")
    elif kind == ffi.SHAPE:
        put(text, "the shape ")
        put_dims(text, any)
    elif kind == ffi.ARRAY:
        put(text, "a tuple of ")
        put_int(text, count(any))
    elif T.Cast("uint32", kind) < T.uint32(_KIND_COUNT):
        names = T.decl_buffer((_KIND_COUNT,), "handle", data=T.symbol_address(f"{LIBRARY}kinds"))
        put(text, names[kind])
    else:
        put(text, "an object")


@internal
def note(notes: Any, slot: T.int64, to: T.handle) -> T.handle:
    """Copy one slot's note out of `notes`, and return the position behind its dtype."""
    length = T.alloc_var("int64", 0)
    all = T.decl_buffer((1,), "uint8", data=string(notes, T.address_of(length)))
    copied = T.decl_buffer((_NOTE,), "uint8", data=to)
    left = T.alloc_var("int64", slot)
    used = T.alloc_var("int64", 0)
    for i in range(length):
        is_tab = all[i] == 9
        if is_tab and left == 0:
            break
        if left == 0 and used < 256:
            copied[used] = all[i]
            used += 1
        if is_tab:
            left -= 1
    copied[used] = 0
    typed = C.strstr(to, ": ")
    return T.Select(T.isnullptr(typed), to, T.handle_add_byte_offset(typed, 2))


@internal
def put_slot(text: Text, note: T.handle, start: T.handle, value: T.int64):
    """Append the number in a slot, by the dtype at the beginning of its note."""
    floats = C.strstr(note, "float")
    kind = T.alloc_var("int32", ffi.INT)
    if not T.isnullptr(floats) and u64(address(floats)) < u64(address(start)):
        kind = ffi.FLOAT
    elif address(C.strstr(note, "bool: ")) == address(note):
        kind = ffi.BOOL
    elif address(C.strstr(note, "uint64: ")) == address(note):
        kind = _UINT64
    put_number(text, kind, value)


@internal
def put_variable(
    text: Text, note: T.handle, start: T.handle, value: T.int64, between: T.handle, after: T.handle
) -> T.bool:
    """Append a variable, its value and the parameter that bound it; false if the note is on something else."""
    bound = C.strstr(start, " bound by ")
    if T.isnullptr(bound):
        return False
    end = T.decl_buffer((1,), "uint8", data=bound)
    end[0] = 0
    put(text, start)
    put(text, " = ")
    put_slot(text, note, start, value)
    put(text, between)
    if C.strlen(between) != 0:
        put(text, start)
    put(text, " was bound by ")
    put(text, T.handle_add_byte_offset(bound, len(" bound by ")))
    put(text, after)
    return True


@internal
def put_expected(text: Text, notes: Any, slot: T.int64, slots: T.handle):
    """Append a description of a slot of a shape heap, as `relax.runtime.heap` writes it."""
    heap = T.decl_buffer((slot,), "int64", data=slots)
    own = T.alloc_buffer((_NOTE,), "uint8", scope="local")
    source = T.alloc_buffer((_NOTE,), "uint8", scope="local")
    stop = T.alloc_var("handle", NULL)
    value = heap[slot]
    start = note(notes, slot, own.data)
    if put_variable(text, own.data, start, value, " (", ")"):
        return
    origin = C.strstr(start, " from ")
    if T.isnullptr(origin):
        put_int(text, value)
        return
    end = T.decl_buffer((1,), "uint8", data=origin)
    end[0] = 0
    put(text, start)
    put(text, " = ")
    put_slot(text, own.data, start, value)
    first = T.handle_add_byte_offset(origin, len(" from "))
    at = T.alloc_var("handle", first)
    before = T.alloc_var("handle", T.StringImm(" ("))
    while True:
        other = C.strtol(at, T.address_of(stop), 10)
        if address(stop) == address(at):
            break
        put(text, before)
        put_variable(text, source.data, note(notes, other, source.data), heap[other], "", "")
        before = T.StringImm("; ")
        at = stop
    if address(at) != address(first):
        put(text, ")")


def fail(text, kind, *parts):
    """Return statements that raise an error. The message is composed of strings and calls of functions above."""
    calls = [called(put, text, part) if isinstance(part, str) else part for part in parts]
    raised = C.TVMFFIErrorSetRaisedFromCStr(kind, text.chars)
    return SeqStmt([Evaluate(call) for call in (*calls, raised)])


class Raising:
    """Refusals for shared libraries: the check raises the error, and returns 0 or -1."""

    failed = -1

    def __init__(self, text, context=None, notes=None, slots=None):
        self.text, self.context, self.notes, self.slots = text, context, notes, slots

    def refuse(self, message: Message, **fields):
        """Return the statements that raise an error of the message table. A field is one part or a list of parts."""
        fields["context"] = called(put_string, self.text, self.context)
        parts = []
        for text, field in message.parts():
            value = fields[field] if field else []
            parts += [*([text] if text else []), *(value if isinstance(value, list) else [value])]
        return fail(self.text, "TypeError" if message.kind is TypeError else "ValueError", *parts)

    def kind(self, value):
        """Message part: a short description of a value."""
        return called(put_kind, self.text, value)

    def dims(self, value):
        """Message part: the sizes of a tensor or shape."""
        return called(put_dims, self.text, value)

    def integer(self, value):
        """Message part: an integer."""
        return called(put_int, self.text, value)

    def scalar(self, kind, bits):
        """Message part: a number by its type index; an unknown one is a dimension."""
        return called(put_number, self.text, kind, bits)

    def dtype(self, value):
        """Message part: a dtype."""
        return called(put_dtype, self.text, value)

    def slot(self, number):
        """Message part: a slot of the shape heap, described by its note."""
        return called(put_expected, self.text, self.notes, number, self.slots)

    def article(self, signed):
        """Message part: the article of a dtype."""
        return called(put, self.text, T.Select(convert(signed), T.StringImm("an"), T.StringImm("a")))


FUNCTIONS = (
    put_bytes, put, put_digits, put_int, put_float, put_number, string, put_string, put_dtype, put_dims, put_kind, note,
    put_slot, put_variable, put_expected,
)  # fmt: skip
