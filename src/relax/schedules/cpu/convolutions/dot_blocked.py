"""bfloat16 convolutions with constant weights: `blocked` with dot products of packed pairs of input channels.

    for i, j, c in T.grid(3, 3, 16):                                    S in registers
        S[line, x, :] = T.dot_bf16(S[line, x, :], P[…], U[panel, cb, i, j, c, :])

A block has 16 packed pairs, of 32 channels, where `blocked` has 16 input channels. A register tile has 14 pixels by 2
vectors of output channels; the last tile of a row has 4, 7, 11 or 14 pixels, to limit padding.

Left to `dot_convolution`: targets without bfloat16 dot products or with bfloat16 tiles, non-constant weights, 1×1
windows, groups, three pixel dimensions, output channels that fill panels badly, and few channels: these occur in large
images, whose rows fill vectors of pixels well and take long to copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ....prim import LT, IntImm, PrimExpr, Select, Var, const, simplify
from ....prim.intrin import floordiv
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, BufferLoad, IfThenElse, PrimFunc, Stmt
from ...build import block, int64, loop, spread
from ...rule import PackedFunction, Refusal, ScheduleRule
from ..large_sums import number_sum
from ..tile import RegisterTile, register_tile
from ..tile.division import Tile, tile_for
from ..tile.words import Words, bits_view
from .blocked import DTYPE, BlockedWriter, TapPacking
from .channel_blocks import ChannelBlocks
from .dots import words_of
from .packed_weights import Declare, packed_kernels
from .planes import Sizes
from .windows import Kernel, Windows

HEIGHTS: Final = (4, 7, 11, 14)
"""Allowed pixels of a register tile: all tiles of a row but the last have the most."""
VECTORS: Final = 2
"""Vectors of output channels of a register tile."""
CHANNELS: Final = 96 * 96
"""Least product of input and output channels."""
EMPTY: Final = 8
"""At most 1 / EMPTY of the output channels may be padding."""
REGISTERS: Final = 32
"""Vector registers needed by a tile of 14 pixels by 2 vectors, with its weights and a broadcast pixel."""


class WordBlocked(ScheduleRule):
    """Schedule rule for bfloat16 convolutions with constant weights."""

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        """Return the function for weights packed as pairs, in panels of output channels."""

        def write(kernel: Kernel, words: Words, declare: Declare) -> Stmt:
            writer = _Writer(kernel, target, words)
            packing = TapWordPacking(writer.packing, words)
            return writer.kernel(declare(packing, packing.taps.shape, "int32", "words"))

        return packed_kernels(func, constants, lambda kernel: _words_of(kernel.windows, target), write, number_sum)


def _words_of(windows: Windows, target: Target) -> Words | Refusal:
    """Return the packed groups of narrow numbers that the dot products of a convolution multiply, or a refusal."""
    channels, words = windows.channels_of_group(2), words_of(windows, target)
    if not channels:
        return channels
    if not words:
        return words
    inputs, outputs = channels
    empty = -outputs % (VECTORS * tile_for(target, 32).lanes)
    if words.sums != DTYPE:
        return Refusal("the products are not of bfloat16")
    if target.machine.vector_registers < REGISTERS:
        return Refusal(f"the target has fewer than {REGISTERS} vector registers")
    if windows.taps == 1:
        return Refusal("the windows are 1×1")
    if inputs * outputs < CHANNELS:
        return Refusal(f"only {inputs} × {outputs} channels, fewer than {CHANNELS:,}")
    if empty * EMPTY > outputs:
        return Refusal(f"panels would have {empty} unused channels beside the {outputs} output channels")
    return words


@dataclass(frozen=True)
class TapWordPacking:
    """Packing of weights (outputs, inputs, taps …) into pairs of consecutive inputs, in the layout of `TapPacking`."""

    taps: TapPacking
    words: Words

    def __call__(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return self.taps(self.words.packed(np.reshape(array, (*array.shape[:2], -1))))


class _WordBlocks(ChannelBlocks):
    """Padded copy of the data in blocks of packed channel pairs."""

    def __init__(
        self, windows: Windows, words: Words, channels: int, lanes: int, shape: tuple[PrimExpr, PrimExpr],
        sizes: Sizes,
    ) -> None:  # fmt: skip
        count = -(-channels // words.group)
        super().__init__(windows, count, lanes, *shape, sizes)
        self.words, self.numbers = words, channels
        self.data = bits_view(self.data)

    def pixels(self, channel: Sequence[PrimExpr], row: Var, at: PrimExpr, inside: PrimExpr, blocks: Buffer) -> PrimExpr:
        *batch, word = channel
        is_line = self.data.ndim == len(channel) + 1

        def number(g: int) -> PrimExpr:
            place = simplify(word * self.words.group + g)
            is_there = self.numbers % self.words.group == 0
            outer = (*batch, place if is_there else minimum(place, int64(self.numbers - 1)))
            vector = BufferLoad(self.data, (*outer, at) if is_line else (*outer, row, at), inside)
            if is_there:
                return vector
            zero = spread(const(0, str(self.data.dtype)), self.lanes)
            return Select(spread(LT(place, int64(self.numbers)), self.lanes), vector, zero)

        return self.words.word([number(g) for g in range(self.words.group)], True)


class _Writer(BlockedWriter):
    """Writes the loops of one convolution."""

    factor = "int32"

    def __init__(self, kernel: Kernel, target: Target, words: Words) -> None:
        self.words = words
        super().__init__(kernel, target)

    def _depth_of(self, inputs: int) -> int:
        self.channels = inputs
        return -(-inputs // self.words.group)

    def _blocks(self, height: PrimExpr, width: PrimExpr) -> ChannelBlocks:
        return _WordBlocks(
            self.windows, self.words, self.channels, self.lanes, (height, width), self.sizes
        )  # fmt: skip

    def _fitting(self, tile: Tile) -> Tile:
        return tile

    def _widths(self, tile: Tile) -> Sequence[int]:
        del tile
        return (VECTORS,)

    def _filled(self, size: PrimExpr) -> PrimExpr:
        named, tall = self.sizes.named, HEIGHTS[-1]
        self.whole = named("whole", floordiv(size, tall))
        """Number of full-height tiles of a row."""
        self.rest = named("rest", size - self.whole * tall)
        """Remaining pixels of a row."""
        last: PrimExpr = int64(tall)
        for height in reversed(HEIGHTS[:-1]):
            last = Select(self.rest <= height, int64(height), last)
        return simplify(self.whole * tall + last)

    def _of_line(self, tile: Callable[[PrimExpr, int, PrimExpr], Stmt]) -> Stmt:
        tall = HEIGHTS[-1]
        start = simplify(self.whole * tall)
        whole = loop("q", self.whole, lambda q: tile(q * tall, tall, q))
        if isinstance(self.rest, IntImm):
            left = self.rest.value
            last = next(height for height in HEIGHTS if left <= height)
            return block([whole, tile(start, last, self.whole)]) if left else whole
        rest = tile(start, tall, self.whole)
        for height in reversed(HEIGHTS[:-1]):
            rest = IfThenElse(self.rest <= height, tile(start, height, self.whole), rest)
        return block([whole, IfThenElse(self.rest > 0, rest)])

    def _registers(self, height: int, body: Callable[[RegisterTile], Stmt]) -> Stmt:
        return register_tile(
            height, self.vectors, self.lanes, body, sums=DTYPE, factors="int32", product=self.words.add
        )
