"""The loops of depthwise convolutions that read images where they are, for machines whose vectors have masks.

    for image in T.parallel(N * C):
        for b in range(ceildiv(H, 28)):                     blocks of lines of the result
            for v in range(ceildiv(W, 16)):                 vectors of pixels
                acc = T.alloc_buffer((3, 16), scope="local")        sums of the lines y, y + 1 and y + 2 so far
                for i in range(28 + 2):
                    y = b * 28 + i - 2
                    left, middle, right = X[n, c, y + 1, v * 16 + …]        0 outside of the data
                    acc[0, :] += W[co, 2, 0] * left + W[co, 2, 1] * middle + W[co, 2, 2] * right
                    acc[1, :] += W[co, 1, 0] * left + …     as do taps of the next lines
                    if y is in the block: C[n, co, y, v * 16 + :] = acc[0, :]
                    acc[0, :], acc[1, :], acc[2, :] = acc[1, :], acc[2, :], 0

A line of the data is loaded once for all lines of the result that it is summed into. Masks leave out the elements
beside the data, and a branch its lines above and below: there is no padded copy. With a stride of up to 4, a tap's
elements are shuffled out of vectors of neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Final

from ...prim import Add, And, IntImm, Mul, PrimExpr, Var, const, is_const, simplify
from ...prim.instructions import fma
from ...prim.intrin import ceildiv
from ...prim.intrin import min as minimum
from ...tir import (
    Broadcast,
    Buffer,
    BufferLoad,
    ForKind,
    IfThenElse,
    LetStmt,
    Ramp,
    Shuffle,
    Stmt,
)
from ..build import alloc, block, int64, let, loop, ramp, spread, vector_load, vector_store
from ..contraction import size_of
from .planes import Sizes, digits
from .results import Results
from .tiling import Tile
from .windows import Kernel

LINES: Final = 28
"""The lines of a block at most: memory is read nearly in order, and few lines are summed twice."""
MOST_PENDING: Final = 8
"""The sums of lines that are in registers together at most, besides those of the present line."""
MOST_LOADS: Final = 16
"""The vectors of a line that are loaded at most, each with a mask."""
MOST_WEIGHTS: Final = 12
"""The taps whose weights stay in registers."""
LONGEST_SHUFFLE: Final = 4
"""The stride up to which elements are shuffled out of vectors of neighbours."""


@dataclass(frozen=True)
class Line:
    """A line of the data that is added in a step."""

    outer: tuple[int, ...]
    """The taps of the dimensions before the last two."""
    distance: int
    """The distance from the first line that the present line of the result meets."""
    uses: tuple[tuple[int, int], ...]
    """The lines of the result to which it adds, counted from the present one, and the tap by which each meets it."""


@dataclass(frozen=True)
class Load:
    """A vector of a line's elements, so many apart, at a distance from the first one that a vector of pixels meets."""

    distance: int
    step: int

    def lanes_from(self, start: PrimExpr, lanes: int) -> PrimExpr:
        """The indices of so many of its elements."""
        first = simplify(start + self.distance)
        return ramp(first, lanes) if self.step == 1 else Ramp(first, int64(self.step), lanes)


@dataclass(frozen=True)
class Channel:
    """Values that all tiles of an output channel share."""

    weights: Mapping[tuple[int, ...], PrimExpr]
    """By the tap: vectors of equal elements."""
    results: Results


class LineWriter:
    """Writes the loops of one convolution."""

    parts = 1
    """The vectors of the sums of a line that are in registers together."""

    def __init__(self, kernel: Kernel, tile: Tile) -> None:
        self.windows, self.results = kernel.windows, Results(kernel)
        self.dtype, self.lanes = str(self.windows.out.buffer.dtype), tile.lanes
        self.loaded, self.elements = self.dtype, self.lanes
        """The dtype of what a line of the data becomes as it is loaded, and the elements that a load takes."""
        self.pixels = self.parts * self.lanes
        """The pixels whose sums are in registers together."""
        self.sizes = Sizes()
        *self.outer, self.last = self.windows.axes
        self.taps = list(product(*(range(axis.taps) for axis in self.windows.axes)))
        self.pending = self.outer[-1].reach if self.outer else 0
        """The lines of the result behind the present one to which the lines of the data add so far."""
        self.loads = list(
            dict.fromkeys(load for tap in range(self.last.taps) for load in self._loads_of(tap))
        )
        """The vectors of a line of the data that are loaded for a vector of pixels."""
        self.vectors = self.sizes.named("vectors", ceildiv(self.last.size, self.pixels))
        """The steps in which a line of the result is computed."""

    @property
    def fits(self) -> bool:
        """True if all numbers are floats, and there are registers for the sums and the masks."""
        kinds = self.windows.out.buffer.dtype, self.windows.data.dtype, self.windows.weight.buffer.dtype
        floats = all(dtype.is_float for dtype in kinds)
        return floats and self.pending <= MOST_PENDING and len(self.loads) <= MOST_LOADS

    # ------------------------------------------------------------------ loops

    def kernel(self) -> Stmt:
        """The parallel loop over the channels of all images."""
        radix = [(f"n{d}", size_of(v)) for d, v in enumerate(self.windows.batch)]
        radix.append(("g", int64(self.windows.groups)))
        total: PrimExpr = const(1, "int64")
        for _, size in radix:
            total = total * size
        items = loop(
            "image", simplify(total), lambda flat: digits(flat, radix, self._image), ForKind.PARALLEL
        )
        return self.sizes.around(items)

    def _image(self, at: list[PrimExpr]) -> Stmt:
        """The output channels of the group of an image."""
        *batch, g = at
        image = at if self.windows.depth is not None else batch
        count = self.windows.channels
        if is_const(count, 1):
            return self._channel(image, batch, g)
        return loop("o", count, lambda o: let(
            "co", simplify(g * count + o), lambda co: self._channel(image, batch, co)))  # fmt: skip

    def _channel(self, image: list[PrimExpr], batch: list[PrimExpr], co: PrimExpr) -> Stmt:
        """The lines of an output channel; what depends on the channel alone has names: weights, if they are few."""
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
        """Vectors of the weight of each tap of an output channel."""
        return {tap: spread(self._weight(self.windows.weight.buffer, co, tap).astype(
            self.dtype), self.lanes) for tap in self.taps}  # fmt: skip

    def _weight(self, weights: Buffer, co: PrimExpr, tap: tuple[int, ...]) -> PrimExpr:
        depth = [] if self.windows.depth is None else [const(0, "int64")]
        return BufferLoad(weights, (co, *depth, *map(int64, tap)))

    def _blocks(
        self, image: list[PrimExpr], channel: Channel, place: list[PrimExpr], ys: list[PrimExpr]
    ) -> Stmt:
        """The blocks of lines, for each place in the dimensions before the last two."""
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
        """One vector of pixels of each line of a block: so many lines, the first of which is `begin`."""
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
        """The lines of the data that are added in one step: those that no step before it has met."""
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
        """Add what one line of the data gives to the lines from `place` on; it is 0 outside of the data."""
        lanes, ys = self.lanes, [Var("row", "int64") for _ in place]

        def loaded(xs: Buffer) -> Stmt:
            inside = [vector_store(xs, (i, 0), self._load((*image, *ys, at), mask))
                      for i, (at, mask) in enumerate(accesses.values())]  # fmt: skip
            if not ys:
                return block([*inside, added(xs)])
            nothing = spread(const(0, self.loaded), lanes)
            outside = [vector_store(xs, (i, 0), nothing) for i in range(len(accesses))]
            parts = [
                part for y, axis in zip(ys, self.outer, strict=True) for part in (y >= 0, y < axis.extent)
            ]
            return block([IfThenElse(reduce(And, parts), block(inside), block(outside)), added(xs)])

        def added(xs: Buffer) -> Stmt:
            vectors = {load: vector_load(xs, (i, 0), lanes) for i, load in enumerate(accesses)}
            return block(self._added(channel, acc, q, (*met.outer, tap) if place else (), vectors)
                         for q, tap in met.uses)  # fmt: skip

        result = alloc("xs", (len(accesses), lanes), self.loaded, "local", loaded)
        distances = [
            *(tap * axis.dilation for tap, axis in zip(met.outer, self.outer, strict=False)),
            met.distance,
        ]
        for y, at, axis, distance in zip(ys, place, self.outer, distances, strict=False):
            result = LetStmt(y, simplify(at * axis.stride + distance - axis.before), result)
        return result

    def _load(self, at: Sequence[PrimExpr], mask: PrimExpr) -> PrimExpr:
        """Some elements of the data, as the sums take them."""
        return BufferLoad(self.windows.data, tuple(at), mask).astype(f"{self.dtype}x{self.lanes}")

    def _added(
        self, channel: Channel, acc: Buffer, q: int, outer: tuple[int, ...], vectors: Mapping[Load, PrimExpr]
    ) -> Stmt:
        """Add the products of the taps of a line of weights to the sums of a line of the result."""
        taps = [(*outer, j) for j in range(self.last.taps)]
        first, *others = ((channel.weights[at], self._element(at[-1], vectors)) for at in taps)
        sums = reduce(lambda sums, factors: fma(*factors, sums), others, Mul(*first))
        return vector_store(acc, (q, 0), Add(vector_load(acc, (q, 0), self.lanes), sums))

    def _element(self, tap: int, vectors: Mapping[Load, PrimExpr]) -> PrimExpr:
        """The elements that a tap of the last dimension meets on a line, of the vectors that were loaded."""
        parts = [vectors[load] for load in self._loads_of(tap)]
        if len(parts) == 1:
            return parts[0]
        stride = self.last.stride
        phase = tap * self.last.dilation % stride
        return Shuffle(tuple(parts), [stride * lane + phase for lane in range(self.lanes)])

    def _loads_of(self, tap: int) -> list[Load]:
        """The vectors in which the elements are that a tap of the last dimension meets."""
        distance, stride = tap * self.last.dilation, self.last.stride
        if stride == 1 or stride > LONGEST_SHUFFLE:
            return [Load(distance, stride)]
        return [Load(distance // stride * stride + part * self.lanes, 1) for part in range(stride)]

    def _store(self, acc: Buffer, channel: Channel, place: list[PrimExpr], first: PrimExpr) -> Stmt:
        """Store the sums that are complete, those of the pixels from `first` on that there are."""

        def one(lane: Var) -> Stmt:
            x = first + lane
            return let("total", BufferLoad(acc, (int64(0), lane)), lambda total: IfThenElse(
                x < self.last.size, channel.results.put([*place, x], total)))  # fmt: skip

        return loop("lane", self.lanes, one, ForKind.VECTORIZED)

    @property
    def zero(self) -> PrimExpr:
        return spread(const(0, self.dtype), self.lanes)


__all__ = ["Channel", "LineWriter", "Load"]
