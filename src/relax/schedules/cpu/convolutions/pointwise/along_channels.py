"""Pointwise (1×1) convolutions vectorised over output channels; see `pointwise.loops`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from .....prim import And, IntImm, PrimExpr, Var, is_const, simplify
from .....prim.instructions import prefetch
from .....prim.intrin import ceildiv, floordiv, floormod
from .....prim.intrin import max as maximum
from .....prim.intrin import min as minimum
from .....runtime.records import dataclass
from .....tir import Buffer, BufferLoad, Evaluate, ForKind, IfThenElse, Stmt
from ....build import block, int64, let, loop, named, scratch, vector_load, vector_store
from ...products.operands import Results, Values
from ...tile.transposes import transposed_square
from .loops import LINE, SHARING, Ask, Cut, Load, Steps, Writer
from .operands import WeightBlocks

SUMMED: Final = 128
"""Most pixels of a chunk whose accumulators are transposed, so that they fit the L1 cache."""
DEPTH: Final = 80
"""Input channels per segment of the reduction: the weights of a block and the pixels fit the L1 cache together."""
UNIT: Final = 4
"""Granularity of pixel chunks in pixels: 196 pixels become 96 and 100, copied as 6 and 7 vectors."""
QUARTERS: Final = 4
"""Number of tiles that together prefetch the next segment of the weights."""
SPACED: Final = 2
"""Steps between two prefetches of result cache lines, if a tile has enough steps."""


class AlongChannels(Writer):
    """Writes loops vectorised over output channels; the rows of a register tile are pixels."""

    rows_are_weights = False

    def sizes(self) -> tuple[Sequence[PrimExpr], PrimExpr]:
        count, chunks = self.pixels.count, [self.pixels.count]
        if isinstance(count, IntImm):
            chunks = [int64(size) for size in self._cut.sizes(count.value)]
        return chunks, int64(-(-self.pixels.channels // self.lanes))

    def is_filled(self) -> bool:
        chunks, _ = self.sizes()
        return all(is_const(simplify(floormod(chunk, self.lanes)), 0) for chunk in chunks)

    def least_blocks(self) -> int:
        return SHARING if self.pixels.steps else 1

    def packing(self) -> WeightBlocks:
        """Weight layout: blocks of as many channels as a register tile has columns."""
        return WeightBlocks(self.pixels.channels, self.inputs, self.width, True)

    def loops(self, packed: Buffer) -> Stmt:
        """Return the loops of all tasks, for weights in the layout of `packing`."""
        pixels, lanes, count = self.pixels, self.lanes, self.pixels.count
        cut = self._cut
        most = min(cut.most, count.value) if isinstance(count, IntImm) else cut.most
        columns = (-(-(-(-most // self.height) * self.height) // lanes) | 1) * lanes
        """Panel stride: whole tiles, and an odd number of vectors so that panel rows map to all cache sets."""
        blocks_of_all = -(-pixels.channels // self.width)
        last = int64(blocks_of_all - 1)

        def task(values: Values, start: PrimExpr, inside: PrimExpr, first: PrimExpr, blocks: PrimExpr) -> Stmt:
            def copied(panel: Buffer, load: Load, ask: Ask, inside: PrimExpr, even: Tiles) -> Stmt:
                vectors = simplify(ceildiv(even.pixels, lanes))
                rows = self.depths[1]

                def copy(k: PrimExpr, c: PrimExpr, at: PrimExpr | None = None) -> Stmt:
                    """Copy a vector of pixels of input channel `k`; prefetch the same vector of the next segment.

                    `at` is the offset of a vector that lies entirely inside the image.
                    """
                    column = c if at is None else at - start
                    ahead = (
                        ask(values, k, c) if pixels.steps else self.asked(values, k + rows, simplify(start + column))
                    )
                    return block([ahead, vector_store(panel, (k, c), load(values, k, column, at is not None))])

                def begun(whole: PrimExpr) -> Stmt:
                    """Copy the first segment, and the vectors of later segments that tiles do not copy."""
                    number = rows if self.tiles_copy else self.inputs
                    first = loop("k", number, lambda k: loop("v", vectors, lambda v: copy(k, v * lanes)))
                    others = loop("k", self.inputs - rows, lambda k: loop("v", vectors - whole, lambda v: let(
                        "vector", minimum(whole + v, int64(columns // lanes - 1)), lambda vector: copy(
                            k + rows, vector * lanes))))  # fmt: skip
                    return block([first, others] if number < self.inputs else [first])

                def chunk_of(whole: PrimExpr) -> Stmt:
                    return block([begun(whole), scratch("sums", (columns, self.width), self.dtype, lambda sums: each(
                        Chunk(values, panel, sums, start, inside, even, whole, copy)))])  # fmt: skip

                if not self.tiles_copy:
                    return chunk_of(int64(0))
                there = floordiv(maximum(count - start, int64(0)), lanes)
                return named("whole", simplify(minimum(minimum(vectors, even.count), there)), chunk_of)

            def each(part: Chunk) -> Stmt:
                return loop("j", blocks, lambda j: let(
                    "jo", minimum(first + j, last), lambda jo: self._block(packed, part, j, jo)))  # fmt: skip

            return self.copied(
                columns, start, count, lambda load, ask: scratch("panel", (self.inputs, columns), self.factor,
                lambda panel: self._divided(inside, most, columns, lambda even: copied(
                    panel, load, ask, inside, even))))  # fmt: skip

        return self.tasks(cut, blocks_of_all, task)

    @property
    def depths(self) -> tuple[int, int]:
        """Return (segments of the input channels, channels per segment)."""
        parts = -(-self.inputs // DEPTH)
        return parts, -(-self.inputs // parts)

    @property
    def _cut(self) -> Cut:
        """Chunks of pixels; each takes half of a cache at most."""
        return self.cut(UNIT, SUMMED, 2)

    def _divided(
        self, inside: PrimExpr, most: int, columns: int, body: Callable[[Tiles], Stmt]
    ) -> Stmt:  # fmt: skip
        """Call `body` with the tiles for `inside` pixels: of full height or one pixel lower, which minimises padding.

        A chunk has at most `most` pixels, and `columns` including the padding of lower tiles. Each size is bounded by a
        constant of its own, from which interval analysis proves that indices are in bounds.
        """
        high = self.height
        low, limit = max(high - 1, 1), -(-most // high)
        count = simplify(ceildiv(inside, high))

        def divided(count: PrimExpr, tall: PrimExpr) -> Stmt:
            pixels = simplify(minimum(count * low + tall * (high - low), int64(columns)))
            return named("even", pixels, lambda pixels: body(Tiles(count, tall, pixels, high, low, limit)))

        if high == 1:  # no tile is lower: a taller one would begin a pixel later for each tile before it
            return named("tiles", count, lambda count: divided(count, int64(0)))
        return named("tiles", count, lambda count: named(
            "tall", simplify(minimum(maximum(inside - count * low, int64(0)), int64(limit))),
            lambda tall: divided(count, tall)))  # fmt: skip

    def _block(self, packed: Buffer, chunk: Chunk, j: Var, jo: Var) -> Stmt:
        """Compute a block of output channels for the pixels of a chunk."""
        inputs, lanes = self.inputs, self.lanes
        parts, part = self.depths
        cleared = loop("r", chunk.tiles.pixels, lambda r: loop("v", self.vectors, lambda v: vector_store(
            chunk.sums, (r, v * lanes), self.zero), ForKind.UNROLLED))  # fmt: skip

        def added(ko: Var, result: Results, height: PrimExpr, share: PrimExpr) -> Stmt:
            begin = ko * part

            def at(io: PrimExpr, pixels: int, depth: PrimExpr) -> Stmt:
                number = simplify((ko * chunk.tiles.count + io) * share)
                asking = Asking(result, number, share, height)
                return self._tile(packed, chunk, (j, jo), (io, pixels), begin, depth, asking)

            depth = simplify(minimum(int64(part), inputs - begin))
            return named("depth", depth, lambda depth: chunk.tiles.each(
                lambda io, pixels: at(io, pixels, depth)))  # fmt: skip

        def of_height(height: PrimExpr) -> Stmt:
            at = {**chunk.values, self.pixels.row: simplify(jo * self.width), self.pixels.column: chunk.start}
            result = Results(self.pixels, at, height, chunk.inside)
            share = simplify(ceildiv(int64(self.width), maximum(chunk.tiles.count * parts, int64(1))))
            sums = named("rows_asked", share, lambda share: loop(
                "ko", parts, lambda ko: added(ko, result, height, share)))  # fmt: skip
            return result.declared(block([cleared, sums, self._stored(result, chunk, height)]))

        channels = simplify(minimum(int64(self.width), self.pixels.channels - jo * self.width))
        return named("height", channels, of_height)

    def _asked(self, asking: Asking, tiles: Tiles, k: Var) -> Stmt:
        """Prefetch result cache lines of a block: one (or more) per step of a tile, or one per second step.

        Prefetching all at once would occupy the fill buffers that the tile's own loads need.
        """
        step = max(LINE * 8 // self.pixels.store.buffer.dtype.bits, 1)
        lines = 1 << (-(-tiles.most * tiles.high // step) - 1).bit_length()
        parts, part = self.depths
        expected = -(-self.width * lines // (tiles.most * parts))
        spaced, each = (SPACED, 1) if SPACED * expected <= part else (1, -(-expected // part))

        def line(u: int) -> Stmt:
            number = simplify(floordiv(k, spaced) * each + u)
            row = minimum(asking.first + floordiv(number, lines), asking.height - 1)
            return asking.result.asked(row, floormod(number, lines) * step, 2)

        steps = simplify(ceildiv(asking.count * lines, each) * spaced)
        return IfThenElse(k < steps, block(line(u) for u in range(each)))

    def _stored(self, result: Results, chunk: Chunk, height: PrimExpr) -> Stmt:
        """Apply the epilogue and store a block, transposed in registers: a vector of channels at a time."""
        lanes, inside = self.lanes, chunk.inside
        vectors = simplify(ceildiv(inside, lanes))

        def square(turned: Buffer, first: PrimExpr, v: Var) -> Stmt:
            return transposed_square(
                lanes, self.dtype, lambda p: vector_load(chunk.sums, (v * lanes + p, first), lanes),
                lambda p, vector: vector_store(turned, (p, v * lanes), vector))  # fmt: skip

        def of_vector(turned: Buffer, first: PrimExpr) -> Stmt:
            rows = simplify(minimum(int64(lanes), height - first))
            stored = named("rows", rows, lambda rows: loop("r", rows, lambda r: let(
                "channel", first + r, lambda channel: loop("v", vectors, lambda v: self.stored(
                    result, channel, r, v, inside, turned)))))  # fmt: skip
            return block([loop("v", vectors, lambda v: square(turned, first, v)), stored])

        filled = simplify(ceildiv(height, lanes))
        return scratch("turned", (lanes, chunk.sums.shape[0]), self.dtype, lambda turned: named(
            "filled", filled, lambda filled: loop("ro", filled, lambda ro: of_vector(
                turned, simplify(ro * lanes)))))  # fmt: skip

    def _tile(
        self, packed: Buffer, chunk: Chunk, blocks: tuple[Var, Var], tile: tuple[PrimExpr, int],
        begin: PrimExpr, depth: PrimExpr, asking: Asking,
    ) -> Stmt:  # fmt: skip
        """Accumulate the products of one segment of input channels in a register tile.

        Each tile prefetches a quarter of the next weights, and result cache lines. The tiles of the first block also
        copy the pixels of the next segment, one vector of each channel per tile.
        """
        (j, jo), (io, height) = blocks, tile
        lanes, sums = self.lanes, chunk.sums
        first = simplify(io * chunk.tiles.low + minimum(io, chunk.tiles.tall))
        _, part = self.depths
        last = int64(self.inputs - 1)
        quarter = begin + depth + floordiv(depth, QUARTERS) * floormod(io, QUARTERS)

        def asked(quarter: PrimExpr, k: Var) -> Stmt:
            weights = BufferLoad(packed, (jo, quarter, k * lanes))
            return block([Evaluate(prefetch(weights, locality=2)), self._asked(asking, chunk.tiles, k)])

        def copied(k: Var, at: PrimExpr) -> Stmt:
            row = minimum(begin + part + k, last)
            return named("row", row, lambda row: chunk.copy(row, simplify(io * lanes), at))

        def steps_of(steps: Steps, asked: Callable[[Var], Stmt]) -> Stmt:
            if not self.tiles_copy or part == self.inputs:
                return steps(asked)
            is_copied = And(And(j < 1, begin + part < self.inputs), io < chunk.whole)

            def beside(at: PrimExpr) -> Stmt:
                # Follows from the number of whole vectors; the explicit condition spares a proof.
                is_inside = at + (lanes - 1) < self.pixels.count
                copying = steps(lambda k: block([asked(k), copied(k, at)]))
                return IfThenElse(And(is_copied, is_inside), copying, steps(asked))

            return named("at", simplify(chunk.start + io * lanes), beside)

        return self.sums(
            height,
            self.vectors,
            depth,
            lambda p, k: BufferLoad(chunk.panel, (begin + k, first + p)),
            lambda k, c: vector_load(packed, (jo, begin + k, c), lanes),
            lambda p, c: vector_load(sums, (first + p, c), lanes),
            lambda tile: tile.each(lambda p, c: vector_store(sums, (first + p, c), tile.load(p, c))),
            lambda steps: named("quarter", quarter, lambda quarter: steps_of(
                steps, lambda k: asked(quarter, k))),
        )  # fmt: skip


@dataclass(frozen=True)
class Tiles:
    """Register tiles of two heights that cover the pixels of a chunk."""

    count: PrimExpr
    tall: PrimExpr
    """Number of tiles of the greater height, which come first."""
    pixels: PrimExpr
    """Pixels covered by all tiles, including padding."""
    high: int
    low: int
    most: int
    """Number of tiles of a full chunk."""

    def each(self, body: Callable[[PrimExpr, int], Stmt]) -> Stmt:
        """Return `body(index, height)` for each tile."""
        tall = loop("io", self.tall, lambda io: body(io, self.high))
        others = simplify(self.count - self.tall)
        last = int64(self.most - 1)
        return block([tall, loop("il", others, lambda il: named(
            "io", simplify(minimum(self.tall + il, last)), lambda io: body(io, self.low)))])  # fmt: skip


@dataclass(frozen=True)
class Asking:
    """Result rows that a tile prefetches while it multiplies: the first, their number, and the rows of the block."""

    result: Results
    first: PrimExpr
    count: PrimExpr
    height: PrimExpr


@dataclass(frozen=True)
class Chunk:
    """Copied pixels of an image, and the accumulators of a block of channels for them."""

    values: Values
    """Values of the batch variables (the image)."""
    panel: Buffer
    sums: Buffer
    start: PrimExpr
    """Index of the first pixel."""
    inside: PrimExpr
    """Number of pixels inside the image."""
    tiles: Tiles
    whole: PrimExpr
    """Number of pixel vectors copied by tiles."""
    copy: Callable[[PrimExpr, PrimExpr, PrimExpr], Stmt]
    """Copies a whole vector of pixels: (input channel, panel column, offset in the image)."""
