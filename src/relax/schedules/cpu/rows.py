"""Reductions, and chains of reductions and element-wise stages, row by row: softmax, normalisations, sums, argmax.

    for i, k: M[i] = max(M[i], A[i, k])        for i in T.parallel(n):
    for i, k: E[i, k] = exp(A[i, k] - M[i])        M = T.alloc_buffer((1,)); S = T.alloc_buffer((1,))
    for i, k: S[i] += exp(A[i, k] - M[i])          lanes = T.alloc_buffer((4, 16), scope="local")
    for i, k: Y[i, k] = E[i, k] / S[i]             for k: lanes[…] = max(lanes[…], A[i, k])     in vectors
                                                   M[0] = the greatest of lanes
                                                   for k:                                       in vectors
                                                       e = exp(A[i, k] - M[0])
                                                       Y[i, k] = e;  lanes[…] += e
                                                   S[0] = the sum of lanes
                                                   for k: Y[i, k] = Y[i, k] / S[0]              in vectors

Stages that go over the elements of a row and do not wait for each other's sums share one pass. What one stage stores for
the next is the result's own row where that is possible, else a row of its own. A reduction along memory keeps several
vectors of partial results, which are combined at the end of the row. Where memory runs along the rows instead (a sum
over the first axis), a strip of 256 rows is one vector loop, inside of the loop over elements.

One reduction of few rows is done in parts, which are combined by a second reduction. The parts depend on sizes alone, not
on the number of threads.

Refused: reductions in which the order matters (a product of floats along memory), and combinations that are not known,
keep a plain loop over the elements, within parallel rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...ir import Node, structural_equal
from ...prim import Add, Call, IntImm, Max, Min, Mul, PrimExpr, Select, Var, const, free_vars, is_const, simplify
from ...prim.instructions import vector_reduce_add, vector_reduce_max, vector_reduce_min, vector_reduce_mul
from ...prim.intrin import ceildiv, floordiv, floormod, if_then_else
from ...prim.intrin import min as minimum
from ...target import Target
from ...tir import AllocBuffer, Buffer, BufferLoad, BufferStore, For, ForKind, IfThenElse, LetStmt, Stmt
from ...tir.buffer import decl_buffer
from ...tir.functor import StmtExprMutator, post_order_visit, substitute
from ...tir.renew import renew_bound_vars
from ...tir.schedule.reducers import Combination
from ..build import alloc, block, let, loop, spread, vector_load, vector_store
from ..stages import Axis, Group, Stage, with_merged_axes
from ..straight import Binding, Names, bound
from .elementwise import parallel_over, runs_along_memory, within

ROW_STRIP: Final = 256
"""Rows that run together where memory runs along the rows."""
FEW_ROWS: Final = 8
PART: Final = 32768
"""Elements of one part of a reduction that is done in parts."""
LANE_REDUCTIONS: Final[dict[type[PrimExpr], Callable[[PrimExpr], PrimExpr]]] = {
    Add: vector_reduce_add, Max: vector_reduce_max, Min: vector_reduce_min, Mul: vector_reduce_mul,
}  # fmt: skip


def rows_of(group: Group, own: set[Buffer], target: Target) -> Stmt | None:
    """The loops of a group with reductions; `own` are the buffers that nothing else uses. None: it stays as it is."""
    group = with_merged_axes(group)
    if any(stage.combination is not None and not stage.combination.commutative for stage in group.stages):
        return None
    parts = _in_parts(group, target)
    if parts is not None:
        return parts
    return within(_without_views(group, own), _arranged(group, own, target, _vector_axis(group, own)))


def _without_views(group: Group, own: set[Buffer]) -> Group:
    data = {buffer.data for buffer in own}
    return replace(group, views=tuple(view for view in group.views if view.data not in data))


def _arranged(group: Group, own: set[Buffer], target: Target, vector: Axis | None) -> Stmt:
    if vector is not None and vector in group.rows:
        return _Across(group, own, target, vector).loops()
    return _Along(group, own, target, vector).loops()


def _vector_axis(group: Group, own: set[Buffer]) -> Axis | None:
    """The axis along which most of the largest operands of the reductions go through memory."""
    axes = {axis.var: axis for stage in group.stages for axis in stage.axes}
    data = {buffer.data for buffer in own}
    reductions = [stage for stage in group.stages if stage.is_reduction]
    loads = [load for stage in reductions for load in stage.loads() if load.buffer.data not in data]
    most = max((len(load.indices) for load in loads), default=0)
    votes: dict[Axis, int] = {}
    for load in loads:
        last = load.indices[-1] if len(load.indices) == most > 0 else None
        if isinstance(last, Var) and last in axes:
            votes[axes[last]] = votes.get(axes[last], 0) + 1
    if not votes:  # a window: the last axis of the result moves along memory, in steps
        used = {var for load in loads if load.indices for var in free_vars(load.indices[-1])}
        votes = {axis: place for place, axis in enumerate(group.rows) if axis.var in used}
    return max(votes, key=lambda axis: votes[axis]) if votes else None


# ------------------------------------------------------------------------------------------ in parts


def _in_parts(group: Group, target: Target) -> Stmt | None:
    """One reduction of few rows as two: of parts, and of their results. None where that is not worth it."""
    (stage, *others) = group.stages
    if others or stage.combination is None or not _may_reorder(stage) or not stage.reduced:
        return None
    rows = _known_product(group.rows)
    if rows is None or rows >= (FEW_ROWS if _vector_axis(group, set()) not in group.rows else FEW_ROWS * ROW_STRIP):
        return None
    first, *inner = stage.reduced
    inside = _known_product(inner)
    count = max(1, PART // max((inside or 64) * max(rows, 1), 1))
    if first.size is not None and (first.size * (inside or 1) * max(rows, 1) < 4 * PART or first.size < 2 * count):
        return None
    dtype = first.var.dtype
    part = Axis(Var("part", dtype), simplify(ceildiv(first.extent, count)))
    start = part.var * count
    piece = Axis(Var(first.var.name, dtype), minimum(const(count, dtype), first.extent - start))
    return _two_reductions(group, stage, part, start, first, piece, target)


def _known_product(axes: Sequence[Axis]) -> int | None:
    total = 1
    for axis in axes:
        if axis.size is None:
            return None
        total *= axis.size
    return total


def _two_reductions(
    group: Group, stage: Stage, part: Axis, start: PrimExpr, first: Axis, piece: Axis, target: Target
) -> Stmt:
    """A reduction into one result for each part, and one of these results."""
    combination = stage.combination
    assert combination is not None
    row_vars = tuple(axis.var for axis in group.rows)
    extents = [part.extent, *(axis.extent for axis in group.rows)]
    partial = {b: decl_buffer(extents, str(b.dtype), f"{b.name}_parts") for b in combination.buffers}
    place = (part.var, *row_vars)
    redirect = _Redirect({b: (lambda _, p=p: (p, place)) for b, p in partial.items()})

    def moved(node: Node) -> Node:
        return redirect.visit(substitute(node, {first.var: start + piece.var}))

    starts = tuple(
        BufferStore(partial[b], value, place) for b, value in zip(combination.buffers, combination.identity, strict=True)
    )
    body = moved(stage.body)
    assert isinstance(body, Stmt)
    part_stage = Stage(
        (part, *(piece if axis is first else axis for axis in stage.axes)),
        tuple(piece if axis is first else axis for axis in stage.reduced),
        _stores_in(body), body, replace(combination, buffers=tuple(partial.values()), indices=place), starts,
    )  # fmt: skip
    last = _second(stage, combination, partial, part, row_vars)
    vector = _vector_axis(group, set())
    parts = Group((part_stage,), (part, *group.rows))
    results = Group((last,), group.rows)
    result: Stmt = block([
        _arranged(parts, set(), target, piece if vector is first else vector),
        renew_bound_vars(_arranged(results, set(), target, _vector_axis(results, set()))),
    ])  # fmt: skip
    for buffer in partial.values():
        result = AllocBuffer(buffer, result)
    return within(group, result)


def _second(
    stage: Stage, combination: Combination, partial: dict[Buffer, Buffer], part: Axis, rows: tuple[Var, ...]
) -> Stage:
    """The reduction of the results of parts."""
    so_far = tuple(BufferLoad(b, combination.indices) for b in combination.buffers)
    more = tuple(BufferLoad(partial[b], (part.var, *rows)) for b in combination.buffers)
    body = _store_all(combination.buffers, combination.indices, combination.combine(so_far, more))
    axes = (*stage.spatial, part)
    return Stage(axes, (part,), _stores_in(body), body, combination, stage.starts)


def _store_all(buffers: Sequence[Buffer], indices: tuple[PrimExpr, ...], values: Sequence[PrimExpr]) -> Stmt:
    """Stores of values, all of which are computed before the first is stored."""
    if len(buffers) == 1:
        return BufferStore(buffers[0], values[0], indices)
    names = [Var(f"v_{buffer.name}", buffer.dtype) for buffer in buffers]
    result: Stmt = block(BufferStore(b, name, indices) for b, name in zip(buffers, names, strict=True))
    for name, value in reversed(list(zip(names, values, strict=True))):
        result = LetStmt(name, value, result)
    return result


def _may_reorder(stage: Stage) -> bool:
    """True for a reduction whose elements may be combined in any order: all but products of floats."""
    combination = stage.combination
    if combination is None or not combination.commutative:
        return False
    return not (_operation(combination) is Mul and combination.buffers[0].dtype.is_float)


def _operation(combination: Combination) -> type[PrimExpr] | None:
    """The operation that combines two results, if there is one result."""
    if len(combination.buffers) != 1:
        return None
    dtype = combination.buffers[0].dtype
    (value,) = combination.combine((Var("x", dtype),), (Var("y", dtype),))
    return type(value)


def _stores_in(stmt: Node) -> tuple[BufferStore, ...]:
    stores: list[BufferStore] = []
    post_order_visit(stmt, lambda node: stores.append(node) if isinstance(node, BufferStore) else None)
    return tuple(stores)


# ------------------------------------------------------------------------------------------ passes

Place = Callable[[tuple[PrimExpr, ...]], "tuple[Buffer, tuple[PrimExpr, ...]]"]
"""Another buffer for one, with other indices."""


class _Redirect(StmtExprMutator):
    """Accesses to some buffers as accesses to others; equal values that have a name as that name."""

    def __init__(self, places: dict[Buffer, Place], named: Sequence[tuple[PrimExpr, Var]] = ()) -> None:
        super().__init__()
        self.places, self.named = places, named

    def visit(self, node):  # type: ignore[no-untyped-def, override]
        for value, var in self.named:
            if type(node) is type(value) and structural_equal(node, value):
                return var
        return super().visit(node)

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        node = self.visit_children(node)
        place = self.places.get(node.buffer)
        if place is None:
            return node
        buffer, indices = place(node.indices)
        return node.replace(buffer=buffer, indices=indices)

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        node = self.visit_children(node)
        place = self.places.get(node.buffer)
        if place is None:
            return node
        buffer, indices = place(node.indices)
        return node.replace(buffer=buffer, indices=indices)


@dataclass(frozen=True)
class _Pass:
    """Stages that share one loop over the elements of a row."""

    stages: tuple[Stage, ...]
    elements: tuple[Axis, ...]


def _passes(group: Group) -> list[_Pass]:
    """The stages, those together that go over the same elements and do not wait for each other's results."""
    result: list[_Pass] = []
    for stage in group.stages:
        elements = group.elements(stage)
        last = result[-1] if result else None
        if last is not None and elements and last.elements == elements and _keeps_pace(stage, last):
            result[-1] = _Pass((*last.stages, stage), elements)
        else:
            result.append(_Pass((stage,), elements))
    return result


def _keeps_pace(stage: Stage, before: _Pass) -> bool:
    """True if a stage reads of the stages before it only what they store at the same element."""
    stores = {store.buffer: (store, s) for s in before.stages for store in s.stores}
    for load in stage.loads():
        if load.buffer in stores:
            store, producer = stores[load.buffer]
            if producer.is_reduction or not _same(load.indices, store.indices):
                return False
    return True


def _same(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    return len(a) == len(b) and all(x is y or structural_equal(x, y) for x, y in zip(a, b, strict=True))


def _with_results_in_place(group: Group, own: set[Buffer]) -> Group:
    """The group with intermediate elements stored where the result will stand, if they have the same place and dtype."""
    data = {buffer.data for buffer in own}
    for first in group.stages:
        if first.is_reduction or first.buffers[0].data not in data or not group.elements(first):
            continue
        (store,) = first.stores
        loads = [(n, load) for n, s in enumerate(group.stages) for load in s.loads() if load.buffer is store.buffer]
        if not loads or not all(_same(load.indices, store.indices) for _, load in loads):
            continue
        last = group.stages[max(n for n, _ in loads)]
        target = last.stores[0]
        read = any(load.buffer.data is target.buffer.data for s in group.stages for load in s.loads())
        fits = target.buffer.dtype == store.buffer.dtype and _same(target.indices, store.indices)
        if last.is_reduction or not fits or read or target.buffer.data in data:
            continue
        to_result = _Redirect({store.buffer: lambda indices, b=target.buffer: (b, indices)})
        stages = tuple(_changed(stage, to_result.visit) for stage in group.stages)
        return replace(group, stages=stages)
    return group


def _changed(stage: Stage, change: Callable[[Stmt], Stmt]) -> Stage:
    """A stage with another body and other starts."""
    body = change(stage.body)
    starts = tuple(store for start in stage.starts for store in _stores_in(change(start)))
    combination = stage.combination
    if combination is not None:
        buffers = {old.buffer: new for old, new in zip(stage.stores, _stores_in(body), strict=True)}
        stores = tuple(buffers[buffer] for buffer in combination.buffers)
        combination = replace(
            combination, buffers=tuple(store.buffer for store in stores), indices=stores[0].indices
        )
    return replace(stage, stores=_stores_in(body), body=body, starts=starts, combination=combination)


class _Rows:
    """Writes the stages of a group for each of its rows."""

    def __init__(self, group: Group, own: set[Buffer], target: Target) -> None:
        self.group = _with_results_in_place(group, own)
        self.target = target
        self.own = {buffer.data for buffer in own}
        self.locals: list[Buffer] = []

    def localised(self, extra: tuple[PrimExpr, ...] = (), more: tuple[PrimExpr, ...] = ()) -> Group:
        """The group with storage of a row's own for buffers that nothing else uses.

        They have the dimensions that are no rows, and those in `extra`, indexed by `more`.
        """
        rows = {axis.var for axis in self.group.rows}
        places: dict[Buffer, Place] = {}
        for stage in self.group.stages:
            for store in stage.stores:
                if store.buffer.data not in self.own or store.buffer in places:
                    continue
                kept = [d for d, i in enumerate(store.indices) if not (isinstance(i, Var) and i in rows)]
                kept = [d for d in kept if not is_const(store.buffer.shape[d], 1)]
                shape = (*(store.buffer.shape[d] for d in kept), *extra) or (const(1, "int64"),)
                local = decl_buffer(shape, str(store.buffer.dtype), store.buffer.name)
                self.locals.append(local)
                tail = more if kept or more else (const(0, "int64"),)
                places[store.buffer] = lambda indices, b=local, k=tuple(kept), t=tail: (
                    b, (*(indices[d] for d in k), *t),
                )  # fmt: skip
        redirect = _Redirect(places)
        return replace(self.group, stages=tuple(_changed(s, redirect.visit) for s in self.group.stages))

    def allocated(self, body: Stmt) -> Stmt:
        for buffer in reversed(self.locals):
            body = AllocBuffer(buffer, body)
        return body

    def needed_later(self, buffer: Buffer, passes: Sequence[_Pass], position: int) -> bool:
        """True if what a pass stores in a buffer is read after it, or is a result."""
        if all(buffer is not local for local in self.locals):
            return True
        return any(
            load.buffer is buffer for later in passes[position + 1 :] for s in later.stages for load in s.loads()
        )


@dataclass(frozen=True)
class _Element:
    """Statements for one element of a pass: values with names, stores, and updates of reductions."""

    lets: tuple[Binding, ...]
    stores: tuple[BufferStore, ...]
    updates: tuple[Stage, ...]

    def statement(self, wrap: Callable[[PrimExpr], PrimExpr], parts: Sequence[Stmt]) -> Stmt:
        result = block(parts)
        for var, value in reversed(self.lets):
            result = LetStmt(var, wrap(value), result)
        return result


def _element_of(rows: _Rows, passes: Sequence[_Pass], position: int) -> _Element:
    """The element of a pass: what a stage stores and a later one reads has a name."""
    named: list[Binding] = []
    stores: list[BufferStore] = []
    updates: list[Stage] = []
    stages = passes[position].stages
    names = Names(lambda load: any(stage.cannot_fail(load) for stage in stages))
    for stage in stages:
        equal = tuple((value, var) for var, value in named)
        stage = _changed(stage, _Redirect({}, equal).visit) if equal else stage
        if stage.is_reduction:
            updates.append(replace(stage, body=_named_update(stage, names)))
            continue
        (store,) = stage.stores
        value = names.value(store.value)
        if len(stages) > 1:
            var = Var(store.buffer.name, store.value.dtype)
            names.bindings.append((var, value))
            named += [(var, BufferLoad(store.buffer, store.indices)), (var, store.value)]
            value = var
        if len(stages) == 1 or rows.needed_later(store.buffer, passes, position):
            stores.append(store.replace(value=value))
    return _Element(tuple(names.bindings), tuple(stores), tuple(updates))


def _named_update(stage: Stage, names: Names) -> Stmt:
    """The update of a reduction with the names of elements; of several results, those so far have names too."""
    body = names.stmt(stage.body, stage.buffers)
    if len(stage.buffers) == 1 or stage.combination is None:
        return body
    so_far = Names(lambda load: load.buffer in stage.buffers)
    body = so_far.stmt(body)
    return bound(so_far.bindings, body)


# ------------------------------------------------------------------------------------------ along the elements


class _Along(_Rows):
    """Memory runs along the elements of a row: vectors of elements."""

    def __init__(self, group: Group, own: set[Buffer], target: Target, vector: Axis | None) -> None:
        super().__init__(group, own, target)
        self.vector = vector

    def loops(self) -> Stmt:
        """All rows, in parallel."""
        group = self.localised()
        passes = _passes(group)
        row = block(renew_bound_vars(self.pass_(passes, position)) for position in range(len(passes)))
        return parallel_over(group.rows, self.allocated(row))

    def pass_(self, passes: Sequence[_Pass], position: int) -> Stmt:
        one = passes[position]
        if not one.elements:
            return block(block([*stage.starts, stage.body]) for stage in one.stages)
        element = _element_of(self, passes, position)
        along = self.vector in one.elements and all(
            runs_along_memory(stage, self.vector.var) for stage in one.stages if self.vector is not None
        )
        if self.vector is None or not along:
            return self.plain(one, element)
        if not element.updates:
            return self.spatial(one, element, self.vector)
        if not all(_may_reorder(stage) for stage in element.updates):
            return self.plain(one, element)
        return _Lanes(self, one, element, self.vector).loops()

    def plain(self, one: _Pass, element: _Element) -> Stmt:
        """A plain loop."""
        starts = [store for stage in element.updates for store in stage.starts]
        parts = [*element.stores, *(stage.body for stage in element.updates)]
        return block([*starts, nested(one.elements, element.statement(lambda value: value, parts))])

    def spatial(self, one: _Pass, element: _Element, vector: Axis) -> Stmt:
        """A vector loop without reductions."""
        body = element.statement(lambda value: value, element.stores)
        inner = For(vector.var, const(0, vector.var.dtype), vector.extent, ForKind.VECTORIZED, body)
        return nested([axis for axis in one.elements if axis is not vector], inner)


def nested(axes: Sequence[Axis], body: Stmt) -> Stmt:
    """Serial loops over axes."""
    for axis in reversed(axes):
        body = For(axis.var, const(0, axis.var.dtype), axis.extent, ForKind.SERIAL, body)
    return body


class _Lanes:
    """A pass with reductions along memory: several vectors of partial results for each."""

    def __init__(self, rows: _Rows, one: _Pass, element: _Element, vector: Axis) -> None:
        self.one, self.element, self.vector = one, element, vector
        bits = max(
            min(buffer.dtype.bits, 32) for stage in element.updates for buffer in stage.buffers
        )
        self.lanes = max(rows.target.machine.vector_bits // max(bits, 8), 1)
        self.count = self._vectors()

    def _vectors(self) -> int:
        """The vectors of partial results: as many as hide the time of an addition, fewer where elements take long."""
        calls = 0

        def visit(node: Node) -> None:
            nonlocal calls
            calls += isinstance(node, Call)

        for part in (*(v for _, v in self.element.lets), *(s.body for s in self.element.updates)):
            post_order_visit(part, visit)
        several = any(len(stage.buffers) > 1 for stage in self.element.updates)
        most = 1 if several else 2 if calls else 4
        size = self.vector.size
        return most if size is None else min(most, max(-(-size // self.lanes), 1))

    def loops(self) -> Stmt:
        """Partial results, the loops that fill them, and what they are combined to."""
        accumulators: dict[Buffer, Buffer] = {}
        for stage in self.element.updates:
            for buffer in stage.buffers:
                accumulators[buffer] = decl_buffer(
                    (self.count, self.lanes), str(buffer.dtype), f"{buffer.name}_lanes", scope="local"
                )
        starts = [self._start(stage, accumulators) for stage in self.element.updates]
        ends = [self._end(stage, accumulators) for stage in self.element.updates]
        outer = [axis for axis in self.one.elements if axis is not self.vector]
        body: Stmt = block([*starts, nested(outer, block(self._filled(accumulators))), *ends])
        for buffer in accumulators.values():
            body = AllocBuffer(buffer, body)
        return body

    def _start(self, stage: Stage, accumulators: dict[Buffer, Buffer]) -> Stmt:
        assert stage.combination is not None
        values = zip(stage.combination.buffers, stage.combination.identity, strict=True)
        return block(
            vector_store(accumulators[buffer], (u, 0), spread(value, self.lanes))
            for buffer, value in values
            for u in range(self.count)
        )

    def _filled(self, accumulators: dict[Buffer, Buffer]) -> list[Stmt]:
        """The loop over whole blocks of vectors, and that over the vectors left, the last with a mask."""
        step = self.count * self.lanes
        extent, dtype = self.vector.extent, self.vector.var.dtype
        whole, left = simplify(floordiv(extent, step)), simplify(floormod(extent, step))
        parts: list[Stmt] = []
        if not is_const(whole, 0):
            parts.append(loop("k", whole, lambda v: self._block(v * step, accumulators)))
        if not is_const(left, 0):
            start = simplify(whole * step)
            vectors = simplify(ceildiv(left, self.lanes))
            parts.append(loop("k", vectors, lambda v: self._vector(
                start + v * self.lanes, accumulators, const(0, "int64"), extent.astype("int64"))))  # fmt: skip
        del dtype
        return parts

    def _block(self, start: PrimExpr, accumulators: dict[Buffer, Buffer]) -> Stmt:
        if self.count == 1:
            return self._vector(start, accumulators, const(0, "int64"), None)
        return loop(
            "u",
            self.count,
            lambda u: self._vector(start + u * self.lanes, accumulators, u, None),
            ForKind.UNROLLED,
        )

    def _vector(
        self, start: PrimExpr, accumulators: dict[Buffer, Buffer], u: PrimExpr, end: PrimExpr | None
    ) -> Stmt:
        """One vector of elements; those from `end` on count for nothing."""

        def lane(at: Var) -> Stmt:
            place = start + at
            inside = None if end is None else place < end
            redirect = _Redirect({b: (lambda _, acc=acc: (acc, (u, at))) for b, acc in accumulators.items()})
            parts: list[Stmt] = []
            stores = block(self.element.stores)
            if self.element.stores:
                parts.append(stores if inside is None else IfThenElse(inside, stores))
            for stage in self.element.updates:
                body = redirect.visit(stage.body)
                parts.append(body if inside is None else _Guarded(inside).visit(body))

            def wrap(value: PrimExpr) -> PrimExpr:
                return value if inside is None else if_then_else(inside, value, const(0, str(value.dtype)))

            result = self.element.statement(wrap, parts)
            moved = substitute(result, {self.vector.var: place.astype(self.vector.var.dtype)})
            assert isinstance(moved, Stmt)
            return renew_bound_vars(moved)

        return loop("lane", self.lanes, lane, ForKind.VECTORIZED)

    def _end(self, stage: Stage, accumulators: dict[Buffer, Buffer]) -> Stmt:
        """The result of a reduction: all lanes combined, and with the value it starts from."""
        combination = stage.combination
        assert combination is not None
        first = {store.buffer: store.value for store in stage.starts}
        starts = tuple(first[buffer] for buffer in combination.buffers)
        operation = _operation(combination)
        (buffer, *_) = combination.buffers
        wide = buffer.dtype.is_integer or buffer.dtype in ("float32", "float64")
        if operation in LANE_REDUCTIONS and wide and self.lanes & (self.lanes - 1) == 0:
            acc = accumulators[buffer]
            total: tuple[PrimExpr, ...] = (vector_load(acc, (0, 0), self.lanes),)
            for u in range(1, self.count):
                total = combination.combine(total, (vector_load(acc, (u, 0), self.lanes),))
            value = LANE_REDUCTIONS[operation](total[0])
            if not structural_equal(starts[0], combination.identity[0]):
                (value,) = combination.combine(starts, (value,))
            return BufferStore(buffer, value, combination.indices)
        return self._lane_by_lane(combination, starts, accumulators)

    def _lane_by_lane(
        self, combination: Combination, starts: tuple[PrimExpr, ...], accumulators: dict[Buffer, Buffer]
    ) -> Stmt:
        """A loop over the lanes, of a copy in memory: what is indexed by a variable is in no register."""
        copies = {
            b: decl_buffer((self.count, self.lanes), str(b.dtype), f"{b.name}_all") for b in combination.buffers
        }
        parts: list[Stmt] = [
            vector_store(copies[b], (u, 0), vector_load(accumulators[b], (u, 0), self.lanes))
            for b in combination.buffers
            for u in range(self.count)
        ]
        parts += [
            BufferStore(b, value, combination.indices)
            for b, value in zip(combination.buffers, starts, strict=True)
        ]
        so_far = tuple(BufferLoad(b, combination.indices) for b in combination.buffers)

        def combined(u: Var, at: Var) -> Stmt:
            more = tuple(BufferLoad(copies[b], (u, at)) for b in combination.buffers)
            return _store_all(combination.buffers, combination.indices, combination.combine(so_far, more))

        parts.append(loop("u", self.count, lambda u: loop("lane", self.lanes, lambda at: combined(u, at))))
        body: Stmt = block(parts)
        for copy in copies.values():
            body = AllocBuffer(copy, body)
        return body


class _Guarded(StmtExprMutator):
    """Stores that keep the old value where a condition does not hold."""

    def __init__(self, condition: PrimExpr) -> None:
        super().__init__()
        self.condition = condition

    def visit_LetStmt(self, node: LetStmt) -> LetStmt:
        value = if_then_else(self.condition, node.value, const(0, str(node.value.dtype)))
        return node.replace(value=value, body=self.visit(node.body))

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        old = BufferLoad(node.buffer, node.indices)
        return node.replace(value=if_then_else(self.condition, node.value, old))


# ------------------------------------------------------------------------------------------ across the rows


class _Across(_Rows):
    """Memory runs along the rows: a strip of rows is a vector loop, inside of loops over elements."""

    def __init__(self, group: Group, own: set[Buffer], target: Target, vector: Axis) -> None:
        super().__init__(group, own, target)
        self.vector = vector
        size = vector.size
        self.width = size if size is not None and size <= 2 * ROW_STRIP else ROW_STRIP
        self.at = Var("lane", vector.var.dtype)

    def loops(self) -> Stmt:
        """All strips of rows, in parallel."""
        width = const(self.width, "int64")
        group = self.localised((width,), (self.at,))
        strips = Axis(Var("strip", self.at.dtype), simplify(ceildiv(self.vector.extent, self.width)))
        start = simplify(strips.var * self.width)
        others = [axis for axis in group.rows if axis is not self.vector]
        passes = _passes(group)

        def strip(count: PrimExpr) -> Stmt:
            parts = [self.pass_(passes, position, count) for position in range(len(passes))]
            whole = substitute(self.allocated(block(parts)), {self.vector.var: start + self.at})
            assert isinstance(whole, Stmt)
            return renew_bound_vars(whole)

        if is_const(simplify(floormod(self.vector.extent, self.width)), 0):
            return parallel_over([*others, strips], strip(const(self.width, self.at.dtype)))
        length = minimum(const(self.width, self.at.dtype), self.vector.extent - start)
        return parallel_over([*others, strips], let("length", length, strip))

    def each(self, body: Stmt, count: PrimExpr, along: bool = True) -> Stmt:
        """A statement for each row of the strip."""
        kind = ForKind.VECTORIZED if along else ForKind.SERIAL
        return For(self.at, const(0, self.at.dtype), count, kind, body)

    def pass_(self, passes: Sequence[_Pass], position: int, count: PrimExpr) -> Stmt:
        one = passes[position]
        along = all(runs_along_memory(stage, self.vector.var) for stage in self.group.stages)
        if not one.elements:
            return block(
                self.each(block([*stage.starts, stage.body]), count, along) for stage in one.stages
            )
        element = _element_of(self, passes, position)
        places: dict[Buffer, Place] = {}
        before: list[Stmt] = []
        behind: list[Stmt] = []
        for stage in element.updates:
            for start in stage.starts:
                if all(start.buffer is not local for local in self.locals):
                    sums = decl_buffer((self.width,), str(start.buffer.dtype), f"{start.buffer.name}_strip")
                    self.locals.append(sums)
                    places[start.buffer] = lambda _, b=sums: (b, (self.at,))
                    behind.append(self.each(start.replace(value=BufferLoad(sums, (self.at,))), count, along))
                before.append(self.each(_Redirect(places).visit(start), count, along))
        parts = [*element.stores, *(_Redirect(places).visit(stage.body) for stage in element.updates)]
        body = element.statement(lambda value: value, parts)
        return block([*before, nested(one.elements, self.each(body, count, along)), *behind])


__all__ = ["rows_of"]
