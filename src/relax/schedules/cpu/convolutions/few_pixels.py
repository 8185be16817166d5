"""Convolutions of few pixels by weights that are not constant: inner products of patches with the weights in memory.

    for n, co, h, w, ci, i, j in T.grid(…):     for p in T.parallel(pixels):        the windows of a pixel, in a row
        with T.block("conv"):                       patches[p, (ci * 3 + i) * 3 + j] = X[n, ci, y + i, x + j]
            with T.init(): C[n, co, h, w] = 0   for g in T.parallel(ceildiv(outputs, 16)):
            C[n, co, h, w] += …                     C[p, 16 g : 16 g + 16] = patches[p, :] · W[16 g : 16 g + 16, :]

Other rules copy or transform all weights first, which takes longer than few pixels by them. The loops of the products
are those of `products.inner_products`. Kernels for an open number of pixels decide by it.

Not supported: groups, several dtypes, and a depth (input channels times taps) of few vectors.
"""

from __future__ import annotations

from typing import Final

from ....prim import LE, IntImm, PrimExpr, const, is_const, simplify
from ....prim.intrin import all as all_of
from ....prim.intrin import if_then_else
from ....prim.intrin import min as minimum
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, IfThenElse, Stmt
from ....tir.buffer import decl_buffer
from ...build import block, int64, loop, named, product_of, scratch, size_of, tasks
from ..products.inner_products import LEAST_DEPTH, InnerTiles, columns_of_group
from ..tile.division import has_masks, tile_for
from .planes import Sizes, digits, items
from .results import Results
from .windows import Kernel

MOST_PIXELS: Final = 128
"""The pixels up to which reading the weights in place takes less time than copying them into panels."""
MOST_TILES: Final = 64
"""The same beside weights that are transformed for fewer products."""


def unless_few(kernel: Kernel, target: Target, most: int, loops: Stmt) -> Stmt:
    """Return the loops of a convolution, behind a branch to those for up to `most` pixels if it may have so few."""
    if not _is_supported(kernel, target):
        return loops
    few = FewPixels(kernel, target)
    is_few = simplify(LE(few.count, int64(most)))
    if is_const(is_few, 0):
        return loops
    return few.kernel() if is_const(is_few, 1) else IfThenElse(is_few, few.kernel(), loops)


def _is_supported(kernel: Kernel, target: Target) -> bool:
    windows = kernel.windows
    dtypes = {str(buffer.dtype) for buffer in (windows.data, windows.weight.buffer, windows.out.buffer)}
    if windows.is_grouped or len(dtypes) != 1 or windows.out.buffer.dtype.bits < 32 or windows.taps == 1:
        return False
    lanes, inputs = tile_for(target, windows.out.buffer.dtype.bits).lanes, windows.inputs
    if lanes == 1 or not isinstance(inputs, IntImm) or not isinstance(windows.channels, IntImm):
        return False
    depth = inputs.value * windows.taps
    return depth >= lanes * LEAST_DEPTH and (has_masks(target) or depth % lanes == 0)


class FewPixels:
    """Writes the loops of one convolution."""

    def __init__(self, kernel: Kernel, target: Target) -> None:
        self.windows = windows = kernel.windows
        self.results = Results(kernel)
        self.dtype = str(windows.out.buffer.dtype)
        self.lanes = tile_for(target, windows.out.buffer.dtype.bits).lanes
        self.held = columns_of_group(target, self.lanes)
        inputs, outputs = windows.inputs, windows.channels
        assert isinstance(inputs, IntImm)
        assert isinstance(outputs, IntImm)
        self.inputs, self.outputs, self.depth = inputs.value, outputs.value, inputs.value * windows.taps
        self.radix = [(f"n{d}", size_of(v)) for d, v in enumerate(windows.batch)]
        self.radix += [(f"p{d}", axis.size) for d, axis in enumerate(windows.axes)]
        self.count = simplify(product_of(size for _, size in self.radix))
        """Pixels of all images."""

    def kernel(self) -> Stmt:
        """Return the copy of the windows and the parallel loop over groups of output channels."""
        sizes = Sizes()
        pixels = sizes.named("pixels", self.count)
        groups = int64(-(-self.outputs // self.held))
        return sizes.around(scratch("patches", (pixels, self.depth), self.dtype, lambda patches: block([
            items("pixel", self.radix, lambda at: self._patch(patches, at)),
            tasks("task", ["jo"], [groups], lambda at: self._group(patches, pixels, at[0]))])))  # fmt: skip

    def _patch(self, patches: Buffer, place: list[PrimExpr]) -> Stmt:
        """Copy the window of a pixel, zeros outside the data."""
        windows = self.windows
        batch, pixel = place[: len(windows.batch)], place[len(windows.batch) :]
        row: PrimExpr = int64(0)
        for (_, size), at in zip(self.radix, place, strict=True):
            row = row * size + at

        def element(ci: PrimExpr, taps: list[int], number: int) -> Stmt:
            at = [simplify(p * axis.stride + tap * axis.dilation - axis.before)
                  for p, tap, axis in zip(pixel, taps, windows.axes, strict=True)]  # fmt: skip
            inside = all_of(*(term for q, axis in zip(at, windows.axes, strict=True)
                              for term in (q >= 0, q < axis.extent)))  # fmt: skip
            channel = () if windows.depth is None else (ci,)
            load = BufferLoad(windows.data, (*batch, *channel, *at))
            value = if_then_else(inside, load, const(0, self.dtype))
            return BufferStore(patches, value, (row, ci * windows.taps + number))

        return loop("ci", self.inputs, lambda ci: block(
            element(ci, taps, number) for number, taps in enumerate(self._taps())))  # fmt: skip

    def _taps(self) -> list[list[int]]:
        """The places in a window, in the order of the weights."""
        taps: list[list[int]] = [[]]
        for axis in self.windows.axes:
            taps = [[*before, tap] for before in taps for tap in range(axis.taps)]
        return taps

    def _group(self, patches: Buffer, pixels: PrimExpr, group: PrimExpr) -> Stmt:
        """Compute all pixels of a group of output channels."""
        weights = self.windows.weight.buffer
        is_even = self.outputs % self.held == 0
        width = int64(self.held) if is_even else minimum(int64(self.held), self.outputs - group * self.held)

        def channels(first: PrimExpr, width: PrimExpr) -> Stmt:
            right = decl_buffer((width, self.depth), self.dtype, f"{weights.name}_rows", data=weights.data,
                                elem_offset=simplify(first * self.depth))  # fmt: skip
            tiles = _Tiles(self, patches, right, first, None if is_even else width)
            return DeclBuffer(right, tiles.of_rows(pixels))

        return named("first", simplify(group * self.held), lambda first: named(
            "width", simplify(width), lambda width: channels(first, width)))  # fmt: skip


class _Tiles(InnerTiles):
    """Tiles of a group of output channels."""

    def __init__(
        self, product: FewPixels, left: Buffer, right: Buffer, first: PrimExpr, width: PrimExpr | None
    ) -> None:
        self.product, self.first, self.place = product, first, list[PrimExpr]()
        super().__init__(product.lanes, product.held, left, right, self._stored, width)

    def results(self, sums: Buffer, row: PrimExpr) -> Stmt:
        """Store the results of a pixel."""

        def at(place: list[PrimExpr]) -> Stmt:
            self.place = place
            return super(_Tiles, self).results(sums, row)

        return digits(row, self.product.radix, at)

    def _stored(self, row: PrimExpr, c: PrimExpr, value: PrimExpr) -> Stmt:
        del row
        batch = len(self.product.windows.batch)
        place = (*self.place[:batch], self.first + c, *self.place[batch:])
        return self.product.results.put(place, value)
