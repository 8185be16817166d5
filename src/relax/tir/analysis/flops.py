"""Estimated number of arithmetic operations of a program."""

from __future__ import annotations

from ...ir import IRModule
from ...prim import Analyzer, BinaryExpr, Call, Cast, ConstIntBound, IntImm, Let, Not, PrimExpr, Select
from ..buffer import Broadcast, Range
from ..stmt import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
)

ESTIMATED_FLOPS = "estimated_flops"
"""Attribute of a PrimFunc: its number of operations, which replaces the estimate."""


def estimate_tir_flops(stmt_or_mod: Stmt | PrimFunc | IRModule) -> float:
    """Return the number of arithmetic operations of a statement, function or module, counted as TVM does.

    An operation on a vector counts once for each lane. Indices, conditions of branches, loop bounds, casts and calls of
    functions are not counted. A branch counts as the larger of its cases. A loop of dynamic extent counts with its
    largest extent, or 1 if that is unknown; a `while` counts as one iteration. A function with the attribute
    ``estimated_flops`` has that number.
    """
    if isinstance(stmt_or_mod, IRModule):
        return sum(estimate_tir_flops(f) for f in stmt_or_mod.functions.values() if isinstance(f, PrimFunc))
    if isinstance(stmt_or_mod, PrimFunc):
        given = stmt_or_mod.attrs.get(ESTIMATED_FLOPS)
        return float(given) if given is not None else _Estimate().stmt(stmt_or_mod.body)
    return _Estimate().stmt(stmt_or_mod)


class _Estimate:
    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.done: dict[PrimExpr, float] = {}

    def stmt(self, stmt: Stmt) -> float:
        """Count the operations of a statement."""
        match stmt:
            case SeqStmt(seq):
                return sum(map(self.stmt, seq))
            case For():
                return self.loop(stmt)
            case IfThenElse(_, then_case, else_case):
                return max(self.stmt(then_case), 0.0 if else_case is None else self.stmt(else_case))
            case LetStmt(_, value, body):
                return self.expr(value) + self.stmt(body)
            case BufferStore(_, value) | Evaluate(value):
                return self.expr(value)
            case BlockRealize(_, _, block):
                start = 0.0 if block.init is None else self.stmt(block.init)
                return start + self.stmt(block.body)
            case (
                AllocBuffer(body=body)
                | DeclBuffer(body=body)
                | AttrStmt(body=body)
                | AssertStmt(body=body)
                | While(body=body)
            ):
                return self.stmt(body)
            case _:
                raise TypeError(f"estimate_tir_flops: expected a statement, found {type(stmt).__name__}")

    def loop(self, loop: For) -> float:
        if isinstance(loop.extent, IntImm):
            times = max(loop.extent.value, 0)
        else:
            most = self.analyzer.const_int_bound(loop.extent).max_value
            times = 1 if most >= min(ConstIntBound.POS_INF, 2**31 - 1) else max(most, 0)
        self.analyzer.bind(loop.loop_var, Range(min=loop.min, extent=loop.extent), override=True)
        return times * self.stmt(loop.body)

    def expr(self, expr: PrimExpr) -> float:
        """Count the operations of an expression; a shared object counts at each occurrence."""
        if expr not in self.done:
            self.done[expr] = self.fresh(expr)
        return self.done[expr]

    def fresh(self, expr: PrimExpr) -> float:
        match expr:
            case BinaryExpr(a=a, b=b):
                return expr.dtype.lanes + self.expr(a) + self.expr(b)
            case Not(a):
                return expr.dtype.lanes + self.expr(a)
            case Select(condition, yes, no):
                return self.expr(condition) + max(self.expr(yes), self.expr(no))
            case Let(_, value, body):
                return self.expr(value) + self.expr(body)
            case Cast(_, value) | Broadcast(value):
                return self.expr(value)
            case Call(_, _, args):
                return sum(map(self.expr, args))
            case _:
                return 0.0
