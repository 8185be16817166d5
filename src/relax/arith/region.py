"""Regions covered by accesses over the values of their iterators.

    for i, j in grid(16, 4):  A[i * 4 + j : i * 4 + j + 8]       covers A[0 : 71]

A lower bound is a subset of the covered region, an upper bound a superset, a strict bound is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ir import Node
from ..prim import Analyzer, IterMapLevel, IterSumExpr, PrimExpr, Var, detect_iter_map, free_vars
from ..tir import Block, BlockRealize, Buffer, BufferLoad, BufferStore, For, LetStmt, Range, Stmt
from ..tir.functor import StmtExprVisitor
from .int_set import Ends, IntervalSet, IntSet, as_ends, as_set, ends_of, union


def estimate_region_strict_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Any], predicate: Any = True
) -> list[IntervalSet] | None:
    """Box exactly covered by a region, united over all values of the iterators; None if not proved.

        [i * 4 : i * 4 + 8], i in [0, 16)       IntervalSet(0, 67)
        [i * 4 : i * 4 + 2], i in [0, 16)       None: there are gaps

    `predicate` is a condition on the iterators. If there are no iterations, the box is empty.
    """
    if not all(_is_fixed(dim.extent, var_dom) for dim in region):
        return None
    detected = detect_iter_map([dim.min for dim in region], var_dom, predicate, IterMapLevel.Surjective)
    if detected.errors:
        return None
    analyzer, result = Analyzer(), list[IntervalSet]()
    for dim, index in zip(region, detected.indices, strict=True):
        ends = _covered(index, dim.extent, analyzer)
        if ends is None:
            return None
        result.append(as_set(ends))
    return result


def estimate_region_lower_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Any], predicate: Any = True
) -> list[IntervalSet] | None:
    """Box completely covered by a region, united over all values of the iterators; None if there is none."""
    return estimate_region_strict_bound(region, var_dom, predicate)


def estimate_region_upper_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Any], predicate: Any = True
) -> list[IntervalSet]:
    """Box that contains a region, united over all values of the iterators."""
    exact = estimate_region_strict_bound(region, var_dom, predicate)
    return [_around(dim, var_dom, predicate) for dim in region] if exact is None else exact


def _is_fixed(expr: PrimExpr, var_dom: Mapping[Var, Any]) -> bool:
    return not any(var in var_dom for var in free_vars(expr))


def _covered(index: IterSumExpr, extent: PrimExpr, analyzer: Analyzer) -> Ends | None:
    """Ends of ``index : index + extent`` over all digits; None if there are gaps."""
    simplify = analyzer.simplify
    if not index.args:
        return index.base, simplify(index.base + extent - 1)
    (arg,) = index.args
    positive = analyzer.can_prove(arg.scale >= 0)
    step = arg.scale if positive else simplify(-arg.scale)
    if not (positive or analyzer.can_prove(step >= 0)) or not analyzer.can_prove(step <= extent):
        return None
    # Without digits the ends are one step too close, which is right only where a step is all of the extent.
    if not (analyzer.can_prove(arg.extent >= 1) or analyzer.can_prove_equal(step, extent)):
        return None
    way = (arg.extent - 1) * arg.scale
    low, high = (index.base, index.base + way) if positive else (index.base + way, index.base)
    return simplify(low), simplify(high + extent - 1)


def _around(dim: Range, var_dom: Mapping[Var, Any], predicate: Any) -> IntervalSet:
    """Interval that contains one dimension."""
    analyzer = Analyzer()
    detected = detect_iter_map([dim.min], var_dom, predicate, IterMapLevel.NoCheck)
    if detected.errors or not _is_fixed(dim.extent, var_dom):
        low, _ = ends_of(dim.min, var_dom, analyzer)
        _, high = ends_of(dim.min + dim.extent - 1, var_dom, analyzer)
        return as_set((low, high))
    (index,) = detected.indices
    low = high = index.base
    for arg in index.args:
        way = (arg.extent - 1) * arg.scale
        if analyzer.can_prove(arg.scale >= 0):
            high = high + way
        elif analyzer.can_prove(arg.scale <= 0):
            low = low + way
        else:
            return IntSet.everything()
    return IntervalSet(analyzer.simplify(low), analyzer.simplify(high + dim.extent - 1))


def domain_touched(
    stmt: Stmt, buffer: Buffer, consider_loads: bool = True, consider_stores: bool = True
) -> list[Range] | None:
    """Box of a buffer accessed by a statement, in terms of the statement's free variables; None if there is none.

        for i in range(n):  A[i + 1] = A[i]             [0 : n + 1] of A

    Accesses are the loads and stores of the buffer and the regions that blocks view. The box covers all of them; an
    unbounded dimension is taken whole.
    """
    collector = _Touched(buffer, consider_loads, consider_stores)
    collector.visit(stmt)
    if collector.box is None:
        return None
    return [collector.range(ends, size) for ends, size in zip(collector.box, buffer.shape, strict=True)]


class _Touched(StmtExprVisitor):
    def __init__(self, buffer: Buffer, loads: bool, stores: bool) -> None:
        super().__init__()
        self.buffer, self.loads, self.stores = buffer, loads, stores
        self.analyzer = Analyzer()
        self.domains: dict[Var, IntervalSet] = {}
        self.box: list[Ends] | None = None

    def range(self, ends: Ends, size: PrimExpr) -> Range:
        low, high = ends
        if low is None or high is None:
            return Range(min=0, extent=size)
        return Range(min=low, extent=self.analyzer.simplify(high - low + 1))

    def touch(self, indices: Sequence[PrimExpr]) -> None:
        ends = [ends_of(index, self.domains, self.analyzer) for index in indices]
        box = self.box
        self.box = ends if box is None else [union(a, b) for a, b in zip(box, ends, strict=True)]
        self.box = [self.simplified(ends) for ends in self.box]

    def simplified(self, ends: Ends) -> Ends:
        low, high = ends
        return (
            None if low is None else self.analyzer.simplify(low),
            None if high is None else self.analyzer.simplify(high),
        )

    def bind(self, var: Var, low: PrimExpr, high: PrimExpr) -> None:
        least, _ = ends_of(low, self.domains, self.analyzer)
        _, greatest = ends_of(high, self.domains, self.analyzer)
        self.domains[var] = as_set((least, greatest))

    def visit_For(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        self.bind(node.loop_var, node.min, node.min + node.extent - 1)
        self.visit(node.body)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.visit(node.value)
        if node.value.dtype.is_integer:
            self.bind(node.var, node.value, node.value)
        self.visit(node.body)

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        for iter_var, value in zip(node.block.iter_vars, node.iter_values, strict=True):
            self.visit(value)
            self.bind(iter_var.var, value, value)
        self.visit(node.predicate)
        self.visit_accesses(node.block)

    def visit_accesses(self, block: Block) -> None:
        """Visit the accesses of a block; its declared regions are not accesses, but regions that it views count as a
        whole.
        """
        for view in block.match_buffers:
            if view.source.buffer is self.buffer:
                self.touch([dim.min for dim in view.source.region])
                self.touch([dim.min + dim.extent - 1 for dim in view.source.region])
        statements: list[Node | None] = [block.init, block.body]
        for statement in statements:
            if statement is not None:
                self.visit(statement)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        if self.loads and node.buffer is self.buffer:
            self.touch(node.indices)
        for index in node.indices:
            self.visit(index)

    def visit_BufferStore(self, node: BufferStore) -> None:
        if self.stores and node.buffer is self.buffer:
            self.touch(node.indices)
        for index in node.indices:
            self.visit(index)
        self.visit(node.value)


__all__ = [
    "as_ends",
    "domain_touched",
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
]
