"""Sampling of images at the coordinates of a grid: grid_sample, and affine_grid, which creates grids."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

from .. import te
from ..ir import DataType
from ..prim import PrimExpr, Select, cast, const, intrin
from .image import inside_of, keys_cubic, triangle
from .twofold import let
from .util import accumulator_dtype

ALPHA: Final = -0.75
"""Slope of cubic convolution in ONNX and PyTorch."""

AXES: Final = "DHW"


def spatial_letters(ndim: int) -> str:
    """Letters of the spatial dimensions of an image: W, HW or DHW."""
    return AXES[len(AXES) + 2 - ndim :]


def wider(a: DataType, b: DataType) -> DataType:
    """Computation dtype for elements of two float dtypes."""
    return DataType("float64" if "float64" in (a, b) else "float32")


def reflected(x: PrimExpr, low: PrimExpr, high: PrimExpr) -> PrimExpr:
    """Reflect x into [low, high] by mirrors at both ends."""
    period = (high - low) * 2.0

    def folded(rest: PrimExpr) -> PrimExpr:
        return low + intrin.min(rest, period - rest)

    distance = x - low
    mirrored = let(distance - intrin.floor(distance / period) * period, folded)
    return Select(intrin.all(x >= low, x <= high), x, Select(period > 0.0, mirrored, low))


class _Sampler:
    """Interpolated reads of an image."""

    def __init__(
        self, data: te.Tensor, layout: str, method: str, padding: str, align_corners: bool, wide: DataType
    ) -> None:
        self.data, self.layout, self.wide = data, layout, wide
        self.method, self.padding, self.align = method, padding, align_corners
        self.letters = spatial_letters(data.ndim)
        self.lengths = [data.shape[layout.index(letter)] for letter in self.letters]

    def place(self, k: int, coordinate: PrimExpr) -> PrimExpr:
        """Map a coordinate in [-1, 1] to a pixel coordinate, moved inside the image if the padding requires it."""
        length = cast(self.wide, self.lengths[k])
        x = (coordinate + 1.0) * 0.5 * (length - 1.0)
        low, high = const(0.0, self.wide), length - 1.0
        if not self.align:
            x = ((coordinate + 1.0) * length - 1.0) * 0.5
            low, high = const(-0.5, self.wide), length - 0.5
        if self.method == "nearest":
            x = intrin.nearbyint(x)
        if self.padding == "border" and self.method == "bicubic":
            return x  # each element around it is moved inside
        if self.padding == "border":
            return let(x, lambda v: Select(v < low, const(0.0, self.wide), Select(v > high, length - 1.0, v)))
        return let(x, lambda v: reflected(v, low, high)) if self.padding == "reflection" else x

    def pixel(self, n: PrimExpr, c: PrimExpr, indices: Sequence[PrimExpr]) -> PrimExpr:
        """Read the element at indices, which may be outside the image."""
        at = {"N": n, "C": c}
        inside: list[PrimExpr] = []
        for letter, index, length in zip(self.letters, indices, self.lengths, strict=True):
            if self.padding == "zeros":
                inside += [index >= 0, index < length]
            elif self.padding == "reflection":
                index = self._mirrored(index, length)
            at[letter] = index if self.padding == "zeros" else inside_of(index, length)
        if not inside:
            return self.data(*(at[letter] for letter in self.layout)).astype(self.wide)
        value = self.data(*(at[letter] for letter in self.layout)).astype(self.wide)
        return intrin.if_then_else(intrin.all(*inside), value, const(0, self.wide))

    def _mirrored(self, index: PrimExpr, length: PrimExpr) -> PrimExpr:
        """Reflect an index at the border: between elements, or with aligned corners on the last ones."""
        period = (length - 1) * 2 if self.align else length * 2
        period = intrin.max(period, 1)
        rest = intrin.floormod(index, period)
        back = period - rest if self.align else period - 1 - rest
        return intrin.min(rest, back)

    def nearest(self, n: PrimExpr, c: PrimExpr, coordinates: Sequence[PrimExpr]) -> PrimExpr:
        """Read the element at coordinates that are already rounded."""
        return self.pixel(n, c, [cast("int64", x) for x in coordinates])

    def linear(self, n: PrimExpr, c: PrimExpr, coordinates: Sequence[PrimExpr]) -> PrimExpr:
        """Linear interpolation at coordinates."""

        def weigh(values: Sequence[PrimExpr]) -> PrimExpr:
            terms = [
                self.tap(n, c, values, [const(t, "int64") for t in taps], triangle)
                for taps in product((0, 1), repeat=len(values))
            ]
            return functools.reduce(lambda total, term: total + term, terms)

        return _bind(coordinates, weigh)

    def cubic(self, n: PrimExpr, c: PrimExpr, coordinates: Sequence[PrimExpr], taps: Sequence[Any]) -> PrimExpr:
        """One weighted tap of the 4ⁿ of cubic interpolation; tap 1 is the element before the coordinate."""

        def weigh(values: Sequence[PrimExpr]) -> PrimExpr:
            return self.tap(n, c, values, [tap - 1 for tap in taps], lambda d: keys_cubic(d, ALPHA))

        return _bind(coordinates, weigh)

    def tap(
        self,
        n: PrimExpr,
        c: PrimExpr,
        coordinates: Sequence[PrimExpr],
        taps: Sequence[PrimExpr],
        weight: Callable[[PrimExpr], PrimExpr],
    ) -> PrimExpr:
        """Element `taps` steps from the floor of the coordinates, times its weight."""

        def weighed(values: Sequence[PrimExpr]) -> PrimExpr:
            lows, indices = values[: len(coordinates)], values[len(coordinates) :]
            value = self.pixel(n, c, indices)
            for coordinate, low, tap in zip(coordinates, lows, taps, strict=True):
                value = value * weight(coordinate - low - cast(self.wide, tap))
            return value

        lows = [intrin.floor(x) for x in coordinates]
        # Far from the image, steps from the floor must not wrap around.
        starts = [intrin.max(intrin.min(cast("int64", x), 1 << 62), -(1 << 62)) for x in lows]
        return _bind([*lows, *(start + tap for start, tap in zip(starts, taps, strict=True))], weighed)


def _bind(values: Sequence[PrimExpr], body: Callable[[list[PrimExpr]], PrimExpr]) -> PrimExpr:
    """Bind values to variables and return `body` of these."""
    bound: list[PrimExpr] = []

    def step(rest: Sequence[PrimExpr]) -> PrimExpr:
        if not rest:
            return body(bound)

        def inner(value: PrimExpr) -> PrimExpr:
            bound.append(value)
            return step(rest[1:])

        return let(rest[0], inner)

    return step(values)


def grid_sample(
    data: te.Tensor,
    grid: te.Tensor,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
    grid_layout: str = "channels_first",
) -> te.Tensor:
    """Sample the data at the coordinates of a grid; see `relax.op.image.GridSample`."""
    wide = wider(data.dtype, grid.dtype)
    sampler = _Sampler(data, layout, method, padding_mode, align_corners, wide)
    first = grid_layout == "channels_first"
    rank = len(sampler.letters)
    sizes = dict(zip(sampler.letters, grid.shape[2:] if first else grid.shape[1:-1], strict=True))
    sizes |= {"N": data.shape[layout.index("N")], "C": data.shape[layout.index("C")]}

    outer = [sizes[letter] for letter in sampler.letters]

    def coordinate(n: Any, k: int, where: Sequence[Any]) -> PrimExpr:
        d = rank - 1 - k  # the grid's vectors are (x, y, z), the letters (D, H, W)
        return grid(*([n, d, *where] if first else [n, *where, d])).astype(wide)

    coordinates = [
        te.compute((sizes["N"], *outer), lambda n, *w, k=k: sampler.place(k, coordinate(n, k, w)), f"grid_place{k}")
        for k in range(rank)
    ]

    def operands(i: Sequence[Any]) -> tuple[Any, Any, list[PrimExpr]]:
        at = dict(zip(layout, i, strict=True))
        where = [at["N"], *(at[letter] for letter in sampler.letters)]
        return at["N"], at["C"], [tensor(*where) for tensor in coordinates]

    shape = [sizes[letter] for letter in layout]
    if method != "bicubic":
        sample = sampler.nearest if method == "nearest" else sampler.linear
        return te.compute(shape, lambda *i: sample(*operands(i)).astype(data.dtype), "grid_sample")
    taps = [te.reduce_axis((0, 4), f"t{k}") for k in range(rank)]
    steps = [tap.var for tap in taps]
    total = te.compute(shape, lambda *i: te.sum(sampler.cubic(*operands(i), steps), axis=taps), "grid_sample_sum")
    if wide == data.dtype:
        return total
    return te.compute(shape, lambda *i: total(*i).astype(data.dtype), "grid_sample")


def affine_grid(
    theta: te.Tensor, size: Sequence[PrimExpr], align_corners: bool = True, grid_layout: str = "channels_first"
) -> te.Tensor:
    """theta · (x, y[, z], 1) for evenly spaced coordinates from -1 to 1; see `relax.op.image.AffineGrid`."""
    wide, rank = accumulator_dtype(theta.dtype), len(size)

    def even(k: int, index: PrimExpr) -> PrimExpr:
        length, i = cast(wide, size[k]), cast(wide, index)
        if align_corners:
            return Select(size[k] > 1, i * 2.0 / (length - 1.0) - 1.0, const(-1.0, wide))
        return (i * 2.0 + 1.0) / length - 1.0

    def formula(n: PrimExpr, row: PrimExpr, outer: Sequence[PrimExpr]) -> PrimExpr:
        total = theta(n, row, rank).astype(wide)
        for column in range(rank):
            k = rank - 1 - column
            total = total + theta(n, row, column).astype(wide) * even(k, outer[k])
        return total.astype(theta.dtype)

    rows = const(rank, "int64")
    if grid_layout == "channels_first":
        shape = [theta.shape[0], rows, *size]
        return te.compute(shape, lambda n, row, *outer: formula(n, row, outer), "affine_grid")
    shape = [theta.shape[0], *size, rows]
    return te.compute(shape, lambda n, *rest: formula(n, rest[-1], rest[:-1]), "affine_grid")
