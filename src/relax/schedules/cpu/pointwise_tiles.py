"""The loops of convolutions of single elements: products of weights and pixels.

    AlongPixels                                             AlongChannels

    for task in T.parallel(N * chunks * groups):            for task in T.parallel(N * chunks * groups):
        panels[:, :, :] = X[n, :, chunk]                        panel[:, :] = X[n, :, chunk]
        for io in blocks of 14 channels of the group:           for jo in blocks of 64 channels of the group:
            for jo in panels of 32 pixels of the chunk:             for ko in parts of 80 input channels:
                acc = T.alloc_buffer((14, 32), scope="local")           for io in groups of 6 pixels of the chunk:
                for ci in range(CI):                                        acc = sums[io * 6 + …, :]
                    acc[p, :] += W[io, ci, p] * panels[jo, ci, :]           for ci in the part:
                C[n, io * 14 + p, jo * 32 + …] = f(acc)                         acc[p, :] += panel[ci, …] * W[jo, ci, :]
                                                                            sums[io * 6 + …, :] = acc
                                                                    C[n, jo * 64 + …, chunk] = f(sums transposed)

The first form writes results as they are in memory, but 49 pixels fill 4 vectors of 16 badly. The second form has tiles
of as many pixels as divide the image well, while numbers of channels fill vectors; it transposes results, which few
input channels do not pay for. `writer_for` compares the two where the number of pixels is known.

A tile's last rows and columns are no code of their own: the last block of channels begins so early that it is whole,
pixels behind the last one are loaded as zeros and not stored. Each number of pixels runs the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from ...prim import LT, Add, IntImm, Mul, PrimExpr, Var, const, is_const, simplify
from ...prim.instructions import prefetch
from ...prim.intrin import ceildiv, floordiv, floormod
from ...prim.intrin import max as maximum
from ...prim.intrin import min as minimum
from ...target import Target
from ...tir import (
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
)
from ..build import (
    alloc,
    block,
    digits,
    int64,
    let,
    loop,
    named,
    ramp,
    scratch,
    spread,
    vector_load,
    vector_store,
)
from ..contraction import size_of
from .operands import Results, Values
from .pixels import Pixels, WeightBlocks
from .tiling import Tile, has_masks, tile_for

Load: TypeAlias = Callable[[Values, PrimExpr, PrimExpr], PrimExpr]
"""A vector of an image and an input channel, from a pixel on."""

Maker: TypeAlias = Callable[[PrimExpr, PrimExpr], Stmt]
"""The store of the result made of the sum in a column of a row."""

CHUNK: Final = 512
"""The most pixels of a chunk: runs of a line that are worth a stream."""
SUMMED: Final = 128
"""The most pixels of a chunk whose sums are transposed: they are in the first-level cache."""
DEPTH: Final = 80
"""The input channels of a part: their weights for a block and their pixels are in the first-level cache together."""
DEEP: Final = 320
"""The input channels from which on images of unknown size are taken to be small."""
TRANSPOSED: Final = 12
"""The steps in which a vector of results is transposed and stored."""
LEAST: Final = 96
"""The pixels of a chunk at least."""
TASKS: Final = 2
"""The tasks for each core, if there are so many."""
LEAST_BLOCKS: Final = 4
"""The blocks of channels that share a copy of pixels at least, where there are so many."""
FEW_BLOCKS: Final = 4
"""The blocks of channels up to which multiplying does not take much longer than reading the pixels."""
QUARTERS: Final = 4
"""The tiles that together ask for the weights behind those they read."""


# ------------------------------------------------------------------------------------- choice


def shapes(tile: Tile) -> list[tuple[int, int]]:
    """The rows and vectors of tiles for which there are registers: accumulators, a row of vectors, one broadcast."""
    registers = 32 if tile.vectors == 4 else 16
    return [(height, v) for v in range(1, tile.vectors + 1)
            for height in range(1, min((registers - 2 - v) // v, registers - 4) + 1)]  # fmt: skip


def cost(rows: PrimExpr, vectors: PrimExpr, shape: tuple[int, int]) -> float:
    """The steps in which tiles of a shape multiply for one input channel: loads and multiplications, two a step.

    Of an unknown number of rows or vectors, the steps for one of them, with a little for what the last tile wastes.
    """
    height, wide = shape
    step = max(height * wide / 2, (height + wide) / 2 * 1.05, 4) + 0.5
    high = -(-rows.value // height) if isinstance(rows, IntImm) else 1 / height + 1 / 96
    across = -(-vectors.value // wide) if isinstance(vectors, IntImm) else 1 / wide + 1 / 24
    return high * across * step


def best(rows: PrimExpr, vectors: PrimExpr, tile: Tile) -> tuple[int, int]:
    """The shape of tile that takes the fewest steps, with no more rows than there are."""
    most = max(rows.value, 1) if isinstance(rows, IntImm) else tile.rows * tile.vectors * 2
    options = [shape for shape in reversed(shapes(tile)) if shape[0] <= most]
    return min(options, key=lambda shape: cost(rows, vectors, shape))


def writer_for(pixels: Pixels, target: Target) -> AlongPixels | AlongChannels:
    """The form that takes fewer steps; for an unknown number of pixels, by the number of input channels."""
    first, second = AlongPixels(pixels, target), AlongChannels(pixels, target)
    moved = pixels.channels / first.lanes * TRANSPOSED / pixels.inputs
    if isinstance(pixels.count, IntImm):
        return first if first.cost() <= second.cost() + pixels.count.value * moved else second
    return first if pixels.inputs < DEEP else second


# ------------------------------------------------------------------------------------- loops


class _Writer:
    """The parts that both forms have in common."""

    def __init__(self, pixels: Pixels, target: Target) -> None:
        self.pixels = pixels
        self.target = target
        self.cores, self.cache = target.num_cores, target.machine.caches.l2
        dtype = pixels.total.dtype
        self.tile = tile_for(target, dtype.bits)
        self.lanes, self.dtype, self.bytes = self.tile.lanes, str(dtype), dtype.bits // 8
        self.vector = str(dtype.with_lanes(self.lanes))
        rows, vectors = self.sizes()
        self.height, self.vectors = best(rows, vectors, self.tile)
        self.width = self.vectors * self.lanes
        is_whole = is_const(simplify(floormod(pixels.count, self.unit())), 0)
        self.bound: PrimExpr | None = None if is_whole else pixels.count
        """The number of pixels, unless they fill what is stored at a time."""

    def sizes(self) -> tuple[PrimExpr, PrimExpr]:
        """The number of rows of tiles, and of vectors in a row."""
        raise NotImplementedError

    def unit(self) -> int:
        """The neighbouring pixels that are stored at a time."""
        raise NotImplementedError

    def cost(self) -> float:
        """The steps for one input channel."""
        return cost(*self.sizes(), (self.height, self.vectors))

    def chunk_of(self, unit: int, most: int) -> int:
        """The pixels of a chunk, a multiple of some: as many as a quarter of the second-level cache holds data of.

        Fewer if an image has too few chunks for the cores: chunks share weights, groups of channels copy pixels again.
        """
        most = max(min(self.cache // 4 // (self.pixels.inputs * self.bytes), most) // unit, 1)
        count = self.pixels.count
        if isinstance(count, IntImm):
            units = max(-(-count.value // unit), 1)
            tasks = min(TASKS * self.cores, count.value // LEAST) if self.cores > 1 else 1
            most = -(-units // max(-(-units // most), tasks))
        return most * unit

    def tasks(
        self, chunk: int, blocks: int, body: Callable[[Values, PrimExpr, PrimExpr, PrimExpr], Stmt]
    ) -> Stmt:
        """The parallel loop over images, chunks of pixels and groups of blocks of channels.

        `body` is told the image, the first pixel of the chunk, the first block and the number of blocks.
        """
        batch = self.pixels.batch
        chunks = simplify(ceildiv(self.pixels.count, chunk))

        def grouped(chunks: PrimExpr) -> Stmt:
            others = _product([*(size_of(v) for v in batch), chunks])
            number = _groups(blocks, others, self.cores)
            return named(
                "groups", number, lambda number: parallel([*(size_of(v) for v in batch), chunks, number])
            )

        def parallel(sizes: list[PrimExpr]) -> Stmt:
            names = [*(v.var.name for v in batch), "ch", "go"]
            return loop("task", _product(sizes), lambda var: digits(
                var, names, sizes, lambda parts: task(parts, sizes[-1])), ForKind.PARALLEL)  # fmt: skip

        def task(parts: list[PrimExpr], number: PrimExpr) -> Stmt:
            *image, ch, go = parts
            values = dict(zip((v.var for v in batch), image, strict=True))
            share = simplify(floordiv(int64(blocks) + (number - 1), number))
            return named("base", simplify(ch * chunk), lambda base: named("share", share, lambda share: named(
                "first", simplify(minimum(go * share, int64(blocks))), lambda first: named("count", simplify(minimum(
                    int64(blocks) - first, share)), lambda count: body(values, base, first, count)))))  # fmt: skip

        return self.pixels.declared(named("chunks", chunks, grouped), self.lanes)

    # ------------------------------------------------------------------ data

    def copied(
        self, chunk: int, start: PrimExpr, bound: PrimExpr | None, body: Callable[[Load], Stmt]
    ) -> Stmt:  # fmt: skip
        """`body` of a function that loads a vector of the chunk's pixels, of which those from a bound on are 0.

        Pixels that are not neighbours in the data are found by a table of their places.
        """
        pixels, lanes = self.pixels, self.lanes

        def neighbours(values: Values, k: PrimExpr, c: PrimExpr) -> PrimExpr:
            at = simplify(start + c)
            return vector_load(pixels.source, (*_image(pixels, values), k, at), lanes, self.mask(at, bound))

        if not pixels.steps:
            return body(neighbours)

        sizes = [simplify(maximum(axis.size, int64(1))) for axis in pixels.steps]

        def place(
            d: int, rest: PrimExpr, distance: PrimExpr, at: PrimExpr, body: Callable[[PrimExpr], Stmt]
        ) -> Stmt:
            """`body` of the place of pixel `rest` of the first `d` + 1 axes, behind the place in the others."""
            axis, size = pixels.steps[d], sizes[d]
            step = axis.stride * distance
            if d == 0:
                return body(simplify(at + rest * step))
            return named("outer", floordiv(rest, size), lambda outer: named(
                "place", at + (rest - outer * size) * step, lambda at: place(
                    d - 1, outer, distance * axis.extent, at, body)))  # fmt: skip

        def table(places: Buffer) -> Stmt:
            def gathered(values: Values, k: PrimExpr, c: PrimExpr) -> PrimExpr:
                where = vector_load(places, (c,), lanes)
                return BufferLoad(pixels.source, (*_image(pixels, values), k, where))

            last = pixels.count - 1
            filled = loop("p", chunk, lambda p: named("pixel", minimum(start + p, last), lambda pixel: place(
                len(sizes) - 1, pixel, int64(1), int64(0), lambda at: BufferStore(places, at, (p,)))))  # fmt: skip
            return block([filled, body(gathered)])

        return scratch("places", (chunk,), "int64", table)

    def mask(self, column: PrimExpr, bound: PrimExpr | None) -> PrimExpr | None:
        """The lanes of a vector that are below a bound."""
        return None if bound is None else LT(ramp(column, self.lanes), spread(bound, self.lanes))

    # ------------------------------------------------------------------ tiles

    def each(self, body: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
        """A statement for each vector of a tile, told its row and its first column; written out."""
        return loop("p", self.height, lambda p: loop(
            "v", self.vectors, lambda v: body(p, v * self.lanes), ForKind.UNROLLED), ForKind.UNROLLED)  # fmt: skip

    def sums(
        self,
        depth: PrimExpr,
        left: Callable[[Var, Var], PrimExpr],
        right: Callable[[Var, PrimExpr], PrimExpr],
        start: Callable[[PrimExpr, PrimExpr], PrimExpr],
        stored: Callable[[Buffer], Stmt],
        asked: Callable[[Var], Stmt] | None = None,
    ) -> Stmt:
        """A tile: sums in registers over so many input channels of rows times vectors.

        `left` is the element of a row and `right` a vector, for an input channel; `start` is a vector to begin with.
        """
        lanes = self.lanes

        def step(acc: Buffer, vectors: Buffer, k: Var) -> Stmt:
            loads = loop("v", self.vectors, lambda v: vector_store(
                vectors, (v * lanes,), right(k, v * lanes)), ForKind.UNROLLED)  # fmt: skip

            def row(p: Var) -> Stmt:
                element = Var("a", self.vector)

                def update(v: Var) -> Stmt:
                    term = Mul(element, vector_load(vectors, (v * lanes,), lanes))
                    return vector_store(
                        acc, (p, v * lanes), Add(vector_load(acc, (p, v * lanes), lanes), term)
                    )

                products = loop("v", self.vectors, update, ForKind.UNROLLED)
                return LetStmt(element, spread(left(p, k), lanes), products)

            ahead = [] if asked is None else [asked(k)]
            return block([*ahead, loads, loop("p", self.height, row, ForKind.UNROLLED)])

        def tile(acc: Buffer) -> Stmt:
            added = alloc("vectors", (self.width,), self.dtype, "local", lambda vectors: loop(
                "k", depth, lambda k: step(acc, vectors, k)))  # fmt: skip
            return block([self.each(lambda p, c: vector_store(acc, (p, c), start(p, c))), added, stored(acc)])

        return alloc("acc", (self.height, self.width), self.dtype, "local", tile)

    def results(
        self, values: Values, row: PrimExpr, column: PrimExpr, height: PrimExpr, width: PrimExpr, vectors: PrimExpr,
        total: Callable[[PrimExpr, PrimExpr], PrimExpr],
    ) -> Stmt:  # fmt: skip
        """Store what is made of the sums of some rows and of `vectors` vectors of pixels, those below `width`."""
        at = {**values, self.pixels.row: row, self.pixels.column: column}
        result = Results(self.pixels, at, height, width)

        def vector(r: Var, v: Var) -> Stmt:
            def lane(x: Var) -> Stmt:
                c = v * self.lanes + x
                stored = result.made(r, c, total(r, c))
                return stored if self.bound is None else IfThenElse(c < width, stored)

            return loop("x", self.lanes, lane, ForKind.VECTORIZED)

        return result.declared(loop("r", height, lambda r: loop("v", vectors, lambda v: vector(r, v))))

    @property
    def zero(self) -> PrimExpr:
        return spread(const(0, self.dtype), self.lanes)


class AlongPixels(_Writer):
    """Writes loops whose vectors are pixels; rows of tiles are output channels."""

    def sizes(self) -> tuple[PrimExpr, PrimExpr]:
        return int64(self.pixels.channels), simplify(ceildiv(self.pixels.count, self.lanes))

    def unit(self) -> int:
        return self.width

    def packing(self) -> WeightBlocks:
        """The order of weights: blocks of as many channels as a tile has rows."""
        return WeightBlocks(self.pixels.channels, self.pixels.inputs, self.height, False)

    def loops(self, packed: Buffer | None) -> Stmt:
        """All tasks; with weights in the order of `packing`, or as they are."""
        pixels, chunk = self.pixels, self.chunk_of(self.width, CHUNK)
        blocks = -(-pixels.channels // self.height)

        def task(values: Values, start: PrimExpr, first: PrimExpr, count: PrimExpr) -> Stmt:
            whole = simplify(minimum(int64(chunk), pixels.count - start))
            panels = simplify(ceildiv(whole, self.width))
            return named("panels", panels, lambda panels: self.copied(chunk, start, self.bound, lambda load: rows(
                values, start, first, count, panels, load)))  # fmt: skip

        def rows(
            values: Values, start: PrimExpr, first: PrimExpr, count: PrimExpr, panels: PrimExpr,
            load: Load,
        ) -> Stmt:  # fmt: skip
            def tiles(vector: Callable[[Var, Var, PrimExpr], PrimExpr]) -> Stmt:
                last = int64(pixels.channels - self.height)
                return loop("i", count, lambda i: let("io", minimum(first + i, int64(blocks - 1)), lambda io: let(
                    "row", minimum(io * self.height, last), lambda row: loop("jo", panels, lambda jo: self._tile(
                        values, packed, io, row, simplify(start + jo * self.width),
                        lambda k, c: vector(jo, k, c), ahead(i, jo))))))  # fmt: skip

            def ahead(i: Var, jo: Var) -> Callable[[Var], Stmt] | None:
                """Ask for pixels of the next chunk, a line of the cache in each step, in the order of memory."""
                if pixels.steps or not 1 < blocks <= FEW_BLOCKS or pixels.inputs <= pixels.channels:
                    return None
                lines = chunk // self.lanes

                def asked(k: Var) -> Stmt:
                    step = (i * (chunk // self.width) + jo) * pixels.inputs + k
                    channel = minimum(floordiv(step, lines), int64(pixels.inputs - 1))
                    column = start + chunk + floormod(step, lines) * self.lanes
                    place = (*_image(pixels, values), channel, column)
                    return Evaluate(prefetch(BufferLoad(pixels.source, place), locality=2))

                return asked

            if blocks == 1:
                return tiles(lambda jo, k, c: load(values, k, jo * self.width + c))

            def copy(buffer: Buffer) -> Stmt:
                vectors = loop("k", pixels.inputs, lambda k: loop("jo", panels, lambda jo: loop(
                    "v", self.vectors, lambda v: vector_store(buffer, (jo, k, v * self.lanes), load(
                        values, k, jo * self.width + v * self.lanes)), ForKind.UNROLLED)))  # fmt: skip
                return block([vectors, tiles(lambda jo, k, c: vector_load(buffer, (jo, k, c), self.lanes))])

            return scratch("copy", (chunk // self.width, pixels.inputs, self.width), self.dtype, copy)

        return self.tasks(chunk, blocks, task)

    def _tile(
        self, values: Values, packed: Buffer | None, io: Var, row: Var, start: PrimExpr,
        right: Callable[[Var, PrimExpr], PrimExpr], asked: Callable[[Var], Stmt] | None,
    ) -> Stmt:  # fmt: skip
        """A tile: sums over all input channels, and its results."""
        pixels, weights = self.pixels, self.pixels.weights

        def left(p: Var, k: Var) -> PrimExpr:
            if packed is not None:
                return BufferLoad(packed, (io, k, p))
            return BufferLoad(weights, (row + p, k, *(int64(0) for _ in weights.shape[2:])))

        def stored(acc: Buffer) -> Stmt:
            width = (
                int64(self.width) if self.bound is None else minimum(int64(self.width), pixels.count - start)
            )
            return named("inside", simplify(width), lambda width: made(acc, width))

        def made(acc: Buffer, width: PrimExpr) -> Stmt:
            if pixels.store.value is pixels.total:
                at = {**values, pixels.row: row, pixels.column: start}
                result = Results(pixels, at, int64(self.height), width)
                bound = None if self.bound is None else width
                return result.declared(self.each(lambda p, c: vector_store(result.out, result.place(
                    p, c), vector_load(acc, (p, c), self.lanes), self.mask(c, bound))))  # fmt: skip
            if self.bound is None or has_masks(self.target):
                return self._made(values, row, start, width, acc)
            return scratch("sums", (self.height, self.width), self.dtype, lambda sums: block([
                self.each(lambda p, c: vector_store(sums, (p, c), vector_load(acc, (p, c), self.lanes))),
                self.results(values, row, start, int64(self.height), width, int64(self.vectors), lambda r, c: (
                    BufferLoad(sums, (r, c))))]))  # fmt: skip

        return self.sums(int64(pixels.inputs), left, right, lambda p, c: self.zero, stored, asked)

    def _made(self, values: Values, row: PrimExpr, start: PrimExpr, width: PrimExpr, acc: Buffer) -> Stmt:
        """Store what is made of the sums of a tile, which stay in registers; written out."""
        at = {**values, self.pixels.row: row, self.pixels.column: start}
        result = Results(self.pixels, at, int64(self.height), width)

        def vector(p: Var, first: PrimExpr, maker: Maker) -> Stmt:
            def lane(x: Var) -> Stmt:
                c = first + x
                return let("total", BufferLoad(acc, (p, c)), lambda total: _under(
                    None if self.bound is None else c < width, maker(c, total)))  # fmt: skip

            return loop("x", self.lanes, lane, ForKind.VECTORIZED)

        def of_row(p: Var) -> Stmt:
            return result.of_row(p, lambda maker: loop("v", self.vectors, lambda v: vector(
                p, v * self.lanes, maker), ForKind.UNROLLED))  # fmt: skip

        return result.declared(loop("p", self.height, of_row, ForKind.UNROLLED))


class AlongChannels(_Writer):
    """Writes loops whose vectors are output channels; rows of tiles are pixels."""

    def sizes(self) -> tuple[PrimExpr, PrimExpr]:
        return self.pixels.count, int64(-(-self.pixels.channels // self.lanes))

    def unit(self) -> int:
        return self.lanes

    def packing(self) -> WeightBlocks:
        """The order of weights: blocks of as many channels as a tile has columns."""
        return WeightBlocks(self.pixels.channels, self.pixels.inputs, self.width, True)

    def loops(self, packed: Buffer) -> Stmt:
        """All tasks, with weights in the order of `packing`."""
        pixels, lanes, chunk = self.pixels, self.lanes, self.chunk_of(self.lanes, SUMMED)
        count = pixels.count
        most = min(chunk, count.value) if isinstance(count, IntImm) else chunk
        columns = (-(-(-(-most // self.height) * self.height) // lanes) | 1) * lanes
        """Those of whole tiles and whole vectors, an odd number: the rows of a panel are in all sets of a cache."""
        last = int64(-(-pixels.channels // self.width) - 1)

        def task(values: Values, start: PrimExpr, first: PrimExpr, blocks: PrimExpr) -> Stmt:
            def copied(panel: Buffer, load: Load, inside: PrimExpr) -> Stmt:
                vectors = simplify(ceildiv(ceildiv(inside, self.height) * self.height, lanes))
                copy = loop("k", pixels.inputs, lambda k: loop("v", vectors, lambda v: vector_store(
                    panel, (k, v * lanes), load(values, k, v * lanes))))  # fmt: skip
                return block([copy, scratch("sums", (columns, self.width), self.dtype, lambda sums: loop(
                    "j", blocks, lambda j: let("jo", minimum(first + j, last), lambda jo: self._block(
                        values, packed, panel, sums, jo, start, inside))))])  # fmt: skip

            whole = simplify(minimum(int64(chunk), count - start))
            return named("inside", whole, lambda inside: self.copied(columns, start, count, lambda load: scratch(
                "panel", (pixels.inputs, columns), self.dtype, lambda panel: copied(panel, load, inside))))  # fmt: skip

        return self.tasks(chunk, -(-pixels.channels // self.width), task)

    def _block(
        self, values: Values, packed: Buffer, panel: Buffer, sums: Buffer, jo: Var, start: PrimExpr, inside: PrimExpr
    ) -> Stmt:  # fmt: skip
        """A block of channels for the pixels of a chunk."""
        inputs, lanes = self.pixels.inputs, self.lanes
        parts = -(-inputs // DEPTH)
        part = -(-inputs // parts)
        tiles = simplify(ceildiv(inside, self.height))
        cleared = loop("r", simplify(tiles * self.height), lambda r: loop("v", self.vectors, lambda v: vector_store(
            sums, (r, v * lanes), self.zero), ForKind.UNROLLED))  # fmt: skip

        def added(begin: PrimExpr) -> Stmt:
            depth = simplify(minimum(int64(part), inputs - begin))
            return named("depth", depth, lambda depth: loop("io", tiles, lambda io: self._tile(
                packed, panel, sums, jo, io, begin, depth)))  # fmt: skip

        channels = simplify(minimum(int64(self.width), self.pixels.channels - jo * self.width))
        vectors = simplify(ceildiv(inside, lanes))
        results = named("height", channels, lambda height: self.results(
            values, simplify(jo * self.width), start, height, inside, vectors, lambda r, c: (
                BufferLoad(sums, (c, r)))))  # fmt: skip
        return block([cleared, loop("ko", parts, lambda ko: added(ko * part)), results])

    def _tile(
        self, packed: Buffer, panel: Buffer, sums: Buffer, jo: Var, io: Var, begin: PrimExpr, depth: PrimExpr
    ) -> Stmt:  # fmt: skip
        """Add the products of some input channels to the sums of a tile.

        Tiles ask for the weights behind those they read, each for a quarter of them.
        """
        first, lanes = io * self.height, self.lanes

        def asked(k: Var) -> Stmt:
            quarter = floordiv(depth, QUARTERS) * floormod(io, QUARTERS)
            line = BufferLoad(packed, (jo, begin + depth + quarter, k * lanes))
            return Evaluate(prefetch(line, locality=2))

        return self.sums(
            depth,
            lambda p, k: BufferLoad(panel, (begin + k, first + p)),
            lambda k, c: vector_load(packed, (jo, begin + k, c), lanes),
            lambda p, c: vector_load(sums, (first + p, c), lanes),
            lambda acc: self.each(lambda p, c: vector_store(
                sums, (first + p, c), vector_load(acc, (p, c), lanes))),
            asked,
        )  # fmt: skip


def _under(condition: PrimExpr | None, stmt: Stmt) -> Stmt:
    """A statement that runs if a condition holds, if there is one."""
    return stmt if condition is None else IfThenElse(condition, stmt)


def _image(pixels: Pixels, values: Values) -> Sequence[PrimExpr]:
    """The indices of an image in the data."""
    return [values[v.var] for v in pixels.batch]


def _groups(blocks: int, others: PrimExpr, cores: int) -> PrimExpr:
    """The number of groups of blocks of channels, where `others` tasks are too few for the cores."""
    most = max(blocks // LEAST_BLOCKS, 1)
    if cores == 1 or most == 1:
        return int64(1)
    missing = floordiv(int64(TASKS * cores), maximum(others, int64(1)))
    return simplify(maximum(int64(1), minimum(int64(most), missing)))


def _product(sizes: Sequence[PrimExpr]) -> PrimExpr:
    total: PrimExpr = int64(1)
    for size in sizes:
        total = total * size
    return simplify(total)


__all__ = ["AlongChannels", "AlongPixels", "best", "cost", "shapes", "writer_for"]
