"""Operators that sort along an axis. Elements that compare equal keep their order; a NaN is greater than every number.

NaNs come last in ascending order and first in descending order; equal elements are ordered by index in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from .. import topi
from ..expr import TupleGetItem
from ..info.text import prim_text
from ..ir import DataType, StructInfo
from ..prim import IntImm, PrimExpr
from ..struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from .base import Gradients, Term
from .dims import like, tensor
from .errors import ATTRIBUTES, SHAPES, OperatorError
from .facts import Axes, Permuted, has_rank, moved_axis
from .gather import require_at_most
from .gradients import apply, is_float
from .operator import Array, operator
from .pieces import count_of
from .shapes import Move


def order_of(x: Array, axis: int, descending: bool) -> Array:
    """Indices along an axis that sort the elements stably."""
    dtype = DataType(x.dtype.name)
    keys = x.astype(np.float32) if dtype.is_float and dtype.bits < 32 else x
    if not descending:
        return np.argsort(keys, axis, kind="stable")
    reversed_order = np.argsort(np.flip(keys, axis), axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - reversed_order, axis)


class Sorting(Move):
    """Base class of operators that sort along an axis."""

    __slots__ = ()

    axis: int = -1

    def require_index_dtype(self, dtype: DataType) -> None:
        if not dtype.is_integer:
            message = f"dtype must be an integer dtype, found {dtype!s}"
            raise OperatorError(ATTRIBUTES, message)

    def moved(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        """This operator on permuted dimensions, for operators whose result has the operand's rank."""
        if not has_rank(infos, axes):
            return None
        return Permuted(self.replace(axis=moved_axis(self.axis, axes)), (axes,), (axes,))


@operator("relax.sort")
class Sort(Sorting):
    """The elements of x along `axis`, in ascending or descending order."""

    descending: bool = False

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        self.require_axis(self.axis, x, "x")
        return x

    compute = topi.sort

    def reference(self, x: Array) -> Array:
        return np.take_along_axis(x, order_of(x, self.axis, self.descending), self.axis)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        if not is_float(x):
            return (None,)
        order = ArgSort(self.axis, self.descending, DataType("int64")).call(x)
        zeros = apply("zeros_like", x)
        return (apply("scatter_elements", zeros, order, grad, axis=self.axis, reduction="add"),)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        return self.moved(axes, infos)


@operator("relax.argsort")
class ArgSort(Sorting):
    """The indices along `axis` that sort the elements of data."""

    descending: bool = False
    dtype: DataType = DataType("int32")

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_index_dtype(self.dtype)
        self.require_axis(self.axis, data)
        return like(data, self.dtype)

    compute = topi.argsort

    def reference(self, data: Array) -> Array:
        return order_of(data, self.axis, self.descending).astype(self.dtype.numpy())

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        return self.moved(axes, infos)


@operator("relax.topk")
class TopK(Sorting):
    """The k greatest (or least) elements along `axis` in order, and their indices; `ret_type` selects either or both.

    k may be symbolic and defaults to 1; a negative constant takes all elements.
    """

    ret_type: Literal["both", "values", "indices"] = "both"
    largest: bool = True
    dtype: DataType = DataType("int32")

    def infer(self, data: TensorStructInfo, k: PrimStructInfo | None = None) -> StructInfo:
        self.require_index_dtype(self.dtype)
        every = k is not None and isinstance(k.value, IntImm) and k.value.value < 0
        count = IntImm("int64", 1) if k is None else None if every else count_of(k, "k")
        axis = self.require_axis(self.axis, data)
        values = data if every else tensor(None, data.dtype, data.ndim)
        if data.dims is not None and axis is not None and count is not None:
            size = data.dims[axis]
            message = f"k is {prim_text(count)}, more than the {prim_text(size)} elements along axis {axis}"
            require_at_most(count, size, OperatorError(SHAPES, message, operand="k"))
            values = tensor([*data.dims[:axis], count, *data.dims[axis + 1 :]], data.dtype)
        indices = like(values, self.dtype)
        if self.ret_type == "both":
            return TupleStructInfo((values, indices))
        return values if self.ret_type == "values" else indices

    def compute(self, data: Any, k: PrimExpr | None = None) -> Any:
        every = isinstance(k, IntImm) and k.value < 0
        count = None if every else IntImm("int64", 1) if k is None else k.astype("int64")
        return topi.topk(data, count, self.axis, self.ret_type, self.largest, self.dtype)

    def reference(self, data: Array, k: int | None = None) -> Array | list[Array]:
        count = 1 if k is None else data.shape[self.axis] if k < 0 else k
        order = np.take(order_of(data, self.axis, self.largest), range(count), self.axis)
        values = np.take_along_axis(data, order, self.axis)
        indices = order.astype(self.dtype.numpy())
        return [values, indices] if self.ret_type == "both" else values if self.ret_type == "values" else indices

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, *count = operands
        nothing = [None] * len(count)
        if not is_float(data) or self.ret_type == "indices":
            return (None, *nothing)
        if self.ret_type == "both":
            values, indices = TupleGetItem(grad, 0), TupleGetItem(result, 1)
        else:
            chosen = self.replace(ret_type="indices", dtype=DataType("int64"))
            values, indices = grad, chosen.call(*operands)
        zeros = apply("zeros_like", data)
        return (apply("scatter_elements", zeros, indices, values, axis=self.axis, reduction="add"), *nothing)
