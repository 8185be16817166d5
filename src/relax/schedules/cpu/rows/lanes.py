"""Reductions along memory with several accumulator vectors, combined at the end.

    for k in range(100):                       lanes = T.alloc_buffer((4, 16), scope="local")       0 in all lanes
        S[0] = S[0] + A[k]                     for v in range(1):
                                                   for u in T.unroll(4):
                                                       for l in T.vectorized(16):
                                                           lanes[u, l] += A[v * 64 + u * 16 + l]
                                               for v in range(3):
                                                   for l in T.vectorized(16):
                                                       k = 64 + v * 16 + l
                                                       lanes[0, l] = lanes[0, l] + A[k] if k < 100 else lanes[0, l]
                                               S[0] = T.vector_reduce_add(lanes[0, :] + … + lanes[3, :])

Reductions with several results, such as an index and a value, are combined lane by lane. A sum of floats with more than
32 additions per lane consists of blocks, whose sums are added to totals in a wider dtype (`sum_blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import add
from typing import Final

from ....ir import Node, structural_equal
from ....prim import Add, Call, FloatImm, Max, Min, Mul, PrimExpr, Select, Var, const, is_const, simplify
from ....prim.instructions import vector_reduce_add, vector_reduce_max, vector_reduce_min, vector_reduce_mul
from ....prim.intrin import ceildiv, floordiv, floormod, if_then_else
from ....target import Target
from ....tir import AllocBuffer, Buffer, BufferLoad, BufferStore, For, ForKind, IfThenElse, LetStmt, Stmt
from ....tir.buffer import decl_buffer
from ....tir.functor import StmtExprMutator, post_order_visit, substitute
from ....tir.nests import loads_in
from ....tir.renew import renew_bound_vars
from ....tir.schedule.reducers import Combination
from ...build import block, loop, spread, vector_load, vector_store
from ...stages import Axis, Stage
from ...straight import Binding, bound
from .passes import Element, Pass, Redirect, operation_of, store_all
from .sum_blocks import TERMS, blocks_of, float_sums, total_dtype

LANE_REDUCTIONS: Final[dict[type[PrimExpr], Callable[[PrimExpr], PrimExpr]]] = {
    Add: vector_reduce_add, Max: vector_reduce_max, Min: vector_reduce_min, Mul: vector_reduce_mul,
}  # fmt: skip


def nested(axes: Sequence[Axis], body: Stmt) -> Stmt:
    """Return serial loops over `axes`."""
    for axis in reversed(axes):
        body = For(axis.var, const(0, axis.var.dtype), axis.extent, ForKind.SERIAL, body)
    return body


class Lanes:
    """Pass with reductions along memory, each with several accumulator vectors."""

    def __init__(self, target: Target, one: Pass, element: Element, vector: Axis, fixed: list[Binding]) -> None:
        self.element, self.vector = element, vector
        self.axes: tuple[Axis, ...] = (*(axis for axis in one.elements if axis is not vector), vector)
        """Loops over the elements; the last one is along memory."""
        self.fixed = fixed
        """Bindings before the loops along memory."""
        bits = max(min(buffer.dtype.bits, 32) for stage in element.updates for buffer in stage.buffers)
        self.lanes = max(target.machine.vector_bits // max(bits, 8), 1)
        self.count = self._vectors()
        self.sums = float_sums(element.updates)
        """Reductions that are computed in blocks."""
        step = self.count * self.lanes
        self.blocks = blocks_of(self.axes, TERMS * step, self._additions) if self.sums else None
        if self.blocks is None:
            self.sums = []
        else:
            places, self.axes = self.blocks.places, self.blocks.axes
            self.element, self.vector = element.at(places), self.axes[-1]
            self.fixed = [(var, substitute(value, places)) for var, value in fixed]

    def _additions(self, size: int) -> int:
        """Most additions to one accumulator in `size` elements along memory: the first one takes the remainder."""
        whole, left = divmod(size, self.count * self.lanes)
        return whole - (-left // self.lanes)

    def _vectors(self) -> int:
        """Accumulator vectors: enough to hide the latency of an addition, fewer for expensive elements."""
        calls = 0

        def visit(node: Node) -> None:
            nonlocal calls
            calls += isinstance(node, Call)

        for part in (*(v for _, v in self.element.lets), *(s.body for s in self.element.updates)):
            post_order_visit(part, visit)
        several = any(len(stage.buffers) > 1 for stage in self.element.updates)
        extremes = all(operation_of(s.combination) in (Max, Min) for s in self.element.updates if s.combination)
        most = 1 if several else 2 if calls else 8 if extremes else 4
        size = self.vector.size
        return most if size is None else min(most, max(-(-size // self.lanes), 1))

    def loops(self) -> Stmt:
        """Return the accumulators, the loops that fill them, and their final combination."""
        accumulators: dict[Buffer, Buffer] = {}
        for stage in self.element.updates:
            for buffer in stage.buffers:
                accumulators[buffer] = decl_buffer(
                    (self.count, self.lanes), str(buffer.dtype), f"{buffer.name}_lanes", scope="local"
                )
        others = [stage for stage in self.element.updates if all(stage.buffers != s.buffers for s in self.sums)]
        sums = [stage for stage in self.element.updates if stage not in others]
        totals = {buffer: self._total(buffer) for stage in sums for buffer in stage.buffers}
        filled = nested(self.axes[:-1], bound(self.fixed, block(self._filled(accumulators))))
        if self.blocks is not None:
            added = [self._added(accumulators[buffer], total) for buffer, total in totals.items()]
            filled = self.blocks.around(block([*(self._start(stage, accumulators) for stage in sums), filled, *added]))
        body: Stmt = block([
            *(self._start(stage, accumulators) for stage in others),
            *(vector_store(b, (0,), spread(const(0, str(b.dtype)), self.lanes)) for b in totals.values()),
            filled,
            *(self._end(stage, accumulators) for stage in others),
            *(self._of_totals(stage, totals) for stage in sums),
        ])  # fmt: skip
        for buffer in (*accumulators.values(), *totals.values()):
            body = AllocBuffer(buffer, body)
        return body

    def _total(self, buffer: Buffer) -> Buffer:
        """Totals of the blocks of a sum, one per lane."""
        return decl_buffer((self.lanes,), total_dtype(buffer.dtype), f"{buffer.name}_totals", scope="local")

    def _added(self, accumulator: Buffer, total: Buffer) -> Stmt:
        """Add the accumulators of a block to the totals."""
        vectors = [vector_load(accumulator, (u, 0), self.lanes) for u in range(self.count)]
        while len(vectors) > 1:
            vectors = [*map(add, vectors[::2], vectors[1::2]), *vectors[len(vectors) // 2 * 2 :]]
        so_far = vector_load(total, (0,), self.lanes)
        return vector_store(total, (0,), so_far + vectors[0].astype(str(so_far.dtype)))

    def _of_totals(self, stage: Stage, totals: dict[Buffer, Buffer]) -> Stmt:
        """Add the lanes of the totals and the initial values to the results."""
        stores: list[Stmt] = []
        for start in stage.starts:
            total = totals[start.buffer]
            value = vector_reduce_add(vector_load(total, (0,), self.lanes))
            if not isinstance(start.value, FloatImm) or start.value.value != 0:
                value = start.value.astype(str(total.dtype)) + value
            stores.append(start.replace(value=value.astype(str(start.buffer.dtype))))
        return block(stores)

    def _start(self, stage: Stage, accumulators: dict[Buffer, Buffer]) -> Stmt:
        assert stage.combination is not None
        values = zip(stage.combination.buffers, stage.combination.identity, strict=True)
        return block(
            vector_store(accumulators[buffer], (u, 0), spread(value, self.lanes))
            for buffer, value in values
            for u in range(self.count)
        )

    def _filled(self, accumulators: dict[Buffer, Buffer]) -> list[Stmt]:
        """Return the loop over whole blocks of vectors and the loop over remaining vectors, the last of them masked."""
        step = self.count * self.lanes
        extent = self.vector.extent
        whole, left = simplify(floordiv(extent, step)), simplify(floormod(extent, step))
        parts: list[Stmt] = []
        if not is_const(whole, 0):
            parts.append(loop("k", whole, lambda v: self._block(v * step, accumulators)))
        if not is_const(left, 0):
            start = simplify(whole * step)
            vectors = simplify(ceildiv(left, self.lanes))
            parts.append(loop("k", vectors, lambda v: self._vector(
                start + v * self.lanes, accumulators, const(0, "int64"), extent.astype("int64"))))  # fmt: skip
        return parts

    def _block(self, start: PrimExpr, accumulators: dict[Buffer, Buffer]) -> Stmt:
        if self.count == 1:
            return self._vector(start, accumulators, const(0, "int64"), None)
        return loop(
            "u", self.count, lambda u: self._vector(start + u * self.lanes, accumulators, u, None), ForKind.UNROLLED
        )

    def _vector(self, start: PrimExpr, accumulators: dict[Buffer, Buffer], u: PrimExpr, end: PrimExpr | None) -> Stmt:
        """Accumulate one vector of elements; ignore elements from `end` on."""

        def lane(at: Var) -> Stmt:
            place = start + at
            inside = None if end is None else place < end
            redirect = Redirect({b: (lambda _, acc=acc: (acc, (u, at))) for b, acc in accumulators.items()})
            parts: list[Stmt] = []
            stores = block(self.element.stores)
            if self.element.stores:
                parts.append(stores if inside is None else IfThenElse(inside, stores))
            for stage in self.element.updates:
                body = redirect.visit(stage.body)
                parts.append(body if inside is None else _Guarded(inside, accumulators.values()).visit(body))

            def wrap(value: PrimExpr) -> PrimExpr:
                return value if inside is None else if_then_else(inside, value, const(0, str(value.dtype)))

            result = self.element.statement(wrap, parts)
            moved = substitute(result, {self.vector.var: place.astype(self.vector.var.dtype)})
            assert isinstance(moved, Stmt)
            return renew_bound_vars(moved)

        return loop("lane", self.lanes, lane, ForKind.VECTORIZED)

    def _end(self, stage: Stage, accumulators: dict[Buffer, Buffer]) -> Stmt:
        """Combine the accumulators of a reduction and its initial value into the result."""
        combination = stage.combination
        assert combination is not None
        first = {store.buffer: store.value for store in stage.starts}
        starts = tuple(first[buffer] for buffer in combination.buffers)
        operation = operation_of(combination)
        (buffer, *_) = combination.buffers
        wide = buffer.dtype.is_integer or buffer.dtype in ("float32", "float64")
        if operation in LANE_REDUCTIONS and wide and self.lanes & (self.lanes - 1) == 0:
            acc = accumulators[buffer]
            total: tuple[PrimExpr, ...] = (vector_load(acc, (0, 0), self.lanes),)
            for u in range(1, self.count):
                total = combination.combine(total, (vector_load(acc, (u, 0), self.lanes),))
            return self.of_all_lanes(stage, total[0])
        return self._lane_by_lane(combination, starts, accumulators)

    def of_all_lanes(self, stage: Stage, vector: PrimExpr) -> Stmt:
        """Combine the lanes of a vector and the initial value into the result."""
        (start,), combination = stage.starts, stage.combination
        assert combination is not None
        operation = operation_of(combination)
        assert operation is not None
        value = LANE_REDUCTIONS[operation](vector)
        if not structural_equal(start.value, combination.identity[0]):
            (value,) = combination.combine((start.value,), (value,))
        return BufferStore(start.buffer, value, combination.indices)

    def _lane_by_lane(
        self, combination: Combination, starts: tuple[PrimExpr, ...], accumulators: dict[Buffer, Buffer]
    ) -> Stmt:
        """Combine the lanes in a loop over a copy in memory, as registers cannot be indexed by a variable."""
        copies = {b: decl_buffer((self.count, self.lanes), str(b.dtype), f"{b.name}_all") for b in combination.buffers}
        parts: list[Stmt] = [
            vector_store(copies[b], (u, 0), vector_load(accumulators[b], (u, 0), self.lanes))
            for b in combination.buffers
            for u in range(self.count)
        ]
        parts += [
            BufferStore(b, value, combination.indices) for b, value in zip(combination.buffers, starts, strict=True)
        ]
        so_far = tuple(BufferLoad(b, combination.indices) for b in combination.buffers)

        def combined(u: Var, at: Var) -> Stmt:
            more = tuple(BufferLoad(copies[b], (u, at)) for b in combination.buffers)
            return store_all(combination.buffers, combination.indices, combination.combine(so_far, more))

        parts.append(loop("u", self.count, lambda u: loop("lane", self.lanes, lambda at: combined(u, at))))
        body: Stmt = block(parts)
        for copy in copies.values():
            body = AllocBuffer(copy, body)
        return body


class _Guarded(StmtExprMutator):
    """Turns conditional stores into stores of a selection between the new and the old value.

    Accumulators are loaded unconditionally and selected by name: a selection between loads would become loads of single
    lanes, which keeps the accumulators in memory.
    """

    def __init__(self, condition: PrimExpr, accumulators: Iterable[Buffer]) -> None:
        super().__init__()
        self.condition, self.accumulators = condition, frozenset(accumulators)

    def visit_LetStmt(self, node: LetStmt) -> LetStmt:
        value = node.value
        if not self._is_there(value):
            value = if_then_else(self.condition, value, const(0, str(value.dtype)))
        return node.replace(value=value, body=self.visit(node.body))

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        so_far = BufferLoad(node.buffer, node.indices)
        if not self._is_there(node.value):
            return node.replace(value=if_then_else(self.condition, node.value, so_far))
        old, new = Var("old", so_far.dtype), Var("new", node.value.dtype)
        chosen = node.replace(value=Select(self.condition, new, old))
        return bound([(old, so_far), (new, node.value)], chosen)

    def _is_there(self, value: PrimExpr) -> bool:
        """True if the value can be computed whether or not the condition holds."""
        return all(load.buffer in self.accumulators for load in loads_in(value))
