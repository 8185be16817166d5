"""Depthwise convolutions that read images in place, without a padded copy, for targets with masked vectors.

    for image in T.parallel(N * C):
        for b in range(ceildiv(H, 28)):                     blocks of result rows
            for v in range(ceildiv(W, 16)):                 vectors of pixels
                acc = T.alloc_buffer((3, 16), scope="local")        partial sums of rows y, y + 1 and y + 2
                for i in range(28 + 2):
                    y = b * 28 + i - 2
                    left, middle, right = X[n, c, y + 1, v * 16 + …]        0 outside of the data
                    acc[0, :] += W[co, 2, 0] * left + W[co, 2, 1] * middle + W[co, 2, 2] * right
                    acc[1, :] += W[co, 1, 0] * left + …     likewise for the next rows
                    if y is in the block: C[n, co, y, v * 16 + :] = acc[0, :]
                    acc[0, :], acc[1, :], acc[2, :] = acc[1, :], acc[2, :], 0

Each data row is loaded once for all result rows it contributes to. Masks exclude elements beside the data, and a branch
the rows above and below, so no padded copy is needed. With a stride of up to 4, the elements of a tap are shuffled out
of contiguous vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product
from typing import Final

from ....prim import Add, And, IntImm, Mul, PrimExpr, Var, const, is_const, simplify
from ....prim.instructions import fma
from ....prim.intrin import ceildiv
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....tir import Broadcast, Buffer, BufferLoad, ForKind, IfThenElse, LetStmt, Ramp, Shuffle, Stmt
from ...build import alloc, block, int64, let, loop, ramp, size_of, spread, vector_load, vector_store
from ..tile.division import Tile
from .planes import Sizes, items
from .results import Results
from .windows import LONGEST_SHUFFLE, Kernel

LINES: Final = 28
"""Most rows of a block: memory is read nearly in order, and few rows are accumulated twice."""
MOST_PENDING: Final = 8
"""Most pending rows of accumulators in registers, besides those of the current row."""
MOST_LOADS: Final = 16
"""Most vectors loaded per row, each with a mask."""
MOST_WEIGHTS: Final = 12
"""Most taps whose weights stay in registers."""


@dataclass(frozen=True)
class Line:
    """Data row accumulated in one step."""

    outer: tuple[int, ...]
    """Tap indices of the dimensions before the last two."""
    distance: int
    """Distance from the first data row read by the current result row."""
    uses: tuple[tuple[int, int], ...]
    """(Result row relative to the current one, row tap) of each accumulation."""


@dataclass(frozen=True)
class Load:
    """Strided vector of a data row, at a distance from the first element read by a vector of pixels."""

    distance: int
    step: int

    def lanes_from(self, start: PrimExpr, lanes: int) -> PrimExpr:
        """Indices of `lanes` of its elements."""
        first = simplify(start + self.distance)
        return ramp(first, lanes) if self.step == 1 else Ramp(first, int64(self.step), lanes)


@dataclass(frozen=True)
class Channel:
    """Values shared by all tiles of an output channel."""

    weights: Mapping[tuple[int, ...], PrimExpr]
    """Broadcast weights by tap."""
    results: Results


class LineWriter:
    """Writes the loops of one convolution."""

    parts = 1
    """Accumulator vectors per result row held in registers."""

    def __init__(self, kernel: Kernel, tile: Tile) -> None:
        self.windows, self.results = kernel.windows, Results(kernel)
        self.dtype, self.lanes = str(self.windows.out.buffer.dtype), tile.lanes
        self.loaded, self.elements = self.dtype, self.lanes
        """Dtype and number of elements of a loaded vector."""
        self.pixels = self.parts * self.lanes
        """Pixels whose accumulators are held in registers."""
        self.sizes = Sizes()
        *self.outer, self.last = self.windows.axes
        self.taps = list(product(*(range(axis.taps) for axis in self.windows.axes)))
        self.pending = self.outer[-1].reach if self.outer else 0
        """Pending result rows: the rows after the current one that data rows contribute to."""
        self.loads = list(dict.fromkeys(load for tap in range(self.last.taps) for load in self._loads_of(tap)))
        """Vectors of a data row loaded per vector of pixels."""
        self.vectors = self.sizes.named("vectors", ceildiv(self.last.size, self.pixels))
        """Number of steps per result row."""

    @property
    def fits(self) -> bool:
        """True for floats whose accumulators and masks fit the registers."""
        kinds = self.windows.out.buffer.dtype, self.windows.data.dtype, self.windows.weight.buffer.dtype
        floats = all(dtype.is_float for dtype in kinds)
        return floats and self.pending <= MOST_PENDING and len(self.loads) <= MOST_LOADS

    # ------------------------------------------------------------------ loops

    def kernel(self) -> Stmt:
        """Return the parallel loop over the channels of all images."""
        radix = [(f"n{d}", size_of(v)) for d, v in enumerate(self.windows.batch)]
        radix.append(("g", int64(self.windows.groups)))
        return self.sizes.around(items("image", radix, self._image))

    def _image(self, at: list[PrimExpr]) -> Stmt:
        """Compute the output channels of an image's group."""
        *batch, g = at
        image = at if self.windows.depth is not None else batch
        count = self.windows.channels
        if is_const(count, 1):
            return self._channel(image, batch, g)
        return loop("o", count, lambda o: let(
            "co", simplify(g * count + o), lambda co: self._channel(image, batch, co)))  # fmt: skip

    def _channel(self, image: list[PrimExpr], batch: list[PrimExpr], co: PrimExpr) -> Stmt:
        """Compute the rows of an output channel; per-channel values (such as few weights) are hoisted."""
        weights = self._weights(co)
        results, lets = self.results.of_channel([*batch, co])
        if len(weights) <= MOST_WEIGHTS:
            names = {tap: Var("w", value.dtype) for tap, value in weights.items()}
            lets = [*lets, *((names[tap], value) for tap, value in weights.items())]
            weights = {**names}
        body = self._blocks(image, Channel(weights, results), [*batch, co], [])
        for name, value in reversed(lets):
            body = LetStmt(name, value, body)
        return body

    def _weights(self, co: PrimExpr) -> dict[tuple[int, ...], PrimExpr]:
        """Broadcast weights of each tap of an output channel."""
        return {tap: spread(self._weight(self.windows.weight.buffer, co, tap).astype(
            self.dtype), self.lanes) for tap in self.taps}  # fmt: skip

    def _weight(self, weights: Buffer, co: PrimExpr, tap: tuple[int, ...]) -> PrimExpr:
        depth = [] if self.windows.depth is None else [const(0, "int64")]
        return BufferLoad(weights, (co, *depth, *map(int64, tap)))

    def _blocks(self, image: list[PrimExpr], channel: Channel, place: list[PrimExpr], ys: list[PrimExpr]) -> Stmt:
        """Compute all blocks of rows, for each index in the dimensions before the last two."""
        d = len(ys)
        if d < len(self.outer) - 1:
            return loop(f"y{d}", self.outer[d].size, lambda y: self._blocks(image, channel, place, [*ys, y]))

        def vectors(begin: PrimExpr, count: PrimExpr) -> Stmt:
            return loop("v", self.vectors, lambda v: self._column(image, channel, place, ys, begin, count, v))

        if not self.outer:
            return vectors(int64(0), int64(1))
        size = self.outer[-1].size
        lines = LINES if not isinstance(size, IntImm) else min(LINES, max(size.value, 1))
        return loop("b", simplify(ceildiv(size, lines)), lambda b: let("first", simplify(b * lines), lambda first: let(
            "count", simplify(minimum(int64(lines), size - first)), lambda count: vectors(first, count))))  # fmt: skip

    # ------------------------------------------------------------------ a column

    def _column(
        self, image: list[PrimExpr], channel: Channel, place: list[PrimExpr], ys: list[PrimExpr],
        begin: PrimExpr, count: PrimExpr, v: Var,
    ) -> Stmt:  # fmt: skip
        """Compute one vector of pixels in each of `count` rows from row `begin` on."""
        start, lanes = simplify(v * (self.pixels * self.last.stride) - self.last.before), self.elements
        zero, end = Broadcast(const(0, "int64"), lanes), Broadcast(self.last.extent, lanes)
        accesses: dict[Load, tuple[PrimExpr, PrimExpr]] = {}
        masks: list[tuple[Var, PrimExpr]] = []
        for load in self.loads:
            at = load.lanes_from(start, lanes)
            mask = Var("mask", f"boolx{lanes}")
            masks.append((mask, And(at >= zero, at < end)))
            accesses[load] = at, mask

        def step(acc: Buffer, line: list[PrimExpr], is_stored: PrimExpr | None) -> Stmt:
            added = [self._line(image, channel, acc, line, met, accesses) for met in self._met()]
            stored = self._store(acc, channel, [*place, *line], simplify(v * self.pixels))
            moved: list[Stmt] = []
            for part in range(0, self.pixels, self.lanes):
                behind = [vector_load(acc, (q, part), self.lanes) for q in range(1, self.pending + 1)]
                moved += [vector_store(acc, (q, part), value) for q, value in enumerate([*behind, self.zero])]
            return block([*added, stored if is_stored is None else IfThenElse(is_stored, stored), *moved])

        def steps(acc: Buffer) -> Stmt:
            if not self.outer:
                return step(acc, [], None)
            return loop("i", simplify(count + self.pending), lambda i: let(
                "y", simplify(begin + i - self.pending), lambda y: step(
                    acc, [*ys, y], And(y >= begin, y < self.outer[-1].size))))  # fmt: skip

        def column(acc: Buffer) -> Stmt:
            cleared = [vector_store(acc, (q, part), self.zero)
                       for q in range(self.pending + 1) for part in range(0, self.pixels, self.lanes)]  # fmt: skip
            return block([*cleared, steps(acc)])

        result = alloc("acc", (self.pending + 1, self.pixels), self.dtype, "local", column)
        for name, value in reversed(masks):
            result = LetStmt(name, value, result)
        return result

    def _met(self) -> list[Line]:
        """Data rows accumulated in one step: those not read by an earlier step."""
        if not self.outer:
            return [Line((), 0, ((0, 0),))]
        axis = self.outer[-1]
        last = (axis.taps - 1) * axis.dilation
        lines: list[Line] = []
        for outer in product(*(range(other.taps) for other in self.outer[:-1])):
            for distance in range(last - axis.stride + 1, last + 1):
                steps = ((distance - tap * axis.dilation, tap) for tap in range(axis.taps))
                uses = tuple((s // axis.stride, tap) for s, tap in steps if s >= 0 and s % axis.stride == 0)
                lines += [Line(outer, distance, uses)] if uses else []
        return lines

    def _line(
        self, image: list[PrimExpr], channel: Channel, acc: Buffer, place: list[PrimExpr], met: Line,
        accesses: dict[Load, tuple[PrimExpr, PrimExpr]],
    ) -> Stmt:  # fmt: skip
        """Accumulate the contribution of one data row (zero outside the data) to the result rows from `place` on."""
        lanes, ys = self.lanes, [Var("row", "int64") for _ in place]

        def loaded(xs: Buffer) -> Stmt:
            inside = [vector_store(xs, (i, 0), self._load((*image, *ys, at), mask))
                      for i, (at, mask) in enumerate(accesses.values())]  # fmt: skip
            if not ys:
                return block([*inside, added(xs)])
            nothing = spread(const(0, self.loaded), lanes)
            outside = [vector_store(xs, (i, 0), nothing) for i in range(len(accesses))]
            parts = [part for y, axis in zip(ys, self.outer, strict=True) for part in (y >= 0, y < axis.extent)]
            return block([IfThenElse(reduce(And, parts), block(inside), block(outside)), added(xs)])

        def added(xs: Buffer) -> Stmt:
            vectors = {load: vector_load(xs, (i, 0), lanes) for i, load in enumerate(accesses)}
            return block(self._added(channel, acc, q, (*met.outer, tap) if place else (), vectors)
                         for q, tap in met.uses)  # fmt: skip

        result = alloc("xs", (len(accesses), lanes), self.loaded, "local", loaded)
        distances = [*(tap * axis.dilation for tap, axis in zip(met.outer, self.outer, strict=False)), met.distance]
        for y, at, axis, distance in zip(ys, place, self.outer, distances, strict=False):
            result = LetStmt(y, simplify(at * axis.stride + distance - axis.before), result)
        return result

    def _load(self, at: Sequence[PrimExpr], mask: PrimExpr) -> PrimExpr:
        """Load elements of the data in the form in which they are accumulated."""
        return BufferLoad(self.windows.data, tuple(at), mask).astype(f"{self.dtype}x{self.lanes}")

    def _added(
        self, channel: Channel, acc: Buffer, q: int, outer: tuple[int, ...], vectors: Mapping[Load, PrimExpr]
    ) -> Stmt:
        """Accumulate the products of one row of taps into the accumulators of a result row."""
        taps = [(*outer, j) for j in range(self.last.taps)]
        first, *others = ((channel.weights[at], self._element(at[-1], vectors)) for at in taps)
        sums = reduce(lambda sums, factors: fma(*factors, sums), others, Mul(*first))
        return vector_store(acc, (q, 0), Add(vector_load(acc, (q, 0), self.lanes), sums))

    def _element(self, tap: int, vectors: Mapping[Load, PrimExpr]) -> PrimExpr:
        """Elements read by a tap of the last dimension, extracted from the loaded vectors."""
        parts = [vectors[load] for load in self._loads_of(tap)]
        if len(parts) == 1:
            return parts[0]
        stride = self.last.stride
        phase = tap * self.last.dilation % stride
        return Shuffle(tuple(parts), [stride * lane + phase for lane in range(self.lanes)])

    def _loads_of(self, tap: int) -> list[Load]:
        """Vectors that contain the elements read by a tap of the last dimension."""
        distance, stride = tap * self.last.dilation, self.last.stride
        if stride == 1 or stride > LONGEST_SHUFFLE:
            return [Load(distance, stride)]
        return [Load(distance // stride * stride + part * self.lanes, 1) for part in range(stride)]

    def _store(self, acc: Buffer, channel: Channel, place: list[PrimExpr], first: PrimExpr) -> Stmt:
        """Store the completed accumulators from pixel `first` on, as far as pixels exist."""

        def one(lane: Var) -> Stmt:
            x = first + lane
            return let("total", BufferLoad(acc, (int64(0), lane)), lambda total: IfThenElse(
                x < self.last.size, channel.results.put([*place, x], total)))  # fmt: skip

        return loop("lane", self.lanes, one, ForKind.VECTORIZED)

    @property
    def zero(self) -> PrimExpr:
        return spread(const(0, self.dtype), self.lanes)
