"""Intrinsics of compiled Relax functions (`relax.prim.cells`), most of which call the support code (`cells`)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from ..ir import DataType
from ..native.builder import FunctionBuilder, Operand, quoted
from ..native.cells import INNER_CALL, Passed, cell_function
from ..native.ffi_layouts import ANY_TYPE, BOOL, FLOAT, INT, OBJECT_HEADER, POINTER
from ..native.formula import Val, signed
from ..native.support import MESSAGES
from ..native.types import dlpack_code, register_type
from ..prim import Call, FloatImm, IntImm, PrimExpr, StringImm
from ..prim.cells import PARAMETERS, REGISTERS
from ..runtime.combine import body_symbol
from ..runtime.compiled import COMPILED_PREFIX
from ..runtime.native import PACKED_PREFIX
from .context import Context

_RAW_STRING: Final = 8
_TOLD: Final = 4
"""Number of arguments from which a packed call passes them as a constant table; below it, direct stores are less code.
"""
NOTHING: Final = ("i64 0", "i64 0")
"""The two words of an empty cell."""


def cell(cx: Context, expr: PrimExpr) -> Operand:
    """Address of a cell; null for the constant 0."""
    if isinstance(expr, IntImm):
        return "null"
    call = cast(Call, expr)
    if not isinstance(expr, Call) or call.intrinsic != "anylist_getitem":
        cx.report("E5903", "expected a cell: T.anylist_getitem(list, index)", expr)
        return "null"
    return _at(cx, cx.value(call.args[0]).ref, cast(IntImm, call.args[1]).value)


def _at(cx: Context, base: Operand, number: int) -> Operand:
    return base if number == 0 else cx.b.op(f"getelementptr {ANY_TYPE}, ptr {base}, i64 {number}")


def load_cell(b: FunctionBuilder, at: Operand, *, constant: bool = False) -> tuple[Operand, ...]:
    """Load a cell as typed words, in the form `store_cell` takes.

    LLVM's fast instruction selector does not support 128-bit integers. Cells of the program's table (`constant`) are
    loaded as vectors; others in two halves, since their halves may just have been stored separately (store forwarding).
    """
    if constant:
        return (f"<2 x i64> {b.op(f'load <2 x i64>, ptr {at}, align 8')}",)
    low = b.op(f"load i64, ptr {at}")
    return f"i64 {low}", f"i64 {b.op(f'load i64, ptr {half(b, at)}')}"


def store_cell(b: FunctionBuilder, words: tuple[Operand, ...], at: Operand) -> None:
    """Store a cell from the words returned by `load_cell`, or from two 64-bit words."""
    b.do(f"store {words[0]}, ptr {at}, align 8")
    if len(words) > 1:
        b.do(f"store {words[1]}, ptr {half(b, at)}")


def half(b: FunctionBuilder, at: Operand) -> Operand:
    """Address of the second half of a cell, its value."""
    return b.op(f"getelementptr i8, ptr {at}, i64 8")


def _support(cx: Context, name: str, *operands: Operand) -> Operand:
    """Call a function of the support code with typed operands. Return an empty string if it has no result."""
    result, symbol = cell_function(cx.b.module, name)
    text = f"call {result} {symbol}({', '.join(operands)})"
    if result == "void":
        cx.b.do(text)
        return ""
    return cx.b.op(text)


def _dtype_word(name: PrimExpr) -> int:
    """DLPack code of a dtype in 32 bits; 0 for any dtype."""
    text = cast(StringImm, name).value
    if not text:
        return 0
    code, bits = dlpack_code(DataType(text))
    return code | bits << 8 | 1 << 16


def _dims(cx: Context, dims: Sequence[PrimExpr]) -> list[Operand]:
    """Store dimensions in memory; return their number and address as operands."""
    at = cx.b.scratch("i64", len(dims))
    for i, dim in enumerate(dims):
        place = at if i == 0 else cx.b.op(f"getelementptr i64, ptr {at}, i64 {i}")
        cx.b.do(f"store i64 {cx.value(dim).to('i64').ref}, ptr {place}")
    return [f"i32 {len(dims)}", f"ptr {at}"]


def _arguments(cx: Context, args: Sequence[PrimExpr]) -> list[Operand]:
    """Store the arguments of a packed call in memory; return their address and number as operands."""
    values = [_argument(cx, arg) for arg in args]
    at = cx.b.scratch(ANY_TYPE, len(args))
    for i, words in enumerate(values):
        store_cell(cx.b, words, _at(cx, at, i))
    return [f"ptr {at}", f"i32 {len(args)}"]


def _argument(cx: Context, arg: PrimExpr) -> tuple[Operand, ...]:
    """The typed words of an argument's cell."""
    if isinstance(arg, Call) and arg.intrinsic == "anylist_getitem":
        constant = arg.args[0] is cx.unit.functions[cx.name].params[1]
        return load_cell(cx.b, cell(cx, arg), constant=constant)
    kind, payload = _typed(cx, arg)
    return f"i64 {kind}", payload


def _typed(cx: Context, arg: PrimExpr) -> tuple[int, Operand]:
    """Type index and typed payload of an argument that is not a cell."""
    if isinstance(arg, StringImm):
        return _RAW_STRING, f"ptr {cx.b.module.string(arg.value)}"
    if isinstance(arg, Call) and arg.intrinsic == "cell_value":
        return cast(IntImm, arg.args[0]).value, f"i64 {cx.value(arg.args[1]).to('i64').ref}"
    value = cx.value(arg)
    if arg.dtype.is_handle:
        return POINTER, f"ptr {value.ref}"
    if arg.dtype.is_float:
        return FLOAT, f"double {value.to('double').ref}"
    if arg.dtype.is_bool:
        return BOOL, f"i64 {value.to('i64', signed=False).ref}"
    return INT, f"i64 {value.to('i64', signed=not arg.dtype.is_uint).ref}"


def _result(cx: Context, list_: PrimExpr, index: PrimExpr) -> Operand:
    number = cast(IntImm, index).value
    return "null" if number < 0 else _at(cx, cx.value(list_).ref, number)


def _call_packed(cx: Context, call: Call) -> Val:
    list_, index, function, _, *args = call.args
    told = _told(cx, args) if len(args) >= _TOLD else None
    name, operands = ("call", _arguments(cx, args)) if told is None else ("call_with", told)
    callee, to = cell(cx, function), _result(cx, list_, index)
    cx.leave_unless_zero(_support(cx, name, f"ptr {callee}", *operands, f"ptr {to}"))
    return cx.i64(0)


def _told(cx: Context, args: Sequence[PrimExpr]) -> list[Operand] | None:
    """Arguments as a constant table, with the lists and the pointer it uses; None if an argument does not fit."""
    lists = {cx.vars[param].ref: kind for param, kind in zip(cx.unit.functions[cx.name].params, _LISTS, strict=True)}
    words, pointer = [INT, len(args)], "null"
    for arg in args:
        if isinstance(arg, IntImm):
            words += [BOOL if arg.dtype.is_bool else INT, signed(arg.value, 64)]
        elif not isinstance(arg, Call):
            return None
        elif arg.intrinsic == "anylist_getitem":
            words += [lists[cx.value(arg.args[0]).ref], cast(IntImm, arg.args[1]).value]
        elif arg.intrinsic == "address_of":
            address = cx.value(arg).ref
            if pointer not in ("null", address):
                return None
            pointer = address
            words += [Passed.POINTER, 0]
        else:
            return None
    texts = [str(int(word)) for word in words]
    table = cx.b.module.table(f"relax.told.{'.'.join(texts)}", "i64", texts)
    return [*(f"ptr {ref}" for ref in lists), f"ptr {pointer}", f"ptr {table}"]


_LISTS: Final = (Passed.REGISTER, Passed.CELL)
"""Codes of a compiled function's parameters in tables of arguments."""


def _called_compiled(last: bool) -> Callable[[Context, Call], Val]:
    """Writer of direct calls to the callee's code, with the table as its context; see `entry`."""

    def write(cx: Context, call: Call) -> Val:
        return _call_compiled(cx, call, last)

    return write


def _call_compiled(cx: Context, call: Call, last: bool) -> Val:
    list_, index, table, name_, *args = call.args
    at, count = _arguments(cx, args)
    name = cast(StringImm, name_).value
    symbol = quoted(f"{PACKED_PREFIX}{name}")
    cx.b.module.declare(f"{PACKED_PREFIX}{name}", "i32", "ptr, ptr, i32, ptr")
    context = cx.b.op(f"getelementptr i8, ptr {cx.value(table).ref}, i64 -16")
    result = cx.b.scratch("i128", 1)  # not where the arguments are
    if name.startswith(COMPILED_PREFIX):
        _tell_depth(cx, result, last)
    else:
        store_cell(cx.b, NOTHING, result)
    cx.leave_unless_zero(cx.b.op(f"call i32 {symbol}(ptr {context}, {at}, {count}, ptr {result})"))
    to = _result(cx, list_, index)
    _support(cx, "reset", f"ptr {result if to == 'null' else to}")
    if to != "null":
        store_cell(cx.b, load_cell(cx.b, result), to)
    return cx.i64(0)


def _tell_depth(cx: Context, result: Operand, last: bool) -> None:
    """Write the call's depth and the stack's base address into the result cell, where the callee reads them.

    A function keeps both in the cell behind its registers.
    """
    func = cx.unit.functions[cx.name]
    own = _at(cx, cx.vars[func.params[0]].ref, frame_cell(func.attrs))
    depth, base = load_cell(cx.b, own)
    step = 0 if last else 1 << 32
    marked = cx.b.op(f"add {depth}, {step + INNER_CALL}")
    store_cell(cx.b, (f"i64 {marked}", base), result)


def frame_cell(attrs: Mapping[str, Any]) -> int:
    """Index of the cell, behind the registers of a compiled function, that holds its call depth and stack base."""
    return max(int(attrs[REGISTERS]), len(cast("list[Any]", attrs[PARAMETERS])) + 1)


def _call_kernel(cx: Context, call: Call) -> Val:
    """Call a kernel's inner function. The calling code has checked that the arguments fit."""
    name_, *args = call.args
    symbol = body_symbol(cast(StringImm, name_).value)
    types = [register_type(arg.dtype) for arg in args]
    operands = [f"{type_} {cx.value(arg).ref}" for type_, arg in zip(types, args, strict=True)]
    cx.b.module.declare(symbol, "i32", ", ".join(types))
    cx.leave_unless_zero(cx.b.op(f"call i32 {quoted(symbol)}({', '.join(operands)})"))
    return cx.i64(0)


def _data(cx: Context, call: Call) -> Val:
    """Data pointer of a tensor; tensors of the VM have no byte offset."""
    at = cx.b.op(f"getelementptr i8, ptr {cell(cx, call.args[0])}, i64 8")
    object_ = cx.b.op(f"load ptr, ptr {at}")
    tensor = cx.b.op(f"getelementptr i8, ptr {object_}, i64 {OBJECT_HEADER}")
    return Val(cx.b, "ptr", 1, cx.b.op(f"load ptr, ptr {tensor}"))


def _reset(cx: Context, call: Call) -> Val:
    _support(cx, "reset", f"ptr {_result(cx, *call.args)}")
    return cx.i64(0)


def _set(cx: Context, call: Call) -> Val:
    list_, index, value = call.args
    held = isinstance(value, Call) and value.intrinsic == "anylist_getitem"
    at = f"ptr {cell(cx, value)}" if held else _arguments(cx, [value])[0]
    _support(cx, "set", f"ptr {_result(cx, list_, index)}", at)
    return cx.i64(0)


def _payload(cx: Context, call: Call) -> Val:
    at = cx.b.op(f"getelementptr i8, ptr {cell(cx, call.args[0])}, i64 8")
    return Val(cx.b, "i64", 1, cx.b.op(f"load i64, ptr {at}"))


def _keep_apart(cx: Context, call: Call) -> Val:
    list_, *counts = call.args
    numbers = [f"i64 {cast(IntImm, count).value}" for count in counts]
    _support(cx, "keep_apart", f"ptr {cx.value(list_).ref}", *numbers)
    return cx.i64(0)


def _fits(cx: Context, call: Call) -> Val:
    """Call a check of `cells.matching`, with its constants in a table of cells."""
    check, value, heap, other, *numbers = call.args
    words = [str(_word(number)) for number in numbers]
    table = "null"
    if words:
        payloads = (word for payload in words for word in ("0", payload))
        table = cx.b.module.table(f"relax.numbers.{'.'.join(words)}", "i64", payloads)
    slots = "null" if isinstance(heap, IntImm) else cx.value(heap).ref
    operands = [cell(cx, value), table, slots, cell(cx, other)]
    name = f"fits_{cast(StringImm, check).value}"
    return Val(cx.b, "i1", 1, _support(cx, name, *(f"ptr {operand}" for operand in operands)))


def _word(number: PrimExpr) -> int:
    """A constant of a check as the signed 64 bits of a cell: an integer, a dtype, or the bits of a float."""
    match number:
        case StringImm():
            return _dtype_word(number)
        case FloatImm(_, value):
            return struct.unpack("q", struct.pack("d", value))[0]
        case _:
            return signed(cast(IntImm, number).value, 64)


def _question(name: str, type_: str) -> Callable[[Context, Call], Val]:
    """Writer of a query of a cell; further arguments are int64 numbers."""

    def write(cx: Context, call: Call) -> Val:
        numbers = [f"i64 {cx.value(arg).to('i64').ref}" for arg in call.args[1:]]
        return Val(cx.b, type_, 1, _support(cx, name, f"ptr {cell(cx, call.args[0])}", *numbers))

    return write


def _make(cx: Context, name: str, cells: Sequence[PrimExpr], *operands: Operand) -> Val:
    """Call support code that writes a new value to the first cell, or calls the builtin in the second one."""
    cx.leave_unless_zero(_support(cx, name, *(f"ptr {cell(cx, part)}" for part in cells), *operands))
    return cx.i64(0)


def _alloc(cx: Context, call: Call) -> Val:
    to, builtin, device, dtype, *dims = call.args
    return _make(cx, "make_tensor", (to, builtin, device), f"i32 {_dtype_word(dtype)}", *_dims(cx, dims))


def _storage(cx: Context, call: Call) -> Val:
    *cells, nbytes = call.args
    return _make(cx, "make_storage", cells, f"i64 {cx.value(nbytes).to('i64').ref}")


def _view(cx: Context, call: Call) -> Val:
    to, builtin, storage, offset, dtype, *dims = call.args
    start, word = f"i64 {cx.value(offset).to('i64').ref}", f"i32 {_dtype_word(dtype)}"
    return _make(cx, "make_view", (to, builtin, storage), start, word, *_dims(cx, dims))


def _reshape(cx: Context, call: Call) -> Val:
    to, builtin, source, *dims = call.args
    return _make(cx, "make_reshaped", (to, builtin, source), *_dims(cx, dims))


def _copy(cx: Context, call: Call) -> Val:
    return _make(cx, "make_copy", call.args)


def _shape(cx: Context, call: Call) -> Val:
    to, builtin, *dims = call.args
    return _make(cx, "make_shape", (to, builtin), *_dims(cx, dims))


def _field(cx: Context, call: Call) -> Val:
    to, source, index = call.args
    operands = [f"ptr {cell(cx, to)}", f"ptr {cell(cx, source)}", f"i64 {cast(IntImm, index).value}"]
    return Val(cx.b, "i1", 1, _support(cx, "field", *operands))


@contextmanager
def located_at(cx: Context, place: PrimExpr) -> Generator[None]:
    """Context manager: errors of the statements written inside get a source location before they propagate."""
    outside, inside = cx.error_label, cx.b.label("at")
    table = cx.vars[cx.unit.functions[cx.name].params[1]].ref
    number = cx.b.module.message(cast(StringImm, place).value, "")
    cx.error_label = inside
    yield
    cx.error_label = outside
    with cx.b.cold(inside):
        cx.b.module.uses_messages()
        _support(cx, "locate", f"ptr {table}", f"ptr {MESSAGES}", f"i32 {2 * int(number)}")
        cx.b.end(f"br label %{outside}")


TABLE: Final[dict[str, Callable[[Context, Call], Val]]] = {
    "anylist_resetitem": _reset, "anylist_setitem": _set, "anylist_setitem_call_packed": _call_packed,
    "anylist_setitem_call_cpacked": _called_compiled(False), "anylist_setitem_call_last": _called_compiled(True),
    "kernel_call": _call_kernel, "cell_data": _data, "cell_payload": _payload,
    "cell_fits": _fits, "anylist_keep_apart": _keep_apart, "cell_plain": _question("plain", "i1"),
    "cell_dim": _question("dim", "i64"),
    "cell_truth": _question("truth", "i32"), "cell_alloc": _alloc,
    "cell_storage": _storage, "cell_view": _view, "cell_reshape": _reshape,
    "cell_copy": _copy, "cell_shape": _shape, "cell_field": _field,
}  # fmt: skip
"""Code-writing functions of these intrinsics, by name."""
