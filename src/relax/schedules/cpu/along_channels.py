"""Convolutions of single elements in loops whose vectors are output channels, as `pointwise_tiles` shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...prim import And, IntImm, PrimExpr, Var, is_const, simplify
from ...prim.instructions import prefetch
from ...prim.intrin import ceildiv, floordiv, floormod
from ...prim.intrin import max as maximum
from ...prim.intrin import min as minimum
from ...tir import Buffer, BufferLoad, Evaluate, ForKind, IfThenElse, Stmt
from ..build import block, int64, let, loop, named, scratch, vector_load, vector_store
from .operands import Results, Values
from .pixels import WeightBlocks
from .pointwise_tiles import LINE, SHARING, Ask, Cut, Load, Steps, Writer
from .squares import transposed_square

SUMMED: Final = 128
"""The most pixels of a chunk whose sums are transposed: they are in the first-level cache."""
DEPTH: Final = 80
"""The input channels of a part: their weights for a block and their pixels are in the first-level cache together."""
UNIT: Final = 4
"""Chunks of pixels are multiples of this: 196 are 96 and 100, whose vectors are 6 and 7."""
QUARTERS: Final = 4
"""The tiles that together ask for the weights behind those they read."""
SPACED: Final = 2
"""The steps between two lines of results that a tile asks for, if it has so many."""


class AlongChannels(Writer):
    """Writes loops whose vectors are output channels; rows of tiles are pixels."""

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
        """The order of weights: blocks of as many channels as a tile has columns."""
        return WeightBlocks(self.pixels.channels, self.inputs, self.width, True)

    def loops(self, packed: Buffer) -> Stmt:
        """All tasks, with weights in the order of `packing`."""
        pixels, lanes, count = self.pixels, self.lanes, self.pixels.count
        cut = self._cut
        most = min(cut.most, count.value) if isinstance(count, IntImm) else cut.most
        columns = (-(-(-(-most // self.height) * self.height) // lanes) | 1) * lanes
        """Those of whole tiles and whole vectors, an odd number: the rows of a panel are in all sets of a cache."""
        blocks_of_all = -(-pixels.channels // self.width)
        last = int64(blocks_of_all - 1)

        def task(
            values: Values, start: PrimExpr, inside: PrimExpr, first: PrimExpr, blocks: PrimExpr
        ) -> Stmt:
            def copied(panel: Buffer, load: Load, ask: Ask, inside: PrimExpr, even: Tiles) -> Stmt:
                vectors = simplify(ceildiv(even.pixels, lanes))
                rows = self.depths[1]

                def copy(k: PrimExpr, c: PrimExpr, at: PrimExpr | None = None) -> Stmt:
                    """Copy a vector of pixels of an input channel; ask for that of a channel of the next part.

                    `at` is the place of a vector that is inside of the image as a whole.
                    """
                    column = c if at is None else at - start
                    ahead = (
                        ask(values, k, c)
                        if pixels.steps
                        else self.asked(values, k + rows, simplify(start + column))
                    )
                    return block(
                        [ahead, vector_store(panel, (k, c), load(values, k, column, at is not None))]
                    )

                def begun(whole: PrimExpr) -> Stmt:
                    """Copy the first part, and what tiles do not copy of the others."""
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
        """The number of parts of the input channels, and the channels of a part."""
        parts = -(-self.inputs // DEPTH)
        return parts, -(-self.inputs // parts)

    @property
    def _cut(self) -> Cut:
        """The chunks of pixels: half of a cache at most."""
        return self.cut(UNIT, SUMMED, 2)

    def _divided(
        self, inside: PrimExpr, most: int, columns: int, body: Callable[[Tiles], Stmt]
    ) -> Stmt:  # fmt: skip
        """`body` of the tiles for some pixels: as high as they can be, or a pixel lower, so that few are empty.

        There are `most` pixels, and `columns` with those of tiles that have fewer. The sizes of tiles say so, each by
        itself: then intervals of numbers tell that indices are within bounds.
        """
        high = self.height
        low, limit = max(high - 1, 1), -(-most // high)
        count = simplify(ceildiv(inside, high))

        def divided(count: PrimExpr, tall: PrimExpr) -> Stmt:
            pixels = simplify(minimum(count * low + tall * (high - low), int64(columns)))
            return named("even", pixels, lambda pixels: body(Tiles(count, tall, pixels, high, low, limit)))

        if high == 1:
            return named("tiles", count, lambda count: divided(count, count))
        return named("tiles", count, lambda count: named(
            "tall", simplify(minimum(maximum(inside - count * low, int64(0)), int64(limit))),
            lambda tall: divided(count, tall)))  # fmt: skip

    def _block(self, packed: Buffer, chunk: Chunk, j: Var, jo: Var) -> Stmt:
        """A block of channels for the pixels of a chunk."""
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
        """Ask for lines of a block's results in a step of a tile, a line in each step or in each second one.

        All at once, lines that memory delivers late would leave no buffers for those that the tile needs now.
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
        """Store what is made of the sums of a block, turned by squares: results of a vector of channels at a time."""
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
        """Add the products of some input channels to the sums of a tile.

        Tiles ask for the weights behind those they read, each for a quarter of them, and for lines of results. Tiles of
        the first block copy the pixels of the next part while they multiply, each a vector of each channel.
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
                # That vectors are whole follows from their number: said of this one, it needs no proof.
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
            lambda acc: self.each(height, self.vectors, lambda p, c: vector_store(
                sums, (first + p, c), vector_load(acc, (p, c), lanes))),
            lambda steps: named("quarter", quarter, lambda quarter: steps_of(
                steps, lambda k: asked(quarter, k))),
        )  # fmt: skip


@dataclass(frozen=True)
class Tiles:
    """The tiles for the pixels of a chunk, of two heights."""

    count: PrimExpr
    tall: PrimExpr
    """The number of those of the greater height; the others are behind them."""
    pixels: PrimExpr
    """The pixels of all tiles."""
    high: int
    low: int
    most: int
    """The number of tiles of a whole chunk."""

    def each(self, body: Callable[[PrimExpr, int], Stmt]) -> Stmt:
        """A statement for each tile, told its number and its height."""
        tall = loop("io", self.tall, lambda io: body(io, self.high))
        others = simplify(self.count - self.tall)
        last = int64(self.most - 1)
        return block([tall, loop("il", others, lambda il: named(
            "io", simplify(minimum(self.tall + il, last)), lambda io: body(io, self.low)))])  # fmt: skip


@dataclass(frozen=True)
class Asking:
    """The rows of results whose lines a tile asks for while it multiplies: the first, how many, and those there are."""

    result: Results
    first: PrimExpr
    count: PrimExpr
    height: PrimExpr


@dataclass(frozen=True)
class Chunk:
    """Pixels of an image, copied, and the sums of a block of channels for them."""

    values: Values
    """The image."""
    panel: Buffer
    sums: Buffer
    start: PrimExpr
    """The first pixel."""
    inside: PrimExpr
    """The pixels inside of the image."""
    tiles: Tiles
    whole: PrimExpr
    """The vectors of pixels that tiles copy."""
    copy: Callable[[PrimExpr, PrimExpr, PrimExpr], Stmt]
    """A statement that copies a whole vector of pixels of an input channel to a column of the panel, from a place."""


__all__ = ["AlongChannels"]
