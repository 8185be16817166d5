"""Maximum or minimum of a row of floats, without testing each element for NaN.

    for k in range(1024):                      lanes, sums = T.alloc_buffer((4, 16)) twice          -inf, and 0
        M[0] = max(M[0], A[k])                 for v in range(16):
                                                   for u in T.unroll(4):
                                                       for l in T.vectorized(16):
                                                           a = A[v * 64 + u * 16 + l]
                                                           lanes[u, l] = a if a > lanes[u, l] else lanes[u, l]
                                                           sums[u, l] = sums[u, l] + a
                                               if the sum of all lanes is NaN:
                                                   the loops of `lanes`
                                               else:
                                                   M[0] = T.vector_reduce_max(the greatest of lanes[0, :] … lanes[3, :])

A NaN-propagating maximum takes three instructions per element; a maximum that ignores NaN takes one, and the sum, which
detects NaN, another. The sum is also NaN for infinities of both signs or overflowing sums: then the plain loops compute
the result, after the time of the fast ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ....ir import structural_equal
from ....prim import GT, LT, NE, Add, Max, Min, PrimExpr, Select, Var, const
from ....prim.instructions import vector_reduce_add
from ....runtime.records import dataclass
from ....target import Target
from ....tir import AllocBuffer, Buffer, BufferLoad, BufferStore, IfThenElse, LetStmt, Stmt
from ....tir.buffer import decl_buffer
from ...build import block, spread, vector_load, vector_store
from ...stages import Axis, Stage
from ...straight import Binding, bound
from .lanes import Lanes, nested
from .passes import Element, Pass, operation_of

MOST: Final = 4
"""Accumulator vectors needed to hide the latency of an addition."""
_BETTER: Final[dict[type[PrimExpr], type[GT] | type[LT]]] = {Max: GT, Min: LT}


@dataclass(frozen=True)
class Extreme:
    """Single reduction of a pass."""

    stage: Stage
    operation: type[PrimExpr]
    value: Var
    """Name of the element compared."""


def extreme_of(element: Element) -> Extreme | None:
    """Return the float maximum or minimum if a pass computes nothing else, or None."""
    if element.stores or len(element.updates) != 1:
        return None
    (stage,) = element.updates
    operation = None if stage.combination is None else operation_of(stage.combination)
    if operation not in _BETTER or stage.stores[0].buffer.dtype not in ("float32", "float64"):
        return None
    body = stage.body
    if not isinstance(body, BufferStore) or not isinstance(body.value, (Max, Min)):
        return None
    so_far = BufferLoad(body.buffer, body.indices)
    values = [x for x in (body.value.a, body.value.b) if not structural_equal(x, so_far)]
    return Extreme(stage, operation, values[0]) if len(values) == 1 and isinstance(values[0], Var) else None


class Extremes(Lanes):
    """A pass that computes one maximum or minimum along memory."""

    def __init__(
        self, target: Target, one: Pass, element: Element, vector: Axis, fixed: list[Binding], extreme: Extreme
    ) -> None:
        self.plain = Lanes(target, one, element, vector, fixed)
        self.extreme = extreme
        (buffer,) = extreme.stage.buffers
        self.sum = decl_buffer((1,), str(buffer.dtype), f"{buffer.name}_sum")
        """Sum of the elements, in which any NaN shows."""
        stage = replace(extreme.stage, body=self._update(buffer))
        super().__init__(target, one, replace(element, updates=(stage,)), vector, fixed)

    def _vectors(self) -> int:
        return min(super()._vectors(), MOST)

    def _update(self, buffer: Buffer) -> Stmt:
        """Update the running extreme and the sum with the current element."""
        (store,), value = self.extreme.stage.stores, self.extreme.value
        so_far, place = BufferLoad(buffer, store.indices), (const(0, "int64"),)
        old = Var("old", value.dtype)  # selecting between loads would become a masked store
        return block([
            LetStmt(old, so_far, store.replace(value=self._better(value, old))),
            BufferStore(self.sum, Add(BufferLoad(self.sum, place), value), place),
        ])  # fmt: skip

    def _better(self, value: PrimExpr, so_far: PrimExpr) -> PrimExpr:
        return Select(_BETTER[self.extreme.operation](value, so_far), value, so_far)

    def loops(self) -> Stmt:
        """Return the loops for rows without NaN, and the general loops run when the sum is NaN."""
        (buffer,) = self.extreme.stage.buffers
        results, sums = (
            decl_buffer((self.count, self.lanes), str(buffer.dtype), f"{buffer.name}_{name}", scope="local")
            for name in ("lanes", "sums")
        )
        accumulators = {buffer: results, self.sum: sums}
        zero = spread(const(0, str(buffer.dtype)), self.lanes)
        total = Var("total", str(buffer.dtype))
        body: Stmt = block([
            self._start(self.extreme.stage, accumulators),
            *(vector_store(sums, (u, 0), zero) for u in range(self.count)),
            nested(self.axes[:-1], bound(self.fixed, block(self._filled(accumulators)))),
            self._in_first(sums, Add),
            LetStmt(total, vector_reduce_add(vector_load(sums, (0, 0), self.lanes)), IfThenElse(
                NE(total, total), self.plain.loops(), self._result(results))),
        ])  # fmt: skip
        return AllocBuffer(results, AllocBuffer(sums, body))

    def _result(self, results: Buffer) -> Stmt:
        """Combine all lanes with the initial value of the reduction."""
        best = vector_load(results, (0, 0), self.lanes)
        return block([self._in_first(results, self._better), self.of_all_lanes(self.extreme.stage, best)])

    def _in_first(self, acc: Buffer, combine: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> Stmt:
        """Combine all accumulator vectors into the first, pairwise."""
        parts: list[Stmt] = []
        step = 1
        while step < self.count:
            for u in range(0, self.count - step, 2 * step):
                vectors = [vector_load(acc, (place, 0), self.lanes) for place in (u, u + step)]
                a, b = names = [Var(name, vectors[0].dtype) for name in ("a", "b")]
                stored = vector_store(acc, (u, 0), combine(a, b))
                parts.append(bound(list(zip(names, vectors, strict=True)), stored))
            step *= 2
        return block(parts)
