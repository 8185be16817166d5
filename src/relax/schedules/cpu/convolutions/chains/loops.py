"""Loops of a chain of three convolutions fused row by row; see `by_rows`.

Rows are numbered with the padding: row `q` of the ring buffer is row `q - before` of the data. A tile is some
consecutive pixels of a row by some channel vectors. The last tile of a row reaches past it: panels are zero-padded, and
the ring's pixels there are set to zero, like the padding beside the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from .....prim import EQ, Add, And, IntImm, Mul, Not, Or, PrimExpr, Select, Var, const, simplify
from .....prim.intrin import ceildiv, floordiv, floormod
from .....prim.intrin import max as maximum
from .....prim.intrin import min as minimum
from .....runtime.records import dataclass
from .....target import Target
from .....tir import AllocBuffer, Buffer, BufferLoad, BufferStore, ForKind, IfThenElse, LetStmt, Stmt
from .....tir.buffer import decl_buffer
from .....tir.functor import substitute
from ....build import (  # fmt: skip
    alloc,
    block,
    int64,
    let,
    loop,
    named,
    scratch,
    shared,
    size_of,
    vector_load,
    vector_store,
)
from ...tile import Vector
from ...tile.division import Segment, even_pieces
from ...tile.transposes import transposed_square
from ..channel_blocks import part_of
from ..planes import Sizes, digits
from ..pointwise.operands import RowPacking, Table, TapVectors, WeightBlocks
from .chain import DTYPE, Chain, Link
from .panels import RowPanel, Step, panel_of
from .tiles import BYTES, RowTiles, number_of_size

LONG: Final = 14
"""Rows of a chunk for which recomputing the expansion of rows at seams costs less than synchronising cores and sharing
their caches.
"""
SHARE: Final = 28
"""Fewest pixels of a projection task, which amortise loading the weights."""
PIXELS: Final = 7
"""Pixels of a tile for rows of dynamic length; image widths are often multiples of 7."""
LEAST: Final = 4
"""Fewest pixels of a tile."""


@dataclass(frozen=True)
class Band:
    """Rows of a chunk of the result that are computed together."""

    image: list[PrimExpr]
    first: PrimExpr
    """First row."""
    lines: PrimExpr
    fresh: PrimExpr
    """First padded data row not read by earlier bands."""
    count: PrimExpr
    """Number of data rows not read by earlier bands."""
    begins: PrimExpr
    """True for the first band of the chunk."""


class RowLoops(RowTiles):
    """Writes the loops of one float32 chain."""

    dtypes = (DTYPE, DTYPE, DTYPE)
    """Dtypes of the panel, the ring buffer and the depthwise results."""
    packed_dtypes = (DTYPE, DTYPE, DTYPE)
    """Dtypes of the weights packed by `packings`."""

    def __init__(self, chain: Chain, target: Target, lanes: int) -> None:
        self.chain, self.lanes, self.cores = chain, lanes, target.num_cores
        self.down, self.along = chain.axes
        self.middle = chain.expand.channels
        self.outputs = chain.project.channels
        self.vectors = -(-self.middle // lanes)
        """Channel vectors of the intermediate images."""
        self.pitch = (self.vectors | 1) * lanes
        """Pixel pitch of the depthwise results: an odd number of vectors, so that all cache sets are used."""
        self.blocks = -(-self.outputs // lanes)
        self.wide = 3 if target.machine.vector_registers >= 32 else 2
        """Most vectors of a tile."""
        self.links = (chain.expand, chain.depthwise, chain.project)
        self.tables = {link.finish: self._tables(link) for link in self.links}
        """Per-channel values of each epilogue, by the variable that stands for them."""
        self.sizes = Sizes()
        name = self.sizes.named
        self.height, self.width = (name(n, axis.size) for n, axis in zip(("height", "width"), chain.axes, strict=True))
        self.panel = self._panel()
        """Form in which the data are copied."""
        self.extents = self.panel.extents
        self.data_width = name("columns", self.extents[1])
        self.registers = target.machine.vector_registers
        self.pixels = self._pixels(self.registers)
        """Pixels of a tile."""
        self.tiles = name("tiles", ceildiv(self.width, self.pixels))
        """Tiles of a result row."""
        self.data_tiles = name("data_tiles", ceildiv(self.data_width, self.pixels))
        self.panel_width = name("panel_width", ceildiv(
            self.data_tiles * self.pixels + self.panel.reach, lanes) * lanes)  # fmt: skip
        self.line = name("line", maximum(self.data_tiles * self.pixels + self.along.before, (
            self.tiles * (self.pixels * self.along.stride) + (self.along.taps - self.along.stride))))  # fmt: skip
        """Pixels of a row of the ring buffer."""
        self.staged = name("staged", ceildiv(self.tiles * self.pixels, lanes) * lanes)
        """Pixels of a row staged for register transposes, rounded up to whole squares."""
        self.groups = even_pieces(self.vectors, -(-self.vectors // self.wide))
        """Groups of intermediate channel vectors; a task computes one, from the expansion to the depthwise results."""
        self.number = sum(number_of_size(segment.count) for segment in self.groups)
        self.project_groups = even_pieces(self.blocks, -(-self.blocks // self.wide))
        """Groups of result channel vectors."""
        self.finals = sum(number_of_size(segment.count) for segment in self.project_groups)
        self.group_pitch = (max(segment.size for segment in self.groups) | 1) * lanes
        """Pixel pitch of the ring buffer, in elements."""
        self.images = name("images", self._images())
        """Number of images."""
        self.chunks = name("chunks", self._chunks())
        """Number of chunks of an image."""
        self.share = name("share", ceildiv(self.height, maximum(self.chunks, int64(1))))
        """Rows of a chunk."""
        line = maximum(self.tiles * (self.pixels * self.pitch * BYTES), int64(1))
        quarter = int64(target.machine.caches.l2 // 4)
        caches = Select(EQ(self.images * self.chunks, int64(1)), quarter * self.cores, quarter)
        self.band = name("band", maximum(minimum(floordiv(caches, line), self.share), int64(1)))
        """Rows of a band of a chunk: their depthwise results fit a quarter of the L2 cache, or of all cores' L2 caches
        if the cores share the chunk.
        """
        self.met = name("met", (self.band - 1) * self.down.stride + self.down.taps)
        """Most new data rows of a band."""
        self.together = name("together", minimum(
            ceildiv(int64(SHARE), maximum(self.width, int64(1))), self.band))  # fmt: skip
        """Rows that are projected together."""

    def _panel(self) -> RowPanel:
        return panel_of(self.chain.expand, self.lanes)

    def packings(self) -> tuple[RowPacking, RowPacking, RowPacking]:
        """Packings of the three weights."""
        return (
            WeightBlocks(self.middle, self.panel.depth, self.lanes, True),
            TapVectors(self.middle, self.down.taps * self.along.taps, self.vectors * self.lanes),
            WeightBlocks(self.outputs, self.middle, self.lanes, True),
        )

    def _tables(self, link: Link) -> dict[Var, Table]:
        """Tables of per-channel values, padded to whole vectors."""
        width, finish = -(-link.channels // self.lanes) * self.lanes, link.finish
        return {name: Table(decl_buffer([width], DTYPE, "table"), finish.channel, part) for name, part in finish.parts}

    def _pixels(self, registers: int) -> int:
        """Pixels of a tile: as many as registers hold, or fewer if these cover rows of static length better."""
        most = (registers - 2 - self.wide) // self.wide
        lengths = [size.value for size in (self.width, self.data_width) if isinstance(size, IntImm)]
        if len(lengths) < 2:
            return min(PIXELS, most)
        return min(range(most, LEAST - 1, -1), key=lambda p: sum(-(-n // p) * (p + 1) for n in lengths))

    def _images(self) -> PrimExpr:
        number: PrimExpr = const(1, "int64")
        for v in self.chain.expand.windows.batch:
            number = number * size_of(v)
        return simplify(number)

    def _chunks(self) -> PrimExpr:
        """Chunks of an image: one if there are enough images for the cores or too few rows; cores then share channel
        groups.
        """
        if self.cores == 1:
            return int64(1)
        is_even = Or(EQ(floormod(self.images, self.cores), int64(0)), self.images >= 4 * self.cores)
        is_cut = And(Not(is_even), self.height >= LONG * self.cores)
        return Select(is_cut, int64(self.cores), int64(1))

    # ------------------------------------------------------------------ tasks

    def loops(self, expand: Buffer, depthwise: Buffer, project: Buffer) -> Stmt:
        """Return the loops over all images, for weights packed by `packings`."""
        radix = [(f"n{d}", size_of(v)) for d, v in enumerate(self.chain.expand.windows.batch)]
        radix.append(("chunk", self.chunks))
        weights = (expand, depthwise, project)
        result = loop("unit", simplify(self.images * self.chunks), lambda flat: digits(
            flat, radix, lambda at: self._unit(at[:-1], at[-1], weights)), ForKind.PARALLEL)  # fmt: skip
        for link in self.links:
            for table in self.tables[link.finish].values():
                result = AllocBuffer(table.buffer, block([table.filled(link.channels, self.lanes), result]))
        return self.sizes.around(result)

    def _scratch_sizes(self) -> dict[str, PrimExpr]:
        """Elements of the buffers that a chunk allocates."""
        return {
            "panel": self.met * (self.panel.planes * self.panel_width),
            "ring": self.line * (self.number * self.down.taps * self.group_pitch),
            "middle": self.band * (self.tiles * (self.pixels * self.pitch)),
        }

    def _unit(self, image: list[PrimExpr], chunk: PrimExpr, weights: tuple[Buffer, Buffer, Buffer]) -> Stmt:
        """Process a chunk of an image; a single chunk divides its channel groups among the cores."""
        expand, depthwise, project = weights
        sizes = self._scratch_sizes()

        def tasks(band: Band, panel: Buffer, ring: Buffer, middle: Buffer) -> Stmt:
            parts = simplify(ceildiv(self.band, self.together))
            radix = [("part", parts), ("group", int64(self.finals))]
            return block([
                self._copied(band, panel),
                shared("group", self.number, lambda group: self._lines(
                    band, group, expand, depthwise, (panel, ring, middle))),
                shared("task", simplify(parts * self.finals), lambda flat: digits(
                    flat, radix, lambda at: self._projected(band, at[0], at[1], project, middle)))])  # fmt: skip

        def allocated(names: list[str], done: list[Buffer]) -> Stmt:
            if not names:
                return loop("b", simplify(ceildiv(self.share, self.band)), lambda b: self._band(
                    image, chunk, b, lambda band: tasks(band, *done)))  # fmt: skip
            dtype = self.dtypes[len(done)]
            return scratch(names[0], (simplify(sizes[names[0]]),), dtype, lambda buffer: allocated(
                names[1:], [*done, buffer]))  # fmt: skip

        return allocated(list(sizes), [])

    def _band(self, image: list[PrimExpr], chunk: PrimExpr, b: Var, body: Callable[[Band], Stmt]) -> Stmt:
        """Call `body` with band `b` of a chunk."""
        stride, taps = self.down.stride, self.down.taps
        begins = b < 1

        def with_lines(line: PrimExpr, lines: PrimExpr) -> Stmt:
            fresh = simplify(Select(begins, line * stride, (line - 1) * stride + taps))
            count = Select(begins, (lines - 1) * stride + taps, lines * stride)
            count = Select(lines > 0, count, int64(0))
            return named("fresh", fresh, lambda fresh: named("count", count, lambda count: body(
                Band(image, line, lines, fresh, count, begins))))  # fmt: skip

        end = minimum(chunk * self.share + self.share, self.height)
        return named("line", simplify(chunk * self.share + b * self.band), lambda line: named("lines", simplify(maximum(
            minimum(self.band, end - line), int64(0))), lambda lines: with_lines(line, lines)))  # fmt: skip

    def _copied(self, band: Band, panel: Buffer) -> Stmt:
        """Copy the data of the new rows of the expanded image, padded with zeros at the end of each row."""

        def line(i: Var) -> Stmt:
            place = i * (self.panel.planes * self.panel_width)
            return let("y", simplify(band.fresh + i - self.down.before), lambda y: IfThenElse(
                And(y >= 0, y < self.extents[0]), self.panel.copied(
                    band.image, y, panel, place, self.panel_width)))  # fmt: skip

        return loop("i", band.count, line)

    # ------------------------------------------------------------------ expansion and depthwise sums

    def _lines(
        self, band: Band, group: PrimExpr, expand: Buffer, depthwise: Buffer, buffers: tuple[Buffer, Buffer, Buffer]
    ) -> Stmt:
        """Process the rows of a band for a channel group: expand each row's new data, then compute its depthwise
        results.
        """
        panel, ring, middle = buffers
        stride, taps = self.down.stride, self.down.taps
        slots = simplify(group * taps)

        def line(r: Var, first: PrimExpr, size: PrimExpr) -> Stmt:
            start = simplify((band.first + r) * stride)
            begins = And(band.begins, r < 1)
            new = Select(begins, start, start + (taps - stride))
            return named("new", new, lambda new: block([
                loop("i", simplify(start + taps - new), lambda i: named("q", new + i, lambda q: self._expanded(
                    band, group, q, slots, expand, (panel, ring)))),
                self._depthwise(band, r, (first, size), slots, depthwise, (ring, middle))]))  # fmt: skip

        return self._of_group(
            self.groups, group, lambda first, size: loop("r", band.lines, lambda r: line(r, first, size))
        )

    def _of_group(self, groups: Sequence[Segment], group: PrimExpr, body: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
        """Call `body` with the first vector of a group and its number of vectors."""
        if len(groups) == 1:
            size = groups[0].size
            return body(simplify(group * size), int64(size))
        large, small = groups
        is_large = group < large.count
        size = Select(is_large, int64(large.size), int64(small.size))
        first = group * small.size + minimum(group, large.count)
        return named("first", simplify(first), lambda first: named("size", size, lambda size: body(first, size)))

    def _expanded(
        self, band: Band, group: PrimExpr, q: PrimExpr, slots: PrimExpr, weights: Buffer, buffers: tuple[Buffer, Buffer]
    ) -> Stmt:
        """Expand padded row `q` of a channel group into the ring buffer."""
        _, ring = buffers

        def tiles(slot: PrimExpr, first: PrimExpr, pieces: Sequence[Vector]) -> Stmt:
            return self._line_of_tiles(band, q, (slot, first, pieces), weights, buffers)

        def inside(slot: PrimExpr) -> Stmt:
            large = self.groups[0]
            bodies = [tiles(slot, simplify(group * large.size), self._pieces(large.size, self.middle))]
            if len(self.groups) > 1:
                small = self.groups[1]
                first = simplify(group * small.size + large.count)
                bodies.append(tiles(slot, first, self._pieces(small.size, self.middle)))
            chosen = bodies[0] if len(bodies) == 1 else IfThenElse(group < large.count, *bodies)
            return block([chosen, self._beside(ring, slot)])

        return named("slot", simplify(slots + floormod(q, self.down.taps)), lambda slot: let(
            "y", simplify(q - self.down.before), lambda y: IfThenElse(
                And(y >= 0, y < self.extents[0]), inside(slot), self._zeros(
                    ring, slot, int64(0), self.line))))  # fmt: skip

    def _line_of_tiles(
        self, band: Band, q: PrimExpr, place: tuple[PrimExpr, PrimExpr, Sequence[Vector]], weights: Buffer,
        buffers: tuple[Buffer, Buffer],
    ) -> Stmt:  # fmt: skip
        """Compute the tiles of a ring row for the channel vectors in `place`."""
        (panel, ring), (slot, first, pieces) = buffers, place
        source = (q - band.fresh) * (self.panel.planes * self.panel_width)

        def sums(data: Buffer, out: Buffer, number: PrimExpr) -> Stmt:
            return self._product(
                pieces, lambda step: self.panel.steps(data, step), (weights, first), number,
                lambda acc: self._put(acc, pieces, first, out))  # fmt: skip

        def tile(t: Var) -> Stmt:
            read = self.panel.planes, self.pixels + self.panel.reach
            return part_of(
                panel, source + t * self.pixels, read, (self.panel_width, 1), lambda data: self._part_of_ring(
                    ring, slot, t * self.pixels, pieces, lambda out: (
                        sums(data, out, simplify(q + t)))))  # fmt: skip

        return loop("t", self.data_tiles, tile)

    def _put(self, acc: Buffer, pieces: Sequence[Vector], first: PrimExpr, out: Buffer) -> Stmt:
        """Apply the epilogue to a tile and store it in part of the ring buffer."""
        return self._changed(self.chain.expand.finish, acc, pieces, simplify(first * self.lanes), out)

    def _part_of_ring(
        self, ring: Buffer, slot: PrimExpr, x: PrimExpr, pieces: Sequence[Vector],
        body: Callable[[Buffer], Stmt],
    ) -> Stmt:  # fmt: skip
        """Call `body` with the part of ring row `slot` that holds a tile, from expanded pixel `x` on."""
        place = (slot * self.line + self.along.before + x) * self.group_pitch
        shape, strides = (self.pixels, self._span(pieces) * self.lanes), (self.group_pitch, 1)
        return part_of(ring, place, shape, strides, body)

    def _beside(self, ring: Buffer, slot: PrimExpr) -> Stmt:
        """Fill the padding before and after a ring row with zeros."""
        behind = self.extents[1] + self.along.before
        return block(
            [
                self._zeros(ring, slot, int64(0), int64(self.along.before)),
                self._zeros(ring, slot, simplify(behind), simplify(self.line - behind)),
            ]
        )

    def _zeros(self, ring: Buffer, slot: PrimExpr, first: PrimExpr, count: PrimExpr) -> Stmt:
        """Fill `count` pixels of a ring row with zeros."""
        lanes = self.lanes
        return loop("x", count, lambda x: part_of(
            ring, (slot * self.line + first + x) * self.group_pitch, (self.group_pitch,), (1,), lambda part: loop(
                "v", self.group_pitch // lanes, lambda v: vector_store(part, (v * lanes,), self.zero))))  # fmt: skip

    def _depthwise(
        self, band: Band, r: Var, group: tuple[PrimExpr, PrimExpr], slots: PrimExpr, weights: Buffer,
        buffers: tuple[Buffer, Buffer],
    ) -> Stmt:  # fmt: skip
        """Compute depthwise row `r` of a channel group; `group` is (first vector, number of vectors)."""
        taps, lanes, (ring, middle), (first, size) = self.down.taps, self.lanes, buffers, group
        reach = (self.pixels - 1) * self.along.stride + self.along.taps
        start = simplify((band.first + r) * self.down.stride)
        line = simplify(r * self.tiles)

        def tile(places: Sequence[PrimExpr], v: Var, t: Var, parts: list[Buffer]) -> Stmt:
            if len(parts) < taps:
                place = (places[len(parts)] * self.line + t * (self.pixels * self.along.stride)) * self.group_pitch
                return part_of(ring, place + v * lanes, (reach, lanes), (self.group_pitch, 1), lambda part: tile(
                    places, v, t, [*parts, part]))  # fmt: skip
            place = (line + t) * (self.pixels * self.pitch) + (first + v) * lanes
            return part_of(middle, place, (self.pixels, lanes), (self.pitch, 1), lambda out: (
                self._windows(weights, parts, simplify(first + v), out)))  # fmt: skip

        def met(places: list[PrimExpr]) -> Stmt:
            if len(places) < taps:
                place = simplify(slots + floormod(start + len(places), taps))
                return named("slot", place, lambda slot: met([*places, slot]))
            return loop("v", size, lambda v: loop("t", self.tiles, lambda t: tile(places, v, t, [])))

        return met([])

    def _windows(self, weights: Buffer, parts: Sequence[Buffer], c: PrimExpr, out: Buffer) -> Stmt:
        """Accumulate a tile over all taps, for one channel vector."""
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
            return block([cleared, *added, self._changed(finish, acc, [Vector(0, lanes)], columns, out)])

        return alloc("acc", (self.pixels, lanes), DTYPE, "local", sums)

    # ------------------------------------------------------------------ projection

    def _projected(self, band: Band, part: PrimExpr, group: PrimExpr, weights: Buffer, middle: Buffer) -> Stmt:
        """Project some rows of a band for a channel group."""
        first = simplify(part * self.together)
        count = simplify(maximum(minimum(self.together, band.lines - first), int64(0)))
        groups = self.project_groups
        size = simplify(self.together * self.staged * (self.lanes * groups[0].size))

        def products(vector: PrimExpr, segment: Segment, count: PrimExpr, sums: Buffer) -> Stmt:
            pieces = self._pieces(segment.size, self.outputs)
            return self._products(first, count, vector, pieces, (weights, middle, sums))

        def chosen(vector: PrimExpr, number: PrimExpr, count: PrimExpr, sums: Buffer) -> Stmt:
            bodies = [products(vector, segment, count, sums) for segment in groups]
            sum_up = bodies[0] if len(bodies) == 1 else IfThenElse(group < groups[0].count, *bodies)
            return block([sum_up, self._results(band, first, count, (vector, number), sums)])

        return named("count", count, lambda count: scratch("sums", (size,), DTYPE, lambda sums: self._of_group(
            groups, group, lambda vector, number: chosen(vector, number, count, sums))))  # fmt: skip

    def _products(
        self, first: PrimExpr, count: PrimExpr, vector: PrimExpr, pieces: Sequence[Vector],
        buffers: tuple[Buffer, Buffer, Buffer],
    ) -> Stmt:  # fmt: skip
        """Accumulate `count` rows for a channel group that begins at `vector`."""
        lanes, channels, (weights, middle, sums) = self.lanes, self.pixels * self.pitch, buffers
        width, pitch = self._span(pieces), self.project_groups[0].size * self.staged

        def stored(acc: Buffer, out: Buffer) -> Stmt:
            return loop("p", self.pixels, lambda p: block(
                vector_store(out, (piece.start // lanes, p, piece.start % lanes), vector_load(
                    acc, (p, piece.start), piece.lanes)) for piece in pieces), ForKind.UNROLLED)  # fmt: skip

        def products(data: Buffer, out: Buffer, number: PrimExpr) -> Stmt:
            def each(step: Step) -> Stmt:
                return self._steps(data, step)

            return self._product(pieces, each, (weights, vector), number, lambda acc: stored(acc, out))

        def tile(i: Var, t: Var) -> Stmt:
            at, strides = (i * pitch + t * self.pixels) * lanes, (self.staged * lanes, lanes, 1)
            return part_of(
                middle, ((first + i) * self.tiles + t) * channels, (self.pixels, self.middle), (self.pitch, 1),
                lambda data: part_of(sums, at, (width, self.pixels, lanes), strides, lambda out: (
                    products(data, out, simplify(i + t)))))  # fmt: skip

        return loop("i", count, lambda i: loop("t", self.tiles, lambda t: tile(i, t)))

    def _results(
        self, band: Band, first: PrimExpr, count: PrimExpr, vectors: tuple[PrimExpr, PrimExpr], sums: Buffer
    ) -> Stmt:
        """Apply the epilogue to `count` rows of some channel vectors and store them."""
        (start, number), most = vectors, self.project_groups[0].size

        def line(i: Var, y: Var) -> Stmt:
            return IfThenElse(y < self.chain.project.windows.axes[0].size, loop("v", number, lambda v: (
                self._stored(band.image, i * most + v, y, simplify(start + v), sums))))  # fmt: skip

        return loop("i", count, lambda i: let(
            "y", simplify(band.first + first + i), lambda y: line(i, y)))  # fmt: skip

    def _stored(self, image: list[PrimExpr], row: PrimExpr, y: Var, o: PrimExpr, sums: Buffer) -> Stmt:
        """Store one row of a channel vector from its row of accumulators."""
        lanes, finish = self.lanes, self.chain.project.finish
        indices = self.chain.project.windows.out.indices
        width = simplify(self.chain.project.windows.axes[1].size)
        whole = self.outputs % lanes == 0
        channels = int64(lanes) if whole else simplify(minimum(int64(lanes), self.outputs - o * lanes))

        def element(co: Var, x: PrimExpr, total: PrimExpr) -> Stmt:
            place = (*image, co, y, x)
            at = {v: p.astype(str(v.dtype)) for v, p in zip(indices, place, strict=True) if isinstance(v, Var)}
            tables = {name: BufferLoad(table.buffer, (co,)) for name, table in self.tables[finish].items()}
            value = substitute(finish.store.value, {**at, **tables, finish.total: total})
            return BufferStore(finish.store.buffer, value, place)

        def channel(row: Buffer, v: Var, co: Var) -> Stmt:
            def one(lane: Var) -> Stmt:
                x = v * lanes + lane
                return IfThenElse(x < width, element(co, x, BufferLoad(row, (lane,))))

            return loop("lane", lanes, one, ForKind.VECTORIZED)

        def stored(row: Buffer, v: Var, p: PrimExpr, vector: PrimExpr) -> Stmt:
            last = int64(self.outputs - 1)
            result = let("co", minimum(o * lanes + p, last), lambda co: channel(row, v, co))
            both = block([vector_store(row, (0,), vector), result])
            return both if whole else IfThenElse(p < channels, both)

        def square(row: Buffer, part: Buffer, v: Var) -> Stmt:
            return transposed_square(lanes, DTYPE, lambda q: vector_load(part, (q, 0), lanes),
                                     lambda p, vector: stored(row, v, p, vector))  # fmt: skip

        def at(row_of_square: Buffer, v: Var) -> Stmt:
            place = (row * self.staged + v * lanes) * lanes
            return part_of(sums, place, (lanes, lanes), (lanes, 1), lambda part: square(row_of_square, part, v))

        return alloc("turned", (lanes,), DTYPE, "local", lambda turned: loop(
            "v", simplify(ceildiv(self.width, lanes)), lambda v: at(turned, v)))  # fmt: skip
