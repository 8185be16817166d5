"""Convolutions of single elements in loops whose vectors are pixels, as `pointwise_tiles` shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ...prim import IntImm, PrimExpr, Var, simplify
from ...prim.intrin import ceildiv
from ...prim.intrin import max as maximum
from ...prim.intrin import min as minimum
from ...tir import Buffer, BufferLoad, ForKind, IfThenElse, Stmt
from ..build import block, int64, let, loop, named, scratch, vector_load, vector_store
from .operands import Results, Values
from .pixels import WeightBlocks
from .pointwise_tiles import LINE, Ask, Load, Writer, number_of
from .tiling import has_masks

Maker: TypeAlias = Callable[[PrimExpr, PrimExpr], Stmt]
"""The store of the result made of the sum in a column of a row."""

CHUNK: Final = 512
"""The most pixels of a chunk: runs of a line that are worth a stream."""
LEAST_BLOCKS: Final = 2
"""The blocks of channels that share a copy of pixels at least, which takes an eighth of the time of a block."""


class AlongPixels(Writer):
    """Writes loops whose vectors are pixels; rows of tiles are output channels."""

    rows_are_weights = True

    def sizes(self) -> tuple[PrimExpr, PrimExpr]:
        return int64(self.pixels.channels), simplify(ceildiv(self.pixels.count, self.lanes))

    def unit(self) -> int:
        return self.width

    def least_blocks(self) -> int:
        return LEAST_BLOCKS

    def packing(self) -> WeightBlocks:
        """The order of weights: blocks of as many channels as a tile has rows."""
        return WeightBlocks(self.pixels.channels, self.inputs, self.height, False)

    def loops(self, packed: Buffer | None) -> Stmt:
        """All tasks; with weights in the order of `packing`, or as they are."""
        pixels, chunk = self.pixels, self.chunk_of(self.width, CHUNK)
        blocks = -(-pixels.channels // self.height)

        def task(values: Values, start: PrimExpr, first: PrimExpr, count: PrimExpr) -> Stmt:
            whole = number_of(chunk, pixels.count - start)
            return named("whole", whole, lambda whole: self._with_panels(chunk, whole, lambda panels: self.copied(
                chunk, start, self.bound, lambda load, ask: self.following(
                    values, start, chunk, lambda image, begin: rows(
                        values, start, first, count, panels, (load, ask), (image, begin))))))  # fmt: skip

        def rows(
            values: Values, start: PrimExpr, first: PrimExpr, count: PrimExpr, panels: Panels,
            reading: tuple[Load, Ask], following: tuple[Values, PrimExpr],
        ) -> Stmt:  # fmt: skip
            load, ask = reading

            def tiles(vector: Callable[[PrimExpr, PrimExpr, PrimExpr], PrimExpr]) -> Stmt:
                last = int64(pixels.channels - self.height)

                def at(i: Var, io: Var, row: Var, jo: PrimExpr, vectors: int) -> Stmt:
                    return self._tile(
                        values, packed, io, row, simplify(start + jo * self.width), vectors,
                        lambda k, c: vector(jo, k, c), ahead(i, jo))  # fmt: skip

                return loop("i", count, lambda i: let("io", minimum(first + i, int64(blocks - 1)), lambda io: let(
                    "row", minimum(io * self.height, last), lambda row: panels.each(
                        lambda jo, vectors: at(i, io, row, jo, vectors)))))  # fmt: skip

            def ahead(i: Var, jo: PrimExpr) -> Callable[[Var], Stmt] | None:
                """Ask for pixels of the next chunk: the first blocks for a line of each panel and input channel."""
                if pixels.steps or blocks == 1:
                    return None
                image, begin = following
                column = simplify(begin + jo * self.width + i * self.lanes)

                def asked(k: Var) -> Stmt:
                    return IfThenElse(i < self.vectors, self.asked(image, k, column))

                return asked

            if blocks == 1:
                return tiles(lambda jo, k, c: load(values, k, jo * self.width + c))

            def copy(buffer: Buffer) -> Stmt:
                def part(k: Var, jo: Var, v: Var) -> Stmt:
                    at = jo * self.width + v * self.lanes
                    return block([ask(values, k, at), vector_store(buffer, (jo, k, v * self.lanes), load(
                        values, k, at))])  # fmt: skip

                vectors = loop(
                    "k",
                    self.inputs,
                    lambda k: loop(
                        "jo",
                        panels.count,
                        lambda jo: loop("v", self.vectors, lambda v: part(k, jo, v), ForKind.UNROLLED),
                    ),
                )
                return block([vectors, tiles(lambda jo, k, c: vector_load(buffer, (jo, k, c), self.lanes))])

            return scratch("copy", (chunk // self.width, self.inputs, self.width), self.factor, copy)

        return self.tasks(chunk, blocks, task)

    def _with_panels(self, chunk: int, whole: PrimExpr, body: Callable[[Panels], Stmt]) -> Stmt:
        """`body` of the panels of a chunk's pixels; of an unknown number, the last may have half the vectors."""
        most = chunk // self.width
        count = simplify(ceildiv(whole, self.width))
        half = self.vectors // 2
        if not half or isinstance(self.pixels.count, IntImm):
            return named("panels", count, lambda count: body(Panels(count, count, self.vectors, 0, most)))
        vectors = simplify(maximum(ceildiv(whole, self.lanes) - half, int64(0)))
        wide = simplify(ceildiv(vectors, self.vectors))
        return named("panels", count, lambda count: named("wide", wide, lambda wide: body(
            Panels(count, wide, self.vectors, half, most))))  # fmt: skip

    def _tile(
        self, values: Values, packed: Buffer | None, io: Var, row: Var, start: PrimExpr, vectors: int,
        right: Callable[[Var, PrimExpr], PrimExpr], asked: Callable[[Var], Stmt] | None,
    ) -> Stmt:  # fmt: skip
        """A tile of so many vectors: sums over all input channels, and its results, for whose lines it asks first."""
        pixels, weights = self.pixels, self.pixels.weights
        width = vectors * self.lanes

        def left(p: Var, k: Var) -> PrimExpr:
            if packed is not None:
                return BufferLoad(packed, (io, k, p))
            return BufferLoad(weights, (row + p, k, *(int64(0) for _ in weights.shape[2:])))

        def of_width(inside: PrimExpr) -> Stmt:
            at = {**values, pixels.row: row, pixels.column: start}
            result = Results(pixels, at, int64(self.height), inside)
            step = max(LINE * 8 // pixels.store.buffer.dtype.bits, 1)
            lines = loop("p", self.height, lambda p: loop("line", -(-width // step), lambda line: result.asked(
                p, line * step, 3), ForKind.UNROLLED), ForKind.UNROLLED)  # fmt: skip
            return result.declared(block([lines, self.sums(
                vectors, int64(self.inputs), left, right, lambda p, c: self.zero,
                lambda acc: self._stored(result, acc, vectors, inside), asked)]))  # fmt: skip

        inside = int64(width) if self.bound is None else number_of(width, pixels.count - start)
        return named("inside", inside, of_width)

    def _stored(self, result: Results, acc: Buffer, vectors: int, inside: PrimExpr) -> Stmt:
        """Store what is made of the sums of a tile, of the pixels below `inside`."""
        if result.is_sum:
            bound = None if self.bound is None else inside
            return self.each(vectors, lambda p, c: vector_store(result.out, result.place(
                p, c), vector_load(acc, (p, c), self.lanes), self.mask(c, bound)))  # fmt: skip
        if self.bound is None or has_masks(self.target):
            return self._made(result, acc, vectors, inside)
        return scratch("sums", (self.height, vectors * self.lanes), self.dtype, lambda sums: block([
            self.each(vectors, lambda p, c: vector_store(sums, (p, c), vector_load(acc, (p, c), self.lanes))),
            loop("r", self.height, lambda r: loop("v", vectors, lambda v: self.stored(
                result, r, r, v, inside, sums)))]))  # fmt: skip

    def _made(self, result: Results, acc: Buffer, vectors: int, inside: PrimExpr) -> Stmt:
        """Store what is made of the sums of a tile, which stay in registers; written out."""

        def vector(p: Var, first: PrimExpr, maker: Maker) -> Stmt:
            def lane(x: Var) -> Stmt:
                c = first + x
                return let("total", BufferLoad(acc, (p, c)), lambda total: self.inside(
                    c, inside, maker(c, total)))  # fmt: skip

            return loop("x", self.lanes, lane, ForKind.VECTORIZED)

        def of_row(p: Var) -> Stmt:
            return result.of_row(p, lambda maker: loop("v", vectors, lambda v: vector(
                p, v * self.lanes, maker), ForKind.UNROLLED))  # fmt: skip

        return loop("p", self.height, of_row, ForKind.UNROLLED)


@dataclass(frozen=True)
class Panels:
    """The panels of a chunk."""

    count: PrimExpr
    wide: PrimExpr
    """The number of those with all vectors; the others are behind them."""
    vectors: int
    rest: int
    """The vectors of the others; 0 if there are none."""
    most: int
    """The panels of a whole chunk."""

    def each(self, body: Callable[[PrimExpr, int], Stmt]) -> Stmt:
        """A statement for each panel, told its number and its vectors."""
        wide = loop("jo", self.wide, lambda jo: body(jo, self.vectors))
        if not self.rest:
            return wide
        others, last = simplify(self.count - self.wide), int64(self.most - 1)
        return block([wide, loop("jr", others, lambda jr: named("jo", minimum(
            self.wide + jr, last), lambda jo: body(jo, self.rest)))])  # fmt: skip


__all__ = ["AlongPixels"]
