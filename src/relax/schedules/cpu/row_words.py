"""The loops of `row_loops` for bfloat16, by dot products of words of two neighbouring channels.

    panel[q, k, x] = words of X[n, 2 * k, q, x] and X[n, 2 * k + 1, q, x]
    ring[…, c] = float32(bfloat16(f(Σ T.dot_bf16(We[g, k, c], panel[q, k, x]))))        rounded, and widened at once
    D[r, x, c] = bfloat16(g(Σ Wd[i, j, c] * ring[…, c]))                                sums and products of float32
    C[n, jo, …] = k(Σ T.dot_bf16(Wp[jo, k, :], D[r, x, 2 * k : 2 * k + 2]))

What is between the convolutions is rounded to bfloat16 where the program rounds it. The ring has the rounded numbers as
float32: each is read by all taps of a window, and widened once. The depthwise sums are next to each other by channels,
so that two of them are a word.

Refused: machines without dot products of bfloat16, or with tiles; an odd number of channels between the convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...prim import LT, PrimExpr, Var, const, simplify
from ...prim.instructions import prefetch
from ...prim.intrin import floordiv, reinterpret
from ...target import Target
from ...tir import Buffer, BufferLoad, Evaluate, Stmt
from ..build import block, loop, ramp, spread, vector_load, vector_store
from .chains import DTYPE, Chain, Link
from .channel_blocks import part_of
from .pixels import Array, RowPacking, TapVectors, WeightBlocks
from .row_loops import RowLoops
from .row_panels import ElementPanel, RowPanel, Step
from .words import Words, bits_view, declared, words_for

BITS = "uint16"
"""The dtype of the bits of a bfloat16."""


def word_rows(chain: Chain, target: Target, lanes: int) -> RowLoops | None:
    """The writer of a chain of bfloat16; None for what is refused."""
    windows = chain.expand.windows
    words = words_for(target, windows.data.dtype, windows.weight.buffer.dtype, windows.out.buffer.dtype)
    if words is None or words.sums != DTYPE or chain.expand.channels % words.group:
        return None
    return WordRowLoops(chain, target, lanes, words)


@dataclass(frozen=True)
class WordRowPacking:
    """Weights (outputs, inputs, 1, 1) as words of neighbouring inputs, in the blocks that tiles read."""

    blocks: WeightBlocks
    words: Words

    @property
    def shape(self) -> tuple[int, ...]:
        return self.blocks.shape

    def __call__(self, array: Array) -> Array:
        return self.blocks(self.words.packed(np.reshape(array, (*array.shape[:2], 1)))[..., 0])


@dataclass(frozen=True)
class WideTaps:
    """Depthwise weights as float32, in the order of `TapVectors`."""

    taps: TapVectors

    @property
    def shape(self) -> tuple[int, ...]:
        return self.taps.shape

    def __call__(self, array: Array) -> Array:
        return self.taps(array.astype(DTYPE))


class WordPanel(ElementPanel):
    """The panel of an expansion: words of two input channels, of which the last may be half of one."""

    def __init__(self, link: Link, lanes: int, words: Words) -> None:
        super().__init__(link, lanes)
        self.words, self.inputs, self.numbers = words, link.inputs, self.data
        self.data = bits_view(self.data)
        self.depth = self.planes = -(-link.inputs // words.group)

    def copied(
        self, image: Sequence[PrimExpr], y: PrimExpr, panel: Buffer, place: PrimExpr, width: PrimExpr
    ) -> Stmt:
        """Copy a line of each word of channels, and ask for the ones behind it."""
        lanes, data, group = self.lanes, self.data, self.words.group

        def word(part: Buffer, k: PrimExpr, v: Var, count: int) -> Stmt:
            mask = LT(ramp(v * lanes, lanes), spread(self.extents[1], lanes))
            channels = [simplify(k * group + g) for g in range(count)]
            ahead = [Evaluate(prefetch(BufferLoad(data, (*image, c, simplify(y + 1), simplify(v * lanes)))))
                     for c in channels]  # fmt: skip
            numbers = [vector_load(data, (*image, c, y, v * lanes), lanes, mask) for c in channels]
            numbers += [spread(const(0, BITS), lanes)] * (group - count)
            return block([*ahead, vector_store(part, (k, 0), self.words.word(numbers, True))])

        def words(part: Buffer, v: Var) -> Stmt:
            whole, rest = divmod(self.inputs, group)
            copied = [loop("k", whole, lambda k: word(part, k, v, group))]
            return block([*copied, word(part, const(whole, "int64"), v, rest)] if rest else copied)

        return loop("v", simplify(floordiv(width, lanes)), lambda v: part_of(
            panel, place + v * lanes, (self.planes, lanes), (width, 1), lambda part: words(part, v)))  # fmt: skip


class WordRowLoops(RowLoops):
    """Writes the loops of one chain of bfloat16."""

    factor = "int32"
    dtypes = ("int32", DTYPE, BITS)
    packed_dtypes = ("int32", DTYPE, "int32")

    def __init__(self, chain: Chain, target: Target, lanes: int, words: Words) -> None:
        self.words = words
        super().__init__(chain, target, lanes)

    def _panel(self) -> RowPanel:
        self.source = WordPanel(self.chain.expand, self.lanes, self.words)
        return self.source

    def packings(self) -> tuple[RowPacking, RowPacking, RowPacking]:
        expand, depthwise, project = super().packings()
        assert isinstance(expand, WeightBlocks)
        assert isinstance(depthwise, TapVectors)
        assert isinstance(project, WeightBlocks)
        count = project.inputs // self.words.group
        words = WeightBlocks(project.channels, count, project.width, project.is_filled)
        return WordRowPacking(expand, self.words), WideTaps(depthwise), WordRowPacking(words, self.words)

    def loops(self, expand: Buffer, depthwise: Buffer, project: Buffer) -> Stmt:
        views = [(self.source.data, self.source.numbers)]
        return declared(views, super().loops(expand, depthwise, project))

    def _steps(self, data: Buffer, step: Step) -> Stmt:
        group = self.words.group

        def word(k: Var, p: Var) -> PrimExpr:
            return self.words.neighbours(vector_load(data, (p, k * group), group), True)

        return loop("k", self.middle // group, lambda k: step(k, lambda p: word(k, p)))

    def _added(self, total: PrimExpr, element: PrimExpr, weights: PrimExpr) -> PrimExpr:
        return self.words.add(total, element, weights)

    def _kept(self, buffer: Buffer, value: PrimExpr) -> PrimExpr:
        return value.astype(DTYPE) if buffer.dtype == DTYPE else reinterpret(BITS, value)


__all__ = ["WordRowLoops", "word_rows"]
