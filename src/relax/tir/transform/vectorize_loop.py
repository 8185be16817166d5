"""Turn vectorised loops into operations on vectors.

    for i in T.vectorized(4):
        B[j * 4 + i] = A[j * 4 + i] + x[j]
    gives
    B[T.Ramp(j * 4, 1, 4)] = A[T.Ramp(j * 4, 1, 4)] + T.Broadcast(x[j], 4)

What has no vector form (a branch, an effectful call, an access whose vector index is not the last, a store that all
iterations make to one place) stays in a serial loop, and so does a loop whose length is unknown, or above 128.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from ...ir import Node
from ...prim import (
    Add,
    And,
    BinaryExpr,
    Call,
    Cast,
    IntImm,
    Let,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
    const,
    is_const,
)
from ...prim.intrin import is_pure
from ..buffer import Broadcast, Buffer, BufferLoad, Ramp
from ..functor import StmtExprMutator, post_order_visit, substitute
from ..renew import renew_bound_vars
from ..statements import NOTHING, seq_of
from ..stmt import (
    AssertStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
)
from ..usage import free_vars
from .passes import prim_func_pass

MAX_LANES = 128


def vectorize_loop(func: PrimFunc) -> PrimFunc:
    """The function without vectorised loops."""
    return func.replace(body=_Loops().visit(func.body))


class _Loops(StmtExprMutator):
    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        made = self.visit_children(node)
        return made if made is node else seq_of(made.seq)  # a loop that never runs leaves nothing

    def visit_For(self, node: For) -> Stmt:
        made = self.visit_children(node)
        if made.kind is not ForKind.VECTORIZED:
            return made
        extent = made.extent
        if isinstance(extent, IntImm) and extent.value <= 0:
            return NOTHING
        if is_const(extent, 1):
            return substitute(made.body, {made.loop_var: made.min})
        if not isinstance(extent, IntImm) or extent.value > MAX_LANES:
            return made.replace(kind=ForKind.SERIAL)
        return _Vectorizer(made.loop_var, made.min, extent.value).stmt(made.body)


class _NoVectorFormError(Exception):
    """The construct must stay in a serial loop."""


class _Vectorizer:
    """Statements of a loop over `var`, as statements about all its iterations at once."""

    def __init__(self, var: Var, start: PrimExpr, lanes: int) -> None:
        self.var, self.start, self.lanes = var, start, lanes
        self.ramp = Ramp(start, const(1, var.dtype), lanes)
        self.lets: dict[Var, Var] = {}
        self.done: dict[PrimExpr, PrimExpr] = {}
        """Vector forms of expressions, by object; good as long as `lets` stays."""

    # ------------------------------------------------------------------ statements

    def stmt(self, stmt: Stmt) -> Stmt:
        """The vector form; a serial loop over what has none."""
        if not self.varies(stmt) and not isinstance(stmt, SeqStmt):
            return self.serial(stmt)
        try:
            return self.vector_stmt(stmt)
        except _NoVectorFormError:
            return self.serial(stmt)

    def varies(self, node: Node) -> bool:
        """True if something depends on the loop variable."""
        used = free_vars(node)
        return self.var in used or any(var in self.lets for var in used)

    def serial(self, stmt: Stmt) -> Stmt:
        loop_var = Var(self.var.name, self.var.dtype)
        if any(var in self.lets for var in free_vars(stmt)):
            raise _NoVectorFormError  # it uses a vector bound outside: the binding must be in the loop as well
        body = renew_bound_vars(substitute(stmt, {self.var: loop_var}))
        return For(loop_var, self.start, const(self.lanes, self.var.dtype), ForKind.SERIAL, body)

    def vector_stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case SeqStmt(seq):
                return seq_of([self.stmt(s) for s in seq])
            case BufferStore():
                return self.store(stmt)
            case For(_, low, extent) if not self.varies(low) and not self.varies(extent):
                return stmt.replace(body=self.stmt(stmt.body))
            case IfThenElse(condition) if not self.varies(condition):
                other = None if stmt.else_case is None else self.stmt(stmt.else_case)
                return stmt.replace(then_case=self.stmt(stmt.then_case), else_case=other)
            case AssertStmt(condition) if not self.varies(condition):
                return stmt.replace(body=self.stmt(stmt.body))
            case LetStmt(var, value, body):
                return self.let(stmt, var, value, body)
            case _:
                raise _NoVectorFormError

    def store(self, stmt: BufferStore) -> Stmt:
        if not any(self.varies(index) for index in stmt.indices):
            raise _NoVectorFormError  # every iteration stores to the same place: their order matters
        indices = self.indices(stmt.indices)
        lanes = indices[-1].dtype.lanes
        return stmt.replace(indices=indices, value=self.widen(self.expr(stmt.value), lanes))

    def let(self, stmt: LetStmt, var: Var, value: PrimExpr, body: Stmt) -> Stmt:
        vector = self.expr(value)
        if vector.dtype.lanes == 1:
            return stmt.replace(value=vector, body=self.stmt(body))
        wide = Var(var.name, vector.dtype)
        self.lets[var] = wide
        self.done.clear()
        try:
            inner = self.vector_stmt(body)
        finally:
            del self.lets[var]
            self.done.clear()
        return LetStmt(wide, vector, inner, span=stmt.span)

    def indices(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        made = tuple(self.expr(index) for index in indices)
        if any(index.dtype.lanes != 1 for index in made[:-1]):
            raise _NoVectorFormError
        return made

    # ------------------------------------------------------------------ expressions

    def widen(self, expr: PrimExpr, lanes: int) -> PrimExpr:
        if expr.dtype.lanes == lanes:
            return expr
        if expr.dtype.lanes != 1:
            raise _NoVectorFormError
        return Broadcast(expr, lanes)

    def expr(self, expr: PrimExpr) -> PrimExpr:
        """The vector of the values in all iterations; the expression itself where they are equal."""
        if isinstance(expr, Var):
            return self.ramp if expr is self.var else self.lets.get(expr, expr)
        known = self.done.get(expr)
        if known is None:
            known = self.done[expr] = self.vector(expr) if self.varies(expr) else expr
        return known

    def vector(self, expr: PrimExpr) -> PrimExpr:
        """The vector form of an expression that depends on the loop variable."""
        if expr.dtype.lanes != 1:
            raise _NoVectorFormError
        rule = _RULES.get(type(expr))
        if rule is not None:
            return rule(self, expr)
        if isinstance(expr, BinaryExpr):
            return self.binary(expr)
        raise _NoVectorFormError

    def binary(self, expr: BinaryExpr) -> PrimExpr:
        a, b = self.expr(expr.a), self.expr(expr.b)
        if isinstance(expr, (And, Or)) and _may_fail(expr.b):
            raise _NoVectorFormError  # a vector evaluates both operands
        affine = _affine(expr, a, b)
        if affine is not None:
            return affine
        made = type(expr)(self.widen(a, self.lanes), self.widen(b, self.lanes))  # type: ignore[call-arg]
        return cast(PrimExpr, made)

    def cast(self, expr: Cast) -> PrimExpr:
        value = self.expr(expr.value)
        if isinstance(value, Ramp) and expr.dtype.is_int and expr.dtype.bits >= value.dtype.bits:
            return Ramp(value.base.astype(expr.dtype), value.stride.astype(expr.dtype), value.lanes)
        return Cast(expr.dtype.with_lanes(value.dtype.lanes), value, span=expr.span)

    def load(self, expr: BufferLoad) -> PrimExpr:
        return expr.replace(indices=self.indices(expr.indices))

    def logical_not(self, expr: Not) -> PrimExpr:
        return Not(self.expr(expr.a))

    def select(self, expr: Select) -> PrimExpr:
        parts = [self.expr(e) for e in (expr.condition, expr.true_value, expr.false_value)]
        if parts[0].dtype.lanes == 1:
            return Select(parts[0], self.widen(parts[1], self.lanes), self.widen(parts[2], self.lanes))
        return Select(*(self.widen(part, self.lanes) for part in parts))

    def call(self, expr: Call) -> PrimExpr:
        if not is_pure(expr) or expr.intrinsic in ("if_then_else", "call_pure_extern", "reinterpret"):
            raise _NoVectorFormError
        args = [self.widen(self.expr(arg), self.lanes) for arg in expr.args]
        return Call(expr.dtype.with_lanes(self.lanes), expr.op, tuple(args), span=expr.span)

    def bound(self, expr: Let) -> PrimExpr:
        return self.expr(substitute(expr.body, {expr.var: expr.value}))


_RULES: dict[type[PrimExpr], Callable[[_Vectorizer, PrimExpr], PrimExpr]] = {
    Cast: lambda v, e: v.cast(cast(Cast, e)),
    BufferLoad: lambda v, e: v.load(cast(BufferLoad, e)),
    Not: lambda v, e: v.logical_not(cast(Not, e)),
    Select: lambda v, e: v.select(cast(Select, e)),
    Call: lambda v, e: v.call(cast(Call, e)),
    Let: lambda v, e: v.bound(cast(Let, e)),
}


def _affine(expr: BinaryExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """Sums and products of a ramp and a scalar are ramps; None for all else."""
    match expr:
        case Add() if isinstance(a, Ramp) and b.dtype.lanes == 1:
            return Ramp(a.base + b, a.stride, a.lanes)
        case Add() if isinstance(b, Ramp) and a.dtype.lanes == 1:
            return Ramp(a + b.base, b.stride, b.lanes)
        case Add() if isinstance(a, Ramp) and isinstance(b, Ramp):
            return Ramp(a.base + b.base, a.stride + b.stride, a.lanes)
        case Sub() if isinstance(a, Ramp) and b.dtype.lanes == 1:
            return Ramp(a.base - b, a.stride, a.lanes)
        case Mul() if isinstance(a, Ramp) and b.dtype.lanes == 1:
            return Ramp(a.base * b, a.stride * b, a.lanes)
        case Mul() if isinstance(b, Ramp) and a.dtype.lanes == 1:
            return Ramp(a * b.base, a * b.stride, b.lanes)
        case _:
            return None


def _may_fail(expr: PrimExpr) -> bool:
    """True if evaluating an expression that the program would not evaluate may do harm."""
    found: list[Node] = []

    def visit(node: Node) -> None:
        if isinstance(node, (BufferLoad, Buffer)) or (isinstance(node, Call) and not is_pure(node)):
            found.append(node)

    post_order_visit(expr, visit)
    return bool(found)


VectorizeLoop = prim_func_pass(vectorize_loop, "VectorizeLoop")
"""Pass: vectorised loops become operations on vectors."""
