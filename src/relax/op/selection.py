"""Operators that select elements or locate them: take, where, masked_fill, bucketize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from .. import topi
from ..expr import Call
from ..ir import StructInfo
from ..struct_info import PrimStructInfo, TensorStructInfo
from .arguments import ScalarLike, TensorLike
from .base import Gradients, Term
from .binary import as_tensor
from .dims import broadcast_all, like, same_dtype, tensor
from .errors import SHAPES
from .facts import Axes, Exactness, Permuted, has_rank, moved_axis, without
from .gradients import apply, collapsed, is_float, masked
from .literals import literals_like
from .operator import Array, Operator, composite, operator, public_function
from .shapes import Move, product


@operator("relax.take")
class Take(Move):
    """x at the indices, along an axis; without axis, of x flattened. A negative index counts from the end.

    The mode for an index out of range: "fast" is an error at run time, "clip" takes the nearest element, "wrap" counts
    modulo the size, "nan" yields NaN (floats only). If the result is empty, no element is read.
    """

    axis: int | None = None
    mode: Literal["fast", "clip", "wrap", "nan"] = "fast"

    def infer(self, x: TensorStructInfo, indices: TensorStructInfo | PrimStructInfo) -> TensorStructInfo:
        index = as_tensor(indices)
        self.require_dtype(index, "indices", "int", "uint")
        if self.mode == "nan":
            self.require_dtype(x, "x", "float")
        if self.axis is None:
            x = x if x.ndim == 1 else tensor(None if x.dims is None else [product(x.dims)], x.dtype, 1)
        axis = self.require_axis(0 if self.axis is None else self.axis, x, "x")
        if axis is None or index.ndim == -1:
            return tensor(None, x.dtype)
        if x.dims is None or index.dims is None:
            return tensor(None, x.dtype, x.ndim + index.ndim - 1)
        return tensor([*x.dims[:axis], *index.dims, *x.dims[axis + 1 :]], x.dtype)

    compute = topi.take

    def reference(self, x: Array, indices: Array) -> Array:
        axis = 0 if self.axis is None else self.axis % x.ndim
        x = np.ravel(x) if self.axis is None else x
        size = x.shape[axis]
        index = _as_int64(indices, size if self.mode == "wrap" else 0)
        shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
        if 0 in shape:
            return np.empty(shape, x.dtype)  # nothing is read, so that no index is out of range
        if not size and self.mode in ("wrap", "clip"):
            raise IndexError("an index is out of range for size 0")
        if self.mode == "wrap":
            return np.take(x, index % size, axis)
        if self.mode == "clip":
            return np.take(x, np.maximum(np.minimum(index, size - 1), 0), axis)
        index = np.where(index < 0, index + size, index)
        outside = (index < 0) | (index >= size)
        if self.mode == "fast":
            if outside.any():
                raise IndexError(f"an index is out of range for size {size}")
            return np.take(x, index, axis)
        if not size:
            return np.full(shape, np.nan, x.dtype)
        taken = np.take(x, np.where(outside, 0, index), axis)
        lifted = outside.reshape(outside.shape + (1,) * (x.ndim - axis - 1))
        return np.where(lifted, np.array(np.nan, x.dtype), taken)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        x, indices = operands
        if self.mode != "fast":
            return None
        return (apply("grad.take_backward", grad, x, indices, axis=self.axis) if is_float(x) else None), None

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        count = infos[1].ndim if isinstance(infos[1], TensorStructInfo) else 0
        if self.axis is None or not has_rank(infos, axes) or count not in (0, 1):
            return None
        result = axes if count else without(axes, [self.axis])
        return Permuted(Take(moved_axis(self.axis, axes), self.mode), (axes, None), (result,))


def _as_int64(indices: Array, modulus: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Convert indices to int64; uint64 values beyond it stay out of range or (with a modulus) are reduced modulo it."""
    if np.asarray(indices).dtype == np.uint64:
        indices = indices % np.uint64(modulus) if modulus else np.minimum(indices, np.uint64(2**63 - 1))
    return np.asarray(indices, np.int64)


@operator("relax.where")
class Where(Move):
    """x1 where the condition holds, else x2; all three broadcast. A number holds if it is not 0."""

    elementwise: ClassVar[bool] = True
    total = True

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Any]:
        return [arguments[0], *literals_like(arguments[1:], ("x1", "x2"))]

    def infer(
        self, condition: TensorStructInfo, x1: TensorStructInfo | PrimStructInfo, x2: TensorStructInfo | PrimStructInfo
    ) -> TensorStructInfo:
        left, right = as_tensor(x1), as_tensor(x2)
        dtype = same_dtype(left.dtype, right.dtype)
        return broadcast_all((condition, left, right), dtype, ("condition", "x1", "x2"))

    compute = topi.where

    def reference(self, condition: Array, x1: Array, x2: Array) -> Array:
        return np.asarray(np.where(condition, x1, x2), np.result_type(x1, x2))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        condition, *values = operands
        floats = [is_float(value) for value in values]
        partials = masked(grad, condition), masked(grad, apply("logical_not", condition))
        gradients = [
            collapsed(partial, value) if float_ else None
            for partial, value, float_ in zip(partials, values, floats, strict=True)
        ]
        missing = any(f and g is None for f, g in zip(floats, gradients, strict=True))
        return None if missing else (None, *gradients)


@composite("relax.masked_fill")
def masked_fill(x: TensorLike, mask: TensorLike, value: TensorLike | ScalarLike) -> Call:
    """x, with `value` where the mask is True: ``where(mask, full_like(x, value), x)``."""
    filled = public_function("relax.full_like")
    assert filled is not None
    return Where().call(mask, filled(x, value), x)


@operator("relax.bucketize")
class Bucketize(Operator):
    """The bucket index of each element: the number of boundaries, in ascending order, less than it.

    With `right`, the number less than or equal to it. NaN is greater than every boundary. Indices are int64, or int32.
    """

    exactness: ClassVar[Exactness] = Exactness.IEEE

    out_int32: bool = False
    right: bool = False

    def infer(self, input_tensor: TensorStructInfo, boundaries: TensorStructInfo) -> TensorStructInfo:
        is_vector = boundaries.ndim in (-1, 1)
        self.require(is_vector, "boundaries", "of one dimension", code=SHAPES, found=str(boundaries.ndim))
        same_dtype(input_tensor.dtype, boundaries.dtype, ("input_tensor", "boundaries"))
        return like(input_tensor, "int32" if self.out_int32 else "int64")

    compute = topi.bucketize

    def reference(self, input_tensor: Array, boundaries: Array) -> Array:
        search: Any = np.searchsorted
        positions = search(boundaries, input_tensor, "right" if self.right else "left")
        return np.asarray(positions, np.int32 if self.out_int32 else np.int64)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return None, None
