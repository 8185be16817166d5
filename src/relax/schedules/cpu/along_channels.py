"""Convolutions of single elements in loops whose vectors are output channels, as `pointwise_tiles` shows them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ...prim import GT, And, IntImm, PrimExpr, Select, Var, mark_nonnegative, simplify
from ...prim.instructions import prefetch
from ...prim.intrin import ceildiv, floordiv, floormod
from ...prim.intrin import max as maximum
from ...prim.intrin import min as minimum
from ...tir import Buffer, BufferLoad, Evaluate, ForKind, IfThenElse, Stmt
from ..build import block, int64, let, loop, named, scratch, vector_load, vector_store
from .operands import Results, Values
from .pixels import WeightBlocks
from .pointwise_tiles import LINE, SHARING, Ask, Load, Writer, number_of
from .squares import transposed_square

SUMMED: Final = 128
"""The most pixels of a chunk whose sums are transposed: they are in the first-level cache."""
DEPTH: Final = 80
"""The input channels of a part: their weights for a block and their pixels are in the first-level cache together."""
QUARTERS: Final = 4
"""The tiles that together ask for the weights behind those they read."""


class AlongChannels(Writer):
    """Writes loops whose vectors are output channels; rows of tiles are pixels."""

    rows_are_weights = False

    def sizes(self) -> tuple[PrimExpr, PrimExpr]:
        return self.pixels.count, int64(-(-self.pixels.channels // self.lanes))

    def unit(self) -> int:
        return self.lanes

    def least_blocks(self) -> int:
        return SHARING if self.pixels.steps else 1

    def packing(self) -> WeightBlocks:
        """The order of weights: blocks of as many channels as a tile has columns."""
        return WeightBlocks(self.pixels.channels, self.inputs, self.width, True)

    def loops(self, packed: Buffer) -> Stmt:
        """All tasks, with weights in the order of `packing`."""
        pixels, lanes, count = self.pixels, self.lanes, self.pixels.count
        if isinstance(count, IntImm):
            most = min(self.chunk_of(lanes, SUMMED), count.value)
            size: PrimExpr = int64(self.chunk_of(lanes, SUMMED))
        else:
            most = self.chunk_of(self.height, SUMMED, 2)
            size = self._chunk(most)
        columns = (-(-(-(-most // self.height) * self.height) // lanes) | 1) * lanes
        """Those of whole tiles and whole vectors, an odd number: the rows of a panel are in all sets of a cache."""
        blocks_of_all = -(-pixels.channels // self.width)
        last = int64(blocks_of_all - 1)

        def task(values: Values, start: PrimExpr, first: PrimExpr, blocks: PrimExpr) -> Stmt:
            def copied(panel: Buffer, load: Load, ask: Ask, inside: PrimExpr) -> Stmt:
                vectors = simplify(ceildiv(ceildiv(inside, self.height) * self.height, lanes))
                copy = loop("k", self.inputs, lambda k: loop("v", vectors, lambda v: block([
                    ask(values, k, v * lanes),
                    vector_store(panel, (k, v * lanes), load(values, k, v * lanes))])))  # fmt: skip
                return block([copy, scratch("sums", (columns, self.width), self.dtype, lambda sums: self.following(
                    values, start, size, lambda image, begin: each(Chunk(
                        values, panel, sums, start, inside, (image, begin)))))])  # fmt: skip

            def each(part: Chunk) -> Stmt:
                return loop("j", blocks, lambda j: let(
                    "jo", minimum(first + j, last), lambda jo: self._block(packed, part, j, jo)))  # fmt: skip

            whole = number_of(most, minimum(size, count - start))
            return named("inside", whole, lambda inside: self.copied(
                columns, start, count, lambda load, ask: scratch("panel", (self.inputs, columns), self.factor,
                lambda panel: copied(panel, load, ask, inside))))  # fmt: skip

        return self.tasks(size, blocks_of_all, task)

    def _chunk(self, most: int) -> PrimExpr:
        """The pixels of a chunk, of whole tiles: chunks of equal sizes, as many for each core, or one of all pixels.

        A name for it, which is bound with those of the other sizes.
        """
        count, cores = self.pixels.count, self.cores
        chunks = simplify(maximum(ceildiv(count, most), int64(1)))
        even = Select(GT(chunks, int64(1)), simplify(ceildiv(chunks, cores) * cores), int64(1))
        tiles = maximum(ceildiv(ceildiv(count, even), self.height), int64(1))
        size = simplify(minimum(tiles * self.height, int64(most)))
        chunk = Var("chunk", "int64")
        mark_nonnegative(chunk)
        self.pixels = replace(self.pixels, names=(*self.pixels.names, (chunk, size)))
        return chunk

    def _block(self, packed: Buffer, chunk: Chunk, j: Var, jo: Var) -> Stmt:
        """A block of channels for the pixels of a chunk."""
        inputs, lanes = self.inputs, self.lanes
        parts = -(-inputs // DEPTH)
        part = -(-inputs // parts)
        tiles = simplify(ceildiv(chunk.inside, self.height))
        cleared = loop("r", simplify(tiles * self.height), lambda r: loop("v", self.vectors, lambda v: vector_store(
            chunk.sums, (r, v * lanes), self.zero), ForKind.UNROLLED))  # fmt: skip

        def added(begin: PrimExpr, result: Results, height: PrimExpr) -> Stmt:
            def at(io: Var, depth: PrimExpr) -> Stmt:
                lines = IfThenElse(begin < 1, self._asked(result, io, tiles, height, chunk.inside))
                return block([lines, self._tile(packed, chunk, j, jo, io, begin, depth)])

            depth = simplify(minimum(int64(part), inputs - begin))
            return named("depth", depth, lambda depth: loop("io", tiles, lambda io: at(io, depth)))

        def of_height(height: PrimExpr) -> Stmt:
            at = {**chunk.values, self.pixels.row: simplify(jo * self.width), self.pixels.column: chunk.start}
            result = Results(self.pixels, at, height, chunk.inside)
            sums = loop("ko", parts, lambda ko: added(ko * part, result, height))
            return result.declared(block([cleared, sums, self._stored(result, chunk, height)]))

        channels = simplify(minimum(int64(self.width), self.pixels.channels - jo * self.width))
        return named("height", channels, of_height)

    def _asked(self, result: Results, io: Var, tiles: PrimExpr, height: PrimExpr, inside: PrimExpr) -> Stmt:
        """Ask for lines of a block's results: each tile for those of its share of the channels."""
        step = max(LINE * 8 // self.pixels.store.buffer.dtype.bits, 1)
        lines = simplify(ceildiv(inside, step))

        def of_row(row: Var) -> Stmt:
            return IfThenElse(
                row < height, loop("line", lines, lambda line: result.asked(row, line * step, 2))
            )

        share = simplify(ceildiv(int64(self.width), tiles))
        return named("share", share, lambda share: loop(
            "s", share, lambda s: let("channel", io * share + s, of_row)))  # fmt: skip

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
        self, packed: Buffer, chunk: Chunk, j: Var, jo: Var, io: Var, begin: PrimExpr, depth: PrimExpr
    ) -> Stmt:  # fmt: skip
        """Add the products of some input channels to the sums of a tile.

        Tiles ask for the weights behind those they read, each for a quarter of them. The first tiles of the first block
        ask for pixels of the next chunk, each for a vector of each channel.
        """
        first, lanes, sums = io * self.height, self.lanes, chunk.sums
        is_first = And(j < 1, io * lanes < chunk.inside)
        image, start = chunk.following

        def asked(k: Var) -> Stmt:
            quarter = floordiv(depth, QUARTERS) * floormod(io, QUARTERS)
            weights = BufferLoad(packed, (jo, begin + depth + quarter, k * lanes))
            line = Evaluate(prefetch(weights, locality=2))
            if self.pixels.steps:
                return line
            return block([line, IfThenElse(is_first, self.asked(image, begin + k, start + io * lanes))])

        return self.sums(
            self.vectors,
            depth,
            lambda p, k: BufferLoad(chunk.panel, (begin + k, first + p)),
            lambda k, c: vector_load(packed, (jo, begin + k, c), lanes),
            lambda p, c: vector_load(sums, (first + p, c), lanes),
            lambda acc: self.each(self.vectors, lambda p, c: vector_store(
                sums, (first + p, c), vector_load(acc, (p, c), lanes))),
            asked,
        )  # fmt: skip


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
    following: tuple[Values, PrimExpr]
    """The image of the next chunk, and its first pixel."""


__all__ = ["AlongChannels"]
