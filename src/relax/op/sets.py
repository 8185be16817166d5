"""Operators whose result shape depends on the data: unique, nonzero; and reading from a file."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..ir import StructInfo
from ..struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from .dims import tensor
from .facts import MixedPrecision
from .operator import Array, Operator, operator


@operator("relax.unique")
class Unique(Operator):
    """The distinct elements (along `axis`, the distinct slices): sorted, or in the order in which they first occur.

    With `return_index`, `return_inverse` or `return_counts` a tuple: the elements, then, as requested, int64 tensors of
    the first index of each, the result index of each input element, and the number of occurrences. NaNs are equal.
    """

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW

    sorted: bool = True
    return_index: bool = False
    return_inverse: bool = False
    return_counts: bool = False
    axis: int | None = None
    packed: ClassVar[str | None] = "relax.run.unique"

    def infer(self, x: TensorStructInfo) -> StructInfo:
        if self.axis is not None:
            self.require_axis(self.axis, x, "x")
        values = tensor(None, x.dtype, 1 if self.axis is None else x.ndim)
        extra = self.return_index + self.return_inverse + self.return_counts
        if extra == 0:
            return values
        return TupleStructInfo((values, *[tensor(None, "int64", 1)] * extra))

    def reference(self, x: Array) -> Array | list[Array]:
        distinct: Any = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=self.axis)
        values, index, inverse, counts = distinct
        inverse = np.ravel(inverse)
        if not self.sorted:
            order = sorted(range(len(index)), key=lambda i: index[i])
            values = np.stack([np.take(values, i, self.axis or 0) for i in order], self.axis or 0) if order else values
            index, counts = index[order], counts[order]
            inverse = np.array([order.index(i) for i in inverse], np.int64)
        wanted = (self.return_index, self.return_inverse, self.return_counts)
        extras = [p.astype(np.int64) for p, w in zip((index, inverse, counts), wanted, strict=True) if w]
        return [values, *extras] if extras else values


@operator("relax.nonzero")
class NonZero(Operator):
    """The int64 indices of elements that are not zero, in row-major order: (ndim, count), one column per element."""

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    packed: ClassVar[str | None] = "relax.run.nonzero"

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        return tensor(None, "int64", 2)

    def reference(self, x: Array) -> Array:
        if x.ndim == 0:
            return np.zeros((0, int(x != 0)), np.int64)
        return np.asarray(np.nonzero(x), np.int64)


@operator("relax.read_tensor_from_file")
class ReadTensorFromFile(Operator):
    """The float32 tensor in a file: NumPy's ``.npy``, or text with one row per line. Reading is an effect."""

    pure: ClassVar[bool] = False
    packed: ClassVar[str | None] = "relax.run.read_tensor_from_file"

    def infer(self, path: ObjectStructInfo) -> TensorStructInfo:
        return tensor(None, "float32")
