"""Scans (running results along an axis), vectorised over adjacent rows or computed a vector of prefix sums at a time.

    for i1, i0 in T.grid(n, m):                      for strip in T.parallel(ceildiv(n, 1024)):
        Y[i0, i1] = T.if_then_else(                      Y[0, strip] = 0.0 + X[0, strip]             in vectors
            i0 == 0, 0.0, Y[i0 - 1, i1]                  for k in range(m - 1):
        ) + X[i0, i1]                                        Y[k + 1, strip] = Y[k, strip] + X[k + 1, strip]

    for i0, i1 in T.grid(n, m):                      for i0 in T.parallel(n):
        Y[i0, i1] = T.if_then_else(                      carry = 0.0 in 16 lanes
            i1 == 0, 0.0, Y[i0, i1 - 1]                  for v in range(m // 16):
        ) + X[i0, i1]                                        x = X[i0, v * 16 : v * 16 + 16]
                                                             x += (0, x0, 0, x2, …)
                                                             x += (0, 0, x1, x1, 0, 0, x5, x5, …)
                                                             x += (0, 0, 0, 0, x3, x3, x3, x3, …)
                                                             x += 8 zeros, 8 times x7
                                                             Y[i0, v * 16 : v * 16 + 16] = carry + x
                                                             carry += x15 in 16 lanes
                                                         the remaining elements, one by one

If a static number of rows yields fewer strips than cores, strips are narrower.

The sums within a vector follow J. Sklansky, *Conditional-Sum Addition Logic*, 1960: the end of the lower half of each
group of 2, 4, 8, … lanes is added to its upper half. Each result sums the same elements as the original, in another
order. Products, and sums not along memory, keep the last result in a register.

Not supported: functions without tir.noalias, statically small scans, and loops other than a single store indexed by the
loop variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ....prim import EQ, Add, Call, PrimExpr, Var, const, free_vars, is_const, simplify
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....target import Target
from ....tir import BlockRealize, Buffer, BufferLoad, BufferStore, For, ForKind, IfThenElse, PrimFunc, Shuffle, Stmt
from ....tir.functor import StmtExprMutator, substitute
from ....tir.nests import is_compact, loads_in, root_of
from ....tir.renew import renew_bound_vars
from ...build import alloc, block, let, loop, spread, vector_load, vector_store
from ...contraction import with_root
from ...rule import ScheduleRule
from ...stages import Axis, Stage
from ..elementwise.elementwise import parallel_over, runs_along_memory

SMALL: Final = 1024
"""Number of results below which a scan is left unchanged."""
STRIP: Final = 1024
"""Most adjacent rows processed together, if memory runs along them."""
LEAST_STRIP: Final = 256
"""Fewest rows of a strip when rows are divided only to occupy all cores."""


class Scans(ScheduleRule):
    """Schedule rule for loops that compute each element from the preceding one."""

    complements = True

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del tunable
        if not func.attrs.get("tir.noalias"):
            return None
        _, statements = root_of(func)
        results: list[Stmt] = []
        for statement in statements:
            scan = _scan_of(statement)
            results.append(statement if scan is None or scan.is_small else scan.loops(target))
        if all(new is old for new, old in zip(results, statements, strict=True)):
            return None
        return with_root(func, results)


def _scan_of(stmt: Stmt) -> _Scan | None:
    """Return the scan that a statement computes, or None."""
    if isinstance(stmt, BlockRealize):
        inside = stmt.block
        if stmt.iter_values or inside.alloc_buffers or inside.match_buffers or inside.init is not None:
            return None
        if not is_const(stmt.predicate, 1) or inside.annotations:
            return None
        stmt = inside.body
    axes: dict[Var, Axis] = {}
    while isinstance(stmt, For):
        if stmt.kind is not ForKind.SERIAL or stmt.annotations or not is_const(stmt.min, 0):
            return None
        if any(var in free_vars(stmt.extent) for var in axes):
            return None
        axes[stmt.loop_var] = Axis(stmt.loop_var, stmt.extent)
        stmt = stmt.body
    if not isinstance(stmt, BufferStore) or stmt.predicate is not None or not is_compact(stmt.buffer):
        return None
    order = [index for index in stmt.indices if isinstance(index, Var) and index in axes]
    if len(stmt.indices) != len(axes) or {*order} != {*axes}:
        return None
    return _matched(stmt, [axes[var] for var in order])


def _matched(store: BufferStore, axes: Sequence[Axis]) -> _Scan | None:
    """Return the scan of a store indexed by axes, whose single condition tests for the first element, or None."""
    finder = _Conditions(store)
    finder.visit(store.value)
    if finder.axis is None or not finder.chosen:
        return None
    (place,) = [d for d, axis in enumerate(axes) if axis.var is finder.axis]
    scan = _Scan(store, tuple(axes), place)
    own = [load for load in loads_in(store.value) if load.buffer.data is store.buffer.data]
    inside = [
        load for call in finder.chosen for load in loads_in(call.args[2]) if load.buffer.data is store.buffer.data
    ]
    is_previous = all(load.buffer is store.buffer and scan.is_previous(load) for load in own)
    return scan if own and is_previous and {*map(id, own)} <= {*map(id, inside)} else None


class _Conditions(StmtExprMutator):
    """Finds selections between the first element of an axis and the others."""

    def __init__(self, store: BufferStore) -> None:
        super().__init__()
        self.places = {index for index in store.indices if isinstance(index, Var)}
        self.axis: Var | None = None
        self.chosen: list[Call] = []

    def visit_Call(self, node: Call) -> Call:
        if node.intrinsic == "if_then_else":
            match node.args[0]:
                case EQ(Var() as var, zero) if var in self.places and is_const(zero, 0):
                    if self.axis in (None, var):
                        self.axis = var
                        self.chosen.append(node)
                case _:
                    pass
        return self.visit_children(node)


@dataclass(frozen=True)
class _Scan:
    """Writes the loops of a scan."""

    store: BufferStore
    axes: tuple[Axis, ...]
    """Axes in the order of the result's dimensions."""
    place: int
    """Dimension along which the scan runs."""

    @property
    def axis(self) -> Axis:
        return self.axes[self.place]

    @property
    def is_small(self) -> bool:
        total = 1
        for axis in self.axes:
            if axis.size is None:
                return False
            total *= axis.size
        return total < SMALL

    def is_previous(self, load: BufferLoad) -> bool:
        """True for a load of the element before the stored one."""
        return all(
            is_const(simplify(index + 1 - axis.var), 0) if d == self.place else index is axis.var
            for d, (index, axis) in enumerate(zip(load.indices, self.axes, strict=True))
        )

    def value(self, at: PrimExpr, is_first: bool, before: PrimExpr | None = None) -> PrimExpr:
        """Value of element `at` of a row, with `before` as the value of the preceding element."""
        chosen = _Chosen(self.axis.var, is_first, self.store.buffer, before).visit(self.store.value)
        return substitute(chosen, {self.axis.var: at.astype(str(self.axis.var.dtype))})

    def stored(self, at: PrimExpr, value: PrimExpr) -> BufferStore:
        indices = list(self.store.indices)
        indices[self.place] = at.astype(str(self.axis.var.dtype))
        return BufferStore(self.store.buffer, value, indices)

    def loops(self, target: Target) -> Stmt:
        """Return the parallel loop over all rows."""
        *_, last = self.axes
        if last is not self.axis:
            return self._across(last, target.num_cores)
        lanes = max(target.machine.vector_bits // max(self.store.value.dtype.bits, 8), 1)
        line = renew_bound_vars(self._along(lanes))
        return parallel_over(self.axes[:-1], line)

    # ------------------------------------------------------------------ across the lines

    def _across(self, inner: Axis, cores: int) -> Stmt:
        """Vectorise over adjacent rows; compute the elements of each row in sequence."""
        outer = [axis for axis in self.axes if axis is not self.axis and axis is not inner]
        size = STRIP
        if inner.size is not None and not outer:
            shares = max(min(cores, inner.size // LEAST_STRIP), 1)
            size = min(-(-inner.size // (shares * LEAST_STRIP)) * LEAST_STRIP, STRIP)
        zero = const(0, self.axis.var.dtype)
        stage = Stage(self.axes, (), (self.store,), self.store, None)
        kind = ForKind.VECTORIZED if runs_along_memory(stage, inner.var) else ForKind.SERIAL
        strips = Axis(Var("strip", inner.var.dtype), simplify(ceildiv(inner.extent, size)))
        start = strips.var * size

        def strip(count: PrimExpr) -> Stmt:
            def each(at: PrimExpr, is_first: bool) -> Stmt:
                lane = Var(inner.var.name, inner.var.dtype)
                one = self.stored(at, self.value(at, is_first))
                moved = substitute(one, {inner.var: start + lane})
                return renew_bound_vars(For(lane, const(0, lane.dtype), count, kind, moved))

            following = loop("k", self._others(), lambda k: each(k + 1, False))
            return block([IfThenElse(self.axis.extent > 0, each(zero, True)), following])

        if inner.size is not None and inner.size <= size:
            return parallel_over(outer, substitute(strip(inner.extent), {strips.var: const(0, strips.var.dtype)}))
        length = minimum(const(size, inner.var.dtype), inner.extent - start)
        return parallel_over([*outer, strips], let("length", length, strip))

    def _others(self) -> PrimExpr:
        """Number of elements of a row after the first."""
        return simplify(maximum(self.axis.extent.astype("int64") - 1, const(0, "int64")))

    # ------------------------------------------------------------------ along a line

    def _along(self, lanes: int) -> Stmt:
        """Compute one row: its first element, then the others."""
        zero = const(0, "int64")
        start = self._start()
        if start is not None:
            return self._rest(lanes, zero, start, self.axis.extent.astype("int64"))
        first = self.value(zero, True)

        def others(before: Var) -> Stmt:
            return block([
                self.stored(zero, before), self._rest(lanes, const(1, "int64"), before, self._others()),
            ])  # fmt: skip

        return IfThenElse(self.axis.extent > 0, let("first", first, others))

    def _start(self) -> PrimExpr | None:
        """Initial value of the scan, or None if the first element is computed by another formula."""
        finder = _Conditions(self.store)
        finder.visit(self.store.value)
        (start, *others) = [call.args[1] for call in finder.chosen]
        plain = all(isinstance(call.args[2], BufferLoad) for call in finder.chosen)
        return start if plain and not others and self.axis.var not in free_vars(start) else None

    def _rest(self, lanes: int, first: PrimExpr, before: PrimExpr, count: PrimExpr) -> Stmt:
        """Compute the elements of a row from `first` on; `before` is the value of the preceding element."""
        dtype = str(self.store.buffer.dtype)
        term = self._term()

        def plain(carry: Buffer, begin: PrimExpr, number: PrimExpr) -> Stmt:
            place = (const(0, "int64"),) * carry.ndim

            def element(k: Var) -> Stmt:
                at = begin + k
                value = self.value(at, False, BufferLoad(carry, place))
                return let("result", value, lambda result: block([
                    BufferStore(carry, result, place), self.stored(at, result)]))  # fmt: skip

            return loop("k", number, element)

        if term is None or lanes < 2:
            return alloc("carry", (1,), dtype, "local", lambda carry: block([
                BufferStore(carry, before, (const(0, "int64"),)), plain(carry, first, count)]))  # fmt: skip
        whole, left = simplify(floordiv(count, lanes)), simplify(floormod(count, lanes))

        def vectors(carry: Buffer) -> Stmt:
            begin = simplify(first + whole * lanes)
            return block([
                vector_store(carry, (0,), spread(before, lanes)),
                loop("v", whole, lambda v: self._vector(term, carry, simplify(first + v * lanes), lanes)),
                plain(carry, begin, left),
            ])  # fmt: skip

        return alloc("carry", (lanes,), dtype, "local", vectors)

    def _term(self) -> PrimExpr | None:
        """Vector along memory that is added to the preceding element, or None if the scan is not such a sum."""
        before = Var("before", self.store.buffer.dtype)
        value = _Chosen(self.axis.var, False, self.store.buffer, before).visit(self.store.value)
        if not isinstance(value, Add) or (value.a is before) == (value.b is before):
            return None
        term = value.b if value.a is before else value.a
        stored = self.store.replace(value=term)
        along = runs_along_memory(Stage(self.axes, (), (stored,), stored, None), self.axis.var)
        return term if along and before not in free_vars(term) else None

    def _vector(self, term: PrimExpr, carry: Buffer, at: PrimExpr, lanes: int) -> Stmt:
        """Compute a vector of prefix sums and add the carried sum."""
        dtype = str(self.store.buffer.dtype)
        zeros = spread(const(0, dtype), lanes)

        def sums(x: Var, distance: int) -> Stmt:
            if distance == lanes:
                before = vector_load(carry, (0,), lanes)
                indices = (*self.store.indices[:-1], at)
                return block([
                    vector_store(self.store.buffer, indices, before + x),
                    vector_store(carry, (0,), before + Shuffle((x,), [lanes - 1] * lanes)),
                ])  # fmt: skip
            ends = [lanes + i // distance * distance - 1 if i & distance else 0 for i in range(lanes)]
            moved = Shuffle((zeros, x), ends)
            return let("x", x + moved, lambda more: sums(more, 2 * distance))

        def terms(memory: Buffer) -> Stmt:
            def lane(i: Var) -> Stmt:
                value = substitute(term, {self.axis.var: (at + i).astype(str(self.axis.var.dtype))})
                return renew_bound_vars(BufferStore(memory, value, (i,)))

            return block([
                loop("lane", lanes, lane, ForKind.VECTORIZED),
                let("x", vector_load(memory, (0,), lanes), lambda x: sums(x, 1)),
            ])  # fmt: skip

        return alloc("terms", (lanes,), dtype, "local", terms)


class _Chosen(StmtExprMutator):
    """Resolves each selection between the first element and the others, and names the preceding element."""

    def __init__(self, axis: Var, is_first: bool, buffer: Buffer, before: PrimExpr | None) -> None:
        super().__init__()
        self.axis, self.is_first, self.buffer, self.before = axis, is_first, buffer, before

    def visit_Call(self, node: Call) -> PrimExpr:
        if node.intrinsic == "if_then_else":
            match node.args[0]:
                case EQ(var, zero) if var is self.axis and is_const(zero, 0):
                    return self.visit(node.args[1 if self.is_first else 2])
                case _:
                    pass
        return self.visit_children(node)

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        if self.before is not None and node.buffer is self.buffer:
            return self.before
        return self.visit_children(node)
