"""The loops of `depthwise_lines` for bfloat16: a dot product adds two neighbouring taps of a line.

    data   a b c d e f …            words from a    ab cd ef …        pixels 0, 2, 4, … meet them with the taps 0, 1
                                    words from b    bc de fg …        pixels 1, 3, 5, … do
                                    words from c    cd ef gh …        their halves are what the tap 2 meets

    even[:] = T.dot_bf16(even, words at x, W[co, i, 0:2]) + W[co, i, 2] * first halves of the words at x + 2
    odd[:]  = T.dot_bf16(odd, words at x + 1, W[co, i, 0:2]) + W[co, i, 2] * second halves of the words at x + 2
    C[n, co, y, x:] = even and odd, one after the other

So elements are multiplied as they are in memory, and none is converted for a pair of taps. With a stride of 2, one
vector of words is all pixels: there is no odd one. Short lines take shorter vectors.

Refused, and left to `depthwise_lines`: other strides, dilation, lines of one tap, more weights than registers, and what
it refuses; machines without dot products of bfloat16, or with tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ...prim import IntImm, PrimExpr, const
from ...prim.instructions import fma
from ...prim.intrin import bitwise_and, reinterpret, shift_left
from ...target import Target
from ...tir import Buffer, BufferLoad, Shuffle, Stmt
from ..build import alloc, block, spread, vector_load, vector_store
from .depthwise_lines import Channel, LineWriter, Load
from .tiling import Tile
from .windows import Kernel
from .words import Words, bits_view, declared, words_for

SHORTEST: Final = 8
"""The lanes of the shortest vectors that are rounded to bfloat16 in one instruction."""
MOST_WEIGHTS: Final = 16
"""Words of weights, and weights without a neighbour, that stay in registers."""
SECOND: Final = -65536
"""The second half of a word: the bits of a bfloat16, and those that it lacks to be a float32."""


def words_writer(kernel: Kernel, tile: Tile, target: Target) -> WordLineWriter | None:
    """The writer of a convolution; None for what is refused."""
    windows = kernel.windows
    words = words_for(target, windows.data.dtype, windows.weight.buffer.dtype, windows.out.buffer.dtype)
    axis = windows.axes[-1]
    if words is None or words.kind != "bf16" or axis.stride > 2 or axis.dilation != 1 or axis.taps < 2:
        return None
    lanes = tile.lanes
    if isinstance(axis.size, IntImm):
        parts = 2 if axis.stride == 1 else 1
        while lanes > SHORTEST and axis.size.value <= parts * lanes // 2:
            lanes //= 2
    writer = (_Interleaved if axis.stride == 1 else WordLineWriter)(kernel, Tile(1, 1, lanes), words)
    return writer if writer.fits else None


class WordLineWriter(LineWriter):
    """Writes the loops of one convolution with a stride of 2 along lines."""

    def __init__(self, kernel: Kernel, tile: Tile, words: Words) -> None:
        self.words = words
        super().__init__(kernel, tile)
        self.loaded, self.elements = "int32", words.group * self.lanes
        self.data, self.weights = bits_view(self.windows.data), bits_view(self.windows.weight.buffer)

    @property
    def fits(self) -> bool:
        return super().fits and len({self._first_of(tap) for tap in self.taps}) <= MOST_WEIGHTS

    def kernel(self) -> Stmt:
        """The parallel loop, with the views of the data and of the weights that it reads."""
        views = [(self.data, self.windows.data), (self.weights, self.windows.weight.buffer)]
        return declared(views, super().kernel())

    def _first_of(self, tap: tuple[int, ...]) -> tuple[int, ...]:
        """The first tap of the word that a tap is in."""
        return *tap[:-1], tap[-1] // self.words.group * self.words.group

    def _is_pair(self, j: int) -> bool:
        """True if tap `j` of a line, the first of a word, has a neighbour."""
        return j + 1 < self.last.taps

    def _loads_of(self, tap: int) -> list[Load]:
        """The words from the element on that a tap meets, or the first tap of its word."""
        return [Load(self._first_of((tap,))[-1], 1)]

    def _weights(self, co: PrimExpr) -> dict[tuple[int, ...], PrimExpr]:
        """Vectors of the word of each two taps, and of the weight of a tap without a neighbour."""

        def weight(tap: tuple[int, ...]) -> PrimExpr:
            if not self._is_pair(tap[-1]):
                return super(WordLineWriter, self)._weight(
                    self.windows.weight.buffer, co, tap).astype(self.dtype)  # fmt: skip
            return self.words.word([
                self._weight(self.weights, co, (*tap[:-1], tap[-1] + g)) for g in range(self.words.group)
            ], False)  # fmt: skip

        return {tap: spread(weight(tap), self.lanes) for tap in self.taps if self._first_of(tap) == tap}

    def _load(self, at: Sequence[PrimExpr], mask: PrimExpr) -> PrimExpr:
        return self.words.neighbours(BufferLoad(self.data, tuple(at), mask), True)

    def _added(
        self, channel: Channel, acc: Buffer, q: int, outer: tuple[int, ...], vectors: Mapping[Load, PrimExpr]
    ) -> Stmt:
        return block(
            vector_store(acc, (q, part * self.lanes), self._sum(channel, outer, part, vectors, vector_load(
                acc, (q, part * self.lanes), self.lanes))) for part in range(self.parts))  # fmt: skip

    def _sum(
        self, channel: Channel, outer: tuple[int, ...], part: int, vectors: Mapping[Load, PrimExpr],
        total: PrimExpr,
    ) -> PrimExpr:  # fmt: skip
        """Sums plus the products of the taps of a line of weights: those of even pixels (part 0), or of odd ones."""
        for j in range(0, self.last.taps, self.words.group):
            weight = channel.weights[(*outer, j)]
            if self._is_pair(j):
                total = self.words.add(total, vectors[Load(j + part, 1)], weight)
            else:
                total = fma(weight, self._half(vectors[Load(j, 1)], part), total)
        return total

    def _half(self, words: PrimExpr, part: int) -> PrimExpr:
        """The first or the second numbers of words, as float32."""
        lanes = self.lanes
        if part:
            bits = bitwise_and(words, spread(const(SECOND, "int32"), lanes))
        else:
            bits = shift_left(words, spread(const(16, "int32"), lanes))
        return reinterpret(f"float32x{lanes}", bits)


class _Interleaved(WordLineWriter):
    """Writes the loops of one convolution with a stride of 1: vectors of even and of odd pixels."""

    parts = 2

    def _loads_of(self, tap: int) -> list[Load]:
        first = self._first_of((tap,))[-1]
        return [Load(first + part, 1) for part in range(self.parts if self._is_pair(first) else 1)]

    def _store(self, acc: Buffer, channel: Channel, place: list[PrimExpr], first: PrimExpr) -> Stmt:
        """Store the complete sums in the order of pixels."""
        lanes = self.lanes
        halves = tuple(vector_load(acc, (0, part * lanes), lanes) for part in range(self.parts))

        def in_order(line: Buffer, half: int) -> Stmt:
            order = [(half * lanes + lane) // 2 + (half * lanes + lane) % 2 * lanes for lane in range(lanes)]
            return block([
                vector_store(line, (0, 0), Shuffle(halves, order)),
                super(_Interleaved, self)._store(line, channel, place, first + half * lanes),
            ])  # fmt: skip

        return block(
            alloc("line", (1, lanes), self.dtype, "local", lambda line, half=half: in_order(line, half))
            for half in range(self.parts)
        )


__all__ = ["WordLineWriter", "words_writer"]
