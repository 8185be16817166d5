"""Passes over the elements of a row: stages of a group fused into one loop, and names for their values.

for k: E[i, k] = exp(A[i, k] - M[i])       for k:
for k: S[i] += exp(A[i, k] - M[i])             a = A[i, k];  m = M[0];  e = exp(a - m)
                                               E[i, k] = e
                                               S[0] += e
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from ....ir import Node, structural_equal
from ....prim import Mul, PrimExpr, Var, const, is_const
from ....runtime.records import dataclass
from ....target import Target
from ....tir import AllocBuffer, Buffer, BufferLoad, BufferStore, LetStmt, Stmt
from ....tir.buffer import decl_buffer
from ....tir.functor import StmtExprMutator, post_order_visit, substitute
from ....tir.nests import buffers_used
from ....tir.schedule.reducers import Combination
from ...build import block
from ...invariants import Invariants
from ...stages import Axis, Group, Stage
from ...straight import Binding, Names, bound

N = TypeVar("N", bound=Node)

Place = Callable[[tuple[PrimExpr, ...]], "tuple[Buffer, tuple[PrimExpr, ...]]"]
"""Maps an access to another buffer with other indices."""


class Redirect(StmtExprMutator):
    """Redirects accesses of some buffers to others, and replaces values that have a name by the name."""

    def __init__(self, places: dict[Buffer, Place], named: Sequence[tuple[PrimExpr, Var]] = ()) -> None:
        super().__init__()
        self.places, self.named = places, named

    def visit(self, node: N) -> N:
        for value, var in self.named:
            if type(node) is type(value) and structural_equal(node, value):
                return cast(N, var)
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
class Pass:
    """Stages fused into one loop over the elements of a row."""

    stages: tuple[Stage, ...]
    elements: tuple[Axis, ...]


def passes_of(group: Group) -> list[Pass]:
    """Fuse stages over the same elements that do not depend on each other's complete results."""
    result: list[Pass] = []
    for stage in group.stages:
        elements = group.elements(stage)
        last = result[-1] if result else None
        if last is not None and elements and last.elements == elements and _keeps_pace(stage, last):
            result[-1] = Pass((*last.stages, stage), elements)
        else:
            result.append(Pass((stage,), elements))
    return result


def _keeps_pace(stage: Stage, before: Pass) -> bool:
    """True if the stage reads only same-element results of the earlier stages of the pass."""
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
    """Store intermediate elements directly in the result's buffer if indices and dtype match."""
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
        to_result = Redirect({store.buffer: lambda indices, b=target.buffer: (b, indices)})
        stages = tuple(_changed(stage, to_result.visit) for stage in group.stages)
        return replace(group, stages=stages)
    return group


def _changed(stage: Stage, change: Callable[[Stmt], Stmt]) -> Stage:
    """Apply `change` to the body and the initial stores of a stage."""
    body = change(stage.body)
    starts = tuple(store for start in stage.starts for store in stores_in(change(start)))
    combination = stage.combination
    if combination is not None:
        buffers = {old.buffer: new for old, new in zip(stage.stores, stores_in(body), strict=True)}
        stores = tuple(buffers[buffer] for buffer in combination.buffers)
        combination = replace(combination, buffers=tuple(store.buffer for store in stores), indices=stores[0].indices)
    return replace(stage, stores=stores_in(body), body=body, starts=starts, combination=combination)


class Rows:
    """Writes the stages of a group for each of its rows."""

    def __init__(self, group: Group, own: set[Buffer], target: Target) -> None:
        self.group = _with_results_in_place(group, own)
        self.target = target
        self.own = {buffer.data for buffer in own}
        self.locals: list[Buffer] = []

    def localised(self, extra: tuple[PrimExpr, ...] = (), more: tuple[PrimExpr, ...] = ()) -> Group:
        """Replace buffers used only inside a row by row-local storage.

        It has the dimensions that are no rows, and those of `extra`, indexed by `more`. The results of one reduction
        are all replaced or none is.
        """
        rows = {axis.var for axis in self.group.rows}
        places: dict[Buffer, Place] = {}
        for stage in self.group.stages:
            if any(store.buffer.data not in self.own for store in stage.stores):
                continue
            for store in stage.stores:
                if store.buffer in places:
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
        redirect = Redirect(places)
        return replace(self.group, stages=tuple(_changed(s, redirect.visit) for s in self.group.stages))

    def allocated(self, body: Stmt) -> Stmt:
        """Wrap `body` in the row-local allocations it uses."""
        reads, writes = buffers_used(body)
        for buffer in reversed(self.locals):
            if buffer.data in reads | writes:
                body = AllocBuffer(buffer, body)
        return body

    def needed_later(self, buffer: Buffer, passes: Sequence[Pass], position: int) -> bool:
        """True if a buffer stored by a pass is read later or is a result."""
        if all(buffer is not local for local in self.locals):
            return True
        return any(
            load.buffer is buffer for later in passes[position + 1 :] for s in later.stages for load in s.loads()
        )


@dataclass(frozen=True)
class Element:
    """Statements for one element of a pass: named values, stores, and updates of reductions."""

    lets: tuple[Binding, ...]
    stores: tuple[BufferStore, ...]
    updates: tuple[Stage, ...]

    def statement(self, wrap: Callable[[PrimExpr], PrimExpr], parts: Sequence[Stmt]) -> Stmt:
        result = block(parts)
        for var, value in reversed(self.lets):
            result = LetStmt(var, wrap(value), result)
        return result

    def at(self, places: dict[Var, PrimExpr]) -> Element:
        """Return the statements with other values for the variables in `places`."""
        return Element(
            tuple((var, substitute(value, places)) for var, value in self.lets),
            tuple(substitute(store, places) for store in self.stores),
            tuple(replace(stage, body=substitute(stage.body, places)) for stage in self.updates),
        )


def element_of(rows: Rows, passes: Sequence[Pass], position: int) -> Element:
    """Return the element statements of a pass; values stored by one stage and read by a later one get names."""
    named: list[Binding] = []
    stores: list[BufferStore] = []
    updates: list[Stage] = []
    stages = passes[position].stages
    names = Names(lambda load: any(stage.cannot_fail(load) for stage in stages))
    for stage in stages:
        equal = tuple((value, var) for var, value in named)
        stage = _changed(stage, Redirect({}, equal).visit) if equal else stage
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
    return Element(tuple(names.bindings), tuple(stores), tuple(updates))


def without_invariants(element: Element, one: Pass, vector: Axis) -> tuple[Element, list[Binding]]:
    """Hoist the values that are invariant along an axis; return the element without them, and their bindings."""
    invariants = Invariants([vector.var], lambda load: any(s.cannot_fail(load) for s in one.stages))
    lets = invariants.split(element.lets)
    stores = tuple(map(invariants.named, element.stores))
    updates = tuple(replace(stage, body=invariants.named(stage.body)) for stage in element.updates)
    return Element(tuple(lets), stores, updates), invariants.bindings


def _named_update(stage: Stage, names: Names) -> Stmt:
    """Return the update of a reduction with named elements; with several results, the running ones are named too."""
    body = names.stmt(stage.body, stage.buffers)
    if len(stage.buffers) == 1 or stage.combination is None:
        return body
    so_far = Names(lambda load: load.buffer in stage.buffers)
    body = so_far.stmt(body)
    return bound(so_far.bindings, body)


# ------------------------------------------------------------------------------------------ combinations


def store_all(buffers: Sequence[Buffer], indices: tuple[PrimExpr, ...], values: Sequence[PrimExpr]) -> Stmt:
    """Store values, all of which are computed before the first store."""
    if len(buffers) == 1:
        return BufferStore(buffers[0], values[0], indices)
    names = [Var(f"v_{buffer.name}", buffer.dtype) for buffer in buffers]
    result: Stmt = block(BufferStore(b, name, indices) for b, name in zip(buffers, names, strict=True))
    for name, value in reversed(list(zip(names, values, strict=True))):
        result = LetStmt(name, value, result)
    return result


def may_reorder(stage: Stage) -> bool:
    """True if the elements may be combined in any order: all reductions except products of floats."""
    combination = stage.combination
    if combination is None or not combination.commutative:
        return False
    return not (operation_of(combination) is Mul and combination.buffers[0].dtype.is_float)


def operation_of(combination: Combination) -> type[PrimExpr] | None:
    """Operation that combines two results of a reduction with a single result, or None."""
    if len(combination.buffers) != 1:
        return None
    dtype = combination.buffers[0].dtype
    (value,) = combination.combine((Var("x", dtype),), (Var("y", dtype),))
    return type(value)


def stores_in(stmt: Node) -> tuple[BufferStore, ...]:
    """Stores below a node."""
    stores: list[BufferStore] = []
    post_order_visit(stmt, lambda node: stores.append(node) if isinstance(node, BufferStore) else None)
    return tuple(stores)
