"""Element-wise formulas of three tensors."""

from __future__ import annotations

from typing import Any

from .. import te
from ..ir import DataType
from ..prim import PrimExpr
from ..prim import cast as cast_expr
from .broadcast import broadcast_shape, read_broadcast
from .util import accumulator_dtype


def ewise_fma(x1: te.Tensor, x2: te.Tensor, x3: te.Tensor) -> te.Tensor:
    """x1 · x2 + x3; product and sum are each rounded; 16- and 8-bit floats are computed in float32 and rounded once
    more.
    """
    tensors = (x1, x2, x3)
    shape = broadcast_shape(*(x.shape for x in tensors))
    wide: DataType = accumulator_dtype(x1.dtype)

    def value(*i: Any) -> PrimExpr:
        a, b, c = (cast_expr(wide, read_broadcast(x, shape, i)) for x in tensors)
        return cast_expr(x1.dtype, a * b + c)

    return te.compute(shape, value, "T_ewise_fma", tag="broadcast")
