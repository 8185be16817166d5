"""Values of the script as scalar expressions."""

from __future__ import annotations

from typing import Any

from ....ir import DataType
from ....prim import Cast, FloatImm, IntImm, PrimExpr, const, convert
from ....tir.buffer import Broadcast, IterVar


class Meta:
    """``T.meta_var(x)``: a name for a parse-time value, instead of a variable of the program."""

    def __init__(self, value: Any) -> None:
        self.value = value


def converted(value: Any) -> Any:
    """Convert an iteration variable to its variable; other values are unchanged."""
    return value.var if isinstance(value, IterVar) else value


def stored_value(value: Any, dtype: DataType, name: str) -> PrimExpr:
    """Convert a value for a store to a buffer or variable of `dtype`.

    Numbers take the dtype; expressions are converted within a kind (integers, floats) and from integers to floats.
    Raises TypeError for the rest.
    """
    if not isinstance(value, PrimExpr) and not hasattr(value, "asobject"):
        number = convert(value)
        if isinstance(number, (IntImm, FloatImm)) and not dtype.is_handle:
            constant = const(number.value, dtype.element_of)
            return constant if dtype.lanes == 1 else Broadcast(constant, dtype.lanes)
    expr = convert(value)
    if expr.dtype == dtype:
        return expr
    if expr.dtype.lanes == 1 and dtype.lanes > 1 and expr.dtype == dtype.element_of:
        return Broadcast(expr, dtype.lanes)
    actual, wanted = expr.dtype, dtype
    if actual.lanes == wanted.lanes and (
        (actual.is_integer and wanted.is_integer)
        or (actual.is_float and wanted.is_float)
        or ((actual.is_integer or actual.is_bool) and (wanted.is_float or wanted.is_integer))
    ):
        return Cast(dtype, expr)
    raise TypeError(f"{name} holds {dtype!s}, the value is {expr.dtype!s}; cast it")


__all__ = ["Meta", "converted", "stored_value"]
