"""Pointwise (1×1) convolutions vectorised over pixels; see `pointwise.loops`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from .....prim import And, IntImm, PrimExpr, Select, Var, is_const, simplify
from .....prim.intrin import ceildiv, floordiv, floormod
from .....prim.intrin import max as maximum
from .....prim.intrin import min as minimum
from .....runtime.records import dataclass
from .....tir import Buffer, BufferLoad, ForKind, IfThenElse, Stmt
from ....build import apart, block, int64, let, loop, named, scratch, vector_load, vector_store
from ...products.operands import Results, Values
from ...tile import RegisterTile
from .loops import LINE, Ask, Cut, Load, Steps, Writer, number_of
from .operands import WeightBlocks

Maker: TypeAlias = Callable[[PrimExpr, PrimExpr], Stmt]
"""Stores the result of the accumulator at (row, column)."""

Beside: TypeAlias = Callable[[Var, PrimExpr], "Callable[[Steps], Stmt] | None"]
"""Returns the loop over input channels for (block, panel), or None for the plain one."""

CHUNK: Final = 512
"""Most pixels of a chunk: rows long enough for streaming. Chunk sizes are multiples of half a panel."""
PAGE: Final = 4096
"""4K aliasing: a load falsely depends on a recent store whose address has the same lowest 12 bits."""
SHORT: Final = 4
"""Steps per result cache line below which a tile prefetches the next tile's lines, as its own would come too late."""
LEAST_BLOCKS: Final = 2
"""Fewest channel blocks that share a copy of pixels; the copy takes an eighth of the time of a block."""


class AlongPixels(Writer):
    """Writes loops vectorised over pixels; the rows of a register tile are output channels."""

    rows_are_weights = True

    def sizes(self) -> tuple[Sequence[PrimExpr], PrimExpr]:
        return [int64(self.pixels.channels)], simplify(ceildiv(self.pixels.count, self.lanes))

    def is_filled(self) -> bool:
        return is_const(simplify(floormod(self.pixels.count, self.width)), 0)

    def least_blocks(self) -> int:
        return LEAST_BLOCKS

    @property
    def _apart(self) -> int:
        """Padding rows between panels, so that copying to the next panel avoids 4K aliasing with reads of this one."""
        row = self.width * self.bytes
        sizes = (self.inputs * row + rows * row for rows in range(PAGE // row))
        return next((i for i, size in enumerate(sizes) if PAGE <= size % PAGE * 4 <= 3 * PAGE), 0)

    def packing(self) -> WeightBlocks:
        """Weight layout: blocks of as many channels as a register tile has rows."""
        return WeightBlocks(self.pixels.channels, self.inputs, self.height, False)

    @property
    def _half(self) -> int:
        """Vectors of a narrow panel; 0 if no panels are narrow."""
        return 0 if self.is_filled() else self.vectors // 2

    def loops(self, packed: Buffer | None) -> Stmt:
        """Return the loops of all tasks, for weights in the layout of `packing`, or unpacked if `packed` is None."""
        unit = self._half * self.lanes if self._half * 2 == self.vectors else self.width
        cut = self.cut(unit, CHUNK)
        blocks, most = -(-self.pixels.channels // self.height), -(-cut.most // self.width)

        def task(values: Values, start: PrimExpr, inside: PrimExpr, first: PrimExpr, count: PrimExpr) -> Stmt:
            return self._with_panels(cut, most, inside, lambda panels: self.copied(
                most * self.width, start, self.bound, lambda load, ask: written(Chunk(
                    values, start, first, count, panels, load, ask))))  # fmt: skip

        def written(part: Chunk) -> Stmt:
            if blocks == 1:
                return self._blocks(packed, part, lambda jo, k, c: part.load(part.values, k, jo * self.width + c))
            shape = (most, self.inputs + self._apart, self.width)
            return scratch("copy", shape, self.factor, lambda buffer: self._with_copy(packed, part, buffer))

        return self.tasks(cut, blocks, task)

    def _blocks(
        self, packed: Buffer | None, chunk: Chunk, vector: Callable[[PrimExpr, PrimExpr, PrimExpr], PrimExpr],
        beside: Beside | None = None,
    ) -> Stmt:  # fmt: skip
        """Compute all channel blocks and panels; `vector` loads pixels of a panel and input channel."""
        channels = self.pixels.channels
        last = int64(-(-channels // self.height) - 1)

        def at(i: Var, io: Var, row: Var, jo: PrimExpr, vectors: int) -> Stmt:
            return self._tile(
                chunk.values, packed, io, row, simplify(chunk.start + jo * self.width), vectors,
                lambda k, c: vector(jo, k, c), None if beside is None else beside(i, jo))  # fmt: skip

        return loop("i", chunk.blocks, lambda i: let("io", minimum(chunk.first + i, last), lambda io: let(
            "row", minimum(io * self.height, int64(channels - self.height)), lambda row: chunk.panels.each(
                lambda jo, vectors: at(i, io, row, jo, vectors)))))  # fmt: skip

    def _with_copy(self, packed: Buffer | None, chunk: Chunk, buffer: Buffer) -> Stmt:
        """Compute a chunk whose pixels are copied to `buffer`, by the first channel block as far as possible."""
        panels, start = chunk.panels, chunk.start
        last = int64(panels.most - 1)

        def beside(i: Var, jo: PrimExpr, shared: PrimExpr) -> Callable[[Steps], Stmt]:
            def copying(steps: Steps, at: PrimExpr) -> Stmt:
                copied = named("next", minimum(jo + 1, last), lambda jo: steps(
                    lambda k: self._copy(chunk, buffer, k, jo, at, True)))  # fmt: skip
                is_whole = at + self.width <= self.pixels.count
                return IfThenElse(And(And(i < 1, jo + 1 < shared), is_whole), copied, steps(None))

            at = simplify(start + (jo + 1) * self.width)
            return lambda steps: named("at", at, lambda at: copying(steps, at))

        def begun(shared: PrimExpr) -> Stmt:
            """Copy the first panel, and the panels that the first channel block does not copy."""

            def panel(t: Var) -> Stmt:
                jo = minimum(Select(t < 1, int64(0), t + shared - 1), last)
                return named("jo", simplify(jo), lambda jo: loop("k", self.inputs, lambda k: self._copy(
                    chunk, buffer, k, jo, simplify(start + jo * self.width), False)))  # fmt: skip

            return loop("t", simplify(panels.count - shared + 1), panel)

        def both(shared: PrimExpr) -> Stmt:
            return block([begun(shared), self._blocks(
                packed, chunk, lambda jo, k, c: vector_load(buffer, (jo, k, c), self.lanes),
                (lambda i, jo: beside(i, jo, shared)) if self.tiles_copy else None)])  # fmt: skip

        if not self.tiles_copy:
            return both(int64(1))
        whole = floordiv(maximum(self.pixels.count - start, int64(0)), self.width)
        return named("shared", simplify(maximum(minimum(panels.count, whole), int64(1))), both)

    def _copy(
        self, chunk: Chunk, buffer: Buffer, k: Var, jo: PrimExpr, at: PrimExpr, is_whole: bool
    ) -> Stmt:  # fmt: skip
        """Copy the pixels from `at` on of one input channel and panel, and prefetch the pixels behind them."""

        def vector(v: Var) -> Stmt:
            c = simplify(at - chunk.start + v * self.lanes)
            if self.pixels.steps:
                asked = chunk.ask(chunk.values, k, c)
            else:
                asked = self.asked(chunk.values, k, simplify(at + self.width + v * self.lanes))
            loaded = chunk.load(chunk.values, k, c, is_whole)
            return block([asked, vector_store(buffer, (jo, k, v * self.lanes), loaded)])

        return loop("v", self.vectors, vector, ForKind.UNROLLED)

    def _with_panels(self, cut: Cut, most: int, inside: PrimExpr, body: Callable[[Panels], Stmt]) -> Stmt:
        """Call `body` with the panels of a chunk; the last one may have half as many vectors."""
        count = simplify(ceildiv(inside, self.width))
        half, number = self._half, self.pixels.count
        if isinstance(number, IntImm):
            rests = {-(-size // self.lanes) % self.vectors for size in cut.sizes(number.value)}
            half = half if any(0 < rest <= half for rest in rests) else 0
        if half == 0:
            return named("panels", count, lambda count: body(Panels(count, count, self.vectors, 0, most)))
        vectors = simplify(maximum(ceildiv(inside, self.lanes) - half, int64(0)))
        wide = simplify(ceildiv(vectors, self.vectors))
        return named("panels", count, lambda count: named("wide", wide, lambda wide: body(
            Panels(count, wide, self.vectors, half, most))))  # fmt: skip

    def _tile(
        self, values: Values, packed: Buffer | None, io: Var, row: Var, start: PrimExpr, vectors: int,
        right: Callable[[Var, PrimExpr], PrimExpr], steps: Callable[[Steps], Stmt] | None,
    ) -> Stmt:  # fmt: skip
        """Compute a register tile of `vectors` columns: sum over all input channels, prefetch result lines, store
        results.
        """
        pixels, weights = self.pixels, self.pixels.weights
        width = vectors * self.lanes

        def left(p: PrimExpr, k: Var) -> PrimExpr:
            if packed is not None:
                return BufferLoad(packed, (io, k, p))
            return BufferLoad(weights, (row + p, k, *(int64(0) for _ in weights.shape[2:])))

        def of_width(inside: PrimExpr) -> Stmt:
            at = {**values, pixels.row: row, pixels.column: start}
            result = Results(pixels, at, int64(self.height), inside)

            def asking(loop_of: Steps) -> Stmt:
                """Return the loop over input channels with prefetches added."""

                def with_lines(beside: Callable[[Var], Stmt] | None) -> Stmt:
                    others = [] if beside is None else [beside]
                    return loop_of(lambda k: block([self._asked(result, k, width), *(f(k) for f in others)]))

                return with_lines(None) if steps is None else steps(with_lines)

            return result.declared(self.sums(
                self.height, vectors, int64(self.inputs), left, right, lambda p, c: self.zero,
                lambda tile: self._stored(result, tile, inside), asking))  # fmt: skip

        inside = int64(width) if self.bound is None else number_of(width, pixels.count - start)
        return named("inside", inside, of_width)

    def _asked(self, result: Results, k: Var, width: int) -> Stmt:
        """Prefetch a tile's result cache lines, spread evenly over the steps.

        Prefetching all at once would occupy the fill buffers that the tile's own loads need. With few steps, the lines
        are those of the next tile, prefetched into the L2 cache.
        """
        step = max(LINE * 8 // self.pixels.store.buffer.dtype.bits, 1)
        lines = -(-width // step)
        total = self.height * lines
        first, locality = (width, 2) if self.inputs < SHORT * total else (0, 3)
        each = -(-total // self.inputs)
        spaced = 1 << max(self.inputs // total, 1).bit_length() - 1

        def line(u: int) -> Stmt:
            number = simplify(floordiv(k, spaced) * each + u)
            row = minimum(floordiv(number, lines), int64(self.height - 1))
            return result.asked(row, floormod(number, lines) * step + first, locality)

        return block(line(u) for u in range(each))

    def _stored(self, result: Results, tile: RegisterTile, inside: PrimExpr) -> Stmt:
        """Apply the epilogue to a tile and store the pixels below `inside`.

        Tiles entirely inside the image need no masks and keep their accumulators in registers, unless the epilogue
        calls functions.
        """
        if result.is_sum:
            bound = None if self.bound is None else inside
            return tile.each(lambda p, c: vector_store(
                result.out, result.place(p, c), tile.load(p, c), self.mask(c, bound)))  # fmt: skip
        width = tile.width

        def rest(write: Callable[[Buffer], Stmt]) -> Stmt:
            return scratch("sums", (tile.height, width), self.dtype, lambda sums: block([
                tile.each(lambda p, c: vector_store(sums, (p, c), tile.load(p, c))), write(sums)]))  # fmt: skip

        def rows(sums: Buffer, limit: PrimExpr | None) -> Stmt:
            # A separate function: its constants would displace the next tile's accumulators.
            each = apart if result.has_calls else loop
            return each("r", tile.height, lambda r: loop("v", len(tile.vectors), lambda v: self.stored(
                result, r, r, v, limit, sums)))  # fmt: skip

        if result.has_calls:
            if self.bound is None:
                return rest(lambda sums: rows(sums, None))
            return rest(lambda sums: IfThenElse(inside >= width, rows(sums, None), rows(sums, inside)))
        whole = self._made(result, tile)
        if self.bound is None:
            return whole
        return IfThenElse(inside >= width, whole, rest(lambda sums: rows(sums, inside)))

    def _made(self, result: Results, tile: RegisterTile) -> Stmt:
        """Apply the epilogue to a tile inside the image and store it from registers, unrolled."""

        def vector(p: PrimExpr, first: PrimExpr, maker: Maker) -> Stmt:
            def lane(x: Var) -> Stmt:
                c = first + x
                return let("total", BufferLoad(tile.acc, (p, c)), lambda total: maker(c, total))

            return loop("x", self.lanes, lane, ForKind.VECTORIZED)

        return tile.each_row(lambda p: result.of_row(p, lambda maker: tile.each_vector(
            lambda c: vector(p, c, maker))))  # fmt: skip


@dataclass(frozen=True)
class Chunk:
    """Pixels of an image, and the channel blocks computed from them."""

    values: Values
    """Values of the batch variables (the image)."""
    start: PrimExpr
    """Index of the first pixel."""
    first: PrimExpr
    """Index of the first channel block."""
    blocks: PrimExpr
    """Number of channel blocks."""
    panels: Panels
    load: Load
    ask: Ask


@dataclass(frozen=True)
class Panels:
    """Panels of a chunk."""

    count: PrimExpr
    wide: PrimExpr
    """Number of panels with all vectors, which come first."""
    vectors: int
    rest: int
    """Vectors of the remaining panel; 0 if there is none."""
    most: int
    """Number of panels of a full chunk."""

    def each(self, body: Callable[[PrimExpr, int], Stmt]) -> Stmt:
        """Return `body(index, vectors)` for each panel."""
        wide = loop("jo", self.wide, lambda jo: body(jo, self.vectors))
        if not self.rest:
            return wide
        others, last = simplify(self.count - self.wide), int64(self.most - 1)
        return block([wide, loop("jr", others, lambda jr: named("jo", minimum(
            self.wide + jr, last), lambda jo: body(jo, self.rest)))])  # fmt: skip
