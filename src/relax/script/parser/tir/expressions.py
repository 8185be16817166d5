"""Nodes and intrinsics of the namespace: ``T.exp``, ``T.Select``, ``T.floordiv``, ``T.Add``, ``T.call_extern``.

The IR has the structure of the text: constructors named like nodes do not fold.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ....ir import BaseFunc
from ....prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    StringImm,
    Sub,
    cells,
    convert,
    instructions,
    intrin,
    match_dtypes,
)
from ....prim import pointers as pointer_intrinsics
from ....prim.expr import BinaryExpr, binary
from ....tir.buffer import Broadcast, Ramp, Shuffle
from ..core import operators
from .buffers import dtype_of, pointers

_BINARY: dict[str, type[BinaryExpr]] = {
    "Add": Add, "Sub": Sub, "Mul": Mul, "Div": Div, "Mod": Mod, "FloorDiv": FloorDiv, "FloorMod": FloorMod,
    "Min": Min, "Max": Max, "EQ": EQ, "NE": NE, "LT": LT, "LE": LE, "GT": GT, "GE": GE, "And": And, "Or": Or,
    "min": Min, "max": Max, "truncdiv": Div, "truncmod": Mod, "floordiv": FloorDiv, "floormod": FloorMod,
    "div": Div, "indexdiv": FloorDiv, "indexmod": FloorMod,
}  # fmt: skip


def _checked_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to accept ``dtype=``, the dtype of its result, as in older scripts."""

    @functools.wraps(function)
    def build(*args: Any, dtype: Any = None, **keywords: Any) -> Any:
        result = function(*args, **keywords)
        if dtype is not None and result.dtype != dtype_of(dtype):
            raise TypeError(f"the result has dtype {result.dtype!s}, found dtype={dtype!r}; cast an operand")
        return result

    return _with_dtype(build, function)


def _with_dtype(build: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`build`, with the signature of `function` plus ``dtype=`` for `help` and editors."""
    signature = inspect.signature(function)
    dtype = inspect.Parameter("dtype", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any")
    parameters = [*signature.parameters.values(), dtype]
    setattr(build, "__signature__", signature.replace(parameters=parameters))  # noqa: B010
    return build


def _dtype_first(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to accept its first argument, a dtype, as ``dtype=``."""

    @functools.wraps(function)
    def build(*args: Any, dtype: Any = None, **keywords: Any) -> Any:
        return function(*args, **keywords) if dtype is None else function(dtype, *args, **keywords)

    return build


def _binary_member(name: str, cls: type[BinaryExpr]) -> Callable[[Any, Any], PrimExpr]:
    def build(a: Any, b: Any) -> PrimExpr:
        operands = operators.of_one_width(operators.as_operand(a), operators.as_operand(b))
        return binary(cls, *operands, fold=False)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{cls.__name__} of two operands, which are brought to one dtype."
    return build


def select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:
    """Select one of two values; both may be evaluated."""
    a, b = match_dtypes(true_value, false_value)
    return Select(convert(condition), a, b)


def if_then_else(cond: Any, t: Any, f: Any) -> PrimExpr:
    """`t` if `cond` else `f`; only the selected value is evaluated."""
    a, b = match_dtypes(t, f)
    condition = convert(cond)
    if not condition.dtype.is_bool:
        raise TypeError(f"the condition has dtype {condition.dtype!s}, expected bool")
    return Call(a.dtype, "tir.if_then_else", (condition, a, b))


def all_(*args: Any) -> PrimExpr:
    """The conjunction."""
    return _joined(And, args)


def any_(*args: Any) -> PrimExpr:
    """The disjunction."""
    return _joined(Or, args)


def _joined(cls: type[And] | type[Or], args: tuple[Any, ...]) -> PrimExpr:
    if not args:
        raise TypeError("at least one condition is needed")
    result = convert(args[0])
    for arg in args[1:]:
        result = cls(result, convert(arg))
    return result


def not_(a: Any) -> PrimExpr:
    """The negation of a bool."""
    return Not(convert(a))


def ramp(base: Any, stride: Any, lanes: int) -> Ramp:
    """The vector base, base + stride, …"""
    a, b = match_dtypes(base, stride)
    return Ramp(a, b, lanes)


def broadcast(value: Any, lanes: int) -> Broadcast:
    """A vector of equal elements."""
    return Broadcast(value, lanes)


def shuffle(vectors: Any, indices: Any) -> Shuffle:
    """Lanes of vectors, in the order of the indices."""
    return Shuffle(tuple(vectors), tuple(indices))


def call_extern(dtype: str, func_name: str, *args: Any) -> Call:
    """A call of a C function by its symbol."""
    return intrin.call_extern(dtype_of(dtype), func_name, *map(pointers, args))


def call_pure_extern(dtype: str, func_name: str, *args: Any) -> Call:
    """A call of a side-effect-free C function."""
    return intrin.call_pure_extern(dtype_of(dtype), func_name, *map(pointers, args))


def call_llvm(name: str) -> Callable[..., Call]:
    """Raise an error for an intrinsic of one compiler back end, which is not supported."""

    def build(*args: Any, **keywords: Any) -> Call:
        raise TypeError("intrinsics of LLVM are not part of the language; use T.call_extern or a function of T")

    build.__name__ = build.__qualname__ = name
    return build


def call_packed(func_name: str, *args: Any, dtype: str = "int32") -> Call:
    """A call of a packed function by its registered name."""
    return intrin.call_packed(func_name, *map(pointers, args), dtype=dtype)


def call_intrin(dtype: str, op: Any, *args: Any) -> Call:
    """A call of any intrinsic by name."""
    return intrin.call_intrin(dtype_of(dtype), op, *map(pointers, args))


def _unfolded(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of one float to build a call also for constants, without folding."""

    def build(x: Any) -> PrimExpr:
        operand = convert(x)
        if operand.dtype.is_float:
            result = own(operand).dtype
            return Call(result, f"tir.{name}", (operand,))
        return own(operand)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = own.__doc__
    return build


def string(text: str) -> StringImm:
    """A string."""
    return StringImm(text)


@functools.cache
def expression_members() -> dict[str, Any]:
    """Members of the namespace that build expressions."""
    members: dict[str, Any] = {name: getattr(intrin, name) for name in intrin.__all__ if name != "is_pure"}
    members.update(instructions.MEMBERS)
    members.update(cells.MEMBERS)
    members.update({name: _of_pointers(function) for name, function in pointer_intrinsics.MEMBERS.items()})
    for name in ("floor", "ceil", "trunc", "round", "nearbyint", "isnan", "isinf", "isfinite", "abs", "fabs"):
        members[name] = _unfolded("abs" if name == "fabs" else name, getattr(intrin, name))
    members.update({name: _binary_member(name, cls) for name, cls in _BINARY.items()})
    members.update(
        {
            "Not": not_, "all": all_, "any": any_, "Select": select, "if_then_else": if_then_else,
            "Ramp": ramp, "Broadcast": broadcast, "ramp": ramp, "broadcast": broadcast,
            "Shuffle": shuffle,
            "call_extern": call_extern, "call_pure_extern": call_pure_extern, "call_packed": call_packed,
            "call_intrin": call_intrin, "StringImm": string, "reinterpret": reinterpret,
            "type_annotation": type_annotation, "undef": undef, "address_of": intrin.address_of,
            "tvm_access_ptr": tvm_access_ptr, "ret": intrin.ret,
        }
    )  # fmt: skip
    for name, function in members.items():
        if name in _DTYPE_FIRST:
            members[name] = _dtype_first(function)
        elif name not in _OWN_DTYPE:
            members[name] = _checked_dtype(function)
    members["call_cpacked"] = members["call_packed"]
    for name in ("call_llvm_intrin", "call_llvm_pure_intrin"):
        members[name] = call_llvm(name)
    return members


_DTYPE_FIRST = frozenset({
    "call_extern", "call_pure_extern", "call_intrin", "reinterpret", "call_pointer", "atomic_load",
})  # fmt: skip
_OWN_DTYPE = frozenset({
    "call_packed", "cast", "infinity", "max_value", "min_value", "nan", "type_annotation", "undef",
})  # fmt: skip


def _of_pointers(function: Callable[..., Call]) -> Callable[..., Call]:
    """Wrap an intrinsic of plain functions to accept buffers, structs and plain functions as pointers."""

    @functools.wraps(function)
    def build(*args: Any) -> Call:
        return function(
            *(str(arg.attrs["global_symbol"]) if isinstance(arg, BaseFunc) else pointers(arg) for arg in args)
        )

    return build


def type_annotation(dtype: Any) -> Call:
    """A dtype, as an argument of an intrinsic."""
    return intrin.type_annotation(dtype_of(dtype))


def undef(dtype: Any = "float32") -> Call:
    """An undefined value."""
    return intrin.undef(dtype_of(dtype))


def tvm_access_ptr(ptype: Any, data: Any, offset: Any, extent: Any, rw_mask: Any) -> Call:
    """Pointer to an element of a buffer's data, at an offset."""
    kind = ptype if isinstance(ptype, Call) else dtype_of(ptype)
    return intrin.tvm_access_ptr(kind, pointers(data), offset, extent, rw_mask)


def reinterpret(dtype: str, value: Any) -> PrimExpr:
    """Reinterpret the bits of a value as another dtype."""
    return intrin.reinterpret(dtype_of(dtype), value)


__all__ = ["expression_members"]
