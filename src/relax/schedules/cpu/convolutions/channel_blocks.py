"""Padded copies of images in blocks of channels, with the channels of a block contiguous (NCHWc).

    X[n, c, y, x]       P[n, cb, (y * line + x) * 16 + c] = X[n, cb * 16 + c, y - 1, x - 1]     for 1 pixel of padding

A vector holds one pixel of a channel block, so sums over channels and transforms over pixels use whole vectors for any
image size. Pixels outside the image are 0; lanes past the last channel repeat it. 16×16 squares of channels by pixels
are transposed in registers. Images of few channels are copied untransposed, with one channel per block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ....prim import And, PrimExpr, Var, const, simplify
from ....prim.intrin import ceildiv
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....tir import Broadcast, Buffer, BufferLoad, DeclBuffer, IfThenElse, Stmt
from ....tir.buffer import decl_buffer
from ...build import block, int64, let, loop, ramp, scratch, vector_load, vector_store
from ..tile.transposes import transposed_square
from .planes import Sizes, items, window
from .results import Results
from .windows import Windows

FEW: Final = 4
"""Up to this number of channels, a block is a single channel."""


class ChannelBlocks:
    """Padded copy (`height` × `width`) of the data of a convolution over one or two axes."""

    def __init__(
        self, windows: Windows, channels: int, lanes: int, height: PrimExpr, width: PrimExpr, sizes: Sizes
    ) -> None:
        self.windows, self.channels, self.lanes = windows, channels, lanes
        self.block = 1 if channels <= FEW else lanes
        """Channels of a block."""
        self.blocks = -(-channels // self.block)
        self.height = height
        self.line = sizes.named("line", maximum(width, const(lanes, "int64")))
        """Pixels from one row to the next: at least a vector."""
        self.size = sizes.named("plane", simplify(height * self.line * self.block))
        self.data = windows.lines_of_data()

    def fill(self, leading: Sequence[PrimExpr], blocks: Buffer) -> Stmt:
        """Copy all images in parallel; `leading` are the batch dimensions."""
        radix = [(f"n{d}", size) for d, size in enumerate(leading)]
        radix += [("cb", int64(self.blocks)), ("y", self.height)]
        copies = items("image", radix, lambda at: self._line(at[:-2], at[-2], at[-1], blocks))
        return copies if self.data is self.windows.data else DeclBuffer(self.data, copies)

    def _line(self, batch: list[PrimExpr], cb: PrimExpr, y: PrimExpr, blocks: Buffer) -> Stmt:
        """Copy one row of one block of channels."""
        rows, columns = self.windows.lines
        lanes, width, place = self.lanes, self.block, (*batch, cb)
        squares = simplify(ceildiv(self.line, lanes))
        last = simplify(self.line - lanes)

        def start(v: Var) -> PrimExpr:
            return minimum(v * lanes, last)

        def copied(row: Var) -> Stmt:
            return loop("v", squares, lambda v: let("x", start(v), lambda x: self._square(
                (*batch, cb), row, simplify(x - columns.before), (*place, (y * self.line + x) * width),
                blocks)))  # fmt: skip

        zero = Broadcast(const(0, str(blocks.dtype)), lanes)
        zeros = loop("v", squares, lambda v: let("x", start(v), lambda x: window(
            blocks, (*place, (y * self.line + x) * width), lanes * width, lambda part, at: loop(
                "q", width, lambda q: vector_store(part, (*at[:-1], at[-1] + q * lanes), zero)))))  # fmt: skip
        return let("row", simplify(y - rows.before), lambda row: IfThenElse(
            And(row >= 0, row < rows.extent), copied(row), zeros))  # fmt: skip

    def _square(
        self, source: Sequence[PrimExpr], row: Var, first: PrimExpr, place: Sequence[PrimExpr], blocks: Buffer
    ) -> Stmt:
        """Copy a vector of pixels, from `first` on, of a block of channels by a register transpose."""
        lanes, width, extent = self.lanes, self.block, self.windows.lines[1].extent
        *batch, cb = source

        def load(i: PrimExpr) -> PrimExpr:
            at = ramp(first, lanes)
            zero, end = Broadcast(const(0, "int64"), lanes), Broadcast(extent, lanes)
            channel = simplify(cb * width + i)
            if self.channels % width:
                channel = minimum(channel, const(self.channels - 1, "int64"))
            return self.pixels((*batch, channel), row, at, And(at >= zero, at < end), blocks)

        def stored(part: Buffer, at: Sequence[PrimExpr], q: PrimExpr, vector: PrimExpr) -> Stmt:
            return vector_store(part, (*at[:-1], at[-1] + q * lanes), vector)

        if width == 1:
            return window(blocks, place, lanes, lambda part, at: vector_store(part, at, load(int64(0))))
        return window(blocks, place, lanes * lanes, lambda part, at: transposed_square(
            lanes, str(blocks.dtype), load, lambda q, pixel: stored(part, at, q, pixel)))  # fmt: skip

    def pixels(self, channel: Sequence[PrimExpr], row: Var, at: PrimExpr, inside: PrimExpr, blocks: Buffer) -> PrimExpr:
        """Load a vector of pixels of a row and channel, padded with zeros."""
        is_line = self.data.ndim == len(channel) + 1
        vector = BufferLoad(self.data, (*channel, at) if is_line else (*channel, row, at), inside)
        return vector.astype(str(blocks.dtype.with_lanes(self.lanes)))


def part_of(
    buffer: Buffer,
    offset: PrimExpr,
    shape: Sequence[int],
    strides: Sequence[int | PrimExpr],
    body: Callable[[Buffer], Stmt],
) -> Stmt:
    """Call `body` with a view of part of a compact buffer, so that its bounds are checked once."""
    view = decl_buffer([int64(size) for size in shape], str(buffer.dtype), f"{buffer.name}_part", data=buffer.data,
                       strides=[int64(stride) for stride in strides], elem_offset=simplify(offset))  # fmt: skip
    return DeclBuffer(view, body(view))


def stored_line(
    results: Results, lanes: int, outputs: int, staged: Buffer, at: PrimExpr, channel: PrimExpr,
    place: Sequence[PrimExpr], pixels: tuple[PrimExpr, PrimExpr],
) -> Stmt:  # fmt: skip
    """Store consecutive pixels of a row of the result for a block of channels; `pixels` is (first, count).

    The results are staged from `at` on, with the channels of a pixel in a vector; a register transpose may read past
    the last pixel. `channel` is the first channel of the block, of `outputs` channels in all.
    """
    dtype, (first, count), (*batch, y) = str(staged.dtype), pixels, place

    def stored(tile: Buffer, x: Var) -> Stmt:
        channels = int64(lanes) if outputs % lanes == 0 else minimum(int64(lanes), outputs - channel)
        return loop("p", channels, lambda p: let(
            "co", minimum(channel + p, int64(outputs - 1)), lambda co: results.of_lane(p).vector_of_line(
                (*batch, co), y, x, lanes, lambda lane: BufferLoad(tile, (p, lane)), first + count)))  # fmt: skip

    def square(tile: Buffer, part: Buffer) -> Stmt:
        return transposed_square(
            lanes, dtype, lambda q: vector_load(part, (q * lanes,), lanes),
            lambda p, row: vector_store(tile, (p, 0), row),
        )  # fmt: skip

    def vector(v: Var) -> Stmt:
        return let("x", first + v * lanes, lambda x: scratch("tile", (lanes, lanes), dtype, lambda tile: block([
            part_of(staged, at + v * (lanes * lanes), (lanes * lanes,), (1,), lambda part: square(tile, part)),
            stored(tile, x)])))  # fmt: skip

    return loop("v", ceildiv(count, lanes), vector)
