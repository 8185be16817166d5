"""Padded copies of images split by stride phase, in which each tap of a convolution is a constant offset.

    X[n, c, y, x]                   P[n, c, plane]              for stride 2 and 1 pixel of padding
                                    P[n, c, ((a * 2 + b) * rows + r) * line + q] = X[n, c, r * 2 + a - 1, q * 2 + b - 1]

Tap (i, j) of pixel (h, w) reads element (h + i // 2, w + j // 2) of phase (i % 2, j % 2), so consecutive pixels read
consecutive elements for any stride. Elements outside the image are 0, as is one panel width after the last phase, which
whole vectors may reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from ....prim import And, IntImm, PrimExpr, SizeVar, Var, const, is_const, simplify
from ....prim.intrin import all as all_of
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import max as maximum
from ....tir import (
    AssertStmt,
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
from ....tir.buffer import decl_buffer
from ...build import block, int64, let, loop, product_of, ramp, spread, vector_store
from ..tile.division import Tile
from .windows import Axis, Windows


class Sizes:
    """Sizes bound to names, which proofs treat as opaque."""

    def __init__(self) -> None:
        self._names: list[tuple[Var, PrimExpr]] = []

    def named(self, name: str, size: PrimExpr) -> PrimExpr:
        """Return a name for a size; constants and variables are returned unchanged."""
        size = simplify(size)
        if isinstance(size, (IntImm, Var)):
            return size
        var = SizeVar(name, "int64")
        self._names.append((var, size))
        return var

    def around(self, body: Stmt) -> Stmt:
        """Bind the named sizes around `body`."""
        for var, size in reversed(self._names):
            body = LetStmt(var, size, body)
        return body


def items(name: str, radix: Sequence[tuple[str, PrimExpr]], body: Callable[[list[PrimExpr]], Stmt]) -> Stmt:
    """Return one parallel loop over all indices below the sizes of `radix`, with `body(indices)`."""
    return loop(name, product_of(size for _, size in radix), lambda flat: digits(flat, radix, body), ForKind.PARALLEL)


def digits(flat: PrimExpr, sizes: Sequence[tuple[str, PrimExpr]], body: Callable[[list[PrimExpr]], Stmt]) -> Stmt:
    """Call `body` with the mixed-radix digits of `flat`, one per (name, size)."""
    results: list[PrimExpr] = [const(0, "int64")] * len(sizes)
    values: list[tuple[Var, PrimExpr, PrimExpr]] = []
    several = [place for place, (_, size) in enumerate(sizes) if not is_const(size, 1)]
    for place in reversed(several):
        name, size = sizes[place]
        radix = simplify(maximum(size, const(1, "int64")))
        results[place] = var = Var(name, "int64")
        values.append((var, flat if place == several[0] else floormod(flat, radix), size))
        flat = floordiv(flat, radix)
    result = body(results)
    for var, value, size in reversed(values):
        if not isinstance(size, IntImm):
            result = AssertStmt(And(var >= 0, var < size), "an iteration is one of them", result)
        result = LetStmt(var, value, result)
    return result


def window(
    buffer: Buffer, place: Sequence[PrimExpr], width: int | PrimExpr, body: Callable[[Buffer, Sequence[PrimExpr]], Stmt]
) -> Stmt:
    """Call `body` with a buffer and indices from which `width` elements of the last dimension are used.

    For a buffer of dynamic size they are a view, whose bounds are checked once, where it is declared.
    """
    if all(isinstance(size, IntImm) for size in buffer.shape):
        return body(buffer, place)
    offset: PrimExpr = const(0, "int64")
    for at, size in zip(place, buffer.shape, strict=True):
        offset = offset * size + at
    view = decl_buffer([int64(width)], str(buffer.dtype), f"{buffer.name}_window", data=buffer.data,
                       elem_offset=simplify(offset))  # fmt: skip
    return DeclBuffer(view, body(view, [const(0, "int64")]))


class Planes:
    """Padded copy of a convolution's data, split by stride phase: its sizes, fill statement, and tap offsets."""

    def __init__(self, windows: Windows, tile: Tile, sizes: Sizes) -> None:
        self.windows, self.lanes = windows, tile.lanes
        axes = windows.axes
        self.steps = [gcd(a.stride, a.dilation) for a in axes]
        self.phases = [1 + max(t * a.dilation % a.stride // g for t in range(a.taps))
                       for a, g in zip(axes, self.steps, strict=True)]  # fmt: skip
        self.rows = [sizes.named(f"rows{d}", a.size + a.reach) for d, a in enumerate(axes[:-1])]
        last = axes[-1]
        self.line = sizes.named("line", last.size + last.reach)
        """Row pitch."""
        pixels = axes[0].size - 1
        for a, distance in zip(axes[1:], [*self.rows, self.line][1:], strict=True):
            pixels = pixels * distance + a.size - 1
        self.pixels = sizes.named("pixels", maximum(pixels + 1, const(0, "int64")))
        """Positions from the first pixel to the last."""
        self.height, self.vectors = self._shape(tile)
        self.width = self.vectors * self.lanes
        """Elements of a panel."""
        area = self.line
        for rows in self.rows:
            area = area * rows
        self.area = sizes.named("area", area)
        self.line_vectors = sizes.named("line_vectors", ceildiv(self.line, self.lanes))
        """Vectors of a row; the last one may reach into the next row."""
        count = 1
        for phases in self.phases:
            count *= phases
        self.count = count
        """Number of phases."""
        self.size = sizes.named("plane", self.area * count + self.width)

    def _shape(self, tile: Tile) -> tuple[int, int]:
        """(Rows, vectors) of the register tile."""
        return _tile(self.windows.channels, self.pixels, tile)

    def tap(self, taps: Sequence[PrimExpr]) -> PrimExpr:
        """Offset of a tap from the first tap."""
        phase: PrimExpr = const(0, "int64")
        shift: PrimExpr = const(0, "int64")
        for d, (axis, at) in enumerate(zip(self.windows.axes, taps, strict=True)):
            distance = simplify(at * axis.dilation)
            number = floordiv(floormod(distance, axis.stride), self.steps[d])
            phase = simplify(phase * self.phases[d] + number)
            shift = shift * (self.rows[d] if d < len(self.rows) else self.line) + floordiv(distance, axis.stride)
        return simplify(phase * self.area + shift)

    # ------------------------------------------------------------------ filling

    def fill(self, leading: Sequence[PrimExpr], source: Sequence[PrimExpr], plane: Buffer) -> Stmt:
        """Copy the image at indices `source` to the plane at indices `leading`."""
        rest = loop("v", self.vectors, lambda v: self._store(
            plane, leading, self.size - self.width + v * self.lanes, self._zeros(plane)))  # fmt: skip
        return block([self._phases(0, [], leading, source, plane), rest])

    def _phases(
        self, d: int, phases: list[PrimExpr], leading: Sequence[PrimExpr], source: Sequence[PrimExpr], plane: Buffer
    ) -> Stmt:
        if d == len(self.phases):
            return self._rows(0, phases, [], leading, source, plane)
        if self.phases[d] == 1:
            return self._phases(d + 1, [*phases, const(0, "int64")], leading, source, plane)
        return loop(f"a{d}", self.phases[d], lambda a: self._phases(d + 1, [*phases, a], leading, source, plane))

    def _rows(
        self, d: int, phases: list[PrimExpr], rows: list[PrimExpr], leading: Sequence[PrimExpr],
        source: Sequence[PrimExpr], plane: Buffer,
    ) -> Stmt:  # fmt: skip
        if d < len(self.rows):
            return loop(f"r{d}", self.rows[d], lambda r: self._rows(d + 1, phases, [*rows, r], leading, source, plane))
        place: PrimExpr = const(0, "int64")
        for phase, count in zip(phases, self.phases, strict=True):
            place = simplify(place * count + phase)
        for row, count in zip(rows, self.rows, strict=True):
            place = place * count + row
        axes = self.windows.axes
        ys = [
            row * a.stride + phase * g - a.before
            for row, phase, g, a in zip(rows, phases, self.steps, axes, strict=False)
        ]
        return let(
            "at", simplify(place * self.line), lambda at: self._line_of(at, ys, phases[-1], leading, source, plane)
        )

    def _line_of(
        self, at: PrimExpr, ys: Sequence[PrimExpr], phase: PrimExpr, leading: Sequence[PrimExpr],
        source: Sequence[PrimExpr], plane: Buffer,
    ) -> Stmt:  # fmt: skip
        """Copy one row of data, or fill it with zeros."""
        axis = self.windows.axes[-1]
        first = simplify(phase * self.steps[-1] - axis.before)

        def vectors(part: Buffer, place: Sequence[PrimExpr], value: Callable[[Var], PrimExpr]) -> Stmt:
            *outer, begin = place
            return loop("v", self.line_vectors, lambda v: vector_store(
                part, (*outer, simplify(begin + v * self.lanes)), value(v)))  # fmt: skip

        def filled(value: Callable[[Var], PrimExpr]) -> Stmt:
            return window(plane, (*leading, simplify(at)), simplify(self.line_vectors * self.lanes),
                          lambda part, place: vectors(part, place, value))  # fmt: skip

        def line(inside: Sequence[Var]) -> Stmt:
            return filled(lambda v: self._stored(
                [*source, *inside], simplify(v * (self.lanes * axis.stride) + first), plane))  # fmt: skip

        names = [Var(f"y{d}", "int64") for d in range(len(ys))]
        result = line(names)
        if names:
            axes = zip(names, self.windows.axes, strict=False)
            inside = all_of(*(bound for name, a in axes for bound in (name >= 0, name < a.extent)))
            result = IfThenElse(inside, result, filled(lambda v: self._zeros(plane)))
        for name, y in zip(names, ys, strict=True):
            result = LetStmt(name, simplify(y), result)
        return result

    def _store(self, plane: Buffer, leading: Sequence[PrimExpr], at: PrimExpr, value: PrimExpr) -> Stmt:
        """Store a vector into a plane."""
        return window(plane, (*leading, simplify(at)), self.lanes, lambda part, place: vector_store(part, place, value))

    def _stored(self, outer: Sequence[PrimExpr], start: PrimExpr, plane: Buffer) -> PrimExpr:
        """Strided vector of the data from `start` on, in the form stored in a plane."""
        elements = self._elements(self.windows.data, outer, start, self.windows.axes[-1])
        return elements.astype(str(plane.dtype.with_lanes(self.lanes)))

    def _elements(self, data: Buffer, outer: Sequence[PrimExpr], start: PrimExpr, axis: Axis) -> PrimExpr:
        """Strided vector of the data from `start` on; elements outside the data are 0."""

        def masked(first: PrimExpr, stride: int) -> PrimExpr:
            at = ramp(first, self.lanes) if stride == 1 else _steps(first, stride, self.lanes)
            zero, end = Broadcast(const(0, "int64"), self.lanes), Broadcast(axis.extent, self.lanes)
            return BufferLoad(data, (*outer, at), And(at >= zero, at < end))

        if axis.stride > 4 or axis.stride == 1:
            return masked(start, axis.stride)
        parts = [masked(start + part * self.lanes, 1) for part in range(axis.stride)]
        return Shuffle(tuple(parts), [axis.stride * lane for lane in range(self.lanes)])

    def _zeros(self, plane: Buffer) -> PrimExpr:
        return spread(const(0, str(plane.dtype)), self.lanes)


def _tile(channels: PrimExpr, pixels: PrimExpr, most: Tile) -> tuple[int, int]:
    """Choose (rows, vectors) of the register tile with the fewest steps in total."""
    if not isinstance(pixels, IntImm) or not isinstance(channels, IntImm):
        return most.rows, most.vectors
    vectors, rows = max(-(-pixels.value // most.lanes), 1), max(channels.value, 1)
    shapes = [(min(most.rows * most.vectors // v, rows), v) for v in range(1, most.vectors + 1)]
    shapes += [(height, v) for most_, v in shapes for height in range(max(most_ // 2, 1), most_)]

    def cost(shape: tuple[int, int]) -> int:
        height, width = shape
        step = max(height * width, 2 * width + height, 8) + 2
        return -(-rows // height) * -(-vectors // width) * step

    return min(reversed(shapes), key=cost)


def _steps(first: PrimExpr, stride: int, lanes: int) -> PrimExpr:
    return Ramp(int64(first), const(stride, "int64"), lanes)


def filled(windows: Windows, planes: Planes, plane: Buffer, sizes: Sequence[PrimExpr]) -> Stmt:
    """Return the parallel loop that fills the planes of all images and channels."""
    radix = [(f"n{d}", size) for d, size in enumerate(sizes)]
    return items("image", radix, lambda at: planes.fill(at, at if windows.depth is not None else at[:-1], plane))
