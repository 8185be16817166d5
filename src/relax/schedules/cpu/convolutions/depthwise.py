"""Channels-first depthwise convolutions (one input channel per group).

    for n, co, h, w, i, j in T.grid(…):                 for image in T.parallel(N * C):
        with T.block("conv"):                               P = the padded image of one channel (see `planes`)
            with T.init(): C[n, co, h, w] = 0               for h, v in T.grid(H, ceildiv(W, 16)):
            C[n, co, h, w] += W[co, i, j] * X[n, co, …]         C[n, co, h, v * 16 + :] = W[co, 0, 0] * P[…] + …

A channel's image fits the L1 or L2 cache, so memory is read and written once. All taps are unrolled. A group may have
several output channels (a channel multiplier). Targets with masked vectors use `depthwise_lines`, without a padded
copy, and `depthwise_dots` for bfloat16.

Not supported: a single group, groups of several input channels, more than 49 taps (too many to unroll), and cases that
`direct` rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Final, TypeAlias

from ....prim import Add, IntImm, Mul, PrimExpr, Var, const, is_const, simplify
from ....prim.instructions import fma
from ....prim.intrin import ceildiv, floordiv
from ....target import Target
from ....tir import Buffer, BufferLoad, DeclBuffer, PrimFunc, Stmt
from ....tir.buffer import decl_buffer
from ...build import block, int64, let, loop, scratch, size_of, spread, vector_load, vector_store
from ...rule import Refusal, ScheduleRule
from ..large_sums import number_sum
from ..tile.division import Tile, has_masks, tile_for
from .depthwise_dots import words_writer
from .depthwise_lines import LineWriter
from .planes import Planes, Sizes, items
from .results import Results
from .windows import Kernel, rewritten_kernels

MOST_TAPS: Final = 49
"""Most taps that are fully unrolled."""


TOGETHER: Final = 8
"""Most groups per iteration of the parallel loop."""

Tap: TypeAlias = "tuple[int, ...]"


class Depthwise(ScheduleRule):
    """Schedule rule for channels-first depthwise convolutions."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable

        def rewrite(kernel: Kernel) -> Stmt | Refusal:
            windows = kernel.windows
            tile = tile_for(target, windows.out.buffer.dtype.bits)
            if not windows.is_grouped or not is_const(windows.inputs, 1):
                return Refusal("a single group, or groups of several input channels")
            if windows.taps > MOST_TAPS:
                return Refusal(f"windows of {windows.taps} elements, more than {MOST_TAPS}")
            if tile.lanes == 1:
                return Refusal("the target has no vectors")
            if not has_masks(target):
                return _Writer(kernel, tile, target).kernel()
            by_words = words_writer(kernel, tile, target)
            by_lines = LineWriter(kernel, _filled(tile, windows.axes[-1].size))
            if by_words is not None:
                return by_words.kernel()
            return by_lines.kernel() if by_lines.fits else _Writer(kernel, tile, target).kernel()

        return rewritten_kernels(func, rewrite, number_sum)


def _filled(tile: Tile, pixels: PrimExpr) -> Tile:
    """Half-width tile if a half vector holds a row: CPUs execute two half-width instructions in the time of one."""
    half = tile.lanes // 2
    is_short = isinstance(pixels, IntImm) and pixels.value <= half
    return replace(tile, lanes=half) if is_short and half > 1 else tile


class _Writer:
    """Writes the loops of one convolution."""

    def __init__(self, kernel: Kernel, tile: Tile, target: Target) -> None:
        self.windows, self.results = kernel.windows, Results(kernel)
        self.dtype, self.lanes = str(self.windows.out.buffer.dtype), tile.lanes
        self.fused = self.dtype in ("float32", "float64") and target.has_fma
        """True if the target has FMA instructions for the dtype; without them, a fused multiply-add is a slow call."""
        self.sizes = Sizes()
        self.planes = Planes(self.windows, Tile(1, 1, tile.lanes), self.sizes)
        self.vectors = self.sizes.named("vectors", ceildiv(self.windows.axes[-1].size, self.lanes))
        """Vectors of a row of the result."""

    def kernel(self) -> Stmt:
        """Return the parallel loop over the channels of all images, several per iteration."""
        groups, some = self.windows.groups, self.together
        radix = [(f"n{d}", size_of(v)) for d, v in enumerate(self.windows.batch)]
        radix.append(("g" if some == 1 else "part", simplify(floordiv(int64(groups), some))))

        def image(plane: Buffer, batch: list[PrimExpr], g: PrimExpr) -> Stmt:
            return block([self.planes.fill([], [*batch, g], plane), self._channels(plane, batch, g)])

        def images(at: list[PrimExpr], plane: Buffer) -> Stmt:
            if some == 1:
                return image(plane, at[:-1], at[-1])
            return loop("i", some, lambda i: let(
                "g", simplify(at[-1] * some + i), lambda g: image(plane, at[:-1], g)))  # fmt: skip

        def item(at: list[PrimExpr]) -> Stmt:
            return scratch("plane", (self.planes.size,), self.dtype, lambda plane: images(at, plane))

        return self.sizes.around(items("image", radix, item))

    @property
    def together(self) -> int:
        """Groups whose planes share one allocation if its size is dynamic, as it is on the heap then."""
        if isinstance(self.planes.size, IntImm):
            return 1
        groups = self.windows.groups
        if not isinstance(groups, int):
            return 1
        return max(count for count in range(1, TOGETHER + 1) if groups % count == 0)

    def _channels(self, plane: Buffer, batch: list[PrimExpr], g: PrimExpr) -> Stmt:
        """Compute the output channels of a group."""
        count = self.windows.channels

        def results(co: PrimExpr) -> Stmt:
            return scratch(
                "results", (self.lanes,), self.dtype,
                lambda row: self._lines(plane, row, [*batch, co], [], const(0, "int64")),
            )  # fmt: skip

        if is_const(count, 1):
            return results(g)
        return loop("o", count, lambda o: let("co", simplify(g * count + o), results))

    def _lines(self, plane: Buffer, row: Buffer, leading: list[PrimExpr], ys: list[PrimExpr], at: PrimExpr) -> Stmt:
        axes, planes = self.windows.axes, self.planes
        if len(ys) < len(axes) - 1:
            distance = planes.rows[len(ys)]
            return loop(f"y{len(ys)}", axes[len(ys)].size, lambda y: self._lines(
                plane, row, leading, [*ys, y], simplify(at * distance + y)))  # fmt: skip

        def vectors(part: Buffer, taps: dict[Tap, PrimExpr]) -> Stmt:
            return loop("v", self.vectors, lambda v: block([
                self._sum(part, taps, row, leading[-1], v),
                self._store(row, [*leading, *ys], simplify(v * self.lanes)),
            ]))  # fmt: skip

        return let("line", simplify(at * planes.line), lambda start: self._with_taps(plane, start, vectors))

    def _with_taps(self, plane: Buffer, start: PrimExpr, body: Callable[[Buffer, dict[Tap, PrimExpr]], Stmt]) -> Stmt:
        """Call `body` with a buffer and the offset of each tap for the row that begins at `start`.

        With dynamic sizes, the buffer is a view whose bounds are checked once for all vectors of the row.
        """
        axes, planes = self.windows.axes, self.planes
        taps = list(product(*(range(axis.taps) for axis in axes)))
        places = {tap: planes.tap([*map(int64, tap)]) for tap in taps}
        if isinstance(planes.size, IntImm):
            return body(plane, {tap: simplify(place + start) for tap, place in places.items()})
        reach: PrimExpr = const(0, "int64")
        for d, axis in enumerate(axes):
            reach = reach * (planes.rows[d] if d < len(planes.rows) else planes.line) + axis.reach
        width = simplify((planes.count - 1) * planes.area + reach + self.vectors * self.lanes)
        view = decl_buffer([width], self.dtype, "taps", data=plane.data, elem_offset=start)
        return DeclBuffer(view, body(view, places))

    def _sum(self, part: Buffer, taps: dict[Tap, PrimExpr], row: Buffer, channel: PrimExpr, v: Var) -> Stmt:
        """Accumulate one vector of pixels."""
        depth = [] if self.windows.depth is None else [const(0, "int64")]
        total = spread(const(0, self.dtype), self.lanes)
        for tap, place in taps.items():
            weight = BufferLoad(self.windows.weight.buffer, (channel, *depth, *map(int64, tap)))
            data = vector_load(part, (simplify(place + v * self.lanes),), self.lanes)
            factor = spread(weight.astype(self.dtype), self.lanes)
            total = fma(factor, data, total) if self.fused else Add(total, Mul(factor, data))
        return vector_store(row, (const(0, "int64"),), total)

    def _store(self, row: Buffer, leading: Sequence[PrimExpr], start: PrimExpr) -> Stmt:
        """Store the results that are pixels of the row."""

        return self.results.vector(leading, start, self.lanes, lambda lane: BufferLoad(row, (lane,)))
