"""Sampling of images at the coordinates of a grid: grid_sample, affine_grid."""

# NumPy's own types leave many types of references unknown.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np

from ... import topi
from ...ir import DataType
from ...prim import IntImm
from ...runtime.rounding import convert_array
from ...struct_info import ShapeStructInfo, TensorStructInfo
from ..dims import tensor
from ..errors import SHAPES, OperatorError
from ..facts import MixedPrecision
from ..nn.activation import wide
from ..operands import FLOATS
from ..operator import Array, Operator, operator
from ..sizes import require_dim, require_elements, require_rank

GridLayout = Literal["channels_first", "channels_last"]


@operator("relax.image.grid_sample")
class GridSample(Operator):
    """Sample data at the coordinates of a grid: (N, C, H, W) data, or of 1 or 3 spatial dimensions, in `layout`.

    The grid has a vector (x, y, z) for each element of the result, -1 and 1 being the centres of the first and last
    elements (without `align_corners`, their outer edges). Its vectors lie along dimension 1 ("channels_first", as in
    TVM) or the last one ("channels_last", as in ONNX and PyTorch). Outside of the data are zeros, the nearest element
    ("border"), or the data reflected at the border. "bicubic" reads the 4 elements around a coordinate in each
    dimension, each of which may be outside, as PyTorch and ONNX Runtime do (ONNX's reference code moves the coordinate
    first).
    """

    takes = FLOATS

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.NEVER

    method: Literal["bilinear", "nearest", "bicubic"] = "bilinear"
    layout: str = "NCHW"
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros"
    align_corners: bool = True
    grid_layout: GridLayout = "channels_first"
    compute = topi.grid.grid_sample

    def infer(self, data: TensorStructInfo, grid: TensorStructInfo) -> TensorStructInfo:
        letters = "".join(sorted(self.layout))
        fits = letters in ("CNW", "CHNW", "CDHNW")
        self.require_attribute(fits, "layout", "a permutation of NCW, NCHW or NCDHW")
        rank = len(self.layout)
        self.require_dtype(data, "data", *self.takes)
        self.require_dtype(grid, "grid", "float")
        require_rank("data", data, rank)
        require_rank("grid", grid, rank)
        if data.dims is None or grid.dims is None:
            return tensor(None, data.dtype, rank)
        first = self.grid_layout == "channels_first"
        vectors = 1 if first else rank - 1
        require_dim("grid", grid, vectors, rank - 2, "the length of its vectors")
        require_dim("grid", grid, 0, data.dims[self.layout.index("N")], "the batch size of data")
        sizes = dict(zip(topi.grid.spatial_letters(rank), grid.dims[2:] if first else grid.dims[1:-1], strict=True))
        sizes |= {letter: data.dims[self.layout.index(letter)] for letter in "NC"}
        for d, letter in enumerate(self.layout):
            if letter not in "NC" and self.padding_mode != "zeros":
                require_elements("data", d, data.dims[d])
        return tensor([sizes[letter] for letter in self.layout], data.dtype)

    def reference(self, data: Array, grid: Array) -> Array:
        order = ["NC".find(c) if c in "NC" else 2 + "DHW".index(c) - (5 - data.ndim) for c in self.layout]
        x = data.transpose(np.argsort(order))
        vectors = np.moveaxis(grid, 1, -1) if self.grid_layout == "channels_first" else grid
        kind = np.result_type(wide(x), wide(vectors))
        x, vectors = x.astype(kind), vectors[..., ::-1].astype(kind)
        coordinates = [self._pixel_coordinate(vectors[..., k], x.shape[2 + k]) for k in range(x.ndim - 2)]
        out = np.stack(
            [self._sampled(x[n], [p[n] for p in coordinates]) for n in range(len(x))]
            or [np.zeros((x.shape[1], *vectors.shape[1:-1]), kind)]
        )[: len(x)]
        return convert_array(out, data.dtype).transpose(order)

    def _pixel_coordinate(self, coordinate: Array, length: int) -> Array:
        if self.align_corners:
            x, low, high = (coordinate + 1) / 2 * (length - 1), 0.0, length - 1.0
        else:
            x, low, high = ((coordinate + 1) * length - 1) / 2, -0.5, length - 0.5
        if self.method == "nearest":
            x = np.rint(x)
        if self.padding_mode == "border" and self.method == "bicubic":
            return x
        if self.padding_mode == "border":
            return np.where(x < low, 0, np.where(x > high, length - 1, x)).astype(coordinate.dtype)
        if self.padding_mode == "reflection":
            rest = np.mod(x - low, 2 * (high - low)) if high > low else np.zeros_like(x)
            folded = low + np.minimum(rest, 2 * (high - low) - rest)
            return np.where((x >= low) & (x <= high), x, folded).astype(coordinate.dtype)
        return x

    def _sampled(self, image: Array, coordinates: list[Array]) -> Array:
        """Sample one image (C, …) at coordinates given per spatial dimension."""
        if self.method == "nearest":
            return self._pixels(image, [_index(p) for p in coordinates])
        reach = 1 if self.method == "bilinear" else 2
        floors = [np.floor(p) for p in coordinates]
        total: Any = np.zeros((image.shape[0], *coordinates[0].shape), image.dtype)
        for taps in product(range(1 - reach, reach + 1), repeat=len(coordinates)):
            weight: Any = 1
            for tap, coordinate, low in zip(taps, coordinates, floors, strict=True):
                weight = weight * _weight(np.abs(coordinate - low - tap), reach)
            values = self._pixels(image, [_index(f) + t for f, t in zip(floors, taps, strict=True)])
            total = total + values * np.asarray(weight, image.dtype)
        return total

    def _pixels(self, image: Array, indices: list[Array]) -> Array:
        inside: Any = np.array(True)
        at: list[Array] = []
        for index, length in zip(indices, image.shape[1:], strict=True):
            if self.padding_mode == "zeros":
                inside = inside & (index >= 0) & (index < length)
            elif self.padding_mode == "reflection":
                period = max(2 * (length - 1) if self.align_corners else 2 * length, 1)
                rest = np.mod(index, period)
                index = np.minimum(rest, period - rest - (not self.align_corners))
            at.append(np.clip(index, 0, max(length - 1, 0)))
        if not image[0:1].size:
            return np.zeros((image.shape[0], *indices[0].shape), image.dtype)
        return np.where(inside, image[(slice(None), *at)], image.dtype.type(0))


def _index(coordinate: Array) -> Array:
    return np.nan_to_num(np.clip(coordinate, -(2.0**60), 2.0**60)).astype(np.int64)


def _weight(d: Array, reach: int) -> Array:
    if reach == 1:
        return np.maximum(1 - d, 0)
    near = 1.25 * d**3 - 2.25 * d**2 + 1
    far = -0.75 * (d**3 - 5 * d**2 + 8 * d - 4)
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


@operator("relax.image.affine_grid")
class AffineGrid(Operator):
    """A grid for grid_sample: `data` (N, 2, 3) or (N, 3, 4) times (x, y[, z], 1), for elements of an image of `size`.

    The coordinates are spaced evenly, -1 and 1 being the centres of the first and last elements (without
    `align_corners`, their outer edges). The vectors lie along dimension 1, or with "channels_last" along the last one.
    A dimension of one element lies at -1, or at 0 without `align_corners`.
    """

    takes = FLOATS

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.NEVER

    align_corners: bool = True
    grid_layout: GridLayout = "channels_first"
    compute = topi.grid.affine_grid

    def infer(self, data: TensorStructInfo, size: ShapeStructInfo) -> TensorStructInfo:
        self.require_dtype(data, "data", *self.takes)
        require_rank("data", data, 3)
        if size.ndim not in (-1, 2, 3):
            raise OperatorError(SHAPES, f"size must have 2 or 3 numbers, found {size.ndim}", operand="size")
        rank = size.ndim
        if rank == -1:
            return tensor(None, data.dtype)
        if data.dims is None or size.values is None:
            return tensor(None, data.dtype, rank + 2)
        require_dim("data", data, 1, rank, "the number of sizes")
        require_dim("data", data, 2, rank + 1, "the number of sizes and 1")
        first = self.grid_layout == "channels_first"
        rows = IntImm("int64", rank)
        batch = data.dims[0]
        return tensor([batch, rows, *size.values] if first else [batch, *size.values, rows], data.dtype)

    def reference(self, data: Array, size: Sequence[int]) -> Array:
        theta = wide(data)
        kind = theta.dtype.type
        axes: list[Array] = []
        for length in size:
            i = np.arange(length, dtype=theta.dtype)
            if self.align_corners:
                axes.append(2 * i / kind(max(length - 1, 1)) - 1)
            else:
                axes.append((2 * i + 1) / kind(max(length, 1)) - 1)
        points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(tuple(size), theta.dtype)], -1)
        out = np.einsum("nrc,...c->n...r", theta, points)
        out = np.moveaxis(out, -1, 1) if self.grid_layout == "channels_first" else out
        return convert_array(np.ascontiguousarray(out), DataType(data.dtype.name).numpy())
