"""Struct info guaranteed before a check, and the names of checks."""

from __future__ import annotations

from ..expr import Call, ExternFunc, VarBinding
from ..ir import RelaxExpr, StructInfo, same_vdevice
from ..runtime.builtin_table import BUILTINS
from ..struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo


def guaranteed(value: RelaxExpr) -> StructInfo:
    """The struct info sure of a bound value. A packed function may return anything, whatever its call declares."""
    if isinstance(value, Call) and isinstance(value.op, ExternFunc):
        builtin = BUILTINS.get(value.op.global_symbol)
        if builtin is None or not builtin.trusted:
            return ObjectStructInfo()
    return value.struct_info_ or ObjectStructInfo()


def claim(binding: VarBinding) -> str:
    """The name of a binding's check."""
    value = binding.value
    if isinstance(value, Call) and isinstance(value.op, ExternFunc):
        name = value.op.global_symbol
        enters = name in BUILTINS and BUILTINS[name].enters
        return f"the result of {name_of(value.args[0]) if enters else name}"
    return f"the value of {binding.var.name_hint}"


def name_of(value: RelaxExpr) -> str:
    """The name of a value in messages."""
    return getattr(value, "name_hint", "a function" if isinstance(value, ExternFunc) else "a value")


def same_kind(info: StructInfo, known: StructInfo) -> bool:
    """True if kind, rank, length and dtype of a value are known to be as `info` says."""
    match info, known:
        case (TensorStructInfo(_, dtype, vdevice), TensorStructInfo(_, known_dtype, known_vdevice)):
            placed = vdevice is None or same_vdevice(vdevice, known_vdevice)
            return placed and info.ndim in (-1, known.ndim) and dtype in ("", known_dtype)
        case (ShapeStructInfo(_, ndim), ShapeStructInfo(_, known_ndim)):
            return ndim in (-1, known_ndim)
        case (PrimStructInfo(dtype), PrimStructInfo(known_dtype)):
            return dtype == known_dtype
        case (TupleStructInfo(fields), TupleStructInfo(known_fields)):
            return len(fields) == len(known_fields)
        case _:
            return False
