"""Convolutions with constant weights, in register tiles of pixels by output channels.

    for n, co, h, w, ci, i, j in T.grid(…):     P = the images in blocks of channels (see `channel_blocks`)
        with T.block("conv"):                   for item in T.parallel(items):                  some rows of all images
            with T.init(): C[n, co, h, w] = 0       for panel in panels of 32 channels:
            C[n, co, h, w] += …                         for cb in blocks of 16 input channels:
                                                            for line, x in the lines, in steps of 12 pixels (or 8):
                                                                for i, j, c in T.grid(3, 3, 16):    S in registers
                                                                    S[line, x, :] += P[…] * U[panel, cb, i, j, c, :]
                                                        C[n, co, h, w :] = S, transposed

Images of few channels not handled by `few_channels`, such as those with long strides, are copied with one channel per
block. Their accumulators stay in registers for all channels.

A pixel's neighbours are at constant offsets whatever the image size, stride and dilation, so the same code serves
images of static and dynamic size. Rows are padded to multiples of a third of a register tile and covered by tiles of 12
and 8 pixels; one-dimensional or static rows may be a single third. Half-width vectors are used if three of them cover
all output channels, as for 24. If there are fewer work items than cores, several items share their rows and divide the
panels.

With one pixel dimension, an image is one row; with two, the second of one pixel, rows run along the first.

Not supported: non-constant weights, 1×1 windows, groups, three pixel dimensions, dynamic channel counts, few products
per pixel in images of static size (`direct_loops` stores less there), fewer output channels than lanes, and float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ....prim import IntImm, PrimExpr, Var, const, simplify
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, BufferLoad, ForKind, IfThenElse, PrimFunc, Stmt
from ...build import block, int64, let, loop, named, scratch, size_of, spread, vector_load, vector_store
from ...rule import PackedFunction, Refusal, ScheduleRule
from ..tile import RegisterTile, prefetched, register_tile, row_at, tall_and_short
from ..tile.division import Tile, tile_for
from ..tile.shares import parts_of_tasks
from .channel_blocks import ChannelBlocks, part_of, stored_line
from .packed_weights import Declare, packed_kernels
from .planes import Sizes, digits, window
from .results import Results
from .windows import Kernel, Windows

DTYPE: Final = "float32"
FEW_PRODUCTS: Final = 48
"""Products per pixel and channel below which transposing the results takes too long."""
SINGLE: Final = 1.1
"""Relative time of one-vector tiles, whose loads are amortised over fewer products."""
HALVES: Final = 3
"""Half vectors of a register tile that hold fewer padding channels than two whole vectors."""
PIXELS: Final = 128
"""Pixels of a work item, unless its rows are longer; enough to amortise reading a panel of weights."""


@dataclass(frozen=True)
class TapPacking:
    """Weights packed as the loops read them: U[panel, cb, tap, c * width + p] is W[co, ci, tap].

    Output channel ``co = panel * width + p``, input channel ``ci = cb * lanes + c``.
    """

    outputs: int
    inputs: int
    taps: int
    width: int
    """Output channels of a panel; the last panel is padded with zeros."""
    lanes: int
    """Input channels of a block; the last block is padded too, unless it is the only one."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(Panels, blocks of input channels, taps, weights per tap)."""
        block = min(self.inputs, self.lanes)
        return -(-self.outputs // self.width), -(-self.inputs // block), self.taps, block * self.width

    def __call__(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        panels, blocks, taps, _ = self.shape
        depth = blocks * min(self.inputs, self.lanes)
        padded = np.zeros((panels * self.width, depth, taps), array.dtype)
        padded[: self.outputs, : self.inputs] = np.reshape(array, (self.outputs, self.inputs, taps))
        split = np.reshape(padded, (panels, self.width, blocks, -1, taps))
        return np.reshape(np.transpose(split, (0, 2, 4, 3, 1)), self.shape)


class Blocked(ScheduleRule):
    """Schedule rule for convolutions with constant weights."""

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        """Return the function for weights packed in panels of output channels."""

        def write(kernel: Kernel, channels: tuple[int, int], declare: Declare) -> Stmt:
            del channels
            writer = BlockedWriter(kernel, target)
            return writer.kernel(declare(writer.packing, writer.packing.shape, DTYPE))

        lanes = tile_for(target, 32).lanes
        return packed_kernels(func, constants, lambda kernel: _channels(kernel.windows, lanes), write)


def _channels(windows: Windows, lanes: int) -> tuple[int, int] | Refusal:
    """Return the channels of a convolution that the rule supports and that pays for it."""
    channels = windows.channels_of_group(2, may_lack_inputs=True)
    if not channels:
        return channels
    inputs, outputs = channels
    static = all(isinstance(axis.size, IntImm) for axis in windows.axes)
    least, taps = FEW_PRODUCTS if static else 1, windows.taps
    if windows.out.buffer.dtype != DTYPE:
        return Refusal(f"the sum is of {windows.out.buffer.dtype}, not of {DTYPE}")
    if taps == 1:
        return Refusal("the windows are 1×1")
    if inputs * taps < least:
        return Refusal(f"only {inputs * taps} products per pixel and channel, fewer than {least}")
    if lanes < 4 or outputs < lanes:
        return Refusal(f"the {outputs} output channels do not fill a vector of at least 4 elements")
    return channels


class BlockedWriter:
    """Writes the loops of one convolution."""

    factor = DTYPE
    """Dtype of the factors."""

    def __init__(self, kernel: Kernel, target: Target) -> None:
        self.windows, self.results = kernel.windows, Results(kernel)
        inputs, outputs = self.windows.inputs, self.windows.channels
        assert isinstance(inputs, IntImm)
        assert isinstance(outputs, IntImm)
        self.inputs, self.outputs = self._depth_of(inputs.value), outputs.value
        tile = self._fitting(tile_for(target, 32))
        self.lanes = tile.lanes
        blocks = -(-self.outputs // self.lanes)
        options = self._widths(tile)
        self.vectors = min(options, key=lambda v: -(-blocks // v) * v * (SINGLE if v == 1 else 1))
        self.unit = max(tile.rows * tile.vectors // self.vectors // 3, 1)
        """One third of the pixels of a register tile."""
        self._set_sizes(target.machine.cores)

    def _filled(self, size: PrimExpr) -> PrimExpr:
        """Round the pixels of a row up to whole thirds of register tiles."""
        self.least = 1 if len(self.windows.axes) == 1 or isinstance(size, IntImm) else 2
        self.units = self.sizes.named("units", maximum(ceildiv(size, self.unit), int64(self.least)))
        """Thirds of register tiles per row; at least two for dynamic rows of images."""
        return self.units * self.unit

    def _fitting(self, tile: Tile) -> Tile:
        """Register tile. Uses three half-width vectors when they cover all output channels and two full vectors would
        be padded.

        CPUs execute two half-width instructions in the time of one full-width instruction.
        """
        half = tile.lanes // 2
        is_three = tile.vectors >= HALVES and tile.lanes < self.outputs <= HALVES * half
        return replace(tile, lanes=half) if is_three else tile

    def _widths(self, tile: Tile) -> Sequence[int]:
        """Numbers of vectors that a register tile may have, best first."""
        return (2, 3, 4, 1) if tile.vectors > 2 else (2, 1)

    def _depth_of(self, inputs: int) -> int:
        """Number of factors per sum and tap: input channels, or packed groups of them."""
        return inputs

    def _blocks(self, height: PrimExpr, width: PrimExpr) -> ChannelBlocks:
        """Padded copy of the data."""
        return ChannelBlocks(self.windows, self.inputs, self.lanes, height, width, self.sizes)

    def _set_sizes(self, cores: int) -> None:
        """Set the sizes of work items and of the padded copy."""
        self.sizes = Sizes()
        named, one = self.sizes.named, const(1, "int64")
        rows, columns = self.windows.lines
        self.leading = [size_of(v) for v in self.windows.batch]
        lines = rows.size
        for size in self.leading:
            lines = lines * size
        self.lines = named("lines", lines)
        self.wide = named("wide", self._filled(columns.size))
        self.share = named("share", maximum(floordiv(int64(PIXELS), self.wide), one))
        """Rows of a work item."""
        if isinstance(self.lines, IntImm) and isinstance(self.share, IntImm):
            items = max(-(-self.lines.value // self.share.value), 1)
            self.share = int64(max(-(-self.lines.value // items), 1))
        high, wide = (
            named(name, simplify((maximum(size, one) - 1) * axis.stride + ((axis.taps - 1) * axis.dilation + 1)))
            for name, size, axis in (("height", rows.size, rows), ("width", self.wide, columns)))  # fmt: skip
        self.blocks = self._blocks(high, wide)
        self.depth, taps = self.blocks.blocks, rows.taps * columns.taps
        self.packing = TapPacking(self.outputs, self.inputs, taps, self.vectors * self.lanes, self.blocks.block)
        self.items = named("items", ceildiv(self.lines, self.share))
        few = minimum(int64(self.packing.shape[0]), parts_of_tasks(self.items, cores))
        self.splits = named("splits", maximum(few, one))
        """Work items that share their rows and differ in their panels."""
        self.staged = named("staged", (self.share * self.wide + self.lanes) * self.lanes)
        """Accumulators of a vector of channels for the rows of an item, with slack for the last register transpose."""

    def kernel(self, weights: Buffer) -> Stmt:
        """Copy the data and compute all work items."""
        shape = (*self.leading, self.depth, self.blocks.size)
        return self.sizes.around(scratch("blocks", shape, self.factor, lambda image: block([
            self.blocks.fill(self.leading, image), self._items(weights, image)])))  # fmt: skip

    def _items(self, weights: Buffer, image: Buffer) -> Stmt:
        panels = self.packing.shape[0]

        def item(at: list[PrimExpr]) -> Stmt:
            share, split = at
            start, end = (floordiv(part * panels, self.splits) for part in (split, split + 1))

            def some(first: PrimExpr, count: PrimExpr, staged: Buffer) -> Stmt:
                return loop("part", simplify(end - start), lambda part: let(
                    "panel", minimum(start + part, int64(panels - 1)), lambda panel: self._panel(
                        weights, image, staged, panel, (first, count))))  # fmt: skip

            return scratch("sums", (self.vectors, self.staged), DTYPE, lambda staged: named(
                "first", simplify(share * self.share), lambda first: named(
                    "count", simplify(minimum(self.share, self.lines - first)),
                    lambda count: some(first, count, staged))))  # fmt: skip

        radix = [("share", self.items), ("split", self.splits)]
        return loop("item", simplify(self.items * self.splits), lambda flat: digits(
            flat, radix, item), ForKind.PARALLEL)  # fmt: skip

    def _line(self, number: PrimExpr, body: Callable[[list[PrimExpr], PrimExpr], Stmt]) -> Stmt:
        """Call `body` with the batch indices and the row index of row `number`."""
        height = self.windows.lines[0].size
        radix = [*((f"n{d}", size) for d, size in enumerate(self.leading)), ("y", height)]
        return digits(number, radix, lambda at: body(at[:-1], at[-1]))

    def _panel(
        self, weights: Buffer, image: Buffer, staged: Buffer, panel: Var, lines: tuple[PrimExpr, PrimExpr]
    ) -> Stmt:
        """Accumulate a panel of channels for some rows, then store the results."""
        first, count = lines
        width = self.windows.lines[1].size

        def stored(line: Var, v: Var) -> Stmt:
            channel = simplify((panel * self.vectors + v) * self.lanes)
            at = simplify(v * self.staged + line * (self.wide * self.lanes))
            return self._line(first + line, lambda batch, y: stored_line(
                self.results, self.lanes, self.outputs, staged, at, channel, [*batch, y],
                (int64(0), width)))  # fmt: skip

        left = -(-self.outputs // self.lanes)
        vectors = int64(self.vectors)
        if left % self.vectors:
            vectors = minimum(vectors, left - panel * self.vectors)

        def tiles(cb: Var | None) -> Stmt:
            return loop("l", count, lambda line: self._line(first + line, lambda batch, y: self._tiles(
                weights, image, staged, (panel, cb), (line, batch, y))))  # fmt: skip

        sums = tiles(None) if self.blocks.block == 1 else block([
            self._zeros(staged, count), loop("cb", self.depth, tiles)])  # fmt: skip
        return block([
            sums,
            loop("v", vectors, lambda v: loop("l", count, lambda line: stored(line, v))),
        ])  # fmt: skip

    def _zeros(self, staged: Buffer, count: PrimExpr) -> Stmt:
        """Initialise the accumulators to zero."""
        zero = spread(const(0, DTYPE), self.lanes)
        return loop("v", self.vectors, lambda v: loop("x", simplify(count * self.wide), lambda x: window(
            staged, (v, x * self.lanes), self.lanes, lambda part, at: vector_store(part, at, zero))))  # fmt: skip

    def _tiles(
        self, weights: Buffer, image: Buffer, staged: Buffer, which: tuple[Var, Var | None],
        at: tuple[Var, list[PrimExpr], PrimExpr],
    ) -> Stmt:  # fmt: skip
        """Accumulate the products of a block of input channels (or all of them) for one row."""
        line, batch, y = at

        def tile(x: PrimExpr, height: int, number: PrimExpr) -> Stmt:
            return named("x", simplify(x), lambda x: self._tile(
                weights, image, staged, which, (line, batch, y, x), height, number))  # fmt: skip

        return self._of_line(tile)

    def _of_line(self, tile: Callable[[PrimExpr, int, PrimExpr], Stmt]) -> Stmt:
        """Return `tile(first pixel, height, number)` for each register tile of a row."""
        units, single = self.units, tile(int64(0), self.unit, int64(0))
        if isinstance(units, IntImm):
            return single if units.value == 1 else tall_and_short(units, self.unit, tile)
        tiles = tall_and_short(units, self.unit, tile)
        return tiles if self.least > 1 else IfThenElse(units < 2, single, tiles)

    def _tile(
        self, weights: Buffer, image: Buffer, staged: Buffer, which: tuple[Var, Var | None],
        at: tuple[Var, list[PrimExpr], PrimExpr, PrimExpr], height: int, number: PrimExpr,
    ) -> Stmt:  # fmt: skip
        """Compute register tile `number` of a row; prefetch its part of the next block of weights."""
        (panel, some), (line, batch, y, x), lanes, width = which, at, self.lanes, self.blocks.block
        rows, columns = self.windows.lines

        def step(tile: RegisterTile, left: Buffer, cb: Var, place: tuple[PrimExpr, PrimExpr, PrimExpr]) -> Stmt:
            tap, shift, c = place
            start = simplify(c * self.packing.width)
            ahead = (panel, cb + 1, tap, start + floormod(number, self.vectors) * lanes)
            added = tile.step(
                lambda p: BufferLoad(left, (simplify((p * columns.stride + shift) * width + c),)),
                row_at(weights, (panel, cb, tap, start), lanes),
            )
            return added if some is None else block([prefetched(weights, ahead), added])

        def tap(tile: RegisterTile, left: Buffer, cb: Var, i: Var, j: Var) -> Stmt:
            place = i * columns.taps + j, j * columns.dilation
            if width == 1:
                return step(tile, left, cb, (*place, int64(0)))
            count: PrimExpr = int64(min(width, self.inputs))
            if self.depth > 1 and self.inputs % width:
                count = minimum(int64(width), self.inputs - cb * width)
            return loop("c", count, lambda c: step(tile, left, cb, (*place, c)))

        def taps(tile: RegisterTile, cb: Var) -> Stmt:
            reach = ((height - 1) * columns.stride + (columns.taps - 1) * columns.dilation + 1) * width

            def line(i: Var) -> Stmt:
                above = (y * rows.stride + i * rows.dilation) * self.blocks.line
                start = self._offset([*batch, cb], simplify((above + x * columns.stride) * width))
                return part_of(image, start, (reach,), (1,), lambda left: loop(
                    "j", columns.taps, lambda j: tap(tile, left, cb, i, j)))  # fmt: skip

            return loop("i", rows.taps, line)

        def parts(body: Callable[[Buffer, PrimExpr, PrimExpr], Stmt]) -> Stmt:
            place = simplify((line * self.wide + x) * lanes)

            def vector(v: int) -> Stmt:
                return part_of(staged, place + v * self.staged, (height * lanes,), (1,), lambda part: loop(
                    "p", height, lambda p: body(part, p, int64(v * lanes)), ForKind.UNROLLED))  # fmt: skip

            return block(vector(v) for v in range(self.vectors))

        def sums(tile: RegisterTile) -> Stmt:
            return block([
                tile.cleared() if some is None
                else parts(lambda part, p, c: tile.store(p, c, vector_load(part, (p * lanes,), lanes))),
                loop("cb", self.depth, lambda cb: taps(tile, cb)) if some is None else taps(tile, some),
                parts(lambda part, p, c: vector_store(part, (p * lanes,), tile.load(p, c))),
            ])  # fmt: skip

        return self._registers(height, sums)

    def _registers(self, height: int, body: Callable[[RegisterTile], Stmt]) -> Stmt:
        """Call `body` with a register tile of `height` rows."""
        return register_tile(height, self.vectors, self.lanes, body, sums=DTYPE)

    def _offset(self, outer: Sequence[PrimExpr], start: PrimExpr) -> PrimExpr:
        """Flat offset of an element of the padded copy."""
        offset: PrimExpr = const(0, "int64")
        for at, size in zip(outer, (*self.leading, int64(self.depth)), strict=True):
            offset = offset * size + at
        return simplify(offset * self.blocks.size + start)
