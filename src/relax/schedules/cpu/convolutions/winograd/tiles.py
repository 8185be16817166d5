"""Loops of a Winograd convolution: tiles by channels, for images of any size and number.

    for item in T.parallel(items):                              e.g. 28 tiles of all images
        for t, cb in T.grid(28, CI / 16):
            V[e, t, cb, :] = Bᵀ · (6×6 pixels) · B                  slots e of 36, in vectors of channels
        for group in groups of output channels:
            for e, k, panel in T.grid(36, …):                   sums of 12 tiles (or 8) × 32 channels in registers
                M[sum of e, panel, t, :] += sum over ci of chunk k of V[e, t, ci] * U[group, e, k, panel, ci, :]
            C[n, channels of the group, y, x :] = Aᵀ · M · A        4×4 pixels of each tile

Slots, sums and transforms are those of `winograd.transforms`, here F(4) of both axes; `winograd.lines` transforms
images to slots and sums to images. Sums that accumulate several slots or channel chunks are zeroed in memory, and
register tiles add to them.

The data and weights of a chunk fit the L1 cache. The weights of a group are read once, in order: register tiles
prefetch them together, each a part. The data of a chunk are used for all panels of the group before the next chunk, so
the data of all slots may exceed the L2 cache.

Tiles are numbered across rows and images. The tiles of a work item are a multiple of a third of a register tile and are
covered by register tiles of 12 and 8. If there are fewer items than cores, several share their tiles and divide the
channel groups.
"""

from __future__ import annotations

from .....prim import IntImm, PrimExpr, Var, const, simplify
from .....prim.intrin import ceildiv, floordiv, floormod
from .....prim.intrin import max as maximum
from .....prim.intrin import min as minimum
from .....tir import AssertStmt, Buffer, BufferLoad, DeclBuffer, ForKind, Stmt
from ....build import block, int64, let, loop, named, scratch, spread, vector_load, vector_store
from ...tile import RegisterTile, prefetched, register_tile, row_at, tall_and_short
from ..channel_blocks import part_of
from ..planes import Sizes, digits
from ..windows import Kernel
from .lines import Lines
from .plan import Plan
from .weights import DTYPE, Weights, entry


class Tiles:
    """Writes the loops of one convolution."""

    def __init__(self, kernel: Kernel, plan: Plan, packed: Buffer | None = None) -> None:
        self.windows, self.plan, self.lanes = kernel.windows, plan, plan.lanes
        self.sizes, one = Sizes(), const(1, "int64")
        self.weights = Weights(kernel, plan, packed)
        self.lines, named = Lines(kernel, plan, self.sizes, self.weights), self.sizes.named
        self.tiles = self.lines.tiles
        shares = named("shares", maximum(ceildiv(self.tiles, plan.most), one))
        units = maximum(ceildiv(ceildiv(self.tiles, shares), plan.unit), int64(2))
        self.share = named("share", units * plan.unit)
        """Tiles of a work item."""
        self.items = named("items", ceildiv(self.tiles, self.share))
        few = minimum(int64(plan.groups), ceildiv(int64(plan.cores), maximum(self.items, one)))
        self.splits = named("splits", maximum(few, one))
        """Work items that share their tiles and differ in their channel groups."""

    def kernel(self) -> Stmt:
        """Transform the weights unless they are packed, and compute all tiles."""
        source, kernel = self.lines.source, self.weights.declared(self._items)
        return self.sizes.around(kernel if source is self.windows.data else DeclBuffer(source, kernel))

    # ------------------------------------------------------------------ items

    def _items(self, weights: Buffer) -> Stmt:
        radix = [("share", self.items), ("split", self.splits)]

        def item(at: list[PrimExpr]) -> Stmt:
            body = tiles(at)
            for divisor in self.lines.divisors:
                if not isinstance(divisor, IntImm):
                    body = AssertStmt(divisor >= 1, "lines and images have tiles", body)
            return body

        def tiles(at: list[PrimExpr]) -> Stmt:
            return named("first", simplify(at[0] * self.share), lambda first: named(
                "count", simplify(minimum(self.share, self.tiles - first)),
                lambda count: self._item(weights, first, count, at[1])))  # fmt: skip

        return loop("item", simplify(self.items * self.splits), lambda flat: digits(
            flat, radix, item), ForKind.PARALLEL)  # fmt: skip

    def _item(self, weights: Buffer, first: PrimExpr, count: PrimExpr, split: PrimExpr) -> Stmt:
        """Compute `count` tiles from tile `first` on, for the channel groups of one split."""
        plan = self.plan
        units = minimum(maximum(ceildiv(count, plan.unit), int64(2)), int64(plan.most // plan.unit))
        start = floordiv(split * plan.groups, self.splits)
        end = floordiv((split + 1) * plan.groups, self.splits)

        def group(data: Buffer, sums: Buffer, number: Var, rows: PrimExpr) -> Stmt:
            held, left = plan.panels * plan.vectors, -(-plan.outputs // self.lanes)
            outputs = int64(held) if left % held == 0 else minimum(int64(held), left - number * held)
            return block([
                *([self._zeros(sums, rows)] if plan.adds else []),
                loop("e", plan.slots, lambda e: let("s", self._sum_of(e), lambda s: self._slot(
                    weights, data, sums, (number, e), s, rows))),
                self.lines.outputs(sums, weights, number, first, count, outputs),
            ])  # fmt: skip

        def body(data: Buffer, sums: Buffer, rows: PrimExpr) -> Stmt:
            return block([
                self.lines.data(data, first, count, rows),
                loop("g", simplify(end - start), lambda g: let(
                    "group", minimum(start + g, int64(plan.groups - 1)),
                    lambda number: group(data, sums, number, rows))),
            ])  # fmt: skip

        return named("rows", simplify(units * plan.unit), lambda rows: scratch(
            "data", (plan.slots, plan.before), DTYPE, lambda data: scratch(
                "sums", (plan.sums, plan.behind), DTYPE, lambda sums: body(data, sums, rows))))  # fmt: skip

    def _sum_of(self, slot: Var) -> PrimExpr:
        """Index of the sum to which a slot belongs."""
        rows, columns = self.plan.rows, self.plan.columns
        if self.plan.sums == self.plan.slots:
            return slot
        row = entry(rows.sums, floordiv(slot, columns.slots))
        return simplify(row * columns.count + entry(columns.sums, floormod(slot, columns.slots)))

    def _zeros(self, sums: Buffer, rows: PrimExpr) -> Stmt:
        """Initialise sums that accumulate several slots to zero."""
        plan, lanes, zero = self.plan, self.lanes, spread(const(0, DTYPE), self.lanes)
        return loop("s", plan.sums, lambda s: loop("v", plan.panels * plan.vectors, lambda v: loop(
            "t", rows, lambda t: vector_store(
                sums, (s, (v * plan.most + t) * lanes), zero))))  # fmt: skip

    # ------------------------------------------------------------------ sums

    def _slot(
        self, weights: Buffer, data: Buffer, sums: Buffer, at: tuple[Var, Var], total: PrimExpr, rows: PrimExpr
    ) -> Stmt:
        """Accumulate one slot of all tiles for the panels of a group, chunk by chunk of input channels."""
        plan = self.plan

        def tiles(reach: PrimExpr) -> Stmt:
            return loop("k", plan.chunks, lambda k: loop("panel", plan.panels, lambda panel: tall_and_short(
                floordiv(rows, plan.unit), plan.unit, lambda row, height, number: self._product(
                    weights, data, sums, (*at, panel, k), total, row, height, (number, reach)))))  # fmt: skip

        count = ceildiv(rows, plan.tall)
        return named("reach", simplify(ceildiv(int64(plan.width), maximum(count, int64(1)))), tiles)

    def _product(
        self, weights: Buffer, data: Buffer, sums: Buffer, at: tuple[Var, Var, Var, Var], total: PrimExpr,
        row: PrimExpr, height: int, asked: tuple[PrimExpr, PrimExpr],
    ) -> Stmt:  # fmt: skip
        """Compute one register tile; prefetch `asked[1]` cache lines of the next weights per step.

        `asked` is (number of the tile, cache lines of weights per step).
        """
        plan, lanes, most, (group, e, panel, k) = self.plan, self.lanes, self.plan.most, at
        (number, reach), chunk = asked, plan.chunk * lanes
        first = simplify(k * chunk)

        def step(tile: RegisterTile, left: Buffer, part: Buffer, c: Var, ask: Var) -> Stmt:
            added = tile.step(lambda p: BufferLoad(left, (p * plan.line + c,)), row_at(part, (c * plan.width,), lanes))
            return block([prefetched(part, (ask + c * reach,)), added])

        def steps(tile: RegisterTile, left: Buffer) -> Stmt:
            ask = simplify((plan.width + number * reach) * chunk)
            place = self.weights.place(panel, k, int64(0))
            return let("ask", ask, lambda ask: named("channels", self.weights.channels(k), lambda count: (
                self.weights.of_chunk(weights, (group, e), place, count, lambda part: loop(
                    "c", count, lambda c: step(tile, left, part, c, ask))))))  # fmt: skip

        def written(tile: RegisterTile, left: Buffer, out: Buffer) -> Stmt:
            def place(p: PrimExpr, c: PrimExpr) -> PrimExpr:
                return c * most + p * lanes

            before = tile.begun(lambda p, c: vector_load(out, (place(p, c),), lanes))
            return block([
                before if plan.adds else tile.cleared(),
                steps(tile, left),
                tile.each(lambda p, c: vector_store(out, (place(p, c),), tile.load(p, c))),
            ])  # fmt: skip

        left = (height - 1) * plan.line + min(chunk, plan.inputs)
        out = ((plan.vectors - 1) * most + height) * lanes
        place = total * plan.behind + (panel * (plan.vectors * most) + row) * lanes
        return part_of(data, e * plan.before + row * plan.line + first, (left,), (1,), lambda left: part_of(
            sums, place, (out,), (1,), lambda out: register_tile(
                height, plan.vectors, lanes, lambda tile: written(tile, left, out), sums=DTYPE)))  # fmt: skip
