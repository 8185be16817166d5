"""Operators that fold a tensor along axes: sum, prod, max, min, mean, argmax, argmin, cumsum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import topi
from ..ir import DataType, StructInfo
from ..prim import IntImm, PrimExpr, Verdict, prove_equal, simplify
from ..runtime.rounding import convert_array
from ..struct_info import TensorStructInfo
from .base import Gradients, Term
from .dims import check_later, normalize_axes, tensor
from .errors import SHAPES, OperatorError
from .facts import Axes, Exactness, MixedPrecision, Permuted, has_rank, moved_axis, without
from .gradients import apply, dims_of, is_float, number_of, spread, tensor_info
from .operator import Array, Operator, operator


def _widened(data: Array) -> Array:
    """Narrow floats as float32, in which they are accumulated."""
    dtype = DataType(data.dtype.name)
    return data.astype(np.float32) if dtype.is_float and dtype.bits < 32 else data


def _folded(
    data: TensorStructInfo, axis: tuple[int, ...] | None, keepdims: bool, dtype: str
) -> TensorStructInfo:
    """The struct info of what is left after folding the axes (all of them for None)."""
    if data.ndim == -1:
        return tensor((), dtype) if axis is None and not keepdims else tensor(None, dtype)
    axes = range(data.ndim) if axis is None else normalize_axes(axis, data.ndim, "axis", "x")
    if data.dims is None:
        left = data.ndim if keepdims else data.ndim - len(axes)
        if keepdims and len(axes) == data.ndim:
            return tensor((1,) * data.ndim, dtype)
        return tensor((), dtype) if left == 0 else tensor(None, dtype, left)
    dims = [1 if d in axes else size for d, size in enumerate(data.dims) if keepdims or d not in axes]
    return tensor(dims, dtype)


class Reduction(Operator):
    """The base of reductions over several axes, which keep the dtype."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.INTEGERS
    total = True

    axis: tuple[int, ...] | None
    keepdims: bool

    takes: ClassVar[tuple[str, ...]] = ("float", "int", "uint")
    fold: ClassVar[Callable[..., Array]]

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(x, "x", *self.takes)
        return _folded(x, self.axis, self.keepdims, x.dtype)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        axis = tuple(range(len(axes))) if self.axis is None else self.axis
        moved = self.replace(axis=tuple(moved_axis(a, axes) for a in axis))
        return Permuted(moved, (axes,), (axes if self.keepdims else without(axes, axis),))


@operator("relax.sum")
class Sum(Reduction):
    """Σ of the elements along `axis` (an int, several, or None for all). Integers wrap around."""

    axis: tuple[int, ...] | None = None
    keepdims: bool = False
    compute = topi.sum

    def reference(self, data: Array) -> Array:
        wide = _widened(data)
        return np.sum(wide, self.axis, dtype=wide.dtype, keepdims=self.keepdims).astype(data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        if not is_float(x):
            return (None,)
        gradient = spread(grad, x, self.axis, self.keepdims)
        return None if gradient is None else (gradient,)


@operator("relax.prod")
class Prod(Reduction):
    """Π of the elements along `axis`. Integers wrap around."""

    axis: tuple[int, ...] | None = None
    keepdims: bool = False
    compute = topi.prod

    def reference(self, data: Array) -> Array:
        wide = _widened(data)
        return np.prod(wide, self.axis, dtype=wide.dtype, keepdims=self.keepdims).astype(data.dtype)


@operator("relax.max")
class Max(Reduction):
    """The greatest element along `axis`; NaN if there is one; of nothing, the least value of the dtype."""

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW

    axis: tuple[int, ...] | None = None
    keepdims: bool = False
    compute = topi.max

    def reference(self, data: Array) -> Array:
        least: Any = np.array(DataType(data.dtype.name).min_value, data.dtype)
        return np.asarray(np.max(data, self.axis, keepdims=self.keepdims, initial=least))


@operator("relax.min")
class Min(Reduction):
    """The least element along `axis`; NaN if there is one; of nothing, the greatest value of the dtype."""

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW

    axis: tuple[int, ...] | None = None
    keepdims: bool = False
    compute = topi.min

    def reference(self, data: Array) -> Array:
        greatest: Any = np.array(DataType(data.dtype.name).max_value, data.dtype)
        return np.asarray(np.min(data, self.axis, keepdims=self.keepdims, initial=greatest))


@operator("relax.mean")
class Mean(Reduction):
    """The mean along `axis`, of floats; of nothing, NaN."""

    axis: tuple[int, ...] | None = None
    keepdims: bool = False
    exactness: ClassVar[Exactness] = Exactness.NEVER
    takes: ClassVar[tuple[str, ...]] = ("float",)
    compute = topi.mean

    def reference(self, data: Array) -> Array:
        with np.errstate(all="ignore"):
            total = np.sum(_widened(data), self.axis, keepdims=self.keepdims)
            return np.asarray(total / total.dtype.type(data.size / max(total.size, 1))).astype(data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        gradient, dims = spread(grad, x, self.axis, self.keepdims), dims_of(x)
        if gradient is None or dims is None:
            return None
        folded = dims if self.axis is None else [dims[axis] for axis in self.axis]
        return (apply("divide", gradient, number_of(folded, tensor_info(x).dtype)),)


class ArgReduction(Operator):
    """The base of argmax and argmin, whose result is an int64 index."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW

    axis: int | None
    keepdims: bool

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(x, "x", "float", "int", "uint", "bool")
        if x.dims is not None:
            axes = range(x.ndim) if self.axis is None else (self.require_axis(self.axis, x),)
            for d in axes:
                self.require_something(x.dims[d or 0], f"dimension {d} is empty: nothing in it has an index")
        return _folded(x, None if self.axis is None else (self.axis,), self.keepdims, "int64")

    def require_something(self, size: PrimExpr, message: str) -> None:
        """Complain of a size proved to be 0; leave what is not known to the run time."""
        verdict = prove_equal(size, IntImm("int64", 0))
        if verdict is Verdict.YES:
            raise OperatorError(SHAPES, message, operand="x")
        if verdict is Verdict.POSSIBLY:
            check_later(size > 0, message)

    def index(self, data: Array, best: Any) -> Array:
        """NumPy's index of the best; like NumPy, raises ValueError where there is nothing to choose from."""
        flat = data.reshape(-1) if self.axis is None else data
        found: Array = np.asarray(best(flat, 0 if self.axis is None else self.axis), np.int64)
        if not self.keepdims:
            return found
        return found.reshape((1,) * data.ndim) if self.axis is None else np.expand_dims(found, self.axis)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (None,)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if self.axis is None or not has_rank(infos, axes):
            return None
        moved = self.replace(axis=moved_axis(self.axis, axes))
        return Permuted(moved, (axes,), (axes if self.keepdims else without(axes, [self.axis]),))


@operator("relax.argmax")
class ArgMax(ArgReduction):
    """The index of the greatest element along `axis`; the first of equals; a NaN is the greatest.

    Without an axis, the row-major index in the whole tensor. A dimension that turns out empty is an error.
    """

    axis: int | None = None
    keepdims: bool = False
    compute = topi.argmax

    def reference(self, data: Array) -> Array:
        return self.index(data, np.argmax)


@operator("relax.argmin")
class ArgMin(ArgReduction):
    """The index of the least element along `axis`; the first of equals; a NaN is the least."""

    axis: int | None = None
    keepdims: bool = False
    compute = topi.argmin

    def reference(self, data: Array) -> Array:
        return self.index(data, np.argmin)


@operator("relax.cumsum")
class CumSum(Operator):
    """Running sums along `axis`; without one, of the flattened tensor. `exclusive` leaves the element itself out.

    The result has `dtype`, or the input's. Integers wrap around.
    """

    exactness: ClassVar[Exactness] = Exactness.INTEGERS
    total = True

    axis: int | None = None
    dtype: DataType | None = None
    exclusive: bool = False
    compute = topi.cumsum

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_dtype(data, "data", "float", "int", "uint", "bool")
        dtype = self.dtype or data.dtype
        self.require(
            not dtype.is_bool,
            "data",
            "of a dtype that sums have",
            found="bool",
            hint='say which: R.cumsum(x, dtype="int64")',
        )
        if self.axis is not None:
            self.require_axis(self.axis, data)
            return TensorStructInfo(data.shape, dtype, None, data.ndim)
        if data.dims is None:
            return tensor(None, dtype, 1)
        size: PrimExpr = IntImm("int64", 1)
        for extent in data.dims:
            size = size * extent
        return tensor((simplify(size),), dtype)

    def reference(self, data: Array) -> Array:
        kind = (self.dtype or DataType(data.dtype.name)).numpy()
        flat = data.reshape(-1) if self.axis is None else data
        axis = 0 if self.axis is None else self.axis
        wide = _widened(convert_array(flat, kind))
        total = np.cumsum(wide, axis, dtype=wide.dtype) + wide.dtype.type(
            0
        )  # sums begin with 0: of -0.0 it is 0.0
        if self.exclusive:
            total = np.roll(total, 1, axis)
            first: list[Any] = [slice(None)] * flat.ndim
            first[axis] = slice(0, 1)
            total[tuple(first)] = 0
        return total.astype(kind)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if self.axis is None or not has_rank(infos, axes):
            return None
        return Permuted(self.replace(axis=moved_axis(self.axis, axes)), (axes,), (axes,))
