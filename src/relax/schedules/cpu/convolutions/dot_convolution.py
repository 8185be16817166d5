"""Channels-first convolutions of narrow dtypes by dot products of packed groups (see `tile.words`).

    for n, co, h, w, ci, i, j in T.grid(…):         P[n, w, :] = words of channels 4 * w … 4 * w + 3 of the padded image
        with T.block("conv"):                       U[co, w, i, j] = words of W[co, 4 * w … 4 * w + 3, i, j]
            with T.init(): C[n, co, h, w] = 0       …                                             as in `direct_loops`
            C[n, co, h, w] += W[…] * X[…]               acc[p, :] = T.dot_u8s8(acc[p, :], P[n, w, at + :], U[co + p, …])

The loops are those of `direct_loops`, with packed groups (words) in place of elements. Constant weights are packed at
compile time. If the sign bits of the data are flipped, so are those of the padding.

Not supported: dtypes without dot products, groups whose channels do not fill packed groups, fewer than two input
channels per group, and cases that `direct` rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ....prim import LT, IntImm, PrimExpr, Select, Var, const, is_const, simplify
from ....prim.instructions import TILE_ROWS, TILE_WORDS, tile_dot
from ....prim.intrin import address_of, floordiv, floormod
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, BufferLoad, BufferStore, Evaluate, ForKind, PrimFunc, Stmt
from ...build import alloc, block, let, loop, scratch, size_of, spread, vector_store
from ...rule import PackedFunction, Refusal, ScheduleRule
from ..large_sums import number_sum
from ..tile.division import Tile, tile_for
from ..tile.words import Words, bits_view, declared
from .direct_loops import Direct
from .dots import words_of
from .packed_weights import Declare, packed_kernels
from .planes import Planes, Sizes
from .windows import Kernel, Windows, rewritten_kernels

Array: TypeAlias = "np.ndarray[Any, Any]"

WORD: Final = 32
"""Bits of a packed group and of an accumulator."""
TILE_BITS: Final = WORD * TILE_WORDS
"""Bits of each output channel consumed by one step of a tile (matrix) instruction."""
LEAST_ROWS: Final = 12
"""Fewest output channels for which tile instructions pay."""


class DotConvolution(ScheduleRule):
    """Schedule rule for convolutions of narrow dtypes."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable

        def rewrite(kernel: Kernel) -> Stmt | Refusal:
            words = _words_of(kernel.windows, target)
            return _Writer(kernel, words, target, None).kernel() if words else words

        return rewritten_kernels(func, rewrite, number_sum)

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:

        def recognised(kernel: Kernel) -> tuple[Words, list[int]] | Refusal:
            weights, words = kernel.windows.weight.buffer, _words_of(kernel.windows, target)
            shape = [size.value for size in weights.shape if isinstance(size, IntImm)]
            if words and len(shape) != weights.ndim:
                return Refusal("the weights have a dynamic shape")
            return (words, shape) if words else words

        def write(kernel: Kernel, found: tuple[Words, list[int]], declare: Declare) -> Stmt:
            words, shape = found
            packing = TapWords(words)
            packed = declare(packing, packing.shape(shape), "int32", "words")
            return _Writer(kernel, words, target, packed).kernel()

        return packed_kernels(func, constants, recognised, write, number_sum)


def _words_of(windows: Windows, target: Target) -> Words | Refusal:
    """Return the packed groups for a convolution that the rule supports."""
    inputs = windows.inputs
    if windows.depth is None or is_const(inputs, 1):
        return Refusal("there is a single input channel per group")
    words = words_of(windows, target, in_tiles=_fills_tiles(windows))
    if not words or not windows.is_grouped:
        return words
    if not isinstance(inputs, IntImm) or inputs.value % words.group:
        return Refusal(f"the input channels of a group do not fill packed groups of {words.group}")
    return words


def _fills_tiles(windows: Windows) -> bool:
    """True for bfloat16 convolutions that leave little of the hardware tiles empty.

    int8 does not pay: tiles store their accumulators to memory once per tap, while dot products keep them in registers.
    """
    inputs, outputs = windows.inputs, windows.channels
    if windows.data.dtype != "bfloat16":
        return False
    if windows.is_grouped or not isinstance(inputs, IntImm) or not isinstance(outputs, IntImm):
        return False
    bits = inputs.value * windows.data.dtype.bits
    return bits * 2 >= -(-bits // TILE_BITS) * TILE_BITS and _rows_of_tiles(outputs.value) >= LEAST_ROWS


def _rows_of_tiles(outputs: int) -> int:
    """Most output channels per tile instruction that divide the number of output channels."""
    return max(count for count in range(1, TILE_ROWS + 1) if outputs % count == 0)


@dataclass(frozen=True)
class TapWords:
    """Packing of weights (outputs, inputs, taps …) into groups (outputs, groups, taps …), followed by corrections if
    any.

    The correction of an output channel is stored at its first tap. For tile instructions the layout is (outputs, taps
    …, groups).
    """

    words: Words

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        outputs, inputs, *taps = shape
        if self.words.in_tiles:
            return outputs, *taps, -(-inputs // (self.words.group * TILE_WORDS)) * TILE_WORDS
        return outputs, -(-inputs // self.words.group) + bool(self.words.correction), *taps

    def __call__(self, array: Array) -> Array:
        outputs, _, *taps = array.shape
        words = self.words.packed(np.reshape(array, (*array.shape[:2], -1)))
        result = np.reshape(words, (outputs, -1, *taps))
        if self.words.in_tiles:
            return np.ascontiguousarray(np.moveaxis(result, 1, -1))
        if self.words.correction:
            sums = words[:, -1].astype(np.int64).sum(axis=-1).astype(np.int32)
            result[(slice(None), -1, *(0 for _ in taps))] = sums
        return result


class WordPlanes(Planes):
    """Padded copy of the data in packed groups of consecutive channels."""

    def __init__(self, windows: Windows, tile: Tile, sizes: Sizes, words: Words) -> None:
        self.words = words
        super().__init__(windows, tile, sizes)
        self.bits = bits_view(windows.data)

    def _stored(self, outer: Sequence[PrimExpr], start: PrimExpr, plane: Buffer) -> PrimExpr:
        del plane
        place, axis = len(self.windows.batch), self.windows.axes[-1]
        *batch, word = outer[: place + 1]

        def number(channel: PrimExpr) -> PrimExpr:
            return self._elements(self.bits, [*batch, channel, *outer[place + 1 :]], start, axis)

        return self.words.word(
            [self._below(word * self.words.group + g, number) for g in range(self.words.group)], True
        )

    def _shape(self, tile: Tile) -> tuple[int, int]:
        outputs = self.windows.channels
        if not self.words.in_tiles or not isinstance(outputs, IntImm):
            return super()._shape(tile)
        return _rows_of_tiles(outputs.value), max(2 * TILE_ROWS // tile.lanes, 1)

    def _below(self, channel: PrimExpr, number: Callable[[PrimExpr], PrimExpr]) -> PrimExpr:
        """Elements of a channel; zeros past the last channel."""
        inputs = simplify(self.windows.inputs * self.windows.groups)
        if is_const(simplify(floormod(inputs, self.words.group * self.words.step)), 0):
            return number(simplify(channel))
        numbers = number(minimum(channel, inputs - 1))
        zero = spread(const(0, str(numbers.dtype.element_of)), self.lanes)
        return Select(spread(LT(channel, inputs), self.lanes), numbers, zero)

    def _zeros(self, plane: Buffer) -> PrimExpr:
        return spread(const(self.words.filling, str(plane.dtype)), self.lanes)


class _Writer(Direct):
    """Writes the loops of one convolution."""

    def __init__(self, kernel: Kernel, words: Words, target: Target, packed: Buffer | None) -> None:
        self.words = words
        super().__init__(kernel, tile_for(target, WORD), target.machine.caches.l2)
        self.inputs, self.stored = words.count(self.windows.inputs), "int32"
        self.weights = packed

    def _planes(self, tile: Tile) -> Planes:
        return WordPlanes(self.windows, tile, self.sizes, self.words)

    def kernel(self) -> Stmt:
        """Pack the weights unless they are constant, then run the loops of the direct convolution."""
        if self.weights is not None:
            return self._with_data(super().kernel())
        weight = self.windows.weight.buffer
        bits = bits_view(weight)
        outputs, *_ = weight.shape
        taps = [axis.taps for axis in self.windows.axes]
        count = simplify(self.inputs + bool(self.words.correction))
        shape = (outputs, *taps, count) if self.words.in_tiles else (outputs, count, *taps)

        def body(buffer: Buffer) -> Stmt:
            self.weights = buffer
            made = self._weight_words(bits, buffer, taps)
            return block([declared([(bits, weight)], made), super(_Writer, self).kernel()])

        return self._with_data(scratch("weight_words", shape, "int32", body))

    def _with_data(self, body: Stmt) -> Stmt:
        """Wrap `body` in the view of the data that it reads."""
        planes = self.planes
        assert isinstance(planes, WordPlanes)
        return declared([(planes.bits, self.windows.data)], body)

    def _weight_words(self, bits: Buffer, words: Buffer, taps: Sequence[int]) -> Stmt:
        """Pack the weights and compute their corrections."""
        group, inputs = self.words.group, self.windows.inputs

        def each_tap(body: Callable[[list[PrimExpr]], Stmt], at: list[PrimExpr]) -> Stmt:
            if len(at) == len(taps):
                return body(at)
            return loop(f"k{len(at)}", taps[len(at)], lambda k: each_tap(body, [*at, k]))

        def each_word(body: Callable[[Var, list[PrimExpr]], Stmt]) -> Stmt:
            return loop("w", self.inputs, lambda w: each_tap(lambda at: body(w, at), []))

        def channel(co: Var) -> Stmt:
            def word(w: Var, at: list[PrimExpr]) -> Stmt:
                value = self.words.word_below(lambda ci: BufferLoad(bits, (co, ci, *at)), w * group, inputs, False)
                return BufferStore(words, value, (co, *at, w) if self.words.in_tiles else (co, w, *at))

            stmts = [each_word(word)]
            if self.words.correction:
                stmts.append(alloc("sums", (1,), "int32", "local", lambda sums: correction(co, sums)))
            return block(stmts)

        def correction(co: Var, sums: Buffer) -> Stmt:
            zero = const(0, "int64")
            total = BufferLoad(sums, (zero,))

            def add(w: Var, at: list[PrimExpr]) -> Stmt:
                return BufferStore(sums, self.words.corrected(BufferLoad(words, (co, w, *at)), total), (zero,))

            corrected = total * self.words.scale_of_correction()
            place = (co, self.inputs, *(zero for _ in taps))
            return block([
                BufferStore(sums, const(0, "int32"), (zero,)), each_word(add), BufferStore(words, corrected, place),
            ])  # fmt: skip

        return loop("co", size_of(self.windows.channel), channel, ForKind.PARALLEL)

    # ------------------------------------------------------------------ sums of words

    def _first_sum(self, channel: PrimExpr) -> PrimExpr:
        if not self.words.correction:
            return spread(const(0, self.words.sums), self.lanes)
        assert self.weights is not None
        zeros = [const(0, "int64")] * len(self.windows.axes)
        return spread(BufferLoad(self.weights, (channel, self.inputs, *zeros)), self.lanes)

    def _weight(self, channel: PrimExpr, ci: PrimExpr, taps: Sequence[PrimExpr]) -> PrimExpr:
        assert self.weights is not None
        return BufferLoad(self.weights, (channel, ci, *taps))

    def _sum(self, total: PrimExpr, weight: PrimExpr, data: PrimExpr) -> PrimExpr:
        return self.words.add(total, data, weight)

    # ------------------------------------------------------------------ tiles of the machine

    def _panel(
        self, plane: Buffer, batch: list[PrimExpr], g: PrimExpr, channel: Callable[[PrimExpr], PrimExpr], base: Var
    ) -> Stmt:
        if not self.words.in_tiles:
            return super()._panel(plane, batch, g, channel, base)
        zero = spread(const(0, self.dtype), self.lanes)

        def whole(sums: Buffer) -> Stmt:
            cleared = loop("p", self.height, lambda p: loop(
                "v", self.vectors, lambda v: vector_store(sums, (p, v * self.lanes), zero)))  # fmt: skip
            added = self._tap_products(plane, batch, channel(const(0, "int64")), base, sums, [])
            return block([cleared, added, self._results(sums, batch, channel, base)])

        return scratch("results", (self.height, self.width), self.dtype, whole)

    def _tap_products(
        self, plane: Buffer, batch: list[PrimExpr], channel: PrimExpr, base: Var, sums: Buffer, taps: list[PrimExpr]
    ) -> Stmt:  # fmt: skip
        """Accumulate the products of all taps by tile instructions: weight groups by plane positions."""
        axes = self.windows.axes
        if len(taps) < len(axes):
            if axes[len(taps)].taps == 1:
                return self._tap_products(plane, batch, channel, base, sums, [*taps, const(0, "int64")])
            return loop(f"k{len(taps)}", axes[len(taps)].taps, lambda k: self._tap_products(
                plane, batch, channel, base, sums, [*taps, k]))  # fmt: skip
        assert self.weights is not None
        row = self.inputs
        for axis in axes:
            row = row * axis.taps
        zero, weights = const(0, "int64"), self.weights
        steps = simplify(floordiv(self.inputs, TILE_WORDS))

        def product(at: Var) -> Stmt:
            return block(
                Evaluate(tile_dot(
                    self.words.kind,
                    address_of(BufferLoad(sums, (zero, const(start, "int64")))), self.width,
                    address_of(BufferLoad(weights, (channel, *taps, zero))), simplify(row),
                    address_of(BufferLoad(plane, (*batch, zero, at + start))), self.planes.size,
                    self.height, min(TILE_ROWS, self.width - start), steps,
                ))
                for start in range(0, self.width, TILE_ROWS)
            )  # fmt: skip

        return let("at", simplify(self.planes.tap(taps) + base), product)
