"""The common part of both forms of loops of convolutions of single elements: products of weights and pixels.

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
input channels do not pay for. `pointwise` compares the two.

The last block of channels is no code of its own: it begins so early that it is whole. Pixels behind the last one are
loaded as zeros and not stored. Each number of pixels runs the same code.

The first block of channels copies the pixels of the next panel, or of the next part of the input channels, while it
multiplies: copies alone would take a tenth of the time. Tiles ask for the lines of memory of results while they sum, a
line at a time, and copies for the pixels that are copied next: a chunk has a short run of each channel's line, and
processors prefetch long ones only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol, TypeAlias

from ...prim import GT, LT, Add, IntImm, Mul, PrimExpr, Select, Var, const, simplify
from ...prim.instructions import prefetch
from ...prim.intrin import ceildiv, floordiv
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
from .pixels import Pixels
from .shares import FEW_PIXELS, parts_of_tasks, share_of
from .tiling import Tile, tile_for
from .words import Words


class Load(Protocol):
    """A vector of an image and an input channel, from a pixel on; `is_whole` says that all of its pixels are there."""

    def __call__(self, values: Values, k: PrimExpr, c: PrimExpr, is_whole: bool = False) -> PrimExpr: ...


Ask: TypeAlias = Callable[[Values, PrimExpr, PrimExpr], Stmt]
"""A statement that asks for what a `Load` reads later."""
Steps: TypeAlias = "Callable[[Callable[[Var], Stmt] | None], Stmt]"
"""The loop over input channels of a tile, with a statement for each of them besides its products."""

MANY_REGISTERS: Final = 32
FEW_REGISTERS: Final = 16
AHEAD: Final = 8
"""The input channels by which gathered pixels are asked ahead: memory takes as long as to copy these."""
SMALL: Final = 49
"""The pixels of small images that tiles of two heights should fill: 7 × 7."""
TASKS: Final = 2
"""The tasks for each core, if there are so many."""
SHARING: Final = 4
"""The blocks of channels beside which a copy of pixels takes little time."""
FROM_CACHE: Final = 0.05
"""The steps for which a pixel's bytes are waited for: a panel of them is in the second-level cache."""
BROADCAST: Final = 0.02
"""The same for a pixel's number in the first-level cache, which goes to all lanes."""
BROADCAST_WEIGHT: Final = 0.03
"""The same for a weight, which is in the second-level cache at first."""
LEFT: Final = 8
"""The registers that a tile leaves for addresses, copies and lines it asks for, where it loses nothing."""
CROWDED: Final = 0.003
"""The share of its time that a tile loses for each register that it leaves less."""
BYTES: Final = 4
"""The numbers in a word of bytes."""
LINE: Final = 64
"""The bytes of a line of the cache."""


# ------------------------------------------------------------------------------------- choice


def shapes(tile: Tile) -> list[tuple[int, int]]:
    """The rows and vectors of tiles for which there are registers: accumulators, a row of vectors, one broadcast."""
    registers = MANY_REGISTERS if tile.vectors == 4 else FEW_REGISTERS
    return [(height, v) for v in range(1, tile.vectors + 1)
            for height in range(1, min((registers - 2 - v) // v, registers - 4) + 1)]  # fmt: skip


def cost(
    rows: Sequence[PrimExpr],
    vectors: PrimExpr,
    shape: tuple[int, int],
    is_even: bool = False,
    row: float = 0,
    crowded: float = 0,
    cores: int = 1,
) -> float:
    """The steps in which tiles of a shape multiply for one input channel: loads and multiplications, two a step.

    `rows` are those of each part that has tiles of its own. Of an unknown number of rows or vectors, the steps for one
    of them, with a little for what the last tile wastes. With `is_even`, some tiles have a row less, so that from some
    rows on none is wasted. `row` is the time for which the element of a row is waited for; `crowded` is the share of a
    tile's time that each register takes which it does not leave for anything else. Where `cores` share a known number
    of vectors, the time in which some of them wait for the others counts half: there may be fewer threads.
    """
    height, wide = shape

    def step(height: int, wide: int) -> float:
        missing = max(LEFT - (MANY_REGISTERS - (height + 1) * wide - 1), 0)
        products = height * wide / 2 * (1 + missing * crowded)
        return max(products, (height + wide) / 2 * 1.05, 4) + 0.5 + height * row

    def down(wide: int) -> float:
        return sum(tiles(part, wide) for part in rows)

    def tiles(rows: PrimExpr, wide: int) -> float:
        if isinstance(rows, IntImm):
            count, high, low = (
                even_tiles(rows.value, height) if is_even else (-(-rows.value // height), 0, height)
            )
            return high * step(height, wide) + (count - high) * step(low, wide)
        is_wasted = not is_even or height * (height - 1) > SMALL
        return (1 / height + (1 / 96 if is_wasted else 0)) * step(height, wide)

    if not isinstance(vectors, IntImm):
        return down(wide) * (1 / wide + 1 / 24)
    whole, rest = divmod(vectors.value, wide)
    narrow = 0 if not rest else wide // 2 if not is_even and rest <= wide // 2 else wide
    blocks = max(-(-vectors.value // wide), 1)
    idle = -(-blocks // cores) * cores / blocks
    return (down(wide) * whole + (down(narrow) if narrow else 0)) * (1 + idle) / 2


def even_tiles(rows: int, height: int) -> tuple[int, int, int]:
    """The number of tiles for some rows, how many of them have the full height, and the height of the others."""
    tiles, low = -(-rows // height), max(height - 1, 1)
    return tiles, max(rows - tiles * low, 0) if height > 1 else tiles, low


def best(
    rows: Sequence[PrimExpr],
    vectors: PrimExpr,
    tile: Tile,
    is_even: bool = False,
    row: float = 0,
    crowded: float = 0,
    cores: int = 1,
) -> tuple[int, int]:
    """The shape of tile that takes the fewest steps, with no more rows than there are."""
    most = max(
        (max(part.value, 1) if isinstance(part, IntImm) else tile.rows * tile.vectors * 2 for part in rows),
        default=1,
    )
    options = [shape for shape in reversed(shapes(tile)) if shape[0] <= most]
    return min(options, key=lambda shape: cost(rows, vectors, shape, is_even, row, crowded, cores))


# ------------------------------------------------------------------------------------- loops


@dataclass(frozen=True)
class Cut:
    """Pixels of an image as chunks of whole units, the sizes of which differ by a unit."""

    unit: int
    """Some pixels."""
    most: int
    """The pixels of the largest chunk."""
    units: PrimExpr
    chunks: PrimExpr
    """The number of chunks, at least one."""

    def sizes(self, pixels: int) -> list[int]:
        """The pixels of each chunk of a known number."""
        assert isinstance(self.units, IntImm)
        assert isinstance(self.chunks, IntImm)
        units, chunks = self.units.value, self.chunks.value
        ends = [min(self.unit * (ch * units // chunks), pixels) for ch in range(chunks + 1)]
        return [end - begin for begin, end in pairwise(ends)]


class Writer:
    """The parts that both forms have in common."""

    rows_are_weights: bool
    """True if the rows of tiles are weights and their vectors are pixels; else it is the other way round."""

    def __init__(self, pixels: Pixels, target: Target, words: Words | None = None) -> None:
        self.pixels = pixels
        self.words = words
        """The words of neighbouring channels as which weights and pixels are multiplied; None: as they are."""
        self.target = target
        self.cores, self.cache = target.num_cores, target.machine.caches.l2
        dtype = pixels.total.dtype
        self.tile = tile_for(target, dtype.bits)
        self.lanes, self.dtype, self.bytes = self.tile.lanes, str(dtype), dtype.bits // 8
        self.gathered = 1 if words is None or pixels.has_words else words.group
        """The input channels of which a number that is multiplied is made."""
        self.inputs = -(-pixels.inputs // self.gathered)
        """The numbers that are multiplied for each sum: input channels, or words of them."""
        self.factor = self.dtype if words is None else "int32"
        """The dtype of what is multiplied."""
        rows, vectors = self.sizes()
        self.waits = self._waits()
        """The times for which the element of a row and missing registers are waited for (`cost`)."""
        self.sharing = self._sharing(rows)
        """The cores that share the blocks of a row's vectors."""
        self.height, self.vectors = best(
            rows, vectors, self.tile, not self.rows_are_weights, *self.waits, self.sharing
        )
        self.width = self.vectors * self.lanes
        self.bound: PrimExpr | None = None if self.is_filled() else pixels.count
        """The number of pixels, unless they fill what is stored at a time."""

    def sizes(self) -> tuple[Sequence[PrimExpr], PrimExpr]:
        """The numbers of rows of tiles, by the parts that have tiles of their own, and of vectors in a row."""
        raise NotImplementedError

    def _sharing(self, rows: Sequence[PrimExpr]) -> int:
        """The cores that share vectors of channels: all, if there is but one image in one chunk."""
        images = simplify(_product([size_of(v) for v in self.pixels.batch]))
        several = isinstance(images, IntImm) and images.value % self.cores == 0
        return 1 if self.rows_are_weights or several or len(rows) > 1 else self.cores

    def _waits(self) -> tuple[float, float]:
        if self.words is not None:
            is_late = self.words.group == BYTES and not self.rows_are_weights
            return (FROM_CACHE if is_late else 0.0), 0.0
        return (BROADCAST_WEIGHT, 0.0) if self.rows_are_weights else (BROADCAST, CROWDED)

    def is_filled(self) -> bool:
        """True if the pixels of each chunk fill what is stored at a time."""
        raise NotImplementedError

    def least_blocks(self) -> int:
        """The blocks of channels that share a copy of pixels at least, where there are so many."""
        raise NotImplementedError

    @property
    def tiles_copy(self) -> bool:
        """True if tiles copy pixels while they multiply: registers are left for it, and pixels are neighbours."""
        registers = MANY_REGISTERS if self.tile.vectors == 4 else FEW_REGISTERS
        left = registers - (self.height + 1) * self.vectors - 1
        return not self.pixels.steps and left >= (1 if self.gathered == 1 else self.gathered + 1)

    def cost(self) -> float:
        """The steps for one input channel."""
        shape = self.height, self.vectors
        return cost(*self.sizes(), shape, not self.rows_are_weights, *self.waits, self.sharing)

    def cut(self, unit: int, most: int, part: int = 4) -> Cut:
        """The chunks of pixels: each as many as a part of the second-level cache holds data of, at most.

        More if an image has too few for the cores: chunks share weights, groups of channels copy pixels again. Several
        chunks are as many for each core.
        """
        largest = max(min(self.cache // part // (self.inputs * self.bytes), most) // unit, 1)
        count, cores = self.pixels.count, self.cores
        if isinstance(count, IntImm):
            units = max(-(-count.value // unit), 1)
            tasks = min(TASKS * cores, count.value // FEW_PIXELS) if cores > 1 else 1
            several = max(-(-units // largest), tasks)
            several = -(-several // cores) * cores if several > 1 else 1
            return Cut(unit, -(-units // several) * unit, int64(units), int64(several))
        chunks = maximum(ceildiv(ceildiv(count, unit), largest), int64(1))
        if cores > 1:
            chunks = maximum(chunks, minimum(floordiv(count, FEW_PIXELS), int64(cores)))
            chunks = Select(GT(chunks, int64(1)), ceildiv(chunks, cores) * cores, int64(1))
        return Cut(unit, largest * unit, simplify(ceildiv(count, unit)), simplify(chunks))

    def tasks(
        self, cut: Cut, blocks: int, body: Callable[[Values, PrimExpr, PrimExpr, PrimExpr, PrimExpr], Stmt]
    ) -> Stmt:
        """The parallel loop over images, groups of blocks of channels and chunks of pixels.

        `body` is told the image, the first pixel of the chunk, the number of its pixels, the first block and the number
        of blocks.
        """
        batch, count = self.pixels.batch, self.pixels.count

        def grouped(chunks: PrimExpr) -> Stmt:
            others = _product([*(size_of(v) for v in batch), chunks])
            number = _groups(blocks, self.least_blocks(), others, self.cores)
            return named(
                "groups", number, lambda number: parallel([*(size_of(v) for v in batch), number, chunks])
            )

        def parallel(sizes: list[PrimExpr]) -> Stmt:
            names = [*(v.var.name for v in batch), "go", "ch"]
            return loop("task", _product(sizes), lambda var: digits(
                var, names, sizes, lambda parts: task(parts, *sizes[-2:])), ForKind.PARALLEL)  # fmt: skip

        def task(parts: list[PrimExpr], groups: PrimExpr, chunks: PrimExpr) -> Stmt:
            *image, go, ch = parts
            values = {**dict(self.pixels.image), **dict(zip((v.var for v in batch), image, strict=True))}
            base, end = (cut.unit * share_of(at, cut.units, chunks) for at in (ch, ch + 1))
            first, last = (share_of(at, int64(blocks), groups) for at in (go, go + 1))
            base = simplify(minimum(base, count))  # said so that intervals tell it

            def of_pixels(base: PrimExpr) -> Stmt:
                left = minimum(simplify(end - base), count - base)
                return named("inside", number_of(cut.most, left), lambda inside: of_blocks(base, inside))

            def of_blocks(base: PrimExpr, inside: PrimExpr) -> Stmt:
                number = simplify(last - first)
                return named("first", simplify(first), lambda first: named(
                    "count", number, lambda count: body(values, base, inside, first, count)))  # fmt: skip

            return named("base", base, of_pixels)

        return self.pixels.declared(named("chunks", cut.chunks, grouped), self.lanes)

    # ------------------------------------------------------------------ data

    def copied(
        self, chunk: int, start: PrimExpr, bound: PrimExpr | None, body: Callable[[Load, Ask], Stmt]
    ) -> Stmt:  # fmt: skip
        """`body` of a function that loads a vector of the chunk's pixels, of which those from a bound on are 0.

        Pixels that are not neighbours in the data are found by a table of their places. Processors do not foresee where
        they are: the second function asks for those of a channel some channels ahead.
        """
        pixels, lanes = self.pixels, self.lanes

        def neighbours(values: Values, k: PrimExpr, c: PrimExpr, is_whole: bool = False) -> PrimExpr:
            at = simplify(start + c)
            mask = None if is_whole else self.mask(at, bound)
            return self.factors(k, lambda channel: vector_load(
                pixels.source, (*image_of(pixels, values), channel, at), lanes, mask))  # fmt: skip

        if not pixels.steps:
            return body(neighbours, lambda values, k, c: block([]))

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
            def gathered(values: Values, k: PrimExpr, c: PrimExpr, is_whole: bool = False) -> PrimExpr:
                del is_whole
                where = vector_load(places, (c,), lanes)
                return self.factors(k, lambda channel: BufferLoad(
                    pixels.source, (*image_of(pixels, values), channel, where)))  # fmt: skip

            def asked(values: Values, k: PrimExpr, c: PrimExpr) -> Stmt:
                image, group = image_of(pixels, values), self.gathered
                channel = simplify((k + AHEAD) * group)
                lines = (BufferLoad(pixels.source, (*image, channel, BufferLoad(places, (c + lane,))))
                         for lane in sorted({0, lanes // 2, lanes - 1}))  # fmt: skip
                return block([Evaluate(prefetch(line, locality=2)) for line in lines])

            last = pixels.count - 1
            filled = loop("p", chunk, lambda p: named("pixel", minimum(start + p, last), lambda pixel: place(
                len(sizes) - 1, pixel, int64(1), int64(0), lambda at: BufferStore(places, at, (p,)))))  # fmt: skip
            return block([filled, body(gathered, asked)])

        return scratch("places", (chunk,), "int64", table)

    def factors(self, k: PrimExpr, numbers: Callable[[PrimExpr], PrimExpr]) -> PrimExpr:
        """A vector of pixels of input channel `k`, or of word `k`, by the numbers of a channel."""
        words, inputs = self.words, self.pixels.inputs
        if words is None or self.pixels.has_words:
            return numbers(k)

        def below(channel: PrimExpr) -> PrimExpr:
            if inputs % words.group == 0:
                return numbers(simplify(channel))
            vector = numbers(minimum(channel, int64(inputs - 1)))
            zero = spread(const(0, str(vector.dtype.element_of)), self.lanes)
            return Select(spread(LT(channel, int64(inputs)), self.lanes), vector, zero)

        return words.word([below(k * words.group + g) for g in range(words.group)], True)

    def asked(self, image: Values, k: PrimExpr, column: PrimExpr) -> Stmt:
        """Ask for the pixels from a column on of input channel `k`, or of the channels of word `k`."""
        source, group = self.pixels.source, self.gathered
        return block(
            Evaluate(prefetch(BufferLoad(source, (*image_of(self.pixels, image), simplify(
                k * group + g), column)), locality=2)) for g in range(group))  # fmt: skip

    def mask(self, column: PrimExpr, bound: PrimExpr | None) -> PrimExpr | None:
        """The lanes of a vector that are below a bound."""
        return None if bound is None else LT(ramp(column, self.lanes), spread(bound, self.lanes))

    # ------------------------------------------------------------------ tiles

    def each(self, height: int, vectors: int, body: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
        """A statement for each vector of a tile, told its row and its first column; written out."""
        return loop("p", height, lambda p: loop(
            "v", vectors, lambda v: body(p, v * self.lanes), ForKind.UNROLLED), ForKind.UNROLLED)  # fmt: skip

    def sums(
        self,
        height: int,
        vectors: int,
        depth: PrimExpr,
        left: Callable[[Var, Var], PrimExpr],
        right: Callable[[Var, PrimExpr], PrimExpr],
        start: Callable[[PrimExpr, PrimExpr], PrimExpr],
        stored: Callable[[Buffer], Stmt],
        steps: Callable[[Steps], Stmt] | None = None,
    ) -> Stmt:
        """A tile: sums in registers over so many input channels of rows times so many vectors.

        `left` is the element of a row and `right` a vector, for an input channel; `start` is a vector to begin with.
        `steps` makes of the loop over input channels what runs: by default, that loop.
        """
        lanes, width = self.lanes, vectors * self.lanes

        def step(acc: Buffer, line: Buffer, k: Var) -> Stmt:
            loads = loop("v", vectors, lambda v: vector_store(
                line, (v * lanes,), right(k, v * lanes)), ForKind.UNROLLED)  # fmt: skip

            def row(p: Var) -> Stmt:
                element = Var("a", f"{self.factor}x{lanes}" if lanes > 1 else self.factor)

                def update(v: Var) -> Stmt:
                    total, right = (
                        vector_load(acc, (p, v * lanes), lanes),
                        vector_load(line, (v * lanes,), lanes),
                    )
                    return vector_store(acc, (p, v * lanes), self.added(total, element, right))

                products = loop("v", vectors, update, ForKind.UNROLLED)
                return LetStmt(element, spread(left(p, k), lanes), products)

            return block([loads, loop("p", height, row, ForKind.UNROLLED)])

        def steps_of(acc: Buffer, line: Buffer) -> Stmt:
            def each(beside: Callable[[Var], Stmt] | None) -> Stmt:
                if beside is None:
                    return loop("k", depth, lambda k: step(acc, line, k))
                return loop("k", depth, lambda k: block([beside(k), step(acc, line, k)]))

            return each(None) if steps is None else steps(each)

        def tile(acc: Buffer) -> Stmt:
            added = alloc("vectors", (width,), self.factor, "local", lambda line: steps_of(acc, line))
            begun = self.each(height, vectors, lambda p, c: vector_store(acc, (p, c), start(p, c)))
            return block([begun, added, stored(acc)])

        return alloc("acc", (height, width), self.dtype, "local", tile)

    def added(self, total: PrimExpr, row: PrimExpr, vector: PrimExpr) -> PrimExpr:
        """Sums plus products of the element of a row and a vector, of which one is of weights, and one of pixels."""
        if self.words is None:
            return Add(total, Mul(row, vector))
        pixels, weights = (vector, row) if self.rows_are_weights else (row, vector)
        return self.words.add(total, pixels, weights)

    def stored(
        self, result: Results, r: PrimExpr, at: PrimExpr, v: PrimExpr, width: PrimExpr | None, sums: Buffer
    ) -> Stmt:
        """Store what is made of a vector of sums, which are in row `at` of a buffer, of the pixels below `width`.

        Without a width, or where chunks are filled, those are all of the vector.
        """

        def lane(x: Var) -> Stmt:
            c = v * self.lanes + x
            made = result.made(r, c, BufferLoad(sums, (at, c)))
            return made if width is None or self.bound is None else IfThenElse(c < width, made)

        return loop("x", self.lanes, lane, ForKind.VECTORIZED)

    @property
    def zero(self) -> PrimExpr:
        return spread(const(0, self.dtype), self.lanes)


def image_of(pixels: Pixels, values: Values) -> Sequence[PrimExpr]:
    """The indices of an image in the data."""
    return [values[v.var] for v in pixels.batch]


def number_of(most: int, left: PrimExpr) -> PrimExpr:
    """The pixels of a part, of those that are left: at least 0, as they are anyway, so that intervals tell it."""
    return simplify(maximum(minimum(int64(most), left), int64(0)))


def _groups(blocks: int, least: int, others: PrimExpr, cores: int) -> PrimExpr:
    """The number of groups of blocks of channels, where `others` tasks are too few for the cores.

    Groups of `SHARING` blocks even out what cores take, as many for each core; groups of `least` blocks only make as
    many tasks for each core, or so many that one more matters little.
    """
    if cores == 1 or blocks // least <= 1:
        return int64(1)
    others = maximum(others, int64(1))
    most = min(blocks // SHARING, TASKS * cores)
    most -= most % cores if most > cores else 0
    several = minimum(int64(most), floordiv(int64(TASKS * cores), others))
    each = minimum(int64(blocks // least), parts_of_tasks(others, cores))
    return simplify(maximum(int64(1), maximum(several, each)))


def _product(sizes: Sequence[PrimExpr]) -> PrimExpr:
    total: PrimExpr = int64(1)
    for size in sizes:
        total = total * size
    return simplify(total)


__all__ = ["LINE", "Load", "Steps", "Writer", "best", "cost", "even_tiles", "image_of", "number_of", "shapes"]
