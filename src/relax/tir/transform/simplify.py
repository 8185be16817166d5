"""Simplify expressions and statements by the facts known at each statement.

for i in range(4):                          for i in range(4):
    for j in range(1):                          B[i] = A[i]
        if i < 4:                   gives
            B[i + j] = A[i + 0]         (conditions of enclosing assertions are known, too)
    for k in range(0):
        C[k] = A[k]

Skips shape arithmetic of Relax functions (``tir.is_host_func``): overflow is an error there, which a simplified
expression might not raise.
"""

from __future__ import annotations

from collections.abc import Set

from ...ir import Node, walk
from ...prim import Analyzer, And, Call, IntImm, Not, PrimExpr, is_const
from ...prim.intervals import plain_interval
from ...prim.traits import may_fail
from ..buffer import Buffer, BufferLoad
from ..functor import StmtExprMutator, post_order_visit, substitute
from ..sizes import buffer_limits
from ..statements import NOTHING, is_nothing, seq_of
from ..stmt import (
    AllocBuffer,
    AssertStmt,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
)
from .each_prim_func import each_prim_func


def simplify_func(func: PrimFunc) -> PrimFunc:
    """Return the function simplified; shape arithmetic is returned unchanged."""
    return _simplified(func, frozenset())


def simplify_again(func: PrimFunc, before: PrimFunc) -> PrimFunc:
    """Simplify a function derived from the simplified function `before`; expressions shared with it are skipped."""
    return _simplified(func, _expressions(before.body))


def _simplified(func: PrimFunc, simple: Set[int]) -> PrimFunc:
    if func.attrs.get("tir.is_host_func"):
        return func
    limits = [limit for buffer in func.buffer_map.values() for limit in buffer_limits(buffer)]
    simplifier = _Simplifier(simple)
    with simplifier.analyzer.limits_scope(limits):
        return func.replace(body=simplifier.visit(func.body))


def _expressions(stmt: Stmt) -> set[int]:
    """Return the ids of the outermost expressions in a statement."""
    ids: set[int] = set()

    def see(node: Node) -> bool:
        if isinstance(node, PrimExpr):
            ids.add(id(node))
        return not isinstance(node, PrimExpr)

    walk(stmt, see)
    return ids


class _Simplifier(StmtExprMutator):
    def __init__(self, simple: Set[int]) -> None:
        super().__init__()
        self.simple = simple
        """Ids of expressions that are simplified already."""
        self.analyzer = Analyzer(wraps=True)
        self.replaced: dict[Buffer, Buffer] = {}

    def define_buffer(self, buffer: Buffer) -> None:
        super().define_buffer(buffer)
        self.replaced.pop(buffer, None)
        if self._buffers[buffer] is not buffer:
            self.replaced[buffer] = self._buffers[buffer]

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        seq = [self.visit(stmt) for stmt in node.seq]
        kept = [stmt for stmt in seq if not is_nothing(stmt)]
        if len(kept) == len(node.seq) and all(a is b for a, b in zip(kept, node.seq, strict=True)):
            return node if len(kept) != 1 else kept[0]
        return seq_of(kept)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.visit(node.condition)
        if isinstance(condition, IntImm):
            chosen = node.then_case if condition.value else node.else_case
            return NOTHING if chosen is None else self.visit(chosen)
        then_case = self.under(condition, node.then_case)
        else_case = None if node.else_case is None else self.under(Not(condition), node.else_case)
        if else_case is not None and is_nothing(else_case):
            else_case = None
        if is_nothing(then_case) and else_case is None:
            return node.replace(condition=condition) if may_fail(condition) else NOTHING
        return node.replace(condition=condition, then_case=then_case, else_case=else_case)

    def visit_For(self, node: For) -> Stmt:
        low, extent = self.visit(node.min), self.visit(node.extent)
        if isinstance(extent, IntImm) and extent.value <= 0:
            return node.replace(min=low, extent=extent, body=NOTHING) if may_fail(low) else NOTHING
        if is_const(extent, 1) and node.kind is not ForKind.THREAD_BINDING and not may_fail(low):
            return self.visit(substitute(node.body, {node.loop_var: low}))
        body = self.under(self.in_range(node, low, extent), node.body)
        if is_nothing(body) and not self.loop_may_fail(low, extent):
            return NOTHING
        return node.replace(min=low, extent=extent, body=body)

    def in_range(self, loop: For, low: PrimExpr, extent: PrimExpr) -> PrimExpr:
        """Return the condition that holds in a loop's body, written so that it does not overflow."""
        if self.end_is_a_number(low, extent, loop.loop_var):
            return And(loop.loop_var >= low, loop.loop_var < low + extent)
        return And(loop.loop_var >= low, loop.loop_var <= low + (extent - 1))

    def loop_may_fail(self, low: PrimExpr, extent: PrimExpr) -> bool:
        """True if computing a loop's range may fail, or the range may exceed the loop variable's dtype."""
        return may_fail(low) or may_fail(extent) or not self.end_is_a_number(low, extent, low)

    def end_is_a_number(self, low: PrimExpr, extent: PrimExpr, like: PrimExpr) -> bool:
        """True if the end of a range is proved to fit the dtype of `like`."""
        most = like.dtype.max_value
        if plain_interval(low)[1] + plain_interval(extent)[1] <= most:
            return True
        return self.analyzer.interval(low)[1] + self.analyzer.interval(extent)[1] <= most

    def visit_While(self, node: While) -> Stmt:
        condition = self.visit(node.condition)
        if is_const(condition, 0):
            return NOTHING
        return node.replace(condition=condition, body=self.visit(node.body))

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        condition = self.visit(node.condition)
        body = self.under(condition, node.body)
        return body if is_const(condition, 1) else node.replace(condition=condition, body=body)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.visit(node.value)
        if isinstance(value, IntImm):
            return self.visit(substitute(node.body, {node.var: value}))
        body = self.visit(node.body)
        return node.replace(value=value, body=body)

    def visit_AllocBuffer(self, node: AllocBuffer) -> Stmt:
        with self.analyzer.limits_scope(buffer_limits(node.buffer)):
            rewritten = self.visit_children(node)
        return NOTHING if is_nothing(rewritten.body) else rewritten

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        rewritten = self.visit_children(node)
        return NOTHING if is_nothing(rewritten.body) else rewritten

    def visit_default(self, node: Node) -> Node:
        return self.visit_children(node) if not isinstance(node, PrimExpr) else self.expression(node)

    def expression(self, expr: PrimExpr) -> PrimExpr:
        simplified = expr if id(expr) in self.simple else self.analyzer.simplify(expr)
        result: PrimExpr = substitute(simplified, self.replaced)  # the analyzer leaves the buffers of loads alone
        return result

    def under(self, condition: PrimExpr, stmt: Stmt) -> Stmt:
        """Simplify a statement where a condition holds."""
        if _reads_memory(condition):
            return self.visit(stmt)
        with self.analyzer.constraint_scope(condition):
            return self.visit(stmt)


def _reads_memory(condition: PrimExpr) -> bool:
    reads: list[Node] = []

    def visit(node: Node) -> None:
        if isinstance(node, (BufferLoad, Call)):
            reads.append(node)

    post_order_visit(condition, visit)
    return bool(reads)


Simplify = each_prim_func(simplify_func, "Simplify")
"""Pass: simplify expressions and statements by the facts known at each statement."""
