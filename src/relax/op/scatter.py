"""Operators that write at indices held by tensors. A negative index counts from the end; one out of range is an error.

Updates are applied in the row-major order of their indices: the last one for an element wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from .. import topi
from ..expr import PrimValue, ShapeExpr, Tuple
from ..info.text import prim_text
from ..ir import DataType
from ..prim import IntImm, const
from ..struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from ..topi.slicing import slice_of
from .base import Gradients, Term
from .dims import like, require_stretch, same_dtype
from .errors import DTYPES, OPERANDS, SHAPES, OperatorError
from .facts import Exactness
from .gather import (
    Indexed,
    broadcast_indices,
    checked_index,
    element_places,
    index_fields,
    require_depth,
    require_dims,
    tuple_places,
)
from .gradients import apply, collapsed, dims_of, is_float, masked, tensor_info
from .operator import Array, operator
from .shapes import Move

Reduction = Literal["update", "add", "mul", "mean", "min", "max"]

_COMBINE: dict[str, Callable[..., Any]] = {
    "add": np.add.at,
    "mean": np.add.at,
    "mul": np.multiply.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}


def combined(data: Array, positions: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """Return a copy of data with updates assigned to indices, or combined with the elements there."""
    result = np.array(data)
    if reduction == "update":
        result[positions] = updates
        return result
    dtype = DataType(data.dtype.name)
    if dtype.is_float and dtype.bits < 32:
        result, updates = result.astype(np.float32), updates.astype(np.float32)
    elif reduction == "mean" and not dtype.is_float and dtype != "uint64":
        result = result.astype(np.int64)
    _COMBINE[reduction](result, positions, updates)
    if reduction == "mean":
        counts = np.ones(result.shape, result.dtype)
        np.add.at(counts, positions, 1)
        result = result / counts if dtype.is_float else result // counts
    return result.astype(data.dtype)


def scatter_gradient(
    reduction: str,
    data: Term,
    updates: Term,
    result: Term,
    grad: Term,
    gather: Callable[[Term], Term],
    scatter: Callable[[Term, Term, str], Term],
) -> Gradients | None:
    """Gradients of data, indices and updates, given functions that read and write at the indices.

    Of several updates of an element, only the last one is kept and has a gradient. The greatest and least elements
    share the gradient evenly, as in torch. None for products, and if the shape of the updates is unknown.
    """
    if reduction == "add":
        return (grad, None, gather(grad))
    if reduction == "mean":
        counts = scatter(apply("ones_like", data), apply("ones_like", updates), "add")
        each = grad / counts
        return (each, None, gather(each))
    if reduction in ("min", "max"):
        kept = apply("astype", apply("equal", data, result), dtype=tensor_info(data).dtype)
        chosen = apply("astype", apply("equal", updates, gather(result)), dtype=tensor_info(data).dtype)
        each = grad / apply("maximum", scatter(kept, chosen, "add"), apply("ones_like", data))
        return (each * kept, None, gather(each) * chosen)
    if reduction != "update":
        return None
    last = last_updates(data, updates, gather, scatter)
    if last is None:
        return None
    return (scatter(grad, apply("zeros_like", updates), "update"), None, masked(gather(grad), last))


def last_updates(
    data: Term, updates: Term, gather: Callable[[Term], Term], scatter: Callable[[Term, Term, str], Term]
) -> Term | None:
    """Mask of the updates that no later one overwrites; None if their shape is unknown."""
    dims = dims_of(updates)
    if dims is None:
        return None
    zero, one = (PrimValue(const(i, "int64")) for i in range(2))
    count = math.prod(dims, start=const(1, "int64"))
    numbers = apply("arange", zero, PrimValue(count), one, dtype="int64")
    numbers = apply("reshape", numbers, ShapeExpr(tuple(dims)))
    placed = scatter(apply("zeros_like", data, dtype="int64"), numbers, "update")
    return apply("equal", gather(placed), numbers)


class Scatter(Indexed):
    """Base class of scatter_elements and scatter_nd."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.IEEE

    reduction: Reduction

    def scattered(self, data: TensorStructInfo, updates: TensorStructInfo) -> TensorStructInfo:
        """Struct info of the result, after checking the dtypes."""
        dtype = same_dtype(data.dtype, updates.dtype, ("data", "updates"))
        if dtype.is_bool and self.reduction == "mean":
            message = "booleans have no mean"
            raise OperatorError(DTYPES, message, operand="data")
        return like(data, dtype)


@operator("relax.scatter_elements")
class ScatterElements(Scatter):
    """data with each update written at its own index, with component `axis` replaced by the value of `indices`.

    The reduction combines an update with the existing element: "add", "mul", "min", "max", or "mean" of the element and
    all updates for it (of integers, rounded down).
    """

    axis: int = 0
    reduction: Reduction = "update"

    def infer(self, data: TensorStructInfo, indices: TensorStructInfo, updates: TensorStructInfo) -> TensorStructInfo:
        self.require_elements_fit(data, indices, self.axis)
        if -1 not in (indices.ndim, updates.ndim) and indices.ndim != updates.ndim:
            message = f"indices and updates must have one shape, found {indices.ndim} and {updates.ndim} dimensions"
            raise OperatorError(SHAPES, message, operand="updates")
        if indices.dims is not None and updates.dims is not None:
            require_dims(updates.dims, indices.dims, "updates", "indices")
        return self.scattered(data, updates)

    compute = topi.scatter_elements

    def reference(self, data: Array, indices: Array, updates: Array) -> Array:
        if not indices.size:
            return data.copy()
        return combined(data, element_places(data, indices, self.axis), updates, self.reduction)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, indices, updates = operands
        if not is_float(data):
            return (None, None, None)

        def gather(x: Term) -> Term:
            return apply("gather_elements", x, indices, axis=self.axis)

        def scatter(x: Term, values: Term, reduction: str) -> Term:
            return apply("scatter_elements", x, indices, values, axis=self.axis, reduction=reduction)

        return scatter_gradient(self.reduction, data, updates, result, grad, gather, scatter)


@operator("relax.scatter_nd")
class ScatterND(Scatter):
    """data with a slice of `updates` written at each index tuple, a row of `indices`.

    updates has the shape indices.shape[:-1] + data.shape[indices.shape[-1]:]. Reductions are those of
    scatter_elements.
    """

    reduction: Reduction = "update"

    def infer(self, data: TensorStructInfo, indices: TensorStructInfo, updates: TensorStructInfo) -> TensorStructInfo:
        depth = self.index_depth(data, indices)
        if depth is not None and -1 not in (data.ndim, updates.ndim):
            ndim = indices.ndim - 1 + data.ndim - depth
            if updates.ndim != ndim:
                message = f"updates must have {ndim} dimensions, found {updates.ndim}"
                raise OperatorError(SHAPES, message, operand="updates")
        if depth is not None and data.dims is not None and indices.dims is not None and updates.dims is not None:
            shape = [*indices.dims[:-1], *data.dims[depth:]]
            require_dims(updates.dims, shape, "updates", "what is indexed")
        return self.scattered(data, updates)

    def compute(self, data: Any, indices: Any, updates: Any) -> Any:
        return topi.scatter_nd(data, require_depth(indices), updates, self.reduction)

    def reference(self, data: Array, indices: Array, updates: Array) -> Array:
        if not updates.size:
            return data.copy()
        positions = tuple(tuple_places(data.shape, indices))
        if positions:
            return combined(data, positions, updates, self.reduction)
        every = tuple(np.indices((*indices.shape[:-1], *data.shape))[indices.ndim - 1 :])
        return combined(data, every, updates, self.reduction)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, indices, updates = operands
        if not is_float(data):
            return (None, None, None)

        def gather(x: Term) -> Term:
            return apply("gather_nd", x, indices)

        def scatter(x: Term, values: Term, reduction: str) -> Term:
            return apply("scatter_nd", x, indices, values, reduction=reduction)

        return scatter_gradient(self.reduction, data, updates, result, grad, gather, scatter)


@operator("relax.index_put")
class IndexPut(Indexed):
    """data after data[indices[0], indices[1], …] = values, as NumPy writes at index tensors; values broadcast.

    With `accumulate` all values for an element are added.
    """

    exactness: ClassVar[Exactness] = Exactness.IEEE

    accumulate: bool = False

    def infer(self, data: TensorStructInfo, indices: TupleStructInfo, values: TensorStructInfo) -> TensorStructInfo:
        fields = index_fields(indices, "indices", data)
        index = broadcast_indices(fields, "indices")
        dtype = same_dtype(data.dtype, values.dtype, ("data", "values"))
        if -1 not in (data.ndim, index.ndim, values.ndim):
            ndim = index.ndim + data.ndim - len(fields)
            if values.ndim > ndim:
                message = f"values must have at most {ndim} dimensions, found {values.ndim}"
                raise OperatorError(SHAPES, message, operand="values")
        if data.dims is not None and index.dims is not None and values.dims is not None:
            shape = [*index.dims, *data.dims[len(fields) :]]
            for d in range(1, len(values.dims) + 1):
                size, full = values.dims[-d], shape[-d]
                dimension = f"dimension {len(values.dims) - d} of values"
                message = f"{dimension} is {prim_text(size)}, which does not broadcast to {prim_text(full)}"
                require_stretch(size, full, OperatorError(SHAPES, message, operand="values"))
        return like(data, dtype)

    compute = topi.index_put

    def reference(self, data: Array, indices: Sequence[Array], values: Array) -> Array:
        rows = np.broadcast_shapes(*(index.shape for index in indices))
        shape = (*rows, *data.shape[len(indices) :])
        if 0 in shape:
            return data.copy()
        positions = tuple(
            np.broadcast_to(checked_index(index, size), rows) for index, size in zip(indices, data.shape, strict=False)
        )
        return combined(data, positions, np.broadcast_to(values, shape), "add" if self.accumulate else "update")

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, indices, values = operands
        if not is_float(data):
            return (None, None, None)
        read: Term = apply("index_tensor", grad, indices)
        if self.accumulate:
            by_values = collapsed(read, values)
            return None if by_values is None else (grad, None, by_values)
        dims = dims_of(read)
        if dims is None:
            return None
        shape = ShapeExpr(tuple(dims))
        last = last_updates(
            data,
            read,
            lambda x: apply("index_tensor", x, indices),
            lambda x, updates, _: apply("index_put", x, indices, updates),
        )
        by_values = None if last is None else collapsed(masked(read, last), values)
        if by_values is None:
            return None
        zeros = apply("zeros", shape, dtype=tensor_info(data).dtype)
        return (apply("index_put", grad, indices, zeros), None, by_values)


@operator("relax.slice_scatter")
class SliceScatter(Move):
    """input_tensor with its slice ``start:end:step`` along an axis replaced by src; bounds follow Python's slices."""

    axis: int = 0

    def infer(
        self,
        input_tensor: TensorStructInfo,
        src: TensorStructInfo,
        start: PrimStructInfo,
        end: PrimStructInfo,
        step: PrimStructInfo,
    ) -> TensorStructInfo:
        for name, bound in (("start", start), ("end", end), ("step", step)):
            self.require(DataType(bound.dtype).is_integer, name, "an integer", found=bound.dtype)
        if not isinstance(step.value, IntImm) or step.value.value < 1:
            raise OperatorError(OPERANDS, "step must be a constant of 1 or more", operand="step")
        dtype = same_dtype(input_tensor.dtype, src.dtype, ("input_tensor", "src"))
        axis = self.require_axis(self.axis, input_tensor, "input_tensor")
        if -1 not in (input_tensor.ndim, src.ndim) and input_tensor.ndim != src.ndim:
            message = f"src must have {input_tensor.ndim} dimensions, found {src.ndim}"
            raise OperatorError(SHAPES, message, operand="src")
        if axis is not None and input_tensor.dims is not None and src.dims is not None:
            shape = list(input_tensor.dims)
            if start.value is not None and end.value is not None:
                shape[axis] = slice_of(shape[axis], start.value, end.value, step.value.value).size
            require_dims(src.dims, shape, "src", "the slice")
        return like(input_tensor, dtype)

    def compute(self, input_tensor: Any, src: Any, start: Any, end: Any, step: Any) -> Any:
        return topi.slice_scatter(input_tensor, src, start, end, int(step), self.axis)

    def reference(self, input_tensor: Array, src: Array, start: int, end: int, step: int) -> Array:
        result = input_tensor.copy()
        index: list[slice] = [slice(None)] * result.ndim
        index[self.axis] = slice(start, end, step)
        result[tuple(index)] = src
        return result

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        data, src, start, end, step = operands
        if not is_float(data):
            return (None,) * 5
        others = apply("slice_scatter", grad, apply("zeros_like", src), start, end, step, axis=self.axis)
        piece = apply("strided_slice", grad, [self.axis], Tuple([start]), Tuple([end]), Tuple([step]))
        return (others, piece, None, None, None)
