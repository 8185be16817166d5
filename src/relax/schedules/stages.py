"""Kernels as stages over axes: nests that read each other's results share their common loops.

    for i, k: M[i] = max(M[i], A[i, k])          axes i (a row) and k (an element of a row)
    for i, k: E[i, k] = exp(A[i, k] - M[i])      the same axes: k indexes the same dimension of A
    for i, k: S[i] = S[i] + E[i, k]
    for i, k: Y[i, k] = E[i, k] / S[i]

An axis unifies the loop variables of several nests that index the same dimension of a buffer. A row axis occurs in all
stages of a group and is reduced by none: the stages may run row by row. The other axes iterate over the elements of a
row.

Adjacent axes are merged if they index adjacent dimensions of every buffer, which is then accessed through a view with
fewer dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace

from ..ir import Node, children_of
from ..prim import IntImm, PrimExpr, SizeVar, Var, const, is_const, simplify
from ..runtime.records import dataclass
from ..tir import Buffer, BufferLoad, BufferStore, IterVar, Stmt
from ..tir.buffer import decl_buffer
from ..tir.functor import StmtExprMutator, post_order_visit, substitute
from ..tir.nests import Nest, is_compact, loads_in, same_size
from ..tir.schedule.reducers import Combination, NoCombination, combination_of


@dataclass(frozen=True, eq=False)
class Axis:
    """Variable that ranges from 0 to an extent."""

    var: Var
    extent: PrimExpr

    @property
    def size(self) -> int | None:
        """Static extent, or None."""
        return self.extent.value if isinstance(self.extent, IntImm) else None


@dataclass(frozen=True, eq=False)
class Stage:
    """Loop nest over axes, with the statement it executes at each point."""

    axes: tuple[Axis, ...]
    """Axes in loop order, without loops of one iteration."""
    reduced: tuple[Axis, ...]
    """Reduction axes in loop order."""
    stores: tuple[BufferStore, ...]
    body: Stmt
    combination: Combination | None
    """Reduction operation, if it is a standard one."""
    starts: tuple[BufferStore, ...] = ()
    """Stores of the reduction's init."""

    @property
    def is_reduction(self) -> bool:
        return bool(self.starts)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Buffers that the stage writes."""
        return tuple(store.buffer for store in self.stores)

    @property
    def spatial(self) -> tuple[Axis, ...]:
        return tuple(axis for axis in self.axes if axis not in self.reduced)

    def cannot_fail(self, load: BufferLoad) -> bool:
        """True if the load is provably in bounds at every point: its indices are axes and zeros."""
        extents = {axis.var: axis.extent for axis in self.axes}
        for index, size in zip(load.indices, load.buffer.shape, strict=True):
            if isinstance(index, Var) and index in extents:
                if not same_size(extents[index], size):
                    return False
            elif not is_const(index, 0) or not is_const(size, 1):
                return False
        return True

    def loads(self) -> list[BufferLoad]:
        """Loads of the body, except those of the stage's own results."""
        return [load for load in loads_in(self.body) if load.buffer not in self.buffers]


@dataclass(frozen=True)
class Group:
    """Stages that run one after the other for each row independently."""

    stages: tuple[Stage, ...]
    rows: tuple[Axis, ...]
    """Row axes in the order of the first stage's loops."""
    views: tuple[Buffer, ...] = ()
    names: tuple[tuple[Var, PrimExpr], ...] = ()
    """Named sizes to bind around the views."""

    def elements(self, stage: Stage) -> tuple[Axis, ...]:
        """Axes of a stage other than the rows."""
        return tuple(axis for axis in stage.axes if axis not in self.rows)


# ------------------------------------------------------------------------------------------ grouping


def group_of(nests: Sequence[Nest]) -> Group | None:
    """Return the nests as one group, or None if they cannot be run row by row."""
    names = _axes_of(nests)
    if names is None:
        return None
    stages: list[Stage] = []
    for nest, axes in zip(nests, names, strict=True):
        stage = _stage(nest, axes)
        if len({axis.var for axis in stage.axes}) < len(stage.axes):
            return None
        stages.append(stage)
    first, *others = stages
    rows = tuple(axis for axis in first.spatial if all(axis in stage.spatial for stage in others))
    group = Group(tuple(stages), rows)
    return group if len(stages) == 1 or _is_legal(group) else None


def _stage(nest: Nest, axes: dict[Var, Axis | None]) -> Stage:
    """Replace the block variables of a nest by axes; None in `axes` stands for a variable that is 0."""
    block = nest.block
    values = {var: const(0, var.dtype) if axis is None else axis.var for var, axis in axes.items()}
    body = substitute(block.body, values)
    present = [(v, axes[v.var]) for v in block.iter_vars]
    combination: Combination | None = None
    starts: tuple[BufferStore, ...] = ()
    if nest.is_reduction:
        starts = _stores_in(substitute(block.init, values))
        variables = tuple(
            IterVar(v.dom, axis.var, v.iter_type) for v, axis in present if axis is not None and v.dom is not None
        )
        init = substitute(block.init, values)
        try:
            combination = combination_of(block.replace(iter_vars=variables, body=body, init=init))
        except NoCombination:
            combination = None
    return Stage(
        tuple(axis for _, axis in present if axis is not None),
        tuple(axis for v, axis in present if axis is not None and v.iter_type == "reduce"),
        _stores_in(body), body, combination, starts,
    )  # fmt: skip


def _stores_in(stmt: Node) -> tuple[BufferStore, ...]:
    stores: list[BufferStore] = []
    post_order_visit(stmt, lambda node: stores.append(node) if isinstance(node, BufferStore) else None)
    return tuple(stores)


def _axes_of(nests: Sequence[Nest]) -> list[dict[Var, Axis | None]] | None:
    """Return the axis of each variable of each nest, or None if one axis has different extents or dtypes."""
    leaders: dict[object, object] = {}

    def leader(item: object) -> object:
        while item in leaders:
            item = leaders[item]
        return item

    def join(a: object, b: object) -> None:
        a, b = leader(a), leader(b)
        if a != b:
            leaders[a] = b

    if len(nests) > 1:
        for nest in nests:
            own = set(nest.variables)
            for access in (*nest.stores, *nest.loads()):
                for dimension, index in enumerate(access.indices):
                    if isinstance(index, Var) and index in own:
                        join(id(index), (id(access.buffer), dimension))
    axes: dict[object, Axis] = {}
    result: list[dict[Var, Axis | None]] = []
    for nest in nests:
        names: dict[Var, Axis | None] = {}
        for iter_var in nest.block.iter_vars:
            var, dom = iter_var.var, iter_var.dom
            assert dom is not None
            if is_const(dom.extent, 1):
                names[var] = None
                continue
            root = leader(id(var))
            axis = axes.setdefault(root, Axis(Var(var.name.removeprefix("v_"), var.dtype), dom.extent))
            if axis.var.dtype != var.dtype or not same_size(axis.extent, dom.extent):
                return None
            names[var] = axis
        result.append(names)
    return result


def _is_legal(group: Group) -> bool:
    """True if running the stages row by row computes what they compute one after the other.

    Each stage after the first reads a result of the group; results are written once, before they are read, and read in
    the row that wrote them. Reductions are over all elements of a row, so that each has one result.
    """
    if not group.rows or not any(stage.is_reduction for stage in group.stages):
        return False
    written: dict[Buffer, BufferStore] = {}
    read: set[Buffer] = set()
    for number, stage in enumerate(group.stages):
        if stage.is_reduction and set(stage.spatial) != set(group.rows):
            return False
        loads = stage.loads()
        own = [load for load in loads if load.buffer in written]
        if number and not own:
            return False
        if not all(_is_in_row(load, written[load.buffer], group.rows) for load in own):
            return False
        if any(buffer in read or buffer in written for buffer in stage.buffers):
            return False
        read |= {load.buffer for load in loads}
        written |= {store.buffer: store for store in stage.stores}
    return True


def _is_in_row(load: BufferLoad, store: BufferStore, rows: Iterable[Axis]) -> bool:
    row_vars = {axis.var for axis in rows}
    return all(
        index is place
        for index, place in zip(load.indices, store.indices, strict=True)
        if isinstance(place, Var) and place in row_vars
    )


# ------------------------------------------------------------------------------------------ merging axes


@dataclass
class _Merge:
    """Two axes to be merged, and the buffers with the first of the two neighbouring dimensions they index."""

    outer: Axis
    inner: Axis
    places: dict[Buffer, int] = field(default_factory=dict[Buffer, int])


def with_merged_axes(group: Group) -> Group:
    """Merge the axes of the group as far as its memory accesses allow."""
    done = False
    while not done:
        done = True
        for stage in group.stages:
            for outer, inner in zip(stage.axes, stage.axes[1:], strict=False):
                merge = _merge_of(group, outer, inner)
                if merge is not None:
                    group = _merged(group, merge)
                    done = False
                    break
            if not done:
                break
    return group


def _merge_of(group: Group, outer: Axis, inner: Axis) -> _Merge | None:
    """Return how two axes merge, or None if they do not."""
    if outer.var.dtype != "int64" or (outer in group.rows) != (inner in group.rows):
        return None
    merge = _Merge(outer, inner)
    for stage in group.stages:
        present = [axis for axis in stage.axes if axis is outer or axis is inner]
        if present and present != [outer, inner]:
            return None
        if present and (stage.axes.index(inner) != stage.axes.index(outer) + 1):
            return None
        if (outer in stage.reduced) != (inner in stage.reduced) or not _fits(stage, merge):
            return None
    accesses = [access for stage in group.stages for access in _accesses(stage)]
    # The element count of a buffer fits int64; the iteration count of an empty nest need not.
    return merge if merge.places and all(_is_at(access, merge) for access in accesses) else None


def _is_at(access: BufferLoad | BufferStore, merge: _Merge) -> bool:
    """False if a buffer with a merged dimension is accessed at other indices than the two axes."""
    place = merge.places.get(access.buffer)
    return place is None or access.indices[place] is merge.outer.var


def _fits(stage: Stage, merge: _Merge) -> bool:
    """True if the stage uses both axes only as neighbouring indices; records the dimensions in `merge`."""
    outer, inner = merge.outer.var, merge.inner.var
    uses = 0
    for access in _accesses(stage):
        indices = list(access.indices)
        place = next((d for d, index in enumerate(indices) if index is outer), None)
        if place is None:
            if any(index is inner for index in indices):
                return False
            continue
        behind = place + 1
        if behind >= len(indices) or indices[behind] is not inner or not is_compact(access.buffer):
            return False
        if merge.places.setdefault(access.buffer, place) != place:
            return False
        if not _is_dense(access.buffer, place, merge):
            return False
        uses += 1
    # The variables may occur nowhere else. Each occurrence of a load or store counts.
    return _occurrences(stage, outer) == _occurrences(stage, inner) == uses


def _is_dense(buffer: Buffer, place: int, merge: _Merge) -> bool:
    """True if the inner axis covers its whole dimension and the outer one its own, or the sizes are static.

    int64 cannot index more than 2⁶³ - 1 elements by one axis; a dynamic tensor of that size fails to allocate.
    """
    first, second = buffer.shape[place : place + 2]
    if not same_size(second, merge.inner.extent):
        return False
    if isinstance(first, IntImm) and isinstance(second, IntImm):
        return first.value * second.value < 1 << 63
    return same_size(first, merge.outer.extent)


def _accesses(stage: Stage) -> list[BufferLoad | BufferStore]:
    accesses: list[BufferLoad | BufferStore] = []

    def visit(node: Node) -> None:
        if isinstance(node, (BufferLoad, BufferStore)):
            accesses.append(node)

    for stmt in (stage.body, *stage.starts):
        post_order_visit(stmt, visit)
    return accesses


def _occurrences(stage: Stage, var: Var) -> int:
    """Number of expressions with the variable as a direct operand."""
    count = 0

    def visit(node: Node) -> None:
        nonlocal count
        if isinstance(node, (BufferLoad, BufferStore)):
            count += sum(index is var for index in node.indices)
            count += isinstance(node, BufferStore) and node.value is var
        elif not isinstance(node, (Var, Buffer)):
            count += sum(part is var for part in children_of(node))

    for stmt in (stage.body, *stage.starts):
        post_order_visit(stmt, visit)
    return count


def _merged(group: Group, merge: _Merge) -> Group:
    """Replace two axes by one, over views of the buffers they index."""
    extent = simplify(merge.outer.extent * merge.inner.extent)
    names = group.names
    if not isinstance(extent, (IntImm, Var)):
        count = SizeVar(f"{merge.outer.var.name}_{merge.inner.var.name}", extent.dtype)
        names, extent = (*names, (count, extent)), count
    axis = Axis(Var(merge.inner.var.name, merge.inner.var.dtype), extent)
    views = {buffer: _view(buffer, place, extent) for buffer, place in merge.places.items()}
    rewriter = _Rewriter(views, merge.places, axis.var)

    def axes(old: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(axis if a is merge.inner else a for a in old if a is not merge.outer)

    stages = tuple(_rewritten_stage(stage, rewriter, axes) for stage in group.stages)
    kept = tuple(view for view in group.views if view not in views)
    return Group(stages, axes(group.rows), (*kept, *views.values()), names)


def _view(buffer: Buffer, place: int, extent: PrimExpr) -> Buffer:
    first, second = buffer.shape[place : place + 2]
    if isinstance(first, IntImm) and isinstance(second, IntImm):
        extent = const(first.value * second.value, "int64")
    shape = (*buffer.shape[:place], extent, *buffer.shape[place + 2 :])
    return decl_buffer(shape, str(buffer.dtype), buffer.name, data=buffer.data)


def _rewritten_stage(stage: Stage, rewriter: _Rewriter, axes: Callable[[Sequence[Axis]], tuple[Axis, ...]]) -> Stage:
    body = rewriter.visit(stage.body)
    starts = tuple(rewriter.visit(store) for store in stage.starts)
    combination = stage.combination
    if combination is not None:
        stores = {store.buffer: store for store in _stores_in(body)}
        buffers = tuple(rewriter.views.get(buffer, buffer) for buffer in combination.buffers)
        combination = replace(combination, buffers=buffers, indices=stores[buffers[0]].indices)
    return Stage(axes(stage.axes), axes(stage.reduced), _stores_in(body), body, combination, starts)


class _Rewriter(StmtExprMutator):
    """Replaces accesses to buffers by accesses to their views."""

    def __init__(self, views: dict[Buffer, Buffer], places: dict[Buffer, int], var: Var) -> None:
        super().__init__()
        self.views, self.places, self.var = views, places, var

    def indices(self, access: BufferLoad | BufferStore) -> tuple[PrimExpr, ...]:
        place = self.places[access.buffer]
        indices = tuple(self.visit(index) for index in access.indices)
        return (*indices[:place], self.var, *indices[place + 2 :])

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        view = self.views.get(node.buffer)
        if view is None:
            return self.visit_children(node)
        return node.replace(buffer=view, indices=self.indices(node))

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        view = self.views.get(node.buffer)
        if view is None:
            return self.visit_children(node)
        return node.replace(buffer=view, indices=self.indices(node), value=self.visit(node.value))
