"""Rows of tiles: transforms from images to data slots, and from sums to images.

    for each line of images with tiles of an item:
        for cb in T.grid(CI / 16):
            L[i, x, :] = X[n, cb * 16 : …, y + i, x], transposed    the rows that its tiles read, zero-padded
            L[:, x, :] = Bᵀ · L[:, x, :]                            down each column of pixels
            V[e, t, cb, :] = L[i, 4 * t : 4 * t + 6, :] · B         slots e of 36 of each of its tiles
        …
        for ob in blocks of channels of the group:
            S[:, x, :] = Aᵀ · M[:, t, ob, :] · A                    4×4 pixels of each of its tiles
            if any element of S is not finite:                      see `winograd.not_finite`
                S[:, x, :] = direct sums of the tiles with such elements
            C[n, ob * 16 : …, y + i, x] = S[i, x, :], transposed    with the epilogue applied

The rows of one channel block fit the L1 cache, where adjacent tiles reuse the pixels they share. Per-channel values of
the epilogue are computed once per channel block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from .....prim import And, IntImm, PrimExpr, Var, const, simplify
from .....prim.intrin import ceildiv, floordiv, floormod
from .....prim.intrin import max as maximum
from .....prim.intrin import min as minimum
from .....tir import Buffer, IfThenElse, Stmt
from ....build import alloc, block, int64, let, loop, named, scratch, size_of, spread, vector_load, vector_store
from ...products.finiteness import Flag, own_flag
from ...tile.transposes import transposed_square
from ..channel_blocks import part_of, stored_line
from ..planes import Sizes, digits
from ..results import Results
from ..windows import Kernel
from .not_finite import DirectTiles, Segment
from .plan import Plan
from .transforms import of_line
from .weights import DTYPE, Weights

OnSegment: TypeAlias = Callable[[list[PrimExpr], PrimExpr, PrimExpr, PrimExpr, PrimExpr], Stmt]
"""Statement for tiles of a row: (batch indices, row of tiles, first tile, number of tiles, number of the first)."""


class Lines:
    """Rows of tiles of one convolution, and the transforms of the tiles of a work item."""

    def __init__(self, kernel: Kernel, plan: Plan, sizes: Sizes, weights: Weights) -> None:
        self.windows, self.results, self.plan, self.lanes = kernel.windows, Results(kernel), plan, plan.lanes
        named, one = sizes.named, const(1, "int64")
        height, width = (axis.size for axis in self.windows.lines)
        self.leading = [size_of(v) for v in self.windows.batch]
        self.source = self.windows.lines_of_data()
        self.direct = DirectTiles(self.windows, self.source, plan, weights)
        images: PrimExpr = one
        for size in self.leading:
            images = images * size
        self.rows = named("rows", ceildiv(height, plan.rows.m))
        self.columns = named("columns", ceildiv(width, plan.columns.m))
        self.tiles = named("tiles", images * self.rows * self.columns)
        """Tiles of all images, numbered across rows and images."""
        self.divisors = (named("per_row", maximum(self.columns, one)), named("per_image", maximum(self.rows, one)))
        """Tiles of a row and rows of an image, at least 1."""
        most = plan.most
        if isinstance(self.columns, IntImm):
            most = min(most, self.columns.value)
        self.pixels = -(-plan.columns.met(most) // self.lanes) * self.lanes
        """Most row pixels read by the tiles of a work item, rounded up to whole register transposes."""
        self.most = most
        """Most tiles of a row in one work item."""
        self.staged = (most * plan.columns.m + self.lanes) * self.lanes
        """Elements of a row of these tiles' results, with slack for the last register transpose."""

    def _segments(self, first: PrimExpr, count: PrimExpr, body: OnSegment) -> Stmt:
        """Return `body` for the tiles of each row, for `count` tiles from tile `first` on."""
        wide, high = self.divisors

        def image(across: PrimExpr, body: Callable[[list[PrimExpr], PrimExpr], Stmt]) -> Stmt:
            images = [(f"n{d}", size) for d, size in enumerate(self.leading)]
            return named("row", simplify(floormod(across, high)), lambda row: digits(
                simplify(floordiv(across, high)), images, lambda batch: body(batch, row)))  # fmt: skip

        def segment(across: PrimExpr, start: PrimExpr) -> Stmt:
            low, end = maximum(first - start, int64(0)), minimum(first + count - start, wide)
            return named("low", simplify(low), lambda low: named("width", simplify(
                minimum(end - low, int64(self.most))), lambda width: image(across, lambda batch, row: body(
                    batch, row, low, width, simplify(start + low - first)))))  # fmt: skip

        def at(across: PrimExpr) -> Stmt:
            return named("start", simplify(across * wide), lambda start: segment(across, start))

        final = simplify(floordiv(maximum(first + count - 1, int64(0)), wide))
        return named("begin", simplify(floordiv(first, wide)), lambda begin: named("final", final, lambda final: loop(
            "s", simplify(final + 1 - begin), lambda s: named("across", simplify(begin + s), at))))  # fmt: skip

    # ------------------------------------------------------------------ data

    def data(self, data: Buffer, first: PrimExpr, count: PrimExpr, rows: PrimExpr) -> Stmt:
        """Compute V, the transformed data of `count` tiles from tile `first` on, padded with zeros to `rows` tiles."""
        plan, lanes = self.plan, self.lanes
        zero = spread(const(0, DTYPE), lanes)

        def nothing(t: Var) -> Stmt:
            tile = minimum(count + t, int64(plan.most - 1))
            return let("tile", tile, lambda tile: loop("cb", plan.depth, lambda cb: loop(
                "e", plan.slots, lambda e: vector_store(
                    data, (e, tile * plan.line + cb * lanes), zero))))  # fmt: skip

        def blocks(pixels: Buffer) -> OnSegment:
            return lambda batch, row, low, width, number: loop("cb", plan.depth, lambda cb: block([
                self._copied([*batch, cb], row, low, width, pixels),
                *([] if plan.rows.exact else [self._down(pixels, width)]),
                self._across(pixels, data, width, simplify(number * plan.line + cb * lanes))]))  # fmt: skip

        zeros = loop("t", simplify(rows - count), nothing)
        tiles = scratch("pixels", (plan.rows.reach, self.pixels * lanes), DTYPE, lambda pixels: (
            self._segments(first, count, blocks(pixels))))  # fmt: skip
        return block([zeros, tiles])

    def _copied(self, place: Sequence[PrimExpr], row: PrimExpr, low: PrimExpr, width: PrimExpr, pixels: Buffer) -> Stmt:
        """Copy the rows of a channel block read by some tiles of a row."""
        plan, lanes, (rows, columns) = self.plan, self.lanes, self.windows.lines
        reach = plan.columns.met(width)
        squares = minimum(ceildiv(reach, lanes), int64(self.pixels // lanes))
        zero = spread(const(0, DTYPE), lanes)

        def line(i: Var, y: PrimExpr) -> Stmt:
            def square(part: Buffer, x: PrimExpr) -> Stmt:
                return IfThenElse(
                    And(y >= 0, y < rows.extent),
                    self._square(place, y, x, part),
                    loop("q", lanes, lambda q: vector_store(part, (q * lanes,), zero)),
                )

            def at(v: Var) -> Stmt:
                x = simplify((low * plan.columns.step) + v * lanes - columns.before)
                place, size = (i * self.pixels + v * lanes) * lanes, (lanes * lanes,)
                return let("x", x, lambda x: part_of(
                    pixels, place, size, (1,), lambda part: square(part, x)))  # fmt: skip

            return loop("v", simplify(squares), at)

        return loop("i", plan.rows.reach, lambda i: let(
            "y", simplify(row * plan.rows.step + i - rows.before), lambda y: line(i, y)))  # fmt: skip

    def _square(self, place: Sequence[PrimExpr], y: PrimExpr, x: PrimExpr, part: Buffer) -> Stmt:
        """Load pixels of a row from `x` on, with the channels of a pixel in a vector; pixels outside the image are
        zeros.
        """
        lanes, (*batch, cb) = self.lanes, place

        def load(c: PrimExpr) -> PrimExpr:
            channel = simplify(cb * lanes + c)
            if self.plan.inputs % lanes:
                channel = minimum(channel, int64(self.plan.inputs - 1))
            pixels = self.windows.pixels_of_line(self.source, (*batch, channel), y, x, lanes)
            return pixels.astype(f"{DTYPE}x{lanes}")

        return transposed_square(lanes, DTYPE, load, lambda q, pixel: vector_store(part, (q * lanes,), pixel))

    def _down(self, pixels: Buffer, width: PrimExpr) -> Stmt:
        """Transform the rows in place; there are as many slots as pixels."""
        plan, lanes = self.plan, self.lanes
        reach = plan.columns.met(width)

        def column(x: Var) -> Stmt:
            elements = [vector_load(pixels, (i, x * lanes), lanes) for i in plan.rows.places]
            return of_line(plan.rows.data, elements, lambda i, value: vector_store(
                pixels, (i, x * lanes), value))  # fmt: skip

        return loop("x", simplify(minimum(reach, int64(self.pixels))), column)

    def _across(self, pixels: Buffer, data: Buffer, width: PrimExpr, at: PrimExpr) -> Stmt:
        """Transform the columns of all tiles of a row; the slots of the first tile begin at `at`."""
        plan, lanes, columns = self.plan, self.lanes, self.plan.columns

        def row(part: Buffer, i: Var, t: Var) -> Stmt:
            y = simplify(i * plan.rows.apart)
            elements = [vector_load(pixels, (y, (t * columns.step + x) * lanes), lanes) for x in columns.places]
            return of_line(columns.data, elements, lambda j, value: vector_store(
                part, (i * columns.slots + j, 0), value))  # fmt: skip

        return loop("t", width, lambda t: part_of(
            data, at + t * plan.line, (plan.slots, lanes), (plan.before, 1),
            lambda part: loop("i", plan.rows.slots, lambda i: row(part, i, t))))  # fmt: skip

    # ------------------------------------------------------------------ results

    def outputs(
        self, sums: Buffer, weights: Buffer, group: Var, first: PrimExpr, count: PrimExpr, blocks: PrimExpr
    ) -> Stmt:
        """Compute C, the pixels of `count` tiles from tile `first` on, for the channel blocks of a group."""
        plan, lanes = self.plan, self.lanes

        def of_block(staged: Buffer, ob: Var, channel: PrimExpr) -> Stmt:
            def segments(results: Results) -> Stmt:
                return self._segments(first, count, lambda batch, row, low, width, number: self._stored(
                    results, (sums, staged), channel, Segment(batch, row, low, width, (group, ob), weights),
                    simplify((ob * plan.most + number) * lanes)))  # fmt: skip

            return self.results.of_block(channel, lanes, plan.outputs, segments)

        def channel(ob: Var) -> PrimExpr:
            return simplify((group * (plan.panels * plan.vectors) + ob) * lanes)

        return scratch("staged", (plan.rows.m, self.staged), DTYPE, lambda staged: loop("ob", blocks, lambda ob: named(
            "channel", channel(ob), lambda channel: of_block(staged, ob, channel))))  # fmt: skip

    def _stored(
        self, results: Results, buffers: tuple[Buffer, Buffer], channel: PrimExpr, segment: Segment, at: PrimExpr
    ) -> Stmt:
        """Compute and store the pixels of a channel block for the tiles of a segment."""
        plan, lanes, (sums, staged) = self.plan, self.lanes, buffers
        high, m, (height, wide) = plan.rows.m, plan.columns.m, (axis.size for axis in self.windows.lines)
        begin = simplify(segment.low * m)

        def line(a: Var, y: Var) -> Stmt:
            pixels = minimum(segment.width * m, wide - begin)
            return IfThenElse(y < height, named("pixels", simplify(pixels), lambda pixels: stored_line(
                results, lanes, plan.outputs, staged, simplify(a * self.staged), channel, [*segment.batch, y],
                (begin, pixels))))  # fmt: skip

        return block([
            own_flag(lanes, DTYPE, lambda flag: block([
                loop("t", segment.width, lambda t: self._pixels(sums, simplify(at + t * lanes), staged, t, flag)),
                flag.if_raised(self.direct.replaced(segment, staged, self.staged)),
            ])),
            loop("a", high, lambda a: let("y", simplify(segment.row * high + a), lambda y: line(a, y))),
        ])  # fmt: skip

    def _pixels(self, sums: Buffer, at: PrimExpr, staged: Buffer, t: Var, flag: Flag) -> Stmt:
        """Compute the pixels of one tile; raise the flag if one is not finite."""
        plan, lanes, rows, columns = self.plan, self.lanes, self.plan.rows, self.plan.columns
        wide = columns.m * lanes

        def column(half: Buffer, part: Buffer, j: Var) -> Stmt:
            elements = [vector_load(part, (i * columns.count + j, 0), lanes) for i in range(rows.count)]
            return of_line(rows.pixels, elements, lambda a, value: vector_store(half, (a, j * lanes), value))

        def row(half: Buffer, part: Buffer, a: Var) -> Stmt:
            elements = [vector_load(half, (a, j * lanes), lanes) for j in range(columns.count)]
            return of_line(
                columns.pixels, elements, lambda b, value: vector_store(part, (a, b * lanes), value), flag.observe
            )

        return alloc("half", (rows.m, columns.count * lanes), DTYPE, "global", lambda half: block([
            part_of(sums, at, (plan.sums, lanes), (plan.behind, 1), lambda part: loop(
                "j", columns.count, lambda j: column(half, part, j))),
            part_of(staged, t * wide, (rows.m, wide), (self.staged, 1), lambda part: loop(
                "a", rows.m, lambda a: row(half, part, a)))]))  # fmt: skip
