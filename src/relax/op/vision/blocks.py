"""Deformable convolution and the sum of overlapping blocks: deform_conv2d, col2im."""

# NumPy's own types leave many types of references unknown.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ... import topi
from ...ir import DataType, StructInfo
from ...prim import IntImm, PrimExpr, simplify
from ...runtime.rounding import convert_array
from ...struct_info import ShapeStructInfo, TensorStructInfo
from ..dims import same_dtype, tensor
from ..errors import SHAPES, OperatorError
from ..facts import Axes, MixedPrecision, Permuted
from ..nn.activation import wide
from ..nn.windows import Windowed
from ..operands import FLOATS
from ..operator import Array, Operator, operator
from ..sizes import require_dim, require_rank


@operator("relax.vision.deform_conv2d")
class DeformConv2d(Windowed):
    """Convolution whose taps are moved: data (N, C, H, W), weight (O, C / groups, KH, KW), bias (O,).

    offset (N, offset_groups · KH · KW · 2, OH, OW) holds for each tap the distances (y, x) by which it is moved, the
    data between elements being interpolated and zero outside; mask (N, offset_groups · KH · KW, OH, OW) its factors.
    """

    takes = FLOATS

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.NEVER
    spatial: ClassVar[str] = "HW"

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    offset_groups: int = 1
    compute = topi.vision.deform_conv2d

    def infer(
        self,
        data: TensorStructInfo,
        offset: TensorStructInfo,
        weight: TensorStructInfo,
        bias: TensorStructInfo | None = None,
        mask: TensorStructInfo | None = None,
    ) -> TensorStructInfo:
        self.require_numbers("strides", 1)
        self.require_numbers("dilation", 1)
        self.require_numbers("padding", 0, ends=True)
        self.require_attribute(self.groups >= 1, "groups", "at least 1")
        self.require_attribute(self.offset_groups >= 1, "offset_groups", "at least 1")
        operands = {"data": data, "offset": offset, "weight": weight, "bias": bias, "mask": mask}
        dtype = data.dtype
        for name, info in operands.items():
            if info is not None:
                require_rank(name, info, 1 if name == "bias" else 4)
                self.require_dtype(info, name, *self.takes)
                dtype = same_dtype(dtype, info.dtype, ("data", name))
        if data.dims is None or weight.dims is None:
            return tensor(None, dtype, 4)
        batch, channels, *sizes = data.dims
        outputs, per_group, *window = weight.dims
        require_dim("data", data, 1, simplify(per_group * self.groups), "the channels of all groups")
        for name, number, count in (("data", channels, self.offset_groups), ("weight", outputs, self.groups)):
            if isinstance(number, IntImm) and number.value % count:
                message = f"{number.value} channels cannot be split into {count} groups"
                raise OperatorError(SHAPES, message, operand=name)
        out = self._extents(sizes, window)
        taps = simplify(window[0] * window[1] * self.offset_groups)
        for name, info, rows in (("offset", offset, simplify(taps * 2)), ("mask", mask, taps)):
            for d, size in enumerate((batch, rows, *out)):
                if info is not None:
                    require_dim(name, info, d, size)
        if bias is not None:
            require_dim("bias", bias, 0, outputs, "the number of output channels")
        return tensor((batch, outputs, *out), dtype)

    def _extents(self, sizes: Sequence[PrimExpr], window: Sequence[PrimExpr]) -> list[PrimExpr]:
        extents = zip(sizes, window, self.pads, self.strides, self.dilation, strict=True)
        return [
            self.require_room(topi.nn.conv_extent(*extent), axis)
            for axis, extent in zip(self.spatial, extents, strict=True)
        ]

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        return None  # it has no layout

    def in_layouts(self, layouts: Sequence[str], infos: Sequence[StructInfo]) -> Permuted | None:
        return Operator.in_layouts(self, layouts, infos)

    def reference(
        self, data: Array, offset: Array, weight: Array, bias: Array | None = None, mask: Array | None = None
    ) -> Array:
        x, moved, w = wide(data), wide(offset), wide(weight)
        (sy, sx), (dy, dx) = self.strides, self.dilation
        (top, _), (left, _) = self.pads
        n, channels = x.shape[:2]
        outputs, per_group, kh, kw = w.shape
        rows, columns = moved.shape[2:]
        out = np.zeros((n, outputs, rows, columns), x.dtype)
        y, z = np.meshgrid(np.arange(rows) * sy - top, np.arange(columns) * sx - left, indexing="ij")
        for c in range(channels):
            group = c // max(channels // self.offset_groups, 1)
            for k in range(kh * kw):
                tap = group * kh * kw + k
                value = _interpolated(
                    x[:, c], y + k // kw * dy + moved[:, 2 * tap], z + k % kw * dx + moved[:, 2 * tap + 1]
                )
                if mask is not None:
                    value = value * wide(mask)[:, tap]
                of = c // per_group * (outputs // self.groups)
                for o in range(of, of + outputs // self.groups):
                    out[:, o] += value * w[o, c % per_group, k // kw, k % kw]
        if bias is not None:
            out = out + wide(bias)[:, None, None]
        return convert_array(out, data.dtype)


def _interpolated(images: Array, rows: Array, columns: Array) -> Array:
    """Bilinear samples of images (N, H, W) at coordinates (N, OH, OW); zero outside."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    height, width = padded.shape[1:]
    y, x = (np.clip(p + 1, 0, n - 1) for p, n in ((rows, height), (columns, width)))
    y0, x0 = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    y1, x1 = np.minimum(y0 + 1, height - 1), np.minimum(x0 + 1, width - 1)
    fy, fx = y - y0, x - x0
    n = np.arange(len(images))[:, None, None]
    above = padded[n, y0, x0] * (1 - fx) + padded[n, y0, x1] * fx
    below = padded[n, y1, x0] * (1 - fx) + padded[n, y1, x1] * fx
    return (above * (1 - fy) + below * fy).astype(images.dtype)


@operator("relax.vision.col2im")
class Col2Im(Operator):
    """Images assembled from blocks by adding overlapping elements: the adjoint of cutting images into blocks.

    data (N, C · elements of a block, blocks), the blocks counted in row-major order; result (N, C, *image_shape). A
    block starts every `strides` elements of the image with its `padding`, and its elements are `dilation` apart.
    """

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.NEVER

    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    compute = topi.vision.col2im

    def infer(
        self, data: TensorStructInfo, image_shape: ShapeStructInfo, block_shape: ShapeStructInfo
    ) -> TensorStructInfo:
        require_rank("data", data, 3)
        if -1 in (image_shape.ndim, block_shape.ndim):
            return tensor(None, data.dtype)
        rank = image_shape.ndim
        if block_shape.ndim != rank or rank == 0:
            message = f"block_shape must have {max(rank, 1)} numbers, found {block_shape.ndim}"
            raise OperatorError(SHAPES, message, operand="block_shape")
        self._require_windows(rank)
        if data.dims is None or image_shape.values is None or block_shape.values is None:
            return tensor(None, data.dtype, rank + 2)
        batch, rows, _ = data.dims
        elements: PrimExpr = IntImm("int64", 1)
        blocks: PrimExpr = IntImm("int64", 1)
        strides, dilation = (topi.nn.per_axis(v, rank) for v in (self.strides, self.dilation))
        pads = topi.nn.pad_pairs(self.padding, rank)
        for a, (size, extent) in enumerate(zip(image_shape.values, block_shape.values, strict=True)):
            elements = elements * extent
            blocks = blocks * topi.nn.conv_extent(size, extent, pads[a], strides[a], dilation[a])
        elements = simplify(elements)
        require_dim("data", data, 2, simplify(blocks), "the number of blocks")
        if isinstance(elements, IntImm) and elements.value < 1:
            raise OperatorError(SHAPES, "a block must have elements", operand="block_shape")
        channels = simplify(rows // elements)
        require_dim("data", data, 1, simplify(channels * elements), "a multiple of the elements of a block")
        return tensor((batch, channels, *image_shape.values), data.dtype)

    def _require_windows(self, rank: int) -> None:
        """Raise OperatorError for invalid strides, dilation or padding of `rank` spatial dimensions."""
        several = f"1 or {rank} numbers" if rank > 1 else "1 number"
        for name in ("strides", "dilation"):
            values = getattr(self, name)
            fits = len(values) in (1, rank) and min(values) >= 1
            self.require_attribute(fits, name, f"{several}, each at least 1")
        fits = len(self.padding) in (1, rank, 2 * rank) and min(self.padding) >= 0
        self.require_attribute(fits, "padding", f"1, {rank} or {2 * rank} numbers, each at least 0")

    def reference(self, data: Array, image_shape: Sequence[int], block_shape: Sequence[int]) -> Array:
        rank, kind = len(image_shape), DataType(data.dtype.name)
        strides, dilation = (topi.nn.per_axis(v, rank) for v in (self.strides, self.dilation))
        pads = topi.nn.pad_pairs(self.padding, rank)
        x = wide(data) if kind.is_float else data
        counts = [
            (image_shape[a] + sum(pads[a]) - dilation[a] * (block_shape[a] - 1) - 1) // strides[a] + 1
            for a in range(rank)
        ]
        blocks = x.reshape(x.shape[0], -1 if x.size else x.shape[1] // int(np.prod(block_shape)), *block_shape, *counts)
        padded = np.zeros((*blocks.shape[:2], *(n + sum(p) for n, p in zip(image_shape, pads, strict=True))), x.dtype)
        for k in np.ndindex(*block_shape):
            at = tuple(
                slice(k[a] * dilation[a], k[a] * dilation[a] + strides[a] * counts[a], strides[a]) for a in range(rank)
            )
            target = padded[(slice(None), slice(None), *at)]
            target += blocks[(slice(None), slice(None), *k)]
        inner = tuple(slice(p[0], p[0] + n) for n, p in zip(image_shape, pads, strict=True))
        return convert_array(padded[(slice(None), slice(None), *inner)], data.dtype)
