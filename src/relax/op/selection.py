"""Operators that choose elements: take, where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from .. import topi
from ..struct_info import PrimStructInfo, TensorStructInfo
from .base import Gradients, Term
from .binary import as_tensor
from .dims import broadcast_all, same_dtype, tensor
from .gradients import apply, collapsed, is_float, masked
from .literals import literals_like
from .operator import Array, operator
from .shapes import Move, product


@operator("relax.take")
class Take(Move):
    """x at the indices, along an axis; without axis, of x flattened. A negative index counts from the end.

    The mode says what an index out of range means: "fast" is an error at run time, "clip" takes the nearest element,
    "wrap" counts modulo the size, "nan" gives NaN (floats only). Where the result has no elements, none is read.
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
        found = np.take(x, np.where(outside, 0, index), axis)
        lifted = outside.reshape(outside.shape + (1,) * (x.ndim - axis - 1))
        return np.where(lifted, np.array(np.nan, x.dtype), found)


def _as_int64(indices: Array, modulus: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Indices as int64; what only uint64 holds stays large, or (with a modulus) is counted modulo it."""
    if np.asarray(indices).dtype == np.uint64:
        indices = indices % np.uint64(modulus) if modulus else np.minimum(indices, np.uint64(2**63 - 1))
    return np.asarray(indices, np.int64)


@operator("relax.where")
class Where(Move):
    """x1 where the condition holds, else x2; all three broadcast."""

    elementwise: ClassVar[bool] = True
    total = True

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Any]:
        return [arguments[0], *literals_like(arguments[1:], ("x1", "x2"))]

    def infer(
        self,
        condition: TensorStructInfo,
        x1: TensorStructInfo | PrimStructInfo,
        x2: TensorStructInfo | PrimStructInfo,
    ) -> TensorStructInfo:
        self.require_dtype(condition, "condition", "bool")
        left, right = as_tensor(x1), as_tensor(x2)
        dtype = same_dtype(left.dtype, right.dtype)
        return broadcast_all((condition, left, right), dtype, ("condition", "x1", "x2"))

    compute = topi.where

    def reference(self, condition: Array, x1: Array, x2: Array) -> Array:
        return np.asarray(np.where(condition, x1, x2), np.result_type(x1, x2))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        condition, *values = operands
        floats = [is_float(value) for value in values]
        parts = masked(grad, condition), masked(grad, apply("logical_not", condition))
        gradients = [
            collapsed(part, value) if float_ else None
            for part, value, float_ in zip(parts, values, floats, strict=True)
        ]
        missing = any(f and g is None for f, g in zip(floats, gradients, strict=True))
        return None if missing else (None, *gradients)
