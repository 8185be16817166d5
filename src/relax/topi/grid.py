"""Sampling of images at the places of a grid: grid_sample, and affine_grid, which makes grids."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

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
"""The slope of cubic convolution, as ONNX and PyTorch have it."""

AXES: Final = "DHW"


def spatial_letters(ndim: int) -> str:
    """The letters of the dimensions of an image beside batch and channels: W, HW or DHW."""
    return AXES[len(AXES) + 2 - ndim :]


def wider(a: DataType, b: DataType) -> DataType:
    """The dtype in which elements of two float dtypes are computed with."""
    return DataType("float64" if "float64" in (a, b) else "float32")


def reflected(x: PrimExpr, low: PrimExpr, high: PrimExpr) -> PrimExpr:
    """x, or where that is outside of [low, high], its image in mirrors at both ends."""
    period = (high - low) * 2.0

    def folded(rest: PrimExpr) -> PrimExpr:
        return low + intrin.min(rest, period - rest)

    distance = x - low
    mirrored = let(distance - intrin.floor(distance / period) * period, folded)
    return Select(intrin.all(x >= low, x <= high), x, Select(period > 0.0, mirrored, low))


class _Sampler:
    """The reading of an image at places between its elements."""

    def __init__(
        self, data: te.Tensor, layout: str, method: str, padding: str, align_corners: bool, wide: DataType
    ) -> None:
        self.data, self.layout, self.wide = data, layout, wide
        self.method, self.padding, self.align = method, padding, align_corners
        self.letters = spatial_letters(data.ndim)
        self.lengths = [data.shape[layout.index(letter)] for letter in self.letters]

    def place(self, k: int, coordinate: PrimExpr) -> PrimExpr:
        """The place that a coordinate in [-1, 1] means, moved inside where the padding says so."""
        length = cast(self.wide, self.lengths[k])
        x = (coordinate + 1.0) * 0.5 * (length - 1.0)
        low, high = const(0.0, self.wide), length - 1.0
        if not self.align:
            x = ((coordinate + 1.0) * length - 1.0) * 0.5
            low, high = const(-0.5, self.wide), length - 0.5
        if self.method == "nearest":
            x = intrin.nearbyint(x)
        if self.padding == "border":
            return let(
                x,
                lambda v: Select(v < low, const(0.0, self.wide), Select(v > high, length - 1.0, v)),
            )
        return let(x, lambda v: reflected(v, low, high)) if self.padding == "reflection" else x

    def pixel(self, n: PrimExpr, c: PrimExpr, indices: Sequence[PrimExpr]) -> PrimExpr:
        """The element at indices, which may be outside."""
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
        """An index reflected at the border, between elements or (aligned corners) on the last ones."""
        period = (length - 1) * 2 if self.align else length * 2
        period = intrin.max(period, 1)
        rest = intrin.floormod(index, period)
        back = period - rest if self.align else period - 1 - rest
        return intrin.min(rest, back)

    def sample(self, n: PrimExpr, c: PrimExpr, coordinates: Sequence[PrimExpr]) -> PrimExpr:
        """The value at coordinates, in the order of the letters."""
        return _bind(
            [self.place(k, x) for k, x in enumerate(coordinates)], lambda places: self._at(n, c, places)
        )

    def _at(self, n: PrimExpr, c: PrimExpr, places: Sequence[PrimExpr]) -> PrimExpr:
        if self.method == "nearest":
            return self.pixel(n, c, [cast("int64", x) for x in places])
        reach = 1 if self.method == "bilinear" else 2
        floors = [intrin.floor(x) for x in places]
        # Far from the image, the steps from the floor must not wrap around.
        bases = [intrin.max(intrin.min(cast("int64", x), 1 << 62), -(1 << 62)) for x in floors]
        fractions = [x - low for x, low in zip(places, floors, strict=True)]

        def weigh(parts: Sequence[PrimExpr]) -> PrimExpr:
            starts, rest = parts[: len(bases)], parts[len(bases) :]
            total: PrimExpr | None = None
            for taps in product(range(1 - reach, reach + 1), repeat=len(places)):
                value = self.pixel(n, c, [b + t for b, t in zip(starts, taps, strict=True)])
                for fraction, tap in zip(rest, taps, strict=True):
                    distance = fraction - float(tap)
                    value = value * (triangle(distance) if reach == 1 else keys_cubic(distance, ALPHA))
                total = value if total is None else total + value
            assert total is not None
            return total

        return _bind([*bases, *fractions], weigh)


def _bind(values: Sequence[PrimExpr], body: Callable[[list[PrimExpr]], PrimExpr]) -> PrimExpr:
    """`body` of values that are computed once."""
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
    """The data at the places of a grid; see `relax.op.image.GridSample`."""
    wide = wider(data.dtype, grid.dtype)
    sampler = _Sampler(data, layout, method, padding_mode, align_corners, wide)
    first = grid_layout == "channels_first"
    rank = len(sampler.letters)
    sizes = dict(zip(sampler.letters, grid.shape[2:] if first else grid.shape[1:-1], strict=True))
    sizes |= {"N": data.shape[layout.index("N")], "C": data.shape[layout.index("C")]}

    def element(*i: Any) -> PrimExpr:
        at = dict(zip(layout, i, strict=True))
        outer = [at[letter] for letter in sampler.letters]

        def coordinate(k: int) -> PrimExpr:  # the grid's vectors are (x, y, z), the letters (D, H, W)
            d = rank - 1 - k
            return grid(*([at["N"], d, *outer] if first else [at["N"], *outer, d])).astype(wide)

        return sampler.sample(at["N"], at["C"], [coordinate(k) for k in range(rank)]).astype(data.dtype)

    return te.compute([sizes[letter] for letter in layout], element, "grid_sample")


def affine_grid(
    theta: te.Tensor,
    size: Sequence[PrimExpr],
    align_corners: bool = True,
    grid_layout: str = "channels_first",
) -> te.Tensor:
    """theta · (x, y[, z], 1) for evenly spaced places from -1 to 1; see `relax.op.image.AffineGrid`."""
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


__all__ = ["affine_grid", "grid_sample", "spatial_letters", "wider"]
