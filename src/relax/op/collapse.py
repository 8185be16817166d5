"""Operators that undo broadcasting: the sum over the dimensions along which a shape was repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import topi
from ..expr import Call
from ..info.text import prim_text
from ..prim import PrimExpr
from ..struct_info import ShapeStructInfo, TensorStructInfo
from .base import Gradients, Term
from .dims import require_stretch
from .errors import SHAPES, OperatorError
from .facts import Exactness
from .gradients import apply, dims_of, is_float
from .operator import Array, Operator, operator
from .shapes import require_sizes, shaped
from .statistical import count_dtype, counted


class Collapse(Operator):
    """Base of collapse_sum_like and collapse_sum_to."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.INTEGERS

    def require_collapsible(
        self, data: TensorStructInfo, dims: Sequence[PrimExpr] | None, ndim: int, operand: str
    ) -> None:
        """Raise OperatorError if the shape does not broadcast to that of `data`."""
        if -1 not in (data.ndim, ndim) and ndim > data.ndim:
            message = f"{operand} has {ndim} dimensions, more than the {data.ndim} of data"
            raise OperatorError(SHAPES, message, operand=operand)
        if data.dims is None or dims is None:
            return
        for d in range(1, len(dims) + 1):
            size, full = dims[-d], data.dims[-d]
            dimension = f"dimension {len(dims) - d} of {operand}"
            message = f"{dimension} is {prim_text(size)}, to which {prim_text(full)} does not collapse"
            hint = "a size must be 1 or that of data"
            require_stretch(size, full, OperatorError(SHAPES, message, operand=operand, hint=hint))

    def spread_gradient(self, operands: Sequence[Term], grad: Term) -> Gradients | None:
        data = operands[0]
        dims = dims_of(data)
        if not is_float(data):
            return (None, None)
        if dims is None:
            return None
        return (apply("broadcast_to", grad, dims), None)


def collapsed_to(data: Array, shape: Sequence[int]) -> Array:
    """Sum an array to a shape that broadcasts to its own; narrow floats are accumulated in float32."""
    data = counted(data)
    new = data.ndim - len(shape)
    repeated = [d for d, size in enumerate(shape, new) if size != data.shape[d]]
    wide = data.astype(np.float32) if data.dtype.itemsize < 4 and data.dtype.kind in "fV" else data
    total: Array = np.sum(wide, (*range(new), *repeated), dtype=wide.dtype)
    return np.reshape(total, tuple(shape)).astype(data.dtype)


@operator("relax.collapse_sum_like")
class CollapseSumLike(Collapse):
    """data summed to the shape of collapse_target, which broadcasts to that of data."""

    def infer(self, data: TensorStructInfo, collapse_target: TensorStructInfo) -> TensorStructInfo:
        self.require_collapsible(data, collapse_target.dims, collapse_target.ndim, "collapse_target")
        shape = collapse_target.shape
        return TensorStructInfo(shape, count_dtype(data.dtype), None, -1 if shape is not None else collapse_target.ndim)

    compute = topi.collapse_sum_like

    def reference(self, data: Array, collapse_target: Array) -> Array:
        return collapsed_to(data, collapse_target.shape)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return self.spread_gradient(operands, grad)


@operator("relax.collapse_sum_to")
class CollapseSumTo(Collapse):
    """data summed to a shape that broadcasts to that of data; booleans are counted in int64."""

    def infer_from_call(
        self, call: Call, builder: Any, data: TensorStructInfo, shape: ShapeStructInfo
    ) -> TensorStructInfo:
        require_sizes(shape)
        self.require_collapsible(data, shape.values, shape.ndim, "shape")
        return shaped(call.args[1], shape, count_dtype(data.dtype))

    compute = topi.collapse_sum_to

    def reference(self, data: Array, shape: Sequence[int]) -> Array:
        return collapsed_to(data, shape)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return self.spread_gradient(operands, grad)
