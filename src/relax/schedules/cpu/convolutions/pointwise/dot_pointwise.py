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
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from .....target import Target
from .....tir import PrimFunc, Stmt
from ....rule import PackedFunction, ScheduleRule
from ...products.dot_operands import WORD
from ...products.operands import is_large_sum
from ...tile.division import tile_for
from ...tile.words import Words, bits_view, words_for
from ..packed_weights import Declare, packed_kernels
from ..windows import Kernel, Windows
from .operands import Pixels, WeightBlocks
from .pointwise import pixels_of, writer_for
from .strided_pixels import with_neighbours

Array: TypeAlias = "np.ndarray[Any, Any]"


class WordPixels(ScheduleRule):
    """Schedule rule for pointwise convolutions of bfloat16 or bytes."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del func, target, tunable
        return None

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | None:
        """Return the function for weights packed as its tiles read them."""

        def write(kernel: Kernel, declare: Declare) -> Stmt | None:
            words, pixels = _words_of(kernel.windows, target), pixels_of(kernel)
            if words is None or pixels is None:
                return None

            def loops(pixels: Pixels) -> Stmt:
                writer = writer_for(pixels, target, words)
                packing = WordBlocks(writer.packing(), words)
                return writer.loops(declare(packing, packing.blocks.shape, "int32", "words"))

            bits = replace(pixels, source=bits_view(pixels.source))
            return with_neighbours(bits, tile_for(target, WORD).lanes, loops)

        return packed_kernels(func, constants, write, is_large_sum)


def _words_of(windows: Windows, target: Target) -> Words | None:
    if target.machine.vector_bits < 128:
        return None
    words = words_for(target, windows.data.dtype, windows.weight.buffer.dtype, windows.out.buffer.dtype)
    if words is None or words.kind not in target.machine.dot_products:
        return None
    return None if words.correction else words


@dataclass(frozen=True)
class WordBlocks:
    """Packing of weights (outputs, inputs, 1 …) into groups of consecutive inputs, in blocks that tiles read."""

    blocks: WeightBlocks
    words: Words

    def __call__(self, array: Array) -> Array:
        matrix = np.reshape(array, (*array.shape[:2], 1))
        return self.blocks(self.words.packed(matrix)[..., 0])
