"""Regions of interest: roi_align."""

# NumPy's own types leave many types of references unknown.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from ... import topi
from ...ir.node import set_slot
from ...prim import IntImm
from ...runtime.rounding import convert_array
from ...struct_info import TensorStructInfo
from ..dims import same_dtype, tensor
from ..facts import MixedPrecision
from ..nn.activation import wide
from ..operands import FLOATS
from ..operator import Array, Operator, operator
from ..sizes import require_dim, require_elements, require_rank


@operator("relax.vision.roi_align")
class RoiAlign(Operator):
    """Pool regions of images: each is divided into `pooled_size` parts, which are reduced to the mean ("avg") or
    maximum of their samples.

    A sample is interpolated between the four elements around it; in mode "weighted_max", ONNX's "max", it is the
    greatest weighted element.

    data (N, C, H, W) in `layout`; rois (regions, 5) hold (image, x1, y1, x2, y2), or (regions, 4) without the image if
    batch_indices (regions,) has them; times `spatial_scale`, they are coordinates of the data. A part has
    `sample_ratio` samples along each side, or if that is not positive, its size rounded up. `aligned` shifts
    coordinates by -1/2, with element 0 at 1/2; otherwise the sides of regions are at least 1. Samples more than one
    element outside of the data are 0.
    """

    takes = FLOATS

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.NEVER

    pooled_size: tuple[int, ...] = (1, 1)
    spatial_scale: float = 1.0
    sample_ratio: int = -1
    aligned: bool = False
    layout: str = "NCHW"
    mode: Literal["avg", "max", "weighted_max"] = "avg"
    compute = topi.vision.roi_align

    def __post_init__(self) -> None:
        if len(self.pooled_size) == 1:
            set_slot(self, "pooled_size", self.pooled_size * 2)

    def infer(
        self, data: TensorStructInfo, rois: TensorStructInfo, batch_indices: TensorStructInfo | None = None
    ) -> TensorStructInfo:
        self.require_attribute(sorted(self.layout) == sorted("NCHW"), "layout", "a permutation of 'NCHW'")
        sized = len(self.pooled_size) in (1, 2) and min(self.pooled_size) >= 1
        self.require_attribute(sized, "pooled_size", "1 or 2 numbers, each at least 1")
        require_rank("data", data, 4)
        require_rank("rois", rois, 2)
        self.require_dtype(data, "data", *self.takes)
        dtype = same_dtype(data.dtype, rois.dtype, ("data", "rois"))
        if batch_indices is not None:
            self.require_dtype(batch_indices, "batch_indices", "int", "uint")
            require_rank("batch_indices", batch_indices, 1)
        if data.dims is None or rois.dims is None:
            return tensor(None, dtype, 4)
        columns = 5 if batch_indices is None else 4
        require_dim("rois", rois, 1, columns, "the numbers of a region")
        if batch_indices is not None:
            require_dim("batch_indices", batch_indices, 0, rois.dims[0], "the number of regions")
        heights, widths = self.pooled_size
        size = {"N": rois.dims[0], "H": IntImm("int64", heights), "W": IntImm("int64", widths)}
        size["C"] = data.dims[self.layout.index("C")]
        for letter in "HW":
            d = self.layout.index(letter)
            require_elements("data", d, data.dims[d], unless=rois.dims[0])
        return tensor([size[letter] for letter in self.layout], dtype)

    def reference(self, data: Array, rois: Array, batch_indices: Array | None = None) -> Array:
        order = [self.layout.index(c) for c in "NCHW"]
        x, regions = wide(data).transpose(order), wide(rois)
        kind = x.dtype.type
        images = (regions[:, 0] if batch_indices is None else batch_indices).astype(np.int64)
        if len(images) and not (images.min() >= 0 and images.max() < len(x)):
            raise AssertionError("the image of a region is out of range")
        size = self.pooled_size
        out = np.zeros((len(regions), x.shape[1], *size), x.dtype)
        for r, region in enumerate(regions):
            corners = region[-4:] * kind(self.spatial_scale) - kind(0.5 if self.aligned else 0)
            start, extent = corners[1::-1], corners[3:1:-1] - corners[1::-1]
            if not self.aligned:
                extent = np.maximum(extent, 1)
            grid = [
                self.sample_ratio if self.sample_ratio > 0 else max(int(np.ceil(e / n)), 0)
                for e, n in zip(extent, size, strict=True)
            ]
            coordinates = [
                (s + (np.arange(n)[:, None] + (np.arange(g) + 0.5) / max(g, 1)) * (e / n)).astype(x.dtype)
                for s, e, n, g in zip(start, extent, size, grid, strict=True)
            ]
            values = self._sampled(x[images[r]], *coordinates)  # (C, heights, samples, widths, samples)
            if self.mode == "avg":
                out[r] = values.sum((2, 4)) / max(grid[0] * grid[1], 1)
            elif grid[0] * grid[1]:
                out[r] = values.max((2, 4))
        return convert_array(out, data.dtype).transpose(np.argsort(order))

    def _sampled(self, image: Array, rows: Array, columns: Array) -> Array:
        axes: list[tuple[Array, Array, Array, Array]] = []
        for coordinates, length in ((rows, image.shape[1]), (columns, image.shape[2])):
            inside = (coordinates >= -1) & (coordinates <= length)
            clipped = np.clip(coordinates, 0, length - 1)
            low = np.floor(clipped).astype(np.int64)
            axes.append((low, np.minimum(low + 1, length - 1), clipped - low, inside))
        (y0, y1, fy, iy), (x0, x1, fx, ix) = axes
        at = (slice(None), slice(None), None, None)

        def read(y: Array, x: Array) -> Array:
            return image[:, y[:, :, None, None], x[None, None, :, :]]

        fy, fx = fy[at], fx[None, None]
        corners = [read(y0, x0) * (1 - fy) * (1 - fx), read(y0, x1) * (1 - fy) * fx]
        corners += [read(y1, x0) * fy * (1 - fx), read(y1, x1) * fy * fx]
        value = np.max(corners, 0) if self.mode == "weighted_max" else np.sum(corners, 0)
        return np.where(iy[at] & ix[None, None], value, 0).astype(image.dtype)
