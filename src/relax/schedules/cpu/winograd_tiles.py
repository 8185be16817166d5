"""The loops of a convolution by transforms of tiles: tiles by channels, whatever the size and the number of images.

    P = the images in blocks of channels (see `channel_blocks`)
    for item in T.parallel(items):                              so many tiles of all images, 28 say
        for t, cb in T.grid(28, CI / 16):
            V[e, t, cb, :] = Bᵀ · (6×6 pixels of P) · B             slots e of 36, in vectors of channels
        for group in groups of output channels:
            for e, panel in T.grid(36, …):                      sums of 12 tiles (or 8) × 32 channels in registers
                M[sum of e, panel, t, :] += sum over ci of V[e, t, ci] * U[group, e, panel, ci, :]
            for ob in blocks of channels of the group:
                S[t, :] = Aᵀ · M · A                            4×4 pixels of each tile, in vectors of channels
                C[n, ob * 16 + …, y, x :] = S, transposed       as the statement behind changes them

Slots, sums and transforms are those of `winograd_transforms`; here F(4) of both axes. Where sums add up several
slots, or there are more channels than the first-level cache holds weights of, sums begin with zeros in memory and
register tiles add to them. Tiles are numbered across lines and images. Those of an item are a multiple of a third of
a register tile, which is 12 and 8 added up; the last item repeats its last tile. Where items are fewer than cores,
some share their tiles and divide the groups of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...prim import IntImm, PrimExpr, Select, Var, const, simplify
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
from .winograd_transforms import KernelTransform, Line, Transform

DTYPE = "float32"


@dataclass(frozen=True)
class Plan:
    """The sizes that are known while compiling."""

    rows: Transform
    columns: Transform
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
    chunk: int
    """The blocks of input channels of which the weights of a panel are in the first-level cache."""
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
    def slots(self) -> int:
        return self.rows.slots * self.columns.slots

    @property
    def sums(self) -> int:
        return self.rows.count * self.columns.count

    @property
    def adds(self) -> bool:
        """True if sums add up several slots or several chunks of channels."""
        return self.sums < self.slots or self.chunk < self.depth

    @property
    def chunks(self) -> int:
        return -(-self.depth // self.chunk)

    @property
    def weights(self) -> KernelTransform:
        return KernelTransform(
            self.rows, self.columns, self.outputs, self.inputs, self.groups, self.panels, self.width
        )


def of_line(line: Line, elements: Sequence[PrimExpr], body: Callable[[int, PrimExpr], Stmt]) -> Stmt:
    """A statement for each element of a transformed line."""
    values = Values("t")
    results = line(values, [values.of(element) for element in elements])
    return values.around(block(body(i, result) for i, result in enumerate(results)))


def _entry(values: Sequence[int], place: PrimExpr) -> PrimExpr:
    """The value at a place of a table of values that do not decrease."""
    result: PrimExpr = int64(values[0])
    for i in range(1, len(values)):
        if values[i] != values[i - 1]:
            result = Select(place >= i, int64(values[i]), result)
    return result


class Tiles:
    """Writes the loops of one convolution."""

    def __init__(self, kernel: Kernel, plan: Plan) -> None:
        self.windows, self.results, self.plan = kernel.windows, Results(kernel), plan
        self.sizes, self.lanes = Sizes(), plan.lanes
        named, one = self.sizes.named, const(1, "int64")
        height, width = (axis.size for axis in self.windows.axes)
        self.leading = [size_of(v) for v in self.windows.batch]
        images = one
        for size in self.leading:
            images = images * size
        self.rows, self.columns = (
            named("rows", ceildiv(height, plan.rows.m)),
            named("columns", ceildiv(width, plan.columns.m)),
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
        high, wide = (named(name, count * axis.step + max(axis.reach - axis.step, 0)) for name, count, axis in (
            ("high", self.rows, plan.rows), ("wide", self.columns, plan.columns)))  # fmt: skip
        self.staged = (plan.most * plan.columns.m + self.lanes) * self.lanes
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
        plan, source, lanes = self.plan, self.windows.weight.buffer, self.lanes
        rows, columns = plan.rows, plan.columns

        def vector(at: Sequence[PrimExpr], ci: Var) -> Stmt:
            group, panel, v = at
            first = ((group * plan.panels + panel) * plan.vectors + v) * lanes

            def gathered(squares: Buffer) -> Stmt:
                return loop("lane", lanes, lambda lane: block(
                    vector_store(squares, ((i * columns.taps + j) * lanes + lane,), BufferLoad(
                        source, (minimum(first + lane, int64(plan.outputs - 1)), ci, int64(i), int64(j))).astype(DTYPE))
                    for i in range(rows.taps) for j in range(columns.taps)))  # fmt: skip

            def lines(squares: Buffer, half: Buffer) -> Stmt:
                def row(i: Var) -> Stmt:
                    taps = [
                        vector_load(squares, ((i * columns.taps + j) * lanes,), lanes)
                        for j in range(columns.taps)
                    ]
                    return of_line(
                        columns.kernel, taps, lambda j, value: vector_store(half, (i, j * lanes), value)
                    )

                def column(j: Var) -> Stmt:
                    taps = [vector_load(half, (i, j * lanes), lanes) for i in range(rows.taps)]
                    place = ci * plan.width + v * lanes
                    return of_line(rows.kernel, taps, lambda i, value: vector_store(
                        weights, (group, i * columns.slots + j, panel, place), value))  # fmt: skip

                return block([
                    gathered(squares), loop("i", rows.taps, row), loop("j", columns.slots, column)])  # fmt: skip

            return scratch("squares", (rows.taps * columns.taps * lanes,), DTYPE, lambda squares: scratch(
                "half", (rows.taps, columns.slots * lanes), DTYPE, lambda half: lines(squares, half)))  # fmt: skip

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
        plan = self.plan
        units = minimum(maximum(ceildiv(count, plan.unit), int64(2)), int64(plan.most // plan.unit))
        start = floordiv(split * plan.groups, self.splits)
        end = floordiv((split + 1) * plan.groups, self.splits)

        def group(data: Buffer, sums: Buffer, number: Var, rows: PrimExpr) -> Stmt:
            held, left = plan.panels * plan.vectors, -(-plan.outputs // self.lanes)
            outputs = int64(held) if left % held == 0 else minimum(int64(held), left - number * held)
            return block([
                *([self._zeros(sums, rows)] if plan.adds else []),
                loop("e", plan.slots, lambda e: let("s", self._sum_of(e), lambda s: loop(
                    "panel", plan.panels, lambda panel: self._panel(
                        weights, data, sums, (number, e, panel), s, rows)))),
                loop("ob", outputs, lambda ob: self._outputs(sums, number, ob, first, count)),
            ])  # fmt: skip

        def body(data: Buffer, sums: Buffer, rows: PrimExpr) -> Stmt:
            return block([
                self._data(image, data, first, rows),
                loop("g", simplify(end - start), lambda g: let(
                    "group", minimum(start + g, int64(plan.groups - 1)),
                    lambda number: group(data, sums, number, rows))),
            ])  # fmt: skip

        before, behind = self._before, self._behind
        return named("rows", simplify(units * plan.unit), lambda rows: scratch(
            "data", (plan.slots, before), DTYPE, lambda data: scratch(
                "sums", (plan.sums, behind), DTYPE, lambda sums: body(data, sums, rows))))  # fmt: skip

    def _sum_of(self, slot: Var) -> PrimExpr:
        """The sum to which a slot belongs."""
        rows, columns = self.plan.rows, self.plan.columns
        if self.plan.sums == self.plan.slots:
            return slot
        row = _entry(rows.sums, floordiv(slot, columns.slots))
        return simplify(row * columns.count + _entry(columns.sums, floormod(slot, columns.slots)))

    def _zeros(self, sums: Buffer, rows: PrimExpr) -> Stmt:
        """Sums of several slots begin with zeros."""
        plan, lanes, zero = self.plan, self.lanes, spread(const(0, DTYPE), self.lanes)
        return loop("s", plan.sums, lambda s: loop("v", plan.panels * plan.vectors, lambda v: loop(
            "t", rows, lambda t: vector_store(
                sums, (s, (v * plan.most + t) * lanes), zero))))  # fmt: skip

    @property
    def _line(self) -> int:
        """The distance of the channels of two tiles: an odd number of vectors."""
        return (self.plan.chunks * self.plan.chunk | 1) * self.lanes

    @property
    def _before(self) -> int:
        """The distance of two slots of data, kept off powers of two."""
        return self.plan.most * self._line + 3 * self.lanes

    @property
    def _behind(self) -> int:
        """The distance of two sums, each of so many vectors of channels for each tile, kept off powers of two."""
        return (self.plan.panels * self.plan.vectors * self.plan.most + 3) * self.lanes

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
        plan, lanes, line = self.plan, self.lanes, self.blocks.line

        def tile(t: Var) -> Stmt:
            def blocks(batch: list[PrimExpr], row: PrimExpr, column: PrimExpr) -> Stmt:
                start = simplify((row * line * plan.rows.step + column * plan.columns.step) * lanes)
                return named("start", start, lambda start: loop("cb", plan.depth, lambda cb: self._square(
                    image, (*batch, cb, start), data, simplify(t * self._line + cb * lanes))))  # fmt: skip

            return named("number", minimum(first + t, self.last), lambda number: self._tile(number, blocks))

        return loop("t", rows, tile)

    def _square(self, image: Buffer, place: Sequence[PrimExpr], data: Buffer, at: PrimExpr) -> Stmt:
        """The transform of one square of pixels of a block of channels."""
        lanes, rows, columns = self.lanes, self.plan.rows, self.plan.columns
        *outer, start = place

        distance = rows.places[1] if len(rows.places) > 1 else 1

        def line(y: PrimExpr, body: Callable[[Callable[[PrimExpr], PrimExpr]], Stmt]) -> Stmt:
            def elements(part: Buffer, at: Sequence[PrimExpr]) -> Stmt:
                *outer, begin = at
                return body(lambda x: vector_load(part, (*outer, begin + x * lanes), lanes))

            at = start + y * (distance * lanes) * self.blocks.line
            return window(image, (*outer, simplify(at)), columns.reach * lanes, elements)

        def row(y: Var, put: Callable[[int, PrimExpr], Stmt]) -> Stmt:
            return line(y, lambda load: of_line(columns.data, [load(int64(x)) for x in columns.places], put))

        def column(half: Buffer, part: Buffer, j: Var) -> Stmt:
            pixels = [vector_load(half, (i, j * lanes), lanes) for i in range(len(rows.places))]
            return of_line(
                rows.data, pixels, lambda i, value: vector_store(part, (i * columns.slots + j, 0), value)
            )

        def square(part: Buffer) -> Stmt:
            if rows.exact:
                return loop("i", rows.slots, lambda i: row(i, lambda j, value: vector_store(
                    part, (i * columns.slots + j, 0), value)))  # fmt: skip
            return alloc("half", (len(rows.places), columns.slots * lanes), DTYPE, "global", lambda half: block([
                loop("i", len(rows.places), lambda i: row(i, lambda j, value: vector_store(
                    half, (i, j * lanes), value))),
                loop("j", columns.slots, lambda j: column(half, part, j))]))  # fmt: skip

        return part_of(data, at, (self.plan.slots, lanes), (self._before, 1), square)

    # ------------------------------------------------------------------ sums

    def _panel(
        self, weights: Buffer, data: Buffer, sums: Buffer, at: tuple[Var, Var, Var], total: PrimExpr,
        rows: PrimExpr,
    ) -> Stmt:  # fmt: skip
        """The products of one slot of all tiles, for a panel of channels."""
        plan = self.plan

        def tiles(reach: PrimExpr) -> Stmt:
            return loop("k", plan.chunks, lambda k: register_tiles(
                floordiv(rows, plan.unit), plan.unit, lambda row, height, number: self._product(
                    weights, data, sums, (*at, k), total, row, height, (number, reach))))  # fmt: skip

        count = ceildiv(rows, plan.tall)
        return named("reach", simplify(ceildiv(int64(plan.width), maximum(count, int64(1)))), tiles)

    def _product(
        self, weights: Buffer, data: Buffer, sums: Buffer, at: tuple[Var, Var, Var, Var], total: PrimExpr,
        row: PrimExpr, height: int, asked: tuple[PrimExpr, PrimExpr],
    ) -> Stmt:  # fmt: skip
        """One register tile. It asks for its part of the weights of the next chunk: so many of them in each step.

        `asked` are the number of the tile and the weights that a tile asks for in a step.
        """
        plan, lanes, most, (group, e, panel, k) = self.plan, self.lanes, self.plan.most, at
        (number, reach), chunk = asked, plan.chunk * lanes
        first = simplify(k * chunk)

        def step(tile: RegisterTile, left: Buffer, c: Var, ask: Var) -> Stmt:
            return tile.add(
                lambda p: BufferLoad(left, (p * self._line + c,)), weights,
                (group, e, panel, simplify((first + c) * plan.width)), (group, e, panel, ask + c * reach),
            )  # fmt: skip

        def steps(tile: RegisterTile, left: Buffer, ask: Var) -> Stmt:
            count: PrimExpr = int64(chunk)
            if plan.inputs % chunk:
                count = minimum(count, plan.inputs - first)
            return loop("c", count, lambda c: step(tile, left, c, ask))

        def written(tile: RegisterTile, left: Buffer, out: Buffer) -> Stmt:
            ask = simplify(((k + 1) * plan.width + number * reach) * chunk)
            zero = spread(const(0, DTYPE), lanes)

            def start(p: PrimExpr, v: PrimExpr) -> PrimExpr:
                return vector_load(out, ((v * most + p) * lanes,), lanes) if plan.adds else zero

            return block([
                tile.each(lambda p, v: tile.store(p, v, start(p, v))),
                let("ask", ask, lambda ask: steps(tile, left, ask)),
                tile.each(lambda p, v: vector_store(out, ((v * most + p) * lanes,), tile.load(p, v))),
            ])  # fmt: skip

        left = (height - 1) * self._line + min(chunk, plan.inputs)
        out = ((plan.vectors - 1) * most + height) * lanes
        place = total * self._behind + (panel * (plan.vectors * most) + row) * lanes
        return part_of(data, e * self._before + row * self._line + first, (left,), (1,), lambda left: part_of(
            sums, place, (out,), (1,), lambda out: register_tile(
                height, plan.vectors, lanes, DTYPE, lambda tile: written(tile, left, out))))  # fmt: skip

    # ------------------------------------------------------------------ results

    def _outputs(self, sums: Buffer, group: Var, ob: Var, first: PrimExpr, count: PrimExpr) -> Stmt:
        """The pixels of some channels of all tiles."""
        plan, lanes = self.plan, self.lanes

        def body(staged: Buffer) -> Stmt:
            return block([
                loop("t", count, lambda t: self._pixels(sums, simplify((ob * plan.most + t) * lanes), staged, t)),
                self._lines(staged, simplify((group * (plan.panels * plan.vectors) + ob) * lanes), first, count),
            ])  # fmt: skip

        return scratch("pixels", (plan.rows.m, self.staged), DTYPE, body)

    def _pixels(self, sums: Buffer, at: PrimExpr, staged: Buffer, t: Var) -> Stmt:
        """The pixels of one tile."""
        lanes, rows, columns = self.lanes, self.plan.rows, self.plan.columns
        wide = columns.m * lanes

        def column(half: Buffer, part: Buffer, j: Var) -> Stmt:
            elements = [vector_load(part, (i * columns.count + j, 0), lanes) for i in range(rows.count)]
            return of_line(rows.pixels, elements, lambda a, value: vector_store(half, (a, j * lanes), value))

        def row(half: Buffer, part: Buffer, a: Var) -> Stmt:
            elements = [vector_load(half, (a, j * lanes), lanes) for j in range(columns.count)]
            return of_line(
                columns.pixels, elements, lambda b, value: vector_store(part, (a, b * lanes), value)
            )

        return alloc("half", (rows.m, columns.count * lanes), DTYPE, "global", lambda half: block([
            part_of(sums, at, (self.plan.sums, lanes), (self._behind, 1), lambda part: loop(
                "j", columns.count, lambda j: column(half, part, j))),
            part_of(staged, t * wide, (rows.m, wide), (self.staged, 1), lambda part: loop(
                "a", rows.m, lambda a: row(half, part, a)))]))  # fmt: skip

    def _lines(self, staged: Buffer, channel: PrimExpr, first: PrimExpr, count: PrimExpr) -> Stmt:
        """Store the pixels of all tiles, line by line."""
        wide, (high, m), (height, width) = (
            self.divisors[0],
            (self.plan.rows.m, self.plan.columns.m),
            (axis.size for axis in self.windows.axes),
        )

        def pixels(start: PrimExpr, low: PrimExpr, pixels: PrimExpr) -> Stmt:
            at, begin = (start + low - first) * m, simplify(low * m)

            def line(batch: list[PrimExpr], y: Var, a: Var, at: PrimExpr) -> Stmt:
                return IfThenElse(y < height, stored_line(
                    self.results, self.lanes, self.plan.outputs, staged,
                    simplify(a * self.staged + at * self.lanes), channel, [*batch, y], (begin, pixels)))  # fmt: skip

            return named("at", at, lambda at: self._tile(start, lambda batch, row, _: loop("a", high, lambda a: let(
                "y", row * high + a, lambda y: line(batch, y, a, at)))))  # fmt: skip

        def segment(start: PrimExpr) -> Stmt:
            low, high = maximum(first - start, int64(0)), minimum(first + count - start, wide)
            return named("low", low, lambda low: named(
                "pixels", minimum(high * m, width) - low * m, lambda count: pixels(start, low, count)))  # fmt: skip

        return named("begin", floordiv(first, wide), lambda begin: named(
            "final", first + count - 1, lambda final: loop("s", floordiv(final, wide) + 1 - begin, lambda s: named(
                "start", (begin + s) * wide, segment))))  # fmt: skip


__all__ = ["Plan", "Tiles"]
