"""Conversions between element types.

Integers wrap around; floats are truncated to integers, saturating, with NaN as 0; every nonzero value converts to true.
Floats are rounded to nearest, ties to even.
"""

from __future__ import annotations

from ..ir import DataType
from ..native.builder import vector
from ..native.formula import Val, suffix
from ..native.types import element_type, is_small_float
from .context import Context


def rounded(cx: Context, dtype: DataType, value: Val) -> Val:
    """Round the result of an operation to `dtype` if that is a small float; otherwise unchanged."""
    return cx.unit.small_floats.round(dtype, value) if is_small_float(dtype) else value


def one_of(cx: Context, dtype: DataType, value: Val) -> Val:
    """Result of an expression that selects one of its operands: a small float is already rounded."""
    return cx.unit.small_floats.known(dtype, value) if is_small_float(dtype) else value


def convert(cx: Context, value: Val, source: DataType, target: DataType) -> Val:
    """Convert a value between dtypes."""
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
    if value.lanes > 1 and target.bits <= 32:
        return _saturate_lanes(value, target)
    kind = "fptoui" if target.is_uint else "fptosi"
    result = f"i{target.bits}"
    result_type = vector(result, value.lanes)
    name = f"llvm.{kind}.sat.{suffix(result, value.lanes)}.{suffix(value.type, value.lanes)}"
    function = value.b.module.intrinsic(name, result_type, value.full_type)
    return value.make(f"call {result_type} {function}({value.full_type} {value.ref})", result)


def _saturate_lanes(value: Val, target: DataType) -> Val:
    """Saturating conversion of a vector. LLVM scalarises its own; clamp first, then convert."""
    least, most = int(target.min_value), int(target.max_value)
    digits = 53 if value.type == "double" else 24
    # The greatest float that is not above the greatest integer: of int32 it is not the integer itself.
    below = most >> max(most.bit_length() - digits, 0) << max(most.bit_length() - digits, 0)
    clamped = value.lt(least).choose(float(least), value)
    clamped = clamped.gt(below).choose(float(below), clamped)
    clamped = value.is_nan().choose(0.0, clamped)
    unsigned = target.is_uint and target.bits == 32
    whole = clamped.to("i32", signed=not unsigned)
    if below != most:
        whole = value.gt(below).choose(whole.constant(most), whole)
    return whole.to(f"i{target.bits}")
