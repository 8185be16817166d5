"""Reductions of a tensor along axes: sum, prod, max, min, mean, variance, argmax, argmin, cumsum, cumprod.

float16, bfloat16 and the 8-bit floats accumulate in float32 and are rounded once. For empty dimensions, sum is 0, prod
1, max and min are the least and greatest value of the dtype, mean and variance are NaN and argmax/argmin are -1.
"""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..ir import DataType
from ..prim import PrimExpr, Select, Var, const, intrin
from ..tir.buffer import Buffer
from ..tir.stmt import BufferStore, For, IfThenElse, SeqStmt, Stmt
from .util import accumulator_dtype, normalize_axes, normalize_axis

Axis = int | Sequence[int] | None


def source_index(
    ndim: int, axes: tuple[int, ...], keepdims: bool, outer: Sequence[Any], inner: Sequence[Any]
) -> list[Any]:
    """Index of the input: the reduction's variables on `axes`, the output's elsewhere."""
    inner_of = dict(zip(axes, inner, strict=True))
    kept = iter(outer)
    index: list[Any] = []
    for d in range(ndim):
        if d in inner_of:
            if keepdims:
                next(kept)
            index.append(inner_of[d])
        else:
            index.append(next(kept))
    return index


def reduced_shape(shape: Sequence[PrimExpr], axes: tuple[int, ...], keepdims: bool) -> list[PrimExpr]:
    """Shape after the reduction."""
    one = const(1, "int64")
    return [one if d in axes else size for d, size in enumerate(shape) if keepdims or d not in axes]


def _reduce(
    x: te.Tensor,
    axis: Axis,
    keepdims: bool,
    name: str,
    fold: Callable[..., Any],
    element: Callable[[Any], Any] = lambda value: value,
) -> te.Tensor:
    axes = normalize_axes(axis, x.ndim)
    inner = [te.reduce_axis((0, x.shape[d]), f"k{d}") for d in axes]

    def formula(*outer: Any) -> Any:
        return fold(element(x(*source_index(x.ndim, axes, keepdims, outer, inner))), axis=inner)

    return te.compute(reduced_shape(x.shape, axes, keepdims), formula, name, tag="comm_reduce")


def _accumulated(x: te.Tensor, axis: Axis, keepdims: bool, name: str, fold: Callable[..., Any]) -> te.Tensor:
    if x.dtype.is_bool:
        return _reduce(x, axis, keepdims, name, fold, lambda value: value.astype("int64"))
    wide = accumulator_dtype(x.dtype)
    if wide == x.dtype:
        return _reduce(x, axis, keepdims, name, fold)
    total = _reduce(x, axis, keepdims, f"{name}_wide", fold, lambda value: value.astype(wide))
    return te.compute(total.shape, lambda *i: total(*i).astype(x.dtype), name)


def sum(x: te.Tensor, axis: Axis = None, keepdims: bool = False) -> te.Tensor:
    """Σ of the elements along `axis` (all axes for None); of booleans in int64."""
    return _accumulated(x, axis, keepdims, "sum", te.sum)


def prod(x: te.Tensor, axis: Axis = None, keepdims: bool = False) -> te.Tensor:
    """Π of the elements along `axis`; of booleans in int64."""
    return _accumulated(x, axis, keepdims, "prod", te.prod)


def max(x: te.Tensor, axis: Axis = None, keepdims: bool = False) -> te.Tensor:
    """The greatest element along `axis`; NaN if any element is."""
    return _reduce(x, axis, keepdims, "max", te.max)


def min(x: te.Tensor, axis: Axis = None, keepdims: bool = False) -> te.Tensor:
    """The least element along `axis`; NaN if any element is."""
    return _reduce(x, axis, keepdims, "min", te.min)


def _count(x: te.Tensor, axes: tuple[int, ...], dtype: str) -> PrimExpr:
    """Number of elements reduced to one, as a float."""
    count: PrimExpr = const(1, "int64")
    for d in axes:
        count = count * x.shape[d]
    return count.astype(dtype)


def mean(x: te.Tensor, axis: Axis = None, keepdims: bool = False) -> te.Tensor:
    """The mean along `axis`."""
    wide = accumulator_dtype(x.dtype)
    count = _count(x, normalize_axes(axis, x.ndim), wide)
    total = _reduce(x, axis, keepdims, "mean_total", te.sum, lambda value: value.astype(wide))
    return te.compute(total.shape, lambda *i: (total(*i) / count).astype(x.dtype), "mean")


def variance(x: te.Tensor, axis: Axis = None, keepdims: bool = False) -> te.Tensor:
    """The mean squared deviation from the mean along `axis`."""
    mean_square = _mean_square(x, axis, keepdims)
    return te.compute(mean_square.shape, lambda *i: mean_square(*i).astype(x.dtype), "variance")


def std(x: te.Tensor, axis: Axis = None, keepdims: bool = False) -> te.Tensor:
    """The square root of the variance along `axis`."""
    mean_square = _mean_square(x, axis, keepdims)
    return te.compute(mean_square.shape, lambda *i: intrin.sqrt(mean_square(*i)).astype(x.dtype), "std")


def _mean_square(x: te.Tensor, axis: Axis, keepdims: bool) -> te.Tensor:
    """Variance in the accumulator dtype."""
    wide = accumulator_dtype(x.dtype)
    axes = normalize_axes(axis, x.ndim)
    count = _count(x, axes, wide)
    total = _reduce(x, axis, True, "variance_total", te.sum, lambda value: value.astype(wide))
    center = te.compute(total.shape, lambda *i: total(*i) / count, "variance_mean")
    inner = [te.reduce_axis((0, x.shape[d]), f"k{d}") for d in axes]

    def squares(*outer: Any) -> Any:
        index = source_index(x.ndim, axes, keepdims, outer, inner)
        mean_index = [const(0, "int64") if d in axes else index[d] for d in range(x.ndim)]
        distance = x(*index).astype(wide) - center(*mean_index)
        return te.sum(distance * distance, axis=inner)

    shape = reduced_shape(x.shape, axes, keepdims)
    squared = te.compute(shape, squares, "variance_squares", tag="comm_reduce")
    return te.compute(shape, lambda *i: squared(*i) / count, "variance_wide")


def _arg_reducer(better: Callable[[Any, Any], PrimExpr], worst: Callable[[str], PrimExpr], name: str) -> Any:
    """Reducer of (index, value) that keeps the extremum: the first among equal ones, and the first NaN before all
    numbers.
    """

    def combine(lhs: Any, rhs: Any) -> tuple[PrimExpr, PrimExpr]:
        keep, equal = better(lhs[1], rhs[1]), lhs[1].equal(rhs[1])
        if DataType(lhs[1].dtype).is_float:
            keep = intrin.any(keep, intrin.all(intrin.isnan(lhs[1]), ~intrin.isnan(rhs[1])))
            equal = intrin.any(equal, intrin.isnan(lhs[1]))
        # Of equals, that with the smaller index, so that elements may be combined in any order.
        keep = intrin.any(keep, intrin.all(equal, lhs[0] < rhs[0]))
        # -1 marks "nothing yet".
        keep = intrin.all(lhs[0] >= 0, intrin.any(keep, rhs[0] < 0))
        return Select(keep, lhs[0], rhs[0]), Select(keep, lhs[1], rhs[1])

    return te.comm_reducer(combine, lambda index, value: (const(-1, index), worst(value)), name)


argmax_reducer = _arg_reducer(lambda a, b: a > b, intrin.min_value, "argmax")
argmin_reducer = _arg_reducer(lambda a, b: a < b, intrin.max_value, "argmin")


def _arg(x: te.Tensor, axis: int | None, keepdims: bool, name: str, reducer: Any) -> te.Tensor:
    axes = normalize_axes(axis, x.ndim)
    inner = [te.reduce_axis((0, x.shape[d]), f"k{d}") for d in axes]

    def formula(*outer: Any) -> Any:
        flat: PrimExpr = const(0, "int64")
        for var, d in zip(inner, axes, strict=True):
            flat = flat * x.shape[d] + var.var.astype("int64")
        return reducer((flat, x(*source_index(x.ndim, axes, keepdims, outer, inner))), axis=inner)

    pair = te.compute(reduced_shape(x.shape, axes, keepdims), formula, f"{name}_pair", tag="comm_reduce_idx")
    return te.compute(pair[0].shape, lambda *i: pair[0](*i), name)


def argmax(x: te.Tensor, axis: int | None = None, keepdims: bool = False) -> te.Tensor:
    """The int64 index of the greatest element along `axis` (in row-major order over all axes for None)."""
    return _arg(x, axis, keepdims, "argmax", argmax_reducer)


def argmin(x: te.Tensor, axis: int | None = None, keepdims: bool = False) -> te.Tensor:
    """The int64 index of the least element along `axis`."""
    return _arg(x, axis, keepdims, "argmin", argmin_reducer)


def scan(
    x: te.Tensor,
    axis: int,
    dtype: str,
    exclusive: bool,
    name: str,
    start: PrimExpr,
    step: Callable[[PrimExpr, PrimExpr], PrimExpr],
) -> te.Tensor:
    """Cumulative `step` along one axis: element k holds step(… step(start, x[0]) …, x[k]).

    With `exclusive`, x[k] is excluded. Sequential along `axis`.
    """
    axis = normalize_axis(axis, x.ndim)

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        source, target = ins[0], outs[0]
        loops = [Var(f"i{d}", "int64") for d in range(x.ndim)]
        position = loops[axis]
        before: list[PrimExpr] = list(loops)
        before[axis] = position - 1
        is_first = position.equal(0)
        running = intrin.if_then_else(is_first, start, target[tuple(before)])
        read = source[tuple(before if exclusive else loops)].astype(dtype)
        value = intrin.if_then_else(is_first, start, step(running, read)) if exclusive else step(running, read)
        body: Stmt = BufferStore(target, value, loops)
        for d in reversed([d for d in range(x.ndim) if d != axis] + [axis]):
            body = For(loops[d], 0, x.shape[d], "serial", body)
        return body

    return te.extern([x.shape], [x], statement, name, [dtype])[0]


def cumsum(x: te.Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool = False) -> te.Tensor:
    """Cumulative sums along `axis`; of the flattened tensor for None. `exclusive` excludes the element itself."""
    return _running(x, axis, dtype, exclusive, "cumsum", 0, lambda so_far, value: so_far + value)


def cumprod(x: te.Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool = False) -> te.Tensor:
    """Cumulative products along `axis`; of the flattened tensor for None. `exclusive` excludes the element itself."""
    return _running(x, axis, dtype, exclusive, "cumprod", 1, lambda so_far, value: so_far * value)


def _running(
    x: te.Tensor,
    axis: int | None,
    dtype: str | None,
    exclusive: bool,
    name: str,
    start: int,
    step: Callable[[PrimExpr, PrimExpr], PrimExpr],
) -> te.Tensor:
    """`scan` from a constant, in the accumulator dtype."""
    kind = DataType(dtype) if dtype else DataType("int64") if x.dtype.is_bool else x.dtype
    if axis is None:
        x, axis = _flat(x), 0
    wide = accumulator_dtype(kind)
    total = scan(x, axis, wide, exclusive, name, const(start, wide), step)
    return total if wide == kind else te.compute(total.shape, lambda *i: total(*i).astype(kind), f"{name}_cast")


def cummax(x: te.Tensor, axis: int) -> list[te.Tensor]:
    """Greatest element so far along an axis, and its int64 index: the last one of equals; NaN is the greatest."""
    return _running_extreme(x, axis, "cummax", lambda new, kept: new >= kept)


def cummin(x: te.Tensor, axis: int) -> list[te.Tensor]:
    """Least element so far along an axis, and its int64 index: the last one of equals; NaN is the least."""
    return _running_extreme(x, axis, "cummin", lambda new, kept: new <= kept)


def _running_extreme(
    x: te.Tensor, axis: int, name: str, replaces: Callable[[PrimExpr, PrimExpr], PrimExpr]
) -> list[te.Tensor]:
    axis = normalize_axis(axis, x.ndim)

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        loops = [Var(f"i{d}", "int64") for d in range(x.ndim)]
        position = loops[axis]
        before: list[PrimExpr] = list(loops)
        before[axis] = position - 1
        new, kept = ins[0][tuple(loops)], outs[0][tuple(before)]
        better = _replaces(new, kept, replaces)
        take = intrin.if_then_else(position.equal(0), const(True, "bool"), better)
        body: Stmt = IfThenElse(
            take,
            SeqStmt((BufferStore(outs[0], new, loops), BufferStore(outs[1], position, loops))),
            SeqStmt((BufferStore(outs[0], kept, loops), BufferStore(outs[1], outs[1][tuple(before)], loops))),
        )
        for d in reversed([d for d in range(x.ndim) if d != axis] + [axis]):
            body = For(loops[d], 0, x.shape[d], "serial", body)
        return body

    return te.extern([x.shape] * 2, [x], statement, name, [x.dtype, "int64"])


def _replaces(new: PrimExpr, kept: PrimExpr, replaces: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> PrimExpr:
    """True if a new element takes the place of the one kept so far."""
    if not new.dtype.is_float:
        return replaces(new, kept)
    new, kept = (value.astype(accumulator_dtype(value.dtype)) for value in (new, kept))
    return intrin.any(intrin.isnan(new), intrin.all(~intrin.isnan(kept), replaces(new, kept)))


def _flat(x: te.Tensor) -> te.Tensor:
    if x.ndim == 1:
        return x
    size: PrimExpr = const(1, "int64")
    for extent in x.shape:
        size = size * extent

    def formula(i: Any) -> Any:
        index: list[Any] = []
        rest = i
        for extent in reversed(x.shape):
            index.append(rest % extent)
            rest = rest // extent
        return x(*reversed(index))

    return te.compute((size,), formula, "flatten")
