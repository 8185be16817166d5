"""Direct channels-first convolutions of floats or integers, in register tiles of channels by pixels.

    for n, co, h, w, ci, i, j in T.grid(…):             P[n, ci, :] = the padded image, phase by phase (see `planes`)
        with T.block("conv"):                           for item in T.parallel(N * strips * blocks):
            with T.init(): C[n, co, h, w] = 0               for jo in panels of the strip:           64 pixels
            C[n, co, h, w] += W[co, ci, i, j] * X[…]            acc = T.alloc_buffer((6, 64), scope="local")
                                                                for ci, i, j in T.grid(CI, KH, KW):
                                                                    at = jo * 64 + the offset of tap (i, j)
                                                                    acc[p, :] += W[co + p, ci, i, j] * P[n, ci, at + :]
                                                                C[n, co + p, h, w] = acc[p, …]   pixels of the panel

Pixels are numbered by positions in the padded copy, whose rows are longer than the result's: a few accumulators of a
panel belong to no pixel and are not stored. So one code serves all image sizes, and only the copy depends on padding
and strides. A strip is the number of panels whose data fit the L2 cache. A single parallel loop covers images, groups,
strips and channel blocks, so that one image occupies all cores. Narrow dtypes are converted to the accumulator dtype by
the copy; `dot_convolution` keeps them narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....prim import Add, And, IntImm, Mul, PrimExpr, Var, const, is_const, simplify
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....target import Target
from ....tir import Buffer, BufferLoad, IfThenElse, LetStmt, Stmt
from ...build import apart, block, int64, let, loop, scratch, size_of, spread, vector_store
from ..tile import RegisterTile, register_tile, row_at
from ..tile.division import Tile, tile_for
from .planes import Planes, Sizes, filled, items, window
from .results import Results, vectors_of_line
from .windows import Kernel


def direct(kernel: Kernel, target: Target, shape: tuple[int, int] | None = None) -> Stmt:
    """Return the loops of a direct convolution; `shape` is that of tiles, if it is not the target's own."""
    tile = tile_for(target, kernel.windows.out.buffer.dtype.bits, shape)
    return Direct(kernel, tile, target.machine.caches.l2).kernel()


class Direct:
    """Writes the loops of one convolution."""

    def __init__(self, kernel: Kernel, tile: Tile, cache: int) -> None:
        self.windows, self.results = kernel.windows, Results(kernel)
        self.of_block = self.results
        """Results of the channel block being written."""
        windows = self.windows
        self.dtype, self.lanes = str(windows.out.buffer.dtype), tile.lanes
        self.sizes = Sizes()
        self.planes = self._planes(tile)
        self.inputs, self.stored = windows.inputs, self.dtype
        """Planes per group, and the dtype of their elements."""
        self.vectors, self.width = self.planes.vectors, self.planes.width
        self.panels = self.sizes.named("panels", ceildiv(self.planes.pixels, self.width))
        self.height = self.planes.height
        self.blocks = self.sizes.named("blocks", ceildiv(windows.channels, self.height))
        inputs = windows.inputs
        depth = inputs.value if isinstance(inputs, IntImm) else 64
        panel = depth * self.width * self.planes.count * windows.out.buffer.dtype.bits // 8
        self.strip = max(min(cache // 4 // max(panel, 1), 32), 1)
        """Number of panels whose data stay in cache while all channels are computed."""
        if isinstance(self.panels, IntImm):
            self.strip = -(-self.panels.value // max(-(-self.panels.value // self.strip), 1))
        self.strips = self.sizes.named("strips", ceildiv(self.panels, max(self.strip, 1)))

    def _planes(self, tile: Tile) -> Planes:
        """Padded copy of the data."""
        return Planes(self.windows, tile, self.sizes)

    def kernel(self) -> Stmt:
        """Return the copy of the data and the parallel loop that reads it."""
        windows = self.windows
        leading = [size_of(v) for v in windows.batch]
        channels = simplify(self.inputs * windows.groups)

        def body(plane: Buffer) -> Stmt:
            copy = filled(windows, self.planes, plane, [*leading, channels])
            return block([copy, self._items(plane, leading)])

        return self.sizes.around(scratch("planes", (*leading, channels, self.planes.size), self.stored, body))

    def _items(self, plane: Buffer, leading: Sequence[PrimExpr]) -> Stmt:
        radix = [(f"n{d}", size) for d, size in enumerate(leading)]
        radix += [("g", int64(self.windows.groups)), ("strip", self.strips), ("io", self.blocks)]
        return items("item", radix, lambda at: self._strip(plane, at[:-3], at[-3], at[-2], at[-1]))

    def _strip(self, plane: Buffer, batch: list[PrimExpr], g: PrimExpr, strip: PrimExpr, io: PrimExpr) -> Stmt:
        """Compute a channel block of a strip."""
        start = simplify(strip * self.strip)
        count = simplify(minimum(const(self.strip, "int64"), self.panels - start))
        end = self.panels - 1
        last = simplify(self.windows.channels - 1)
        first = simplify(io * self.height)
        channels, groups = self.windows.channels, self.windows.groups
        exact = is_const(simplify(floormod(channels, self.height)), 0)

        def channel(p: PrimExpr) -> PrimExpr:
            row = first + p if exact else minimum(first + p, last)
            return simplify(g * self.windows.channels + row)

        def panel(jo: Var) -> Stmt:
            base = simplify(minimum(start + jo, end) * self.width)
            return let("base", base, lambda base: self._panel(plane, batch, g, channel, base))

        def panels(results: Results) -> Stmt:
            self.of_block = results
            return loop("jo", count, panel)

        if not isinstance(channels, IntImm) or not isinstance(groups, int) or not (exact or groups == 1):
            return panels(self.results)
        block_start = simplify(g * channels + first)
        return self.results.of_block(block_start, self.height, channels.value * groups, panels)

    def _panel(
        self, plane: Buffer, batch: list[PrimExpr], g: PrimExpr, channel: Callable[[PrimExpr], PrimExpr], base: Var
    ) -> Stmt:
        """Accumulate some channels at the positions of a panel."""

        def sums(tile: RegisterTile, results: Buffer) -> Stmt:
            return block([
                tile.begun(lambda p, c: self._first_sum(channel(p))),
                self._taps(plane, batch, g, channel, base, tile),
                tile.each(lambda p, c: vector_store(results, (p, c), tile.load(p, c))),
            ])  # fmt: skip

        def whole(results: Buffer) -> Stmt:
            tile = register_tile(
                self.height, self.vectors, self.lanes, lambda tile: sums(tile, results), sums=self.dtype,
                factors=self.stored, product=self._sum,
            )  # fmt: skip
            return block([tile, self._results(results, batch, channel, base)])

        return scratch("results", (self.height, self.width), self.dtype, whole)

    def _taps(
        self, plane: Buffer, batch: list[PrimExpr], g: PrimExpr, channel: Callable[[PrimExpr], PrimExpr], base: Var,
        tile: RegisterTile,
    ) -> Stmt:  # fmt: skip
        """Accumulate the products of all input channels and taps."""
        windows = self.windows

        def update(ci: PrimExpr, taps: list[PrimExpr]) -> Stmt:
            source = [*batch, simplify(g * self.inputs + ci)]

            def step(data: Buffer, at: Sequence[PrimExpr]) -> Stmt:
                return tile.step(lambda p: self._weight(channel(p), ci, taps), row_at(data, at, self.lanes))

            return let(
                "at", simplify(self.planes.tap(taps) + base), lambda at: window(plane, (*source, at), self.width, step)
            )

        def tap(ci: PrimExpr, taps: list[PrimExpr]) -> Stmt:
            if len(taps) == len(windows.axes):
                return update(ci, taps)
            axis = windows.axes[len(taps)]
            if axis.taps == 1:
                return tap(ci, [*taps, const(0, "int64")])
            return loop(f"k{len(taps)}", axis.taps, lambda k: tap(ci, [*taps, k]))

        if is_const(self.inputs, 1):
            return tap(const(0, "int64"), [])
        return loop("ci", self.inputs, lambda ci: tap(ci, []))

    def _first_sum(self, channel: PrimExpr) -> PrimExpr:
        """Initial accumulator vector of an output channel."""
        del channel
        return spread(const(0, self.dtype), self.lanes)

    def _weight(self, channel: PrimExpr, ci: PrimExpr, taps: Sequence[PrimExpr]) -> PrimExpr:
        """Weight of a tap."""
        depth = [] if self.windows.depth is None else [ci]
        return BufferLoad(self.windows.weight.buffer, (channel, *depth, *taps)).astype(self.dtype)

    def _sum(self, total: PrimExpr, weight: PrimExpr, data: PrimExpr) -> PrimExpr:
        """Return `total + weight * data`."""
        return Add(total, Mul(weight, data))

    # ------------------------------------------------------------------ results

    def _results(self, tile: Buffer, batch: list[PrimExpr], channel: Callable[[PrimExpr], PrimExpr], base: Var) -> Stmt:
        """Store the accumulators of a panel that belong to pixels, row by row."""
        axes, line = self.windows.axes, self.planes.line
        if len(axes) == 1:
            return self._line(tile, batch, channel, [], base)
        divisor = line if isinstance(line, IntImm) else maximum(line, const(1, "int64"))
        first = floordiv(base, divisor)
        end = floordiv(base + self.width - 1, divisor)

        def lines(first: Var) -> Stmt:
            count = simplify(end - first + 1)
            return apart("r", count, lambda r: let("number", first + r, lambda number: self._numbered(
                tile, batch, channel, number, base)))  # fmt: skip

        return let("first", first, lines)

    def _numbered(
        self, tile: Buffer, batch: list[PrimExpr], channel: Callable[[PrimExpr], PrimExpr], number: Var, base: Var
    ) -> Stmt:
        """Store the pixels of one plane row, if it is a row of the result."""
        outer = self.windows.axes[:-1]
        names = [Var(f"y{d}", "int64") for d in range(len(outer))]
        start = simplify(base - number * self.planes.line)
        result = self._line(tile, batch, channel, names, start)
        rest: PrimExpr = number
        values: list[PrimExpr] = []
        for d in reversed(range(len(outer))):
            values.insert(0, rest if d == 0 else floormod(rest, self.planes.rows[d]))
            rest = floordiv(rest, self.planes.rows[d]) if d else rest
        for name, axis in zip(names, outer, strict=True):
            result = IfThenElse(And(name >= 0, name < axis.size), result)
        for name, value in zip(names, values, strict=True):
            result = LetStmt(name, value, result)
        return result

    def _line(
        self, tile: Buffer, batch: list[PrimExpr], channel: Callable[[PrimExpr], PrimExpr], ys: Sequence[PrimExpr],
        start: PrimExpr,
    ) -> Stmt:  # fmt: skip
        """Store the pixels of one row: element `c` of a panel is pixel `start + c`, if it exists.

        Vectors inside the row need no masks, which would be recomputed for each row.
        """
        lanes, size = self.lanes, self.windows.axes[-1].size

        def rows(begin: Var, c: Var) -> Stmt:
            first = begin + c

            def each(is_whole: bool) -> Stmt:
                results = self.of_block.of_lane
                return loop("p", self.height, lambda p: let("co", channel(p), lambda co: results(p).vector(
                    [*batch, co, *ys], first, lanes, lambda lane: BufferLoad(tile, (p, c + lane)),
                    is_whole=is_whole)))  # fmt: skip

            return IfThenElse(And(first >= 0, first + lanes <= size), each(True), each(False))

        return let("begin", start, lambda begin: vectors_of_line(
            begin, size, lanes, self.vectors, lambda c: rows(begin, c)))  # fmt: skip
