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
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from ....prim import IntImm, PrimExpr, Var, simplify
from ....prim.intrin import ceildiv
from ....target import Target
from ....tir import AllocBuffer, Buffer, For, ForKind, PrimFunc, Stmt
from ....tir.buffer import decl_buffer
from ...build import block, int64, let, loop, product_of, scratch, vector_load, vector_store
from ...contraction import size_of
from ...rule import PackedFunction, ScheduleRule
from ..products.operands import is_large_sum
from ..tile.division import Tile, tile_for
from ..tile.words import Words, declared, words_for
from .dot_convolution import WORD, WordPlanes
from .packed_weights import Declare, packed_kernels
from .planes import Planes, Sizes, filled, window
from .pointwise.operands import Pixels, WeightBlocks
from .pointwise.pointwise import merged_pixels, writer_for
from .windows import Kernel, Windows

WEIGHTS: Final = 1 << 16
"""Weights per tap from which images of dynamic size are assumed small: deep layers have many channels."""
CHANNELS: Final = 128
"""Fewest output channels that amortise a copy of the data per tap."""
WASTE: Final = 1.05
"""Ratio of padded positions to pixels from which copies are faster than computing at the padded positions."""

Array: TypeAlias = "np.ndarray[Any, Any]"


class WordColumns(ScheduleRule):
    """Schedule rule for convolutions of bytes with several taps over small images."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del func, target, tunable
        return None

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | None:
        """Return the function for weights packed as its tiles read them."""

        def write(kernel: Kernel, declare: Declare) -> Stmt | None:
            words = _words_of(kernel.windows, target)
            if words is None:
                return None
            columns = Columns(kernel, words, tile_for(target, WORD), target.machine.caches.l2)
            pixels = columns.as_pixels() if columns.are_worth_it() else None
            if pixels is None:
                return None
            writer = writer_for(pixels, target, words)
            packing = ColumnBlocks(writer.packing(), words)
            return columns.around(writer.loops(declare(packing, packing.blocks.shape, "int32", "words")))

        return packed_kernels(func, constants, write, is_large_sum)


def _words_of(windows: Windows, target: Target) -> Words | None:
    """Return the packed groups for a convolution, or None if the rule does not support it."""
    if windows.groups != 1 or windows.depth is None or len(windows.axes) > 2 or target.machine.vector_bits < 128:
        return None
    if all(axis.taps == 1 for axis in windows.axes):
        return None
    words = words_for(target, windows.data.dtype, windows.weight.buffer.dtype, windows.out.buffer.dtype)
    return words if words is not None and words.of_bytes and not words.correction else None


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

    def are_worth_it(self) -> bool:
        """True for many channels and images with much padding per row."""
        inputs, channels = self.windows.inputs, self.windows.channels
        if not isinstance(inputs, IntImm) or not isinstance(channels, IntImm) or channels.value < CHANNELS:
            return False
        count, places = simplify(self._count()), self.planes.pixels
        if not isinstance(count, IntImm) or not isinstance(places, IntImm):
            return inputs.value * channels.value >= WEIGHTS
        rows, row = self.buffer.shape
        assert isinstance(rows, IntImm)
        assert isinstance(row, IntImm)
        is_small = rows.value * row.value * WORD // 8 <= self.cache
        return is_small and places.value >= WASTE * count.value > 0

    def _count(self) -> PrimExpr:
        return product_of(axis.size for axis in self.windows.axes)

    def as_pixels(self) -> Pixels | None:
        """Return the pointwise convolution over the copies, or None if its results are read in another order."""
        windows, merged = self.windows, merged_pixels(self.kernel)
        rows, channels = self.buffer.shape[-2], windows.channels
        if merged is None or not isinstance(rows, IntImm) or not isinstance(channels, IntImm):
            return None
        source = decl_buffer(self.buffer.shape, "int32", "columns_pixels", data=self.buffer.data)
        image = tuple(zip((v.var for v in windows.batch), self.image, strict=True))
        return Pixels(
            (), windows.channel.var, merged.pixel, merged.count, channels.value, rows.value, merged.store,
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
