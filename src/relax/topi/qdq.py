"""Formulas of quantization: floats as integers (or floats of 8 or 4 bits) with a scale and a zero point."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .. import te
from ..ir import DataType
from ..prim import Let, PrimExpr, Select, Var, const, intrin, is_const
from ..prim import cast as cast_expr
from ..prim.instructions import fma
from .broadcast import broadcast_index
from .util import normalize_axis


def _along(parameter: te.Tensor, data: te.Tensor, axis: int, index: Sequence[Any]) -> PrimExpr:
    """Scale or zero point of an element: a scalar, or one per index along the axis."""
    if not parameter.ndim:
        return parameter()
    size = parameter.shape[0]
    if is_const(size, 1):
        return parameter(const(0, "int64"))
    axis = normalize_axis(axis, data.ndim)
    return parameter(*broadcast_index([size], [data.shape[axis]], [index[axis]]))


def quantize(
    data: te.Tensor, scale: te.Tensor, zero_point: te.Tensor, axis: int = -1, out_dtype: str = "int8"
) -> te.Tensor:
    """round(data / scale) + zero_point, halves to even, saturating at the limits of out_dtype."""
    target = DataType(out_dtype)
    divided = DataType("float64" if "float64" in (data.dtype, scale.dtype) else "float32")
    # A sum of numbers of 16 bits has at most 17, and float32 holds 24.
    added = DataType("float64") if target.bits > 16 or zero_point.dtype.bits > 16 else divided

    def element(*i: Any) -> PrimExpr:
        quotient = cast_expr(divided, data(*i)) / cast_expr(divided, _along(scale, data, axis, i))
        zero = cast_expr(added, _along(zero_point, data, axis, i))
        if target.is_float:
            limit = const(target.max_finite, added)
            total = cast_expr(added, quotient) + zero
            return cast_expr(target, intrin.max(intrin.min(total, limit), -limit))
        return cast_expr(target, cast_expr(added, intrin.nearbyint(quotient)) + zero)

    return te.compute(data.shape, element, "quantized", tag="elemwise")


WHOLE: Final = 1.5 * 2.0**23
"""Float32 constant whose addition rounds a small float to an integer, held by the low bits of the sum."""
WHOLE_BITS: Final = 0x4B400000
"""Bits of `WHOLE`; those of its sum with an integer are greater by the integer."""


def quantize_by_reciprocal(
    data: te.Tensor, high: te.Tensor, low: te.Tensor, least: te.Tensor, offset: te.Tensor, out_dtype: str = "int8"
) -> te.Tensor:
    """`quantize` of float32 by a constant scale to an integer of 8 bits.

    `high` + `low` approximates the scale's reciprocal; `least` is the lower limit of the dtype minus the zero point,
    `offset` the zero point minus `WHOLE_BITS`. Rounding adds `WHOLE`. From `least` on, the bits of sums increase
    monotonically, so the upper limit is applied to integers.
    """
    target = DataType(out_dtype)

    def element(*i: Any) -> PrimExpr:
        value, quotient = Var("value", "float32"), Var("quotient", "float32")
        result = _rounded(quotient, least(), offset(), target)
        return Let(value, data(*i), Let(quotient, fma(value, high(), value * low()), result))

    return te.compute(data.shape, element, "quantized", tag="elemwise")


def quantize_by_one(data: te.Tensor, least: te.Tensor, offset: te.Tensor, out_dtype: str = "int8") -> te.Tensor:
    """`quantize_by_reciprocal` for the scale 1."""
    target = DataType(out_dtype)

    def element(*i: Any) -> PrimExpr:
        value = Var("value", "float32")
        return Let(value, data(*i), _rounded(value, least(), offset(), target))

    return te.compute(data.shape, element, "quantized", tag="elemwise")


def _rounded(quotient: Var, least: PrimExpr, offset: PrimExpr, target: DataType) -> PrimExpr:
    """Convert a float to an integer of 8 bits; parameters as of `quantize_by_reciprocal`."""
    wide = DataType("uint32" if target.is_uint else "int32")
    limited = Select(quotient > least, quotient, least)  # the least for NaN too
    whole = intrin.reinterpret("int32", limited + const(WHOLE, "float32")) + offset
    number = intrin.reinterpret("uint32", whole) if target.is_uint else whole
    result = cast_expr(target, intrin.min(number, const(target.max_value, wide)))
    return result if target.is_uint else Select(intrin.isnan(quotient), const(0, target), result)


def add_quantized(
    left: te.Tensor,
    right: te.Tensor,
    factor: te.Tensor,
    other: te.Tensor,
    start: te.Tensor,
    least: te.Tensor,
    offset: te.Tensor,
    out_dtype: str = "int8",
) -> te.Tensor:
    """Quantised sum of two quantised tensors, by two fused multiply-adds (`relax.op.byte_sums`).

    `factor`, `other` and `start` are their constants; the remaining parameters are those of `quantize_by_reciprocal`.
    """

    def element(*i: Any) -> PrimExpr:
        a, b = (cast_expr("float32", operand(*i)) for operand in (left, right))
        return _quantized_sum(a, b, (factor(), other(), start()), (least(), offset()), DataType(out_dtype))

    return te.compute(left.shape, element, "added", tag="elemwise")


def add_rounded(
    data: te.Tensor,
    right: te.Tensor,
    low: te.Tensor,
    high: te.Tensor,
    factor: te.Tensor,
    other: te.Tensor,
    start: te.Tensor,
    least: te.Tensor,
    offset: te.Tensor,
    out_dtype: str = "int8",
) -> te.Tensor:
    """`add_quantized` fused with a preceding quantisation by scale 1 between the limits `low` and `high`.

    The quantised integers stay floats. NaN in the data becomes `low`.
    """

    def element(*i: Any) -> PrimExpr:
        value = Var("value", "float32")
        above = Select(value > low(), value, low())  # no NaN, so that a choice is the lesser one
        whole = intrin.nearbyint(Select(above < high(), above, high()))
        numbers = factor(), other(), start()
        result = _quantized_sum(
            whole, cast_expr("float32", right(*i)), numbers, (least(), offset()), DataType(out_dtype)
        )
        return Let(value, data(*i), result)

    return te.compute(data.shape, element, "added", tag="elemwise")


def _quantized_sum(
    a: PrimExpr,
    b: PrimExpr,
    numbers: tuple[PrimExpr, PrimExpr, PrimExpr],
    limits: tuple[PrimExpr, PrimExpr],
    target: DataType,
) -> PrimExpr:
    factor, other, start = numbers
    total = Var("total", "float32")
    return Let(total, fma(a, factor, fma(b, other, start)), _rounded(total, *limits, target))


def dequantize(
    data: te.Tensor, scale: te.Tensor, zero_point: te.Tensor, axis: int = -1, out_dtype: str = "float32"
) -> te.Tensor:
    """(data - zero_point) · scale: of integers the difference is exact, and the product is rounded."""
    target = DataType(out_dtype)
    wide = DataType("float64" if "float64" in (target, scale.dtype) else "float32")
    whole = data.dtype.is_integer and zero_point.dtype.is_integer
    narrow = max(data.dtype.bits, zero_point.dtype.bits) <= 16
    exact = DataType("int32" if narrow else "int64") if whole else wide

    def element(*i: Any) -> PrimExpr:
        zero = cast_expr(exact, _along(zero_point, data, axis, i))
        difference = cast_expr(wide, cast_expr(exact, data(*i)) - zero)
        return cast_expr(target, difference * cast_expr(wide, _along(scale, data, axis, i)))

    return te.compute(data.shape, element, "dequantized", tag="elemwise")


def dequantize_narrow(data: te.Tensor, scale: te.Tensor, zero_point: te.Tensor) -> te.Tensor:
    """`dequantize` of 8-bit integers to float32, with scalar scale and int32 zero point."""

    def element(*i: Any) -> PrimExpr:
        difference = cast_expr(DataType("int32"), data(*i)) - zero_point()
        return cast_expr(DataType("float32"), difference) * scale()

    return te.compute(data.shape, element, "dequantized", tag="elemwise")
