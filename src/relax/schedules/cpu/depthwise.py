"""The rule for depthwise convolutions with channels before pixels, of float32 or float64: one input channel to a group.

    for n, co, h, w, i, j in T.grid(…):                 for image in T.parallel(N * C):
        with T.block("conv"):                               P = the padded image of one channel (see `planes`)
            with T.init(): C[n, co, h, w] = 0               for h, v in T.grid(H, ceildiv(W, 16)):
            C[n, co, h, w] += W[co, i, j] * X[n, co, …]         C[n, co, h, v * 16 + :] = W[co, 0, 0] * P[…] + …

The image of a channel fits into the first or second level of the cache, so that memory is read and written once. All
taps are written out. A group may have several output channels (a channel multiplier).

Refused: one group, groups of several input channels, more taps than registers make worth writing out (49), and what
`convolution` refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final

from ...prim import Add, Mul, PrimExpr, const, is_const, simplify
from ...prim.intrin import ceildiv
from ...target import Target
from ...tir import Buffer, BufferLoad, ForKind, PrimFunc, Stmt
from ..build import block, int64, let, loop, scratch, spread, vector_load, vector_store
from ..contraction import size_of
from ..rule import ScheduleRule
from .planes import Planes, Sizes, digits, window
from .results import Results
from .tiling import Tile, tile_for
from .windows import Kernel, rewritten_kernels

MOST_TAPS: Final = 49
"""Taps up to which all of them are written out."""


class Depthwise(ScheduleRule):
    """The rule for depthwise convolutions with channels before pixels."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del tunable
        if not func.attrs.get("tir.noalias"):
            return None

        def rewrite(kernel: Kernel) -> Stmt | None:
            windows = kernel.windows
            taps = 1
            for axis in windows.axes:
                taps *= axis.taps
            if windows.groups == 1 or not is_const(windows.inputs, 1) or taps > MOST_TAPS:
                return None
            tile = tile_for(target, windows.out.buffer.dtype.bits)
            return _Writer(kernel, tile).kernel() if tile.lanes > 1 else None

        return rewritten_kernels(func, rewrite)


class _Writer:
    """Writes the loops of one convolution."""

    def __init__(self, kernel: Kernel, tile: Tile) -> None:
        self.windows, self.results = kernel.windows, Results(kernel)
        self.dtype, self.lanes = str(self.windows.out.buffer.dtype), tile.lanes
        self.sizes = Sizes()
        self.planes = Planes(self.windows, Tile(1, 1, tile.lanes), self.sizes)

    def kernel(self) -> Stmt:
        """The parallel loop over the channels of all images."""
        windows = self.windows
        radix = [(f"n{d}", size_of(v)) for d, v in enumerate(windows.batch)]
        radix.append(("g", int64(windows.groups)))
        total: PrimExpr = const(1, "int64")
        for _, size in radix:
            total = total * size

        def image(at: list[PrimExpr]) -> Stmt:
            def body(plane: Buffer) -> Stmt:
                return block([self.planes.fill([], at, plane), self._channels(plane, at[:-1], at[-1])])

            return scratch("plane", (self.planes.size,), self.dtype, body)

        images = loop("image", simplify(total), lambda flat: digits(flat, radix, image), ForKind.PARALLEL)
        return self.sizes.around(images)

    def _channels(self, plane: Buffer, batch: list[PrimExpr], g: PrimExpr) -> Stmt:
        """The output channels of a group."""
        count = self.windows.channels

        def results(co: PrimExpr) -> Stmt:
            return scratch(
                "results", (self.lanes,), self.dtype,
                lambda row: self._lines(plane, row, [*batch, co], [], const(0, "int64")),
            )  # fmt: skip

        if is_const(count, 1):
            return results(g)
        return loop("o", count, lambda o: let("co", simplify(g * count + o), results))

    def _lines(
        self, plane: Buffer, row: Buffer, leading: list[PrimExpr], ys: list[PrimExpr], at: PrimExpr
    ) -> Stmt:
        axes, planes = self.windows.axes, self.planes
        if len(ys) < len(axes) - 1:
            distance = planes.rows[len(ys)]
            return loop(f"y{len(ys)}", axes[len(ys)].size, lambda y: self._lines(
                plane, row, leading, [*ys, y], simplify(at * distance + y)))  # fmt: skip
        vectors = simplify(ceildiv(axes[-1].size, self.lanes))
        return let("line", simplify(at * planes.line), lambda start: loop("v", vectors, lambda v: block([
            self._sum(plane, row, leading[-1], simplify(start + v * self.lanes)),
            self._store(row, [*leading, *ys], simplify(v * self.lanes)),
        ])))  # fmt: skip

    def _sum(self, plane: Buffer, row: Buffer, channel: PrimExpr, start: PrimExpr) -> Stmt:
        """The sums of one vector of pixels."""
        windows = self.windows
        depth = [] if windows.depth is None else [const(0, "int64")]
        taps = list(product(*(range(axis.taps) for axis in windows.axes)))

        def add(rest: Sequence[tuple[int, ...]], total: PrimExpr) -> Stmt:
            if not rest:
                return vector_store(row, (const(0, "int64"),), total)
            place = simplify(self.planes.tap([int64(tap) for tap in rest[0]]) + start)

            def one(part: Buffer, at: Sequence[PrimExpr]) -> Stmt:
                weight = BufferLoad(windows.weight.buffer, (channel, *depth, *map(int64, rest[0])))
                value = Mul(spread(weight, self.lanes), vector_load(part, at, self.lanes))
                return add(rest[1:], Add(total, value))

            return window(plane, (place,), self.lanes, one)

        return add(taps, spread(const(0, self.dtype), self.lanes))

    def _store(self, row: Buffer, leading: Sequence[PrimExpr], start: PrimExpr) -> Stmt:
        """Store those sums that are pixels."""

        return self.results.vector(leading, start, self.lanes, lambda lane: BufferLoad(row, (lane,)))


__all__ = ["Depthwise"]
