"""int8/uint8 convolutions with several taps over small images and constant weights.

    for n, co, h, w, ci, i, j in T.grid(…):             P[n, w, :] = words of the padded image           (`planes`)
        with T.block("conv"):                           K[n, (w, i, j), :] = P[n, w, p + the offset of tap (i, j)]
            C[n, co, h, w] += W[co, ci, i, j] * …       C[n, co, p] += W2[co, (w, i, j)] * K[n, (w, i, j), p]

`direct_loops` also computes positions of the padded image that are no pixels, a quarter of all for 7 × 7. Here each tap
has a copy of the pixels (im2col), and a pointwise convolution remains, in the loops of `pointwise`, whose tiles small
images
fill. A packed group is copied once per tap and multiplied for each output channel.

Left to `dot_convolution`: targets without byte dot products, bytes whose sign bits would be flipped, non-constant
weights, groups, few channels (for which copies take long), images whose rows waste little, and more than two pixel
axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ....prim import IntImm, PrimExpr, Var, simplify
from ....prim.intrin import ceildiv
from ....runtime.records import dataclass
from ....target import Target
from ....tir import AllocBuffer, Buffer, For, ForKind, PrimFunc, Stmt
from ....tir.buffer import decl_buffer
from ...build import block, int64, let, loop, product_of, scratch, size_of, vector_load, vector_store
from ...rule import PackedFunction, Refusal, ScheduleRule
from ..large_sums import number_sum
from ..tile.division import Tile, tile_for
from ..tile.words import Words, declared
from .dot_convolution import WORD, WordPlanes
from .dots import byte_words_of
from .packed_weights import Declare, packed_kernels
from .planes import Planes, Sizes, filled, window
from .pointwise.operands import Pixels, WeightBlocks
from .pointwise.pointwise import merged_pixels, writer_for
from .windows import Kernel

WEIGHTS: Final = 1 << 16
"""Weights per tap from which images of dynamic size are assumed small: deep layers have many channels."""
CHANNELS: Final = 128
"""Fewest output channels that amortise a copy of the data per tap."""
WASTE: Final = 1.05
"""Ratio of padded positions to pixels from which copies are faster than computing at the padded positions."""

Array: TypeAlias = "np.ndarray[Any, Any]"


class WordColumns(ScheduleRule):
    """Schedule rule for convolutions of bytes with several taps over small images."""

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        """Return the function for weights packed as its tiles read them."""

        def write(kernel: Kernel, found: tuple[Columns, Pixels], declare: Declare) -> Stmt:
            del kernel
            columns, pixels = found
            writer = writer_for(pixels, target, columns.words)
            packing = ColumnBlocks(writer.packing(), columns.words)
            return columns.around(writer.loops(declare(packing, packing.blocks.shape, "int32", "words")))

        return packed_kernels(func, constants, lambda kernel: _columns(kernel, target), write, number_sum)


def _columns(kernel: Kernel, target: Target) -> tuple[Columns, Pixels] | Refusal:
    """Return the copies of a convolution that the rule supports, and the pointwise convolution over them."""
    windows, words = kernel.windows, byte_words_of(kernel.windows, target)
    channels = windows.channels_of_group(2)
    if not channels:
        return channels
    if not words:
        return words
    if windows.taps == 1:
        return Refusal("the windows are 1×1")
    if channels[1] < CHANNELS:
        return Refusal(f"only {channels[1]} output channels, fewer than {CHANNELS}")
    columns = Columns(kernel, words, tile_for(target, WORD), target.machine.caches.l2)
    refusal, pixels = columns.refusal(*channels), columns.as_pixels(channels[1])
    if refusal is not None:
        return refusal
    return (columns, pixels) if pixels else pixels


@dataclass(frozen=True)
class ColumnBlocks:
    """Packing of weights (outputs, inputs, taps …) into groups of consecutive inputs per tap, in blocks that tiles
    read.
    """

    blocks: WeightBlocks
    words: Words

    def __call__(self, array: Array) -> Array:
        matrix = np.reshape(array, (*array.shape[:2], -1))
        return self.blocks(np.reshape(self.words.packed(matrix), (len(array), -1)))


class Columns:
    """Copy of the pixels for each packed channel group and tap of one convolution (im2col)."""

    def __init__(self, kernel: Kernel, words: Words, tile: Tile, cache: int) -> None:
        self.kernel, self.words, self.lanes, self.cache = kernel, words, tile.lanes, cache
        self.windows, self.sizes = kernel.windows, Sizes()
        self.planes: Planes = WordPlanes(self.windows, tile, self.sizes, words)
        self.taps = 1
        for axis in self.windows.axes:
            self.taps *= axis.taps
        rows = simplify(words.count(self.windows.inputs) * self.taps)
        shape = (rows, simplify(self._count() + self.lanes))
        self.buffer = decl_buffer(shape, "int32", "columns")
        """Copies of one image; each has slack for whole vectors."""
        self.image = tuple(Var("image", "int64") for _ in self.windows.batch)

    def refusal(self, inputs: int, outputs: int) -> Refusal | None:
        """Refuse few channels, and images with little padding per row, for which copies take longer."""
        count, places = simplify(self._count()), self.planes.pixels
        if not isinstance(count, IntImm) or not isinstance(places, IntImm):
            few = inputs * outputs < WEIGHTS
            return Refusal(f"images are dynamic, with fewer than {WEIGHTS:,} weights per tap") if few else None
        rows, row = self.buffer.shape
        assert isinstance(rows, IntImm)
        assert isinstance(row, IntImm)
        if rows.value * row.value * WORD // 8 > self.cache:
            return Refusal("the copies of an image for all taps do not fit the L2 cache")
        if not places.value >= WASTE * count.value > 0:
            return Refusal(f"the padded rows have {places.value} positions for {count.value} pixels: few are unused")
        return None

    def _count(self) -> PrimExpr:
        return product_of(axis.size for axis in self.windows.axes)

    def as_pixels(self, outputs: int) -> Pixels | Refusal:
        """Return the pointwise convolution over the copies."""
        windows, merged = self.windows, merged_pixels(self.kernel)
        if not merged:
            return merged
        rows = self.buffer.shape[-2]
        assert isinstance(rows, IntImm)
        source = decl_buffer(self.buffer.shape, "int32", "columns_pixels", data=self.buffer.data)
        image = tuple(zip((v.var for v in windows.batch), self.image, strict=True))
        return Pixels(
            (), windows.channel.var, merged.pixel, merged.count, outputs, rows.value, merged.store,
            merged.total, source, windows.weight.buffer, (), merged.views, merged.names, merged.tables, True, image,
        )  # fmt: skip

    def around(self, body: Stmt) -> Stmt:
        """Return a loop over images, each with its copies; only one image's copies exist at a time."""
        windows, planes = self.windows, self.planes
        leading = [size_of(v) for v in windows.batch]
        words = self.words.count(windows.inputs)
        assert isinstance(planes, WordPlanes)

        def images(plane: Buffer, axis: int) -> Stmt:
            if axis == len(leading):
                return block([self._copies(plane, words), body])
            return For(self.image[axis], int64(0), leading[axis], ForKind.SERIAL, images(plane, axis + 1))

        def filled_planes(plane: Buffer) -> Stmt:
            made = filled(windows, planes, plane, [*leading, words])
            return block([made, AllocBuffer(self.buffer, images(plane, 0))])

        copies = scratch("planes", (*leading, words, planes.size), "int32", filled_planes)
        return self.sizes.around(declared([(planes.bits, windows.data)], copies))

    def _copies(self, plane: Buffer, words: PrimExpr) -> Stmt:
        """Return the parallel loop over packed groups that copies the pixels of each tap."""
        return loop("w", words, lambda w: self._taps(plane, [*self.image, w], []), ForKind.PARALLEL)

    def _taps(self, plane: Buffer, at: list[PrimExpr], taps: list[PrimExpr]) -> Stmt:
        axes = self.windows.axes
        if len(taps) < len(axes):
            return loop(f"k{len(taps)}", axes[len(taps)].taps, lambda k: self._taps(plane, at, [*taps, k]))
        number: PrimExpr = at[-1]
        for axis, tap in zip(axes, taps, strict=True):
            number = number * axis.taps + tap
        place = [simplify(number)]
        lines = axes[0].size if len(axes) == 2 else int64(1)
        return let("tap", simplify(self.planes.tap(taps)), lambda first: loop(
            "y", lines, lambda y: self._line(plane, [*at, first + y * self.planes.line], place, y)))  # fmt: skip

    def _line(self, plane: Buffer, begin: Sequence[PrimExpr], place: Sequence[PrimExpr], y: Var) -> Stmt:
        """Copy the pixels of a row; its last vector reaches into the next row, which is copied later."""
        size, lanes = self.windows.axes[-1].size, self.lanes
        vectors = simplify(ceildiv(size, lanes))

        def vector(v: Var) -> Stmt:
            def stored(part: Buffer, at: Sequence[PrimExpr]) -> Stmt:
                return window(plane, (*begin[:-1], simplify(begin[-1] + v * lanes)), lanes, lambda line, start: (
                    vector_store(part, at, vector_load(line, start, lanes))))  # fmt: skip

            return window(self.buffer, (*place, simplify(y * size + v * lanes)), lanes, stored)

        return loop("v", vectors, vector)
