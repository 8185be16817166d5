"""Element-wise nests that interleave two rows of memory, as at the end of a transposed convolution with stride 2.

    for i, j in T.grid(n, 2 * m):                         for i in T.parallel(n):
        with T.block("Y"):                                    lines = T.alloc_buffer((2, m))
            Y[i, j] = f(X[i, j % 2, j // 2])                  for q in T.vectorized(m): lines[0, q] = f(X[i, 0, q])
                                                              for q in T.vectorized(m): lines[1, q] = f(X[i, 1, q])
                                                              for v in range(m // 16):
                                                                  a, b = lines[0, v * 16 : …], lines[1, v * 16 : …]
                                                                  Y[i, v * 32 : …] = (a0, b0, a1, b1, …, a7, b7)
                                                                  Y[i, v * 32 + 16 : …] = (a8, b8, …, a15, b15)

Elements at even and odd positions are computed separately, in vectors of contiguous reads. A long row is split into
strips, as in `elementwise`.

Left to `elementwise`: indices divided by anything but 2, rows not provably of even length, static rows shorter than two
vectors, and halves with non-contiguous accesses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ....ir import Node
from ....prim import FloorDiv, FloorMod, IntImm, PrimExpr, Var, const, free_vars, is_const, simplify
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....tir import Buffer, BufferLoad, BufferStore, For, ForKind, Shuffle, Stmt
from ....tir.functor import StmtExprMutator, post_order_visit, substitute
from ...build import block, let, loop, scratch, vector_load, vector_store
from ...stages import Axis, Group, Stage, with_merged_axes
from .elementwise import STRIP, in_memory_order, parallel_over, runs_along_memory, within

LENGTH: Final = STRIP // 2
"""Elements of a strip of each half."""


def interleaved(group: Group) -> Stmt | None:
    """Return the loops of a group with one interleaving stage, or None."""
    group = with_merged_axes(group)
    (stage,) = group.stages
    store, axes = stage.body, in_memory_order(stage)
    if not isinstance(store, BufferStore) or not axes or store.value.dtype.bits < 8:
        return None
    if any(load.buffer is store.buffer for load in stage.loads()):
        return None
    *outer, inner = axes
    size = 8 if store.value.dtype.bits > 32 else 16
    if store.indices[-1] is not inner.var or any(inner.var in free_vars(index) for index in store.indices[:-1]):
        return None
    if (inner.size is not None and inner.size < 2 * size) or not _is_halved(store.value, inner):
        return None
    halves = _Halves(store, inner.var, size)
    if not all(halves.is_along_memory(stage, k) for k in range(2)):
        return None
    dtype = inner.var.dtype
    half = simplify(floordiv(inner.extent, 2))
    strips = Axis(Var("strip", dtype), simplify(ceildiv(half, LENGTH)))
    start = strips.var * LENGTH
    length = minimum(const(LENGTH, dtype), half - start)
    body = let("length", length, lambda count: halves.strip(start, count))
    return within(group, parallel_over([*outer, strips], body))


def _is_halved(value: PrimExpr, axis: Axis) -> bool:
    """True if the value divides an axis of even length, and always by 2."""
    divisors: list[PrimExpr] = []

    def visit(node: Node) -> None:
        if isinstance(node, (FloorDiv, FloorMod)) and node.dtype.is_integer and axis.var in free_vars(node):
            divisors.append(node.b)

    post_order_visit(value, visit)
    even = is_const(simplify(floormod(axis.extent, 2)), 0)
    return even and bool(divisors) and all(is_const(divisor, 2) for divisor in divisors)


@dataclass(frozen=True)
class _Halves:
    """Writes the loops of a strip; `place` is the axis along memory in the result."""

    store: BufferStore
    place: Var
    size: int

    def value(self, k: int, at: PrimExpr) -> PrimExpr:
        """Value of the element at index 2 * at + k."""
        divided = _Divided(self.place, at, k).visit(self.store.value)
        return substitute(divided, {self.place: at * 2 + k})

    def is_along_memory(self, stage: Stage, k: int) -> bool:
        """True if all accesses of half `k` are contiguous."""
        at = Var("q", self.place.dtype)
        stored = self.store.replace(value=self.value(k, at), indices=(*self.store.indices[:-1], at))
        return runs_along_memory(replace(stage, body=stored), at)

    def strip(self, start: PrimExpr, count: Var) -> Stmt:
        """Compute both halves of a strip, then interleave them: in vectors, and the remainder element by element."""
        dtype, size = self.place.dtype, self.size

        def computed(lines: Buffer, k: int) -> Stmt:
            at = Var("q", dtype)
            stored = BufferStore(lines, self.value(k, start + at), (const(k, "int64"), at))
            return For(at, const(0, dtype), count, ForKind.VECTORIZED, stored)

        def vectors(lines: Buffer, v: Var) -> Stmt:
            def stored(low: Var, high: Var) -> Stmt:
                both = [k * size + i for i in range(size) for k in range(2)]
                return block([
                    vector_store(self.store.buffer, self._at(start * 2 + v * (2 * size) + first), Shuffle(
                        (low, high), both[first : first + size])) for first in (0, size)])  # fmt: skip

            return let("even", vector_load(lines, (0, v * size), size), lambda low: let(
                "odd", vector_load(lines, (1, v * size), size), lambda high: stored(low, high)))  # fmt: skip

        def single(lines: Buffer, k: int, at: PrimExpr) -> Stmt:
            element = BufferLoad(lines, (const(k, "int64"), at))
            return BufferStore(self.store.buffer, element, self._at((start + at) * 2 + k))

        def joined(lines: Buffer) -> Stmt:
            whole, left = simplify(floordiv(count, size)), simplify(floormod(count, size))

            def singles(r: Var) -> Stmt:
                return let("q", whole * size + r, lambda at: block([single(lines, k, at) for k in range(2)]))

            return block([*(computed(lines, k) for k in range(2)), loop("v", whole, lambda v: vectors(lines, v)),
                          loop("r", left, singles)])  # fmt: skip

        return scratch("lines", (2, LENGTH), str(self.store.value.dtype), joined)

    def _at(self, last: PrimExpr) -> list[PrimExpr]:
        return [*self.store.indices[:-1], simplify(last)]


class _Divided(StmtExprMutator):
    """Replaces quotients and remainders by 2 of the index (plus a constant), where the index is `at` * 2 + `k`."""

    def __init__(self, place: Var, at: PrimExpr, k: int) -> None:
        super().__init__()
        self.place, self.at, self.k = place, at, k

    def visit_FloorDiv(self, node: FloorDiv) -> PrimExpr:
        distance = self._distance(node)
        return node if distance is None else self.at + distance // 2

    def visit_FloorMod(self, node: FloorMod) -> PrimExpr:
        distance = self._distance(node)
        return node if distance is None else const(distance % 2, node.dtype)

    def _distance(self, node: FloorDiv | FloorMod) -> int | None:
        """Constant distance of the dividend from `at` * 2, or None."""
        distance = simplify(node.a - self.place) if node.dtype == self.place.dtype else None
        return distance.value + self.k if isinstance(distance, IntImm) else None
