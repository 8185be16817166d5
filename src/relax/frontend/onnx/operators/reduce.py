"""Operators that fold a tensor along axes: Reduce*, ArgMax, ArgMin, CumSum, CumProd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from .... import op
from ....expr import ShapeExpr
from ....prim import IntImm, PrimExpr, Select, const, intrin
from ..emitter import Emitter
from ..registry import register
from ..values import Dims, Signed, Tensor

Fold: TypeAlias = Callable[..., Tensor]
"""An operator that folds: ``fold(x, axis=..., keepdims=...)``."""


class Axes:
    """The axes of a reduction: numbers, or scalars that are read when the program runs."""

    def __init__(self, g: Emitter, x: Tensor, axes: Signed | None, noop: int) -> None:
        self.g, self.x = g, x
        self.numbers: tuple[int, ...] | None = None
        self.all = False
        """True if all axes of a tensor of unknown rank are folded."""
        values = axes or ()
        numbers = tuple(axis.value for axis in values if isinstance(axis, IntImm))
        is_known = len(numbers) == len(values)
        if is_known and g.rank(x) is None:
            self.numbers, self.all = numbers, not numbers and not noop
            return
        ndim = len(self.dims)
        if ndim == 0 and is_known and {*numbers} <= {0, -1}:
            self.numbers = ()  # ONNX Runtime and NumPy accept the first and the last axis of a scalar
        elif is_known:
            self.numbers = g.axes(numbers, ndim) if numbers else () if noop else tuple(range(ndim))
        self.folded = named_axes(values, ndim) if self.numbers is None else []
        self.left = ndim - len(values)

    @property
    def dims(self) -> Dims:
        """The dimensions of the tensor. Raises DiagnosticError if its rank is not known."""
        return self.g.dims(self.x)

    def count(self) -> PrimExpr:
        """The number of elements that are folded into one."""
        if self.all:
            return self.g.sizes(self.g.emit(op.prod(self.g.run_time_shape(self.x))), "elements")[0]
        total: PrimExpr = const(1, "int64")
        for d, dim in enumerate(self.dims):
            if self.numbers is None:
                total = total * Select(self.folded[d], dim, const(1, "int64"))
            elif d in self.numbers:
                total = total * dim
        return total

    def fold(self, x: Tensor, function: Fold, keepdims: bool) -> Tensor:
        """The tensor folded along the axes."""
        if self.all:
            return function(x, axis=None, keepdims=keepdims)
        if self.numbers is not None:
            return function(x, axis=self.numbers, keepdims=keepdims) if self.numbers else x
        for d, dim in enumerate(self.dims):
            x = self._fold_if(x, d, dim, function)
        return x if keepdims else op.reshape(x, ShapeExpr(kept_sizes(self.dims, self.folded, self.left)))

    def _fold_if(self, x: Tensor, d: int, dim: PrimExpr, function: Fold) -> Tensor:
        """The tensor folded along dimension d where that is named; one of both is cut from their concatenation."""
        x = self.g.emit(x)
        both = op.concat([x, function(x, axis=(d,), keepdims=True)], axis=d)
        begin = Select(self.folded[d], dim, const(0, "int64"))
        end = begin + Select(self.folded[d], const(1, "int64"), dim)
        return op.strided_slice(both, [d], [begin], [end], assume_inbound=True)


def named_axes(axes: Sequence[PrimExpr], ndim: int) -> list[PrimExpr]:
    """For each dimension the condition that one of the axes names it."""
    return [intrin.any(*(named(axis, d, ndim) for axis in axes)) for d in range(ndim)]


def named(axis: PrimExpr, d: int, ndim: int) -> PrimExpr:
    """The condition that an axis, which may be counted from the end, is dimension d."""
    return intrin.any(axis.equal(d), axis.equal(d - ndim))


def kept_sizes(dims: Dims, dropped: Sequence[PrimExpr], count: int) -> list[PrimExpr]:
    """The sizes of the dimensions that are not dropped, of which there are `count`."""
    sizes: list[PrimExpr] = [const(0, "int64")] * count
    before: PrimExpr = const(0, "int64")
    for dim, drop in zip(dims, dropped, strict=True):
        kept = Select(drop, const(0, "int64"), const(1, "int64"))
        sizes = [size + Select(before.equal(p), kept * dim, const(0, "int64")) for p, size in enumerate(sizes)]
        before = before + kept
    return sizes


# ------------------------------------------------------------------------------------- reductions


Reduction: TypeAlias = Callable[[Emitter, Tensor, Axes, bool], Tensor]


def _plain(function: Fold) -> Reduction:
    return lambda g, x, axes, keepdims: axes.fold(x, function, keepdims)


def _mean(g: Emitter, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    dtype = g.dtype(x)
    if dtype.is_float and axes.numbers is not None:
        return axes.fold(x, op.mean, keepdims)
    wide = "float32" if dtype.is_float and dtype.bits < 32 else dtype
    total = axes.fold(g.cast(x, wide), op.sum, keepdims)
    return g.cast(op.divide(total, g.scalar(axes.count(), wide)), dtype)


def _l1(g: Emitter, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    return axes.fold(op.abs(x), op.sum, keepdims)


def _l2(g: Emitter, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    dtype = g.dtype(x)
    wide = dtype if dtype.is_float and dtype.bits >= 32 else "float32" if dtype.is_float else "float64"
    return g.cast(op.sqrt(axes.fold(op.square(g.cast(x, wide)), op.sum, keepdims)), dtype)


def _sum_of_squares(g: Emitter, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    return axes.fold(op.square(x), op.sum, keepdims)


def _log_of_sum(g: Emitter, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    _require_float(g, x)
    return op.log(axes.fold(x, op.sum, keepdims))


def _log_of_sum_of_exp(g: Emitter, x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    _require_float(g, x)
    if axes.numbers == () and not axes.all:
        return x
    greatest = g.emit(axes.fold(x, op.max, True))
    greatest = g.emit(op.where(op.isfinite(greatest), greatest, 0.0))
    spread = greatest if g.rank(x) is None else op.broadcast_to(greatest, ShapeExpr(axes.dims))
    shifted = op.subtract(x, spread)
    total = op.log(axes.fold(op.exp(shifted), op.sum, True))
    result = g.emit(op.add(total, greatest))
    return result if keepdims else axes_dropped(axes, result)


def axes_dropped(axes: Axes, x: Tensor) -> Tensor:
    """The tensor, which has size 1 along the axes, without them."""
    if axes.all:
        return op.reshape(x, ShapeExpr([]))
    if axes.numbers is not None:
        return op.squeeze(x, axes.numbers)
    return op.reshape(x, ShapeExpr(kept_sizes(axes.dims, axes.folded, axes.left)))


def _require_float(g: Emitter, x: Tensor) -> None:
    if not g.dtype(x).is_float:
        g.unsupported(f"a logarithm of {g.dtype(x)}")


def _reduction(function: Reduction) -> Callable[..., Tensor]:
    def convert(
        g: Emitter, data: Tensor, axes: Signed | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        return function(g, data, Axes(g, data, axes, noop_with_empty_axes), bool(keepdims))

    return convert


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceLogSum": _log_of_sum,
    "ReduceLogSumExp": _log_of_sum_of_exp,
    "ReduceMax": _plain(op.max),
    "ReduceMean": _mean,
    "ReduceMin": _plain(op.min),
    "ReduceProd": _plain(op.prod),
    "ReduceSum": _plain(op.sum),
    "ReduceSumSquare": _sum_of_squares,
}

for _name, _function in _REDUCTIONS.items():
    register(_name, _reduction(_function))


# ------------------------------------------------------------------------------------- indices of extremes


def _index(function: Fold) -> Callable[..., Tensor]:
    def convert(g: Emitter, data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        if g.rank(data) is None and not select_last_index:
            return function(data, axis=axis, keepdims=bool(keepdims))
        dims = g.dims(data)
        dimension = g.axis(axis, len(dims))
        if not select_last_index:
            return function(data, axis=dimension, keepdims=bool(keepdims))
        last = function(op.flip(data, dimension), axis=dimension, keepdims=bool(keepdims))
        return op.subtract(g.scalar(dims[dimension] - 1), last)

    return convert


register("ArgMax", _index(op.argmax))
register("ArgMin", _index(op.argmin))


# ------------------------------------------------------------------------------------- running results


def _running(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def convert(g: Emitter, x: Tensor, axis: Signed, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
        def along(dimension: int) -> Tensor:
            data = op.flip(x, dimension) if reverse else x
            result = function(data, axis=dimension, exclusive=bool(exclusive))
            return op.flip(result, dimension) if reverse else result

        axis_value = g.single(axis, "axis")
        if isinstance(axis_value, IntImm) and g.rank(x) is None:
            return along(axis_value.value)
        ndim = g.ndim(x)
        if isinstance(axis_value, IntImm):
            return along(g.axis(axis_value.value, ndim))
        result = along(0)
        for d, named in list(enumerate(named_axes([axis_value], ndim)))[1:]:
            result = op.where(g.scalar(named, "bool"), along(d), result)
        return result

    return convert


register("CumSum", _running(op.cumsum))
register("CumProd", _running(op.cumprod))
