"""Element-wise formulas of one tensor.

Inexact functions of narrow floats (16 and 8 bits) are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..ir import DataType
from ..prim import FloatImm, IntImm, PrimExpr, Select, const, intrin
from ..prim import cast as cast_expr
from .util import truth

Scalar = Callable[[Any], PrimExpr]
Formula = Callable[[te.Tensor], te.Tensor]


def elementwise(x: te.Tensor, name: str, function: Scalar) -> te.Tensor:
    """Apply `function` to each element."""
    return te.compute(x.shape, lambda *i: function(x(*i)), name, tag="elemwise")


def _through_float32(dtype: DataType, function: Scalar) -> Scalar:
    if not dtype.is_float or dtype.bits >= 32:
        return function
    return lambda value: cast_expr(dtype, function(cast_expr("float32", value)))


def _function(name: str, function: Scalar, doc: str) -> Formula:
    def formula(x: te.Tensor) -> te.Tensor:
        return elementwise(x, f"T_{name}", _through_float32(x.dtype, function))

    formula.__name__ = formula.__qualname__ = name
    formula.__doc__ = doc
    return formula


def _whole(function: Scalar) -> Scalar:
    """Wrap a function that rounds numbers: booleans are returned unchanged."""
    return lambda value: value if value.dtype.is_bool else function(value)


def _test(function: Scalar, of_bools: bool) -> Scalar:
    """Wrap a test of numbers, with its constant result for booleans."""
    return lambda value: const(of_bools, "bool") if value.dtype.is_bool else function(value)


exp = _function("exp", intrin.exp, "e to the power x.")
log = _function("log", intrin.log, "The natural logarithm.")
sqrt = _function("sqrt", intrin.sqrt, "The square root.")
rsqrt = _function("rsqrt", intrin.rsqrt, "1 / sqrt(x).")
sigmoid = _function("sigmoid", intrin.sigmoid, "1 / (1 + exp(-x)).")
erf = _function("erf", intrin.erf, "The error function.")
erfc = _function("erfc", intrin.erfc, "1 - erf(x), exact where erf(x) is near 1.")
sin = _function("sin", intrin.sin, "The sine.")
cos = _function("cos", intrin.cos, "The cosine.")
tan = _function("tan", intrin.tan, "The tangent.")
asin = _function("asin", intrin.asin, "The inverse sine.")
acos = _function("acos", intrin.acos, "The inverse cosine.")
atan = _function("atan", intrin.atan, "The inverse tangent.")
sinh = _function("sinh", intrin.sinh, "The hyperbolic sine.")
cosh = _function("cosh", intrin.cosh, "The hyperbolic cosine.")
tanh = _function("tanh", intrin.tanh, "The hyperbolic tangent.")
asinh = _function("asinh", intrin.asinh, "The inverse hyperbolic sine.")
acosh = _function("acosh", intrin.acosh, "The inverse hyperbolic cosine.")
atanh = _function("atanh", intrin.atanh, "The inverse hyperbolic tangent.")
floor = _function("floor", _whole(intrin.floor), "The greatest whole number ≤ x; an integer as it is.")
ceil = _function("ceil", _whole(intrin.ceil), "The least whole number ≥ x; an integer as it is.")
trunc = _function("trunc", _whole(intrin.trunc), "x without its fraction; an integer as it is.")
round = _function("round", intrin.nearbyint, "The nearest whole number, halves to even; an integer as it is.")


def abs(x: te.Tensor) -> te.Tensor:
    """The magnitude; of the least value of a signed type, that value (two's complement)."""
    return elementwise(x, "T_abs", intrin.abs)


def negative(x: te.Tensor) -> te.Tensor:
    """-x; integers wrap around."""
    return elementwise(x, "T_negative", lambda v: -v)


def identity(x: te.Tensor) -> te.Tensor:
    """A copy."""
    return elementwise(x, "T_identity", lambda v: v)


def sign(x: te.Tensor) -> te.Tensor:
    """-1, 0 or 1 as x is below, at or above 0; NaN stays NaN."""
    if x.dtype.is_bool:
        return identity(x)
    one, zero = const(1, x.dtype), const(0, x.dtype)
    if x.dtype.is_uint:
        return elementwise(x, "T_sign", lambda v: Select(v > zero, one, zero))
    minus = const(-1, x.dtype)
    if x.dtype.is_int:
        return elementwise(x, "T_sign", lambda v: Select(v > zero, one, Select(v < zero, minus, zero)))
    return elementwise(
        x, "T_sign", lambda v: Select(v > zero, one, Select(v < zero, minus, Select(intrin.isnan(v), v, zero)))
    )


def square(x: te.Tensor) -> te.Tensor:
    """x · x; integers wrap around."""
    return elementwise(x, "T_square", lambda v: v * v)


def isnan(x: te.Tensor) -> te.Tensor:
    """True if x is not a number; an integer is one."""
    return elementwise(x, "T_isnan", _test(intrin.isnan, False))


def isinf(x: te.Tensor) -> te.Tensor:
    """True if x is an infinity."""
    return elementwise(x, "T_isinf", _test(intrin.isinf, False))


def isfinite(x: te.Tensor) -> te.Tensor:
    """True if x is neither infinite nor NaN."""
    return elementwise(x, "T_isfinite", _test(intrin.isfinite, True))


def logical_not(x: te.Tensor) -> te.Tensor:
    """True for 0 and False."""
    return elementwise(x, "T_logical_not", lambda v: intrin.logical_not(truth(v)))


def bitwise_not(x: te.Tensor) -> te.Tensor:
    """All bits flipped; of a bool, its negation."""
    return elementwise(x, "T_bitwise_not", intrin.bitwise_not)


def cast(x: te.Tensor, dtype: str) -> te.Tensor:
    """x converted to a dtype: floats to integers truncate and saturate, NaN becomes 0; non-zero is True."""
    target = DataType(dtype)
    return elementwise(x, "T_cast", lambda v: cast_expr(target, v))


def clip(x: te.Tensor, min: Any, max: Any) -> te.Tensor:
    """min(max(x, min), max): NaN stays NaN, and where min > max the result is max.

    Bounds outside an integer dtype's range have no effect, as those outside 0 and 1 for booleans.
    """
    if x.dtype.is_bool:
        low, high = (cast_expr("bool", _bound(bound, DataType("uint1"))) for bound in (min, max))
        return elementwise(x, "T_clip", lambda v: (v | low) & high)
    low, high = _bound(min, x.dtype), _bound(max, x.dtype)
    return elementwise(x, "T_clip", lambda v: intrin.min(intrin.max(v, low), high))


def _bound(value: Any, dtype: DataType) -> PrimExpr:
    """Convert a bound to the dtype of the clipped values, saturating."""
    expr = value if isinstance(value, PrimExpr) else const(value)
    if dtype.is_float or expr.dtype == dtype:
        return cast_expr(dtype, expr)
    low, high = int(dtype.min_value), int(dtype.max_value)
    if isinstance(expr, FloatImm):
        limited = low if expr.value <= low else high if expr.value >= high else int(expr.value)
        return const(limited, dtype)
    if isinstance(expr, IntImm):
        return const(low if expr.value < low else high if expr.value > high else expr.value, dtype)
    if expr.dtype.is_integer and expr.dtype.bits <= 64:
        for limit, pick in ((low, intrin.max), (high, intrin.min)):
            if expr.dtype.min_value <= limit <= expr.dtype.max_value:
                expr = pick(expr, const(limit, expr.dtype))
    return cast_expr(dtype, expr)


te.register_tensor_arithmetic(cast=cast)


def reinterpret(x: te.Tensor, dtype: str) -> te.Tensor:
    """The bits of x read as another dtype; the last axis has as many elements as hold them, lower bits first.

    A bool is a byte, and a byte other than 0 is True.
    """
    target = DataType(dtype)
    held, read = (DataType("uint8") if one.is_bool else one for one in (x.dtype, target))
    narrow, wide = (DataType(f"uint{bits}") for bits in sorted((held.bits, read.bits)))
    count = wide.bits // narrow.bits

    def bits(unsigned: DataType, *i: Any) -> PrimExpr:
        return intrin.reinterpret(str(unsigned), cast_expr(held, x(*i)))

    def word(*i: Any) -> PrimExpr:
        """Bits of one element of the result."""
        if count == 1:
            return bits(wide, *i)
        *lead, last = i
        if held.bits > read.bits:
            return cast_expr(narrow, bits(wide, *lead, last // count) >> cast_expr(wide, last % count * narrow.bits))
        result = cast_expr(wide, bits(narrow, *lead, last * count))
        for j in range(1, count):
            result = result | (cast_expr(wide, bits(narrow, *lead, last * count + j)) << (j * narrow.bits))
        return result

    shape = list(x.shape)
    if count > 1:
        shape[-1] = shape[-1] * count if held.bits > read.bits else shape[-1] // count
    return te.compute(shape, lambda *i: cast_expr(target, intrin.reinterpret(str(read), word(*i))), "T_reinterpret")
