"""Access regions: infer the `reads` and `writes` of blocks that do not declare them.

A region is a box whose bounds depend on the block's own and free variables; it covers all iterations of loops inside
the block. A dimension without known bounds is taken whole: regions are never too small.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

from ..prim import (
    Add,
    Analyzer,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    Var,
    const,
    free_vars,
)
from ..prim.intrin import max as maximum
from ..prim.intrin import min as minimum
from ..runtime.records import dataclass
from .buffer import Buffer, BufferLoad, BufferRegion, Ramp, Range
from .functor import StmtExprVisitor, substitute
from .stmt import AllocBuffer, Block, BlockRealize, BufferStore, DeclBuffer, For, LetStmt

Interval = tuple[PrimExpr, PrimExpr]
"""Least and greatest value."""


def complete_block(block: Block, buffers: Iterable[Buffer] = (), mask: int = 3) -> Block:
    """Return the block with its reads (mask 1) and writes (mask 2) inferred from its body.

    `buffers` are buffers in scope whose data pointer the body may use directly.
    """
    reads, writes = block_access_region(block, buffers)
    changes: dict[str, Any] = {}
    if mask & 1:
        changes["reads"] = reads
    if mask & 2:
        changes["writes"] = writes
    return block.replace(**changes) if changes else block


def block_access_region(
    block: Block, buffers: Iterable[Buffer] = ()
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """Return the regions that a block reads and those it writes, in order of first access.

    In a block with `init`, reads of the accumulator do not count.
    """
    collector = _collected(block, buffers, apart=False)
    return collector.read_regions(), collector.writes.regions()


def block_access_parts(
    block: Block, buffers: Iterable[Buffer] = ()
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """`block_access_region`, with buffers accessed through pointers as a third part instead of in both others."""
    collector = _collected(block, buffers, apart=True)
    return collector.read_regions(), collector.writes.regions(), collector.opaque.regions()


def _collected(block: Block, buffers: Iterable[Buffer], apart: bool) -> _Collector:
    """Collect the accesses of a block; those through a pointer separately if `apart`, else as reads and writes."""
    collector = _Collector({buffer.data: buffer for buffer in buffers}, _DomainAnalyzer(block))
    collector.apart = apart
    collector.reduces = block.init is not None
    for match in block.match_buffers:
        collector.views[match.buffer] = match.source
    collector.local.update(block.alloc_buffers)
    if block.init is not None:
        collector.visit(block.init)
    collector.visit(block.body)
    return collector


class _DomainAnalyzer:
    """Facts from the domains of a block's variables; the analyzer is created on first use."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.analyzer: Analyzer | None = None

    def simplify(self, expr: PrimExpr) -> PrimExpr:
        if self.analyzer is None:
            self.analyzer = Analyzer()
            for iter_var in self.block.iter_vars:
                if iter_var.dom is not None:
                    self.analyzer.bind(iter_var.var, iter_var.dom)
        return self.analyzer.simplify(expr)


@dataclass
class _Accesses:
    """Union of the accessed boxes of each buffer; None stands for a whole dimension."""

    facts: _DomainAnalyzer
    boxes: dict[Buffer, list[Interval | None]] = field(default_factory=dict[Buffer, "list[Interval | None]"])

    def add(self, buffer: Buffer, box: list[Interval | None]) -> None:
        previous = self.boxes.get(buffer)
        if previous is None:
            self.boxes[buffer] = box
        else:
            self.boxes[buffer] = [self.union(a, b) for a, b in zip(previous, box, strict=True)]

    def regions(self) -> tuple[BufferRegion, ...]:
        return tuple(
            BufferRegion(buffer, tuple(self.range(i, size) for i, size in zip(box, buffer.shape, strict=True)))
            for buffer, box in self.boxes.items()
        )

    def range(self, interval: Interval | None, size: PrimExpr) -> Range:
        if interval is None:
            return whole_range(size)
        low, high = interval
        if low is high:
            return Range.from_min_extent(low, const(1, low.dtype))
        return Range.from_min_extent(self.facts.simplify(low), self.facts.simplify(high - low + 1))

    def union(self, a: Interval | None, b: Interval | None) -> Interval | None:
        if a is None or b is None:
            return None
        low, high = self.difference(a[0], b[0]), self.difference(a[1], b[1])
        if low is None or high is None:
            return None
        return (a[0] if low <= 0 else b[0]), (a[1] if high >= 0 else b[1])

    def difference(self, a: PrimExpr, b: PrimExpr) -> int | None:
        """Return a - b if that is a constant, else None."""
        if a is b:
            return 0
        difference = self.facts.simplify(a - b)
        return difference.value if isinstance(difference, IntImm) else None


def whole_range(size: PrimExpr) -> Range:
    """Return the range of a whole dimension."""
    return Range.from_min_extent(const(0, size.dtype), size)


def bounds_of(expr: PrimExpr, domain: dict[Var, Interval | None]) -> Interval | None:
    """Return the least and greatest value of an expression whose variables range over the intervals in `domain`."""
    return _Bounds(domain).of(expr)


class _Bounds:
    """Bounds of the objects in an expression, each computed once."""

    def __init__(self, domain: dict[Var, Interval | None]) -> None:
        self.domain = domain
        self.done: dict[PrimExpr, Interval | None] = {}

    def of(self, expr: PrimExpr) -> Interval | None:
        if expr not in self.done:
            fixed = not any(var in self.domain for var in free_vars(expr))
            self.done[expr] = (expr, expr) if fixed else self.varying(expr)
        return self.done[expr]

    def varying(self, expr: PrimExpr) -> Interval | None:
        match expr:
            case Var():
                return self.domain[expr]
            case Add() | Sub() | Min() | Max() | Mul():
                a, b = self.of(expr.a), self.of(expr.b)
                return None if a is None or b is None else _combine(expr, a, b)
            case FloorDiv(a, IntImm() as b) if b.value > 0:
                inner = self.of(a)
                return None if inner is None else (inner[0] // b, inner[1] // b)
            case FloorMod(_, IntImm() as b) if b.value > 0:
                return const(0, b.dtype), const(b.value - 1, b.dtype)
            case Cast(dtype, value) if dtype.is_integer and value.dtype.is_integer and dtype.bits >= value.dtype.bits:
                inner = self.of(value)
                return None if inner is None else (inner[0].astype(dtype), inner[1].astype(dtype))
            case _:
                return None


def _combine(expr: PrimExpr, a: Interval, b: Interval) -> Interval | None:
    match expr:
        case Add():
            return a[0] + b[0], a[1] + b[1]
        case Sub():
            return a[0] - b[1], a[1] - b[0]
        case Min():
            return minimum(a[0], b[0]), minimum(a[1], b[1])
        case Max():
            return maximum(a[0], b[0]), maximum(a[1], b[1])
        case _:  # a product: one side must be a constant, or a size
            if b[0] is not b[1]:
                a, b = b, a
            factor = b[0]
            if b[0] is not b[1]:
                return None
            if isinstance(factor, IntImm):
                low, high = a[0] * factor, a[1] * factor
                return (low, high) if factor.value >= 0 else (high, low)
            if isinstance(factor, Var) and factor.nonnegative:
                return a[0] * factor, a[1] * factor
            return None


class _Collector(StmtExprVisitor):
    def __init__(self, by_data: dict[Var, Buffer], facts: _DomainAnalyzer) -> None:
        super().__init__()
        self.by_data = by_data
        self.domain: dict[Var, Interval | None] = {}
        self.views: dict[Buffer, BufferRegion] = {}
        self.local: set[Buffer] = set()
        self.reads = _Accesses(facts)
        self.writes = _Accesses(facts)
        self.opaque = _Accesses(facts)
        self.apart = False
        """True if accesses through pointers are collected in `opaque`."""
        self.reduces = False

    def read_regions(self) -> tuple[BufferRegion, ...]:
        """Return the read regions; for a reduction, without those of written buffers."""
        regions = self.reads.regions()
        return tuple(r for r in regions if r.buffer not in self.writes.boxes) if self.reduces else regions

    def access(self, accesses: _Accesses, buffer: Buffer, ranges: Iterable[Interval | None]) -> None:
        while buffer in self.views:
            region = self.views[buffer]
            buffer = region.buffer
            ranges = [self.relax(r) for r in region.region]
        if buffer not in self.local:
            accesses.add(buffer, list(ranges))

    def relax(self, range: Range) -> Interval | None:
        low = bounds_of(range.min, self.domain)
        high = bounds_of(range.min + range.extent - 1, self.domain)
        return None if low is None or high is None else (low[0], high[1])

    def index(self, expr: PrimExpr) -> Interval | None:
        if isinstance(expr, Ramp):
            inner = bounds_of(expr.base, self.domain)
            if inner is None or not isinstance(expr.stride, IntImm):
                return None
            last = const(expr.stride.value * (expr.lanes - 1), expr.base.dtype)
            return (inner[0], inner[1] + last) if expr.stride.value >= 0 else (inner[0] + last, inner[1])
        return bounds_of(expr, self.domain) if expr.dtype.lanes == 1 else None

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.access(self.reads, node.buffer, [self.index(i) for i in node.indices])
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.access(self.writes, node.buffer, [self.index(i) for i in node.indices])
        self.visit(node.value)
        for expr in (*node.indices, *(() if node.predicate is None else (node.predicate,))):
            self.visit(expr)

    def visit_Var(self, node: Var) -> None:
        buffer = self.by_data.get(node)
        if buffer is not None:  # the pointer itself is handed on: anything may happen
            whole: list[Interval | None] = [None] * buffer.ndim
            for accesses in (self.opaque,) if self.apart else (self.reads, self.writes):
                self.access(accesses, buffer, whole)

    def visit_Buffer(self, node: Buffer) -> None:
        """Do nothing: the access of a buffer is recorded where its region or load is visited."""

    def visit_For(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        low, high = bounds_of(node.min, self.domain), bounds_of(node.min + node.extent - 1, self.domain)
        self.domain[node.loop_var] = None if low is None or high is None else (low[0], high[1])
        self.visit(node.body)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.visit(node.value)
        self.domain[node.var] = bounds_of(node.value, self.domain) if node.value.dtype.is_integer else None
        self.visit(node.body)

    def visit_Let(self, node: Let) -> None:
        self.visit(node.value)
        self.domain[node.var] = bounds_of(node.value, self.domain) if node.value.dtype.is_integer else None
        self.visit(node.body)

    def visit_AllocBuffer(self, node: AllocBuffer) -> None:
        self.local.add(node.buffer)
        self.visit(node.body)

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        # Another view of storage: an access through it may be anywhere in the buffer behind it.
        behind = self.by_data.get(node.buffer.data)
        if behind is None:
            self.local.add(node.buffer)
        else:
            self.views[node.buffer] = BufferRegion(behind, tuple(whole_range(s) for s in behind.shape))
        self.visit(node.body)

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        for value in node.iter_values:
            self.visit(value)
        self.visit(node.predicate)
        block = node.block
        values = {v.var: value for v, value in zip(block.iter_vars, node.iter_values, strict=True)}
        for accesses, regions in ((self.reads, block.reads), (self.writes, block.writes)):
            for region in regions:
                ranges: tuple[Range, ...] = tuple(substitute(r, values) for r in region.region)
                self.access(accesses, region.buffer, [self.relax(r) for r in ranges])
