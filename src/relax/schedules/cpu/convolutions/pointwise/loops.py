"""Common part of both loop forms of pointwise convolutions: products of weights and pixels.

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

The first form stores results untransposed, but 49 pixels fill 4 vectors of 16 badly. The second form has tiles whose
pixels divide the image evenly, while channels fill vectors; it transposes results, which does not pay for few input
channels. `pointwise` compares both.

The last channel block overlaps the previous one so that it is whole and needs no code of its own. Pixels past the last
one are loaded as zeros and not stored, so any number of pixels runs the same code.

The first channel block copies the pixels of the next panel, or of the next segment of input channels, while it
multiplies: separate copies would take a tenth of the time. Tiles prefetch their result cache lines while they
accumulate, one line at a time, and copies prefetch the pixels copied next: a chunk has a short run per channel, and
hardware prefetching covers long runs only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, Protocol, TypeAlias

from .....prim import GT, LT, Add, IntImm, Mul, PrimExpr, Select, Var, const, simplify
from .....prim.instructions import prefetch
from .....prim.intrin import ceildiv, floordiv
from .....prim.intrin import max as maximum
from .....prim.intrin import min as minimum
from .....runtime.records import dataclass
from .....target import Target
from .....tir import Buffer, BufferLoad, BufferStore, Evaluate, ForKind, IfThenElse, Stmt
from ....build import block, int64, loop, named, product_of, ramp, scratch, size_of, spread, tasks, vector_load
from ...products.operands import Results, Values
from ...tile import RegisterTile, register_tile
from ...tile.division import Tile, tile_for
from ...tile.shares import FEW_PIXELS, parts_of_tasks, share_of
from ...tile.words import Words
from .operands import Pixels


class Load(Protocol):
    """Loads a vector of pixels of an image and input channel; `is_whole` promises that all of them exist."""

    def __call__(self, values: Values, k: PrimExpr, c: PrimExpr, is_whole: bool = False) -> PrimExpr: ...


Ask: TypeAlias = Callable[[Values, PrimExpr, PrimExpr], Stmt]
"""Returns a statement that prefetches data of a later `Load`."""
Steps: TypeAlias = "Callable[[Callable[[Var], Stmt] | None], Stmt]"
"""Returns the loop over a tile's input channels, with an additional statement in each iteration."""

MANY_REGISTERS: Final = 32
FEW_REGISTERS: Final = 16
AHEAD: Final = 8
"""Prefetch distance of gathered pixels in input channels: memory latency is about the time to copy them."""
SMALL: Final = 49
"""Pixels (7 × 7) up to which images use tiles of two heights to avoid padding."""
TASKS: Final = 2
"""Tasks per core, if there are enough."""
SHARING: Final = 4
"""Channel blocks that amortise a copy of pixels."""
FROM_CACHE: Final = 0.05
"""Stall in steps per packed int8 pixel loaded from the L2 cache."""
BROADCAST: Final = 0.02
"""Stall in steps per broadcast of a pixel's element from the L1 cache."""
BROADCAST_WEIGHT: Final = 0.03
"""Stall in steps per broadcast of a weight, first loaded from the L2 cache."""
LEFT: Final = 8
"""Registers that a tile leaves for addresses, copies and prefetches without a penalty."""
CROWDED: Final = 0.003
"""Relative slowdown per register missing from `LEFT`."""
BYTES: Final = 4
"""Elements of an int8 packed group."""
LINE: Final = 64
"""Bytes of a cache line."""


# ------------------------------------------------------------------------------------- choice


def shapes(tile: Tile) -> list[tuple[int, int]]:
    """(Rows, vectors) of all tiles that fit the registers: accumulators, a row of vectors, one broadcast."""
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
    """Steps per input channel for tiles of a shape: loads and multiplications at two per step.

    `rows` are the rows of each part with tiles of its own. A dynamic number of rows or vectors counts as one, plus a
    little for the padding of the last tile. With `is_even`, some tiles have one row less, which avoids padding if there
    are enough rows. `row` is the stall per element of a row; `crowded` is the relative slowdown per register missing
    for other uses. If `cores` share a static number of vectors, the time in which some of them idle counts half: there
    may be fewer threads.
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
            count, high, low = even_tiles(rows.value, height) if is_even else (-(-rows.value // height), 0, height)
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
    """Return (number of tiles, tiles of full height, height of the others) for a number of rows."""
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
    """Shape of the tile with the fewest steps, with no more rows than exist."""
    most = max(
        (max(part.value, 1) if isinstance(part, IntImm) else tile.rows * tile.vectors * 2 for part in rows), default=1
    )
    options = [shape for shape in reversed(shapes(tile)) if shape[0] <= most]
    return min(options, key=lambda shape: cost(rows, vectors, shape, is_even, row, crowded, cores))


# ------------------------------------------------------------------------------------- loops


@dataclass(frozen=True)
class Cut:
    """Division of an image's pixels into chunks whose sizes are multiples of a unit and differ by at most one unit."""

    unit: int
    """Granularity in pixels."""
    most: int
    """Pixels of the largest chunk."""
    units: PrimExpr
    chunks: PrimExpr
    """Number of chunks, at least one."""

    def sizes(self, pixels: int) -> list[int]:
        """Pixels of each chunk, for a static number of pixels."""
        assert isinstance(self.units, IntImm)
        assert isinstance(self.chunks, IntImm)
        units, chunks = self.units.value, self.chunks.value
        ends = [min(self.unit * (ch * units // chunks), pixels) for ch in range(chunks + 1)]
        return [end - begin for begin, end in pairwise(ends)]


class Writer:
    """Common base of both loop forms."""

    rows_are_weights: bool
    """True if tile rows are weights and vectors are pixels; False for the opposite."""

    def __init__(
        self, pixels: Pixels, target: Target, words: Words | None = None, shape: tuple[int, int] | None = None
    ) -> None:
        """`shape` is that of tiles, if it is not the one with the fewest steps."""
        self.pixels = pixels
        self.words = words
        """Packed groups of consecutive channels for dot product instructions; None: floats."""
        self.target = target
        self.cores, self.cache = target.num_cores, target.machine.caches.l2
        dtype = pixels.total.dtype
        self.tile = tile_for(target, dtype.bits)
        self.lanes, self.dtype, self.bytes = self.tile.lanes, str(dtype), dtype.bits // 8
        self.gathered = 1 if words is None or pixels.has_words else words.group
        """Input channels per multiplied element."""
        self.inputs = -(-pixels.inputs // self.gathered)
        """Multiplied elements per sum: input channels, or packed groups of them."""
        self.factor = self.dtype if words is None else "int32"
        """Dtype of the factors."""
        rows, vectors = self.sizes()
        self.waits = self._waits()
        """Stall per row element and penalty per missing register (see `cost`)."""
        self.sharing = self._sharing(rows)
        """Cores that share the blocks of a row's vectors."""
        fewest = best(rows, vectors, self.tile, not self.rows_are_weights, *self.waits, self.sharing)
        self.height, self.vectors = shape or fewest
        self.width = self.vectors * self.lanes
        self.bound: PrimExpr | None = None if self.is_filled() else pixels.count
        """Number of pixels, or None if every stored vector is full."""

    def sizes(self) -> tuple[Sequence[PrimExpr], PrimExpr]:
        """(Rows of tiles per part, vectors per row)."""
        raise NotImplementedError

    def _sharing(self, rows: Sequence[PrimExpr]) -> int:
        """Cores that share vectors of channels: all for a single image in a single chunk."""
        images = product_of(size_of(v) for v in self.pixels.batch)
        several = isinstance(images, IntImm) and images.value % self.cores == 0
        return 1 if self.rows_are_weights or several or len(rows) > 1 else self.cores

    def _waits(self) -> tuple[float, float]:
        if self.words is not None:
            is_late = self.words.group == BYTES and not self.rows_are_weights
            return (FROM_CACHE if is_late else 0.0), 0.0
        return (BROADCAST_WEIGHT, 0.0) if self.rows_are_weights else (BROADCAST, CROWDED)

    def is_filled(self) -> bool:
        """True if the pixels of each chunk fill the stored vectors."""
        raise NotImplementedError

    def least_blocks(self) -> int:
        """Fewest channel blocks that share a copy of pixels, if there are that many."""
        raise NotImplementedError

    @property
    def tiles_copy(self) -> bool:
        """True if tiles copy pixels while they multiply: registers are free and pixels are contiguous."""
        registers = MANY_REGISTERS if self.tile.vectors == 4 else FEW_REGISTERS
        left = registers - (self.height + 1) * self.vectors - 1
        return not self.pixels.steps and left >= (1 if self.gathered == 1 else self.gathered + 1)

    def cost(self) -> float:
        """Steps per input channel."""
        shape = self.height, self.vectors
        return cost(*self.sizes(), shape, not self.rows_are_weights, *self.waits, self.sharing)

    def cut(self, unit: int, most: int, part: int = 4) -> Cut:
        """Divide pixels into chunks whose data fit a part of the L2 cache.

        Fewer pixels than cores need make more chunks: chunks share weights, while groups of channels copy pixels again.
        Several chunks are evenly divided among the cores.
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
        """Return the parallel loop over images, groups of channel blocks and chunks of pixels.

        `body` is called with (batch values, first pixel, number of pixels, first block, number of blocks).
        """
        batch, count = self.pixels.batch, self.pixels.count

        def grouped(chunks: PrimExpr) -> Stmt:
            others = product_of([*(size_of(v) for v in batch), chunks])
            number = _groups(blocks, self.least_blocks(), others, self.cores)
            return named("groups", number, lambda number: parallel([*(size_of(v) for v in batch), number, chunks]))

        def parallel(sizes: list[PrimExpr]) -> Stmt:
            names = [*(v.var.name for v in batch), "go", "ch"]
            return tasks("task", names, sizes, lambda parts: task(parts, *sizes[-2:]))

        def task(parts: list[PrimExpr], groups: PrimExpr, chunks: PrimExpr) -> Stmt:
            *image, go, ch = parts
            values = {**dict(self.pixels.image), **dict(zip((v.var for v in batch), image, strict=True))}
            base, end = (cut.unit * share_of(at, cut.units, chunks) for at in (ch, ch + 1))
            first, last = (share_of(at, int64(blocks), groups) for at in (go, go + 1))
            base = simplify(minimum(base, count))  # a bound for interval analysis

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
        """Call `body` with functions that load and prefetch vectors of the chunk's pixels; pixels from `bound` on are
        0.

        Non-contiguous pixels are gathered through a table of offsets, which hardware prefetching does not predict; so
        the second function prefetches pixels some channels ahead.
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

        def place(d: int, rest: PrimExpr, distance: PrimExpr, at: PrimExpr, body: Callable[[PrimExpr], Stmt]) -> Stmt:
            """Call `body` with the data offset of pixel `rest` of the first `d` + 1 axes, added to the offset in the
            other axes.
            """
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
        """Vector of pixels of input channel `k`, or of packed group `k`; `numbers` loads a channel."""
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
        """Prefetch the pixels from a column on of input channel `k`, or of the channels of packed group `k`."""
        source, group = self.pixels.source, self.gathered
        return block(
            Evaluate(prefetch(BufferLoad(source, (*image_of(self.pixels, image), simplify(
                k * group + g), column)), locality=2)) for g in range(group))  # fmt: skip

    def mask(self, column: PrimExpr, bound: PrimExpr | None) -> PrimExpr | None:
        """Mask of the lanes below `bound`, or None."""
        return None if bound is None else LT(ramp(column, self.lanes), spread(bound, self.lanes))

    # ------------------------------------------------------------------ tiles

    def sums(
        self,
        height: int,
        vectors: int,
        depth: PrimExpr,
        left: Callable[[PrimExpr, Var], PrimExpr],
        right: Callable[[Var, PrimExpr], PrimExpr],
        start: Callable[[PrimExpr, PrimExpr], PrimExpr],
        stored: Callable[[RegisterTile], Stmt],
        steps: Callable[[Steps], Stmt] | None = None,
    ) -> Stmt:
        """Compute a register tile: accumulate left(row, k) * right(k, column) over `depth`, from `start`.

        `steps` wraps the loop over input channels; the default is the plain loop.
        """

        def tile(tile: RegisterTile) -> Stmt:
            def step(k: Var) -> Stmt:
                return tile.step(lambda p: left(p, k), lambda c: right(k, c))

            def each(beside: Callable[[Var], Stmt] | None) -> Stmt:
                return loop("k", depth, step if beside is None else lambda k: block([beside(k), step(k)]))

            begun = tile.begun(start)
            return block([begun, each(None) if steps is None else steps(each), stored(tile)])

        return register_tile(
            height, vectors, self.lanes, tile, sums=self.dtype, factors=self.factor, product=self.added
        )

    def added(self, total: PrimExpr, row: PrimExpr, vector: PrimExpr) -> PrimExpr:
        """Multiply-add of a row element and a vector, one of which is weights and the other pixels."""
        if self.words is None:
            return Add(total, Mul(row, vector))
        pixels, weights = (vector, row) if self.rows_are_weights else (row, vector)
        return self.words.add(total, pixels, weights)

    def stored(
        self, result: Results, r: PrimExpr, at: PrimExpr, v: PrimExpr, width: PrimExpr | None, sums: Buffer
    ) -> Stmt:
        """Apply the epilogue to an accumulator vector (row `at` of `sums`) and store its pixels below `width`.

        Without `width`, or if chunks are full, all lanes are stored.
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
    """Batch indices of an image in the data."""
    return [values[v.var] for v in pixels.batch]


def number_of(most: int, left: PrimExpr) -> PrimExpr:
    """Pixels of a part: min(most, left), clamped at 0 for interval analysis."""
    return simplify(maximum(minimum(int64(most), left), int64(0)))


def _groups(blocks: int, least: int, others: PrimExpr, cores: int) -> PrimExpr:
    """Number of groups of channel blocks when `others` tasks are too few for the cores.

    Groups of at least `SHARING` blocks only balance the load, the same number for each core; smaller groups (down to
    `least` blocks) are used only if every core gets the same number of tasks, or enough that one more matters little.
    """
    if cores == 1 or blocks // least <= 1:
        return int64(1)
    others = maximum(others, int64(1))
    most = min(blocks // SHARING, TASKS * cores)
    most -= most % cores if most > cores else 0
    several = minimum(int64(most), floordiv(int64(TASKS * cores), others))
    each = minimum(int64(blocks // least), parts_of_tasks(others, cores))
    return simplify(maximum(int64(1), maximum(several, each)))
