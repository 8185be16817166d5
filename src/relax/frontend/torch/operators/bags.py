"""Operators that sort elements into bins and bags: histograms, sums of embeddings, numbers repeated by counts."""

from __future__ import annotations

import math
from typing import Any

from .... import op
from ....expr import PrimValue, ShapeExpr, StringImm, Tuple
from ....ir import RelaxExpr
from ....prim import const, simplify
from ....struct_info import TensorStructInfo
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
    """The sum, mean or maximum of the embeddings of each bag, 0 of an empty one. Offsets are where bags begin."""
    if any(item is not None and len(item.users) for item in _readers_of_other_results(g)):
        g.unsupported("the bags and sizes that aten._embedding_bag returns for gradients")
    g.choice("mode", ("sum", "mean", "max"), mode)
    if g.ndim(indices) != 1 or g.ndim(offsets) != 1:
        raise g.error("indices or offsets are no vector", hint="pass vectors: indices, and where bags begin")
    dtype, count = str(g.dtype(weight)), g.dims(indices)[0]
    bags = g.dims(offsets)[0]
    if include_last_offset:
        bags = simplify(bags - 1)
        first = const(0, "int64")
        offsets = g.emit(op.strided_slice(offsets, [0], [first], [bags], [1], assume_inbound=True))
    numbers = g.emit(op.arange(PrimValue(count), dtype="int64"))
    before = op.bucketize(numbers, g.cast(offsets, "int64"), right=True)
    bag = g.emit(op.subtract(before, g.const(1, "int64")))
    rows = g.emit(op.take(weight, indices, 0))
    if per_sample_weights is not None:
        rows = g.emit(op.multiply(rows, op.expand_dims(per_sample_weights, [1])))
    counted = g.emit(op.full(ShapeExpr([count]), g.const(1, dtype), dtype))
    if padding_idx >= 0:
        kept = g.emit(op.not_equal(indices, g.const(padding_idx, str(g.dtype(indices)))))
        counted = g.emit(op.astype(kept, dtype))
        nothing = g.const(float("-inf") if mode == _MAX else 0, dtype)
        rows = g.emit(op.where(op.expand_dims(kept, [1]), rows, nothing))
    sizes = op.index_put(op.zeros(ShapeExpr([bags]), dtype), Tuple([bag]), counted, accumulate=True)
    total = g.emit(op.expand_dims(sizes, [1]))
    width = g.dims(weight)[1]
    if mode == _MAX:
        start = op.full(ShapeExpr([bags, width]), g.const(float("-inf"), dtype), dtype)
        positions = g.emit(op.broadcast_to(op.expand_dims(bag, [1]), ShapeExpr([count, width])))
        greatest = op.scatter_elements(start, positions, rows, 0, "max")
        return [op.where(op.greater(total, g.const(0, dtype)), greatest, g.const(0, dtype)), None, None, None]
    summed = op.index_put(op.zeros(ShapeExpr([bags, width]), dtype), Tuple([bag]), rows, accumulate=True)
    if mode == _MEAN:
        summed = op.divide(summed, op.maximum(total, g.const(1, dtype)))
    return [summed, None, None, None]


def _readers_of_other_results(g: Emitter) -> list[Any]:
    """The nodes that read a result other than the first."""
    return [user for user in g.node.users if len(user.args) > 1 and user.args[1] != 0]
