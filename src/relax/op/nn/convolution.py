"""Convolution and pooling of images: conv2d, max_pool2d, avg_pool2d."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ... import topi
from ...info.text import prim_text
from ...ir import DataType, StructInfo
from ...prim import IntImm, PrimExpr, simplify
from ...struct_info import TensorStructInfo
from ..dims import require_same_dim, tensor
from ..errors import SHAPES, OperatorError
from ..facts import Axes, MixedPrecision, Permuted, has_rank
from ..operator import Array, Operator, operator
from .activation import wide


def _simplified(size: PrimExpr) -> PrimExpr:
    return simplify(size)


class Image(Operator):
    """The base of convolution and pooling: windows over the H and W of a layout."""

    __slots__ = ()

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def require_layout(self, attribute: str, letters: str) -> None:
        layout: str = getattr(self, attribute)
        hint = ""
        if any(letter.isdigit() for letter in layout):
            hint = f"packed layouts are not computed in: permute_dims and reshape the operand to {letters}"
        fits = sorted(layout) == sorted(letters)
        self.require_attribute(fits, attribute, f"a permutation of {letters!r}", hint=hint)

    def require_windows(self) -> None:
        """Complain of strides, dilation or padding that make no sense."""
        for name in ("strides", "dilation"):
            values = getattr(self, name)
            self.require_attribute(
                len(values) in (1, 2) and min(values) >= 1, name, "1 or 2 numbers, each at least 1"
            )
        self.require_attribute(
            len(self.padding) in (1, 2, 4) and min(self.padding) >= 0,
            "padding",
            "1, 2 or 4 numbers, each at least 0",
        )

    def require_rank(self, name: str, info: TensorStructInfo, letters: str) -> None:
        if info.ndim not in (-1, 4):
            raise OperatorError(
                SHAPES, f"{name} must have 4 dimensions ({letters}), found {info.ndim}", operand=name
            )

    def require_room(self, size: PrimExpr, axis: str) -> PrimExpr:
        """The simplified size of the result; complains if it is proved that no window fits."""
        result = _simplified(size)
        if isinstance(result, IntImm) and result.value < 0:
            raise OperatorError(
                SHAPES, f"the window is larger than the padded data along {axis}", operand="data"
            )
        return result


@operator("relax.nn.conv2d")
class Conv2d(Image):
    """Cross-correlation of images with kernels.

    data (N, C, H, W), weight (O, C / groups, KH, KW) in the given layouts; result (N, O, H', W') with
    H' = ⌊(H + pads - dilation · (KH - 1) - 1) / stride⌋ + 1. `padding` (zeros) is one number, (H, W), or (top, left,
    bottom, right). Narrow floats are accumulated in float32; `out_dtype` "" keeps the input's dtype.
    """

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.ALWAYS

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_layout: str | None = None
    out_dtype: DataType | None = None
    compute = topi.nn.conv2d

    def infer(self, data: TensorStructInfo, weight: TensorStructInfo) -> TensorStructInfo:
        self.require_windows()
        self.require_layout("data_layout", "NCHW")
        self.require_layout("kernel_layout", "OIHW")
        if self.out_layout:
            self.require_layout("out_layout", "NCHW")
        self.require_rank("data", data, self.data_layout)
        self.require_rank("weight", weight, self.kernel_layout)
        self.require_attribute(self.groups >= 1, "groups", "at least 1")
        dtype = self.out_dtype or self._common_dtype(data, weight)
        if data.dims is None or weight.dims is None:
            return tensor(None, dtype, 4)
        size = dict(zip(self.data_layout, data.dims, strict=True))
        kernel = dict(zip(self.kernel_layout, weight.dims, strict=True))
        self._require_channels(size["C"], kernel["I"], kernel["O"])
        pads, strides = topi.nn.pad_pairs(self.padding), topi.nn.pair(self.strides)
        dilation = topi.nn.pair(self.dilation)
        out: dict[str, PrimExpr] = {"N": size["N"], "C": kernel["O"]}
        for j, axis in enumerate("HW"):
            extent = topi.nn.conv_extent(size[axis], kernel[axis], pads[j], strides[j], dilation[j])
            out[axis] = self.require_room(extent, axis)
        return tensor([out[c] for c in self.out_layout or self.data_layout], dtype)

    def _common_dtype(self, data: TensorStructInfo, weight: TensorStructInfo) -> DataType:
        self.require_dtype(data, "data", "float", "int", "uint")
        if data.dtype.is_void or weight.dtype.is_void or data.dtype == weight.dtype:
            return data.dtype if not data.dtype.is_void else weight.dtype
        self.require(False, "weight", f"a tensor of {data.dtype!s}", found=str(weight.dtype))
        raise AssertionError

    def _require_channels(self, channels: PrimExpr, per_group: PrimExpr, out: PrimExpr) -> None:
        times = f" · {self.groups} groups" if self.groups != 1 else ""
        error = OperatorError(
            SHAPES,
            "the channels of data and weight differ",
            remarks={
                "data": f"{prim_text(channels)} channels",
                "weight": f"{prim_text(per_group)} input channels{times}",
            },
        )
        require_same_dim(channels, _simplified(per_group * self.groups), error)
        if isinstance(out, IntImm) and out.value % self.groups:
            raise OperatorError(
                SHAPES,
                f"{out.value} output channels cannot be split into {self.groups} groups",
                operand="weight",
            )

    def reference(self, data: Array, weight: Array) -> Array:
        x = _to_layout(wide(data), self.data_layout, "NCHW")
        w = _to_layout(wide(weight), self.kernel_layout, "OIHW")
        dtype = self.out_dtype or DataType(data.dtype.name)
        kind = dtype.numpy()
        if not dtype.is_float:
            x, w = x.astype(kind), w.astype(kind)
        (top, bottom), (left, right) = topi.nn.pad_pairs(self.padding)
        x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
        (sh, sw), (dh, dw) = topi.nn.pair(self.strides), topi.nn.pair(self.dilation)
        o, per_group, kh, kw = w.shape
        height = (x.shape[2] - dh * (kh - 1) - 1) // sh + 1
        width = (x.shape[3] - dw * (kw - 1) - 1) // sw + 1
        out = np.zeros((x.shape[0], o, height, width), np.result_type(x, w))
        each = o // self.groups
        for g in range(self.groups):
            part = x[:, g * per_group : (g + 1) * per_group]
            kernel = w[g * each : (g + 1) * each]
            for i in range(kh):
                for j in range(kw):
                    window = part[:, :, i * dh :, j * dw :][:, :, ::sh, ::sw][:, :, :height, :width]
                    product = np.einsum("nchw,oc->nohw", window, kernel[:, :, i, j])
                    out[:, g * each : (g + 1) * each] += product
        return _to_layout(out, "NCHW", self.out_layout or self.data_layout).astype(kind)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes) or (self.out_layout or self.data_layout) != self.data_layout:
            return None
        layout = "".join(self.data_layout[axis] for axis in axes)
        return Permuted(self.replace(data_layout=layout, out_layout=None), (axes, None), (axes,))


def _to_layout(array: Array, source: str, target: str) -> Array:
    return array.transpose([source.index(c) for c in target])


class Pool2d(Image):
    """The base of pooling."""

    __slots__ = ()

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW

    pool_size: tuple[int, ...]
    ceil_mode: bool
    layout: str
    out_layout: str | None

    takes: ClassVar[tuple[str, ...]] = ("float", "int", "uint")

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        self.require_windows()
        self.require_layout("layout", "NCHW")
        self.require_attribute(
            len(self.pool_size) in (1, 2) and min(self.pool_size) >= 1,
            "pool_size",
            "1 or 2 numbers, each at least 1",
        )
        if self.out_layout:
            self.require_layout("out_layout", "NCHW")
        self.require_rank("data", data, self.layout)
        self.require_dtype(data, "data", *self.takes)
        if data.dims is None:
            return tensor(None, data.dtype, 4)
        dims = list(data.dims)
        pads, window = topi.nn.pad_pairs(self.padding), topi.nn.pair(self.pool_size)
        strides, dilation = topi.nn.pair(self.strides), topi.nn.pair(self.dilation)
        for j, axis in enumerate("HW"):
            d = self.layout.index(axis)
            extent = topi.nn.pool_extent(dims[d], window[j], pads[j], strides[j], dilation[j], self.ceil_mode)
            dims[d] = self.require_room(extent, axis)
        return tensor([dims[d] for d in self.out_axes()], data.dtype)

    def out_axes(self) -> list[int]:
        """For each dimension of the result, the one of the data it corresponds to."""
        return [self.layout.index(axis) for axis in self.out_layout or self.layout]

    def in_out_layout(self, pooled: Any) -> Any:
        """A te.Tensor in the data's layout, in that of the result."""
        axes = self.out_axes()
        return pooled if axes == [0, 1, 2, 3] else topi.transpose(pooled, axes)

    def places(self, x: Array) -> list[int]:
        """The numbers of windows of (N, C, H, W) data along H and W."""
        pads, window = topi.nn.pad_pairs(self.padding), topi.nn.pair(self.pool_size)
        strides, dilation = topi.nn.pair(self.strides), topi.nn.pair(self.dilation)
        counts: list[int] = []
        for j in range(2):
            room = x.shape[2 + j] + sum(pads[j]) - (window[j] - 1) * dilation[j] - 1
            count = room // strides[j] + 1
            if self.ceil_mode:
                count = -(-room // strides[j]) + 1
                if (count - 1) * strides[j] >= x.shape[2 + j] + pads[j][0]:
                    count -= 1
            counts.append(max(count, 0))
        return counts

    def windows(self, x: Array) -> Iterator[tuple[int, int, list[int], list[int]]]:
        """For each place of the result of (N, C, H, W) data: y, x, and the rows and columns its window covers,
        padding included (then outside the data)."""
        pads, window = topi.nn.pad_pairs(self.padding), topi.nn.pair(self.pool_size)
        strides, dilation = topi.nn.pair(self.strides), topi.nn.pair(self.dilation)
        height, width = self.places(x)
        for y in range(height):
            for z in range(width):
                rows = [y * strides[0] - pads[0][0] + t * dilation[0] for t in range(window[0])]
                columns = [z * strides[1] - pads[1][0] + t * dilation[1] for t in range(window[1])]
                yield y, z, rows, columns

    def pooled(self, data: Array, fold: Any) -> Array:
        """`fold`(elements (N, C, count), number of places that count in the padded data) for each window."""
        x = _to_layout(data, self.layout, "NCHW")
        (_, bottom), (_, right) = topi.nn.pad_pairs(self.padding)
        out = np.zeros((*x.shape[:2], *self.places(x)), data.dtype)
        for y, z, rows, columns in self.windows(x):
            inside_rows = [r for r in rows if 0 <= r < x.shape[2]]
            inside_columns = [c for c in columns if 0 <= c < x.shape[3]]
            places = sum(r < x.shape[2] + bottom for r in rows) * sum(c < x.shape[3] + right for c in columns)
            window = x[:, :, inside_rows][:, :, :, inside_columns].reshape(
                *x.shape[:2], len(inside_rows) * len(inside_columns)
            )
            out[:, :, y, z] = fold(window, places)
        return _to_layout(out, "NCHW", self.out_layout or self.layout)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes) or (self.out_layout or self.layout) != self.layout:
            return None
        layout = "".join(self.layout[axis] for axis in axes)
        return Permuted(self.replace(layout=layout, out_layout=None), (axes,), (axes,))


@operator("relax.nn.max_pool2d")
class MaxPool2d(Pool2d):
    """The greatest value of each window of (N, C, H, W) data in `layout`; padding never wins, NaN does.

    With `ceil_mode` the number of windows is rounded up, but none starts in the padding after the data.
    `count_include_pad` is there as in avg_pool2d, and changes nothing.
    """

    pool_size: tuple[int, ...] = (1, 1)
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    ceil_mode: bool = False
    count_include_pad: bool = False
    layout: str = "NCHW"
    out_layout: str | None = None

    def compute(self, data: Any) -> Any:
        pooled = topi.nn.max_pool2d(
            data, self.pool_size, self.strides, self.padding, self.dilation, self.ceil_mode, self.layout
        )
        return self.in_out_layout(pooled)

    def reference(self, data: Array) -> Array:
        least: Array = np.array(DataType(data.dtype.name).min_value, data.dtype)

        def greatest(window: Array, _places: int) -> Array:
            return np.max(window, -1, initial=least)

        return self.pooled(data, greatest)


@operator("relax.nn.avg_pool2d")
class AvgPool2d(Pool2d):
    """The mean of each window of (N, C, H, W) data in `layout`.

    Over the window's elements in the data; with `count_include_pad`, zeros of the padding count too.
    With `ceil_mode` the number of windows is rounded up, but none starts in the padding after the data.
    """

    pool_size: tuple[int, ...] = (1, 1)
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    ceil_mode: bool = False
    count_include_pad: bool = False
    layout: str = "NCHW"
    out_layout: str | None = None
    takes: ClassVar[tuple[str, ...]] = ("float",)

    def compute(self, data: Any) -> Any:
        pooled = topi.nn.avg_pool2d(
            data,
            self.pool_size,
            self.strides,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.layout,
            self.count_include_pad,
        )
        return self.in_out_layout(pooled)

    def reference(self, data: Array) -> Array:
        def mean(window: Array, places: int) -> Array:
            total = wide(window).sum(-1)
            return total / max(places if self.count_include_pad else window.shape[-1], 1)

        return self.pooled(data, mean)
