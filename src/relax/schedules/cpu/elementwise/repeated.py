"""Element-wise nests that read each element of a row several times in a row, such as nearest-neighbour upsampling.

    for i, j in T.grid(n, 2 * m):                         for i in T.parallel(n):
        with T.block("Y"):                                    line = T.alloc_buffer((2 * m,))
            Y[i, j] = X[i, j // 2] + Z[i, j]                  for v in range(m // 16):
                                                                  a = X[i, v * 16 : …]
                                                                  line[v * 32 : …] = (a0, a0, a1, a1, …, a7, a7)
                                                                  line[v * 32 + 16 : …] = (a8, a8, …, a15, a15)
                                                              for j in T.vectorized(2 * m):
                                                                  Y[i, j] = line[j] + Z[i, j]

The repeated elements are first written to a temporary row; then all accesses are contiguous. A long row is split into
strips, as in `elementwise`.

Left to `elementwise`: indices divided by several numbers or by one above 8, rows whose length is not provably a
multiple of it, conditional reads, and other non-contiguous accesses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ....ir import Node
from ....prim import And, Call, FloorDiv, IntImm, Or, PrimExpr, Select, Var, const, free_vars, is_const, simplify
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import min as minimum
from ....tir import Buffer, BufferLoad, BufferStore, For, ForKind, Shuffle, Stmt
from ....tir.functor import StmtExprMutator, post_order_visit, substitute
from ...build import block, let, loop, scratch, vector_load, vector_store
from ...stages import Axis, Group, Stage, with_merged_axes
from .elementwise import STRIP, in_memory_order, parallel_over, runs_along_memory, within

MOST: Final = 8
"""Most repetitions of an element."""
MOST_LINES: Final = 4
"""Most repeated rows."""


def repeated(group: Group) -> Stmt | None:
    """Return the loops of a group with one stage that reads repeated elements, or None."""
    group = with_merged_axes(group)
    (stage,) = group.stages
    store, axes = stage.body, in_memory_order(stage)
    if not isinstance(store, BufferStore) or not axes:
        return None
    *outer, inner = axes
    loads, times = _repeated_loads(stage, inner)
    if not loads or len(loads) > MOST_LINES or any(load.buffer is store.buffer for load in stage.loads()):
        return None
    writer = _Writer(store, inner, loads, times)
    return within(group, writer.loops(outer)) if writer.is_along_memory(stage) else None


def _repeated_loads(stage: Stage, axis: Axis) -> tuple[list[BufferLoad], int]:
    """Return the loads whose last index is the axis divided by a constant, and the constant; ([], 0) if they differ."""
    loads: dict[BufferLoad, int] = {}
    conditional = False

    def visit(node: Node) -> None:
        nonlocal conditional
        if isinstance(node, BufferLoad) and node.indices:
            *others, last = node.indices
            if isinstance(last, FloorDiv) and last.a is axis.var and isinstance(last.b, IntImm):
                moves = any(axis.var in free_vars(index) for index in others)
                loads[node] = 0 if moves or node.dtype.bits < 8 else last.b.value
        elif isinstance(node, (Select, And, Or)) or (isinstance(node, Call) and node.intrinsic == "if_then_else"):
            conditional = True

    post_order_visit(stage.body, visit)
    if conditional or len(set(loads.values())) != 1:
        return [], 0
    times = next(iter(loads.values()))
    is_multiple = 2 <= times <= MOST and is_const(simplify(floormod(axis.extent, times)), 0)
    return (list(loads), times) if is_multiple else ([], 0)


class _Writer:
    """Writes the loops of a nest in which some loads repeat each element `times` times along an axis."""

    def __init__(self, store: BufferStore, axis: Axis, loads: list[BufferLoad], times: int) -> None:
        self.store, self.axis, self.loads, self.times = store, axis, loads, times
        self.length = STRIP // times * times
        """Elements of a strip of the result."""
        if axis.size is not None:
            self.length = min(self.length, max(axis.size, times))

    def is_along_memory(self, stage: Stage) -> bool:
        """True if all other accesses are contiguous."""
        zeros = {load: const(0, load.dtype) for load in self.loads}
        return runs_along_memory(replace(stage, body=_Exchanged(zeros).visit(self.store)), self.axis.var)

    def loops(self, outer: list[Axis]) -> Stmt:
        """Return the parallel loop over strips of rows."""
        dtype = self.axis.var.dtype
        strips = Axis(Var("strip", dtype), simplify(ceildiv(self.axis.extent, self.length)))
        start = strips.var * self.length
        length = minimum(const(self.length, dtype), self.axis.extent - start)
        body = let("length", simplify(length), lambda length: self._strip(start, length, []))
        return parallel_over([*outer, strips], body)

    def _strip(self, start: PrimExpr, length: Var, lines: list[Buffer]) -> Stmt:
        """Repeat the rows of a strip, then compute its elements."""
        if len(lines) < len(self.loads):
            dtype = str(self.loads[len(lines)].dtype)
            return scratch("line", (self.length,), dtype, lambda line: self._strip(start, length, [*lines, line]))
        copies = [self._copied(load, line, start, length) for load, line in zip(self.loads, lines, strict=True)]
        at = Var(self.axis.var.name, self.axis.var.dtype)
        elements = {load: BufferLoad(line, (at,)) for load, line in zip(self.loads, lines, strict=True)}
        moved = substitute(_Exchanged(elements).visit(self.store), {self.axis.var: start + at})
        return block([*copies, For(at, const(0, at.dtype), length, ForKind.VECTORIZED, moved)])

    def _copied(self, load: BufferLoad, line: Buffer, start: PrimExpr, length: Var) -> Stmt:
        """Repeat the elements of a row: in vectors, and the remainder one by one."""
        times, size = self.times, 8 if load.dtype.bits > 32 else 16
        *place, _ = load.indices
        first, elements = simplify(floordiv(start, times)), simplify(floordiv(length, times))
        whole, left = simplify(floordiv(elements, size)), simplify(floormod(elements, size))

        def vectors(v: Var) -> Stmt:
            return let("part", vector_load(load.buffer, (*place, first + v * size), size), lambda part: block([
                vector_store(line, (v * (size * times) + p * size,), Shuffle(
                    (part,), [(p * size + lane) // times for lane in range(size)]))
                for p in range(times)]))  # fmt: skip

        def single(r: Var) -> Stmt:
            return let("q", whole * size + r, lambda q: let("single", BufferLoad(
                load.buffer, (*place, first + q)), lambda value: block([
                    BufferStore(line, value, (q * times + p,)) for p in range(times)])))  # fmt: skip

        return block([loop("v", whole, vectors), loop("r", left, single)])


class _Exchanged(StmtExprMutator):
    """Replaces loads by values."""

    def __init__(self, values: Mapping[BufferLoad, PrimExpr]) -> None:
        super().__init__()
        self.values = values

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        value = self.values.get(node)
        return self.visit_children(node) if value is None else value
