"""Redirect all accesses of a buffer to another buffer with other indices, including declared regions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ...prim import Analyzer, PrimExpr, Var, const, free_vars, substitute, uses
from ...prim.intrin import max as maximum
from ..buffer import Buffer, BufferLoad, BufferRegion, Ramp, Range
from ..dependence import touches
from ..functor import StmtExprMutator
from ..index_map import IndexMap
from ..regions import block_access_region, whole_range
from ..stmt import Block, BufferStore, For
from .error import BUFFER, ScheduleError

Indices = Sequence[PrimExpr]
N = TypeVar("N", For, Block)


class Relayout(StmtExprMutator):
    """Rewrite ``old[indices]`` to ``new[change(indices)]``, simplified under the enclosing loops and blocks.

    Declared regions of the old buffer become regions of the new one, inferred from the blocks' bodies.
    """

    def __init__(
        self,
        old: Buffer,
        new: Buffer,
        change: Callable[[Indices], Sequence[PrimExpr]],
        domains: Iterable[tuple[Var, Range]] = (),
    ) -> None:
        super().__init__()
        self.old, self.new, self.change = old, new, change
        self.domains: list[tuple[Var, Range]] = list(domains)
        self.analyzers: dict[int, Analyzer] = {}
        """Analyzers by the number of domains they know, for the current path."""

    def analyzer(self) -> Analyzer:
        """Return an analyzer that knows the domains of the enclosing variables."""
        count = len(self.domains)
        if count not in self.analyzers:
            analyzer = self.analyzers[count] = Analyzer()
            for var, domain in self.domains:
                analyzer.bind(var, domain, override=True)
        return self.analyzers[count]

    def changed(self, indices: Indices) -> tuple[PrimExpr, ...]:
        """Return the indices into the new buffer."""
        visited = tuple(self.visit(index) for index in indices)
        if any(isinstance(index, Ramp) or index.dtype.lanes > 1 for index in visited):
            raise ScheduleError(
                BUFFER,
                f"buffer {self.old.name} is accessed by vectors of elements",
                hint="vectorize after the layout is changed",
            )
        return tuple(self.analyzer().simplify(index) for index in self.change(visited))

    def define_buffer(self, buffer: Buffer) -> None:
        if buffer is not self.old:
            super().define_buffer(buffer)

    def visit_Buffer(self, node: Buffer) -> Buffer:
        return self.new if node is self.old else super().visit_Buffer(node)

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        if node.buffer is not self.old:
            return self.visit_children(node)
        predicate = self.visit_predicate(node.predicate)
        return BufferLoad(self.new, self.changed(node.indices), predicate, span=node.span)

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        if node.buffer is not self.old:
            return self.visit_children(node)
        value, predicate = self.visit(node.value), self.visit_predicate(node.predicate)
        return BufferStore(self.new, value, self.changed(node.indices), predicate, span=node.span)

    def visit_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        """Rewrite a region, except of the old buffer, which `visit_Block` replaces."""
        return node if node.buffer is self.old else self.visit_children(node)

    def visit_For(self, node: For) -> For:
        return self.inside([(node.loop_var, Range.from_min_extent(node.min, node.extent))], node)

    def visit_Block(self, node: Block) -> Block:
        if not touches(node, self.old):
            return node
        domains = [(v.var, v.dom) for v in node.iter_vars if v.dom is not None]
        changed = self.inside(domains, node)
        if changed is node or not any(r.buffer is self.old for r in (*node.reads, *node.writes)):
            return changed
        reads, writes = block_access_region(changed)
        return changed.replace(reads=self.regions(changed.reads, reads), writes=self.regions(changed.writes, writes))

    def inside(self, domains: list[tuple[Var, Range]], node: N) -> N:
        """Rewrite the parts of a node within the domains of its variables."""
        count = len(self.domains)
        self.domains += domains
        changed = self.visit_children(node)
        del self.domains[count:]
        self.analyzers = {size: analyzer for size, analyzer in self.analyzers.items() if size <= count}
        return changed

    def regions(self, declared: tuple[BufferRegion, ...], actual: tuple[BufferRegion, ...]) -> tuple[BufferRegion, ...]:
        """Replace the declared region of the old buffer by the body's region of the new one."""
        whole = BufferRegion(self.new, tuple(whole_range(size) for size in self.new.shape))
        region = next((region for region in actual if region.buffer is self.new), whole)
        return tuple(region if item.buffer is self.old else item for item in declared)


def moved_indices(mapping: IndexMap, indices: Indices) -> list[PrimExpr]:
    """Return the indices to which an index map moves an element.

    A final index that depends on int32 indices only is int32, regardless of the other indices' dtypes.
    """
    result: list[PrimExpr] = []
    values = dict(zip(mapping.initial_indices, indices, strict=True))
    for position, final in enumerate(mapping.final_indices):
        used = free_vars(final)
        dtypes = {str(values[var].dtype) for var in used if var in values}
        dtype = dtypes.pop() if len(dtypes) == 1 and values.keys() >= set(used) else "int64"
        typed = mapping.with_dtype(dtype)
        table = {
            var: index.astype(dtype)
            for var, index in zip(typed.initial_indices, indices, strict=True)
            if uses(typed.final_indices[position], var)
        }
        result.append(substitute(typed.final_indices[position], table))
    return result


def mapped_shape(mapping: IndexMap, shape: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
    """Return the shape that holds the moved elements of a tensor of shape `shape`, with sizes clamped to at least 0.

    For ``i * 8 + j`` and shape (n, 4) the size is ``n * 8 - 4``, which would be negative for n = 0.

    Raises ValueError for a map that moves two elements to one place.
    """
    facts = Analyzer()
    sizes = (facts.simplify(size) for size in mapping.map_shape(shape))
    return tuple(size if facts.can_prove(size >= 0) else maximum(size, const(0, size.dtype)) for size in sizes)
