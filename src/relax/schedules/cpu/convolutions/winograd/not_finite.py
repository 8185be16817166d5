"""Direct sums of the tiles of a Winograd convolution that have results which are not finite.

    for t in tiles of a row with a result that is not finite:
        if any(0 * S[:, 4 * t : 4 * t + 4, :] != 0):            this tile has one
            acc[:, :] = 0                                       4×4 pixels × 16 channels in registers
            for k in chunks of input channels:
                P[c, 0:6, 0:6] = X[n, k * chunk + c, …]         the pixels that the tile reads, zero-padded
                for i, j, c in T.grid(3, 3, chunk):
                    acc[p, :] += P[c, y of p + i, x of p + j] * W[c, i, j, :]
            S[:, 4 * t : 4 * t + 4, :] = acc

Transforms spread an infinity or NaN over the pixels and channels of a tile, and large finite elements overflow in them.
Direct sums replace the results before the epilogue reads them (see `finiteness`). A tile takes about ten times as long
as by transforms.
"""

from __future__ import annotations

from collections.abc import Sequence

from .....prim import And, PrimExpr, Var, const, simplify
from .....prim.intrin import floordiv, floormod
from .....runtime.records import dataclass
from .....tir import Buffer, BufferLoad, IfThenElse, Stmt
from ....build import apart, block, int64, let, loop, scratch, spread, vector_load, vector_store
from ...products.finiteness import own_flag
from ...tile import RegisterTile, register_tile, row_at
from ..channel_blocks import part_of
from ..planes import digits
from ..windows import Windows
from .plan import Plan
from .weights import DTYPE, Weights


@dataclass(frozen=True)
class Segment:
    """Tiles of a row for a vector of output channels."""

    batch: Sequence[PrimExpr]
    row: PrimExpr
    """Row of tiles."""
    low: PrimExpr
    """First tile of the row."""
    width: PrimExpr
    """Number of tiles."""
    vector: tuple[PrimExpr, PrimExpr]
    """Group of output channels, and the vector in it."""
    weights: Buffer


class DirectTiles:
    """Writes direct sums of tiles."""

    def __init__(self, windows: Windows, source: Buffer, plan: Plan, weights: Weights) -> None:
        self.windows, self.source, self.plan, self.weights = windows, source, plan, weights
        self.wide = plan.columns.m * plan.lanes
        """Elements of a row of a tile's results."""
        self.reach = -(-plan.columns.reach // plan.lanes) * plan.lanes
        """Pixels of a row that a tile reads, in whole vectors."""

    def replaced(self, segment: Segment, staged: Buffer, pitch: int) -> Stmt:
        """Replace the results of tiles that are not finite; `pitch` is the distance of two rows of results."""
        plan = self.plan
        rows, columns, lanes = plan.rows.m, plan.columns.m, plan.lanes

        def of_tile(part: Buffer, t: Var) -> Stmt:
            return own_flag(lanes, DTYPE, lambda flag: block([
                loop("a", rows, lambda a: flag.observe([
                    vector_load(part, (a, b * lanes), lanes) for b in range(columns)])),
                flag.if_raised(self._tile(segment, t, part)),
            ]))  # fmt: skip

        return apart("t", segment.width, lambda t: part_of(
            staged, t * self.wide, (rows, self.wide), (pitch, 1), lambda part: of_tile(part, t)))  # fmt: skip

    def _tile(self, segment: Segment, t: Var, out: Buffer) -> Stmt:
        """Compute the pixels of a tile from its data and the taps."""
        plan, lanes = self.plan, self.plan.lanes
        rows, columns = plan.rows, plan.columns

        def sums(tile: RegisterTile, data: Buffer, k: Var, i: PrimExpr, j: PrimExpr) -> Stmt:
            def element(p: PrimExpr, c: PrimExpr) -> PrimExpr:
                y, x = floordiv(p, columns.m) * rows.stride, floormod(p, columns.m) * columns.stride
                return BufferLoad(data, (c, y + i, x + j * columns.apart))

            return self.weights.each_tap(segment.weights, segment.vector, k, (i, j), lambda c, weights, at: tile.step(
                lambda p: element(p, c), row_at(weights, (at,), lanes)))  # fmt: skip

        def taps(tile: RegisterTile, data: Buffer, k: Var) -> Stmt:
            sizes = [("i", int64(rows.taps)), ("j", int64(columns.taps))]
            return loop("tap", rows.taps * columns.taps, lambda tap: digits(
                tap, sizes, lambda at: sums(tile, data, k, *at)))  # fmt: skip

        def tile(data: Buffer, tile: RegisterTile) -> Stmt:
            return block([
                tile.cleared(),
                loop("k", plan.chunks, lambda k: block([
                    loop("c", self.weights.channels(k), lambda c: self._data(segment, t, k, data, c)),
                    taps(tile, data, k),
                ])),
                tile.each(lambda p, c: vector_store(
                    out, (floordiv(p, columns.m), floormod(p, columns.m) * lanes), tile.load(p, c))),
            ])  # fmt: skip

        shape = plan.chunk * lanes, len(rows.places), self.reach
        return scratch("tile_data", shape, DTYPE, lambda data: register_tile(
            rows.m * columns.m, 1, lanes, lambda acc: tile(data, acc), sums=DTYPE))  # fmt: skip

    def _data(self, segment: Segment, t: Var, k: Var, data: Buffer, c: Var) -> Stmt:
        """Copy the pixels of an input channel that a tile reads, with zeros outside of the image."""
        plan, lanes, (down, along) = self.plan, self.plan.lanes, self.windows.lines
        channel = simplify(k * (plan.chunk * lanes) + c)
        first = simplify((segment.low + t) * plan.columns.step - along.before)
        zero = spread(const(0, DTYPE), lanes)

        def vector(y: PrimExpr, r: Var, v: Var) -> Stmt:
            pixels = self.windows.pixels_of_line(self.source, (*segment.batch, channel), y, first + v * lanes, lanes)
            return vector_store(data, (c, r, v * lanes), pixels.astype(f"{DTYPE}x{lanes}"))

        def line(r: Var, y: PrimExpr) -> Stmt:
            count = self.reach // lanes
            return IfThenElse(
                And(y >= 0, y < down.extent),
                loop("v", count, lambda v: vector(y, r, v)),
                loop("v", count, lambda v: vector_store(data, (c, r, v * lanes), zero)),
            )

        def at(r: Var) -> PrimExpr:
            return simplify(segment.row * plan.rows.step + r * plan.rows.apart - down.before)

        return loop("r", len(plan.rows.places), lambda r: let("y", at(r), lambda y: line(r, y)))
