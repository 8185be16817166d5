"""Reductions, positions of extrema, sums to a shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .....struct_info import TupleStructInfo
from ..graph import Graph
from ..registry import writer
from ..tensor import Nodes, Tensor
from .shape import axes_of


def reduced(g: Nodes, op_type: str, x: Tensor, axes: Sequence[int], keepdims: bool = True) -> Tensor:
    """A reduction over axes; over none it is the tensor itself."""
    if not axes:
        return x
    rank = x.rank if keepdims else x.rank - len(axes)
    return g.run(op_type, x, g.ints(axes), rank=rank if x.rank >= 0 else -1, keepdims=int(keepdims))


def element_count(x: Tensor, axes: Sequence[int]) -> Tensor:
    """The number of elements along axes, an int64."""
    sizes, total = x.sizes(), x.graph.const(1, "int64")
    for axis in axes:
        total = total * x.graph.scalar(sizes[axis])
    return total


def mean_over(x: Tensor, axes: Sequence[int], keepdims: bool = True) -> Tensor:
    """The mean over axes; NaN of no elements."""
    total = reduced(x.graph, "ReduceSum", x, axes, keepdims)
    if not axes:
        return total
    return total / element_count(x, axes).to(x.dtype)


def variance_over(x: Tensor, axes: Sequence[int]) -> Tensor:
    """The variance over axes, which stay with size 1."""
    centred = (x - mean_over(x, axes)).ranked(x.rank)
    centred.dims = x.dims
    return mean_over(_like(centred * centred, x), axes)


def _like(value: Tensor, x: Tensor) -> Tensor:
    return Tensor(value.graph, value.name, value.dtype, x.rank, x.dims)


def _summed(x: Tensor) -> Tensor:
    """Elements as they are summed: integers in int64, in which ONNX Runtime's sums wrap around; bools are counted."""
    return x.wide() if x.kind.is_float else x.to("int64")


@writer("relax.sum")
def sum_(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return reduced(g, "ReduceSum", _summed(x), axes_of(x, operator.axis), operator.keepdims)


@writer("relax.prod")
def prod(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return reduced(g, "ReduceProd", _summed(x), axes_of(x, operator.axis), operator.keepdims)


@writer("relax.mean")
def mean(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return mean_over(x.wide(), axes_of(x, operator.axis), operator.keepdims)


@writer("relax.variance")
def variance(g: Graph, operator: Any, x: Tensor) -> Tensor:
    axes = axes_of(x, operator.axis)
    result = variance_over(x.wide(), axes)
    return result if operator.keepdims else result.squeeze(*axes)


@writer("relax.std")
def std(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return g.run("Sqrt", variance(g, operator, x))


# ------------------------------------------------------------------------------------------- extrema


def ordered(x: Tensor) -> Tensor:
    """Elements in a type that compares them: uint64 as int64 with the upper bit flipped."""
    if x.dtype != "uint64":
        return x
    return x.to("int64") + x.graph.const(-(1 << 63), "int64")


def reordered(x: Tensor, dtype: str) -> Tensor:
    """Elements that `ordered` returned, as they were."""
    if dtype != "uint64":
        return x
    return (x + x.graph.const(-(1 << 63), "int64")).to(dtype)


def extremum(g: Graph, x: Tensor, axes: Sequence[int], keepdims: bool, largest: bool) -> Tensor:
    """The greatest or least element over axes; NaN if any element is, the limit of the dtype of no elements."""
    wide = ordered(x) if x.dtype == "uint64" else x.wide()
    op_type = "ReduceMax" if largest else "ReduceMin"
    limit = x.kind.min_value if largest else x.kind.max_value
    if x.kind.is_float:
        limit = -math.inf if largest else math.inf
    start = ordered(
        g.const(limit if x.kind.is_float else int(limit), x.dtype).to(wide.dtype if x.dtype != "uint64" else "uint64")
    )
    padded = wide
    if axes and any(not _has_elements(x, axis) for axis in axes):
        padded = _with_border(g, wide, axes, start)
    result = reduced(g, op_type, padded, axes, keepdims)
    if x.kind.is_float and axes:
        missing = g.run("IsNaN", padded, dtype="bool")
        some = reduced(g, "ReduceMax", missing.to("int32").ranked(x.rank), axes, keepdims).to("bool")
        result = some.where(math.nan, result)
    return reordered(result, x.dtype)


def _has_elements(x: Tensor, axis: int) -> bool:
    value = getattr(x.dims[axis], "value", 0) if x.dims is not None else 0
    return value > 0


def _with_border(g: Graph, x: Tensor, axes: Sequence[int], value: Tensor) -> Tensor:
    """Elements with one more at the end of each axis, so that a reduction has something to reduce."""
    pads = [0] * x.ndim + [int(axis in axes) for axis in range(x.ndim)]
    return g.run("Pad", x, g.ints(pads), value, rank=x.rank)


@writer("relax.max")
def max_(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return extremum(g, x, axes_of(x, operator.axis), operator.keepdims, True)


@writer("relax.min")
def min_(g: Graph, operator: Any, x: Tensor) -> Tensor:
    return extremum(g, x, axes_of(x, operator.axis), operator.keepdims, False)


def first_extremum(g: Graph, x: Tensor, axis: int, largest: bool) -> Tensor:
    """The index of the first greatest or least element along an axis, which stays; NaN is greatest and least."""
    key = ordered(x) if x.dtype == "uint64" else (x.to("int32") if x.dtype == "bool" else x.wide())
    op_type = "ArgMax" if largest else "ArgMin"
    index = g.node(op_type, key, dtype="int64", rank=x.rank, axis=axis)
    if not x.kind.is_float:
        return index
    missing = g.run("IsNaN", key, dtype="bool").to("int32").ranked(x.rank)
    some = reduced(g, "ReduceMax", missing, [axis]).to("bool")
    return some.where(g.node("ArgMax", missing, dtype="int64", rank=x.rank, axis=axis), index)


def _positions(largest: bool) -> Any:
    def write(g: Graph, operator: Any, x: Tensor) -> Tensor:
        if operator.axis is None:
            index = first_extremum(g, x.flat(), 0, largest)
            return index.reshape([1] * x.ndim if operator.keepdims else [])
        if not x.ndim:
            return first_extremum(g, x.flat(), 0, largest).reshape([])
        axis = operator.axis % x.ndim
        index = first_extremum(g, x, axis, largest)
        return index if operator.keepdims else index.squeeze(axis)

    return write


writer("relax.argmax")(_positions(True))
writer("relax.argmin")(_positions(False))


# ------------------------------------------------------------------------------------------- to a shape


@writer("relax.collapse_sum_like")
def collapse_sum_like(g: Graph, operator: Any, data: Tensor, target: Tensor) -> Tensor:
    return collapsed(g, data, target.sizes())


@writer("relax.collapse_sum_to")
def collapse_sum_to(g: Graph, operator: Any, data: Tensor, shape: Any) -> Tensor:
    if shape.given is None:
        g.refuse("a sum to a shape that is not known")
    return collapsed(g, data, shape.given)


def collapsed(g: Graph, data: Tensor, sizes: Sequence[Any]) -> Tensor:
    """The sum over the dimensions along which `sizes` was repeated."""
    new, dims = data.ndim - len(sizes), data.dims or ()
    axes = list(range(new))
    undecided: list[int] = []
    for d, size in enumerate(sizes, new):
        number, full = getattr(size, "value", None), getattr(dims[d], "value", None) if dims else None
        if number == 1 and full != 1:
            axes.append(d)
        elif number is None and not (dims and dims[d] is size):
            undecided.append(d)
    if undecided and any(not (dims and str(dims[d]) == str(sizes[d - new])) for d in undecided):
        g.refuse("a sum to sizes of which it is not known whether they are 1")
    total = reduced(g, "ReduceSum", _summed(data), axes, True)
    return total.squeeze(*range(new)) if new else total


@writer("relax.median")
def median(g: Graph, operator: Any, x: Tensor) -> Any:
    axes = axes_of(x, operator.axis)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    sizes = x.sizes()
    folded = element_count(x, axes)
    flat = (
        x.wide().transpose([*kept, *axes]).reshape([*[sizes[a] for a in kept], folded]) if axes else x.unsqueeze(x.ndim)
    )
    flat = (ordered(flat) if x.dtype == "uint64" else flat).ranked(len(kept) + 1)
    axis = len(kept)
    count = flat.size(axis)
    key, missing = flat, None
    if x.kind.is_float:
        missing = g.run("IsNaN", flat, dtype="bool")
        key = missing.where(math.inf, flat).ranked(flat.rank)
    values, _ = g.parts("TopK", key, g.vector(count), dtypes=[key.dtype, "int64"], rank=flat.rank, axis=axis, largest=0)
    middle = g.run("Gather", values, (count - 1) / 2, rank=len(kept), axis=axis).unsqueeze(axis)
    hits = key.equal(middle)
    value = middle
    if missing is not None:
        some = reduced(g, "ReduceMax", missing.to("int32").ranked(flat.rank), [axis]).to("bool")
        hits = some.where(missing.to("int32"), (hits & ~missing).to("int32")).to("bool")
        value = some.where(math.nan, middle)
    index = g.node("ArgMax", hits.to("int32"), dtype="int64", rank=flat.rank, axis=axis)
    results = [reordered(value, x.dtype).ranked(flat.rank).squeeze(axis), index.squeeze(axis)]
    if operator.keepdims:
        results = [result.ranked(len(kept)).unsqueeze(*axes) for result in results]
    return results if isinstance(g.result, TupleStructInfo) else results[0]
