"""The loops of `depthwise_lines` for bfloat16: a dot product accumulates two consecutive taps of a row.

    data   a b c d e f …            words from a    ab cd ef …        read by pixels 0, 2, 4, … with taps 0, 1
                                    words from b    bc de fg …        read by pixels 1, 3, 5, …
                                    words from c    cd ef gh …        their halves are read by tap 2

    even[:] = T.dot_bf16(even, words at x, W[co, i, 0:2]) + W[co, i, 2] * first halves of the words at x + 2
    odd[:]  = T.dot_bf16(odd, words at x + 1, W[co, i, 0:2]) + W[co, i, 2] * second halves of the words at x + 2
    C[n, co, y, x:] = even and odd, one after the other

Elements are thus multiplied in place, without conversion for a pair of taps. With a stride of 2, a vector of packed
pairs covers all pixels, and there is no odd vector. Short rows use shorter vectors.

Left to `depthwise_lines`: other strides, dilation, rows of one tap, more weights than registers, cases that it rejects,
and targets without bfloat16 dot products or with bfloat16 tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ....prim import IntImm, PrimExpr, const
from ....prim.instructions import fma
from ....prim.intrin import bitwise_and, reinterpret, shift_left
from ....target import Target
from ....tir import Buffer, BufferLoad, Shuffle, Stmt
from ...build import alloc, block, spread, vector_load, vector_store
from ..tile.division import Tile
from ..tile.words import Words, bits_view, declared, words_for
from .depthwise_lines import Channel, LineWriter, Load
from .windows import Kernel

SHORTEST: Final = 8
"""Lanes of the shortest vectors with an instruction that rounds to bfloat16."""
MOST_WEIGHTS: Final = 16
"""Most weights (packed pairs and unpaired ones) that stay in registers."""
SECOND: Final = -65536
"""Mask of the second half of a packed pair: the upper 16 bits, which are a bfloat16 as float32."""


def words_writer(kernel: Kernel, tile: Tile, target: Target) -> WordLineWriter | None:
    """Return the writer of a convolution, or None if it is not supported."""
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
    """Writes the loops of one convolution with a stride of 2 along rows."""

    def __init__(self, kernel: Kernel, tile: Tile, words: Words) -> None:
        self.words = words
        super().__init__(kernel, tile)
        self.loaded, self.elements = "int32", words.group * self.lanes
        self.data, self.weights = bits_view(self.windows.data), bits_view(self.windows.weight.buffer)

    @property
    def fits(self) -> bool:
        return super().fits and len({self._first_of(tap) for tap in self.taps}) <= MOST_WEIGHTS

    def kernel(self) -> Stmt:
        """Return the parallel loop, with views of the data and weights it reads."""
        views = [(self.data, self.windows.data), (self.weights, self.windows.weight.buffer)]
        return declared(views, super().kernel())

    def _first_of(self, tap: tuple[int, ...]) -> tuple[int, ...]:
        """First tap of the pair that contains a tap."""
        return *tap[:-1], tap[-1] // self.words.group * self.words.group

    def _is_pair(self, j: int) -> bool:
        """True if tap `j`, the first of a pair, has a second one."""
        return j + 1 < self.last.taps

    def _loads_of(self, tap: int) -> list[Load]:
        """Packed pairs from the element read by a tap (or by the first tap of its pair) on."""
        return [Load(self._first_of((tap,))[-1], 1)]

    def _weights(self, co: PrimExpr) -> dict[tuple[int, ...], PrimExpr]:
        """Broadcast packed weights of each pair of taps, and the weight of an unpaired tap."""

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
        """Accumulate the products of a row of taps for even pixels (part 0) or odd pixels (part 1)."""
        for j in range(0, self.last.taps, self.words.group):
            weight = channel.weights[(*outer, j)]
            if self._is_pair(j):
                total = self.words.add(total, vectors[Load(j + part, 1)], weight)
            else:
                total = fma(weight, self._half(vectors[Load(j, 1)], part), total)
        return total

    def _half(self, words: PrimExpr, part: int) -> PrimExpr:
        """First or second elements of packed pairs, as float32."""
        lanes = self.lanes
        if part:
            bits = bitwise_and(words, spread(const(SECOND, "int32"), lanes))
        else:
            bits = shift_left(words, spread(const(16, "int32"), lanes))
        return reinterpret(f"float32x{lanes}", bits)


class _Interleaved(WordLineWriter):
    """Writes the loops of one convolution with a stride of 1, as vectors of even and odd pixels."""

    parts = 2

    def _loads_of(self, tap: int) -> list[Load]:
        first = self._first_of((tap,))[-1]
        return [Load(first + part, 1) for part in range(self.parts if self._is_pair(first) else 1)]

    def _store(self, acc: Buffer, channel: Channel, place: list[PrimExpr], first: PrimExpr) -> Stmt:
        """Store the completed accumulators, interleaved into pixel order."""
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
