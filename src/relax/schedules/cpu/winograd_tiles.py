"""The loops of a convolution by Winograd's transforms: tiles by channels, whatever the size and the number of images.

    P = the images in blocks of channels (see `channel_blocks`)
    for item in T.parallel(items):                              so many tiles of all images, 28 say
        for t, cb in T.grid(28, CI / 16):
            V[e, cb, t, :] = Bᵀ · (6×6 pixels of P) · B             elements e of 36, in vectors of channels
        for group in groups of output channels:
            for e, panel in T.grid(36, …):                      sums of 12 tiles (or 8) × 32 channels in registers
                M[e, panel, t, :] = sum over ci of V[e, ci, t] * U[group, e, panel, ci, :]
            for ob in blocks of channels of the group:
                S[t, :] = Aᵀ · M · A                            4×4 pixels of each tile, in vectors of channels
                C[n, ob * 16 + …, y, x :] = S, transposed       as the statement behind changes them

Tiles are numbered across lines and images. Those of an item are a multiple of a third of a register tile, which is
12 and 8 added up; the last item repeats its last tile. Where items are fewer than cores, some share their tiles and
divide the groups of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...prim import IntImm, PrimExpr, Var, const, simplify
from ...prim.intrin import ceildiv, floordiv, floormod
from ...prim.intrin import max as maximum
from ...prim.intrin import min as minimum
from ...tir import AssertStmt, Buffer, BufferLoad, ForKind, IfThenElse, Stmt
from ..build import alloc, block, int64, let, loop, named, scratch, spread, vector_load, vector_store
from ..contraction import size_of
from .channel_blocks import ChannelBlocks, part_of, stored_line
from .outer_products import RegisterTile, register_tile, register_tiles
from .planes import Sizes, digits, window
from .results import Results
from .squares import Values
from .windows import Kernel
from .winograd_transforms import TAPS, KernelTransform, Line, Transforms

DTYPE = "float32"


@dataclass(frozen=True)
class Plan:
    """The sizes that are known while compiling."""

    transforms: Transforms
    inputs: int
    outputs: int
    lanes: int
    vectors: int
    """The vectors of a panel of output channels."""
    tall: int
    """The tiles of a register tile, a multiple of 3; there are some of two thirds of that."""
    most: int
    """The most tiles of an item."""
    panels: int
    """The panels of a group of output channels, whose sums are in the cache at a time."""
    cores: int

    @property
    def unit(self) -> int:
        return self.tall // 3

    @property
    def width(self) -> int:
        """The output channels of a panel."""
        return self.vectors * self.lanes

    @property
    def groups(self) -> int:
        return -(-self.outputs // (self.width * self.panels))

    @property
    def depth(self) -> int:
        """The blocks of input channels."""
        return -(-self.inputs // self.lanes)

    @property
    def weights(self) -> KernelTransform:
        return KernelTransform(
            self.transforms, self.outputs, self.inputs, self.groups, self.panels, self.width
        )


def of_line(line: Line, elements: Sequence[PrimExpr], body: Callable[[int, PrimExpr], Stmt]) -> Stmt:
    """A statement for each element of a transformed line."""
    values = Values("t")
    results = line(values, [values.of(element) for element in elements])
    return values.around(block(body(i, result) for i, result in enumerate(results)))


class Tiles:
    """Writes the loops of one convolution."""

    def __init__(self, kernel: Kernel, plan: Plan) -> None:
        self.windows, self.results, self.plan = kernel.windows, Results(kernel), plan
        self.sizes, self.lanes = Sizes(), plan.lanes
        self.m, self.n = plan.transforms.m, plan.transforms.n
        named, one = self.sizes.named, const(1, "int64")
        height, width = (axis.size for axis in self.windows.axes)
        self.leading = [size_of(v) for v in self.windows.batch]
        images = one
        for size in self.leading:
            images = images * size
        self.rows, self.columns = (
            named("rows", ceildiv(height, self.m)),
            named("columns", ceildiv(width, self.m)),
        )
        self.tiles = named("tiles", images * self.rows * self.columns)
        self.divisors = (
            named("per_row", maximum(self.columns, one)),
            named("per_image", maximum(self.rows, one)),
        )
        self.last = named("last", maximum(self.tiles - 1, const(0, "int64")))
        shares = named("shares", maximum(ceildiv(self.tiles, plan.most), one))
        units = maximum(ceildiv(ceildiv(self.tiles, shares), plan.unit), int64(2))
        self.share = named("share", units * plan.unit)
        """The tiles of an item."""
        self.items = named("items", ceildiv(self.tiles, self.share))
        few = minimum(int64(plan.groups), ceildiv(int64(plan.cores), maximum(self.items, one)))
        self.splits = named("splits", maximum(few, one))
        """The items that have the same tiles, and different groups of channels."""
        reach = self.n - self.m
        high, wide = (named(name, count * self.m + reach) for name, count in (
            ("high", self.rows), ("wide", self.columns)))  # fmt: skip
        self.staged = (plan.most * self.m + self.lanes) * self.lanes
        """The elements of a line of all tiles of an item, and those that a square reaches behind it."""
        self.blocks = ChannelBlocks(self.windows, plan.inputs, self.lanes, high, wide, self.sizes)

    def kernel(self, transformed: Buffer | None = None) -> Stmt:
        """The transform of the weights, unless they are transformed; the copy of the data; and all tiles."""
        blocks, shape = self.blocks, self.plan.weights.shape

        def tiles(weights: Buffer) -> Stmt:
            return scratch("blocks", (*self.leading, blocks.blocks, blocks.size), DTYPE, lambda image: block([
                blocks.fill(self.leading, image), self._items(weights, image)]))  # fmt: skip

        body = tiles(transformed) if transformed is not None else scratch(
            "weights", shape, DTYPE, lambda weights: block([self._weights(weights), tiles(weights)]))  # fmt: skip
        return self.sizes.around(body)

    # ------------------------------------------------------------------ weights

    def _weights(self, weights: Buffer) -> Stmt:
        """U of weights that are known when the function runs."""
        plan, source, lanes, n = self.plan, self.windows.weight.buffer, self.lanes, self.n
        line = plan.transforms.kernel

        def vector(at: Sequence[PrimExpr], ci: Var) -> Stmt:
            group, panel, v = at
            first = ((group * plan.panels + panel) * plan.vectors + v) * lanes

            def gathered(squares: Buffer) -> Stmt:
                return loop("lane", lanes, lambda lane: block(
                    vector_store(squares, ((i * TAPS + j) * lanes + lane,), BufferLoad(
                        source, (minimum(first + lane, int64(plan.outputs - 1)), ci, int64(i), int64(j))))
                    for i in range(TAPS) for j in range(TAPS)))  # fmt: skip

            def lines(squares: Buffer, half: Buffer) -> Stmt:
                def row(i: Var) -> Stmt:
                    taps = [vector_load(squares, ((i * TAPS + j) * lanes,), lanes) for j in range(TAPS)]
                    return of_line(line, taps, lambda j, value: vector_store(half, (i, j * lanes), value))

                def column(j: Var) -> Stmt:
                    taps = [vector_load(half, (i, j * lanes), lanes) for i in range(TAPS)]
                    place = ci * plan.width + v * lanes
                    return of_line(line, taps, lambda i, value: vector_store(
                        weights, (group, i * n + j, panel, place), value))  # fmt: skip

                return block([gathered(squares), loop("i", TAPS, row), loop("j", n, column)])

            return scratch("squares", (TAPS * TAPS * lanes,), DTYPE, lambda squares: scratch(
                "half", (TAPS, n * lanes), DTYPE, lambda half: lines(squares, half)))  # fmt: skip

        radix = [("group", int64(plan.groups)), ("panel", int64(plan.panels)), ("v", int64(plan.vectors))]
        return loop("vector", plan.groups * plan.panels * plan.vectors, lambda flat: digits(
            flat, radix, lambda at: loop("ci", plan.inputs, lambda ci: vector(at, ci))), ForKind.PARALLEL)  # fmt: skip

    # ------------------------------------------------------------------ items

    def _items(self, weights: Buffer, image: Buffer) -> Stmt:
        radix = [("share", self.items), ("split", self.splits)]

        def item(at: list[PrimExpr]) -> Stmt:
            body = tiles(at)
            for divisor in self.divisors:
                if not isinstance(divisor, IntImm):
                    body = AssertStmt(divisor >= 1, "lines and images have tiles", body)
            return body

        def tiles(at: list[PrimExpr]) -> Stmt:
            return named("first", simplify(at[0] * self.share), lambda first: named(
                "count", simplify(minimum(self.share, self.tiles - first)),
                lambda count: self._item(weights, image, first, count, at[1])))  # fmt: skip

        return loop("item", simplify(self.items * self.splits), lambda flat: digits(
            flat, radix, item), ForKind.PARALLEL)  # fmt: skip

    def _item(
        self, weights: Buffer, image: Buffer, first: PrimExpr, count: PrimExpr, split: PrimExpr
    ) -> Stmt:
        """Some tiles, `count` from the tile `first` on, and the groups of channels of one of the splits."""
        plan, elements = self.plan, self.n**2
        least = maximum(ceildiv(count, plan.unit), int64(2)) * plan.unit
        start = floordiv(split * plan.groups, self.splits)
        end = floordiv((split + 1) * plan.groups, self.splits)

        def group(data: Buffer, sums: Buffer, number: Var, rows: PrimExpr) -> Stmt:
            held, left = plan.panels * plan.vectors, -(-plan.outputs // self.lanes)
            outputs = int64(held) if left % held == 0 else minimum(int64(held), left - number * held)
            return block([
                loop("e", elements, lambda e: loop("panel", plan.panels, lambda panel: self._panel(
                    weights, data, sums, (number, e, panel), rows))),
                loop("ob", outputs, lambda ob: self._outputs(sums, number, ob, first, count)),
            ])  # fmt: skip

        def body(data: Buffer, sums: Buffer, rows: PrimExpr) -> Stmt:
            return block([
                self._data(image, data, first, rows),
                loop("g", simplify(end - start), lambda g: let(
                    "group", minimum(start + g, int64(plan.groups - 1)),
                    lambda number: group(data, sums, number, rows))),
            ])  # fmt: skip

        before, behind = self._stride(plan.depth), self._stride(plan.panels * plan.vectors)
        return named("rows", simplify(least), lambda rows: scratch(
            "data", (elements, before), DTYPE, lambda data: scratch(
                "sums", (elements, behind), DTYPE, lambda sums: body(data, sums, rows))))  # fmt: skip

    def _stride(self, vectors: int) -> int:
        """The distance of matrices of so many vectors of channels for each tile, kept off powers of two."""
        return (vectors * self.plan.most + 3) * self.lanes

    def _tile(self, number: PrimExpr, body: Callable[[list[PrimExpr], PrimExpr, PrimExpr], Stmt]) -> Stmt:
        """`body` of the image, the line and the column of a tile."""
        wide, high = self.divisors
        return named("across", floordiv(number, wide), lambda across: named(
            "column", floormod(number, wide), lambda column: named("row", floormod(across, high), lambda row: digits(
                floordiv(across, high), [(f"n{d}", size) for d, size in enumerate(self.leading)],
                lambda batch: body(batch, row, column)))))  # fmt: skip

    # ------------------------------------------------------------------ data

    def _data(self, image: Buffer, data: Buffer, first: PrimExpr, rows: PrimExpr) -> Stmt:
        """V: the transforms of the data of some tiles, the last of which is repeated."""
        m, lanes, line = self.m, self.lanes, self.blocks.line

        def tile(t: Var) -> Stmt:
            def blocks(batch: list[PrimExpr], row: PrimExpr, column: PrimExpr) -> Stmt:
                start = simplify((row * line + column) * (m * lanes))
                return named("start", start, lambda start: loop("cb", self.plan.depth, lambda cb: self._square(
                    image, (*batch, cb, start), data, simplify((cb * self.plan.most + t) * lanes))))  # fmt: skip

            return named("number", minimum(first + t, self.last), lambda number: self._tile(number, blocks))

        return loop("t", rows, tile)

    def _square(self, image: Buffer, place: Sequence[PrimExpr], data: Buffer, at: PrimExpr) -> Stmt:
        """The transform of one square of pixels of a block of channels."""
        n, lanes, transform = self.n, self.lanes, self.plan.transforms.data
        *outer, start = place

        def row(half: Buffer, i: Var) -> Stmt:
            def elements(part: Buffer, at: Sequence[PrimExpr]) -> Stmt:
                *outer, begin = at
                pixels = [vector_load(part, (*outer, begin + j * lanes), lanes) for j in range(n)]
                return of_line(transform, pixels, lambda j, value: vector_store(half, (i, j * lanes), value))

            return window(image, (*outer, start + i * (self.blocks.line * lanes)), n * lanes, elements)

        def column(half: Buffer, part: Buffer, j: Var) -> Stmt:
            pixels = [vector_load(half, (i, j * lanes), lanes) for i in range(n)]
            return of_line(transform, pixels, lambda i, value: vector_store(part, (i * n + j, 0), value))

        stride = self._stride(self.plan.depth)
        return alloc("half", (n, n * lanes), DTYPE, "global", lambda half: block([
            loop("i", n, lambda i: row(half, i)),
            part_of(data, at, (n * n, lanes), (stride, 1), lambda part: loop(
                "j", n, lambda j: column(half, part, j)))]))  # fmt: skip

    # ------------------------------------------------------------------ sums

    def _panel(
        self, weights: Buffer, data: Buffer, sums: Buffer, at: tuple[Var, Var, Var], rows: PrimExpr
    ) -> Stmt:
        """The sums of one element of all tiles, for a panel of channels."""
        unit = self.plan.unit
        return register_tiles(floordiv(rows, unit), unit, lambda row, height, number: self._product(
            weights, data, sums, at, row, height, number))  # fmt: skip

    def _product(
        self, weights: Buffer, data: Buffer, sums: Buffer, at: tuple[Var, Var, Var], row: PrimExpr, height: int,
        number: PrimExpr,
    ) -> Stmt:  # fmt: skip
        """One register tile, the `number`-th of its panel: it asks for some of the next panel."""
        plan, lanes, most, (group, e, panel) = self.plan, self.lanes, self.plan.most, at

        def step(tile: RegisterTile, left: Buffer, cb: Var, c: Var, ask: Var) -> Stmt:
            start = (cb * lanes + c) * plan.width
            return tile.add(
                lambda p: BufferLoad(left, ((cb * most + p) * lanes + c,)), weights, (group, e, panel, start),
                (group, e, panel, start + ask),
            )  # fmt: skip

        def steps(tile: RegisterTile, left: Buffer, ask: Var) -> Stmt:
            return loop("cb", plan.depth, lambda cb: loop(
                "c", int64(lanes) if plan.inputs % lanes == 0 else minimum(int64(lanes), plan.inputs - cb * lanes),
                lambda c: step(tile, left, cb, c, ask)))  # fmt: skip

        def written(tile: RegisterTile, left: Buffer, out: Buffer) -> Stmt:
            ask = plan.inputs * plan.width + floormod(number, plan.vectors) * lanes
            return block([
                tile.each(lambda p, v: tile.store(p, v, spread(const(0, DTYPE), lanes))),
                let("ask", ask, lambda ask: steps(tile, left, ask)),
                tile.each(lambda p, v: vector_store(out, ((v * most + p) * lanes,), tile.load(p, v))),
            ])  # fmt: skip

        before, behind = self._stride(plan.depth), self._stride(plan.panels * plan.vectors)
        lefts, outs = (((count - 1) * most + height) * lanes for count in (plan.depth, plan.vectors))
        place = e * behind + (panel * (plan.vectors * most) + row) * lanes
        return part_of(data, e * before + row * lanes, (lefts,), (1,), lambda left: part_of(
            sums, place, (outs,), (1,), lambda out: register_tile(
                height, plan.vectors, lanes, DTYPE, lambda tile: written(tile, left, out))))  # fmt: skip

    # ------------------------------------------------------------------ results

    def _outputs(self, sums: Buffer, group: Var, ob: Var, first: PrimExpr, count: PrimExpr) -> Stmt:
        """The pixels of some channels of all tiles."""
        plan, m, lanes = self.plan, self.m, self.lanes

        def body(staged: Buffer) -> Stmt:
            return block([
                loop("t", count, lambda t: self._pixels(sums, simplify((ob * plan.most + t) * lanes), staged, t)),
                self._lines(staged, simplify((group * (plan.panels * plan.vectors) + ob) * lanes), first, count),
            ])  # fmt: skip

        return scratch("pixels", (m, self.staged), DTYPE, body)

    def _pixels(self, sums: Buffer, at: PrimExpr, staged: Buffer, t: Var) -> Stmt:
        """The pixels of one tile."""
        m, n, lanes, transform = self.m, self.n, self.lanes, self.plan.transforms.pixels
        stride = self._stride(self.plan.panels * self.plan.vectors)

        def column(half: Buffer, part: Buffer, j: Var) -> Stmt:
            elements = [vector_load(part, (i * n + j, 0), lanes) for i in range(n)]
            return of_line(transform, elements, lambda a, value: vector_store(half, (a, j * lanes), value))

        def row(half: Buffer, part: Buffer, a: Var) -> Stmt:
            elements = [vector_load(half, (a, j * lanes), lanes) for j in range(n)]
            return of_line(transform, elements, lambda b, value: vector_store(part, (a, b * lanes), value))

        return alloc("half", (m, n * lanes), DTYPE, "global", lambda half: block([
            part_of(sums, at, (n * n, lanes), (stride, 1), lambda part: loop(
                "j", n, lambda j: column(half, part, j))),
            part_of(staged, t * (m * lanes), (m, m * lanes), (self.staged, 1), lambda part: loop(
                "a", m, lambda a: row(half, part, a)))]))  # fmt: skip

    def _lines(self, staged: Buffer, channel: PrimExpr, first: PrimExpr, count: PrimExpr) -> Stmt:
        """Store the pixels of all tiles, line by line."""
        wide, m, (height, width) = self.divisors[0], self.m, (axis.size for axis in self.windows.axes)

        def pixels(start: PrimExpr, low: PrimExpr, pixels: PrimExpr) -> Stmt:
            at, begin = (start + low - first) * m, simplify(low * m)

            def line(batch: list[PrimExpr], y: Var, a: Var, at: PrimExpr) -> Stmt:
                return IfThenElse(y < height, stored_line(
                    self.results, self.lanes, self.plan.outputs, staged,
                    simplify(a * self.staged + at * self.lanes), channel, [*batch, y], (begin, pixels)))  # fmt: skip

            return named("at", at, lambda at: self._tile(start, lambda batch, row, _: loop("a", m, lambda a: let(
                "y", row * m + a, lambda y: line(batch, y, a, at)))))  # fmt: skip

        def segment(start: PrimExpr) -> Stmt:
            low, high = maximum(first - start, int64(0)), minimum(first + count - start, wide)
            return named("low", low, lambda low: named(
                "pixels", minimum(high * m, width) - low * m, lambda count: pixels(start, low, count)))  # fmt: skip

        return named("begin", floordiv(first, wide), lambda begin: named(
            "final", first + count - 1, lambda final: loop("s", floordiv(final, wide) + 1 - begin, lambda s: named(
                "start", (begin + s) * wide, segment))))  # fmt: skip


__all__ = ["Plan", "Tiles"]
