"""Reading and writing at indices, slices, sorting, sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .....struct_info import TupleStructInfo
from ..graph import Graph
from ..registry import writer
from ..tensor import Size, Tensor
from .creation import numbers
from .elementwise import converted
from .reduce import ordered, reduced, reordered
from .shape import joined, result_rank

_FAR = (1 << 63) - 1


def index_of(x: Tensor) -> Tensor:
    """Indices as int64; those of uint64 that it does not hold stay out of range."""
    if x.dtype == "uint64":
        x = x.graph.run("Min", x, x.graph.const(_FAR, "uint64"))
    return x.to("int64")


# ------------------------------------------------------------------------------------------- reading


@writer("relax.take")
def take(g: Graph, operator: Any, x: Tensor, indices: Tensor) -> Tensor:
    axis = 0 if operator.axis is None else operator.axis % x.ndim
    x = x.flat() if operator.axis is None and x.ndim != 1 else x
    rank = result_rank(g)
    if operator.mode == "fast":
        return g.run("Gather", x, index_of(indices), rank=rank, axis=axis)
    size = x.size(axis)
    if operator.mode == "wrap":
        whole = indices if indices.dtype == "uint64" else indices.to("int64")
        index = g.run("Mod", whole, size.to(whole.dtype)).to("int64")
        return g.run("Gather", x, index, rank=rank, axis=axis)
    index = index_of(indices)
    if operator.mode == "clip":
        inside = g.run("Max", g.run("Min", index, size - 1), g.const(0, "int64"))
        return g.run("Gather", x, inside, rank=rank, axis=axis)
    valid = (index < size) & (index >= -size)
    border = [0] * x.ndim + [int(d == axis) for d in range(x.ndim)]
    safe = valid.where(index, 0)
    padded = g.run("Pad", x, g.ints(border), g.const(math.nan, x.dtype))  # of no elements one is read, and not used
    index = (safe < 0).where(safe + size, safe)
    taken = g.run("Gather", padded, index, rank=rank, axis=axis)
    lifted = valid.ranked(indices.ndim).unsqueeze(*[indices.ndim + d for d in range(x.ndim - axis - 1)])
    return lifted.where(taken, math.nan)


@writer("relax.gather_elements")
def gather_elements(g: Graph, operator: Any, data: Tensor, indices: Tensor) -> Tensor:
    return g.run("GatherElements", data, index_of(indices), rank=data.rank, axis=operator.axis % data.ndim)


@writer("relax.gather_nd")
def gather_nd(g: Graph, operator: Any, data: Tensor, indices: Tensor) -> Tensor:
    return g.run("GatherND", data, index_of(indices), rank=result_rank(g), batch_dims=operator.batch_dims)


def index_tuples(g: Graph, fields: Sequence[Tensor]) -> Tensor:
    """Index tensors broadcast together, with a row of one index each."""
    indices = [index_of(field) for field in fields]
    rank = max(field.ndim for field in fields)
    total = indices[0]
    for other in indices[1:]:
        total = total + other
    shape = g.node("Shape", total, dtype="int64", rank=1)
    rows = [g.run("Expand", index, shape, rank=rank).unsqueeze(rank) for index in indices]
    return joined(g, rows, rank).ranked(rank + 1)


@writer("relax.index_tensor")
def index_tensor(g: Graph, operator: Any, data: Tensor, indices: list[Tensor]) -> Tensor:
    return g.run("GatherND", data, index_tuples(g, indices), rank=result_rank(g))


@writer("relax.one_hot")
def one_hot(g: Graph, operator: Any, indices: Tensor, on_value: Tensor, off_value: Tensor, depth: Tensor) -> Tensor:
    axis = operator.axis % (indices.ndim + 1)
    after = indices.ndim - axis
    classes = numbers(g, depth.to("int64")).unsqueeze(*range(1, after + 1))
    hits = index_of(indices).ranked(indices.ndim).unsqueeze(axis).equal(classes)
    return hits.where(on_value, off_value)


@writer("relax.reverse_sequence")
def reverse_sequence(g: Graph, operator: Any, data: Tensor, lengths: Tensor) -> Tensor:
    batch, along = operator.batch_axis % data.ndim, operator.seq_axis % data.ndim
    order = [batch, along, *(axis for axis in range(data.ndim) if axis not in (batch, along))]
    counts = g.run("Max", index_of(lengths), g.const(0, "int64"))
    turned = g.run("ReverseSequence", data.transpose(order), counts, rank=data.rank, batch_axis=0, time_axis=1)
    return turned.transpose([order.index(axis) for axis in range(data.ndim)])


# ------------------------------------------------------------------------------------------- slices


def _sizes(values: Sequence[Tensor]) -> list[Size]:
    return [value.to("int64") for value in values]


@writer("relax.strided_slice")
def strided_slice(g: Graph, operator: Any, x: Tensor, axes: Any, begin: Any, end: Any, strides: Any) -> Tensor:
    if not axes:
        return x
    chosen = [int(axis.constant) % x.ndim for axis in axes]
    steps = strides or [g.const(1, "int64") for _ in axes]
    bounds = [g.shape(_sizes(begin)), g.shape(_sizes(end)), g.ints(chosen), g.shape(_sizes(steps))]
    return g.run("Slice", x, *bounds, rank=x.rank)


@writer("relax.dynamic_strided_slice")
def dynamic_strided_slice(g: Graph, operator: Any, x: Tensor, begin: Tensor, end: Tensor, strides: Tensor) -> Tensor:
    bounds = [index_of(begin), index_of(end), g.ints(range(x.ndim)), index_of(strides)]
    return g.run("Slice", x, *bounds, rank=x.rank) if x.ndim else x


# ------------------------------------------------------------------------------------------- writing


def scattered(g: Graph, data: Tensor, updates: Tensor, reduction: str, write: Any) -> Tensor:
    """The result of writing updates by `write(data, updates, reduction)`, combined as `reduction` says."""
    if reduction == "update":
        return write(data, updates, "none")
    dtype = data.dtype
    data, updates = (x.to("int32") if dtype == "bool" else x.wide() for x in (data, updates))
    if reduction in ("min", "max"):
        return reordered(_extreme(g, ordered(data), ordered(updates), reduction, write), dtype)
    if reduction != "mean":
        return write(data, updates, reduction)
    if not data.kind.is_float and data.dtype != "uint64":
        data, updates = data.to("int64"), updates.to("int64")
    total = write(data, updates, "add")
    one = g.const(1, data.dtype)
    counts = write(one.expand(data.sizes()), one.expand(updates.sizes()), "add")
    if data.kind.is_float or data.dtype == "uint64":
        return total / counts
    return (total - g.run("Mod", total, counts)) / counts


def _extreme(g: Graph, data: Tensor, updates: Tensor, reduction: str, write: Any) -> Tensor:
    """Extrema of updates and elements; NaN where one of them is."""
    result = write(data, updates, reduction)
    if not data.kind.is_float:
        return result
    missing = [g.run("IsNaN", x, dtype="bool").to("int32").ranked(x.rank) for x in (data, updates)]
    return (write(*missing, "max") > 0).where(math.nan, result)


@writer("relax.scatter_elements")
def scatter_elements(g: Graph, operator: Any, data: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    index, axis = index_of(indices), operator.axis % data.ndim

    def write(x: Tensor, new: Tensor, reduction: str) -> Tensor:
        return g.run("ScatterElements", x, index, new, rank=data.rank, axis=axis, reduction=reduction)

    return scattered(g, data, updates, operator.reduction, write)


@writer("relax.scatter_nd")
def scatter_nd(g: Graph, operator: Any, data: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    index = index_of(indices)

    def write(x: Tensor, new: Tensor, reduction: str) -> Tensor:
        return g.run("ScatterND", x, index, new, rank=data.rank, reduction=reduction)

    return scattered(g, data, updates, operator.reduction, write)


@writer("relax.index_put")
def index_put(g: Graph, operator: Any, data: Tensor, indices: list[Tensor], values: Tensor) -> Tensor:
    index = index_tuples(g, indices)
    rows = index.slice(index.ndim - 1, 0, 1).ranked(index.ndim).squeeze(index.ndim - 1)
    tail = data.sizes()[len(indices) :]
    shape = g.node("Shape", rows, dtype="int64", rank=1)
    if tail:
        shape = g.node("Concat", shape, g.shape(tail), rank=1, axis=0)
    updates = g.run("Expand", values, shape, rank=index.ndim - 1 + len(tail))
    wide = updates.wide() if operator.accumulate else updates
    base = data.wide() if operator.accumulate else data
    return g.run("ScatterND", base, index, wide, rank=data.rank, reduction="add" if operator.accumulate else "none")


@writer("relax.slice_scatter")
def slice_scatter(g: Graph, operator: Any, x: Tensor, src: Tensor, start: Tensor, end: Tensor, step: Tensor) -> Tensor:
    axis = operator.axis % x.ndim
    every = numbers(g, x.size(axis))
    chosen = g.run("Slice", every, *[bound.to("int64").reshape([1]) for bound in (start, end)], g.ints([0]),
                   step.to("int64").reshape([1]), rank=1)  # fmt: skip
    index = chosen.unsqueeze(*range(1, x.ndim - axis)).expand(src.sizes())
    return g.run("ScatterElements", x, index, src, rank=x.rank, axis=axis)


# ------------------------------------------------------------------------------------------- sorting


def sorted_indices(g: Graph, x: Tensor, axis: int, largest: bool, count: Size | None = None) -> Tensor:
    """The indices that sort the elements stably along an axis, NaN as the greatest; the first `count` of them."""
    size = x.sizes()[axis]
    every = count is None
    wanted = g.vector(size if count is None else count)
    key = ordered(x) if x.dtype == "uint64" else x.to("int32") if x.dtype == "bool" else x.wide()
    key = key.ranked(x.ndim)
    attributes: dict[str, Any] = {"axis": axis, "largest": int(largest), "sorted": 1}
    if not x.kind.is_float:
        return g.parts("TopK", key, wanted, dtypes=[key.dtype, "int64"], rank=x.rank, **attributes)[1]
    missing = g.run("IsNaN", key, dtype="bool").ranked(x.ndim)
    finite = missing.where(math.inf, key).ranked(x.ndim)
    first = g.parts("TopK", finite, g.vector(size), dtypes=[key.dtype, "int64"], rank=x.rank, **attributes)[1]
    flags = g.node("GatherElements", missing.to("int32"), first, rank=x.rank, axis=axis)
    second = g.parts("TopK", flags, g.vector(size), dtypes=["int32", "int64"], rank=x.rank, **attributes)[1]
    order = g.node("GatherElements", first, second, rank=x.rank, axis=axis)
    return order if every else order.slice(axis, 0, wanted.reshape([]))


@writer("relax.sort")
def sort(g: Graph, operator: Any, x: Tensor) -> Tensor:
    axis = operator.axis % x.ndim
    order = sorted_indices(g, x, axis, operator.descending)
    return g.run("GatherElements", x, order, rank=x.rank, axis=axis)


@writer("relax.argsort")
def argsort(g: Graph, operator: Any, data: Tensor) -> Tensor:
    return sorted_indices(g, data, operator.axis % data.ndim, operator.descending)


@writer("relax.topk")
def topk(g: Graph, operator: Any, data: Tensor, k: Tensor | None) -> Any:
    axis = operator.axis % data.ndim
    every = k is not None and k.constant is not None and int(k.constant) < 0
    count: Any = None if every else 1 if k is None else k.to("int64")
    order = sorted_indices(g, data, axis, operator.largest, count)
    if operator.ret_type == "indices":
        return order
    values = g.run("GatherElements", data, order, rank=data.rank, axis=axis)
    return [values, order] if operator.ret_type == "both" else values


@writer("relax.bucketize")
def bucketize(g: Graph, operator: Any, x: Tensor, boundaries: Tensor) -> Tensor:
    wide, bounds = x, boundaries
    if x.dtype not in ("int64", "uint64"):
        wide, bounds = x.wide(), boundaries.wide()
    each = wide.ranked(x.ndim).unsqueeze(x.ndim)
    beyond = ~(bounds > each) if operator.right else ~(bounds >= each)
    if x.kind.is_float:  # a boundary that is NaN is the greatest: it lies at or before NaN alone
        absent = g.run("IsNaN", bounds, dtype="bool")
        before = g.run("IsNaN", each, dtype="bool") if operator.right else g.const(False, "bool")
        beyond = (absent & before) | (~absent & beyond)
    return reduced(g, "ReduceSum", beyond.to("int64").ranked(x.ndim + 1), [x.ndim], False)


# ------------------------------------------------------------------------------------------- sets


@writer("relax.nonzero")
def nonzero(g: Graph, operator: Any, x: Tensor) -> Tensor:
    present = ~x.equal(0) if x.dtype != "bool" else x
    if x.ndim:
        return g.node("NonZero", present, dtype="int64", rank=2)
    return g.node("NonZero", present.reshape([1]), dtype="int64", rank=2).slice(0, 0, 0)


def _bits(g: Graph, x: Tensor) -> Tensor:
    """Floats as int64 in the same order, NaN as the greatest; -0 is 0."""
    whole = "int64" if x.dtype == "float64" else "int32"
    bits = g.node("BitCast", x + 0.0, dtype=whole, rank=x.rank, to=g.element_type(whole))
    most = (1 << 63) - 1 if whole == "int64" else (1 << 31) - 1
    flipped = g.run("BitwiseXor", bits, g.const(most, whole))
    ordered_bits = (bits < 0).where(flipped, bits)
    return g.run("IsNaN", x, dtype="bool").where(g.const(most, whole), ordered_bits).to("int64")


@writer("relax.unique")
def unique(g: Graph, operator: Any, x: Tensor) -> Any:
    wide = ordered(x) if x.dtype == "uint64" else x.to("int64") if x.kind.is_integer or x.dtype == "bool" else x.wide()
    axis = None if operator.axis is None else operator.axis % x.ndim
    rank = 1 if axis is None else x.ndim
    attributes: dict[str, Any] = {"sorted": int(operator.sorted), "axis": axis}
    keys = _bits(g, wide) if x.kind.is_float and g.opset >= 26 else wide
    values, *extras = g.parts("Unique", keys, dtypes=[keys.dtype, "int64", "int64", "int64"], **attributes)
    if keys is not wide:
        values = g.run("Gather", wide.flat() if axis is None else wide, extras[0], rank=rank, axis=axis or 0)
    wanted = (operator.return_index, operator.return_inverse, operator.return_counts)
    chosen = [extra.ranked(1) for extra, asked in zip(extras, wanted, strict=True) if asked]
    result = reordered(values, x.dtype).ranked(rank)
    return [result, *chosen] if isinstance(g.result, TupleStructInfo) else result


@writer("relax.multinomial_from_uniform")
def multinomial(g: Graph, operator: Any, prob: Tensor, uniform: Tensor, indices: Tensor | None) -> Tensor:
    sums = g.run("CumSum", prob.wide(), g.const(1, "int64"), rank=2)
    if indices is not None:
        sums = g.run("Gather", sums, index_of(indices).reshape([-1]), rank=2, axis=0)
    below = ~(uniform.to(sums.dtype) < sums)
    count = reduced(g, "ReduceSum", below.to("int64").ranked(2), [1])
    last = prob.size(1) - 1
    return converted(g.run("Min", count, last), str(operator.dtype))
