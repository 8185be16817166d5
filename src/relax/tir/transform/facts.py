"""Base class of rewrites that depend on facts known to hold at a statement.

Facts come from the ranges of loops, the conditions of branches and assertions, the domains of blocks, preconditions and
the sizes of buffers. Conditions that read memory are ignored: the statement below may write that memory.

`can_fail`, `allocation_can_fail` and `view_can_fail` return True, and `inside` returns False, unless the prover
excludes the failure. A rewrite that removes, adds or moves an evaluation must check them first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from ...prim import (
    EQ,
    GE,
    LE,
    LT,
    Analyzer,
    And,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Not,
    Or,
    PrimExpr,
    Var,
    const,
    is_const,
    match_dtypes,
    post_order,
    sub_expressions,
)
from ...prim.intrin import is_pure
from ...prim.traits import fails_itself, has_effects, may_fail
from ...runtime.limits import DIMENSION_LIMIT
from ..buffer import Broadcast, Buffer, BufferLoad, Ramp, element_count
from ..functor import StmtExprMutator
from ..sizes import LARGEST_PRODUCT, Limit, buffer_limits
from ..statements import conjuncts
from ..stmt import AllocBuffer, AssertStmt, Block, BlockRealize, For, IfThenElse, LetStmt, PrimFunc, Stmt

_DIVISIONS = (FloorDiv, FloorMod, Div, Mod)


def reads_memory(expr: PrimExpr) -> bool:
    """True if an expression loads from memory, or calls a function that may."""
    reads: list[PrimExpr] = []

    def visit(node: PrimExpr) -> None:
        if isinstance(node, BufferLoad) or (isinstance(node, Call) and not _is_arithmetic(node)):
            reads.append(node)

    post_order(expr, visit)
    return bool(reads)


def _is_arithmetic(call: Call) -> bool:
    return is_pure(call) and call.intrinsic not in ("call_pure_extern", "tvm_access_ptr", "address_of")


def without_likely(expr: PrimExpr) -> PrimExpr:
    """Strip the marker `likely` from a condition."""
    while isinstance(expr, Call) and expr.intrinsic == "likely":
        expr = expr.args[0]
    return expr


def loop_facts(var: Var, low: PrimExpr, extent: PrimExpr) -> list[PrimExpr]:
    """Return the conditions that hold in the body of a loop; none of them overflows if the loop runs.

    Empty if the bounds' dtype differs from the variable's, which code generation rejects.
    """
    facts: list[PrimExpr] = []
    if not var.dtype == low.dtype == extent.dtype:
        return facts
    if not isinstance(extent, IntImm):
        facts.append(GE(extent, const(1, extent.dtype)))
    facts.append(GE(var, low))
    if is_const(low, 0):
        facts.append(LT(var, extent))
    elif isinstance(low, IntImm) and isinstance(extent, IntImm):
        last = low.value + extent.value - 1
        facts.append(LE(var, IntImm(var.dtype, min(last, int(var.dtype.max_value)))))
    else:
        facts.append(LE(var, low + (extent - 1)))
    return facts


class FactsMutator(StmtExprMutator):
    """A rewrite of a function's body that tracks the conditions under which each statement runs."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.func = func
        self.analyzer = Analyzer(wraps=True)
        self.storage: dict[Var, Buffer] = {buffer.data: buffer for buffer in func.buffer_map.values()}
        """Parameter or allocation that owns the memory of a data variable."""

    def run(self) -> PrimFunc:
        """Return the function with its body rewritten."""
        limits = [limit for buffer in self.func.buffer_map.values() for limit in buffer_limits(buffer)]
        held = [precondition.condition for precondition in self.func.preconditions]
        with self.analyzer.limits_scope(limits), self.holding(held):
            return self.func.replace(body=self.visit(self.func.body))

    # ------------------------------------------------------------------ scopes

    def holding(self, conditions: Iterable[PrimExpr]) -> ExitStack:
        """Return a context in which conditions are assumed; those that read memory are ignored."""
        stack = ExitStack()
        for condition in conditions:
            for conjunct in conjuncts(without_likely(condition)):
                fact = without_likely(conjunct)
                if not reads_memory(fact):
                    stack.enter_context(self.analyzer.constraint_scope(fact))
        return stack

    def within(self, limits: Iterable[Limit]) -> ExitStack:
        """Return a context in which sizes have limits."""
        stack = ExitStack()
        stack.enter_context(self.analyzer.limits_scope(limits))
        return stack

    def under(self, condition: PrimExpr, stmt: Stmt) -> Stmt:
        """Rewrite a statement where a condition holds."""
        with self.holding([condition]):
            return self.visit(stmt)

    def in_loop(self, loop: For) -> ExitStack:
        """Return the context of a loop's body."""
        return self.holding(loop_facts(loop.loop_var, loop.min, loop.extent))

    def in_let(self, let: LetStmt) -> ExitStack:
        """Return the context of a let's body."""
        is_exact = let.value.dtype.is_integer and let.value.dtype == let.var.dtype
        return self.holding([EQ(let.var, let.value)] if is_exact else [])

    # ------------------------------------------------------------------ statements

    def visit_For(self, node: For) -> Stmt:
        low, extent = self.visit(node.min), self.visit(node.extent)
        with self.in_loop(node):
            body = self.visit(node.body)
        return node.replace(min=low, extent=extent, body=body)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.visit(node.condition)
        then_case = self.under(node.condition, node.then_case)
        otherwise = node.else_case
        if otherwise is not None:
            otherwise = self.under(Not(node.condition), otherwise)
        return node.replace(condition=condition, then_case=then_case, else_case=otherwise)

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        condition = self.visit(node.condition)
        return node.replace(condition=condition, body=self.under(node.condition, node.body))

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.visit(node.value)
        with self.in_let(node):
            return node.replace(value=value, body=self.visit(node.body))

    def visit_AllocBuffer(self, node: AllocBuffer) -> Stmt:
        self.storage[node.buffer.data] = node.buffer
        with self.within(buffer_limits(node.buffer)):
            return self.visit_children(node)

    def visit_BlockRealize(self, node: BlockRealize) -> Stmt:
        values = self.visit_all(node.iter_values)
        predicate = self.visit(node.predicate)
        with self.holding(_block_facts(node)):
            block = self.visit(node.block)
        return node.replace(iter_values=values, predicate=predicate, block=block)

    def visit_Block(self, node: Block) -> Block:
        limits: list[Limit] = []
        for buffer in node.alloc_buffers:
            self.storage[buffer.data] = buffer
            limits += buffer_limits(buffer)
        with self.within(limits):
            return self.visit_children(node)

    # ------------------------------------------------------------------ expressions

    def visit_And(self, node: And) -> PrimExpr:
        return node.replace(a=self.visit(node.a), b=self.visit_under(node.a, node.b))

    def visit_Or(self, node: Or) -> PrimExpr:
        return node.replace(a=self.visit(node.a), b=self.visit_under(Not(node.a), node.b))

    def visit_Call(self, node: Call) -> PrimExpr:
        if node.intrinsic != "if_then_else":
            return self.visit_children(node)
        condition, yes, no = node.args
        args = (self.visit(condition), self.visit_under(condition, yes), self.visit_under(Not(condition), no))
        same = all(a is b for a, b in zip(args, node.args, strict=True))
        return node if same else node.replace(args=args)

    def visit_under(self, condition: PrimExpr, expr: PrimExpr) -> PrimExpr:
        """Rewrite an expression where a condition holds; the result is not reused elsewhere."""
        outside, self._shared = self._shared, type(self._shared)()
        try:
            with self.holding([condition]):
                return self.visit(expr)
        finally:
            self._shared = outside

    # ------------------------------------------------------------------ failures

    def can_fail(self, expr: PrimExpr) -> bool:
        """True unless evaluating an expression is proved to raise no error and to have no effect."""
        if not may_fail(expr):
            return False
        if has_effects(expr):
            return True
        match expr:
            case And(a, b):
                return self.can_fail(a) or self.can_fail_under(a, b)
            case Or(a, b):
                return self.can_fail(a) or self.can_fail_under(Not(a), b)
            case Call(_, _, (condition, yes, no)) if expr.intrinsic == "if_then_else":
                return (
                    self.can_fail(condition)
                    or self.can_fail_under(condition, yes)
                    or self.can_fail_under(Not(condition), no)
                )
            case Let(var, value, body):
                return self.can_fail(value) or self.can_fail_under(EQ(var, value), body)
            case BufferLoad(buffer, indices):
                return any(map(self.can_fail, indices)) or not self.inside(buffer, indices)
            case _ if isinstance(expr, _DIVISIONS) and fails_itself(expr):
                return self.can_fail(expr.a) or self.can_fail(expr.b) or not self.nonzero(expr.b)
            case Ramp() | Broadcast():
                return any(map(self.can_fail, sub_expressions(expr)))
            case _:
                return fails_itself(expr) or any(map(self.can_fail, sub_expressions(expr)))

    def can_fail_under(self, condition: PrimExpr, expr: PrimExpr) -> bool:
        """`can_fail` where a condition holds."""
        if not may_fail(expr):
            return False
        with self.holding([condition]):
            return self.can_fail(expr)

    def nonzero(self, expr: PrimExpr) -> bool:
        """True if an integer divisor is proved to be nonzero."""
        return expr.dtype.lanes == 1 and self.analyzer.can_prove(expr != const(0, expr.dtype))

    def inside(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> bool:
        """True if an access is proved to be within the shape of its buffer."""
        return all(self.in_dimension(index, size) for index, size in zip(indices, buffer.shape, strict=True))

    def in_dimension(self, index: PrimExpr, size: PrimExpr) -> bool:
        """True if an index, or every lane of a vector of indices, is proved to be in [0, size)."""
        if isinstance(index, Ramp):
            if not isinstance(index.stride, IntImm):
                return False
            low, high = self.analyzer.interval(index.base)
            reach = index.stride.value * (index.lanes - 1)
            limit = int(index.base.dtype.max_value)
            if low + min(reach, 0) < -limit or high + max(reach, 0) > limit:
                return False
            return self.in_dimension(index.base, size) and self.in_dimension(index.base + reach, size)
        if index.dtype.lanes != 1 or not index.dtype.is_integer or has_effects(index):
            return False
        a, b = match_dtypes(index, size)
        return self.analyzer.can_prove(GE(a, const(0, a.dtype))) and self.analyzer.can_prove(LT(a, b))

    def loop_can_fail(self, loop: For) -> bool:
        """True unless a loop's range is proved to be computed without failure, and to fit the variable's dtype."""
        if self.can_fail(loop.min) or self.can_fail(loop.extent):
            return True
        start, count = self.analyzer.interval(loop.min), self.analyzer.interval(loop.extent)
        return start[1] + count[1] - 1 > loop.loop_var.dtype.max_value and count[1] > 0

    def allocation_can_fail(self, buffer: Buffer) -> bool:
        """True unless the size of an allocation is proved to be within the limits for buffers."""
        if buffer.strides or buffer.elem_offset is not None:
            return True
        if any(map(self.size_can_fail, buffer.shape)):
            return True
        width = (buffer.dtype.bits * buffer.dtype.lanes + 7) // 8
        most = math.prod(max(self.analyzer.interval(size)[1], 1) for size in buffer.shape)
        if most * width <= LARGEST_PRODUCT:
            return False
        count = element_count(buffer)
        return self.analyzer.interval(count)[1] * width > LARGEST_PRODUCT

    def size_can_fail(self, size: PrimExpr) -> bool:
        """True unless a size is proved to be computed without overflow, and to be in [0, 2^48)."""
        if isinstance(size, IntImm):
            return not 0 <= size.value < DIMENSION_LIMIT
        low, high = self.analyzer.interval(size)
        if self.can_fail(size) or reads_memory(size) or low < 0 or high >= DIMENSION_LIMIT:
            return True
        return any(not _far_from_overflow(self.analyzer, inner) for inner in _inner(size))

    def view_can_fail(self, view: Buffer) -> bool:
        """True unless a buffer declared over memory is proved to lie inside it."""
        owner = self.storage.get(view.data)
        if owner is None or owner.strides or owner.elem_offset is not None or self.allocation_can_fail(view):
            return True
        if view.dtype != owner.dtype:
            return True
        return not self.analyzer.can_prove(LE(element_count(view), element_count(owner)))


def _inner(expr: PrimExpr) -> Iterator[PrimExpr]:
    exprs: list[PrimExpr] = []
    post_order(expr, exprs.append)
    return iter(exprs)


def _far_from_overflow(analyzer: Analyzer, expr: PrimExpr) -> bool:
    """True if a part of a size is a bool, or proved to be within ±2^62."""
    if not expr.dtype.is_integer:
        return expr.dtype.is_bool
    low, high = analyzer.interval(expr)
    return low >= -LARGEST_PRODUCT and high <= LARGEST_PRODUCT


def _block_facts(node: BlockRealize) -> list[PrimExpr]:
    """Return the conditions that hold in a block's body."""
    facts = [node.predicate]
    for iter_var, value in zip(node.block.iter_vars, node.iter_values, strict=False):
        if iter_var.dom is not None:
            facts += loop_facts(iter_var.var, iter_var.dom.min, iter_var.dom.extent)
        if value.dtype == iter_var.dtype:
            facts.append(EQ(iter_var.var, value))
    return facts
