"""The loops of a chain of three convolutions by rows, as `by_rows` shows them.

Lines are numbered with the padding: line `q` of the ring is line `q - before` of the data. A tile is some neighbouring
pixels of a line times some vectors of channels. The last tile of a line reaches beyond it: panels are filled up with
zeros, and what the ring has there becomes zeros, as the padding beside the line is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from ...prim import Add, And, IntImm, LT, Mul, PrimExpr, Select, Var, const, simplify
from ...prim.intrin import ceildiv, floordiv, floormod
from ...prim.intrin import max as maximum
from ...prim.intrin import min as minimum
from ...target import Target
from ...tir import AllocBuffer, Buffer, BufferLoad, BufferStore, ForKind, IfThenElse, LetStmt, Stmt
from ...tir.buffer import decl_buffer
from ...tir.functor import substitute
from ..build import alloc, block, int64, let, loop, named, ramp, scratch, spread, vector_load, vector_store
from ..contraction import size_of
from .chains import DTYPE, Chain, Finish, Link
from .channel_blocks import part_of
from .pixels import Table, WeightBlocks
from .planes import Sizes, digits
from .squares import transposed_square
from .tiling import even_pieces

Array: TypeAlias = "np.ndarray[Any, Any]"

BAND: Final = 56
"""The pixels of a band: weights of a tile come from the second-level cache for so many of them."""
SEAM: Final = 3
"""The least lines of a chunk; at a seam of two chunks, lines are expanded twice."""
LONG: Final = 28
"""The lines of a chunk beside which those at a seam are few."""
PIXELS: Final = 7
"""The pixels of a tile for lines of unknown length: widths of images are multiples of 7 more often than of others."""
LEAST: Final = 4
"""The least pixels of a tile."""


@dataclass(frozen=True)
class TapVectors:
    """Depthwise weights as tiles read them: P[tap, c] = W[c, 0, i, j], with zeros up to whole vectors."""

    channels: int
    taps: int
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.taps, self.width

    def __call__(self, array: Array) -> Array:
        result = np.zeros(self.shape, array.dtype)
        result[:, : self.channels] = np.reshape(array, (self.channels, self.taps)).T
        return result


@dataclass(frozen=True)
class _Piece:
    """A vector of a tile: where it begins, and its lanes."""

    start: int
    lanes: int


@dataclass(frozen=True)
class _Band:
    """Lines of the result that are computed together."""

    image: list[PrimExpr]
    first: PrimExpr
    """The first line."""
    lines: PrimExpr
    fresh: PrimExpr
    """The first line that the ring does not have yet."""
    count: PrimExpr
    """The lines that it does not have yet."""


class RowLoops:
    """Writes the loops of one chain."""

    def __init__(self, chain: Chain, target: Target, lanes: int) -> None:
        self.chain, self.lanes, self.cores = chain, lanes, target.num_cores
        self.down, self.along = chain.axes
        self.inputs, self.middle, self.outputs = (
            chain.expand.inputs,
            chain.expand.channels,
            chain.project.channels,
        )
        self.vectors = -(-self.middle // lanes)
        """The vectors of channels between the convolutions."""
        self.pitch = (self.vectors | 1) * lanes
        """The elements from one pixel to the next: an odd number of vectors, so that pixels are in all sets of a cache."""
        self.blocks = -(-self.outputs // lanes)
        self.wide = 3 if target.machine.vector_registers >= 32 else 2
        """The most vectors of a tile."""
        self.links = (chain.expand, chain.depthwise, chain.project)
        self.tables = {link.finish: self._tables(link) for link in self.links}
        """The values that a channel decides, by the variable that stands for each."""
        self.sizes = Sizes()
        name = self.sizes.named
        self.height, self.width = (
            name(n, axis.size) for n, axis in zip(("height", "width"), chain.axes, strict=True)
        )
        self.data_height, self.data_width = (
            name(n, axis.extent)
            for n, axis in zip(("rows", "columns"), chain.expand.windows.axes, strict=True)
        )
        self.pixels = self._pixels(target.machine.vector_registers)
        """The pixels of a tile."""
        before, after = self.along.before, self.along.taps - 1
        self.tiles = name("tiles", ceildiv(self.width, self.pixels))
        """The tiles of a line of the result."""
        self.data_tiles = name("data_tiles", ceildiv(self.data_width, self.pixels))
        self.panel_width = name("panel_width", ceildiv(self.data_tiles * self.pixels, lanes) * lanes)
        self.line = name("line", maximum(self.data_tiles * self.pixels + before, (
            self.tiles * (self.pixels * self.along.stride) + (after + 1 - self.along.stride))))  # fmt: skip
        """The pixels of a line of the ring."""
        self.staged = name("staged", ceildiv(self.tiles * self.pixels, lanes) * lanes)
        """The pixels of a line whose sums are staged, in whole squares."""
        self.band = name(
            "band",
            maximum(minimum(floordiv(int64(BAND), maximum(self.width, int64(1))), self.height), int64(1)),
        )
        self.slots = name("slots", (self.band - 1) * self.down.stride + self.down.taps)
        """The lines of the ring."""

    def packings(self) -> tuple[WeightBlocks, TapVectors, WeightBlocks]:
        """The orders of the three weights."""
        return (
            WeightBlocks(self.middle, self.inputs, self.lanes, True),
            TapVectors(self.middle, self.down.taps * self.along.taps, self.vectors * self.lanes),
            WeightBlocks(self.outputs, self.middle, self.lanes, True),
        )

    def _tables(self, link: Link) -> dict[Var, Table]:
        """Tables of the values that an output channel decides, in whole vectors."""
        width, finish = -(-link.channels // self.lanes) * self.lanes, link.finish
        return {
            name: Table(decl_buffer([width], DTYPE, "table"), finish.channel, part)
            for name, part in finish.parts
        }

    def _pixels(self, registers: int) -> int:
        """The pixels of a tile: as many as registers hold, or fewer that fill lines of known length better."""
        most = (registers - 2 - self.wide) // self.wide
        lengths = [size.value for size in (self.width, self.data_width) if isinstance(size, IntImm)]
        if len(lengths) < 2:
            return min(PIXELS, most)
        return min(range(most, LEAST - 1, -1), key=lambda p: sum(-(-n // p) * (p + 1) for n in lengths))

    # ------------------------------------------------------------------ tasks

    def loops(self, expand: Buffer, depthwise: Buffer, project: Buffer) -> Stmt:
        """All tasks, with weights in the orders of `packings`."""
        batch = self.chain.expand.windows.batch
        images = [(f"n{d}", size_of(v)) for d, v in enumerate(batch)]
        number: PrimExpr = const(1, "int64")
        for _, size in images:
            number = number * size
        chunks = self.sizes.named("chunks", self._chunks(number))
        share = self.sizes.named("share", ceildiv(self.height, chunks))

        def task(at: list[PrimExpr]) -> Stmt:
            *image, chunk = at
            first = simplify(minimum(chunk * share, self.height))
            return named("first", first, lambda first: named(
                "end", simplify(minimum(first + share, self.height)), lambda end: self._task(
                    image, first, end, (expand, depthwise, project))))  # fmt: skip

        tasks = loop("task", simplify(number * chunks), lambda flat: digits(
            flat, [*images, ("chunk", chunks)], task), ForKind.PARALLEL)  # fmt: skip
        for link in self.links:
            for table in self.tables[link.finish].values():
                tasks = AllocBuffer(table.buffer, block([table.filled(link.channels, self.lanes), tasks]))
        return self.sizes.around(tasks)

    def _chunks(self, images: PrimExpr) -> PrimExpr:
        """The chunks of an image: enough for all cores, if they have some lines each; more if they have many."""
        if self.cores == 1:
            return int64(1)
        images = maximum(images, int64(1))
        each = minimum(ceildiv(int64(self.cores), images), floordiv(self.height, SEAM))
        more = minimum(ceildiv(int64(2 * self.cores), images), floordiv(self.height, LONG))
        return simplify(maximum(maximum(each, more), int64(1)))

    def _task(
        self, image: list[PrimExpr], first: PrimExpr, end: PrimExpr, weights: tuple[Buffer, Buffer, Buffer]
    ) -> Stmt:
        """The lines of a chunk, by bands."""
        expand, depthwise, project = weights
        buffers = {
            "panel": self.slots * (self.inputs * self.panel_width),
            "ring": self.slots * (self.line * self.pitch),
            "middle": self.band * (self.tiles * (self.pixels * self.pitch)),
            "sums": self.band * (self.staged * (self.blocks * self.lanes)),
        }

        def bands(panel: Buffer, ring: Buffer, middle: Buffer, sums: Buffer) -> Stmt:
            def band(b: Var) -> Stmt:
                return named("line", simplify(first + b * self.band), lambda line: named(
                    "lines", simplify(minimum(self.band, end - line)), lambda lines: self._fresh(
                        image, b, line, lines, lambda band: block([
                            self._expanded(band, expand, panel, ring),
                            self._depthwise(band, depthwise, ring, middle),
                            self._projected(band, project, middle, sums)]))))  # fmt: skip

            return loop("b", simplify(ceildiv(end - first, self.band)), band)

        def allocated(names: list[str], done: list[Buffer]) -> Stmt:
            if not names:
                return bands(*done)
            return scratch(names[0], (simplify(buffers[names[0]]),), DTYPE, lambda buffer: allocated(
                names[1:], [*done, buffer]))  # fmt: skip

        return allocated(list(buffers), [])

    def _fresh(
        self, image: list[PrimExpr], b: Var, line: PrimExpr, lines: PrimExpr, body: Callable[[_Band], Stmt]
    ) -> Stmt:
        """`body` of a band: the ring has lines of the bands of the chunk before it."""
        stride, taps = self.down.stride, self.down.taps
        start = Select(b < 1, line * stride, (line - 1) * stride + taps)
        end = (line + lines - 1) * stride + taps
        return named("fresh", start, lambda fresh: named("count", simplify(minimum(end - fresh, self.slots)), lambda count: body(
            _Band(image, line, lines, fresh, count))))  # fmt: skip

    # ------------------------------------------------------------------ expansion

    def _expanded(self, band: _Band, weights: Buffer, panel: Buffer, ring: Buffer) -> Stmt:
        """Put the lines that a band needs into the ring."""
        link, lanes = self.chain.expand, self.lanes

        def each(
            body: Callable[[Var, PrimExpr, PrimExpr], Stmt], outside: Callable[[PrimExpr], Stmt] | None
        ) -> Stmt:
            """A statement for each line, told its number, its place and its slot, and one for those outside."""

            def line(i: Var) -> Stmt:
                q = band.fresh + i
                return let("y", simplify(q - self.down.before), lambda y: named(
                    "slot", floormod(q, self.slots), lambda slot: IfThenElse(
                        And(y >= 0, y < self.data_height), body(i, y, slot),
                        None if outside is None else outside(slot))))  # fmt: skip

            return loop("i", band.count, line)

        def tiles(start: int, pieces: Sequence[_Piece], group: PrimExpr, i: Var, slot: PrimExpr) -> Stmt:
            columns = simplify((group * len(pieces) + start) * lanes)

            def tile(t: Var) -> Stmt:
                place = (slot * self.line + self.along.before + t * self.pixels) * self.pitch + columns
                return part_of(panel, i * (self.inputs * self.panel_width) + t * self.pixels, (self.inputs, self.pixels), (
                    self.panel_width, 1), lambda data: part_of(ring, place, (self.pixels, len(pieces) * lanes), (
                        self.pitch, 1), lambda out: self._product(
                            pieces, self.inputs, lambda p, k: BufferLoad(data, (k, p)),
                            lambda k, piece: self._weights(weights, start, pieces, group, k, piece),
                            lambda acc: self._changed(link.finish, acc, pieces, columns, out))))  # fmt: skip

            return loop("t", self.data_tiles, tile)

        return block([
            each(lambda i, y, slot: self._copied(band.image, y, i, panel), None),
            self._groups(self.vectors, self.middle, lambda start, pieces, group: each(
                lambda i, y, slot: tiles(start, pieces, group, i, slot), None)),
            each(lambda i, y, slot: self._beside(ring, slot), lambda slot: self._zeros(ring, slot, int64(0), self.line)),
        ])  # fmt: skip

    def _copied(self, image: list[PrimExpr], y: PrimExpr, i: Var, panel: Buffer) -> Stmt:
        """Copy a line of the data, with zeros behind it."""
        lanes, data = self.lanes, self.chain.expand.windows.data
        vectors = simplify(floordiv(self.panel_width, lanes))

        def vector(part: Buffer, k: Var, v: Var) -> Stmt:
            mask = LT(ramp(v * lanes, lanes), spread(self.data_width, lanes))
            return vector_store(part, (k, 0), vector_load(data, (*image, k, y, v * lanes), lanes, mask))

        return loop("v", vectors, lambda v: part_of(
            panel, i * (self.inputs * self.panel_width) + v * lanes, (self.inputs, lanes), (self.panel_width, 1),
            lambda part: loop("k", self.inputs, lambda k: vector(part, k, v))))  # fmt: skip

    def _beside(self, ring: Buffer, slot: PrimExpr) -> Stmt:
        """Zeros before and behind a line of the ring."""
        behind = self.data_width + self.along.before
        return block(
            [
                self._zeros(ring, slot, int64(0), int64(self.along.before)),
                self._zeros(ring, slot, simplify(behind), simplify(self.line - behind)),
            ]
        )

    def _zeros(self, ring: Buffer, slot: PrimExpr, first: PrimExpr, count: PrimExpr) -> Stmt:
        """Zeros in some pixels of a line of the ring."""
        lanes = self.lanes
        return loop("x", count, lambda x: part_of(
            ring, (slot * self.line + first + x) * self.pitch, (self.pitch,), (1,), lambda part: loop(
                "v", self.vectors, lambda v: vector_store(part, (v * lanes,), self.zero))))  # fmt: skip

    # ------------------------------------------------------------------ depthwise

    def _depthwise(self, band: _Band, weights: Buffer, ring: Buffer, middle: Buffer) -> Stmt:
        """The depthwise sums of the lines of a band."""
        taps, stride, lanes = self.down.taps, self.down.stride, self.lanes
        reach = (self.pixels - 1) * self.along.stride + self.along.taps

        def line(r: Var) -> Stmt:
            q = simplify((band.first + r) * stride)
            return self._slots(q, list(range(taps)), [], lambda slots: loop(
                "c", self.vectors, lambda c: loop("t", self.tiles, lambda t: tile(r, slots, c, t))))  # fmt: skip

        def tile(r: Var, slots: Sequence[PrimExpr], c: Var, t: Var) -> Stmt:
            def lines(parts: list[Buffer]) -> Stmt:
                if len(parts) < taps:
                    place = (
                        slots[len(parts)] * self.line + t * (self.pixels * self.along.stride)
                    ) * self.pitch
                    return part_of(ring, place + c * lanes, (reach, lanes), (self.pitch, 1), lambda part: lines(
                        [*parts, part]))  # fmt: skip
                place = (r * (self.tiles * self.pixels) + t * self.pixels) * self.pitch
                return part_of(middle, place + c * lanes, (self.pixels, lanes), (self.pitch, 1), lambda out: (
                    self._windows(weights, parts, c, out)))  # fmt: skip

            return lines([])

        return loop("r", band.lines, line)

    def _slots(
        self, q: PrimExpr, taps: Sequence[int], slots: list[PrimExpr], body: Callable[[list[PrimExpr]], Stmt]
    ) -> Stmt:
        """`body` of the slots of the lines that taps of a window meet."""
        if len(slots) == len(taps):
            return body(slots)
        return named("slot", floormod(q + taps[len(slots)], self.slots), lambda slot: self._slots(
            q, taps, [*slots, slot], body))  # fmt: skip

    def _windows(self, weights: Buffer, parts: Sequence[Buffer], c: Var, out: Buffer) -> Stmt:
        """The sums of a tile over all taps, of a vector of channels."""
        lanes, along = self.lanes, self.along

        def tap(acc: Buffer, i: int, j: int) -> Stmt:
            weight = Var("w", f"{DTYPE}x{lanes}")

            def add(p: Var) -> Stmt:
                data = vector_load(parts[i], (p * along.stride + j, 0), lanes)
                return vector_store(acc, (p, 0), Add(vector_load(acc, (p, 0), lanes), Mul(weight, data)))

            return LetStmt(weight, vector_load(weights, (i * along.taps + j, c * lanes), lanes), loop(
                "p", self.pixels, add, ForKind.UNROLLED))  # fmt: skip

        def sums(acc: Buffer) -> Stmt:
            cleared = loop("p", self.pixels, lambda p: vector_store(acc, (p, 0), self.zero), ForKind.UNROLLED)
            added = [tap(acc, i, j) for i in range(len(parts)) for j in range(along.taps)]
            finish, columns = self.chain.depthwise.finish, simplify(c * lanes)
            return block([cleared, *added, self._changed(finish, acc, [_Piece(0, lanes)], columns, out)])

        return alloc("acc", (self.pixels, lanes), DTYPE, "local", sums)

    # ------------------------------------------------------------------ projection

    def _projected(self, band: _Band, weights: Buffer, middle: Buffer, sums: Buffer) -> Stmt:
        """The results of the lines of a band."""
        lanes = self.lanes

        def tiles(start: int, pieces: Sequence[_Piece], group: PrimExpr, r: Var) -> Stmt:
            def tile(t: Var) -> Stmt:
                place = (r * self.blocks + group * len(pieces) + start) * self.staged + t * self.pixels
                shape = (len(pieces), self.pixels, lanes)
                return part_of(middle, (r * self.tiles + t) * (self.pixels * self.pitch), (self.pixels, self.middle), (
                    self.pitch, 1), lambda data: part_of(sums, place * lanes, shape, (
                        self.staged * lanes, lanes, 1), lambda out: self._product(
                            pieces, self.middle, lambda p, k: BufferLoad(data, (p, k)),
                            lambda k, piece: self._weights(weights, start, pieces, group, k, piece),
                            lambda acc: stored(acc, pieces, out))))  # fmt: skip

            return loop("t", self.tiles, tile)

        def stored(acc: Buffer, pieces: Sequence[_Piece], out: Buffer) -> Stmt:
            return loop("p", self.pixels, lambda p: block(
                vector_store(out, (v, p, 0), vector_load(acc, (p, piece.start), piece.lanes))
                for v, piece in enumerate(pieces)), ForKind.UNROLLED)  # fmt: skip

        products = self._groups(self.blocks, self.outputs, lambda start, pieces, group: loop(
            "r", band.lines, lambda r: tiles(start, pieces, group, r)))  # fmt: skip
        lines = loop("r", band.lines, lambda r: let("y", simplify(band.first + r), lambda y: IfThenElse(
            y < self.chain.project.windows.axes[0].size, loop("block", self.blocks, lambda o: self._stored(band.image, r, y, o, sums)))))  # fmt: skip
        return block([products, lines])

    def _stored(self, image: list[PrimExpr], r: Var, y: Var, o: Var, sums: Buffer) -> Stmt:
        """Store a line of a block of channels."""
        lanes, finish = self.lanes, self.chain.project.finish
        indices = self.chain.project.windows.out.indices
        width = simplify(self.chain.project.windows.axes[1].size)
        whole = self.outputs % lanes == 0
        channels = int64(lanes) if whole else simplify(minimum(int64(lanes), self.outputs - o * lanes))

        def element(co: Var, x: PrimExpr, total: PrimExpr) -> Stmt:
            place = (*image, co, y, x)
            at = {v: p for v, p in zip(indices, place, strict=True) if isinstance(v, Var)}
            tables = {name: BufferLoad(table.buffer, (co,)) for name, table in self.tables[finish].items()}
            value = substitute(finish.store.value, {**at, **tables, finish.total: total})
            return BufferStore(finish.store.buffer, value, place)

        def channel(turned: Buffer, v: Var, p: Var, co: Var) -> Stmt:
            def one(lane: Var) -> Stmt:
                x = v * lanes + lane
                return IfThenElse(x < width, element(co, x, BufferLoad(turned, (p, lane))))

            return loop("lane", lanes, one, ForKind.VECTORIZED)

        def square(turned: Buffer, part: Buffer, v: Var) -> Stmt:
            return block([
                transposed_square(lanes, DTYPE, lambda q: vector_load(part, (q, 0), lanes),
                                  lambda p, vector: vector_store(turned, (p, 0), vector)),
                loop("p", channels, lambda p: let("co", minimum(o * lanes + p, int64(self.outputs - 1)), lambda co: channel(
                    turned, v, p, co)))])  # fmt: skip

        def at(turned: Buffer, v: Var) -> Stmt:
            place = ((r * self.blocks + o) * self.staged + v * lanes) * lanes
            return part_of(sums, place, (lanes, lanes), (lanes, 1), lambda part: square(turned, part, v))

        return scratch("turned", (lanes, lanes), DTYPE, lambda turned: loop(
            "v", simplify(ceildiv(self.width, lanes)), lambda v: at(turned, v)))  # fmt: skip

    # ------------------------------------------------------------------ tiles

    def _groups(
        self, vectors: int, channels: int, body: Callable[[int, Sequence[_Piece], PrimExpr], Stmt]
    ) -> Stmt:
        """A statement for each group of vectors of channels, told the first of those of its size, its pieces, its number.

        The last vector of few channels may be half of one.
        """
        lanes, stmts = self.lanes, list[Stmt]()
        rest = channels - (vectors - 1) * lanes
        for segment in even_pieces(vectors, -(-vectors // self.wide)):
            start = _number(segment.start)
            pieces = [_Piece(v * lanes, lanes) for v in range(segment.size)]
            if vectors == segment.size and rest <= lanes // 2 and lanes > 2:
                pieces[-1] = _Piece((vectors - 1) * lanes, lanes // 2)
            stmts.append(loop("group", segment.count, lambda g, s=start, ps=tuple(pieces): body(s, ps, g)))
        return block(stmts)

    def _weights(
        self, weights: Buffer, start: int, pieces: Sequence[_Piece], group: PrimExpr, k: Var, piece: _Piece
    ) -> PrimExpr:
        """A vector of weights for an input channel."""
        at = simplify(group * len(pieces) + (start + piece.start // self.lanes))
        return vector_load(weights, (at, k, 0), piece.lanes)

    def _product(
        self, pieces: Sequence[_Piece], depth: int, left: Callable[[Var, Var], PrimExpr],
        right: Callable[[Var, _Piece], PrimExpr], stored: Callable[[Buffer], Stmt],
    ) -> Stmt:  # fmt: skip
        """A tile: sums over input channels of pixels times vectors of weights, in registers."""
        width = len(pieces) * self.lanes

        def step(acc: Buffer, line: Buffer, k: Var) -> Stmt:
            loads = [vector_store(line, (piece.start,), right(k, piece)) for piece in pieces]

            def pixel(p: Var) -> Stmt:
                element = Var("a", DTYPE)
                added = [vector_store(acc, (p, piece.start), Add(
                    vector_load(acc, (p, piece.start), piece.lanes), Mul(
                        spread(element, piece.lanes), vector_load(line, (piece.start,), piece.lanes))))
                    for piece in pieces]  # fmt: skip
                return LetStmt(element, left(p, k), block(added))

            return block([*loads, loop("p", self.pixels, pixel, ForKind.UNROLLED)])

        def tile(acc: Buffer) -> Stmt:
            cleared = loop("p", self.pixels, lambda p: block(vector_store(
                acc, (p, piece.start), spread(const(0, DTYPE), piece.lanes)) for piece in pieces), ForKind.UNROLLED)  # fmt: skip
            added = alloc("vectors", (width,), DTYPE, "local", lambda line: loop(
                "k", depth, lambda k: step(acc, line, k)))  # fmt: skip
            return block([cleared, added, stored(acc)])

        return alloc("acc", (self.pixels, width), DTYPE, "local", tile)

    def _changed(
        self, finish: Finish, acc: Buffer, pieces: Sequence[_Piece], columns: PrimExpr, out: Buffer
    ) -> Stmt:
        """Store what is made of the sums of a tile, whose first channel is `columns`."""

        def vector(p: Var, piece: _Piece) -> Stmt:
            def lane(x: Var) -> Stmt:
                place = piece.start + x
                tables = {
                    name: BufferLoad(t.buffer, (columns + place,)) for name, t in self.tables[finish].items()
                }
                return let("total", BufferLoad(acc, (p, place)), lambda total: BufferStore(
                    out, substitute(finish.store.value, {**tables, finish.total: total}), (p, place)))  # fmt: skip

            return loop("x", piece.lanes, lane, ForKind.VECTORIZED)

        return loop("p", self.pixels, lambda p: block(vector(p, piece) for piece in pieces), ForKind.UNROLLED)

    @property
    def zero(self) -> PrimExpr:
        return spread(const(0, DTYPE), self.lanes)


def _number(size: PrimExpr) -> int:
    assert isinstance(size, IntImm)
    return size.value


__all__ = ["RowLoops", "TapVectors"]
