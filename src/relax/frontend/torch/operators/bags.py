"""Operators that sort elements into bins and bags: histograms, sums of embeddings, numbers repeated by counts."""

from __future__ import annotations

import math
from typing import Any

from .... import op
from ....expr import PrimValue, ShapeExpr, StringImm, Tuple
from ....ir import RelaxExpr
from ....prim import const, simplify
from ....struct_info import TensorStructInfo
from ..dtypes import dtype_name
from ..emitter import Dim, Emitter, as_dim
from ..registry import converter


@converter("aten.histc")
def histc(g: Emitter, x: RelaxExpr, bins: int = 100, min: Any = 0, max: Any = 0) -> RelaxExpr:
    """The number of elements in each of the bins of equal width; those outside, and NaN, do not count."""
    dtype = g.out_dtype
    data = g.reshape(x, [simplify(_count(g, x))])
    if min == max:
        if bins < 1:
            raise g.error(f"{bins} bins", hint="pass at least one")
        low, high, width = _limits(g, data)
        checked = [StringImm("torch.histc"), low, high]
        info = TensorStructInfo(ShapeExpr([]), dtype)
        low = g.emit(op.call_pure_packed("relax.run.finite_range", *checked, sinfo_args=[info]))
        return _counted(g, data, bins, low, high, width)
    if not -math.inf < min < max < math.inf or bins < 1:
        raise g.error(f"{bins} bins from {min} to {max}", hint="pass finite limits, the lower one first")
    return _counted(g, data, bins, g.const(min, dtype), g.const(max, dtype), g.const(max - min, dtype))


def _limits(g: Emitter, data: RelaxExpr) -> tuple[RelaxExpr, RelaxExpr, RelaxExpr]:
    """Return the least and greatest element of a vector and their distance; 1 below and above them if they are equal.

    Of no elements they are -1 and 1.
    """
    dtype = g.out_dtype
    least, greatest = g.emit(op.min(data)), g.emit(op.max(data))
    some = PrimValue(simplify(g.dims(data)[0]))
    is_empty = g.emit(op.equal(op.full(ShapeExpr([]), some, "int64"), g.const(0, "int64")))
    zero = g.const(0, dtype)
    low, high = (g.emit(op.where(is_empty, zero, limit)) for limit in (least, greatest))
    shift = g.emit(op.astype(op.equal(low, high), dtype))
    low, high = g.emit(op.subtract(low, shift)), g.emit(op.add(high, shift))
    return low, high, g.emit(op.subtract(high, low))


def _counted(g: Emitter, data: RelaxExpr, bins: int, low: RelaxExpr, high: RelaxExpr, width: RelaxExpr) -> RelaxExpr:
    """Return the number of elements of a vector in each bin."""
    dtype = g.out_dtype
    within = g.emit(op.logical_and(op.greater_equal(data, low), op.less_equal(data, high)))
    inner = g.emit(op.where(within, data, low))
    position = op.divide(op.multiply(op.subtract(inner, low), g.const(bins, dtype)), width)
    bounded = op.minimum(op.astype(op.floor(position), "int64"), g.const(bins - 1, "int64"))
    return op.index_put(
        op.zeros(ShapeExpr([as_dim(bins)]), dtype),
        Tuple([g.emit(bounded)]),
        g.emit(op.astype(within, dtype)),
        accumulate=True,
    )


def _count(g: Emitter, x: RelaxExpr) -> Any:
    count: Any = const(1, "int64")
    for dim in g.dims(x):
        count = count * dim
    return count


@converter("aten.repeat_interleave.Tensor")
def repeated_places(g: Emitter, repeats: RelaxExpr, *, output_size: Dim | None = None) -> RelaxExpr:
    """Index of each count, repeated `count` times."""
    ends = g.emit(op.cumsum(op.astype(repeats, "int64"), axis=0))
    padded_ends = g.emit(op.concat([g.const([0], "int64"), ends], axis=0))  # of no counts the sum is 0
    size = g.read_integer(g.emit(op.max(padded_ends)), True)
    numbers = g.emit(op.arange(PrimValue(size), dtype="int64"))
    places = g.cast(g.emit(op.bucketize(numbers, ends, right=True)), g.out_dtype)
    return places if output_size is None else g.cast_shape(places, [as_dim(output_size)])


_SUM, _MEAN, _MAX = range(3)
"""Modes of a bag of embeddings."""


@converter("aten._embedding_bag", "aten._embedding_bag_forward_only")
def embedding_bag(
    g: Emitter,
    weight: RelaxExpr,
    indices: RelaxExpr,
    offsets: RelaxExpr,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: RelaxExpr | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> list[Any]:
    """The sum, mean or maximum of the embeddings of each bag, 0 of an empty one. Offsets are where bags begin.

    The other results are the bag of each index, the size of each bag, and the index of each maximum.
    """
    g.choice("mode", ("sum", "mean", "max"), mode)
    if g.ndim(indices) != 1 or g.ndim(offsets) != 1:
        raise g.error("indices or offsets are no vector", hint="pass vectors: indices, and where bags begin")
    dtype = str(g.dtype(weight))
    bags = g.dims(offsets)[0]
    if include_last_offset:
        bags = simplify(bags - 1)
        offsets = g.emit(op.strided_slice(offsets, [0], [const(0, "int64")], [bags], [1], assume_inbound=True))
    bag = _bag_of_each(g, indices, offsets)
    rows = g.emit(op.take(weight, indices, 0))
    if per_sample_weights is not None:
        rows = g.emit(op.multiply(rows, op.expand_dims(per_sample_weights, [1])))
    kept = _kept(g, indices, padding_idx)
    if kept is not None:
        nothing = g.const(float("-inf") if mode == _MAX else 0, dtype)
        rows = g.emit(op.where(op.expand_dims(kept, [1]), rows, nothing))
    total = _sizes(g, indices, kept, bag, bags)
    column = g.emit(op.expand_dims(total, [1]))
    greatest: RelaxExpr | None = None
    if mode == _MAX:
        start = op.full(ShapeExpr([bags, g.dims(weight)[1]]), g.const(float("-inf"), dtype), dtype)
        positions = g.emit(op.broadcast_to(op.expand_dims(bag, [1]), ShapeExpr(g.dims(rows))))
        greatest = g.emit(op.scatter_elements(start, positions, rows, 0, "max"))
        result = op.where(op.greater(column, g.const(0, "int64")), greatest, g.const(0, dtype))
    else:
        result = op.index_put(
            op.zeros(ShapeExpr([bags, g.dims(weight)[1]]), dtype), Tuple([bag]), rows, accumulate=True
        )
        if mode == _MEAN:
            result = op.divide(result, op.astype(op.maximum(column, g.const(1, "int64")), dtype))
    places = _places_of_maxima(g, rows, indices, kept, bag, greatest)
    return [result, *_beside_bags(g, bag, total, places)]


def _bag_of_each(g: Emitter, indices: RelaxExpr, offsets: RelaxExpr) -> RelaxExpr:
    """Return the number of the bag of each index: that of the last offset at or before it."""
    numbers = g.emit(op.arange(PrimValue(g.dims(indices)[0]), dtype="int64"))
    before = op.bucketize(numbers, g.cast(offsets, "int64"), right=True)
    return g.emit(op.subtract(before, g.const(1, "int64")))


def _kept(g: Emitter, indices: RelaxExpr, padding_idx: int) -> RelaxExpr | None:
    """Return which indices count, those other than the padding; None if all do."""
    if padding_idx < 0:
        return None
    return g.emit(op.not_equal(indices, g.const(padding_idx, str(g.dtype(indices)))))


def _sizes(g: Emitter, indices: RelaxExpr, kept: RelaxExpr | None, bag: RelaxExpr, bags: Dim) -> RelaxExpr:
    """Return the number of indices of each bag that count."""
    ones = op.full(ShapeExpr(g.dims(indices)), g.const(1, "int64"), "int64")
    counted = g.emit(ones if kept is None else op.astype(kept, "int64"))
    zeros = op.zeros(ShapeExpr([as_dim(bags)]), "int64")
    return g.emit(op.index_put(zeros, Tuple([bag]), counted, accumulate=True))


def _places_of_maxima(
    g: Emitter, rows: RelaxExpr, indices: RelaxExpr, kept: RelaxExpr | None, bag: RelaxExpr, greatest: RelaxExpr | None
) -> RelaxExpr | None:
    """Return the index of the first row of a bag that has its maximum, 0 of an empty bag; None if nothing reads it."""
    if greatest is None or not g.reads(3):
        return None
    count = g.dims(indices)[0]
    is_one = op.logical_not(op.less(rows, op.take(greatest, bag, 0)))  # NaN, too
    if kept is not None:
        is_one = op.logical_and(is_one, op.expand_dims(kept, [1]))
    end = g.tensor(count, "int64")
    numbers = g.emit(op.expand_dims(op.arange(PrimValue(count), dtype="int64"), [1]))
    places = g.emit(op.where(is_one, numbers, end))
    positions = g.emit(op.broadcast_to(op.expand_dims(bag, [1]), ShapeExpr(g.dims(rows))))
    last = op.broadcast_to(end, ShapeExpr(g.dims(greatest)))
    first = g.emit(op.scatter_elements(last, positions, places, 0, "min"))
    numbered = g.emit(op.concat([indices, g.const([0], str(g.dtype(indices)))], axis=0))
    return g.emit(op.take(numbered, first, 0))


def _beside_bags(g: Emitter, bag: RelaxExpr, sizes: RelaxExpr, places: RelaxExpr | None) -> list[RelaxExpr | None]:
    """Return the results 1 to 3 of a bag of embeddings, None for those that nothing reads.

    Torch leaves the first empty, and that of maxima undefined, where its kernels do without them.
    """
    results: list[RelaxExpr | None] = []
    for index, found in enumerate((bag, sizes, places), 1):
        if not g.reads(index):
            results.append(None)
            continue
        dims, dtype = g.shape(g.value[index]), dtype_name(g.value[index].dtype)
        own = g.dims(found) if found is not None else []
        fits = len(own) == len(dims) and all(map(g.same_size, own, dims))
        results.append(g.cast(found, dtype) if fits and found is not None else g.emit(op.zeros(ShapeExpr(dims), dtype)))
    return results


@converter("aten._embedding_bag_backward")
def embedding_bag_backward(
    g: Emitter,
    grad: RelaxExpr,
    indices: RelaxExpr,
    offsets: RelaxExpr,
    offset2bag: RelaxExpr,
    bag_size: RelaxExpr,
    maximum_indices: RelaxExpr,
    num_weights: Dim,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: RelaxExpr | None = None,
    padding_idx: int = -1,
) -> RelaxExpr:
    """The gradient of each bag, added to the embeddings in it, or to those of the maxima."""
    if sparse:
        g.unsupported("a sparse gradient of embeddings")
    dtype, bags = str(g.dtype(grad)), g.dims(grad)[0]
    wide = "float64" if dtype == "float64" else "float32"
    own = _bag_of_each(g, indices, g.emit(op.strided_slice(offsets, [0], [0], [bags], [1], assume_inbound=True)))
    kept = _kept(g, indices, padding_idx)
    total = _sizes(g, indices, kept, own, bags)
    grad = g.cast(grad, wide)
    zeros = op.zeros(ShapeExpr([as_dim(num_weights), g.dims(grad)[1]]), wide)
    if mode == _MAX:
        is_some = op.expand_dims(op.greater(total, g.const(0, "int64")), [1])
        parts = g.emit(op.where(is_some, grad, g.const(0, wide)))
        return g.cast(g.emit(op.scatter_elements(zeros, maximum_indices, parts, 0, "add")), dtype)
    if mode == _MEAN:
        sizes = op.astype(op.maximum(total, g.const(1, "int64")), wide)
        grad = g.emit(op.divide(grad, op.expand_dims(sizes, [1])))
    rows = g.emit(op.take(grad, own, 0))
    if per_sample_weights is not None:
        rows = g.emit(op.multiply(rows, op.expand_dims(g.cast(per_sample_weights, wide), [1])))
    if scale_grad_by_freq:
        ones = op.full(ShapeExpr(g.dims(indices)), g.const(1, wide), wide)
        none = op.zeros(ShapeExpr([as_dim(num_weights)]), wide)
        counts = op.take(op.index_put(none, Tuple([indices]), ones, accumulate=True), indices, 0)
        rows = g.emit(op.divide(rows, op.expand_dims(counts, [1])))
    if kept is not None:
        rows = g.emit(op.where(op.expand_dims(kept, [1]), rows, g.const(0, wide)))
    return g.cast(g.emit(op.index_put(zeros, Tuple([indices]), rows, accumulate=True)), dtype)


@converter("aten._embedding_bag_per_sample_weights_backward")
def embedding_bag_weights_backward(
    g: Emitter,
    grad: RelaxExpr,
    weight: RelaxExpr,
    indices: RelaxExpr,
    offsets: RelaxExpr,
    offset2bag: RelaxExpr,
    mode: int,
    padding_idx: int = -1,
) -> RelaxExpr:
    """The product of the gradient of a bag and each embedding in it."""
    dtype, bags = str(g.dtype(grad)), g.dims(grad)[0]
    wide = "float64" if dtype == "float64" else "float32"
    own = _bag_of_each(g, indices, g.emit(op.strided_slice(offsets, [0], [0], [bags], [1], assume_inbound=True)))
    parts = op.multiply(op.take(g.cast(grad, wide), own, 0), op.take(g.cast(weight, wide), indices, 0))
    sums = g.emit(op.sum(parts, axis=[1]))
    kept = _kept(g, indices, padding_idx)
    return g.cast(sums if kept is None else g.emit(op.where(kept, sums, g.const(0, wide))), dtype)
