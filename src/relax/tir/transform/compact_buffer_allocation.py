"""Shrink allocations to the accessed region.

    for i in range(16):                             for i in range(16):
        with T.block():                                 with T.block():
            t = T.alloc_buffer((64,))                       t = T.alloc_buffer((4,))
            for j in range(4):                              for j in range(4):
                t[i * 4 + j] = x            gives               t[j] = x
            for j in range(4):                              for j in range(4):
                B[i * 4 + j] = t[i * 4 + j]                     B[i * 4 + j] = t[j]

The accessed region is a box: for each dimension the range from the least to the greatest index, over all loops inside
the allocation. `is_strict` exists for TVM and has no effect: a box never exceeds the shape.

Declines if an access is not proved to be inside the shape, if the size of the allocation is not proved to be valid, and
for buffers used by pointers, views, or regions matched by a block.
"""

from __future__ import annotations

from typing import NamedTuple

from ...prim import GE, LE, IntImm, Let, PrimExpr, Var, const, is_const, match_dtypes, same, simplify
from ...prim.identity import Identity, identity
from ...prim.intrin import max as maximum
from ...prim.intrin import min as minimum
from ..buffer import Buffer, BufferLoad, BufferRegion, Ramp, Range
from ..dependence import loads_in
from ..functor import StmtExprVisitor
from ..regions import Interval, bounds_of, whole_range
from ..stmt import (
    AllocBuffer,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    Stmt,
)
from .each_prim_func import each_prim_func
from .facts import FactsMutator, reads_memory


def compact_buffer_allocation(func: PrimFunc, is_strict: bool = True) -> PrimFunc:
    """Return the function with allocations reduced to their accessed regions."""
    accesses = _Accesses()
    accesses.visit(func.body)
    boxes = {b: box for b, box in accesses.boxes.items() if b not in accesses.opaque and not _is_whole(b, box)}
    while boxes:
        compaction = _Compaction(func, boxes)
        compacted = compaction.run()
        if not compaction.refused:
            return compacted
        boxes = {buffer: box for buffer, box in boxes.items() if buffer not in compaction.refused}
    return func


class _Accesses(StmtExprVisitor):
    """The least and greatest index in each dimension of each allocation, over the variables bound outside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.boxes: dict[Buffer, list[Interval | None]] = {}
        self.seen: dict[Buffer, list[set[tuple[Identity, Identity] | None]]] = {}
        """Bounds of the indices that the boxes hold already, by dimension."""
        self.opaque: set[Buffer] = set()
        self.owners: dict[Var, Buffer] = {}
        self.values: dict[Var, PrimExpr | Range] = {}
        """Value or range of each variable bound so far, in order."""
        self.domains: dict[Buffer, dict[Var, Interval | None]] = {}
        self.outside: dict[Buffer, int] = {}
        """Number of variables bound outside of each allocation."""

    def bind(self, var: Var) -> None:
        """Open a variable's scope. If it is bound a second time, live allocations become opaque: see `ConvertSSA`."""
        if var in self.values:
            self.opaque.update(self.outside)

    def open(self, buffer: Buffer) -> None:
        self.owners[buffer.data] = buffer
        self.outside[buffer] = len(self.values)

    def domain(self, buffer: Buffer) -> dict[Var, Interval | None]:
        """Return the intervals of the variables bound inside an allocation's scope so far."""
        domain = self.domains.setdefault(buffer, {})
        for var in list(self.values)[self.outside[buffer] + len(domain) :]:
            value = self.values[var]
            if isinstance(value, Range):
                low, high = bounds_of(value.min, domain), bounds_of(value.min + value.extent - 1, domain)
                domain[var] = None if low is None or high is None else (low[0], high[1])
            else:
                domain[var] = None if reads_memory(value) else bounds_of(value, domain)
        return domain

    def interval(self, buffer: Buffer, index: PrimExpr) -> Interval | None:
        """Return the interval of an index over the variables bound inside an allocation's scope."""
        domain = self.domain(buffer)
        if isinstance(index, Ramp):
            inner = bounds_of(index.base, domain)
            if inner is None or not isinstance(index.stride, IntImm) or index.stride.value < 0:
                return None
            return inner[0], inner[1] + const(index.stride.value * (index.lanes - 1), index.base.dtype)
        # A vector that is no Ramp, as a cast of one, has no bounds that are numbers.
        return None if reads_memory(index) or index.dtype.lanes > 1 else bounds_of(index, domain)

    def access(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> None:
        if buffer not in self.outside:
            return
        box = [self.interval(buffer, index) for index in indices]
        previous = self.boxes.setdefault(buffer, box)
        seen = self.seen.setdefault(buffer, [set() for _ in box])
        for axis, interval in enumerate(box):
            bounds = None if interval is None else (identity(interval[0]), identity(interval[1]))
            if bounds not in seen[axis]:  # unrolled loops access the same region again and again
                seen[axis].add(bounds)
                previous[axis] = _union(previous[axis], interval)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.access(node.buffer, node.indices)
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.access(node.buffer, node.indices)
        self.visit_children(node)

    def visit_Var(self, node: Var) -> None:
        if node in self.owners:
            self.opaque.add(self.owners[node])

    def visit_Buffer(self, node: Buffer) -> None:
        """Do nothing: accesses are recorded at loads and stores."""

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        self.visit(node.buffer.data)
        self.visit(node.body)

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> None:
        self.opaque.add(node.source.buffer)

    def visit_AllocBuffer(self, node: AllocBuffer) -> None:
        self.open(node.buffer)
        self.visit(node.body)

    def visit_For(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        self.bind(node.loop_var)
        self.values[node.loop_var] = Range(min=node.min, extent=node.extent)
        self.visit(node.body)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.visit(node.value)
        self.bind(node.var)
        self.values[node.var] = node.value
        self.visit(node.body)

    def visit_Let(self, node: Let) -> None:
        self.visit(node.value)
        self.bind(node.var)
        self.values[node.var] = node.value
        self.visit(node.body)

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        for value in (*node.iter_values, node.predicate):
            self.visit(value)
        for iter_var, value in zip(node.block.iter_vars, node.iter_values, strict=False):
            self.bind(iter_var.var)
            self.values[iter_var.var] = value
        for buffer in node.block.alloc_buffers:
            self.open(buffer)
        for child in (*node.block.match_buffers, node.block.init, node.block.body):
            if child is not None:
                self.visit(child)


def _is_whole(buffer: Buffer, box: list[Interval | None]) -> bool:
    """True if the accessed region trivially is the whole buffer, so that nothing can be saved."""
    for interval, size in zip(box, buffer.shape, strict=True):
        if interval is None:
            continue
        low, high = interval
        high, end = match_dtypes(high, size)
        if not is_const(low, 0) or not is_const(simplify(end - high), 1):
            return False
    return True


def _union(a: Interval | None, b: Interval | None) -> Interval | None:
    if a is None or b is None:
        return None
    return _extreme(a[0], b[0], least=True), _extreme(a[1], b[1], least=False)


def _extreme(a: PrimExpr, b: PrimExpr, least: bool) -> PrimExpr:
    """Return the minimum or maximum of two bounds; one of the bounds if their difference is constant."""
    a, b = match_dtypes(a, b)
    if same(a, b):
        return a
    difference = simplify(a - b)
    if isinstance(difference, IntImm):
        return a if (difference.value <= 0) is least else b
    return minimum(a, b) if least else maximum(a, b)


class _Plan(NamedTuple):
    """A smaller buffer, and the offset subtracted from each index."""

    buffer: Buffer
    starts: tuple[PrimExpr | None, ...]
    box: tuple[Interval | None, ...]


class _Compaction(FactsMutator):
    def __init__(self, func: PrimFunc, boxes: dict[Buffer, list[Interval | None]]) -> None:
        super().__init__(func)
        self.boxes = boxes
        self.plans: dict[Buffer, _Plan] = {}
        self.refused: set[Buffer] = set()

    def visit_under(self, condition: PrimExpr, expr: PrimExpr) -> PrimExpr:
        """Rewrite an expression where a condition holds; expressions that read no allocation stay, since parts may be
        shared.
        """
        return super().visit_under(condition, expr) if self._reads_allocations(expr) else expr

    def _reads_allocations(self, expr: PrimExpr) -> bool:
        return any(load.buffer in self.boxes for load in loads_in(expr))

    # ------------------------------------------------------------------ storage

    def open(self, buffer: Buffer) -> None:
        """Plan a smaller buffer for an allocation, where it stands."""
        box = self.boxes.get(buffer)
        if box is None or self.allocation_can_fail(buffer):
            return
        dimensions = [self.dimension(i, size) for i, size in zip(box, buffer.shape, strict=True)]
        shape = tuple(
            size if smaller is None else smaller[1] for smaller, size in zip(dimensions, buffer.shape, strict=True)
        )
        if all(smaller is None for smaller in dimensions):
            return
        compact = buffer.replace(shape=shape)
        if not self.allocation_can_fail(compact):
            starts = tuple(None if smaller is None else smaller[0] for smaller in dimensions)
            self.plans[buffer] = _Plan(compact, starts, tuple(box))

    def dimension(self, interval: Interval | None, size: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
        """Return (start, extent) of the accessed part of a dimension; None for the whole dimension."""
        if interval is None or any(self.can_fail(bound) or reads_memory(bound) for bound in interval):
            return None
        low, high = interval
        prove = self.analyzer.can_prove
        if not prove(GE(low, const(0, low.dtype))):
            low = maximum(low, const(0, low.dtype))
        last = size - 1
        if not prove(LE(*match_dtypes(high, last))):
            high = minimum(high, last)
        extent = self.analyzer.simplify(high - low + 1)
        if not prove(GE(extent, const(0, extent.dtype))):
            extent = maximum(extent, const(0, extent.dtype))
        extent = extent.astype(size.dtype)
        if not prove(LE(extent, size)) or prove(GE(extent, size)):
            return None
        return self.analyzer.simplify(low), extent

    def visit_AllocBuffer(self, node: AllocBuffer) -> Stmt:
        self.open(node.buffer)
        rewritten = super().visit_AllocBuffer(node)
        plan = self.plans.get(node.buffer)
        assert isinstance(rewritten, AllocBuffer)
        return rewritten if plan is None else rewritten.replace(buffer=plan.buffer)

    def visit_Block(self, node: Block) -> Block:
        for buffer in node.alloc_buffers:
            self.open(buffer)
        rewritten = super().visit_Block(node)
        if not any(buffer in self.plans for buffer in node.alloc_buffers):
            return rewritten
        small = tuple(self.plans[b].buffer if b in self.plans else b for b in rewritten.alloc_buffers)
        return rewritten.replace(alloc_buffers=small)

    # ------------------------------------------------------------------ accesses

    def shifted(self, buffer: Buffer, old: tuple[PrimExpr, ...]) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        """Return the access to the smaller buffer; adds `buffer` to `refused` if the access is not proved to be
        inside.
        """
        indices = self.visit_all(old)
        plan = self.plans.get(buffer)
        if plan is None:
            return buffer, indices
        if not self.inside(buffer, old) or not all(map(self.in_interval, old, plan.box)):
            self.refused.add(buffer)
            return buffer, indices
        return plan.buffer, tuple(map(self.less, indices, plan.starts))

    def in_interval(self, index: PrimExpr, interval: Interval | None) -> bool:
        """True if an index is proved to lie in its interval."""
        if interval is None:
            return True
        ends = (index, index)
        if isinstance(index, Ramp):
            if not isinstance(index.stride, IntImm) or index.stride.value < 0:
                return False
            ends = (index.base, index.base + index.stride.value * (index.lanes - 1))
        prove = self.analyzer.can_prove
        return prove(LE(*match_dtypes(interval[0], ends[0]))) and prove(LE(*match_dtypes(ends[1], interval[1])))

    def less(self, index: PrimExpr, start: PrimExpr | None) -> PrimExpr:
        if start is None:
            return index
        if isinstance(index, Ramp):
            return Ramp(self.less(index.base, start), index.stride, index.lanes)
        a, b = match_dtypes(index, start)
        return self.analyzer.simplify(a - b)

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        buffer, indices = self.shifted(node.buffer, node.indices)
        return node.replace(buffer=buffer, indices=indices, predicate=self.visit_predicate(node.predicate))

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        value, predicate = self.visit(node.value), self.visit_predicate(node.predicate)
        buffer, indices = self.shifted(node.buffer, node.indices)
        return node.replace(buffer=buffer, value=value, indices=indices, predicate=predicate)

    def visit_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        """Rewrite a region that a block declares; a dimension not proved to be inside becomes the whole smaller
        dimension.
        """
        plan = self.plans.get(node.buffer)
        if plan is None:
            return self.visit_children(node)
        region: list[Range] = []
        for item, start, interval, size in zip(node.region, plan.starts, plan.box, plan.buffer.shape, strict=True):
            last = item.min + (item.extent - 1)
            inside = self.in_interval(item.min, interval) and self.in_interval(last, interval)
            if start is None:
                region.append(item)
            elif inside:
                region.append(Range.from_min_extent(self.less(item.min, start), item.extent))
            else:
                region.append(whole_range(size))
        return BufferRegion(plan.buffer, tuple(region), span=node.span)


CompactBufferAllocation = each_prim_func(compact_buffer_allocation, "CompactBufferAllocation")
"""Pass: shrink allocations to the accessed region."""
