"""int8/uint8 convolutions with channels-last data or results and constant weights.

    for n, co, h, w, ci, i, j in T.grid(…):             for n, some pixels in T.parallel(…):
        with T.block("conv"):                               for jo in blocks of 32 channels, t in tiles of 7 pixels:
            C[n, h, w, co] += W[co, ci, i, j] * X[…]            for i, j, k in T.grid(3, 3, CI // 4):   S in registers
                                                                    S[p, :] = T.dot_u8s8(S[p, :], word, U[jo, …, :])
                                                                C[n, h, w, jo * 32 + …] = f(S[p, :])

A packed group (`tile.words`) is four consecutive input channels of a pixel, which are contiguous in memory, so tiles
read the data in place. Vectors are output channels, so results are stored directly from registers. Padded data are
copied row by row. Channels-first data are transposed while they are copied, channels-first results after all are
computed.

Left to other rules: functions without a channels-last parameter. `BytePixels.images` says which convolutions gain from
such parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import gcd, prod
from typing import Any, Final, TypeAlias

import numpy as np

from ....prim import LT, And, IntImm, PrimExpr, Select, Var, const, is_const, simplify
from ....prim.intrin import ceildiv, floordiv
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import (
    AllocBuffer,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
)
from ....tir.buffer import decl_buffer
from ....tir.permuted_parameters import PermutedAccesses
from ...build import block, int64, let, loop, named, ramp, scratch, size_of, spread, vector_load, vector_store
from ...rule import PackedFunction, Refusal, ScheduleRule
from ..large_sums import number_sum
from ..products.operands import Results, ResultStore
from ..tile import RegisterTile, register_tile, row_at
from ..tile.division import tile_for
from ..tile.transposes import transposed_square
from ..tile.words import Words
from .chains.chain import kernels_of
from .chains.channels_last import Images, images_at, own_accesses, with_channels_first
from .dots import byte_words_of
from .packed_weights import Declare, packed_kernels
from .planes import Sizes, digits
from .pointwise.operands import WeightBlocks
from .pointwise.pointwise import Merged, finished, merged_pixels
from .windows import Axis, Kernel

Array: TypeAlias = "np.ndarray[Any, Any]"
Pixel: TypeAlias = "tuple[PrimExpr, PrimExpr]"

VECTORS: Final = 2
"""Vectors of output channels of a register tile."""
WORD: Final = 32
"""Bits of a packed group."""
HIGH: Final = 7
"""Most pixels of a register tile: enough accumulators to hide the latency, within the address registers available."""
LOW: Final = 4
"""Most pixels of a tile for short reductions: the next tile multiplies while the epilogue of the last one runs."""
SHALLOW: Final = 128
"""Most packed groups of a short reduction."""
LINE: Final = 64
"""Most bytes copied at a time."""
SQUARE: Final = 16
"""Channels and pixels of a register transpose."""
WEIGHTS: Final = 4096
"""Least product of input and output channels for which images are moved."""
PIXELS: Final = 2
"""Least number of result pixels for which images are moved, if that is static."""
LAST: Final = (0, 2, 1)
"""Axis permutation of (batch, channels, pixels) to channels-last."""


class BytePixels(ScheduleRule):
    """Schedule rule for channels-last convolutions of bytes."""

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        """Return the function for weights packed as its tiles read them."""
        usual, last = with_channels_first(func)
        if not last:
            return Refusal("no parameter is channels-last", unrelated=True)

        def recognised(kernel: Kernel) -> tuple[Words, Merged] | Refusal:
            found = _recognised(kernel, target)
            if found and not _is_beside(found[1], last):
                return Refusal("the epilogue reads an image that is not channels-last")
            return found

        def write(kernel: Kernel, found: tuple[Words, Merged], declare: Declare) -> Stmt:
            words, merged = found
            writer = _Writer(kernel, merged, words, target, last)
            packing = writer.packing
            return writer.kernel(declare(packing, packing.blocks.shape, "int32", "words"))

        packed = packed_kernels(usual, constants, recognised, write, number_sum)
        if isinstance(packed, Refusal):
            return packed
        changed = packed.func
        buffers = {param: last.get(buffer, buffer) for param, buffer in changed.buffer_map.items()}
        changed = changed.replace(buffer_map=buffers, body=own_accesses(last).visit(changed.body))
        return replace(packed, func=changed)

    def images(self, func: PrimFunc, target: Target) -> Images | Refusal:
        """Return the parameters of a convolution of bytes that pays if they are channels-last."""
        kernels = kernels_of(func)
        if len(kernels) != 1:
            return Refusal("the function is not one convolution, with an elementwise epilogue")
        (kernel,) = kernels
        windows, found, params = kernel.windows, _recognised(kernel, target), list(func.buffer_map.values())
        if not found:
            return found
        store, _ = finished(kernel)
        beside = images_at(store, params)
        if windows.data not in params or store.buffer not in params or windows.data in beside:
            return Refusal("the data or the result are no parameters of their own")
        if not _pays(kernel):
            return Refusal("there are too few weights or pixels")
        return Images(windows.data, store.buffer, beside, (windows.weight.buffer,))


def _pays(kernel: Kernel) -> bool:
    """True unless there are few weights, or statically few pixels."""
    windows = kernel.windows
    inputs, channels = windows.inputs, windows.channels
    assert isinstance(inputs, IntImm)
    assert isinstance(channels, IntImm)
    sizes = [size_of(v) for v in windows.batch] + [axis.size for axis in windows.axes]
    known = [size.value for size in sizes if isinstance(size, IntImm)]
    is_small = len(known) == len(sizes) and prod(known) < PIXELS
    return inputs.value * channels.value >= WEIGHTS and not is_small


def _recognised(kernel: Kernel, target: Target) -> tuple[Words, Merged] | Refusal:
    """Return the packed groups and the store of a convolution that the rule supports, whatever its layout."""
    windows, merged = kernel.windows, merged_pixels(kernel)
    channels, words = windows.channels_of_group(2), byte_words_of(windows, target)
    if not channels:
        return channels
    if not words:
        return words
    if not merged:
        return merged
    if len(windows.axes) != 2 or len(windows.batch) != 1:
        return Refusal("there are not two pixel dimensions and one batch dimension")
    if channels[0] % SQUARE or channels[1] % (2 * SQUARE):
        return Refusal(f"channels do not fill packed groups and vectors: multiples of {SQUARE} and {2 * SQUARE}")
    return words, merged


def _is_beside(merged: Merged, last: Mapping[Buffer, Buffer]) -> bool:
    """True if all image operands of the epilogue are channels-last."""
    own, written = {first.data for first in last}, merged.store.buffer.data
    views = [view for view in merged.views if view.data is not written]
    return all(view.ndim == len(LAST) and view.data in own for view in views)


@dataclass(frozen=True)
class PixelBlocks:
    """Packing of weights (outputs, inputs, taps …) into groups of consecutive inputs per tap, in blocks that tiles
    read.
    """

    blocks: WeightBlocks
    words: Words

    def __call__(self, array: Array) -> Array:
        taps = np.moveaxis(np.reshape(array, (*array.shape[:2], -1)), 0, -1)  # inputs, taps, outputs
        matrix = self.words.packed(np.moveaxis(taps, 0, 1))
        return self.blocks(np.ascontiguousarray(np.transpose(np.reshape(matrix, (-1, len(array))))))


@dataclass(frozen=True)
class _Data:
    """Data as tiles read them: Buffer[n, y, x, c], padded, and the strides of pixels."""

    buffer: Buffer
    strides: tuple[int, int]


class _Writer:
    """Writes the loops of one convolution."""

    def __init__(
        self, kernel: Kernel, merged: Merged, words: Words, target: Target, last: Mapping[Buffer, Buffer]
    ) -> None:
        self.windows, self.merged, self.words = kernel.windows, merged, words
        self.last, self.sizes = last, Sizes()
        inputs, channels = self.windows.inputs, self.windows.channels
        assert isinstance(inputs, IntImm)
        assert isinstance(channels, IntImm)
        self.inputs, self.channels = inputs.value, channels.value
        self.lanes = tile_for(target, WORD).lanes
        self.width = VECTORS * self.lanes
        self.taps = [axis.taps for axis in self.windows.axes]
        self.depth = prod(self.taps) * (self.inputs // words.group)
        fitting = (target.machine.vector_registers - VECTORS - 2) // VECTORS
        self.most = min(fitting, LOW if self.depth <= SHALLOW else HIGH)
        """Most pixels of a tile: registers hold its accumulators, the weight vectors and one broadcast group."""
        self.packing = PixelBlocks(WeightBlocks(self.channels, self.depth, self.width, True), words)
        self.images = size_of(self.windows.batch[0])
        self.cores, self.cache = target.num_cores, target.machine.caches.l2
        self.count = self.sizes.named("count", merged.count)
        """Pixels of a result image."""
        self.is_flat = all(axis.taps == axis.stride == 1 for axis in self.windows.axes) and self.windows.padding is None
        """True if each pixel of the result reads exactly the same pixel of the data (1×1, stride 1, unpadded)."""
        self._set_tiles()

    def _set_tiles(self) -> None:
        """Divide the pixels of an image among tiles of two heights, and tiles among tasks."""
        count, named = self.count, self.sizes.named
        if isinstance(count, IntImm):
            number = max(-(-count.value // self.most), 1)
            self.high = max(-(-count.value // number), 1)
        else:
            self.high = self.most
        self.low = max(self.high - 1, 1)
        self.tiles = named("tiles", ceildiv(count, self.high))
        tall = maximum(minimum(count - self.tiles * self.low, self.tiles), int64(0))
        self.tall = named("tall", tall)
        """Number of tiles of the greater height, which come first."""
        together = max(self._pixels_of_task() // self.high, 1)
        self.tasks = named("tasks", ceildiv(self.tiles, together))
        self.share = named("share", ceildiv(self.tiles, maximum(self.tasks, int64(1))))
        """Tiles of a task."""

    def _pixels_of_task(self) -> int:
        """Number of pixels whose data and results fit part of the L2 cache beside the weights."""
        weights = self.depth * self.channels * self.words.group
        part = 4 if weights <= self.cache // 4 else 2
        return self.cache // part // (self.inputs + self.channels)

    # ------------------------------------------------------------------ all images

    def kernel(self, weights: Buffer) -> Stmt:
        """Return the copy of the data (if needed), the parallel loop over tasks, and the transpose of the results (if
        needed).
        """
        accesses: dict[Buffer, tuple[Buffer, tuple[int, ...]]] = {}
        own = {first.data: buffer for first, buffer in self.last.items()}
        views: list[Buffer] = []
        memory = written = self.merged.store.buffer
        for view in self.merged.views:
            shape = tuple(view.shape[axis] for axis in LAST)
            if view.data in own:
                there = decl_buffer(shape, str(view.dtype), f"{view.name}_last", data=own[view.data].data)
                views.append(there)
            else:
                memory = decl_buffer(shape, str(view.dtype), "results_memory")
                there = decl_buffer(shape, str(view.dtype), "results", data=memory.data)
            accesses[view] = there, LAST
        store = PermutedAccesses(accesses).visit(self.merged.store)
        assert isinstance(store, BufferStore)
        self.finish = ResultStore(self.merged.pixel, self.windows.channel.var, store, self.merged.total)
        result = self._with_data(lambda data: self._tasks(data, weights))
        if written.data not in own:
            turned = block([result, DeclBuffer(written, self._turned(store.buffer, written))])
            result = AllocBuffer(memory, DeclBuffer(store.buffer, turned))
        for view in views:
            result = DeclBuffer(view, result)
        for table in self.merged.tables:
            result = AllocBuffer(table.buffer, block([table.filled(self.channels, self.lanes), result]))
        result = self.sizes.around(result)
        for name, value in reversed(self.merged.names):
            result = LetStmt(name, value, result)
        return result

    def _tasks(self, data: _Data, weights: Buffer) -> Stmt:
        """Return the parallel loop over images, groups of tiles and groups of channel blocks."""
        blocks = self.channels // self.width
        groups = self._groups(blocks)
        share = -(-blocks // groups)
        radix = [("n", self.images), ("task", self.tasks), ("group", int64(groups))]

        def task(at: list[PrimExpr]) -> Stmt:
            n, number, group = at
            first = simplify(number * self.share)
            tiles = simplify(maximum(minimum(self.share, self.tiles - first), int64(0)))
            own = simplify(minimum(int64(share), blocks - group * share))
            return named("tiles_of_task", tiles, lambda tiles: loop("j", own, lambda j: let(
                "jo", simplify(minimum(group * share + j, int64(blocks - 1))), lambda jo: loop(
                    "t", tiles, lambda t: self._tile_of(data, weights, n, jo, simplify(first + t))))))  # fmt: skip

        total = simplify(self.images * self.tasks * groups)
        return loop("flat", total, lambda flat: digits(flat, radix, task), ForKind.PARALLEL)

    def _groups(self, blocks: int) -> int:
        """Number of groups of channel blocks: one, unless there are fewer tasks than cores."""
        if self.cores == 1 or (isinstance(self.tasks, IntImm) and self.tasks.value >= 2 * self.cores):
            return 1
        return max(min(2 * self.cores, blocks // 2), 1)

    # ------------------------------------------------------------------ data

    def _with_data(self, body: Callable[[_Data], Stmt]) -> Stmt:
        """Call `body` with padded channels-last data: the original buffer, or a copy."""
        windows = self.windows
        source = self.last.get(windows.data)
        dtype, pitch = str(windows.data.dtype), self.inputs
        if source is not None and windows.padding is None:
            if not self.is_flat:
                rows, columns = (axis.stride for axis in windows.axes)
                return body(_Data(source, (rows, columns)))
            shape = (self.images, int64(1), self.count, int64(pitch))
            view = decl_buffer(shape, dtype, f"{source.name}_flat", data=source.data)
            return DeclBuffer(view, body(_Data(view, (1, 1))))
        rows, columns = windows.axes
        height, width = (self.sizes.named(name, _reached(axis)) for name, axis in (("height", rows), ("line", columns)))
        if self.is_flat:
            shape = (self.images, int64(1), self.count, int64(pitch))
        else:
            shape = (self.images, height, width, int64(pitch))

        def copied(buffer: Buffer) -> Stmt:
            lines = decl_buffer((self.images, height, width, int64(pitch)), dtype, "lines", data=buffer.data)
            radix = [("n", self.images), ("y", height)]
            copies = loop("line", simplify(self.images * height), lambda flat: digits(
                flat, radix, lambda at: self._line(lines, source, at[0], at[1])), ForKind.PARALLEL)  # fmt: skip
            strides = (1, 1) if self.is_flat else (rows.stride, columns.stride)
            return block([DeclBuffer(lines, copies), body(_Data(buffer, strides))])

        return scratch("padded", shape, dtype, copied)

    def _line(self, lines: Buffer, source: Buffer | None, n: PrimExpr, y: PrimExpr) -> Stmt:
        """Copy a row of pixels with zero padding; rows outside the image are zeros."""
        rows, columns = self.windows.axes
        width = lines.shape[2]
        before = simplify(minimum(columns.before, width))
        inside = simplify(maximum(minimum(columns.extent, width - before), int64(0)))
        lanes = gcd(self.inputs, LINE)
        zero = spread(const(0, str(lines.dtype)), lanes)

        def zeros(first: PrimExpr, count: PrimExpr) -> Stmt:
            return loop("x", simplify(count), lambda x: loop("c", self.inputs // lanes, lambda c: vector_store(
                lines, (n, y, simplify(first + x), c * lanes), zero)))  # fmt: skip

        def pixel(own: Buffer, row: PrimExpr, x: Var) -> Stmt:
            return loop("c", self.inputs // lanes, lambda c: vector_store(
                lines, (n, y, simplify(before + x), c * lanes),
                vector_load(own, (n, row, x, c * lanes), lanes)))  # fmt: skip

        def copied(row: PrimExpr) -> Stmt:
            if source is None:
                own = self._squares(lines, (n, y, before), row, inside)
            else:
                own = loop("x", inside, partial(pixel, source, row))
            end = simplify(before + inside)
            return block([zeros(int64(0), before), own, zeros(end, simplify(width - end))])

        return let("row", simplify(y - rows.before), lambda row: IfThenElse(
            And(row >= 0, row < rows.extent), copied(row), zeros(int64(0), width)))  # fmt: skip

    def _squares(
        self, lines: Buffer, place: tuple[PrimExpr, PrimExpr, PrimExpr], row: PrimExpr, inside: PrimExpr
    ) -> Stmt:
        """Copy a row of channels-first data by register transposes."""
        n, y, before = place
        data, extent = self.windows.data, self.windows.axes[1].extent

        def square(cb: Var, xb: Var) -> Stmt:
            x, c = xb * SQUARE, cb * SQUARE
            mask = LT(ramp(x, SQUARE), spread(extent, SQUARE))

            def stored(p: PrimExpr, vector: PrimExpr) -> Stmt:
                at = (n, y, simplify(before + x + p), c)
                return IfThenElse(x + p < inside, vector_store(lines, at, vector))

            return transposed_square(SQUARE, str(data.dtype), lambda p: vector_load(
                data, (n, c + p, row, x), SQUARE, mask), stored)  # fmt: skip

        return loop("xb", simplify(ceildiv(inside, SQUARE)), lambda xb: loop(
            "cb", self.inputs // SQUARE, lambda cb: square(cb, xb)))  # fmt: skip

    # ------------------------------------------------------------------ tiles

    def _tile_of(self, data: _Data, weights: Buffer, n: PrimExpr, jo: Var, t: PrimExpr) -> Stmt:
        """Compute tile `t`, which has one of two heights."""

        def at(t: PrimExpr) -> Stmt:
            tall = self._tile(data, weights, n, jo, simplify(t * self.high), self.high)
            if is_const(simplify(self.tall - self.tiles), 0):
                return tall
            first = simplify(t * self.low + self.tall)
            low = self._tile(data, weights, n, jo, first, self.low)
            return IfThenElse(t < self.tall, tall, low)

        return named("tile", t, at)

    def _tile(self, data: _Data, weights: Buffer, n: PrimExpr, jo: Var, first: PrimExpr, height: int) -> Stmt:
        """Accumulate a tile, apply the epilogue and store it."""
        exact = isinstance(self.count, IntImm) and self.count.value == (
            self._value(self.tall) * self.high + (self._value(self.tiles) - self._value(self.tall)) * self.low
        )
        width = self.width

        def tile(first: PrimExpr, pixels: Sequence[Buffer]) -> Stmt:
            at = {self.windows.batch[0].var: n, self.finish.row: first, self.finish.column: simplify(jo * width)}
            inside = int64(height) if exact else simplify(
                maximum(minimum(int64(height), self.count - first), int64(0)))  # fmt: skip

            def of_height(inside: PrimExpr) -> Stmt:
                result = Results(self.finish, at, inside, int64(width))
                return result.declared(self._registers(height, lambda tile: block([
                    tile.cleared(),
                    self._sums(tile, weights, jo, pixels),
                    self._stored(tile, result, None if exact else inside)])))  # fmt: skip

            return named("inside", inside, of_height)

        return named("first", first, lambda first: self._places(data, n, first, height, exact, lambda pixels: tile(
            first, pixels)))  # fmt: skip

    def _value(self, number: PrimExpr) -> int:
        assert isinstance(number, IntImm)
        return number.value

    def _places(
        self, data: _Data, n: PrimExpr, first: PrimExpr, height: int, exact: bool,
        body: Callable[[Sequence[Buffer]], Stmt],
    ) -> Stmt:  # fmt: skip
        """Call `body` with a view Buffer[i, j, c] of the window of each pixel of a tile, so that bounds are checked
        once.
        """
        rows, columns = self.windows.axes
        _, height_, line, pitch = data.buffer.shape
        steps = (simplify(line * pitch * rows.dilation), simplify(pitch * columns.dilation), int64(1))
        shape = (*(int64(taps) for taps in self.taps), pitch)

        def view(y: PrimExpr, x: PrimExpr) -> Buffer:
            place = ((n * height_ + y * data.strides[0]) * line + x * data.strides[1]) * pitch
            return decl_buffer(shape, str(data.buffer.dtype), "pixel", data=data.buffer.data, strides=steps,
                               elem_offset=simplify(place))  # fmt: skip

        def declared(places: Sequence[Pixel]) -> Stmt:
            views = [view(y, x) for y, x in places]
            result = body(views)
            for pixel in reversed(views):
                result = DeclBuffer(pixel, result)
            return result

        last = self.count - 1
        if self.is_flat:
            return declared([(int64(0), simplify(first + p if exact else minimum(first + p, last)))
                             for p in range(height)])  # fmt: skip
        return self._pixels(first, height, declared)

    def _pixels(self, first: PrimExpr, height: int, body: Callable[[Sequence[Pixel]], Stmt]) -> Stmt:
        """Call `body` with the (row, column) of each pixel of a tile; pixels past the last row are clamped to it."""
        rows, columns = self.windows.axes
        size = columns.size
        divisor = size if isinstance(size, IntImm) else maximum(size, int64(1))

        def behind(places: list[Pixel], y: PrimExpr, x: PrimExpr) -> Stmt:
            places = [*places, (simplify(minimum(y, rows.size - 1)), x)]
            if len(places) == height:
                return body(places)
            ends = x + 1 < size
            return let("x", minimum(Select(ends, x + 1, int64(0)), size - 1), lambda x: let(
                "y", Select(ends, y, y + 1), lambda y: behind(places, y, x)))  # fmt: skip

        return let("y", simplify(floordiv(first, divisor)), lambda y: let(
            "x", simplify(maximum(minimum(first - y * size, size - 1), int64(0))),
            lambda x: behind([], y, x)))  # fmt: skip

    def _registers(self, height: int, body: Callable[[RegisterTile], Stmt]) -> Stmt:
        return register_tile(
            height, VECTORS, self.lanes, body, sums=self.words.sums, factors="int32", product=self.words.add,
            has_numbered_rows=True,
        )  # fmt: skip

    def _sums(self, tile: RegisterTile, weights: Buffer, jo: Var, pixels: Sequence[Buffer]) -> Stmt:
        """Accumulate the products of all taps and packed groups of input channels."""
        group, (high, wide) = self.words.group, self.taps
        count = self.inputs // group

        def step(i: PrimExpr, j: PrimExpr, k: Var) -> Stmt:
            def element(p: PrimExpr) -> PrimExpr:
                assert isinstance(p, IntImm)
                return self.words.neighbours(vector_load(pixels[p.value], (i, j, k * group), group), True)

            place = simplify(((i * wide) + j) * count + k)
            return tile.step(element, row_at(weights, (jo, place, int64(0)), self.lanes))

        return loop("i", high, lambda i: loop("j", wide, lambda j: loop("k", count, lambda k: step(i, j, k))))

    def _stored(self, tile: RegisterTile, result: Results, inside: PrimExpr | None) -> Stmt:
        """Apply the epilogue and store the pixels that exist."""
        lanes = self.lanes

        def vector(p: PrimExpr, v: int) -> Stmt:
            def lane(x: Var) -> Stmt:
                c = v * lanes + x
                return let("total", BufferLoad(tile.acc, (p, c)), lambda total: result.made(p, c, total))

            return loop("lane", lanes, lane, ForKind.VECTORIZED)

        stored = [block(vector(int64(p), v) for v in range(VECTORS)) for p in range(tile.height)]
        if inside is None:
            return block(stored)
        return block(IfThenElse(int64(p) < inside, stmt) for p, stmt in enumerate(stored))

    # ------------------------------------------------------------------ results with channels before pixels

    def _turned(self, results: Buffer, view: Buffer) -> Stmt:
        """Copy results[n, pixel, c] to view[n, c, pixel]."""
        count, last = self.count, simplify(self.count - 1)

        def square(n: PrimExpr, cb: PrimExpr, q: Var) -> Stmt:
            x, c = q * SQUARE, simplify(cb * SQUARE)
            mask = LT(ramp(x, SQUARE), spread(count, SQUARE))
            return transposed_square(SQUARE, str(view.dtype), lambda p: vector_load(
                results, (n, minimum(x + p, last), c), SQUARE), lambda p, vector: vector_store(
                    view, (n, c + p, x), vector, mask))  # fmt: skip

        radix = [("n", self.images), ("cb", int64(self.channels // SQUARE))]
        total = simplify(self.images * (self.channels // SQUARE))
        return loop("turned", total, lambda flat: digits(flat, radix, lambda at: loop(
            "q", simplify(ceildiv(count, SQUARE)), lambda q: square(at[0], at[1], q))), ForKind.PARALLEL)  # fmt: skip


def _reached(axis: Axis) -> PrimExpr:
    """Extent of the data along an axis from the first to the last element read."""
    reach = (axis.size - 1) * axis.stride + (axis.taps - 1) * axis.dilation + 1
    return simplify(maximum(reach, int64(0)))
