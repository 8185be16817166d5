"""Intrinsics of plain functions (`relax.prim.pointers`), and their calls of functions by symbol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from ..native.builder import Operand, quoted
from ..native.formula import Val
from ..native.types import memory_element, register_type
from ..prim import Call, IntImm, PrimExpr, StringImm
from ..prim.pointers import UPDATES
from ..target.c_functions import C_FUNCTIONS
from ..target.c_structs import Field, Struct, field_of
from ..target.isa import PoolCode
from ..tir.stmt import LINKAGE
from .context import Context
from .index import index
from .memory import from_memory, to_memory

_ONLY_PLAIN: Final = f'only a plain function has a C signature: @T.prim_func(linkage="internal"), attribute {LINKAGE}'


def _text(expr: PrimExpr) -> str:
    return cast(StringImm, expr).value


def _void(cx: Context) -> Val:
    return cx.i64(0)


def _pointer_bits(cx: Context) -> int:
    return cx.unit.target.machine.pointer_bits


# ------------------------------------------------------------------------------------- structs and pointers


def _struct_get(cx: Context, call: Call) -> Val:
    struct, field = field_of(_text(call.args[2]))
    at = _place(cx, call, struct, field)
    if field is None or field.is_embedded:
        return Val(cx.b, "ptr", 1, at)
    type_ = _field_type(cx, field)
    value = Val(cx.b, type_, 1, cx.b.op(f"load {type_}, ptr {at}, align {_align(cx, type_)}"))
    return value.to("i64", signed=False) if field.type == "size" else from_memory(cx, field.dtype, value)


def _struct_set(cx: Context, call: Call) -> Val:
    struct, field = field_of(_text(call.args[2]))
    assert field is not None
    value, type_ = cx.value(call.args[3]), _field_type(cx, field)
    value = value.to(type_) if field.type == "size" else to_memory(cx, field.dtype, value)
    at = _place(cx, call, struct, field)
    cx.b.do(f"store {type_} {value.ref}, ptr {at}, align {_align(cx, type_)}")
    return _void(cx)


def _field_type(cx: Context, field: Field) -> str:
    return f"i{_pointer_bits(cx)}" if field.type == "size" else memory_element(field.dtype)


def _align(cx: Context, type_: str) -> int:
    bits = {"ptr": _pointer_bits(cx), "float": 32, "double": 64}.get(type_) or int(type_[1:])
    return bits // 8


def _place(cx: Context, call: Call, struct: Struct, field: Field | None) -> Operand:
    """Address of a field, or of a struct, in an array of structs."""
    layout = struct.layout(_pointer_bits(cx))
    offset = 0 if field is None else layout.offsets[field.name]
    at, number = cx.value(call.args[0]).ref, call.args[1]
    if isinstance(number, IntImm):
        offset += number.value * layout.size
    else:
        at = cx.b.op(f"getelementptr [{layout.size} x i8], ptr {at}, i64 {index(cx, number).ref}")
    return at if offset == 0 else cx.b.op(f"getelementptr i8, ptr {at}, i64 {offset}")


def field_address(cx: Context, call: Call) -> Val:
    """Address of the field that a `tvm_struct_get` reads."""
    return Val(cx.b, "ptr", 1, _place(cx, call, *field_of(_text(call.args[2]))))


def _struct_size(cx: Context, call: Call) -> Val:
    struct, _ = field_of(_text(call.args[0]))
    return cx.i64(struct.layout(_pointer_bits(cx)).size)


def _add_byte_offset(cx: Context, call: Call) -> Val:
    at, offset = cx.value(call.args[0]), index(cx, call.args[1])
    return Val(cx.b, "ptr", 1, cx.b.op(f"getelementptr i8, ptr {at.ref}, i64 {offset.ref}"))


def _is_null(cx: Context, call: Call) -> Val:
    return Val(cx.b, "i1", 1, cx.b.op(f"icmp eq ptr {cx.value(call.args[0]).ref}, null"))


def _symbol_address(cx: Context, call: Call) -> Val:
    symbol = _text(call.args[0])
    if symbol not in cx.unit.plain and symbol not in cx.unit.data:
        cx.report("E5903", f"symbol_address: {symbol} is no function or variable of the object", call)
    if symbol in cx.unit.plain:
        _callee(cx, symbol)
    return Val(cx.b, "ptr", 1, quoted(symbol))


def reinterpreted(cx: Context, call: Call) -> Val:
    """A pointer as a number of 64 bits, or the reverse."""
    value = cx.value(call.args[0])
    if call.dtype.is_handle:
        ref = "null" if value.ref == "0" else cx.b.op(f"inttoptr i64 {value.ref} to ptr")
        return Val(cx.b, "ptr", 1, ref)
    return Val(cx.b, "i64", 1, cx.b.op(f"ptrtoint ptr {value.ref} to i64"))


# ------------------------------------------------------------------------------------- calls


def _callee(cx: Context, symbol: str) -> tuple[str, list[str], Operand]:
    """Types and symbol of a plain function, which is declared if another object defines it."""
    func = cx.unit.plain[symbol]
    result = "void" if func.ret_type is None else register_type(func.ret_type)
    types = [register_type(param.dtype) for param in func.params]
    if symbol not in cx.unit.functions:
        cx.b.module.declare(symbol, result, ", ".join(types))
    return result, types, quoted(symbol)


def called_by_symbol(cx: Context, call: Call) -> Val | None:
    """Call of a plain function, or of a C function that is described (`C_FUNCTIONS`); None for other names."""
    name, args = _text(call.args[0]), call.args[1:]
    if name in cx.unit.plain:
        result, types, symbol = _callee(cx, name)
        if len(args) != len(types):
            cx.report("E5903", f"a call of {name} has {len(args)} arguments, expected {len(types)}", call)
            return cx.anything(call.dtype)
        return _called(cx, call, result, symbol, types, args)
    function = C_FUNCTIONS.get(name)
    if function is None:
        return None
    result, fixed = function.types(_pointer_bits(cx))
    if name in ("memcpy", "memset"):
        return _memory_intrinsic(cx, name, args)
    types = [*fixed, *(_variadic_type(cx, arg) for arg in args[len(fixed) :])]
    if len(args) < len(fixed) or (len(args) > len(fixed) and not function.variadic):
        cx.report("E5903", f"a call of {name} has {len(args)} arguments, expected {len(fixed)}", call)
        return cx.anything(call.dtype)
    parameters = ", ".join((*fixed, "...") if function.variadic else fixed)
    symbol = cx.b.module.declare(name, result, parameters)
    return _called(cx, call, result, f"({parameters}) {symbol}" if function.variadic else symbol, types, args)


def _variadic_type(cx: Context, arg: PrimExpr) -> str:
    return register_type(arg.dtype)


def _called(
    cx: Context, call: Call, result: str, symbol: Operand, types: Sequence[str], args: Sequence[PrimExpr]
) -> Val:
    """Write a call; numbers are converted to the types of parameters."""
    operands: list[str] = []
    for type_, arg in zip(types, args, strict=True):
        value = cx.value(arg)
        if value.type != type_ and "ptr" in (value.type, type_):
            cx.report("E5903", f"expected a {type_}, found a {arg.dtype!s}", call)
            return cx.anything(call.dtype)
        operands.append(f"{type_} {value.to(type_, signed=not arg.dtype.is_uint and not arg.dtype.is_bool).ref}")
    cx.forget()
    text = f"call {result} {symbol}({', '.join(operands)})"
    if result == "void":
        cx.b.do(text)
        return _void(cx)
    value = Val(cx.b, result, 1, cx.b.op(text))
    wanted = value.type if call.dtype.is_void else register_type(call.dtype)
    return value.to(wanted) if wanted != value.type else value


def _memory_intrinsic(cx: Context, name: str, args: Sequence[PrimExpr]) -> Val:
    """``memcpy`` or ``memset``, which LLVM may write inline."""
    to, second, count = (cx.value(arg) for arg in args)
    size = f"i{_pointer_bits(cx)}"
    short, type_ = ("memcpy.p0.p0", "ptr") if name == "memcpy" else ("memset.p0", "i8")
    function = cx.b.module.intrinsic(f"llvm.{short}.{size}", "void", "ptr", type_, size, "i1")
    second = second if type_ == "ptr" else second.to("i8")
    cx.b.do(f"call void {function}(ptr {to.ref}, {type_} {second.ref}, {size} {count.to(size).ref}, i1 false)")
    return _void(cx)


def _call_pointer(cx: Context, call: Call) -> Val:
    function, *args = call.args
    result = "void" if call.dtype.is_void else register_type(call.dtype)
    return _called(cx, call, result, cx.value(function).ref, [register_type(arg.dtype) for arg in args], args)


def _ret(cx: Context, call: Call) -> Val:
    wanted = cx.unit.functions[cx.name].ret_type
    if not call.args:
        if wanted is not None:
            cx.report("E5903", f"ret: the function returns a {wanted!s}", call)
        cx.b.end("ret void")
        return _void(cx)
    value = cx.value(call.args[0])
    if wanted is None or call.args[0].dtype != wanted:
        cx.report("E5903", f"ret: the function returns {wanted or 'nothing'}, not a {call.dtype!s}", call)
    cx.b.end(f"ret {value.full_type} {value.ref}")
    return _void(cx)


def _jump(cx: Context, call: Call) -> Val:
    if not cx.loops or not cx.loops[-1].leave:
        cx.report("E5903", f"{call.intrinsic}: there is no loop around it, or one that is unrolled", call)
        return _void(cx)
    loop = cx.loops[-1]
    leaves = call.intrinsic == "break_loop"
    loop.is_left |= leaves
    cx.b.end(f"br label %{loop.leave if leaves else loop.go_on}")
    return _void(cx)


# ------------------------------------------------------------------------------------- atomics


def _in_memory(cx: Context, expr: PrimExpr) -> Val:
    return to_memory(cx, expr.dtype, cx.value(expr))


def _atomic_load(cx: Context, call: Call) -> Val:
    type_ = memory_element(call.dtype)
    at = cx.value(call.args[0]).ref
    text = f"load atomic {type_}, ptr {at} {_text(call.args[1])}, align {_align(cx, type_)}"
    return from_memory(cx, call.dtype, Val(cx.b, type_, 1, cx.b.op(text)))


def _atomic_store(cx: Context, call: Call) -> Val:
    at, value = cx.value(call.args[0]).ref, _in_memory(cx, call.args[1])
    align = _align(cx, value.type)
    cx.b.do(f"store atomic {value.type} {value.ref}, ptr {at} {_text(call.args[2])}, align {align}")
    return _void(cx)


def _atomic_update(cx: Context, call: Call) -> Val:
    at, value = cx.value(call.args[0]).ref, _in_memory(cx, call.args[1])
    operation = call.intrinsic.removeprefix("atomic_")
    return value.make(f"atomicrmw {operation} ptr {at}, {value.type} {value.ref} {_text(call.args[2])}")


def _compare_exchange(cx: Context, call: Call) -> Val:
    at, old, new = cx.value(call.args[0]).ref, _in_memory(cx, call.args[1]), _in_memory(cx, call.args[2])
    orders = " ".join(map(_text, call.args[3:]))
    pair = cx.b.op(f"cmpxchg ptr {at}, {old.type} {old.ref}, {new.type} {new.ref} {orders}")
    return old.make(f"extractvalue {{ {old.type}, i1 }} {pair}, 0")


def _umul_overflows(cx: Context, call: Call) -> Val:
    multiply = cx.b.module.intrinsic("llvm.umul.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
    a, b = (cx.value(arg).ref for arg in call.args)
    pair = cx.b.op(f"call {{ i64, i1 }} {multiply}(i64 {a}, i64 {b})")
    return Val(cx.b, "i1", 1, cx.b.op(f"extractvalue {{ i64, i1 }} {pair}, 1"))


# ------------------------------------------------------------------------------------- the processor


def _pool_code(cx: Context, call: Call) -> PoolCode | None:
    code = cx.unit.target.isa.pool
    if code is None:
        cx.report("E5903", f"{call.intrinsic}: {cx.unit.target.isa.name} has no code for it", call)
    return code


def _snippet(name: str) -> Callable[[Context, Call], Val]:
    """Writer of an instruction whose text the architecture has."""

    def write(cx: Context, call: Call) -> Val:
        code = _pool_code(cx, call)
        if code is None:
            return cx.anything(call.dtype)
        snippet = code.pause if name == "pause" else code.clock
        cx.b.module.helper(f".{name}", lambda: cx.b.module.add_text(snippet.declarations))
        if call.dtype.is_void:
            cx.b.do(snippet.call)
            return _void(cx)
        return Val(cx.b, "i64", 1, cx.b.op(snippet.call))

    return write


def _float_mode(cx: Context, call: Call) -> Val:
    code = _pool_code(cx, call)
    if code is None:
        return cx.anything(call.dtype)
    cx.b.module.helper(".float_mode", lambda: cx.b.module.add_text(code.float_mode))
    if not call.args:
        return Val(cx.b, "i64", 1, cx.b.op("call i64 @get_mode()"))
    cx.b.do(f"call void @set_mode(i64 {cx.value(call.args[0]).ref})")
    return _void(cx)


def _system_call(cx: Context, call: Call) -> Val:
    code = _pool_code(cx, call)
    if code is None:
        return cx.anything(call.dtype)
    name, *args = call.args
    number = IntImm("int64", code.futex if _text(name) == "futex" else code.sched_yield)
    done = called_by_symbol(cx, Call("int64", "tir.call_extern", (StringImm("syscall"), number, *args)))
    assert done is not None
    return done


def _plain(rule: Callable[[Context, Call], Val]) -> Callable[[Context, Call], Val]:
    """Wrap a rule to reject the intrinsic outside of plain functions."""

    def write(cx: Context, call: Call) -> Val:
        if cx.plain:
            return rule(cx, call)
        cx.report("E5903", f"{call.intrinsic} is an intrinsic of plain functions", call, _ONLY_PLAIN)
        return cx.anything(call.dtype) if not call.dtype.is_void else _void(cx)

    return write


TABLE: Final[dict[str, Callable[[Context, Call], Val]]] = {
    name: _plain(rule)
    for name, rule in {
        "tvm_struct_get": _struct_get, "tvm_struct_set": _struct_set, "struct_size": _struct_size,
        "handle_add_byte_offset": _add_byte_offset, "isnullptr": _is_null, "symbol_address": _symbol_address,
        "call_pointer": _call_pointer, "ret": _ret, "break_loop": _jump, "continue_loop": _jump,
        "umul_overflows": _umul_overflows, "atomic_load": _atomic_load, "atomic_store": _atomic_store,
        **{f"atomic_{update}": _atomic_update for update in UPDATES}, "atomic_cmpxchg": _compare_exchange,
        "cpu_pause": _snippet("pause"), "cpu_clock": _snippet("clock"), "float_mode": _float_mode,
        "set_float_mode": _float_mode, "system_call": _system_call,
    }.items()
}  # fmt: skip
"""Writers of these intrinsics, by name."""
