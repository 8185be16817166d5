"""Weights of a Winograd convolution: transformed slots, and the taps themselves for direct sums.

constant weights        packed at compile time by `KernelTransform`, whose rows hold slots and taps
others                  transformed in each call, as below; direct sums read the taps from the operand

    for each vector of output channels in T.parallel(…):
        for ci in range(CI):
            U[group, e, place of ci and the vector] = G · W[co, ci] · Gᵀ        slots e of 36
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .....prim import PrimExpr, Select, Var, simplify
from .....prim.intrin import floordiv, floormod
from .....prim.intrin import min as minimum
from .....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, ForKind, Stmt
from .....tir.buffer import decl_buffer
from ....build import alloc, block, int64, loop, named, scratch, vector_load, vector_store
from ..planes import digits
from ..windows import Kernel
from .plan import Plan
from .transforms import of_line

DTYPE = "float32"


def entry(values: Sequence[int], place: PrimExpr) -> PrimExpr:
    """Value at index `place` of a table."""
    result: PrimExpr = int64(values[0])
    for i in range(1, len(values)):
        if values[i] != values[i - 1]:
            result = Select(place >= i, int64(values[i]), result)
    return result


class Weights:
    """Weights of one convolution, in memory as packed or transformed."""

    def __init__(self, kernel: Kernel, plan: Plan, packed: Buffer | None) -> None:
        self.windows, self.plan, self.packed = kernel.windows, plan, packed
        groups, rows, size = plan.weights.shape
        self.shape = groups, plan.slots if packed is None else rows, size

    def declared(self, body: Callable[[Buffer], Stmt]) -> Stmt:
        """Call `body` with the transformed weights, computed first unless they are packed."""
        if self.packed is not None:
            return body(self.packed)
        return scratch("weights", self.shape, DTYPE, lambda weights: block([
            self._transform(weights), body(weights)]))  # fmt: skip

    def place(self, panel: PrimExpr, k: PrimExpr, c: PrimExpr) -> PrimExpr:
        """Offset of the weights of channel `c` of chunk `k` within a slot, for a panel of output channels."""
        plan = self.plan
        return (k * (plan.chunk * plan.lanes * plan.panels) + panel * self.channels(k) + c) * plan.width

    def channels(self, k: PrimExpr) -> PrimExpr:
        """Channels of a chunk."""
        chunk = self.plan.chunk * self.plan.lanes
        if self.plan.inputs % chunk == 0:
            return int64(chunk)
        return minimum(int64(chunk), simplify(self.plan.inputs - k * chunk))

    def of_chunk(
        self,
        weights: Buffer,
        row: tuple[PrimExpr, PrimExpr],
        place: PrimExpr,
        channels: PrimExpr,
        body: Callable[[Buffer], Stmt],
    ) -> Stmt:
        """Call `body` with the weights of a chunk of channels and a panel, at an offset within a row.

        `row` is (group, slot or tap).
        """
        plan, (group, e) = self.plan, row
        start = (group * self.shape[1] + e) * self.shape[2] + place
        part = decl_buffer([simplify(channels * plan.width)], DTYPE, "panel_weights", data=weights.data,
                           elem_offset=simplify(start))  # fmt: skip
        return DeclBuffer(part, body(part))

    # ------------------------------------------------------------------ taps

    def each_tap(
        self,
        weights: Buffer,
        vector: tuple[PrimExpr, PrimExpr],
        k: Var,
        tap: tuple[PrimExpr, PrimExpr],
        body: Callable[[PrimExpr, Buffer, PrimExpr], Stmt],
    ) -> Stmt:
        """Call `body(channel, buffer, index)` for the weights of a tap (i, j) and each input channel of a chunk.

        `vector` is (group, number of the vector of output channels in it).
        """
        plan, (group, number) = self.plan, vector

        def of_source(taken: Buffer, c: Var) -> Stmt:
            source, first = self.windows.weight.buffer, (group * (plan.panels * plan.vectors) + number) * plan.lanes

            def lane(lane: Var) -> Stmt:
                channel = minimum(first + lane, int64(plan.outputs - 1))
                at = self.windows.pixel((channel, simplify(k * (plan.chunk * plan.lanes) + c)), *tap)
                return BufferStore(taken, BufferLoad(source, at).astype(DTYPE), (lane,))

            return block([loop("lane", plan.lanes, lane), body(c, taken, int64(0))])

        def of_row(row: PrimExpr, count: PrimExpr) -> Stmt:
            panel, v = simplify(floordiv(number, plan.vectors)), simplify(floormod(number, plan.vectors))
            return self.of_chunk(weights, (group, row), self.place(panel, k, int64(0)), count, lambda part: loop(
                "c", count, lambda c: body(c, part, c * plan.width + v * plan.lanes)))  # fmt: skip

        def channels(count: PrimExpr) -> Stmt:
            if self.packed is None:
                return alloc("taken", (plan.lanes,), DTYPE, "local", lambda taken: loop(
                    "c", count, lambda c: of_source(taken, c)))  # fmt: skip
            row = entry(plan.weights.rows_of_taps, simplify(tap[0] * plan.columns.taps + tap[1]))
            return named("row", simplify(row), lambda row: of_row(row, count))

        return named("channels", self.channels(k), channels)

    # ------------------------------------------------------------------ slots

    def _transform(self, weights: Buffer) -> Stmt:
        """Compute U, the transformed weights, at run time."""
        plan, source, lanes = self.plan, self.windows.weight.buffer, self.plan.lanes
        rows, columns, chunk = plan.rows, plan.columns, plan.chunk * plan.lanes

        def vector(at: Sequence[PrimExpr], ci: Var) -> Stmt:
            group, panel, v = at
            first = ((group * plan.panels + panel) * plan.vectors + v) * lanes

            def tap(lane: Var, i: int, j: int) -> PrimExpr:
                channels = minimum(first + lane, int64(plan.outputs - 1)), ci
                return BufferLoad(source, self.windows.pixel(channels, int64(i), int64(j))).astype(DTYPE)

            def gathered(squares: Buffer) -> Stmt:
                return loop("lane", lanes, lambda lane: block(
                    vector_store(squares, ((i * columns.taps + j) * lanes + lane,), tap(lane, i, j))
                    for i in range(rows.taps) for j in range(columns.taps)))  # fmt: skip

            def lines(squares: Buffer, half: Buffer) -> Stmt:
                def row(i: Var) -> Stmt:
                    taps = [vector_load(squares, ((i * columns.taps + j) * lanes,), lanes) for j in range(columns.taps)]
                    return of_line(columns.kernel, taps, lambda j, value: vector_store(half, (i, j * lanes), value))

                def column(j: Var) -> Stmt:
                    taps = [vector_load(half, (i, j * lanes), lanes) for i in range(rows.taps)]
                    place = self.place(panel, floordiv(ci, chunk), floormod(ci, chunk)) + v * lanes
                    return of_line(rows.kernel, taps, lambda i, value: vector_store(
                        weights, (group, i * columns.slots + j, simplify(place)), value))  # fmt: skip

                return block([
                    gathered(squares), loop("i", rows.taps, row), loop("j", columns.slots, column)])  # fmt: skip

            return scratch("squares", (rows.taps * columns.taps * lanes,), DTYPE, lambda squares: scratch(
                "half", (rows.taps, columns.slots * lanes), DTYPE, lambda half: lines(squares, half)))  # fmt: skip

        radix = [("group", int64(plan.groups)), ("panel", int64(plan.panels)), ("v", int64(plan.vectors))]
        return loop("vector", plan.groups * plan.panels * plan.vectors, lambda flat: digits(
            flat, radix, lambda at: loop("ci", plan.inputs, lambda ci: vector(at, ci))), ForKind.PARALLEL)  # fmt: skip
