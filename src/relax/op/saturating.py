"""Saturating conversions to narrow floats, where `astype` yields infinity or NaN.

    saturating_astype(x, "float8_e4m3fn")   =  astype(clip(x, -448, 448), "float8_e4m3fn")

NaN stays NaN (in float4_e2m1fn, which has none, it is 0). float8_e8m0fnu has no zero and no sign: numbers below its
least value, 2⁻¹²⁷, become that value, and `rounding` selects between the two adjacent powers.
"""

from __future__ import annotations

from typing import Any

from ..ir import DataType, Diagnostic, DiagnosticError, RelaxExpr
from ..struct_info import TensorStructInfo
from .errors import ATTRIBUTES, DTYPES
from .known import known_struct_info
from .operator import composite, public_function

_ROUNDINGS = ("nearest", "up", "down")


@composite("relax.saturating_astype")
def saturating_astype(x: RelaxExpr, dtype: str, rounding: str = "nearest") -> RelaxExpr:
    """Convert x to a float of 8 or 4 bits; values beyond its range, infinities included, become its extreme values.

    `rounding` is "nearest"; for float8_e8m0fnu also "up" or "down", to the next power of two.
    """
    target, source = DataType(dtype), _dtype_of(x)
    powers = target == "float8_e8m0fnu"
    if not target.is_float or target.bits > 8 or target.lanes != 1:
        raise _error(ATTRIBUTES, f"dtype must be a float of 8 or 4 bits, found {dtype!r}", "R.astype converts")
    if rounding not in _ROUNDINGS or not (powers or rounding == "nearest"):
        wanted = "'nearest', 'up' or 'down'" if powers else f"'nearest' for {dtype}"
        raise _error(ATTRIBUTES, f"rounding must be {wanted}, found {rounding!r}", "")
    if source.is_void:
        hint = "R.match_cast states a dtype that is only known at run time"
        raise _error(DTYPES, "the dtype of x is not known", hint)
    # Numbers within the range of the target are exact in float32, but for those of float64.
    wide = source if source == "float64" else DataType("float32")
    value = x if source == wide else _apply("astype", x, wide)
    least = 2.0**-127 if powers else -target.max_finite
    value = _apply("clip", value, least, target.max_finite)
    return _apply("astype", value if rounding == "nearest" else _to_power(value, wide, rounding), target)


def _to_power(value: RelaxExpr, wide: DataType, rounding: str) -> RelaxExpr:
    """Round numbers in [2⁻¹²⁷, 2¹²⁷] to powers of two, up, down or to nearest."""
    nearest = _apply("astype", _apply("astype", value, "float8_e8m0fnu"), wide)
    compare, factor = ("less", 2.0) if rounding == "up" else ("greater", 0.5)
    return _apply("where", _apply(compare, nearest, value), _apply("multiply", nearest, factor), nearest)


def _dtype_of(x: RelaxExpr) -> DataType:
    info = known_struct_info(x)
    return info.dtype if isinstance(info, TensorStructInfo) else DataType("")


def _apply(name: str, *operands: Any) -> RelaxExpr:
    function = public_function(f"relax.{name}")
    assert function is not None
    return function(*operands)


def _error(code: str, message: str, hint: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(code, f"saturating_astype: {message}", hint=hint))
