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

Sums of floats are computed in blocks of 32 elements, or 32 vectors along memory. An element is the sum before the
block, which is kept in a wider dtype (float64 for float32), plus a running sum within the block: its error does not
grow with the number of elements before it.

Not supported: functions without tir.noalias, statically small scans, and loops other than a single store indexed by the
loop variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ....prim import EQ, Add, Call, PrimExpr, Var, const, free_vars, is_const, simplify
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....tir import (
    AllocBuffer,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Shuffle,
    Stmt,
)
from ....tir.buffer import decl_buffer
from ....tir.functor import StmtExprMutator, substitute
from ....tir.nests import is_compact, loads_in, root_of, with_root
from ....tir.renew import renew_bound_vars
from ...build import alloc, block, let, loop, spread, vector_load, vector_store
from ...rule import ALIASED, Refusal, ScheduleRule, refused
from ...stages import Axis, Stage
from ..elementwise.elementwise import parallel_over, runs_along_memory
from .sum_blocks import TERMS, total_dtype

SMALL: Final = 1024
"""Number of results below which a scan is left unchanged."""
STRIP: Final = 1024
"""Most adjacent rows processed together, if memory runs along them."""
LEAST_STRIP: Final = 256
"""Fewest rows of a strip when rows are divided only to occupy all cores."""


TOGETHER: Final = 4
"""Elements of a row whose sums are computed between a load and a store of the running sum."""


OTHER: Final = Refusal("no nest computes each element from the preceding one", unrelated=True)


class Scans(ScheduleRule):
    """Schedule rule for loops that compute each element from the preceding one."""

    complements = True

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable
        return rewritten_statements(func, lambda stmt: _scanned(stmt, target))


def _scanned(stmt: Stmt, target: Target) -> Stmt | Refusal:
    scan = scan_of(stmt)
    if not scan:
        return scan
    return Refusal(f"the scan has fewer than {SMALL:,} results") if scan.is_small else scan.loops(target)


def rewritten_statements(func: PrimFunc, rewrite: Callable[[Stmt], Stmt | Refusal]) -> PrimFunc | Refusal:
    """Replace each statement of the root that `rewrite` does not refuse; refuse if there is none."""
    if not func.attrs.get("tir.noalias"):
        return ALIASED
    _, statements = root_of(func)
    answers = [rewrite(stmt) for stmt in statements]
    if all(isinstance(answer, Refusal) for answer in answers):
        return refused(answers, OTHER.reason)
    pairs = zip(statements, answers, strict=True)
    return with_root(func, [old if isinstance(new, Refusal) else new for old, new in pairs])


def scan_of(stmt: Stmt) -> Scan | Refusal:
    """Return the scan that a statement computes."""
    if isinstance(stmt, BlockRealize):
        inside = stmt.block
        if stmt.iter_values or inside.alloc_buffers or inside.match_buffers or inside.init is not None:
            return OTHER
        if not is_const(stmt.predicate, 1) or inside.annotations:
            return OTHER
        stmt = inside.body
    axes: dict[Var, Axis] = {}
    while isinstance(stmt, For):
        if stmt.kind is not ForKind.SERIAL or stmt.annotations or not is_const(stmt.min, 0):
            return OTHER
        if any(var in free_vars(stmt.extent) for var in axes):
            return OTHER
        axes[stmt.loop_var] = Axis(stmt.loop_var, stmt.extent)
        stmt = stmt.body
    if not isinstance(stmt, BufferStore) or stmt.predicate is not None or not is_compact(stmt.buffer):
        return OTHER
    order = [index for index in stmt.indices if isinstance(index, Var) and index in axes]
    if len(stmt.indices) != len(axes) or {*order} != {*axes}:
        return OTHER
    return _matched(stmt, [axes[var] for var in order])


def _matched(store: BufferStore, axes: Sequence[Axis]) -> Scan | Refusal:
    """Return the scan of a store indexed by axes, whose single condition tests for the first element."""
    finder = _Conditions(store)
    finder.visit(store.value)
    if finder.axis is None or not finder.chosen:
        return OTHER
    (place,) = [d for d, axis in enumerate(axes) if axis.var is finder.axis]
    scan = Scan(store, tuple(axes), place)
    own = [load for load in loads_in(store.value) if load.buffer.data is store.buffer.data]
    inside = [
        load for call in finder.chosen for load in loads_in(call.args[2]) if load.buffer.data is store.buffer.data
    ]
    is_previous = all(load.buffer is store.buffer and scan.is_previous(load) for load in own)
    if not own:
        return OTHER
    if not is_previous or not {*map(id, own)} <= {*map(id, inside)}:
        return Refusal("an element reads others than the preceding one, or the first one reads any")
    return scan


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
class Scan:
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
    def is_long_float_sum(self) -> bool:
        """True for running sums of floats over more elements than a block, or a dynamic number."""
        size = self.axis.size
        return self._is_float and self._term() is not None and (size is None or size > TERMS)

    @property
    def is_small(self) -> bool:
        """True for statically few results, except those of long sums, whose accuracy does not depend on their size."""
        if self.is_long_float_sum:
            return False
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
        return self._at(chosen, at)

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

    def plain(self) -> Stmt:
        """Return serial loops that compute one element after the other."""
        line = self._along(1)
        for axis in reversed([axis for axis in self.axes if axis is not self.axis]):
            line = For(axis.var, const(0, axis.var.dtype), axis.extent, ForKind.SERIAL, line)
        return renew_bound_vars(line)

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
            def each(body: Callable[[PrimExpr], Stmt]) -> Stmt:
                lane = Var(inner.var.name, inner.var.dtype)
                moved = substitute(body(lane), {inner.var: start + lane})
                return renew_bound_vars(For(lane, const(0, lane.dtype), count, kind, moved))

            term = self._term()
            if term is not None and self._is_float:
                length = inner.size if inner.size is not None and inner.size <= size else size
                return self._in_blocks(term, length, each)

            def element(at: PrimExpr, is_first: bool) -> Stmt:
                return each(lambda _: self.stored(at, self.value(at, is_first)))

            following = loop("k", self._others(), lambda k: element(k + 1, False))
            return block([IfThenElse(self.axis.extent > 0, element(zero, True)), following])

        if inner.size is not None and inner.size <= size:
            return parallel_over(outer, substitute(strip(inner.extent), {strips.var: const(0, strips.var.dtype)}))
        length = minimum(const(size, inner.var.dtype), inner.extent - start)
        return parallel_over([*outer, strips], let("length", length, strip))

    def _in_blocks(self, term: PrimExpr, rows: int, each: Callable[[Callable[[PrimExpr], Stmt]], Stmt]) -> Stmt:
        """Compute running sums of a strip of rows in blocks of `TERMS` elements; `each` returns the loop over rows."""
        narrow = str(self.store.buffer.dtype)
        wide, others = total_dtype(self.store.buffer.dtype), self._others()
        whole, left = simplify(floordiv(others, TERMS)), simplify(floormod(others, TERMS))
        total, base, sums = (
            decl_buffer((rows,), dtype, name) for name, dtype in (("total", wide), ("base", narrow), ("sums", narrow))
        )

        def start(lane: PrimExpr) -> Stmt:
            return let("first", self.value(const(0, "int64"), True), lambda first: block([
                BufferStore(total, first.astype(wide), (lane,)), self.stored(const(0, "int64"), first)]))  # fmt: skip

        def begin(lane: PrimExpr) -> Stmt:
            return block([
                BufferStore(base, BufferLoad(total, (lane,)).astype(narrow), (lane,)),
                BufferStore(sums, const(0, narrow), (lane,)),
            ])  # fmt: skip

        def end(lane: PrimExpr) -> Stmt:
            more = BufferLoad(sums, (lane,)).astype(wide)
            return BufferStore(total, BufferLoad(total, (lane,)) + more, (lane,))

        def elements(at: PrimExpr, count: int) -> Stmt:
            def following(lane: PrimExpr, so_far: PrimExpr, number: int) -> Stmt:
                if number == count:
                    return BufferStore(sums, so_far, (lane,))
                place = simplify(at + number)

                def stored(sum_: Var) -> Stmt:
                    return self.stored(place, BufferLoad(base, (lane,)) + sum_)

                return let("sum", so_far + self._at(term, place), lambda sum_: block([
                    stored(sum_), following(lane, sum_, number + 1)]))  # fmt: skip

            return each(lambda lane: following(lane, BufferLoad(sums, (lane,)), 0))

        def one_block(b: Var) -> Stmt:
            return loop("k", TERMS // TOGETHER, lambda k: elements(b * TERMS + k * TOGETHER + 1, TOGETHER))

        result = block([
            IfThenElse(self.axis.extent > 0, each(start)),
            loop("b", whole, lambda b: block([each(begin), one_block(b), each(end)])),
            each(begin),
            loop("k", left, lambda k: elements(whole * TERMS + k + 1, 1)),
        ])  # fmt: skip
        return AllocBuffer(total, AllocBuffer(base, AllocBuffer(sums, result)))

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
        term, place = self._term(), (const(0, "int64"),)
        dtype = total_dtype(self.store.buffer.dtype) if term is not None and self._is_float else self._dtype
        before = before.astype(dtype)

        def plain(carry: Buffer, begin: PrimExpr, number: PrimExpr) -> Stmt:
            def element(k: Var) -> Stmt:
                at, so_far = begin + k, BufferLoad(carry, place)
                value = self.value(at, False, so_far) if term is None else so_far + self._at(term, at).astype(dtype)
                return let("result", value, lambda result: block([
                    BufferStore(carry, result, place), self.stored(at, result.astype(self._dtype))]))  # fmt: skip

            return loop("k", number, element)

        if term is None or lanes < 2 or not self._runs_along_memory(term):
            return alloc("carry", (1,), dtype, "local", lambda carry: block([
                BufferStore(carry, before, place), plain(carry, first, count)]))  # fmt: skip
        whole, left = simplify(floordiv(count, lanes)), simplify(floormod(count, lanes))

        def vectors(carry: Buffer) -> Stmt:
            begin = simplify(first + whole * lanes)
            return block([
                vector_store(carry, (0,), spread(before, lanes)),
                self._vectors(term, carry, first, whole, lanes),
                plain(carry, begin, left),
            ])  # fmt: skip

        return alloc("carry", (lanes,), dtype, "local", vectors)

    def _vectors(self, term: PrimExpr, carry: Buffer, first: PrimExpr, count: PrimExpr, lanes: int) -> Stmt:
        """Compute `count` vectors of a row; those of floats in blocks, whose sums are added to the carry."""
        zeros = spread(const(0, self._dtype), lanes)
        if not self._is_float:
            return loop("v", count, lambda v: self._vector(term, carry, zeros, simplify(first + v * lanes)))

        def of_base(base: Var, sums: Buffer, start: PrimExpr, number: PrimExpr) -> Stmt:
            at = first + start * lanes
            so_far = vector_load(carry, (0,), lanes)
            more = vector_load(sums, (0,), lanes)
            return block([
                vector_store(sums, (0,), zeros),
                loop("v", number, lambda v: self._vector(term, sums, base, simplify(at + v * lanes))),
                vector_store(carry, (0,), so_far + more.astype(str(so_far.dtype))),
            ])  # fmt: skip

        def one_block(sums: Buffer, b: Var) -> Stmt:
            start = b * TERMS
            number = minimum(const(TERMS, "int64"), count - start)
            base = vector_load(carry, (0,), lanes).astype(str(zeros.dtype))
            return let("base", base, lambda base: of_base(base, sums, start, number))

        blocks = simplify(ceildiv(count, TERMS))
        return alloc("sums", (lanes,), self._dtype, "local", lambda sums: loop("b", blocks, partial(one_block, sums)))

    @property
    def _dtype(self) -> str:
        return str(self.store.buffer.dtype)

    @property
    def _is_float(self) -> bool:
        return self.store.buffer.dtype.is_float

    def _term(self) -> PrimExpr | None:
        """Return the value that is added to the preceding element, or None if the scan is no sum."""
        before = Var("before", self.store.buffer.dtype)
        value = _Chosen(self.axis.var, False, self.store.buffer, before).visit(self.store.value)
        if not isinstance(value, Add) or (value.a is before) == (value.b is before):
            return None
        term = value.b if value.a is before else value.a
        return None if before in free_vars(term) else term

    def _runs_along_memory(self, term: PrimExpr) -> bool:
        """True if vectors of terms along the row are contiguous."""
        stored = self.store.replace(value=term)
        return runs_along_memory(Stage(self.axes, (), (stored,), stored, None), self.axis.var)

    def _at(self, value: PrimExpr, at: PrimExpr) -> PrimExpr:
        """Return a value at element `at` of a row."""
        return substitute(value, {self.axis.var: at.astype(str(self.axis.var.dtype))})

    def _vector(self, term: PrimExpr, carry: Buffer, base: PrimExpr, at: PrimExpr) -> Stmt:
        """Store a vector of prefix sums plus the carried sum and `base`; add the last one to the carry."""
        lanes = base.dtype.lanes
        zeros = spread(const(0, self._dtype), lanes)

        def sums(x: Var, distance: int) -> Stmt:
            if distance == lanes:
                before = vector_load(carry, (0,), lanes)
                indices = (*self.store.indices[:-1], at)
                value = base + (before + x) if isinstance(base, Var) else before + x
                return block([
                    vector_store(self.store.buffer, indices, value),
                    vector_store(carry, (0,), before + Shuffle((x,), [lanes - 1] * lanes)),
                ])  # fmt: skip
            ends = [lanes + i // distance * distance - 1 if i & distance else 0 for i in range(lanes)]
            moved = Shuffle((zeros, x), ends)
            return let("x", x + moved, lambda more: sums(more, 2 * distance))

        def terms(memory: Buffer) -> Stmt:
            def lane(i: Var) -> Stmt:
                return renew_bound_vars(BufferStore(memory, self._at(term, at + i), (i,)))

            return block([
                loop("lane", lanes, lane, ForKind.VECTORIZED),
                let("x", vector_load(memory, (0,), lanes), lambda x: sums(x, 1)),
            ])  # fmt: skip

        return alloc("terms", (lanes,), self._dtype, "local", terms)


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
