"""Resizing: along each axis, a result element is a weighted sum of the data's elements around one coordinate.

Coordinates and weights of an axis are small tensors of their own, computed in float64. Axes are resized one after the
other, those that become longer from the last one on, except where each element is a copy of one ("nearest_neighbor").
"""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .. import te
from ..ir import DataType
from ..ir.tvm_names import answer_missing
from ..prim import IntImm, PrimExpr, Select, cast, const, intrin, is_const, simplify
from ..runtime.records import dataclass
from ..tir.buffer import Buffer
from ..tir.statements import seq_of
from ..tir.stmt import AssertStmt, BufferStore, Stmt
from .twofold import let
from .util import accumulator_dtype, normalize_axis

REACH: Final = {"linear": 1, "cubic": 2}
"""Radius of a method's kernel around the coordinate."""


FACTORS: Final = range(2, 9)
"""Integer factors tried as the quotient of dynamic sizes."""
REPEATED: Final = {
    "asymmetric": ("floor",),
    "tf_half_pixel_for_nn": ("floor",),
    "half_pixel": ("round", "round_prefer_floor", "round_prefer_ceil"),
    "half_pixel_symmetric": ("round", "round_prefer_floor", "round_prefer_ceil"),
    "pytorch_half_pixel": ("round", "round_prefer_floor", "round_prefer_ceil"),
}
"""Rounding methods, by coordinate mode, under which upscaling by k repeats each element k times."""

SCALE_MESSAGE: Final = "scales must be positive, and size the scaled lengths, rounded"


def f64(value: Any) -> PrimExpr:
    """Convert a number or scalar expression to float64."""
    return cast("float64", value) if isinstance(value, PrimExpr) else const(float(value), "float64")


def resize_dtype(dtype: DataType) -> DataType:
    """Dtype in which elements are weighted: float32 holds every integer of up to 16 bits."""
    if dtype.is_float:
        return accumulator_dtype(dtype)
    return DataType("float32" if dtype.bits <= 16 else "float64")


@dataclass(frozen=True)
class _Axis:
    """One resized axis: its index, both lengths, the scale (None: size / length), and the region [start, end]."""

    number: int
    length: PrimExpr
    size: PrimExpr
    scale: PrimExpr | None
    start: PrimExpr
    end: PrimExpr

    @property
    def factor(self) -> int:
        """Integer factor by which the axis becomes longer, if known and small; otherwise 0."""
        if self.scale is not None:
            return 0
        if isinstance(self.length, IntImm) and isinstance(self.size, IntImm):
            return self.size.value // self.length.value if self.size.value % max(self.length.value, 1) == 0 else 0
        return next((k for k in FACTORS if is_const(simplify(self.size - self.length * k), 0)), 0)

    @property
    def is_shortened(self) -> bool:
        """True if the result is known to be shorter."""
        both = isinstance(self.length, IntImm) and isinstance(self.size, IntImm)
        return both and self.size.value < self.length.value  # type: ignore[attr-defined] (both are numbers)

    def back(self, distance: PrimExpr) -> PrimExpr:
        """Convert a distance in the result to one in the data."""
        if self.scale is None:
            return distance * f64(self.length) / f64(self.size)
        return distance / self.scale

    def stretched(self) -> PrimExpr:
        """Length of the scaled data, which is rounded to the size."""
        return f64(self.size) if self.scale is None else f64(self.length) * self.scale


def _coordinate(axis: _Axis, mode: str, o: PrimExpr) -> PrimExpr:
    """Coordinate in the data of element `o` of the result."""
    half, last = const(0.5, "float64"), f64(axis.length) - 1.0
    position, zero = f64(o), const(0.0, "float64")
    centre = axis.back(position + half) - half
    match mode:
        case "half_pixel":
            return centre
        case "half_pixel_symmetric":
            return f64(axis.length) * half * (1.0 - f64(axis.size) / axis.stretched()) + centre
        case "pytorch_half_pixel":
            return Select(axis.size > 1, centre, zero)
        case "asymmetric":
            return axis.back(position)
        case "tf_half_pixel_for_nn":
            return axis.back(position + half)
        case "align_corners":
            return Select(axis.stretched().equal(1.0), zero, position * last / (axis.stretched() - 1.0))
        case _:  # tf_crop_and_resize
            extent = (axis.end - axis.start) * last
            full = axis.stretched()
            inside = axis.start * last + position * extent / (full - 1.0)
            return Select(full > 1.0, inside, half * (axis.start + axis.end) * last)


def _rounded(x: PrimExpr, method: str) -> PrimExpr:
    match method:
        case "round":
            return intrin.round(x)
        case "floor":
            return intrin.floor(x)
        case "ceil":
            return intrin.ceil(x)
        case "round_prefer_floor":
            return intrin.ceil(x - 0.5)
        case _:  # round_prefer_ceil
            return intrin.floor(x + 0.5)


def inside_of(index: PrimExpr, length: PrimExpr) -> PrimExpr:
    """Clamp an index to the data."""
    return intrin.max(intrin.min(index, length - 1), 0)


def triangle(distance: PrimExpr) -> PrimExpr:
    """Weight of linear interpolation."""
    return intrin.max(1.0 - intrin.abs(distance), const(0.0, distance.dtype))


def keys_cubic(distance: PrimExpr, alpha: float) -> PrimExpr:
    """Weight of cubic convolution (Keys 1981), with slope `alpha` at distance 1."""

    def of(d: PrimExpr) -> PrimExpr:
        near = ((alpha + 2.0) * d - (alpha + 3.0)) * d * d + 1.0
        far = ((d - 5.0) * d + 8.0) * d * alpha - 4.0 * alpha
        zero = const(0.0, distance.dtype)
        return Select(d <= 1.0, near, Select(d < 2.0, far, zero))

    return let(intrin.abs(distance), of)


@dataclass(frozen=True)
class _Taps:
    """Taps of an axis: element `o` of the result reads `count` elements from `first(o)` on, weighted."""

    places: te.Tensor
    weights: te.Tensor
    count: PrimExpr
    radius: PrimExpr

    def first(self, o: PrimExpr) -> PrimExpr:
        return cast("int64", intrin.floor(self.places(o))) - (self.radius - 1)


def _taps(axis: _Axis, coordinates: te.Tensor, method: str, alpha: float, exclude: bool, antialias: bool) -> _Taps:
    reach = REACH[method]
    radius: PrimExpr = const(reach, "int64")
    narrowing = const(1.0, "float64")
    if antialias:
        # 1 / scale is at most length / (size - 1/2), as size is length · scale, rounded.
        doubled = axis.size * 2 - 1
        radius = intrin.max((axis.length * (2 * reach) + (doubled - 1)) // doubled, reach)
        scale = f64(axis.size) / f64(axis.length) if axis.scale is None else axis.scale
        narrowing = intrin.min(scale, const(1.0, "float64"))
    taps = _Taps(coordinates, coordinates, radius * 2, radius)

    def raw(o: PrimExpr, t: PrimExpr) -> PrimExpr:
        tap = taps.first(o) + cast("int64", t)
        distance = (f64(tap) - coordinates(o)) * narrowing
        weight = triangle(distance) if method == "linear" else keys_cubic(distance, alpha)
        if exclude:
            weight = Select(intrin.all(tap >= 0, tap < axis.length), weight, const(0.0, "float64"))
        return weight

    weights = te.compute((axis.size, taps.count), raw, f"resize_weight{axis.number}")
    if antialias or exclude:
        t = te.reduce_axis((0, taps.count), "t")
        total = te.compute((axis.size,), lambda o: te.sum(weights(o, t.var), axis=t), f"resize_total{axis.number}")
        raw_weights = weights
        weights = te.compute(raw_weights.shape, lambda o, t: raw_weights(o, t) / total(o), f"resize_share{axis.number}")
    return _Taps(coordinates, weights, taps.count, radius)


def _weighed(data: te.Tensor, axis: _Axis, taps: _Taps, antialias: bool) -> te.Tensor:
    """Resize the data along one axis, in the accumulation dtype."""
    wide = resize_dtype(data.dtype)
    shape = [axis.size if d == axis.number else size for d, size in enumerate(data.shape)]

    def term(i: Sequence[Any], t: Any) -> PrimExpr:
        o = i[axis.number]
        at = list(i)
        at[axis.number] = inside_of(taps.first(o) + t, axis.length)
        return data(*at).astype(wide) * taps.weights(o, t).astype(wide)

    name = f"resize_axis{axis.number}"
    if antialias:  # the filter is wider than its nonzero weights: elements of weight 0 must not be NaN
        t = te.reduce_axis((0, taps.count), "t")

        def element(*i: Any) -> PrimExpr:
            weightless = taps.weights(i[axis.number], t.var).equal(0.0)
            return te.sum(Select(weightless, const(0, wide), term(i, t.var)), axis=t)

        return te.compute(shape, element, name)
    count = int(taps.count.value)  # type: ignore[attr-defined] (constant without antialias)
    # Tables with one row per tap, so that adjacent result elements read adjacent entries.
    shape_of_tables = (const(count, "int64"), axis.size)
    tap_indices = te.compute(shape_of_tables, lambda t, o: taps.first(o) + t, f"resize_tap{axis.number}")
    factors = te.compute(shape_of_tables, lambda t, o: taps.weights(o, t).astype(wide), f"resize_factor{axis.number}")

    def unrolled(*i: Any) -> PrimExpr:
        total: PrimExpr | None = None
        for t in range(count):
            at = list(i)
            at[axis.number] = inside_of(tap_indices(t, i[axis.number]), axis.length)
            product = data(*at).astype(wide) * factors(t, i[axis.number])
            total = product if total is None else total + product
        assert total is not None
        return total

    return te.compute(shape, unrolled, name)


def _in_order(axes: Sequence[_Axis], antialias: bool) -> list[_Axis]:
    """Order in which axes are resized: first those that become shorter, then the others from the last one on.

    The cost of an axis is the product of the other axes' current lengths. The last axis needs gathers; other axes add
    contiguous rows.
    """
    shorter = [axis for axis in axes if antialias or axis.is_shortened]
    return shorter + [axis for axis in reversed(axes) if axis not in shorter]


def resize(
    data: te.Tensor,
    size: Sequence[PrimExpr],
    scales: te.Tensor | None = None,
    roi: te.Tensor | Sequence[float] | None = None,
    axes: Sequence[int] | None = None,
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.75,
    cubic_exclude: bool = False,
    extrapolation_value: float = 0.0,
    antialias: bool = False,
    out_dtype: DataType | None = None,
) -> te.Tensor:
    """Resize the axes `axes` (None: all) of the data to `size`; see `relax.op.image.Resize`."""
    numbers = [normalize_axis(a, data.ndim) for a in (range(data.ndim) if axes is None else axes)]
    mode, count = coordinate_transformation_mode, len(numbers)

    def region(k: int) -> PrimExpr:
        if roi is None:
            return const(float(k >= count), "float64")
        return f64(roi(k) if isinstance(roi, te.Tensor) else roi[k])

    if scales is not None and numbers:
        scales = _checked_scales(scales, [data.shape[number] for number in numbers], size)
    resized: list[_Axis] = []
    coordinates: dict[int, te.Tensor] = {}
    for k, number in enumerate(numbers):
        scale = None if scales is None else f64(scales(k))
        axis = _Axis(number, data.shape[number], size[k], scale, region(k), region(k + count))
        resized.append(axis)
        coordinates[number] = _coordinates(axis, mode)
    out: te.Tensor = data
    if method == "nearest_neighbor":
        out = _nearest(data, resized, coordinates, mode, rounding_method)
    else:
        for axis in _in_order(resized, antialias):
            taps = _taps(axis, coordinates[axis.number], method, cubic_alpha, cubic_exclude, antialias)
            out = _weighed(out, axis, taps, antialias)
    return _finished(out, resized, coordinates, mode, extrapolation_value, out_dtype or data.dtype)


def _checked_scales(scales: te.Tensor, lengths: Sequence[PrimExpr], size: Sequence[PrimExpr]) -> te.Tensor:
    """Scales in float64; the kernel asserts that sizes are the scaled lengths, rounded down or to nearest."""
    count = len(lengths)

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        statements: list[Stmt] = []
        for k, (length, extent) in enumerate(zip(lengths, size, strict=True)):
            scale = f64(ins[0][k])
            full = f64(length) * scale
            slack = intrin.abs(full) * 1e-6  # scales have been rounded to float32
            over = full - f64(extent)
            legal = intrin.all(scale > 0.0, over >= -0.5 - slack, over <= 1.0 + slack)
            statements.append(AssertStmt(legal, SCALE_MESSAGE, BufferStore(outs[0], scale, (k,))))
        return seq_of(statements)

    return te.extern([(count,)], [scales], statement, "resize_scale", ["float64"])[0]


def _coordinates(axis: _Axis, mode: str) -> te.Tensor:
    return te.compute((axis.size,), lambda o: _coordinate(axis, mode, o), f"resize_place{axis.number}")


def _nearest(
    data: te.Tensor, axes: list[_Axis], coordinates: dict[int, te.Tensor], mode: str, rounding: str
) -> te.Tensor:
    """Nearest-neighbour resizing; the index along an axis is precomputed, or is an integer quotient."""
    shape = list(data.shape)
    factors: dict[int, int] = {}
    tables: dict[int, te.Tensor] = {}
    for axis in axes:
        shape[axis.number] = axis.size
        factor = axis.factor if rounding in REPEATED.get(mode, ()) else 0
        if factor:
            factors[axis.number] = factor
        else:
            tables[axis.number] = _indices(axis, coordinates[axis.number], rounding)

    def element(*i: Any) -> PrimExpr:
        at = list(i)
        for axis in axes:
            o = i[axis.number]
            if axis.number in factors:
                at[axis.number] = o // factors[axis.number]
            else:
                at[axis.number] = inside_of(tables[axis.number](o), axis.length)
        return data(*at)

    return te.compute(shape, element, "resize_nearest")


def _indices(axis: _Axis, coordinates: te.Tensor, rounding: str) -> te.Tensor:
    """Index of the nearest element for each result element of an axis."""

    def index(o: Any) -> PrimExpr:
        return cast("int64", _rounded(coordinates(o), rounding))

    return te.compute((axis.size,), index, f"resize_index{axis.number}")


def _finished(
    out: te.Tensor, axes: list[_Axis], coordinates: dict[int, te.Tensor], mode: str, outside: float, dtype: DataType
) -> te.Tensor:
    """Cast the result and apply `extrapolation_value` outside the data if the mode defines one."""
    cropped = mode == "tf_crop_and_resize"
    if not cropped and out.dtype == dtype and axes:
        return out

    def element(*i: Any) -> PrimExpr:
        value = out(*i).astype(dtype)
        if not cropped:
            return value
        beyond: list[PrimExpr] = []
        for axis in axes:
            coordinate = coordinates[axis.number](i[axis.number])
            beyond += [coordinate < 0.0, coordinate > f64(axis.length) - 1.0]
        return Select(intrin.any(*beyond), const(outside, "float64").astype(dtype), value) if beyond else value

    return te.compute(out.shape, element, "resize")


answer_missing(__name__)
