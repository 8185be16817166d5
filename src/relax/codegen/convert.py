"""Conversions between element types.

Integers wrap; floats go to integers by truncation, saturating, NaN to 0; anything but zero is true. Floats are
rounded to nearest, ties to even.
"""

from __future__ import annotations

from ..ir import DataType
from .builder import vector
from .context import Context
from .formula import Val, suffix
from .types import element_type, is_small_float


def rounded(cx: Context, dtype: DataType, value: Val) -> Val:
    """The result of an operation on the dtype: of a small float, rounded to it."""
    return cx.unit.small_floats.round(dtype, value) if is_small_float(dtype) else value


def convert(cx: Context, value: Val, source: DataType, target: DataType) -> Val:
    """A value of one dtype as another."""
    if source == target:
        return value
    if target.is_bool:
        return value.ne(value.constant(0))
    if target.is_float:
        return _to_float(cx, value, source, target)
    if target.is_integer:
        if source.is_float:
            return _saturate(value, target)
        return value.to(element_type(target), signed=source.is_int)
    cx.report("E5904", f"a {source!s} cannot be converted to {target!s}")
    return cx.anything(target)


def _to_float(cx: Context, value: Val, source: DataType, target: DataType) -> Val:
    small = is_small_float(target)
    if not source.is_float:
        if small:
            return cx.unit.small_floats.from_integer(target, value, source.is_int)
        return value.to(element_type(target), signed=source.is_int)
    if small and value.type == "double":
        return cx.unit.small_floats.from_double(target, value)
    return rounded(cx, target, value.to(element_type(target)))


def _saturate(value: Val, target: DataType) -> Val:
    kind = "fptoui" if target.is_uint else "fptosi"
    result = f"i{target.bits}"
    result_type = vector(result, value.lanes)
    name = f"llvm.{kind}.sat.{suffix(result, value.lanes)}.{suffix(value.type, value.lanes)}"
    function = value.b.module.intrinsic(name, result_type, value.full_type)
    return value.make(f"call {result_type} {function}({value.full_type} {value.ref})", result)
