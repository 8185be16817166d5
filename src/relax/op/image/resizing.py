"""Resizing: resize of any axes, and resize2d of images."""

# NumPy's own types leave many types of references unknown.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from ... import topi
from ...ir import DataType, StructInfo
from ...struct_info import ShapeStructInfo, TensorStructInfo
from ..attributes import VOID
from ..conversion import converted
from ..dims import normalize_axes, tensor
from ..errors import ATTRIBUTES, SHAPES, OperatorError
from ..facts import Axes, MixedPrecision, Permuted, has_rank, moved_axis
from ..operands import FLOATS, NUMBERS
from ..operator import Array, Operator, operator
from ..sizes import require_dim, require_elements, require_rank

Method = Literal["nearest_neighbor", "linear", "cubic"]
CoordinateMode = Literal[
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
]
Rounding = Literal["round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]


class Resizing(Operator):
    """Base class of resize and resize2d."""

    __slots__ = ()

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW

    method: Method
    coordinate_transformation_mode: CoordinateMode
    rounding_method: Rounding
    cubic_alpha: float
    cubic_exclude: bool
    extrapolation_value: float
    out_dtype: DataType

    @property
    def cropped(self) -> bool:
        """True if a region of the data is resized, which may extend beyond the data."""
        return self.coordinate_transformation_mode == "tf_crop_and_resize"

    def resized(self, data: TensorStructInfo, size: ShapeStructInfo, axes: Sequence[int]) -> TensorStructInfo:
        """Struct info of the result: that of the data with the sizes of `axes` replaced."""
        if self.method != "nearest_neighbor":
            self.require_dtype(data, "data", *NUMBERS)
        dtype = self.out_dtype or data.dtype
        if size.ndim not in (-1, len(axes)):
            message = f"size must have one number for each of {len(axes)} resized axes, found {size.ndim}"
            raise OperatorError(SHAPES, message, operand="size")
        if data.dims is None or size.values is None:
            return tensor(None, dtype, data.ndim)
        dims = list(data.dims)
        for axis, extent in zip(axes, size.values, strict=True):
            require_elements("data", axis, dims[axis], unless=extent)
            dims[axis] = extent
        return tensor(dims, dtype)

    def numbers(
        self,
        data: Array,
        sizes: Sequence[int],
        axes: Sequence[int],
        scales: Sequence[float] | None,
        roi: Sequence[float] | None,
        antialias: bool,
    ) -> Array:
        """Compute the result in NumPy."""
        out, dtype = data, self.out_dtype or DataType(data.dtype.name)
        outside = np.zeros(data.ndim * (1,), bool)
        for k, axis in enumerate(axes):
            region = (0.0, 1.0) if roi is None else (float(roi[k]), float(roi[k + len(axes)]))
            scale = None if scales is None else float(scales[k])
            length = data.shape[axis]
            if scale is not None:
                full = length * scale
                slack = abs(full) * 1e-6
                if not (scale > 0 and -0.5 - slack <= full - sizes[k] <= 1 + slack):
                    raise AssertionError(topi.image.SCALE_MESSAGE)
            coordinates = self.places(length, sizes[k], scale, region)
            taps, weights = self._taps(coordinates, length, sizes[k], scale, antialias)
            out = _gathered(out, axis, np.clip(taps, 0, max(length - 1, 0)), weights)
            if self.cropped:
                beyond = (coordinates < 0) | (coordinates > length - 1)
                outside = outside | beyond.reshape([-1 if d == axis else 1 for d in range(data.ndim)])
        result = converted(np.asarray(out), dtype)
        value = converted(np.asarray(self.extrapolation_value), dtype)
        return np.where(np.broadcast_to(outside, result.shape), value, result)

    def places(self, length: int, size: int, scale: float | None, region: tuple[float, float]) -> Array:
        """Coordinates in the data of the result's elements along one axis."""
        o = np.arange(size, dtype=np.float64)
        stretched = size if scale is None else length * scale

        def back(x: Array) -> Array:
            return x * length / size if scale is None else x / scale

        start, end = region
        match self.coordinate_transformation_mode:
            case "half_pixel":
                return back(o + 0.5) - 0.5
            case "half_pixel_symmetric":
                return length / 2 * (1 - size / stretched) + (back(o + 0.5) - 0.5)
            case "pytorch_half_pixel":
                return back(o + 0.5) - 0.5 if size > 1 else np.zeros(size)
            case "asymmetric":
                return back(o)
            case "tf_half_pixel_for_nn":
                return back(o + 0.5)
            case "align_corners":
                return np.zeros(size) if stretched == 1 else o * (length - 1) / (stretched - 1)
            case _:
                full = stretched
                if full > 1:
                    return start * (length - 1) + o * ((end - start) * (length - 1)) / (full - 1)
                return np.full(size, 0.5 * (start + end) * (length - 1))

    def _taps(
        self, coordinates: Array, length: int, size: int, scale: float | None, antialias: bool
    ) -> tuple[Array, Array | None]:
        """Tap indices (size, taps) and weights; None for weights if single elements are copied."""
        if self.method == "nearest_neighbor":
            away = np.where(coordinates < 0, np.ceil(coordinates - 0.5), np.floor(coordinates + 0.5))
            rounded = {
                "round": away,
                "floor": np.floor(coordinates),
                "ceil": np.ceil(coordinates),
                "round_prefer_floor": np.ceil(coordinates - 0.5),
                "round_prefer_ceil": np.floor(coordinates + 0.5),
            }[self.rounding_method]
            return rounded.astype(np.int64)[:, None], None
        radius, narrowing = (1 if self.method == "linear" else 2), 1.0
        if antialias and size:
            narrowing = min(1.0, size / length if scale is None else scale)
            radius = int(np.ceil(radius / narrowing))
        taps = np.floor(coordinates).astype(np.int64)[:, None] + np.arange(1 - radius, radius + 1)
        d = np.abs((taps - coordinates[:, None]) * narrowing)
        a = self.cubic_alpha
        near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        cubic = np.where(d <= 1, near, np.where(d < 2, far, 0))
        weights = np.maximum(1 - d, 0) if self.method == "linear" else cubic
        if self.cubic_exclude:
            weights = np.where((taps >= 0) & (taps < length), weights, 0)
        if self.cubic_exclude or antialias:
            weights = weights / weights.sum(1, keepdims=True)
        return taps, weights


def _gathered(data: Array, axis: int, taps: Array, weights: Array | None) -> Array:
    """Σ weights · the elements at `taps`, along one axis."""
    elements = np.moveaxis(np.take(data, taps, axis), (axis, axis + 1), (-2, -1))
    if weights is None:
        return np.moveaxis(elements[..., 0], -1, axis)
    wide = topi.image.resize_dtype(DataType(data.dtype.name)).numpy()
    return np.moveaxis((elements.astype(wide) * weights.astype(wide)).sum(-1), -1, axis)


@operator("relax.image.resize")
class Resize(Resizing):
    """The data with each axis of `axes` (None: all) resized to its entry of `size`.

    `coordinate_transformation_mode` maps index o of an axis to a coordinate of the data by the scale: that of `scales`
    (the size must be the rounded product of scale and length), or else size / length. "linear" and "cubic" weight the
    elements around the coordinate (with `antialias`, a kernel widened by the reduction), "nearest_neighbor" selects one
    by `rounding_method`. Outside the data, the border element is read; `cubic_exclude` omits such elements;
    "tf_crop_and_resize", which resizes the part between the starts and the ends in `roi`, yields `extrapolation_value`
    there. Integers are rounded towards zero.
    """

    axes: tuple[int, ...] | None = None
    method: Method = "linear"
    coordinate_transformation_mode: CoordinateMode = "half_pixel"
    rounding_method: Rounding = "round"
    cubic_alpha: float = -0.75
    cubic_exclude: bool = False
    extrapolation_value: float = 0.0
    antialias: bool = False
    out_dtype: DataType = VOID

    def infer(
        self,
        data: TensorStructInfo,
        size: ShapeStructInfo,
        scales: TensorStructInfo | None = None,
        roi: TensorStructInfo | None = None,
    ) -> TensorStructInfo:
        smooth = self.method != "nearest_neighbor" or not self.antialias
        self.require_attribute(smooth, "antialias", 'False with method "nearest_neighbor"')
        if data.ndim == -1:
            return tensor(None, self.out_dtype or data.dtype)
        axes = normalize_axes(self.numbered(data.ndim), data.ndim, "axes", "data")
        for name, info, count in (("scales", scales, len(axes)), ("roi", roi, 2 * len(axes))):
            if info is not None:
                self._require_vector(name, info, count)
        return self.resized(data, size, axes)

    def numbered(self, ndim: int) -> tuple[int, ...]:
        return tuple(range(ndim)) if self.axes is None else self.axes

    def _require_vector(self, name: str, info: TensorStructInfo, count: int) -> None:
        self.require_dtype(info, name, *FLOATS)
        require_rank(name, info, 1)
        require_dim(name, info, 0, count)

    compute = topi.image.resize

    def reference(
        self, data: Array, size: Sequence[int], scales: Array | None = None, roi: Array | None = None
    ) -> Array:
        axes = [a % data.ndim for a in self.numbered(data.ndim)]
        return self.numbers(data, size, axes, scales, roi, self.antialias)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        moved = self.replace(axes=tuple(moved_axis(a, axes) for a in self.numbered(len(axes))))
        return Permuted(moved, (axes, *[None] * (len(infos) - 1)), (axes,))


@operator("relax.image.resize2d")
class Resize2d(Resizing):
    """Images in `layout` resized to the height and width in `size`; the attributes are those of `image.resize`.

    `roi` is (top, left, bottom, right), for "tf_crop_and_resize".
    """

    roi: tuple[float, ...] | None = None
    layout: str = "NCHW"
    method: Method = "linear"
    coordinate_transformation_mode: CoordinateMode = "half_pixel"
    rounding_method: Rounding = "round"
    cubic_alpha: float = -0.5
    cubic_exclude: bool = False
    extrapolation_value: float = 0.0
    out_dtype: DataType = VOID

    def infer(self, data: TensorStructInfo, size: ShapeStructInfo) -> TensorStructInfo:
        self.require_attribute(sorted(self.layout) == sorted("NCHW"), "layout", "a permutation of 'NCHW'")
        self.require_attribute(self.roi is None or len(self.roi) == 4, "roi", "4 numbers")
        require_rank("data", data, 4)
        info = data if data.ndim == 4 else tensor(None, data.dtype, 4)
        return self.resized(info, size, self.spatial())

    def spatial(self) -> tuple[int, int]:
        """Axes of height and width."""
        return self.layout.index("H"), self.layout.index("W")

    def compute(self, data: Any, size: Any) -> Any:
        return topi.image.resize(
            data,
            size,
            None,
            self.roi,
            self.spatial(),
            self.method,
            self.coordinate_transformation_mode,
            self.rounding_method,
            self.cubic_alpha,
            self.cubic_exclude,
            self.extrapolation_value,
            out_dtype=self.out_dtype,
        )

    def reference(self, data: Array, size: Sequence[int]) -> Array:
        return self.numbers(data, size, self.spatial(), None, self.roi, False)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes):
            return None
        layout = "".join(self.layout[axis] for axis in axes)
        return Permuted(self.replace(layout=layout), (axes, None), (axes,))

    def in_layouts(self, layouts: Sequence[str], infos: Sequence[StructInfo]) -> Permuted | None:
        """Permute the operands to a layout of the data, which is also the result's."""
        if len(layouts) != 1 or sorted(layouts[0]) != sorted(self.layout):
            expected = f"takes one layout, a permutation of {self.layout!r}, found {', '.join(layouts)}"
            raise OperatorError(ATTRIBUTES, expected)
        return self.permuted(tuple(map(self.layout.index, layouts[0])), infos)
