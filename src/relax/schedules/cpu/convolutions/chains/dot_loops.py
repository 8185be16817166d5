"""The loops of `chains.loops` for bfloat16, by dot products of packed pairs of consecutive channels.

    panel[q, k, x] = words of X[n, 2 * k, q, x] and X[n, 2 * k + 1, q, x]
    ring[…, c] = float32(bfloat16(f(Σ T.dot_bf16(We[g, k, c], panel[q, k, x]))))        rounded, then widened
    D[r, x, c] = bfloat16(g(Σ Wd[i, j, c] * ring[…, c]))                                sums and products of float32
    C[n, jo, …] = k(Σ T.dot_bf16(Wp[jo, k, :], D[r, x, 2 * k : 2 * k + 2]))

Intermediates are rounded to bfloat16 where the program rounds them. The ring buffer holds the rounded values as
float32: all taps of a window read them, and each is widened once. Depthwise results are contiguous along channels, so
that two of them form a packed pair.

Not supported: targets without bfloat16 dot products or with bfloat16 tiles, and an odd number of intermediate channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .....prim import LT, PrimExpr, Var, const, simplify
from .....prim.instructions import prefetch
from .....prim.intrin import floordiv, reinterpret
from .....runtime.records import dataclass
from .....target import Target
from .....tir import Buffer, BufferLoad, Evaluate, Stmt
from ....build import block, loop, ramp, spread, vector_load, vector_store
from ...tile.words import Words, bits_view, declared, words_for
from ..channel_blocks import part_of
from ..pointwise.operands import Array, RowPacking, TapVectors, WeightBlocks
from .chain import DTYPE, Chain, Link
from .loops import RowLoops
from .panels import ElementPanel, RowPanel, Step

BITS = "uint16"
"""Dtype of the bits of a bfloat16."""


def word_rows(chain: Chain, target: Target, lanes: int) -> RowLoops | None:
    """Return the writer of a bfloat16 chain, or None if it is not supported."""
    windows = chain.expand.windows
    words = words_for(target, windows.data.dtype, windows.weight.buffer.dtype, windows.out.buffer.dtype)
    if words is None or words.sums != DTYPE or chain.expand.channels % words.group:
        return None
    return WordRowLoops(chain, target, lanes, words)


@dataclass(frozen=True)
class WordRowPacking:
    """Packing of weights (outputs, inputs, 1, 1) into pairs of consecutive inputs, in the blocks that tiles read."""

    blocks: WeightBlocks
    words: Words

    @property
    def shape(self) -> tuple[int, ...]:
        return self.blocks.shape

    def __call__(self, array: Array) -> Array:
        return self.blocks(self.words.packed(np.reshape(array, (*array.shape[:2], 1)))[..., 0])


@dataclass(frozen=True)
class WideTaps:
    """Packing of depthwise weights as float32, in the layout of `TapVectors`."""

    taps: TapVectors

    @property
    def shape(self) -> tuple[int, ...]:
        return self.taps.shape

    def __call__(self, array: Array) -> Array:
        return self.taps(array.astype(DTYPE))


class WordPanel(ElementPanel):
    """Panel of an expansion as packed pairs of input channels; an odd last channel is paired with zero."""

    def __init__(self, link: Link, lanes: int, words: Words) -> None:
        super().__init__(link, lanes)
        self.words, self.inputs, self.numbers = words, link.inputs, self.data
        self.data = bits_view(self.data)
        self.depth = self.planes = -(-link.inputs // words.group)

    def copied(self, image: Sequence[PrimExpr], y: PrimExpr, panel: Buffer, place: PrimExpr, width: PrimExpr) -> Stmt:
        """Copy a row of each channel pair and prefetch the following rows."""
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
    """Writes the loops of one bfloat16 chain."""

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

        def word(k: Var, p: PrimExpr) -> PrimExpr:
            return self.words.neighbours(vector_load(data, (p, k * group), group), True)

        return loop("k", self.middle // group, lambda k: step(k, lambda p: word(k, p)))

    def _added(self, total: PrimExpr, element: PrimExpr, weights: PrimExpr) -> PrimExpr:
        return self.words.add(total, element, weights)

    def _kept(self, buffer: Buffer, value: PrimExpr) -> PrimExpr:
        return value.astype(DTYPE) if buffer.dtype == DTYPE else reinterpret(BITS, value)
