"""Pooling over windows of 1 to 3 spatial dimensions: maxima, means, norms, and adaptive windows."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import te
from ...ir import DataType
from ...prim import NE, PrimExpr, Var, const, intrin, is_const, simplify
from ...runtime.records import dataclass
from ...tir.buffer import Buffer
from ...tir.layout import parsed
from ...tir.stmt import BufferStore, IfThenElse, SeqStmt, Stmt
from ..grad import nested
from ..transform import reshape
from ..util import accumulator_dtype
from .windows import pad_pairs, padded, per_axis, pool_extent, spatial_axes


@dataclass(frozen=True)
class Pooling:
    """Parameters of pooling windows: one number for all spatial dimensions of a layout, or one per dimension.

    Batch and channels of the layout may be split, as in NCHW16c: windows do not cross them.
    """

    pool_size: int | Sequence[int] = 1
    strides: int | Sequence[int] = 1
    padding: int | Sequence[int] = 0
    dilation: int | Sequence[int] = 1
    ceil_mode: bool = False
    layout: str = "NCHW"


class _Windows:
    """Windows of a pool over data: the result's shape, and the elements they cover."""

    def __init__(self, data: te.Tensor, pooling: Pooling) -> None:
        axes = spatial_axes(pooling.layout)
        self.data, self.layout = data, parsed(pooling.layout).axis_names
        self.places = [self.layout.index(axis) for axis in axes]
        self.window, self.stride, self.dilate = (
            per_axis(numbers, len(axes)) for numbers in (pooling.pool_size, pooling.strides, pooling.dilation)
        )
        self.pads = pad_pairs(pooling.padding, len(axes))
        self.shape = list(data.shape)
        for j, d in enumerate(self.places):
            numbers = self.window[j], self.pads[j], self.stride[j], self.dilate[j]
            self.shape[d] = pool_extent(data.shape[d], *numbers, pooling.ceil_mode)
        # The last of the windows that are rounded up sticks out by less than a stride.
        sticking = [stride - 1 if pooling.ceil_mode else 0 for stride in self.stride]
        self.reach = [(low, high + more) for (low, high), more in zip(self.pads, sticking, strict=True)]
        sizes = zip(axes, self.window, strict=True)
        self.taps = [te.reduce_axis((0, size), f"r{axis.lower()}") for axis, size in sizes]

    def padded(self, value: PrimExpr) -> te.Tensor:
        """Pad the data to the extent of all windows."""
        reach = {self.layout[d]: pair for d, pair in zip(self.places, self.reach, strict=True)}
        return padded(self.data, self.layout, reach, value)

    def at(self, i: Sequence[Any]) -> list[Any]:
        """Index into the padded data that the taps read for result index `i`."""
        index = list(i)
        for j, d in enumerate(self.places):
            index[d] = i[d] * self.stride[j] + self.taps[j].var * self.dilate[j]
        return index

    def counts(self, count_include_pad: bool, dtype: DataType) -> Callable[[Sequence[Any]], PrimExpr]:
        """Number of taps inside the data, or (count_include_pad) inside the padded data; at least 1.

        Counts that differ between windows are precomputed per dimension.
        """
        fixed = math.prod(size for size, reach in zip(self.window, self.reach, strict=True) if reach == (0, 0))
        varying: dict[int, te.Tensor] = {}
        for j, d in enumerate(self.places):
            if self.reach[j] != (0, 0):
                varying[d] = self._counts_along(j, count_include_pad, dtype)

        def count(i: Sequence[Any]) -> PrimExpr:
            product: PrimExpr = const(fixed, dtype)
            for d, along in varying.items():
                product = product * along(i[d])
            return intrin.max(product, const(1, dtype)) if varying else product

        return count

    def _counts_along(self, j: int, count_include_pad: bool, dtype: DataType) -> te.Tensor:
        d = self.places[j]
        limit = self.data.shape[d] + (self.pads[j][1] if count_include_pad else 0)

        def count(i: Any) -> PrimExpr:
            # Taps t with lower ≤ start + t·dilation < limit.
            start = i * self.stride[j] - self.pads[j][0]
            last = intrin.min(intrin.ceildiv(limit - start, self.dilate[j]), self.window[j])
            first: Any = 0 if count_include_pad else intrin.max(intrin.ceildiv(-start, self.dilate[j]), 0)
            return intrin.max(last - first, 0).astype(dtype)

        return te.compute((self.shape[d],), count, "pool_counts")


def max_pool(data: te.Tensor, pooling: Pooling) -> te.Tensor:
    """The maximum of each window; padding is ignored, NaN propagates."""
    windows = _Windows(data, pooling)
    source = windows.padded(const(data.dtype.min_value, data.dtype))
    name = f"max_pool{len(windows.places)}d"
    return te.compute(windows.shape, lambda *i: te.max(source(*windows.at(i)), axis=windows.taps), name, tag="pool_max")


def max_pool_with_indices(data: te.Tensor, pooling: Pooling) -> tuple[te.Tensor, te.Tensor]:
    """`max_pool`, and the int64 flat index of each maximum: that of the first one, -1 for none.

    Taps are numbered in the order of the data. The index is that of the least number of a tap inside the data whose
    element is the maximum, or NaN.
    """
    windows = _Windows(data, pooling)
    values = max_pool(data, pooling)
    count = math.prod(windows.window)

    def number(*i: Any) -> PrimExpr:
        at = windows.at(i)
        inside: list[PrimExpr] = []
        tap: PrimExpr = const(0, "int32")
        for j, d in enumerate(windows.places):
            tap = tap * windows.window[j] + windows.taps[j].var.astype("int32")
            at[d] = at[d] - windows.pads[j][0]
            if windows.reach[j] != (0, 0):
                inside += [at[d] >= 0, at[d] < data.shape[d]]
        element = data(*at)
        is_greatest = intrin.any(element.equal(values(*i)), *([NE(element, element)] if data.dtype.is_float else []))
        found = intrin.if_then_else(is_greatest, tap, const(count, "int32"))
        if inside:
            found = intrin.if_then_else(intrin.all(*inside), found, const(count, "int32"))
        return te.min(found, axis=windows.taps)

    first = te.compute(windows.shape, number, "max_pool_tap")

    def index(*i: Any) -> PrimExpr:
        tap: PrimExpr = first(*i).astype("int64")
        rest, at = tap, list(i)
        for j, d in reversed(list(enumerate(windows.places))):
            at[d] = (
                i[d] * windows.stride[j]
                + intrin.floormod(rest, windows.window[j]) * windows.dilate[j]
                - windows.pads[j][0]
            )
            rest = intrin.floordiv(rest, windows.window[j])
        flat: PrimExpr = const(0, "int64")
        for place, size in zip(at, data.shape, strict=True):
            flat = flat * size + place
        return intrin.if_then_else(tap < count, flat, const(-1, "int64"))

    return values, te.compute(windows.shape, index, "max_pool_indices")


def avg_pool(data: te.Tensor, pooling: Pooling, count_include_pad: bool = False) -> te.Tensor:
    """The mean of each window, over its elements in the data, or (count_include_pad) in the padded data."""
    windows = _Windows(data, pooling)
    wide = accumulator_dtype(data.dtype)
    source = windows.padded(const(0, data.dtype))
    name = f"avg_pool{len(windows.places)}d"
    sums = te.compute(
        windows.shape,
        lambda *i: te.sum(source(*windows.at(i)).astype(wide), axis=windows.taps),
        f"{name}_sum",
        tag="pool_sum",
    )

    count = windows.counts(count_include_pad, wide)
    return te.compute(windows.shape, lambda *i: (sums(*i) / count(i)).astype(data.dtype), name)


def lp_pool(data: te.Tensor, pooling: Pooling, p: int = 2) -> te.Tensor:
    """(Σ |x|ᵖ)^(1/p) over each window; padding adds nothing."""
    windows = _Windows(data, pooling)
    wide = accumulator_dtype(data.dtype)
    source = windows.padded(const(0, data.dtype))
    name = f"lp_pool{len(windows.places)}d"

    def raised(value: PrimExpr) -> PrimExpr:
        if p == 1:
            return intrin.abs(value)
        return value * value if p == 2 else intrin.power(intrin.abs(value), const(p, wide))

    def root(value: PrimExpr) -> PrimExpr:
        if p == 1:
            return value
        return intrin.sqrt(value) if p == 2 else intrin.power(value, const(1 / p, wide))

    sums = te.compute(
        windows.shape,
        lambda *i: te.sum(raised(source(*windows.at(i)).astype(wide)), axis=windows.taps),
        f"{name}_sum",
        tag="pool_sum",
    )
    return te.compute(windows.shape, lambda *i: root(sums(*i)).astype(data.dtype), name)


def adaptive_avg_pool(
    data: te.Tensor, output_size: int | Sequence[int] | None = None, layout: str = "NCHW"
) -> te.Tensor:
    """The mean of each of `output_size` windows: window i of m covers [⌊i·n/m⌋, ⌈(i + 1)·n/m⌉).

    Window lengths differ by at most two elements: the longest length is read for all, and surplus elements count as 0.
    Without an `output_size`, the data itself.
    """
    axes = spatial_axes(layout)
    if output_size is None:
        return te.compute(data.shape, lambda *i: data(*i), "identity", tag="elemwise")
    spatial = [parsed(layout).index_of(axis) for axis in axes]
    sizes = [data.shape[d] for d in spatial]
    counts = [const(m, "int64") for m in per_axis(output_size, len(axes))]
    shape = list(data.shape)
    for d, m in zip(spatial, counts, strict=True):
        shape[d] = m
    wide = accumulator_dtype(data.dtype)
    even = [is_const(simplify(n % m), 0) for n, m in zip(sizes, counts, strict=True)]
    taps = [
        te.reduce_axis((0, simplify(n // m if fits else intrin.ceildiv(n, m) + 1)), f"r{axis.lower()}")
        for axis, n, m, fits in zip(axes, sizes, counts, even, strict=True)
    ]

    def bounds(i: Any, n: Any, m: Any, fits: bool) -> tuple[Any, Any]:
        return (i * (n // m), (i + 1) * (n // m)) if fits else (i * n // m, intrin.ceildiv((i + 1) * n, m))

    def total(*i: Any) -> Any:
        index, inside = list(i), list[PrimExpr]()
        for d, n, m, fits, tap in zip(spatial, sizes, counts, even, taps, strict=True):
            start, end = bounds(i[d], n, m, fits)
            index[d] = start + tap.var
            if not fits:
                inside.append(index[d] < end)
        value = data(*index).astype(wide)
        return te.sum(intrin.if_then_else(intrin.all(*inside), value, const(0, wide)) if inside else value, axis=taps)

    name = f"adaptive_avg_pool{len(axes)}d"
    sums = te.compute(shape, total, f"{name}_sum", tag="adaptive_pool_sum")

    def mean(*i: Any) -> PrimExpr:
        count: PrimExpr = const(1, "int64")
        for d, n, m, fits in zip(spatial, sizes, counts, even, strict=True):
            start, end = bounds(i[d], n, m, fits)
            count = count * (end - start)
        return (sums(*i) / count.astype(wide)).astype(data.dtype)

    return te.compute(shape, mean, name)


def max_pool_backward(output_grad: te.Tensor, data: te.Tensor, pooling: Pooling) -> te.Tensor:
    """The gradient of `max_pool`: zeros, to which output_grad is added at the first maximum of each window."""
    _, indices = max_pool_with_indices(data, pooling)
    wide = accumulator_dtype(data.dtype)
    count: PrimExpr = const(1, "int64")
    for size in data.shape:
        count = count * size

    def statement(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        i, everywhere = [Var(f"i{d}", "int64") for d in range(data.ndim)], Var("k", "int64")
        fill = nested(BufferStore(outputs[0], const(0, wide), everywhere), [everywhere], [count])
        at = inputs[1][tuple(i)]
        added = outputs[0][at] + inputs[0][tuple(i)].astype(wide)
        add = IfThenElse(at >= 0, BufferStore(outputs[0], added, at))
        return SeqStmt((fill, nested(add, i, indices.shape)))

    total = te.extern([(simplify(count),)], [output_grad, indices], statement, "max_pool_backward", [wide])[0]
    whole = reshape(total, data.shape)
    return te.compute(data.shape, lambda *i: whole(*i).astype(data.dtype), "pool_backward")


def avg_pool_backward(
    output_grad: te.Tensor, data: te.Tensor, pooling: Pooling, count_include_pad: bool = False
) -> te.Tensor:
    """The gradient of `avg_pool`: each window's output_grad, spread evenly over its elements in the data."""
    windows = _Windows(data, pooling)
    wide = accumulator_dtype(data.dtype)
    count = windows.counts(count_include_pad, wide)
    share = te.compute(windows.shape, lambda *i: output_grad(*i).astype(wide) / count(i), "share")

    def statement(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        everywhere, i = ([Var(f"{name}{d}", "int64") for d in range(data.ndim)] for name in "ki")
        taps = [Var(f"t{j}", "int64") for j in range(len(windows.places))]
        position: list[PrimExpr] = list(i)
        inside: list[PrimExpr] = []
        for j, d in enumerate(windows.places):
            position[d] = i[d] * windows.stride[j] + taps[j] * windows.dilate[j] - windows.pads[j][0]
            inside += [position[d] >= 0, position[d] < data.shape[d]]
        total = outputs[0][tuple(position)] + inputs[0][tuple(i)]
        add = BufferStore(outputs[0], total, tuple(position))
        body = IfThenElse(intrin.all(*inside), add) if any(reach != (0, 0) for reach in windows.reach) else add
        sizes = [const(size, "int64") for size in windows.window]
        fill = nested(BufferStore(outputs[0], const(0, wide), tuple(everywhere)), everywhere, data.shape)
        return SeqStmt((fill, nested(nested(body, taps, sizes), i, windows.shape)))

    total = te.extern([data.shape], [share], statement, "avg_pool_backward", [wide])[0]
    return te.compute(data.shape, lambda *i: total(*i).astype(data.dtype), "pool_backward")
