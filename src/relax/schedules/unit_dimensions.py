"""Remove dimensions of one element from copies and element-wise nests.

    for i, j in T.grid(N, 508):                            for i, j in T.grid(N, 508):
        Y[i, j] = exp(X[i, j, 0])                              Y[i, j] = exp(X1[i, j])          X1: X as (N, 508)

Then contiguous accesses end in their contiguous index and axes index adjacent dimensions, as in arrays that were
squeezed or expanded before. Excluded: dimensions accessed at an index other than 0, and removing all dimensions of a
buffer.
"""

from __future__ import annotations

from dataclasses import replace

from ..prim import is_const
from ..tir import Buffer, BufferLoad, BufferStore
from ..tir.buffer import decl_buffer
from ..tir.functor import StmtExprMutator
from ..tir.nests import loads_in
from .stages import Group


def without_unit_dimensions(group: Group) -> Group:
    """Return the group (of one stage with one store) over views without dimensions of one element."""
    (stage,) = group.stages
    kept: dict[Buffer, set[int]] = {}
    for access in (*stage.stores, *loads_in(stage.body)):
        places = kept.setdefault(access.buffer, set())
        for d, (index, size) in enumerate(zip(access.indices, access.buffer.shape, strict=True)):
            if not is_const(size, 1) or not is_const(index, 0):
                places.add(d)
    views: dict[Buffer, tuple[Buffer, list[int]]] = {}
    for buffer, places in kept.items():
        if 0 < len(places) < buffer.ndim:
            order = sorted(places)
            shape = [buffer.shape[d] for d in order]
            views[buffer] = decl_buffer(shape, str(buffer.dtype), buffer.name, data=buffer.data), order
    if not views:
        return group
    store = _Viewed(views).visit(stage.stores[0])
    stage = replace(stage, body=store, stores=(store,))
    return replace(group, stages=(stage,), views=(*group.views, *(view for view, _ in views.values())))


class _Viewed(StmtExprMutator):
    """Replaces accesses to buffers by accesses to views without some of their dimensions."""

    def __init__(self, views: dict[Buffer, tuple[Buffer, list[int]]]) -> None:
        super().__init__()
        self.views = views

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        if node.buffer not in self.views:
            return self.visit_children(node)
        view, places = self.views[node.buffer]
        return node.replace(buffer=view, indices=tuple(self.visit(node.indices[d]) for d in places))

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        if node.buffer not in self.views:
            return self.visit_children(node)
        view, places = self.views[node.buffer]
        indices = tuple(self.visit(node.indices[d]) for d in places)
        return node.replace(buffer=view, indices=indices, value=self.visit(node.value))
