"""The rule for 3×3 convolutions of stride 1 by Winograd's F(4×4, 3×3): a quarter of the multiplications.

    for n, co, h, w, ci, i, j in T.grid(…):         U[io, e, p, ci] = G · W[co, ci] · Gᵀ            36 elements e
        with T.block("conv"):                       P = the image, split by the rests of 4 (see `planes`)
            with T.init(): C[n, co, h, w] = 0       for item in T.parallel(N * panels):             32 tiles of 4×4
            C[n, co, h, w] += …                         V[e, ci, :] = Bᵀ · (6×6 elements of each tile) · B
                                                        for io in blocks of channels:
                                                            M[e, p, :] = sum over ci of U[io, e, p, ci] * V[e, ci, :]
                                                            C[n, co, …] = Aᵀ · M · A                the tiles' pixels

Lanes of vectors are tiles of a line, so that data and results are read and written as they are in memory, and the sums
are 36 products of matrices. The polynomials are evaluated at 0, ±√½, ±√2 and ∞, where results are as exact as those of
the direct form: the error of an element is at most `ERROR` roundings of the sum of the magnitudes of its products.
Weights are transformed in each call, which takes about as long as `TRANSFORM` multiplications for each of them; those
that are known when a program is built are transformed then.

S. Winograd, *Arithmetic Complexity of Computations*, 1980; A. Lavin and S. Gray, *Fast Algorithms for Convolutional
Neural Networks*, 2015.

Refused: what the direct form computes faster (images of few tiles), other kernels, strides and dilations,
groups, float64, unknown sizes (but of the batch), and everything where ``relax.fast_algorithms`` is False in the
PassContext.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ...ir.transform import PassContext
from ...prim import Add, And, IntImm, Mul, PrimExpr, Sub, Var, const, simplify
from ...prim.intrin import ceildiv, floordiv
from ...prim.intrin import max as maximum
from ...prim.intrin import min as minimum
from ...target import Target
from ...tir import (
    Broadcast,
    Buffer,
    BufferLoad,
    ForKind,
    IfThenElse,
    IterVar,
    LetStmt,
    PrimFunc,
    Range,
    Shuffle,
    Stmt,
)
from ...tir.buffer import decl_buffer
from ..build import alloc, block, int64, let, loop, ramp, scratch, spread, vector_load, vector_store
from ..contraction import size_of
from ..rule import PackedFunction, ScheduleRule
from .packed_panels import users_of
from .planes import Planes, Sizes, digits, filled, window
from .results import Results, vectors_of_line
from .tiling import Tile, tile_for
from .windows import Axis, Kernel, Windows, rewritten_kernels

FAST_ALGORITHMS: Final = "relax.fast_algorithms"
"""Configuration: True (the default) for algorithms that round differently from the sums as they are written."""
ERROR: Final = 64
"""Bound of the error of an element, in units of 2⁻²⁴ times the sum of the magnitudes of its products."""
TRANSFORM: Final = 1000
"""The cost of transforming one kernel, in multiplications of the direct form."""
OVERHEAD: Final = 1.6
"""The cost of sums and transforms of data and results, over that of the sums alone."""

GROUP: Final = 96
"""The most channels whose sums are in the cache at a time."""
M: Final = 4
"""Pixels of a tile in each direction."""
N: Final = 6
"""Elements of the data that they meet."""
A: Final = 0.5**0.5
B: Final = 2**0.5
"""The points are 0, ±A, ±B and ∞, where A · B = 1."""


class Winograd(ScheduleRule):
    """The rule for 3×3 convolutions of stride 1."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del tunable
        if not func.attrs.get("tir.noalias") or not PassContext.current().config.get(FAST_ALGORITHMS, True):
            return None
        tile = tile_for(target, 32)

        def rewrite(kernel: Kernel) -> Stmt | None:
            pays = tile.lanes >= M and _pays(kernel.windows, tile.lanes, TRANSFORM)
            return _Writer(kernel, tile).kernel() if pays else None

        return rewritten_kernels(func, rewrite)

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | None:
        """The function for weights that are transformed already."""
        if not func.attrs.get("tir.noalias") or not PassContext.current().config.get(FAST_ALGORITHMS, True):
            return None
        tile, buffers = tile_for(target, 32), dict(func.buffer_map)
        positions = {buffers[func.params[i]]: i for i in constants if func.params[i] in buffers}
        packings: dict[int, KernelTransform] = {}

        def rewrite(kernel: Kernel) -> Stmt | None:
            weights = kernel.windows.weight.buffer
            position = positions.get(weights)
            if position is None or position in packings or users_of(func, weights) != 1:
                return None
            if tile.lanes < M or not _pays(kernel.windows, tile.lanes, 0):
                return None
            writer = _Writer(kernel, tile)
            packings[position] = transform = writer.transform()
            packed = decl_buffer(transform.shape, "float32", f"{weights.name}_transformed")
            buffers[func.params[position]] = packed
            return writer.kernel(packed)

        arranged = rewritten_kernels(func, rewrite)
        return None if arranged is None else PackedFunction(arranged.replace(buffer_map=buffers), packings)


def _pays(windows: Windows, lanes: int, transform: int) -> bool:
    """True for convolutions that have this form, and are faster in it, if to transform a kernel costs so much."""
    if len(windows.axes) != 2 or windows.groups != 1 or windows.depth is None:
        return False
    if any((a.taps, a.stride, a.dilation) != (3, 1, 1) for a in windows.axes):
        return False
    inputs, outputs = windows.inputs, windows.channels
    if windows.out.buffer.dtype != "float32" or not (
        isinstance(inputs, IntImm) and isinstance(outputs, IntImm)
    ):
        return False
    if min(inputs.value, outputs.value) < 16:
        return False
    height, width = (axis.size for axis in windows.axes)
    if not (isinstance(height, IntImm) and isinstance(width, IntImm)):
        return False
    rows, columns = -(-height.value // M), -(-width.value // M)
    tiles = -(-((rows - 1) * (columns + 1) + columns) // lanes) * lanes
    """Those of whole vectors; there is a place without a tile between two lines."""
    return tiles * N * N * OVERHEAD + transform < height.value * width.value * 9


@dataclass(frozen=True)
class KernelTransform:
    """Weights as a convolution reads them: U[io, e, p, ci] = G · W[co, ci] · Gᵀ with co = io * height + p."""

    outputs: int
    inputs: int
    height: int
    """The channels of a block."""
    lanes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The blocks of output channels, the elements of a transform, a block's channels, and the input channels."""
        depth = -(-self.inputs // self.lanes) * self.lanes
        return -(-self.outputs // self.height), N * N, self.height, depth

    def __call__(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        small, large = 1 / (2 * A * A * (A * A - B * B)), 1 / (2 * B * B * (B * B - A * A))
        rows = [[scale, sign * scale * point, scale * point * point]
                for point, scale in ((A, small), (B, large)) for sign in (1, -1)]  # fmt: skip
        g = np.array([[1, 0, 0], *rows, [0, 0, 1]])
        elements = np.einsum("ik,ockl,jl->ocij", g, array.astype("float64"), g)
        blocks, count, height, depth = self.shape
        result = np.zeros((blocks * height, depth, count), "float32")
        result[: self.outputs, : self.inputs] = elements.reshape(self.outputs, self.inputs, count)
        result[self.outputs :] = result[self.outputs - 1]  # rows of no channel store the last channel again
        return np.transpose(np.reshape(result, (blocks, height, depth, count)), (0, 3, 1, 2))


class _Names:
    """Values by names, computed one after the other."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._lets: list[tuple[Var, PrimExpr]] = []

    def of(self, value: PrimExpr) -> Var:
        """The name of a value."""
        var = Var(f"t{len(self._lets)}", value.dtype)
        self._lets.append((var, value))
        return var

    def times(self, factor: float, value: PrimExpr) -> PrimExpr:
        """A multiple of a vector."""
        return Mul(Broadcast(const(factor, str(value.dtype.element_of)), self._lanes), value)

    def around(self, body: Stmt) -> Stmt:
        """`body`, in which the names stand for the values."""
        for var, value in reversed(self._lets):
            body = LetStmt(var, value, body)
        return body


def _data(names: _Names, d: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Bᵀ · d: the values at the points of the polynomial with these coefficients, each without the other points."""
    times, of = names.times, names.of
    both = A * A + B * B
    u, v = of(Sub(d[4], times(B * B, d[2]))), of(Sub(d[3], times(B * B, d[1])))
    s, t = of(Sub(d[4], times(A * A, d[2]))), of(Sub(d[3], times(A * A, d[1])))
    return [
        Add(d[0], Sub(d[4], times(both, d[2]))), Add(u, times(A, v)), Sub(u, times(A, v)),
        Add(s, times(B, t)), Sub(s, times(B, t)), Add(d[1], Sub(d[5], times(both, d[3]))),
    ]  # fmt: skip


def _kernel(names: _Names, g: Sequence[PrimExpr]) -> list[PrimExpr]:
    """G · g: the values at the points of the polynomial of a kernel's line, over what `_data` multiplies by."""
    times, of = names.times, names.of
    small, large = 1 / (2 * A * A * (A * A - B * B)), 1 / (2 * B * B * (B * B - A * A))
    rows: list[PrimExpr] = [g[0]]
    for point, scale in ((A, small), (B, large)):
        even = of(Add(times(scale, g[0]), times(scale * point * point, g[2])))
        odd = of(times(scale * point, g[1]))
        rows += [Add(even, odd), Sub(even, odd)]
    return [*rows, g[2]]


def _pixels(names: _Names, m: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Aᵀ · m: the pixels of a line of a tile by the sums at the points."""
    times, of = names.times, names.of
    s, d = of(Add(m[1], m[2])), of(Sub(m[1], m[2]))
    t, e = of(Add(m[3], m[4])), of(Sub(m[3], m[4]))
    return [
        Add(m[0], Add(s, t)), Add(times(A, d), times(B, e)), Add(times(A * A, s), times(B * B, t)),
        Add(m[5], Add(times(A**3, d), times(B**3, e))),
    ]  # fmt: skip


Line = Callable[[_Names, Sequence[PrimExpr]], list[PrimExpr]]


def _transformed(
    size: int,
    count: int,
    lanes: int,
    line: Line,
    load: Callable[[PrimExpr, PrimExpr], PrimExpr],
    store: Callable[[PrimExpr, Sequence[PrimExpr]], Stmt],
) -> Stmt:
    """`store` of each of `count` rows of line · X · lineᵀ, where `load` has the elements of the square X."""

    def of_line(elements: Sequence[PrimExpr], body: Callable[[Sequence[PrimExpr]], Stmt]) -> Stmt:
        names = _Names(lanes)
        results = line(names, [names.of(element) for element in elements])
        return names.around(body([names.of(result) for result in results]))

    def body(half: Buffer) -> Stmt:
        def column(j: Var) -> Stmt:
            return of_line([load(int64(i), j) for i in range(size)], lambda values: block(
                vector_store(half, (i, j * lanes), value) for i, value in enumerate(values)))  # fmt: skip

        def row(i: Var) -> Stmt:
            elements = [vector_load(half, (i, j * lanes), lanes) for j in range(size)]
            return of_line(elements, lambda values: store(i, values))

        return block([loop("j", size, column, ForKind.UNROLLED), loop("i", count, row, ForKind.UNROLLED)])

    return alloc("half", (count, size * lanes), "float32", "local", body)


class _Writer:
    """Writes the loops of one convolution."""

    def __init__(self, kernel: Kernel, tile: Tile) -> None:
        self.windows, self.results = kernel.windows, Results(kernel)
        self.dtype, self.lanes = str(self.windows.out.buffer.dtype), tile.lanes
        self.sizes = Sizes()
        axes = tuple(
            Axis(self._tiles(d, a), N, M, 1, a.before, a.extent) for d, a in enumerate(self.windows.axes)
        )
        self.tiled = replace(self.windows, axes=axes)
        self.planes = Planes(self.tiled, tile, self.sizes)
        self.width, self.vectors, self.height = self.planes.width, self.planes.vectors, self.planes.height
        self.panels = self.sizes.named("panels", ceildiv(self.planes.pixels, self.width))
        self.inputs, self.outputs = _number(self.windows.inputs), _number(self.windows.channels)
        self.blocks = -(-self.outputs // self.height)
        self.group = max(min(GROUP // self.height, self.blocks), 1)
        """The blocks of channels whose sums are in the cache at a time."""

    def _tiles(self, d: int, axis: Axis) -> IterVar:
        """The tiles along an axis, as pixels of the image that is split."""
        count = self.sizes.named(f"tiles{d}", ceildiv(axis.size, M))
        return IterVar(Range.from_min_extent(const(0, "int64"), count), Var(f"tile{d}", "int64"))

    def transform(self) -> KernelTransform:
        """The transform of the weights."""
        return KernelTransform(self.outputs, self.inputs, self.height, self.lanes)

    def kernel(self, transformed: Buffer | None = None) -> Stmt:
        """The transform of the weights, unless they are transformed; the copy of the data; and all panels of tiles."""
        leading = [size_of(v) for v in self.windows.batch]

        def panels(weights: Buffer) -> Stmt:
            return scratch("planes", (*leading, self.inputs, self.planes.size), self.dtype, lambda planes: block([
                filled(self.tiled, self.planes, planes, [*leading, int64(self.inputs)]),
                self._items(weights, planes, leading)]))  # fmt: skip

        if transformed is not None:
            return self.sizes.around(panels(transformed))
        return self.sizes.around(scratch("weights", self.transform().shape, self.dtype, lambda weights: block([
            self._weights(weights), panels(weights)])))  # fmt: skip

    # ------------------------------------------------------------------ weights

    def _weights(self, weights: Buffer) -> Stmt:
        source, lanes = self.windows.weight.buffer, self.lanes

        def vector(io: Var, p: Var, c: Var) -> Stmt:
            channel = minimum(io * self.height + p, self.outputs - 1)
            inputs = ramp(c * lanes, lanes)
            mask = None if self.inputs % lanes == 0 else inputs < Broadcast(int64(self.inputs), lanes)

            def load(i: PrimExpr, j: PrimExpr) -> PrimExpr:
                taps = (spread(at, lanes) for at in (i, j))
                return BufferLoad(source, (spread(channel, lanes), inputs, *taps), mask)

            return _transformed(3, N, lanes, _kernel, load, lambda i, values: block(
                vector_store(weights, (io, i * N + j, p, c * lanes), value)
                for j, value in enumerate(values)))  # fmt: skip

        return loop("io", self.blocks, lambda io: loop("p", self.height, lambda p: loop(
            "c", -(-self.inputs // lanes), lambda c: vector(io, p, c))), ForKind.PARALLEL)  # fmt: skip

    # ------------------------------------------------------------------ panels

    def _items(self, weights: Buffer, planes: Buffer, leading: Sequence[PrimExpr]) -> Stmt:
        radix = [(f"n{d}", size) for d, size in enumerate(leading)]
        radix.append(("jo", self.panels))
        total: PrimExpr = const(1, "int64")
        for _, size in radix:
            total = total * size

        def item(flat: Var) -> Stmt:
            return digits(flat, radix, lambda at: let("base", simplify(at[-1] * self.width), lambda base: self._panel(
                weights, planes, at[:-1], base)))  # fmt: skip

        return loop("item", simplify(total), item, ForKind.PARALLEL)

    def _panel(self, weights: Buffer, planes: Buffer, batch: list[PrimExpr], base: Var) -> Stmt:
        """The pixels of the tiles of a panel."""

        def blocks(data: Buffer, sums: Buffer, group: PrimExpr) -> Stmt:
            first = simplify(group * self.group)
            count = simplify(minimum(const(self.group, "int64"), self.blocks - first))
            return block([
                loop("e", N * N, lambda e: loop("io", count, lambda io: self._product(
                    weights, data, sums, e, io, simplify(first + io)))),
                loop("io", count, lambda io: loop("p", self.height, lambda p: let(
                    "co", minimum((first + io) * self.height + p, self.outputs - 1),
                    lambda co: self._channel(sums, [*batch, co], simplify(io * self.height + p), base)))),
            ])  # fmt: skip

        def body(data: Buffer, sums: Buffer) -> Stmt:
            groups = -(-self.blocks // self.group)
            every = loop("group", groups, lambda group: blocks(data, sums, group))
            return block([self._data(planes, data, batch, base), every])

        rows = self.group * self.height + 1
        return scratch("data", (N * N, self.inputs + 1, self.width), self.dtype, lambda data: scratch(
            "sums", (N * N, rows, self.width), self.dtype, lambda sums: body(data, sums)))  # fmt: skip

    def _data(self, planes: Buffer, data: Buffer, batch: list[PrimExpr], base: Var) -> Stmt:
        """The transform of the data."""
        lanes = self.lanes

        def vector(ci: Var, v: Var) -> Stmt:
            def of_window(part: Buffer, place: Sequence[PrimExpr]) -> Stmt:
                *outer, first = place

                def load(i: PrimExpr, j: PrimExpr) -> PrimExpr:
                    return vector_load(part, (*outer, simplify(self.planes.tap([i, j]) + first)), lanes)

                return _transformed(N, N, lanes, _data, load, lambda i, values: block(
                    vector_store(data, (i * N + j, ci, v * lanes), value)
                    for j, value in enumerate(values)))  # fmt: skip

            reach = (M * M - 1) * _number(self.planes.area) + _number(self.planes.line) + 1
            return window(planes, (*batch, ci, base + v * lanes), reach + lanes, of_window)

        return loop("ci", self.inputs, lambda ci: loop("v", self.vectors, lambda v: vector(ci, v)))

    def _product(
        self, weights: Buffer, data: Buffer, sums: Buffer, e: Var, io: PrimExpr, number: PrimExpr
    ) -> Stmt:
        """The sums of one element of all tiles of a panel, for a block of channels, the `io`-th of its group."""
        lanes = self.lanes

        def tile(acc: Buffer) -> Stmt:
            def add(ci: Var, p: PrimExpr, c: PrimExpr) -> Stmt:
                left = spread(BufferLoad(weights, (number, e, p, ci)), lanes)
                product = Mul(left, vector_load(data, (e, ci, c), lanes))
                return vector_store(acc, (p, c), Add(vector_load(acc, (p, c), lanes), product))

            def store(p: PrimExpr, c: PrimExpr) -> Stmt:
                row = io * self.height + p
                return vector_store(sums, (e, row, c), vector_load(acc, (p, c), lanes))

            zero = spread(const(0, self.dtype), lanes)
            return block([
                self._each(lambda p, c: vector_store(acc, (p, c), zero)),
                loop("ci", self.inputs, lambda ci: self._each(lambda p, c: add(ci, p, c))),
                self._each(store),
            ])  # fmt: skip

        return alloc("acc", (self.height, self.width), self.dtype, "local", tile)

    def _each(self, body: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
        """A statement for each vector of a register tile, told its row and its first column; written out."""
        return loop("p", self.height, lambda p: loop(
            "v", self.vectors, lambda v: body(p, v * self.lanes), ForKind.UNROLLED), ForKind.UNROLLED)  # fmt: skip

    # ------------------------------------------------------------------ results

    def _channel(self, sums: Buffer, leading: list[PrimExpr], p: PrimExpr, base: Var) -> Stmt:
        """The pixels of one channel: lines of the tiles side by side, then as many of them as are pixels."""
        lanes = self.lanes

        def vector(lines: Buffer, v: Var) -> Stmt:
            def load(i: PrimExpr, j: PrimExpr) -> PrimExpr:
                return vector_load(sums, (i * N + j, p, v * lanes), lanes)

            def interleaved(a: PrimExpr, row: Sequence[PrimExpr], k: int) -> Stmt:
                order = [lane % M * lanes + lanes // M * k + lane // M for lane in range(lanes)]
                return vector_store(lines, (a, (v * M + k) * lanes), Shuffle(tuple(row), order))

            return _transformed(N, M, lanes, _pixels, load, lambda a, row: block(
                interleaved(a, row, k) for k in range(M)))  # fmt: skip

        return scratch("lines", (M, self.width * M), self.dtype, lambda lines: block([
            loop("v", self.vectors, lambda v: vector(lines, v)), self._lines(lines, leading, base)]))  # fmt: skip

    def _lines(self, lines: Buffer, leading: list[PrimExpr], base: Var) -> Stmt:
        """Store what are pixels of the lines of the tiles of a panel."""
        line = self.planes.line
        divisor = line if isinstance(line, IntImm) else maximum(line, const(1, "int64"))
        end = floordiv(base + self.width - 1, divisor)

        def row(number: Var) -> Stmt:
            return let("begin", (base - number * line) * M, lambda begin: loop("a", M, lambda a: let(
                "y", number * M + a, lambda y: self._line(lines, leading, begin, a, y))))  # fmt: skip

        return let("first", floordiv(base, divisor), lambda first: loop(
            "r", simplify(end - first + 1), lambda r: let("number", first + r, row)))  # fmt: skip

    def _line(self, lines: Buffer, leading: list[PrimExpr], begin: Var, a: Var, y: Var) -> Stmt:
        lanes, (height, width) = self.lanes, (axis.size for axis in self.windows.axes)

        def vector(c: Var) -> Stmt:
            return self.results.vector(
                [*leading, y], begin + c, lanes, lambda lane: BufferLoad(lines, (a, c + lane))
            )

        return IfThenElse(
            And(y >= 0, y < height), vectors_of_line(begin, width, lanes, self.vectors * M, vector)
        )


def _number(size: PrimExpr) -> int:
    assert isinstance(size, IntImm)
    return size.value


__all__ = ["ERROR", "FAST_ALGORITHMS", "KernelTransform", "Winograd"]
