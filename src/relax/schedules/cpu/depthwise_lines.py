"""The loops of depthwise convolutions that read images where they are, for machines whose vectors have masks.

    for image in T.parallel(N * C):
        for b in range(ceildiv(H, 7)):                      blocks of lines of the result
            for v in range(ceildiv(W, 16)):                 vectors of pixels
                acc = T.alloc_buffer((7, 16), scope="local")
                if 0 <= y < EH:                             for each of the 9 lines of the data that meet the block
                    left, middle, right = X[n, c, y, v * 16 + …]
                    acc[r, :] += W[co, i, 0] * left         and so on, for each pair of a line and a tap that meet
                C[n, co, b * 7 + r, v * 16 + :] = acc[r, :]

A line of the data is loaded once for all lines of the block that it is summed into. Masks leave out the elements beside
the data, and a branch its lines above and below: there is no padded copy. With a stride of up to 4, a tap's elements
are shuffled out of vectors of neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

from ...prim import Add, And, IntImm, Mul, PrimExpr, Var, const, is_const, simplify
from ...prim.intrin import ceildiv
from ...target import Target
from ...tir import (
    Broadcast,
    Buffer,
    BufferLoad,
    DeclBuffer,
    ForKind,
    IfThenElse,
    LetStmt,
    Ramp,
    Shuffle,
    Stmt,
)
from ...tir.buffer import decl_buffer
from ..build import alloc, block, int64, let, loop, ramp, spread, vector_load, vector_store
from ..contraction import size_of
from .planes import Sizes, digits
from .results import Results
from .tiling import Tile
from .windows import Kernel

MOST_PRODUCTS: Final = 64
"""The products of a block that are written out, for one vector of pixels."""
MOST_LINES: Final = 7
"""The lines of a block at most; sizes of images are often multiples of 7."""
MOST_STRIDED: Final = 4
"""The lines of a block at most where a stride takes several loads for each vector."""
MOST_WEIGHTS: Final = 12
"""The taps whose weights stay in registers."""
LONGEST_SHUFFLE: Final = 4
"""The stride up to which elements are shuffled out of vectors of neighbours."""


MASKED_BITS: Final = 512
"""The width of vectors whose instructions all take masks."""


def has_masks(target: Target) -> bool:
    """True for machines where loading some lanes of a vector costs what loading all of them does."""
    return target.vector_bits >= MASKED_BITS


@dataclass(frozen=True)
class _Line:
    """A line of the data that meets a block."""

    outer: tuple[int, ...]
    """The taps of the dimensions before the last two."""
    offset: int
    """The distance from the first line that meets the block."""
    uses: tuple[tuple[int, int], ...]
    """The lines of the block, and the taps by which they meet it."""


@dataclass(frozen=True)
class _Load:
    """A vector of a line's elements, so many apart, at a distance from the first one that a vector of pixels meets."""

    distance: int
    step: int

    def lanes_from(self, start: PrimExpr, lanes: int) -> PrimExpr:
        """The indices of its elements."""
        first = simplify(start + self.distance)
        return ramp(first, lanes) if self.step == 1 else Ramp(first, int64(self.step), lanes)


@dataclass(frozen=True)
class _Channel:
    """What tiles of an output channel have in common."""

    weights: Mapping[tuple[int, ...], PrimExpr]
    """By the tap: vectors of equal elements."""
    results: Results


class LineWriter:
    """Writes the loops of one convolution."""

    def __init__(self, kernel: Kernel, tile: Tile) -> None:
        self.windows, self.results = kernel.windows, Results(kernel)
        self.dtype, self.lanes = str(self.windows.out.buffer.dtype), tile.lanes
        self.sizes = Sizes()
        *self.outer, self.last = self.windows.axes
        self.taps = list(product(*(range(axis.taps) for axis in self.windows.axes)))
        self.count = self._lines_of_block()
        """The lines of a block."""
        self.lines = self._met()
        self.loads = list(
            dict.fromkeys(load for tap in range(self.last.taps) for load in self._loads_of(tap))
        )
        """The vectors of a line of the data that are loaded for a vector of pixels."""
        self.vectors = self.sizes.named("vectors", ceildiv(self.last.size, self.lanes))
        """The vectors of a line of the result."""

    def _lines_of_block(self) -> int:
        if not self.outer:
            return 1
        most = MOST_LINES if self.last.stride == 1 else MOST_STRIDED
        most = max(1, min(most, MOST_PRODUCTS // len(self.taps)))
        size = self.outer[-1].size
        if not isinstance(size, IntImm):
            return most
        blocks = -(-max(size.value, 1) // most)
        return -(-max(size.value, 1) // blocks)

    def _met(self) -> list[_Line]:
        """The lines of the data that meet a block, in the order of memory."""
        outer = list(product(*(range(axis.taps) for axis in self.outer[:-1])))
        if not self.outer:
            return [_Line((), 0, ((0, 0),))]
        axis = self.outer[-1]
        uses: dict[int, list[tuple[int, int]]] = {}
        for r, tap in product(range(self.count), range(axis.taps)):
            uses.setdefault(r * axis.stride + tap * axis.dilation, []).append((r, tap))
        return [_Line(taps, offset, tuple(uses[offset])) for taps in outer for offset in sorted(uses)]

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
        """The output channels of the group of an image, whose data is a view: its place is checked once."""
        data, leading = self.windows.data, at if self.windows.depth is not None else at[:-1]
        extents = [axis.extent for axis in self.windows.axes]
        offset: PrimExpr = const(0, "int64")
        for index, size in zip([*leading, *(int64(0) for _ in extents)], data.shape, strict=True):
            offset = offset * size + index
        image = decl_buffer(extents, self.dtype, "image", data=data.data, elem_offset=simplify(offset))
        *batch, g = at
        count = self.windows.channels
        if is_const(count, 1):
            return DeclBuffer(image, self._channel(image, batch, g))
        return DeclBuffer(image, loop("o", count, lambda o: let(
            "co", simplify(g * count + o), lambda co: self._channel(image, batch, co))))  # fmt: skip

    def _channel(self, image: Buffer, batch: list[PrimExpr], co: PrimExpr) -> Stmt:
        """The lines of an output channel; what depends on the channel alone has names: weights, if they are few."""
        depth = [] if self.windows.depth is None else [const(0, "int64")]

        def weight(tap: tuple[int, ...]) -> PrimExpr:
            element = BufferLoad(self.windows.weight.buffer, (co, *depth, *map(int64, tap)))
            return spread(element, self.lanes)

        weights = {tap: weight(tap) for tap in self.taps}
        results, lets = self.results.of_channel([*batch, co])
        if len(self.taps) <= MOST_WEIGHTS:
            names = {tap: Var("w", value.dtype) for tap, value in weights.items()}
            lets = [*lets, *((names[tap], value) for tap, value in weights.items())]
            weights = {**names}
        body = self._blocks(image, _Channel(weights, results), [*batch, co], [])
        for name, value in reversed(lets):
            body = LetStmt(name, value, body)
        return body

    def _blocks(self, image: Buffer, channel: _Channel, place: list[PrimExpr], ys: list[PrimExpr]) -> Stmt:
        """The blocks of lines, for each place in the dimensions before the last two."""
        d = len(ys)
        if d < len(self.outer) - 1:
            return loop(f"y{d}", self.outer[d].size, lambda y: self._blocks(image, channel, place, [*ys, y]))

        def vectors(first: list[PrimExpr]) -> Stmt:
            return loop("v", self.vectors, lambda v: self._tile(image, channel, place, first, v))

        if not self.outer:
            return vectors([])
        size, count = self.outer[-1].size, self.count
        return loop("b", simplify(ceildiv(size, count)), lambda b: let(
            "line", simplify(b * count), lambda line: vectors([*ys, line])))  # fmt: skip

    # ------------------------------------------------------------------ a tile

    def _tile(
        self, image: Buffer, channel: _Channel, place: list[PrimExpr], first: list[PrimExpr], v: Var
    ) -> Stmt:
        """One vector of pixels of each line of a block, the first of which has the indices `first`."""
        start = simplify(v * (self.lanes * self.last.stride) - self.last.before)
        zero, end = Broadcast(const(0, "int64"), self.lanes), Broadcast(self.last.extent, self.lanes)
        accesses: dict[_Load, tuple[PrimExpr, PrimExpr]] = {}
        masks: list[tuple[Var, PrimExpr]] = []
        for load in self.loads:
            at = load.lanes_from(start, self.lanes)
            mask = Var("mask", f"boolx{self.lanes}")
            masks.append((mask, And(at >= zero, at < end)))
            accesses[load] = at, mask

        def tile(acc: Buffer) -> Stmt:
            cleared = [vector_store(acc, (r, 0), self.zero) for r in range(self.count)]
            added = [self._line(line, image, channel, acc, first, accesses) for line in self.lines]
            stored = [self._store(acc, r, channel, place, first, v) for r in range(self.count)]
            return block([*cleared, *added, *stored])

        result = alloc("acc", (self.count, self.lanes), self.dtype, "local", tile)
        for name, value in reversed(masks):
            result = LetStmt(name, value, result)
        return result

    def _line(
        self, line: _Line, image: Buffer, channel: _Channel, acc: Buffer, first: list[PrimExpr],
        accesses: dict[_Load, tuple[PrimExpr, PrimExpr]],
    ) -> Stmt:  # fmt: skip
        """Add what one line of the data gives, if it is inside of the data."""
        ys: list[Var] = []
        values: list[PrimExpr] = []
        for d, (axis, at) in enumerate(zip(self.outer, first, strict=True)):
            offset = line.offset if d == len(first) - 1 else line.outer[d] * axis.dilation
            values.append(simplify(at * axis.stride + offset - axis.before))
            ys.append(Var("y", "int64"))
        names = {load: Var("x", f"{self.dtype}x{self.lanes}") for load in self.loads}
        stmts: list[Stmt] = []
        for (r, tap), j in product(line.uses, range(self.last.taps)):
            weight = channel.weights[(*line.outer, tap, j) if self.outer else (j,)]
            total = Add(vector_load(acc, (r, 0), self.lanes), Mul(weight, self._element(j, names)))
            stmts.append(vector_store(acc, (r, 0), total))
        result = block(stmts)
        for load, (at, mask) in reversed(accesses.items()):
            result = LetStmt(names[load], BufferLoad(image, (*ys, at), mask), result)
        for y, axis, value in zip(ys, self.outer, values, strict=True):
            result = LetStmt(y, value, IfThenElse(And(y >= 0, y < axis.extent), result))
        return result

    def _element(self, tap: int, vectors: Mapping[_Load, PrimExpr]) -> PrimExpr:
        """The elements that a tap of the last dimension meets on a line, of the vectors that were loaded."""
        parts = [vectors[load] for load in self._loads_of(tap)]
        if len(parts) == 1:
            return parts[0]
        stride = self.last.stride
        phase = tap * self.last.dilation % stride
        return Shuffle(tuple(parts), [stride * lane + phase for lane in range(self.lanes)])

    def _loads_of(self, tap: int) -> list[_Load]:
        """The vectors in which the elements are that a tap of the last dimension meets."""
        distance, stride = tap * self.last.dilation, self.last.stride
        if stride == 1 or stride > LONGEST_SHUFFLE:
            return [_Load(distance, stride)]
        return [_Load(distance // stride * stride + part * self.lanes, 1) for part in range(stride)]

    def _store(
        self, acc: Buffer, r: int, channel: _Channel, place: list[PrimExpr], first: list[PrimExpr], v: Var
    ) -> Stmt:
        """Store the pixels of a line of the block, if the result has that line."""

        def stored(line: list[PrimExpr]) -> Stmt:
            def one(lane: Var) -> Stmt:
                x = simplify(v * self.lanes) + lane
                return let("total", BufferLoad(acc, (int64(r), lane)), lambda total: IfThenElse(
                    x < self.last.size, channel.results.put([*place, *line, x], total)))  # fmt: skip

            return loop("lane", self.lanes, one, ForKind.VECTORIZED)

        if not first:
            return stored([])
        *ys, begin = first
        size = self.outer[-1].size
        if isinstance(size, IntImm) and size.value % self.count == 0:
            return stored([*ys, simplify(begin + r)])
        return let("y", simplify(begin + r), lambda y: IfThenElse(y < size, stored([*ys, y])))

    @property
    def zero(self) -> PrimExpr:
        return spread(const(0, self.dtype), self.lanes)


__all__ = ["LineWriter", "has_masks"]
