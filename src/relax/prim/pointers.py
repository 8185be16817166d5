"""Intrinsics of plain functions: fields of C structs, pointers, atomic operations, and instructions of support code.

A plain function is a PrimFunc with a C signature (`relax.tir.stmt.LINKAGE`). Its accesses to memory are not checked.
Names that TVM has are TVM's.

    tvm_struct_get(pointer, i, "DLTensor.ndim")          a field of the struct at pointer[i]; without a field, its
                                                         address
    tvm_struct_set(pointer, i, "DLTensor.ndim", value)   set the field
    struct_size("DLTensor")                              bytes of a struct
    handle_add_byte_offset(pointer, bytes)               the pointer `bytes` further
    isnullptr(pointer)                                   true for the null pointer
    symbol_address("name")                               the address of a function or variable of the object
    call_pointer(dtype, pointer, *args)                  call the C function at an address
    ret(value), ret()                                    return from the function
    break_loop(), continue_loop()                        leave the innermost loop; go on with its next iteration
    umul_overflows(a, b)                                 true if the unsigned product has more than 64 bits

    atomic_load(dtype, pointer, order)                   orders are LLVM's (`ORDERS`)
    atomic_store(pointer, value, order)
    atomic_add(pointer, value, order)                    also sub, and, max, umax; returns the value before
    atomic_cmpxchg(pointer, expected, value, success, failure)
                                                         returns the value before: `expected` if `value` was stored

    cpu_pause(), cpu_clock()                             a hint that a thread spins; ticks of constant length
    float_mode(), set_float_mode(mode)                   rounding and subnormal modes of the thread
    system_call("futex", *args)                          a system call of Linux by its name in `PoolCode`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..ir import register_op
from ..target.c_structs import field_of
from .expr import BOOL, INT64, Call, PrimExpr, StringImm, convert
from .expr import cast as cast_to

ORDERS: Final = ("monotonic", "acquire", "release", "acq_rel", "seq_cst")
"""Memory orderings of atomic operations."""
UPDATES: Final = ("add", "sub", "and", "max", "umax")
"""Atomic operations that return the value before."""
SYSTEM_CALLS: Final = ("futex", "sched_yield")

_OPAQUE: Final = (
    "tvm_struct_get", "tvm_struct_set", "call_pointer", "break_loop", "continue_loop", "atomic_load", "atomic_store",
    "atomic_cmpxchg", *(f"atomic_{update}" for update in UPDATES), "cpu_pause", "cpu_clock", "float_mode",
    "set_float_mode", "system_call",
)  # fmt: skip
_PURE: Final = ("struct_size", "handle_add_byte_offset", "isnullptr", "symbol_address", "umul_overflows")

for _name in _OPAQUE:
    register_op(f"tir.{_name}", effect="opaque", total=False, numpy=None)
for _name in _PURE:
    register_op(f"tir.{_name}", effect="pure", total=False, numpy=None)


def _pointer(name: str, value: Any) -> PrimExpr:
    expr = convert(value)
    if not expr.dtype.is_handle:
        raise TypeError(f"{name}: expected a pointer, found {expr.dtype!s}")
    return expr


def _kind(value: Any) -> str:
    return value.value if isinstance(value, StringImm) else str(value)


def tvm_struct_get(pointer: Any, index: Any, kind: Any) -> Call:
    """The field ``"Struct.field"`` of the struct at ``pointer[index]``; arrays and structs are given by their address.

    Without a field, the address of the struct. Raises ValueError for a name that is not declared.
    """
    _, field = field_of(_kind(kind))
    dtype = "handle" if field is None else field.dtype
    return Call(
        dtype, "tir.tvm_struct_get", (_pointer("tvm_struct_get", pointer), convert(index), StringImm(_kind(kind)))
    )


def tvm_struct_set(pointer: Any, index: Any, kind: Any, value: Any) -> Call:
    """Set a field. Raises TypeError for a value of another kind than the field's, and for arrays and structs."""
    _, field = field_of(_kind(kind))
    if field is None or field.is_embedded:
        raise TypeError(f"tvm_struct_set: {_kind(kind)} has no single value")
    place = _pointer("tvm_struct_set", pointer), convert(index), StringImm(_kind(kind))
    return Call("", "tir.tvm_struct_set", (*place, _as(value, field.dtype)))


def _as(value: Any, dtype: Any) -> PrimExpr:
    """Convert a value to a dtype; a pointer is no number."""
    expr = convert(value)
    if expr.dtype == dtype:
        return expr
    if expr.dtype.is_handle or dtype.is_handle:
        raise TypeError(f"expected a {dtype!s}, found {expr.dtype!s}")
    return cast_to(dtype, expr)


def struct_size(name: Any) -> Call:
    """Bytes of a struct."""
    field_of(_kind(name))
    return Call("int64", "tir.struct_size", (StringImm(_kind(name)),))


def handle_add_byte_offset(handle: Any, offset: Any) -> Call:
    """The pointer `offset` bytes behind `handle`."""
    return Call("handle", "tir.handle_add_byte_offset", (_pointer("handle_add_byte_offset", handle), convert(offset)))


def isnullptr(handle: Any) -> Call:
    """True for the null pointer."""
    return Call(BOOL, "tir.isnullptr", (_pointer("isnullptr", handle),))


def symbol_address(name: Any) -> Call:
    """The address of a function or variable of the object, or one that the loader binds."""
    return Call("handle", "tir.symbol_address", (StringImm(_kind(name)),))


def call_pointer(dtype: Any, function: Any, *args: Any) -> Call:
    """Call the C function at an address."""
    return Call(dtype, "tir.call_pointer", (_pointer("call_pointer", function), *map(convert, args)))


def break_loop() -> Call:
    """Leave the innermost loop."""
    return Call("", "tir.break_loop", ())


def continue_loop() -> Call:
    """Go on with the next iteration of the innermost loop."""
    return Call("", "tir.continue_loop", ())


def umul_overflows(a: Any, b: Any) -> Call:
    """True if the product of two 64-bit integers, taken as unsigned, has more than 64 bits."""
    return Call(BOOL, "tir.umul_overflows", (_as(a, INT64), _as(b, INT64)))


def _order(name: str, order: Any) -> StringImm:
    text = _kind(order)
    if text not in ORDERS:
        raise ValueError(f"{name}: there is no memory order {text!r}; there are {', '.join(ORDERS)}")
    return StringImm(text)


def atomic_load(dtype: Any, pointer: Any, order: Any) -> Call:
    """The value at a pointer, loaded atomically."""
    return Call(dtype, "tir.atomic_load", (_pointer("atomic_load", pointer), _order("atomic_load", order)))


def atomic_store(pointer: Any, value: Any, order: Any) -> Call:
    """Store a value atomically."""
    place, order = _pointer("atomic_store", pointer), _order("atomic_store", order)
    return Call("", "tir.atomic_store", (place, convert(value), order))


def _update(name: str) -> Callable[..., Call]:
    def build(pointer: Any, value: Any, order: Any) -> Call:
        operand = convert(value)
        return Call(operand.dtype, f"tir.{name}", (_pointer(name, pointer), operand, _order(name, order)))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Atomic {name.removeprefix('atomic_')} of a value and the one at a pointer; the value before."
    return build


def atomic_cmpxchg(pointer: Any, expected: Any, value: Any, success: Any, failure: Any) -> Call:
    """Store `value` if the value at the pointer is `expected`. Return the value before."""
    name, old, new = "atomic_cmpxchg", convert(expected), convert(value)
    if old.dtype != new.dtype:
        raise TypeError(f"{name}: expected two values of one dtype, found {old.dtype!s} and {new.dtype!s}")
    orders = _order(name, success), _order(name, failure)
    return Call(old.dtype, f"tir.{name}", (_pointer(name, pointer), old, new, *orders))


def cpu_pause() -> Call:
    """Hint to the CPU that the thread spins."""
    return Call("", "tir.cpu_pause", ())


def cpu_clock() -> Call:
    """Ticks of a clock of constant frequency."""
    return Call("int64", "tir.cpu_clock", ())


def float_mode() -> Call:
    """The rounding and subnormal modes of the thread."""
    return Call("int64", "tir.float_mode", ())


def set_float_mode(mode: Any) -> Call:
    """Set the rounding and subnormal modes of the thread."""
    return Call("", "tir.set_float_mode", (convert(mode),))


def system_call(name: Any, *args: Any) -> Call:
    """A system call of Linux. Raises ValueError for a name that no architecture describes."""
    if _kind(name) not in SYSTEM_CALLS:
        raise ValueError(f"there is no number for the system call {_kind(name)!r}; there are {', '.join(SYSTEM_CALLS)}")
    return Call("int64", "tir.system_call", (StringImm(_kind(name)), *map(convert, args)))


MEMBERS: Final[dict[str, Callable[..., Call]]] = {
    function.__name__: function
    for function in (
        tvm_struct_get, tvm_struct_set, struct_size, handle_add_byte_offset, isnullptr, symbol_address, call_pointer,
        break_loop, continue_loop, umul_overflows, atomic_load, atomic_store, atomic_cmpxchg, cpu_pause, cpu_clock,
        float_mode, set_float_mode, system_call, *(_update(f"atomic_{update}") for update in UPDATES),
    )
}  # fmt: skip
"""Builders by name, for the namespace ``T``."""
