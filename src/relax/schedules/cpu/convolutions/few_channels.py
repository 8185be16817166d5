"""Convolutions over few input channels with constant weights, such as first layers: the data stay channels-first.

    for n, co, h, w, ci, i, j in T.grid(…):     for n, some lines, panel of 64 pixels in T.parallel(…):
        with T.block("conv"):                       for h in the lines:
            with T.init(): C[n, co, h, w] = 0           R[ci, q % 3, a, :] = X[n, ci, q, a + 2 * …]     the new lines q
            C[n, co, h, w] += …                         for co in blocks of 4 channels:
                                                            for ci, i, j in T.grid(3, 3, 3):    S in registers
                                                                S[p, :] += W[co + p, ci, i, j] * R[ci, …, j // 2 + …]
                                                            C[n, co + p, h, panel] = S[p, :]

Vectors are consecutive pixels, so results are stored untransposed: a first layer has so few products per pixel that a
transpose would take a third of the time. The ring buffer `R` holds the rows of a panel read by a window, split by
stride phase and zero-padded. It fits the L1 cache, and its size does not depend on the image, so one code serves all
image sizes. Tiles prefetch their result cache lines before they accumulate, and copies prefetch the rows copied next.

Not supported: non-constant weights, more than 4 input channels, 1×1 windows, groups, three pixel dimensions, static
rows shorter than a vector, dilation, strides that skip rows, strides along rows above 4, and dtypes other than float32
and float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ....prim import And, IntImm, PrimExpr, Select, Var, const, is_const, simplify
from ....prim.instructions import prefetch
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....target import Target
from ....tir import (
    AllocBuffer,
    Buffer,
    BufferLoad,
    DeclBuffer,
    Evaluate,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Shuffle,
    Stmt,
)
from ...build import block, int64, let, loop, named, ramp, scratch, size_of, spread, vector_store
from ...rule import PackedFunction, Refusal, ScheduleRule
from ..products.operands import Results, ResultStore
from ..tile import RegisterTile, register_tile, row_at
from ..tile.division import Tile, even_pieces, tile_for
from .packed_weights import Declare, packed_kernels
from .planes import Sizes, items
from .pointwise.operands import WeightBlocks
from .pointwise.pointwise import finished, with_tables
from .windows import LONGEST_SHUFFLE, Kernel, Windows

FEW: Final = 4
"""Largest number of input channels of a first layer: colours, and one more."""
LINES: Final = 56
"""Most rows of a work item; the rows copied by two items are few beside it."""
LEAST_LINES: Final = 7
"""Fewest rows of a work item, if the image has that many."""
ITEMS: Final = 2
"""Work items per core, if there are enough rows."""


class FewChannels(ScheduleRule):
    """Schedule rule for convolutions over few input channels with constant weights."""

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        """Return the function for weights in blocks of output channels."""

        def write(kernel: Kernel, tile: Tile, declare: Declare) -> Stmt:
            writer = _Writer(kernel, tile, target.num_cores)
            return writer.kernel(declare(writer.packing, writer.packing.shape, str(writer.dtype)))

        return packed_kernels(func, constants, lambda kernel: _tile(kernel.windows, target), write)


def _tile(windows: Windows, target: Target) -> Tile | Refusal:
    """Register tile for a convolution that the rule supports."""
    channels, tile = windows.channels_of_group(2, may_lack_inputs=True), tile_for(target, windows.weight.dtype.bits)
    if not channels:
        return channels
    inputs, outputs = channels
    rows, columns = windows.lines
    if not 0 < inputs <= FEW or not outputs:
        return Refusal(f"there are {inputs} input channels, not 1 to {FEW}" if outputs else "no output channel")
    if windows.taps == 1:
        return Refusal("the windows are 1×1")
    if rows.stride > rows.taps or columns.stride > LONGEST_SHUFFLE:
        return Refusal(f"windows have gaps between rows, or a stride of more than {LONGEST_SHUFFLE} along rows")
    if any(axis.dilation != 1 for axis in windows.axes):
        return Refusal("the windows are dilated")
    if tile.lanes < LONGEST_SHUFFLE or (isinstance(columns.size, IntImm) and columns.size.value < tile.lanes):
        return Refusal(f"rows do not fill a vector of at least {LONGEST_SHUFFLE} pixels")
    return tile


class _Writer:
    """Writes the loops of one convolution."""

    def __init__(self, kernel: Kernel, tile: Tile, cores: int) -> None:
        self.windows = kernel.windows
        self.dtype, self.lanes = str(self.windows.out.buffer.dtype), tile.lanes
        inputs, outputs = self.windows.inputs, self.windows.channels
        assert isinstance(inputs, IntImm)
        assert isinstance(outputs, IntImm)
        self.inputs, self.outputs = inputs.value, outputs.value
        self.rows, self.columns = self.windows.lines
        store, total = finished(kernel)
        varying = (total, *(a.pixel.var for a in self.windows.axes), *(v.var for v in self.windows.batch))
        store, self.tables = with_tables(store, self.windows.channel, varying)
        self.finish = ResultStore(self.windows.channel.var, self.columns.pixel.var, store, total)
        self.sizes = Sizes()
        self.leading = [size_of(v) for v in self.windows.batch]
        high, wide = (4, 4) if tile.vectors > 2 else (6, 2)
        self.height = -(-self.outputs // -(-self.outputs // high))
        """Channels of a register tile; tiles are low, so that their stores overlap with the multiplications of the next
        tile.
        """
        self.packing = WeightBlocks(self.outputs, self.inputs * self.rows.taps * self.columns.taps, self.height, False)
        self._set_panels(wide)
        self._set_lines(cores)
        reach = (self.columns.taps - 1) // self.columns.stride
        self.copied = self.wide + -(-reach // self.lanes)
        """Vectors of one stride phase of a row in the ring buffer."""
        phases = min(self.columns.stride, self.columns.taps)
        self.ring = (self.inputs, self.rows.taps, phases, self.copied * self.lanes)

    def _set_panels(self, wide: int) -> None:
        """Divide rows into panels of two consecutive vector counts, the wider ones first.

        Sets the vectors of a wide panel, the number of panels, and the number of wide ones.
        """
        named = self.sizes.named
        vectors = named("vectors", ceildiv(self.columns.size, self.lanes))
        if isinstance(vectors, IntImm):
            segments = even_pieces(vectors.value, -(-vectors.value // wide))
            self.wide = segments[0].size if segments else wide
            self.panels = int64(sum(segment.number for segment in segments))
            self.wider = int64(segments[0].number if segments else 0)
        else:
            self.wide = wide
            self.panels = named("panels", ceildiv(vectors, wide))
            self.wider = named("wider", maximum(vectors - self.panels * (wide - 1), int64(0)))

    def _set_lines(self, cores: int) -> None:
        """Divide images into chunks of rows, enough for all cores."""
        named, height, one = self.sizes.named, self.rows.size, int64(1)
        others = self.panels
        for size in self.leading:
            others = others * size
        missing = floordiv(int64(ITEMS * cores), maximum(others, one)) if cores > 1 else one
        most = maximum(floordiv(height, LEAST_LINES), one)
        chunks = maximum(ceildiv(height, LINES), minimum(missing, most))
        self.chunks = named("chunks", simplify(chunks))
        self.share = named("share", simplify(ceildiv(height, maximum(self.chunks, one))))
        """Rows of a chunk."""

    def kernel(self, weights: Buffer) -> Stmt:
        """Return the loops of all work items."""
        radix = [(f"n{d}", size) for d, size in enumerate(self.leading)]
        radix += [("chunk", self.chunks), ("panel", self.panels)]
        data = self.windows.lines_of_data()

        def item(at: list[PrimExpr]) -> Stmt:
            *image, chunk, panel = at
            start = simplify(panel * (self.wide - 1) + minimum(panel, self.wider)) * self.lanes
            return scratch("ring", self.ring, self.dtype, lambda ring: named("start", simplify(start), lambda start: (
                _Item(self, data, weights, ring, image, panel, start).lines(chunk))))  # fmt: skip

        all_items = items("item", radix, item)
        for table in self.tables:
            all_items = AllocBuffer(table.buffer, block([table.filled(self.outputs, self.lanes), all_items]))
        return self.sizes.around(all_items if data is self.windows.data else DeclBuffer(data, all_items))


class _Item:
    """Writes the loops over some rows of a panel."""

    def __init__(
        self, writer: _Writer, data: Buffer, weights: Buffer, ring: Buffer, image: list[PrimExpr], panel: PrimExpr,
        start: PrimExpr,
    ) -> None:  # fmt: skip
        self.writer, self.data, self.weights = writer, data, weights
        self.ring, self.image, self.panel = ring, image, panel
        self.start = start
        """First pixel of the panel."""
        self.rows, self.columns, self.lanes = writer.rows, writer.columns, writer.lanes

    def lines(self, chunk: PrimExpr) -> Stmt:
        """Process the rows of a chunk: copy the new data rows of each, then compute its results."""
        taps, stride, share = self.rows.taps, self.rows.stride, self.writer.share
        first = simplify(chunk * share)

        def line(l: Var, y: PrimExpr) -> Stmt:
            new = simplify(Select(l < 1, y * stride, y * stride + (taps - stride)))
            count = Select(l < 1, int64(taps), int64(stride))
            return block([named("new", new, lambda new: self._copied(new, count)), self._blocks(y)])

        return named("first", first, lambda first: named(
            "count", simplify(maximum(minimum(share, self.rows.size - first), int64(0))),
            lambda count: loop("l", count, lambda l: named(
                "y", simplify(first + l), lambda y: line(l, y)))))  # fmt: skip

    # ------------------------------------------------------------------ data

    def _copied(self, new: PrimExpr, count: PrimExpr) -> Stmt:
        """Copy `count` data rows into the ring buffer, from row `new` of the padded image on."""
        lanes, stride = self.lanes, self.columns.stride

        def vector(v: Var) -> Stmt:
            begin = simplify((self.start + v * lanes) * stride - self.columns.before)
            return let("begin", begin, lambda begin: self._masked(begin, lambda masks: loop(
                "q", count, lambda q: self._row(simplify(new + q), v * lanes, begin, masks))))  # fmt: skip

        return loop("v", self.writer.copied, vector)

    def _masked(self, begin: PrimExpr, body: Callable[[list[Var]], Stmt]) -> Stmt:
        """Call `body` with the masks of lanes inside the image, for the vectors from element `begin` on."""
        lanes, extent = self.lanes, self.columns.extent
        masks = [Var("mask", f"boolx{lanes}") for _ in range(self.columns.stride)]
        result = body(masks)
        for part, mask in enumerate(masks):
            at = ramp(simplify(begin + part * lanes), lanes)
            inside = And(at >= spread(int64(0), lanes), at < spread(extent, lanes))
            result = LetStmt(mask, inside, result)
        return result

    def _row(self, q: PrimExpr, c: PrimExpr, begin: PrimExpr, masks: Sequence[Var]) -> Stmt:
        """Copy a vector of each phase of a row of each channel; rows outside the image are zeros."""
        lanes, stride, rows = self.lanes, self.columns.stride, self.rows
        zero = spread(const(0, self.writer.dtype), lanes)

        def stored(ci: Var, slot: PrimExpr, value: Callable[[int], PrimExpr]) -> Stmt:
            phases = self.writer.ring[2]
            return block(vector_store(self.ring, (ci, slot, a, c), value(a)) for a in range(phases))

        def shuffled(ci: Var, y: Var, slot: PrimExpr) -> Stmt:
            parts = [Var("part", zero.dtype) for _ in masks]
            result = stored(ci, slot, lambda a: parts[0] if stride == 1 else Shuffle(
                tuple(parts), [stride * lane + a for lane in range(lanes)]))  # fmt: skip
            ahead = BufferLoad(self.data, self._source(ci, simplify(y + rows.stride), begin))
            for part, (var, mask) in enumerate(zip(parts, masks, strict=True)):
                at = ramp(simplify(begin + part * lanes), lanes)
                result = LetStmt(var, BufferLoad(self.data, self._source(ci, y, at), mask), result)
            return block([Evaluate(prefetch(ahead, locality=3)), result])

        def each(body: Callable[[Var], Stmt]) -> Stmt:
            return loop("ci", self.writer.inputs, body)

        return let("slot", floormod(q, rows.taps), lambda slot: let(
            "y", simplify(q - rows.before), lambda y: IfThenElse(
                And(y >= 0, y < rows.extent), each(lambda ci: shuffled(ci, y, slot)),
                each(lambda ci: stored(ci, slot, lambda a: zero)))))  # fmt: skip

    def _source(self, ci: PrimExpr, y: PrimExpr, x: PrimExpr) -> tuple[PrimExpr, ...]:
        """Indices of elements of the data."""
        windows = self.writer.windows
        outer = self.image if windows.depth is None else [*self.image, ci]
        return (*outer, y, x) if self.data.ndim == len(outer) + 2 else (*outer, x)

    # ------------------------------------------------------------------ sums

    def _blocks(self, y: PrimExpr) -> Stmt:
        """Compute a result row, channel block by channel block."""
        writer = self.writer

        def tiles(vectors: int) -> Stmt:
            width = minimum(int64(vectors * self.lanes), self.columns.size - self.start)
            return named("width", simplify(maximum(width, int64(0))), lambda width: loop(
                "jo", writer.packing.shape[0], lambda jo: named(
                    "co", simplify(minimum(jo * writer.height, int64(writer.outputs - writer.height))),
                    lambda co: self._tile(jo, co, y, vectors, width))))  # fmt: skip

        if writer.wide == 1 or is_const(simplify(writer.panels - writer.wider), 0):
            return tiles(writer.wide)
        return IfThenElse(self.panel < writer.wider, tiles(writer.wide), tiles(writer.wide - 1))

    def _tile(self, jo: Var, co: PrimExpr, y: PrimExpr, vectors: int, width: PrimExpr) -> Stmt:
        """Compute one channel block of `vectors` vectors of pixels of a row, `width` of which are in the image."""
        height, lanes = self.writer.height, self.lanes

        def step(tile: RegisterTile, k: PrimExpr, ci: Var, slot: PrimExpr, j: Var) -> Stmt:
            stride = self.columns.stride
            at = (ci, slot, simplify(floormod(j, stride)), simplify(floordiv(j, stride)))
            return tile.step(lambda p: BufferLoad(self.weights, (jo, k, p)), row_at(self.ring, at, lanes))

        def taps(tile: RegisterTile, ci: Var, i: Var) -> Stmt:
            rows, columns = self.rows, self.columns
            first = simplify((ci * rows.taps + i) * columns.taps)
            return let("slot", simplify(floormod(y * rows.stride + i, rows.taps)), lambda slot: loop(
                "j", columns.taps, lambda j: step(tile, simplify(first + j), ci, slot, j)))  # fmt: skip

        def stored(tile: RegisterTile, result: Results, p: PrimExpr, first: PrimExpr) -> Stmt:
            def lane(x: Var) -> Stmt:
                c = first + x
                return let("total", BufferLoad(tile.acc, (p, c)), lambda total: IfThenElse(
                    c < width, result.made(p, c, total)))  # fmt: skip

            return loop("x", lanes, lane, ForKind.VECTORIZED)

        def sums(tile: RegisterTile, result: Results) -> Stmt:
            return block([
                self._asked(result, vectors),
                tile.cleared(),
                loop("ci", self.writer.inputs, lambda ci: loop(
                    "i", self.rows.taps, lambda i: taps(tile, ci, i))),
                tile.each(lambda p, c: stored(tile, result, p, c)),
            ])  # fmt: skip

        values = dict(zip((v.var for v in self.writer.windows.batch), self.image, strict=True))
        finish = self.writer.finish
        at = {**values, self.rows.pixel.var: y, finish.row: co, finish.column: self.start}
        result = Results(finish, at, int64(height), width)
        return result.declared(register_tile(
            height, vectors, lanes, lambda tile: sums(tile, result), sums=self.writer.dtype))  # fmt: skip

    def _asked(self, result: Results, vectors: int) -> Stmt:
        """Prefetch the result cache lines of a tile."""
        return loop("p", self.writer.height, lambda p: loop(
            "v", vectors, lambda v: result.asked(p, v * self.lanes, 2)))  # fmt: skip
