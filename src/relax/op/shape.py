"""The shape of an expression, as far as it is known while a program is built."""

from __future__ import annotations

from ..ir import RelaxExpr
from ..struct_info import TensorStructInfo
from .intrinsics import ShapeOf
from .known import known_struct_info


def get_shape_of(expr: RelaxExpr) -> RelaxExpr:
    """Return the shape from struct info, a ShapeExpr or the variable that holds it; otherwise a call of shape_of.

    Raises TypeError for an expression that is known to be no tensor.
    """
    info = known_struct_info(expr)
    if isinstance(info, TensorStructInfo) and info.shape is not None:
        return info.shape
    if info is not None and not isinstance(info, TensorStructInfo):
        raise TypeError(f"get_shape_of: expected a tensor, found {info}")
    return ShapeOf().raw_call((expr,))
