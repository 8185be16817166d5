"""Pointwise (1×1) convolutions of bfloat16 or bytes with constant weights.

    for n, co, h, w, ci in T.grid(…):                   acc[p, :] = T.dot_bf16(acc[p, :], W2[io, k, p], P2[k, :])
        with T.block("conv"):
            C[n, co, h, w] += W[co, ci, 0, 0] * …       P2[k, :] = words of X[n, 2 * k, :] and X[n, 2 * k + 1, :]

The loops are those of `pointwise`, with packed groups of two (bfloat16) or four (bytes) input channels in place of
channels; sums are float32 or int32. Pixels are packed while a chunk is copied, weights at compile time. With a stride,
the pixels read are first made contiguous (`pointwise.strided_pixels`).

Left to `dot_convolution`: targets without dot products of the dtype, bytes whose sign bits would be flipped, bfloat16
on targets with tiles, non-constant weights, and cases that `pointwise` rejects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from .....runtime.records import dataclass
from .....target import Target
from .....tir import PrimFunc, Stmt
from ....rule import PackedFunction, Refusal, ScheduleRule
from ....space import Space
from ...large_sums import number_sum
from ...products.dot_operands import WORD
from ...tile.division import tile_for
from ...tile.words import Words, bits_view
from ..dots import words_of
from ..packed_weights import Declare, packed_kernels
from ..windows import Kernel
from .operands import Pixels, WeightBlocks
from .pointwise import PointwiseParameters, pixels_of, space_of_pixels, writer_for
from .strided_pixels import with_neighbours

Array: TypeAlias = "np.ndarray[Any, Any]"


class WordPixels(ScheduleRule):
    """Schedule rule for pointwise convolutions of bfloat16 or bytes."""

    parameters = PointwiseParameters()

    def space(self, target: Target) -> Space[PointwiseParameters]:
        """Return the loop forms, and the shapes of tiles."""
        return space_of_pixels(target)

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        """Return the function for weights packed as its tiles read them."""

        def write(kernel: Kernel, found: tuple[Words, Pixels], declare: Declare) -> Stmt:
            del kernel
            words, pixels = found

            def loops(pixels: Pixels) -> Stmt:
                writer = writer_for(pixels, target, words, self.parameters)
                packing = WordBlocks(writer.packing(), words)
                return writer.loops(declare(packing, packing.blocks.shape, "int32", "words"))

            bits = replace(pixels, source=bits_view(pixels.source))
            return with_neighbours(bits, tile_for(target, WORD).lanes, loops)

        return packed_kernels(func, constants, lambda kernel: _words_and_pixels(kernel, target), write, number_sum)


def _words_and_pixels(kernel: Kernel, target: Target) -> tuple[Words, Pixels] | Refusal:
    words, pixels = words_of(kernel.windows, target, corrected=False), pixels_of(kernel)
    if not words:
        return words
    if not pixels:
        return pixels
    if words.kind not in target.machine.dot_products:
        return Refusal(f"the target has no instruction for {words.kind} dot products")
    return words, pixels


@dataclass(frozen=True)
class WordBlocks:
    """Packing of weights (outputs, inputs, 1 …) into groups of consecutive inputs, in blocks that tiles read."""

    blocks: WeightBlocks
    words: Words

    def __call__(self, array: Array) -> Array:
        matrix = np.reshape(array, (*array.shape[:2], 1))
        return self.blocks(self.words.packed(matrix)[..., 0])
