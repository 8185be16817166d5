"""Reductions along axes: sums, products, extrema, moments, the median; and cumulative sums and products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import topi
from ..expr import TupleGetItem
from ..ir import DataType, RelaxExpr, StructInfo
from ..prim import IntImm, PrimExpr, Verdict, prove_equal, simplify
from ..runtime.rounding import convert_array
from ..struct_info import TensorStructInfo, TupleStructInfo
from .attributes import VOID
from .base import Gradients, Term
from .dims import check_later, like, normalize_axes, tensor
from .errors import SHAPES, OperatorError
from .facts import Axes, Exactness, MixedPrecision, Permuted, has_rank, moved_axis, without
from .gradients import apply, dims_of, is_float, masked, number_of, reshaped, spread, tensor_info, unfolded
from .operands import FLOATS, NUMBERS
from .operator import Array, Operator, operator
from .product_gradients import cumprod_gradient, prod_gradient


def count_dtype(dtype: DataType) -> DataType:
    """Dtype of sums and products of a dtype's values: int64 of booleans, otherwise the same."""
    return DataType("int64") if dtype.is_bool else dtype


def counted(data: Array) -> Array:
    """Convert booleans to int64, in which they are summed and multiplied."""
    return data.astype(np.int64) if data.dtype == np.bool_ else data


def _widened(data: Array) -> Array:
    """Convert narrow floats to float32, in which they are accumulated."""
    dtype = DataType(data.dtype.name)
    return data.astype(np.float32) if dtype.is_float and dtype.bits < 32 else data


def _folded(data: TensorStructInfo, axis: tuple[int, ...] | None, keepdims: bool, dtype: str) -> TensorStructInfo:
    """Struct info of the result of reducing the axes (None: all)."""
    if data.ndim == -1:
        return tensor((), dtype) if axis is None and not keepdims else tensor(None, dtype)
    axes = range(data.ndim) if axis is None else normalize_axes(axis, data.ndim, "axis", "x")
    if data.dims is None:
        rank = data.ndim if keepdims else data.ndim - len(axes)
        if keepdims and len(axes) == data.ndim:
            return tensor((1,) * data.ndim, dtype)
        return tensor((), dtype) if rank == 0 else tensor(None, dtype, rank)
    dims = [1 if d in axes else size for d, size in enumerate(data.dims) if keepdims or d not in axes]
    return tensor(dims, dtype)


class Folding(Operator):
    """Base class of reductions of several axes to one element."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.INTEGERS
    total = True

    axis: tuple[int, ...] | None = None
    keepdims: bool = False

    fold: ClassVar[Callable[..., Array]]

    def folded(self, x: TensorStructInfo) -> TensorStructInfo:
        """Struct info of the reduced tensor, in the dtype of x."""
        self.require_dtype(x, "x", *self.takes)
        return _folded(x, self.axis, self.keepdims, x.dtype)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        axis = tuple(range(len(axes))) if self.axis is None else self.axis
        moved = self.replace(axis=tuple(moved_axis(a, axes) for a in axis))
        return Permuted(moved, (axes,), (axes if self.keepdims else without(axes, axis),))


class Reduction(Folding):
    """Base class of reductions over several axes that keep the dtype."""

    __slots__ = ()

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        return self.folded(x)


class Total(Folding):
    """Base class of sums and products, which count booleans in int64."""

    __slots__ = ()

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        return like(self.folded(x), count_dtype(x.dtype))


@operator("relax.sum")
class Sum(Total):
    """Σ of the elements along `axis` (an int, several, or None for all). Integers wrap around.

    Booleans are counted in int64.
    """

    compute = topi.sum

    def reference(self, data: Array) -> Array:
        data = counted(data)
        wide = _widened(data)
        return np.sum(wide, self.axis, dtype=wide.dtype, keepdims=self.keepdims).astype(data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        if not is_float(x):
            return (None,)
        gradient = spread(grad, x, self.axis, self.keepdims)
        return None if gradient is None else (gradient,)


@operator("relax.prod")
class Prod(Total):
    """Π of the elements along `axis`. Integers wrap around; the product of booleans is an int64."""

    compute = topi.prod

    def reference(self, data: Array) -> Array:
        data = counted(data)
        wide = _widened(data)
        return np.prod(wide, self.axis, dtype=wide.dtype, keepdims=self.keepdims).astype(data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        if not is_float(x):
            return (None,)
        gradient = prod_gradient(x, grad, self.axis, self.keepdims)
        return None if gradient is None else (gradient,)


@operator("relax.max")
class Max(Reduction):
    """The greatest element along `axis`; NaN if any element is; the least value of the dtype for an empty dimension.

    Of booleans, True if any element is.
    """

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW

    compute = topi.max

    def reference(self, data: Array) -> Array:
        least: Any = np.array(DataType(data.dtype.name).min_value, data.dtype)
        return np.asarray(np.max(data, self.axis, keepdims=self.keepdims, initial=least))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return _extremum_gradient(operands[0], result, grad, self.axis, self.keepdims)


@operator("relax.min")
class Min(Reduction):
    """Minimum along `axis`; NaN if any element is NaN; the largest value of the dtype if there are no elements.

    Of booleans, True if all elements are.
    """

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW

    compute = topi.min

    def reference(self, data: Array) -> Array:
        greatest: Any = np.array(DataType(data.dtype.name).max_value, data.dtype)
        return np.asarray(np.min(data, self.axis, keepdims=self.keepdims, initial=greatest))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return _extremum_gradient(operands[0], result, grad, self.axis, self.keepdims)


def _extremum_gradient(
    x: Term, result: Term, grad: Term, axis: Sequence[int] | None, keepdims: bool
) -> Gradients | None:
    """Gradient of max or min: that of the result, divided evenly among the elements equal to the extremum."""
    if not is_float(x):
        return (None,)
    extremum, whole = (unfolded(value, x, axis, keepdims) for value in (result, grad))
    if extremum is None or whole is None:
        return None
    hits = apply("astype", apply("equal", x, extremum), dtype=tensor_info(x).dtype)
    return (hits * (whole / apply("sum", hits, axis=axis, keepdims=True)),)


def _centered(x: Term, axis: tuple[int, ...] | None) -> Term:
    """Deviations of elements from their mean along `axis`."""
    return apply("subtract", x, Mean(axis, True).call(x))


def _mean_gradient(grad: RelaxExpr, x: Term, axis: tuple[int, ...] | None, keepdims: bool) -> RelaxExpr | None:
    """Gradient of the operand of a mean along `axis`."""
    gradient, dims = spread(grad, x, axis, keepdims), dims_of(x)
    if gradient is None or dims is None:
        return None
    folded = dims if axis is None else [dims[a] for a in axis]
    return apply("divide", gradient, number_of(folded, tensor_info(x).dtype))


class Moment(Reduction):
    """Base class of means of floats, which are NaN for an empty dimension."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.NEVER
    takes = FLOATS

    def average(self, data: Array) -> Array:
        """Mean of an array along `axis`."""
        with np.errstate(all="ignore"):
            total = np.sum(data, self.axis, keepdims=True)
            return np.asarray(total / total.dtype.type(data.size / max(total.size, 1)))

    def mean_square(self, data: Array) -> Array:
        """Mean squared deviation from the mean; keeps reduced dimensions if `keepdims`."""
        wide = _widened(data)
        with np.errstate(all="ignore"):
            return self.kept(self.average(np.square(wide - self.average(wide))))

    def kept(self, result: Array) -> Array:
        """Drop the reduced dimensions of a result unless `keepdims`."""
        if self.keepdims:
            return result
        return np.asarray(np.squeeze(result, tuple(range(result.ndim)) if self.axis is None else self.axis))


@operator("relax.mean")
class Mean(Moment):
    """The mean along `axis`, of floats; NaN for an empty dimension."""

    compute = topi.mean

    def reference(self, data: Array) -> Array:
        return self.kept(self.average(_widened(data))).astype(data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        gradient = _mean_gradient(grad, x, self.axis, self.keepdims)
        return None if gradient is None else (gradient,)


@operator("relax.variance")
class Variance(Moment):
    """The mean squared deviation from the mean along `axis`, of floats; NaN for an empty dimension."""

    compute = topi.variance

    def reference(self, data: Array) -> Array:
        return self.mean_square(data).astype(data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        gradient = _mean_gradient(grad * 2.0, x, self.axis, self.keepdims)
        return None if gradient is None else (gradient * _centered(x, self.axis),)


@operator("relax.std")
class Std(Moment):
    """The standard deviation along `axis`, of floats: the square root of the variance; NaN for an empty dimension."""

    compute = topi.std

    def reference(self, data: Array) -> Array:
        return np.sqrt(self.mean_square(data)).astype(data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        # Where all elements are equal, the square root has no slope: 0 is between those of both sides.
        gradient = _mean_gradient(masked(grad / result, result > 0.0), x, self.axis, self.keepdims)
        return None if gradient is None else (gradient * _centered(x, self.axis),)


@operator("relax.median")
class Median(Folding):
    """The median along `axis`, the lower one of an even number of elements; NaN if any element is.

    Along a single axis a tuple: the values, and the int64 index of the first element equal to the median. An empty
    dimension is an error.
    """

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    takes = NUMBERS
    total = False

    compute = topi.median

    def infer(self, x: TensorStructInfo) -> StructInfo:
        values = self.folded(x)
        require_elements(x, self.axis)
        return TupleStructInfo((values, like(values, "int64"))) if self._is_single() else values

    def _is_single(self) -> bool:
        return self.axis is not None and len(self.axis) == 1

    def reference(self, data: Array) -> Array | list[Array]:
        axes = tuple(range(data.ndim)) if self.axis is None else tuple(a % data.ndim for a in self.axis)
        moved = np.moveaxis(data, axes, tuple(range(-len(axes), 0))) if axes else data
        kept_shape = moved.shape[: data.ndim - len(axes)]
        flat = _widened(moved.reshape(*kept_shape, math.prod(data.shape[d] for d in axes)))
        if not flat.shape[-1]:
            raise ValueError("the median of an empty dimension")
        missing = np.isnan(flat).any(-1, keepdims=True)
        wanted = np.where(missing, np.sort(flat, -1)[..., -1:], np.sort(flat, -1)[..., [(flat.shape[-1] - 1) // 2]])
        index = np.argmax((flat == wanted) | (np.isnan(flat) & missing), -1)
        values = np.take_along_axis(flat, index[..., None], -1)[..., 0].astype(data.dtype)
        results = [np.asarray(values), np.asarray(index, np.int64)]
        if self.keepdims:
            results = [np.expand_dims(array, axes) for array in results]
        return results if self._is_single() else results[0]

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (x,) = operands
        if not is_float(x):
            return (None,)
        if not self._is_single():
            return _extremum_gradient(x, result, grad, self.axis, self.keepdims)
        axes = [] if self.keepdims else list(self.axis or (0,))
        value, index = (apply("expand_dims", each, axis=axes) if axes else each for each in (
            TupleGetItem(grad, 0), TupleGetItem(result, 1)
        ))  # fmt: skip
        axis = (self.axis or (0,))[0]
        return (apply("scatter_elements", apply("zeros_like", x), index, value, axis=axis, reduction="add"),)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        rule = Folding.permuted(self, axes, infos) if self._is_single() else None
        return None if rule is None else Permuted(rule.operator, rule.operands, rule.results * 2)


def require_elements(x: TensorStructInfo, axis: Sequence[int] | None) -> None:
    """Raise OperatorError for a dimension to reduce that is proved empty; check at run time if undecided."""
    if x.dims is None:
        return
    for d in range(x.ndim) if axis is None else normalize_axes(axis, x.ndim, "axis", "x"):
        message = f"dimension {d} is empty: nothing in it has an index"
        verdict = prove_equal(x.dims[d], IntImm("int64", 0))
        if verdict is Verdict.YES:
            raise OperatorError(SHAPES, message, operand="x")
        if verdict is Verdict.POSSIBLY:
            check_later(x.dims[d] > 0, message)


class ArgReduction(Operator):
    """Base class of argmax and argmin, whose result is an int64 index."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW

    axis: int | None = None
    keepdims: bool = False

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        require_elements(x, None if self.axis is None else (self.axis,))
        return _folded(x, None if self.axis is None else (self.axis,), self.keepdims, "int64")

    def index(self, data: Array, best: Any) -> Array:
        """NumPy's index of the extremum; like NumPy, raises ValueError for an empty dimension."""
        flat = data.reshape(-1) if self.axis is None else data
        indices: Array = np.asarray(best(flat, 0 if self.axis is None else self.axis), np.int64)
        if not self.keepdims:
            return indices
        return indices.reshape((1,) * data.ndim) if self.axis is None else np.expand_dims(indices, self.axis)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (None,)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if self.axis is None or not has_rank(infos, axes):
            return None
        moved = self.replace(axis=moved_axis(self.axis, axes))
        return Permuted(moved, (axes,), (axes if self.keepdims else without(axes, [self.axis]),))


@operator("relax.argmax")
class ArgMax(ArgReduction):
    """The index of the greatest element along `axis`, the first among equal ones; NaN is the greatest.

    Without an axis, the row-major index in the whole tensor. An empty dimension is an error.
    """

    compute = topi.argmax

    def reference(self, data: Array) -> Array:
        return self.index(data, np.argmax)


@operator("relax.argmin")
class ArgMin(ArgReduction):
    """The index of the least element along `axis`, the first among equal ones; NaN is the least."""

    compute = topi.argmin

    def reference(self, data: Array) -> Array:
        return self.index(data, np.argmin)


class Running(Operator):
    """Base class of cumulative operators along `axis`; without one, of the flattened tensor.

    The result has `dtype`, by default the input's (of booleans int64). `exclusive` excludes the element itself.
    """

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.INTEGERS
    total = True

    start: ClassVar[int] = 0
    """Identity element: the result for no elements."""

    axis: int | None = None
    dtype: DataType = VOID
    exclusive: bool = False

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_attribute(not self.dtype.is_bool, "dtype", "a dtype that numbers have")
        dtype = self.dtype or count_dtype(data.dtype)
        if self.axis is not None:
            self.require_axis(self.axis, data)
            return TensorStructInfo(data.shape, dtype, None, data.ndim)
        if data.dims is None:
            return tensor(None, dtype, 1)
        size: PrimExpr = IntImm("int64", 1)
        for extent in data.dims:
            size = size * extent
        return tensor((simplify(size),), dtype)

    def running(self, data: Array, accumulate: Callable[..., Any]) -> Array:
        """Result, given NumPy's cumulative function."""
        kind = (self.dtype or count_dtype(DataType(data.dtype.name))).numpy()
        flat = data.reshape(-1) if self.axis is None else data
        axis = 0 if self.axis is None else self.axis
        wide = _widened(convert_array(flat, kind))
        result = np.asarray(accumulate(wide, axis, dtype=wide.dtype))
        if self.exclusive:
            result = np.roll(result, 1, axis)
            first: list[Any] = [slice(None)] * flat.ndim
            first[axis] = slice(0, 1)
            result[tuple(first)] = self.start
        return result.astype(kind)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if self.axis is None or not has_rank(infos, axes):
            return None
        return Permuted(self.replace(axis=moved_axis(self.axis, axes)), (axes,), (axes,))


@operator("relax.cumsum")
class CumSum(Running):
    """Cumulative sums along `axis`; without one, of the flattened tensor. `exclusive` excludes the element itself.

    The result has `dtype`, by default the input's (of booleans int64). Integers wrap around.
    """

    compute = topi.cumsum

    def reference(self, data: Array) -> Array:
        # Sums begin with 0: of -0.0 it is 0.0.
        return self.running(data, lambda *args, **kwargs: np.cumsum(*args, **kwargs) + kwargs["dtype"].type(0))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (data,) = operands
        if not is_float(data):
            return (None,)
        if not (self.dtype.is_void or self.dtype.is_float):
            return (None,)  # rounded to whole numbers: steps
        axis = 0 if self.axis is None else self.axis
        later = apply("flip", grad, axis=axis)
        sums = apply("flip", apply("cumsum", later, axis=axis, exclusive=self.exclusive), axis=axis)
        gradient = apply("astype", sums, dtype=tensor_info(data).dtype)
        shaped = gradient if self.axis is not None else reshaped(gradient, data)
        return None if shaped is None else (shaped,)


@operator("relax.cumprod")
class CumProd(Running):
    """Cumulative products along `axis`; without one, of the flattened tensor. `exclusive` excludes the element itself.

    The result has `dtype`, by default the input's (of booleans int64). Integers wrap around.
    """

    start = 1

    compute = topi.cumprod

    def reference(self, data: Array) -> Array:
        return self.running(data, np.cumprod)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (data,) = operands
        if not is_float(data) or not (self.dtype.is_void or self.dtype.is_float):
            return (None,)
        dtype = tensor_info(result).dtype
        x = data if tensor_info(data).dtype == dtype else apply("astype", data, dtype=dtype)
        flat = x if self.axis is not None else apply("flatten", x)
        gradient = cumprod_gradient(flat, grad, self.axis or 0, self.exclusive)
        gradient = apply("astype", gradient, dtype=tensor_info(data).dtype)
        shaped = gradient if self.axis is not None else reshaped(gradient, data)
        return None if shaped is None else (shaped,)


class RunningExtreme(Operator):
    """Base class of cummax and cummin: a tuple of the values and the int64 indices along `axis`."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    total = True

    axis: int

    def infer(self, data: TensorStructInfo) -> TupleStructInfo:
        self.require_axis(self.axis, data)
        return TupleStructInfo((data, like(data, "int64")))

    def running(self, data: Array, replaces: Callable[[Array, Array], Array]) -> list[Array]:
        """Values and indices, given the comparison by which an element replaces an earlier one."""
        wide = np.moveaxis(_widened(data), self.axis, 0)
        indices = np.zeros(wide.shape, np.int64)
        for i in range(1, len(wide)):
            kept = np.take_along_axis(wide, indices[i - 1 : i], 0)[0]
            better = (wide[i] != wide[i]) | ((kept == kept) & replaces(wide[i], kept))
            indices[i] = np.where(better, i, indices[i - 1])
        values = np.take_along_axis(np.moveaxis(data, self.axis, 0), indices, 0)
        return [np.ascontiguousarray(np.moveaxis(array, 0, self.axis)) for array in (values, indices)]

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (data,) = operands
        if not is_float(data):
            return (None,)
        places = (apply("zeros_like", data), TupleGetItem(result, 1), TupleGetItem(grad, 0))
        return (apply("scatter_elements", *places, axis=self.axis, reduction="add"),)


@operator("relax.cummax")
class CumMax(RunningExtreme):
    """The greatest element so far along `axis`, and its index as int64: the last one of equals.

    NaN is greater than every number. Of booleans, True from the first one on that is.
    """

    axis: int

    compute = topi.cummax

    def reference(self, data: Array) -> list[Array]:
        return self.running(data, np.greater_equal)


@operator("relax.cummin")
class CumMin(RunningExtreme):
    """The least element so far along `axis`, and its index as int64: the last one of equals.

    NaN is less than every number. Of booleans, False from the first one on that is.
    """

    axis: int

    compute = topi.cummin

    def reference(self, data: Array) -> list[Array]:
        return self.running(data, np.less_equal)
