"""Pooling over 1 to 3 spatial dimensions: maxima, means, norms, and adaptive windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, ClassVar, cast

import numpy as np

from ... import topi
from ...expr import ShapeExpr, TupleGetItem, const
from ...ir import DataType, StructInfo
from ...prim import IntImm
from ...struct_info import TensorStructInfo, TupleStructInfo
from ..base import Gradients, Term
from ..dims import tensor
from ..facts import Axes, MixedPrecision, Permuted
from ..gradients import apply, dims_of, is_float, masked, number_of, tensor_info
from ..operands import FLOATS
from ..operator import Array, Operator, operator
from .activation import wide
from .windows import Windowed, in_layout, ndim_of


class Pool(Windowed):
    """Base class of pooling."""

    __slots__ = ()

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    takes: ClassVar[tuple[str, ...]] = ("float", "int", "uint")
    packs: ClassVar[bool] = True
    per_axis: ClassVar[tuple[str, ...]] = ("pool_size", "strides", "dilation")

    pool_size: tuple[int, ...]
    ceil_mode: bool
    layout: str

    def pooled_info(self, data: TensorStructInfo) -> TensorStructInfo:
        """Struct info of a result with one value per window."""
        self.require_windows()
        self.require_numbers("pool_size", 1)
        self.require_rank("data", data, self.layout)
        self.require_dtype(data, "data", *self.takes)
        if data.dims is None:
            return tensor(None, data.dtype, ndim_of(self.result_letters))
        size = self.extents("data", data.dims, self.layout)
        numbers = zip(self.pool_size, self.strides, self.dilation, strict=True)
        for axis, pads, (window, stride, dilation) in zip(self.spatial, self.pads, numbers, strict=True):
            extent = topi.nn.pool_extent(size[axis], window, pads, stride, dilation, self.ceil_mode)
            size[axis] = self.require_room(extent, axis)
        return tensor(self.result_dims(size), data.dtype)

    def pooled(self, formula: Callable[..., Any], data: Any) -> Any:
        """Apply a formula to the data and the windows; returns the result's layout."""
        layout = self.pooled_layout
        windows = topi.nn.Pooling(self.pool_size, self.strides, self.padding, self.dilation, self.ceil_mode, layout)
        return self.laid_out(formula(topi.nn.relaid(data, self.layout, layout), windows))

    def laid_out(self, pooled: Any) -> Any:
        """Convert a tensor from the layout of the formula to the result's."""
        return topi.nn.relaid(pooled, self.pooled_layout, self.result_letters)

    def covered(self, sizes: Sequence[int]) -> list[list[list[int]]]:
        """Coordinates covered by each window along each spatial dimension, padding included."""
        numbers = zip(self.pool_size, self.strides, self.dilation, strict=True)
        result: list[list[list[int]]] = []
        for size, (low, high), (window, stride, dilation) in zip(sizes, self.pads, numbers, strict=True):
            room = size + low + high - (window - 1) * dilation - 1
            count = room // stride + 1
            if self.ceil_mode:
                count = -(-room // stride) + 1
                if (count - 1) * stride >= size + low:
                    count -= 1
            starts = [i * stride - low for i in range(max(count, 0))]
            result.append([[start + t * dilation for t in range(window)] for start in starts])
        return result

    def windows(self, shape: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[Array, ...], int]]:
        """Yield (window index, index of its elements, number of padded elements that count) of each window over
        canonical data of `shape`."""
        batch, channels, *sizes = shape
        covered = self.covered(sizes)
        ends = [size + high for size, (_, high) in zip(sizes, self.pads, strict=True)]
        for position in product(*(range(len(along)) for along in covered)):
            taps = [along[i] for along, i in zip(covered, position, strict=True)]
            inside = [[t for t in along if 0 <= t < size] for along, size in zip(taps, sizes, strict=True)]
            counts = [sum(t < end for t in along) for along, end in zip(taps, ends, strict=True)]
            yield position, np.ix_(range(batch), range(channels), *inside), int(np.prod(counts))

    def fold_windows(self, data: Array, fold: Callable[[Array, int], Any], dtype: Any = None) -> Array:
        """Apply `fold`(elements (N, C, count), number of padded elements that count) to each window."""
        x = self.canonical(data)
        counts = map(len, self.covered(x.shape[2:]))
        out = np.zeros((*x.shape[:2], *counts), dtype or data.dtype)
        for position, index, counted in self.windows(x.shape):
            count = int(np.prod([along.size for along in index[2:]]))
            out[(..., *position)] = fold(x[index].reshape(*x.shape[:2], count), counted)
        return self.in_result_layout(out)

    def pool_gradient(
        self, name: str, operands: Sequence[Term], result: Term, grad: Term, *attributes: str
    ) -> Gradients | None:
        """Gradient as a call of operator `name`, with the pooling attributes and further `attributes`."""
        if self.is_packed:
            return self.plain_gradient(operands, result, grad)
        names = ("pool_size", "strides", "padding", "dilation", "ceil_mode", "layout", "out_layout", *attributes)
        (data,) = operands
        return (apply(name, grad, data, **{attribute: getattr(self, attribute) for attribute in names}),)


class PlainPool(Pool):
    """Base class of pooling to one value per window."""

    __slots__ = ()

    pool_size: tuple[int, ...] = (1,)
    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    ceil_mode: bool = False
    count_include_pad: bool = False
    layout: str = "NC*"
    out_layout: str | None = None

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        return self.pooled_info(data)


class MaxPool(PlainPool):
    """Base class of max pooling: padding is ignored, NaN propagates."""

    __slots__ = ()

    def compute(self, data: Any) -> Any:
        return self.pooled(topi.nn.max_pool, data)

    def reference(self, data: Array) -> Array:
        least: Array = np.array(DataType(data.dtype.name).min_value, data.dtype)
        return self.fold_windows(data, lambda window, _places: np.max(window, -1, initial=least))


class AvgPool(PlainPool):
    """Base class of average pooling."""

    __slots__ = ()

    takes: ClassVar[tuple[str, ...]] = ("float",)

    def compute(self, data: Any) -> Any:
        return self.pooled(partial(topi.nn.avg_pool, count_include_pad=self.count_include_pad), data)

    def reference(self, data: Array) -> Array:
        def mean(window: Array, counted: int) -> Array:
            total = wide(window).sum(-1)
            return total / max(counted if self.count_include_pad else window.shape[-1], 1)

        return self.fold_windows(data, mean)


class LpPool(Pool):
    """Base class of Lp-norm pooling."""

    __slots__ = ()

    takes: ClassVar[tuple[str, ...]] = ("float",)

    p: int = 2
    pool_size: tuple[int, ...] = (1,)
    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    ceil_mode: bool = False
    layout: str = "NC*"
    out_layout: str | None = None

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_attribute(self.p >= 1, "p", "at least 1")
        return self.pooled_info(data)

    def compute(self, data: Any) -> Any:
        return self.pooled(partial(topi.nn.lp_pool, p=self.p), data)

    def reference(self, data: Array) -> Array:
        def norm(window: Array, _places: int) -> Array:
            return (abs(wide(window)) ** self.p).sum(-1) ** (1 / self.p)

        return self.fold_windows(data, norm)


class MaxPoolWithIndices(Pool):
    """Base class of max pooling with indices.

    An index is a flat index into the data, that of the first maximum; -1 for a window without elements.
    """

    __slots__ = ()

    packs: ClassVar[bool] = False

    pool_size: tuple[int, ...] = (1,)
    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    ceil_mode: bool = False
    layout: str = "NC*"
    out_layout: str | None = None

    def infer(self, data: TensorStructInfo) -> TupleStructInfo:
        result = self.pooled_info(data)
        return TupleStructInfo((result, result.replace(dtype=DataType("int64"))))

    def compute(self, data: Any) -> Any:
        values, indices = self.pooled(topi.nn.max_pool_with_indices, data)
        return [values, indices]

    def laid_out(self, pooled: Any) -> Any:
        return [super(MaxPoolWithIndices, self).laid_out(array) for array in pooled]

    def reference(self, data: Array) -> list[Array]:
        numbers = cast("Array", np.arange(data.size)).reshape(data.shape)
        least: Array = np.array(DataType(data.dtype.name).min_value, data.dtype)
        flat = np.append(data.reshape(-1), least)

        def first(window: Array, _places: int) -> Array:
            if not window.shape[-1]:
                return np.full(window.shape[:2], -1)
            best = np.argmax(flat[window], -1)
            return np.take_along_axis(window, best[..., None], -1)[..., 0]

        indices = self.fold_windows(numbers, first, np.int64)
        return [flat[indices], indices]

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        (data,) = operands
        dims = dims_of(data)
        if not is_float(data) or dims is None:
            return None if dims is None else (None,)
        flat = apply("flatten", data)
        indices = apply("flatten", TupleGetItem(result, 1))
        values = apply("flatten", TupleGetItem(grad, 0))
        inside = apply("greater_equal", indices, apply("zeros_like", indices))  # -1 stands for a window of padding
        added = apply("scatter_elements", apply("zeros_like", flat), indices, masked(values, inside), reduction="add")
        return (apply("reshape", added, ShapeExpr(tuple(dims))),)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        return None  # the indices depend on the order of dimensions

    def in_layouts(self, layouts: Sequence[str], infos: Sequence[StructInfo]) -> Permuted | None:
        return Operator.in_layouts(self, layouts, infos)


class AdaptivePool(Windowed):
    """Base class of adaptive pooling, whose windows are fitted to the size of the result."""

    __slots__ = ()

    takes = FLOATS

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    per_axis: ClassVar[tuple[str, ...]] = ("output_size",)
    packs: ClassVar[bool] = True

    output_size: tuple[int, ...] | None = None
    layout: str = "NC*"
    out_layout: str | None = None

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_layout("layout", self.letters)
        if self.out_layout:
            self.require_layout("out_layout", self.letters)
        if self.output_size is not None:
            self.require_numbers("output_size", 1)
        self.require_rank("data", data, self.layout)
        self.require_dtype(data, "data", *self.takes)
        if data.dims is None:
            return tensor(None, data.dtype, ndim_of(self.result_letters))
        size = self.extents("data", data.dims, self.layout)
        if self.output_size is not None:
            counts = [IntImm("int64", count) for count in self.output_size]
            size |= zip(self.spatial, counts, strict=True)
        return tensor(self.result_dims(size), data.dtype)

    def compute(self, data: Any) -> Any:
        layout = self.pooled_layout
        pooled = topi.nn.adaptive_avg_pool(topi.nn.relaid(data, self.layout, layout), self.output_size, layout)
        return topi.nn.relaid(pooled, layout, self.result_letters)

    def reference(self, data: Array) -> Array:
        if self.output_size is None:
            return in_layout(data, self.layout, self.result_letters)
        x = wide(self.canonical(data))
        for d, count in enumerate(self.output_size, 2):
            size = x.shape[d]
            windows = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
            window_values = [x.take(range(start, end), d) for start, end in windows]
            x = np.stack([values.sum(d) / x.dtype.type(values.shape[d]) for values in window_values], d)
        return self.in_result_layout(x).astype(data.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        """Distribute each window's gradient to its elements, axis by axis, by a matrix of weights if there are several
        windows.
        """
        if self.is_packed:
            return self.plain_gradient(operands, result, grad)
        (data,) = operands
        info = tensor_info(data)
        if self.result_letters != self.layout:
            grad = apply("permute_dims", grad, axes=[self.result_letters.index(axis) for axis in self.layout])
        if self.output_size is None:
            return (grad,)
        if info.dims is None:
            return None
        for axis, count in zip(self.spatial, self.output_size, strict=True):
            d = self.layout.index(axis)
            size = info.dims[d]
            if count == 1:
                grad = grad / number_of([size], info.dtype)
            elif isinstance(size, IntImm):
                last = [*(a for a in range(info.ndim) if a != d), d]
                back = [last.index(a) for a in range(info.ndim)]
                shares = const(_shares(size.value, count), info.dtype)
                grad = apply("matmul", apply("permute_dims", grad, axes=last), shares)
                grad = apply("permute_dims", grad, axes=back)
            else:
                return None
        return (apply("broadcast_to", grad, ShapeExpr(tuple(info.dims))),)


def _shares(size: int, count: int) -> Array:
    """Matrix of the weight of each of `size` elements in each of `count` windows fitted to them."""
    shares = np.zeros((count, size))
    for i in range(count):
        start, end = i * size // count, -(-(i + 1) * size // count)
        shares[i, start:end] = 1 / max(end - start, 1)
    return shares


@operator("relax.nn.max_pool1d")
class MaxPool1d(MaxPool):
    """The maximum of each window of sequences, (N, C, W) in `layout`, as max_pool2d."""

    spatial = "W"


@operator("relax.nn.max_pool2d")
class MaxPool2d(MaxPool):
    """The maximum of each window of (N, C, H, W) data in `layout`; padding is ignored, NaN propagates.

    With `ceil_mode` the number of windows is rounded up, but none starts in the padding after the data.
    `count_include_pad` is there as in avg_pool2d, and changes nothing.
    """

    spatial = "HW"

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return self.pool_gradient("grad.max_pool2d_backward", operands, result, grad)


@operator("relax.nn.max_pool3d")
class MaxPool3d(MaxPool):
    """The maximum of each window of volumes, (N, C, D, H, W) in `layout`, as max_pool2d."""

    spatial = "DHW"


@operator("relax.nn.avg_pool1d")
class AvgPool1d(AvgPool):
    """The mean of each window of sequences, (N, C, W) in `layout`, as avg_pool2d."""

    spatial = "W"


@operator("relax.nn.avg_pool2d")
class AvgPool2d(AvgPool):
    """The mean of each window of (N, C, H, W) data in `layout`.

    Over the window's elements in the data; with `count_include_pad`, zeros of the padding count too.
    With `ceil_mode` the number of windows is rounded up, but none starts in the padding after the data.
    """

    spatial = "HW"

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return self.pool_gradient("grad.avg_pool2d_backward", operands, result, grad, "count_include_pad")


@operator("relax.nn.avg_pool3d")
class AvgPool3d(AvgPool):
    """The mean of each window of volumes, (N, C, D, H, W) in `layout`, as avg_pool2d."""

    spatial = "DHW"


@operator("relax.nn.max_pool1d_with_indices")
class MaxPool1dWithIndices(MaxPoolWithIndices):
    """max_pool1d, and the int64 index of each maximum in the flattened data."""

    spatial = "W"


@operator("relax.nn.max_pool2d_with_indices")
class MaxPool2dWithIndices(MaxPoolWithIndices):
    """max_pool2d, and the int64 index of each maximum in the flattened data."""

    spatial = "HW"


@operator("relax.nn.max_pool3d_with_indices")
class MaxPool3dWithIndices(MaxPoolWithIndices):
    """max_pool3d, and the int64 index of each maximum in the flattened data."""

    spatial = "DHW"


@operator("relax.nn.lp_pool1d")
class LpPool1d(LpPool):
    """(Σ |x|ᵖ)^(1/p) over each window of sequences, (N, C, W) in `layout`, as lp_pool2d."""

    spatial = "W"


@operator("relax.nn.lp_pool2d")
class LpPool2d(LpPool):
    """(Σ |x|ᵖ)^(1/p) over each window of (N, C, H, W) data in `layout`; padding adds nothing.

    With `ceil_mode` the number of windows is rounded up, but none starts in the padding after the data.
    """

    spatial = "HW"


@operator("relax.nn.lp_pool3d")
class LpPool3d(LpPool):
    """(Σ |x|ᵖ)^(1/p) over each window of volumes, (N, C, D, H, W) in `layout`, as lp_pool2d."""

    spatial = "DHW"


@operator("relax.nn.adaptive_avg_pool1d")
class AdaptiveAvgPool1d(AdaptivePool):
    """The mean of each of `output_size` adaptive windows of sequences, (N, C, W) in `layout`."""

    spatial = "W"


@operator("relax.nn.adaptive_avg_pool2d")
class AdaptiveAvgPool2d(AdaptivePool):
    """The mean of each of `output_size` (an int, or two) adaptive windows of (N, C, H, W) data in `layout`.

    Of m windows of n elements, window i covers those from ⌊i·n/m⌋ up to ⌈(i + 1)·n/m⌉; without elements the mean is
    NaN. None keeps the data's own size.
    """

    spatial = "HW"


@operator("relax.nn.adaptive_avg_pool3d")
class AdaptiveAvgPool3d(AdaptivePool):
    """The mean of each of `output_size` adaptive windows of volumes, (N, C, D, H, W) in `layout`."""

    spatial = "DHW"
