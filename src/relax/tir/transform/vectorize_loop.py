"""Turn vectorised loops into vector operations.

    for i in T.vectorized(4):
        B[j * 4 + i] = A[j * 4 + i] + x[j]
    gives
    B[T.Ramp(j * 4, 1, 4)] = A[T.Ramp(j * 4, 1, 4)] + T.Broadcast(x[j], 4)

A branch whose condition differs between the iterations becomes a mask, the predicate of loads and stores:

    for i in T.vectorized(4):
        if j * 4 + i < n:
            B[j * 4 + i] = A[j * 4 + i]
    gives, with mask = T.Ramp(j * 4, 1, 4) < T.Broadcast(n, 4),
    B.vstore([T.Ramp(j * 4, 1, 4)], A.vload([T.Ramp(j * 4, 1, 4)], predicate=mask), predicate=mask)

Operands of Select, if_then_else, And and Or that may fail where they are not chosen are masked in the same way. A loop
of dynamic length, or of more than 128 iterations, becomes a loop over vectors of 512 bits and a masked remainder.

A vectorised loop computes what the serial loop does. Statements without a vector form stay in a serial loop: a store of
all iterations to one element, an inner loop whose length differs between the iterations, a call with effects, an
allocation in the loop. So do statements in which an iteration may read what another one stores (see `lane_order`). The
annotation ``tir.not_vectorized`` of that loop holds the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import cast

from ...ir import GlobalVar, Node
from ...prim import (
    NE,
    Add,
    Analyzer,
    And,
    BinaryExpr,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
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
from ...prim.instructions import vector_reduce_or
from ...prim.intrin import floordiv, floormod, is_pure
from ...prim.traits import fails_itself
from ..buffer import Broadcast, Buffer, BufferLoad, Ramp, zero_of
from ..functor import StmtMutator, post_order_visit, substitute
from ..renew import renew_bound_vars
from ..sizes import Limit, buffer_limits
from ..statements import NOTHING, seq_of
from ..stmt import (
    AllocBuffer,
    AssertStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
)
from ..usage import free_vars
from .each_prim_func import each_prim_func
from .lane_order import tied_statements

MAX_LANES = 128
MAX_MASKS = 6
"""Largest nesting depth of masks. An expression shared by both arms of each is duplicated for every combination."""
VECTOR_BITS = 512
"""Size, in bits, of one vector of a long loop; targets with shorter vectors use several."""

NOT_VECTORIZED = "tir.not_vectorized"
"""Annotation of a vectorised loop that became serial: the reason."""


def vectorize_loop(func: PrimFunc) -> PrimFunc:
    """Return the function without vectorised loops."""
    limits = [limit for buffer in func.buffer_map.values() for limit in buffer_limits(buffer)]
    return func.replace(body=_Loops(_Surroundings(limits)).visit(func.body))


def in_lanes(
    value: PrimExpr, var: Var, start: PrimExpr, lanes: int, known: Mapping[PrimExpr, PrimExpr], mask: PrimExpr | None
) -> PrimExpr | None:
    """Return the vector of an expression's values for `var` from `start` on; None if it has no vector form.

    `known` has vectors that stand for parts of the expression. Other loads read only lanes of `mask`, if there is one.
    """
    vectorizer = _Vectorizer(_Surroundings([]), var, start, lanes, {}, strict=True)
    vectorizer.mask, vectorizer.done = mask, dict(known)
    try:
        return vectorizer.widen(vectorizer.expr(value), lanes)
    except _NoVectorFormError:
        return None


class _Surroundings:
    """The conditions that hold at the current statement."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self.limits = limits
        self.conditions: list[PrimExpr] = []

    @contextmanager
    def under(self, *conditions: PrimExpr) -> Generator[None]:
        """Context manager: assume conditions; those that read memory or may fail are ignored."""
        count = len(self.conditions)
        self.conditions += (condition for condition in conditions if not _may_fail(condition))
        yield
        del self.conditions[count:]

    def may_fail(self, node: Node) -> bool:
        """True if a scalar part of a vectorised statement or value may fail; such parts are evaluated regardless of the
        mask.
        """
        risky: list[PrimExpr] = []

        def visit(inner: Node) -> None:
            if isinstance(inner, PrimExpr) and inner.dtype.lanes == 1 and fails_itself(inner):
                risky.append(inner)

        post_order_visit(node, visit)
        if not risky:
            return False
        with self.analyzer() as analyzer:
            return not all(_proven(analyzer, expr) for expr in risky)

    @contextmanager
    def analyzer(self) -> Generator[Analyzer]:
        """Context manager: an analyzer that knows the conditions."""
        with ExitStack() as scopes:
            analyzer = Analyzer(wraps=True)
            scopes.enter_context(analyzer.limits_scope(self.limits))
            for condition in self.conditions:
                scopes.enter_context(analyzer.constraint_scope(condition))
            yield analyzer


def _proven(analyzer: Analyzer, expr: PrimExpr) -> bool:
    """True if the outermost operation of an expression is proved not to fail."""
    match expr:
        case BufferLoad(buffer, indices):
            inside = (And(i >= 0, i < size) for i, size in zip(indices, buffer.shape, strict=True))
            return all(map(analyzer.can_prove, inside))
        case FloorDiv(_, b) | FloorMod(_, b) | Div(_, b) | Mod(_, b):
            return analyzer.can_prove(NE(b, const(0, b.dtype)))
        case _:
            return False


class _Loops(StmtMutator):
    def __init__(self, around: _Surroundings) -> None:
        super().__init__()
        self.around = around

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.visit(node.condition)
        with self.around.under(condition):
            then_case = self.visit(node.then_case)
        with self.around.under(Not(condition)):
            other = None if node.else_case is None else self.visit(node.else_case)
        return node.replace(condition=condition, then_case=then_case, else_case=other)

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        rewritten = self.visit_children(node)
        return rewritten if rewritten is node else seq_of(rewritten.seq)  # a loop that never runs leaves nothing

    def visit_For(self, node: For) -> Stmt:
        with self.around.under(*_range_of(node)):
            rewritten = self.visit_children(node)
        if rewritten.kind is not ForKind.VECTORIZED:
            return rewritten
        for name in ("min", "extent"):
            bound: PrimExpr = getattr(rewritten, name)
            if _may_fail(bound):  # it is evaluated once: the body may change what it reads
                var = Var(name, bound.dtype)
                return LetStmt(var, bound, self.visit(rewritten.replace(**{name: var})), span=rewritten.span)
        extent = rewritten.extent
        if isinstance(extent, IntImm) and extent.value <= 0:
            return NOTHING
        if is_const(extent, 1):
            return substitute(rewritten.body, {rewritten.loop_var: rewritten.min})
        if not isinstance(extent, IntImm) or extent.value > MAX_LANES or _has_rest(rewritten):
            return _in_vectors(rewritten, self.around)
        tied = tied_statements(rewritten, extent.value, self.around.analyzer)
        return _Vectorizer(self.around, rewritten.loop_var, rewritten.min, extent.value, tied).stmt(rewritten.body)


class _NoVectorFormError(Exception):
    """Raised if a construct must stay in a serial loop; the argument says why."""


def _range_of(loop: For) -> tuple[PrimExpr, PrimExpr]:
    return loop.loop_var >= loop.min, loop.loop_var < loop.min + loop.extent


def _in_vectors(loop: For, around: _Surroundings) -> Stmt:
    """Split a long loop into a loop over whole vectors and a masked remainder; a serial loop if that is impossible.

    for i in T.vectorized(n):        for i in range(n // 16):
        B[i] = A[i]            as        B[T.Ramp(i * 16, 1, 16)] = A[T.Ramp(i * 16, 1, 16)]
                                     if n > 0 and n % 16 > 0:
                                         B.vstore([T.Ramp(n // 16 * 16, 1, 16)], …, predicate=…)
    """
    lanes, extent, dtype = _lanes_of(loop.body), loop.extent, loop.loop_var.dtype
    if lanes > dtype.max_value:
        return _serial(loop, "its variable has too few bits")
    count = const(lanes, dtype)
    outer = Var(loop.loop_var.name, dtype)
    try:
        start = _plus(loop.min, outer * count)
        tied = tied_statements(loop, lanes, around.analyzer)
        main = _Vectorizer(around, loop.loop_var, start, lanes, tied, strict=True).whole(loop.body)
        behind = floordiv(extent, count) * count
        rest = _Vectorizer(around, loop.loop_var, _plus(loop.min, behind), lanes, tied)
        rest.mask = Ramp(behind, const(1, dtype), lanes) < Broadcast(extent, lanes)
        tail = renew_bound_vars(rest.whole(loop.body))
    except _NoVectorFormError as reason:
        return _serial(loop, str(reason))
    body = For(outer, const(0, dtype), floordiv(extent, count), ForKind.SERIAL, main, span=loop.span)
    remainder = floormod(extent, count)
    if isinstance(remainder, IntImm):
        return seq_of([body, tail]) if remainder.value else body
    return seq_of([body, IfThenElse(And(extent > 0, remainder > 0), tail, span=loop.span)])


def _has_rest(loop: For) -> bool:
    """True if a loop of static length has several vectors and a remainder."""
    lanes = _lanes_of(loop.body)
    return isinstance(loop.extent, IntImm) and loop.extent.value > lanes and loop.extent.value % lanes > 0


def _plus(start: PrimExpr, step: PrimExpr) -> PrimExpr:
    return step if is_const(start, 0) else start + step


def _serial(loop: For, reason: str) -> For:
    return loop.replace(kind=ForKind.SERIAL, annotations={**loop.annotations, NOT_VECTORIZED: reason})


def _lanes_of(body: Stmt) -> int:
    """Return the lanes of a vector of the widest stored elements."""
    widest = 8

    def visit(node: Node) -> None:
        nonlocal widest
        if isinstance(node, BufferStore):
            widest = max(widest, node.buffer.dtype.bits)

    post_order_visit(body, visit)
    return VECTOR_BITS // widest


class _Vectorizer:
    """Vectorise the statements of a loop over `var`."""

    def __init__(
        self,
        around: _Surroundings,
        var: Var,
        start: PrimExpr,
        lanes: int,
        tied: Mapping[Stmt, str],
        strict: bool = False,
    ) -> None:
        """`tied` has the statements that stay serial, with the reason. With `strict`, raise _NoVectorFormError instead
        of leaving a part of the loop serial.
        """
        self.around, self.tied = around, tied
        self.var, self.start, self.lanes, self.strict = var, start, lanes, strict
        self.ramp = Ramp(start, const(1, var.dtype), lanes)
        self.mask: PrimExpr | None = None
        self.masks = 0
        """Number of nested masks; `mask` is their conjunction (None: all iterations run)."""
        self.lets: dict[Var, Var] = {}
        self.done: dict[PrimExpr, PrimExpr] = {}
        """Vector forms of expressions, valid while `lets` is unchanged."""

    # ------------------------------------------------------------------ statements

    def stmt(self, stmt: Stmt) -> Stmt:
        """Return the vector form, or a serial loop where there is none. Under a mask, raises _NoVectorFormError
        instead.
        """
        if self.mask is not None or self.strict:
            return self.whole(stmt)
        try:
            return self.whole(stmt)
        except _NoVectorFormError as reason:
            return self.serial(stmt, str(reason))

    def whole(self, stmt: Stmt) -> Stmt:
        """Return the vector form; raises _NoVectorFormError if there is none."""
        if stmt in self.tied:
            raise _NoVectorFormError(self.tied[stmt])
        if not self.varies(stmt) and not isinstance(stmt, SeqStmt):
            raise _NoVectorFormError("the statement is the same in all iterations")
        return self.vector_stmt(stmt)

    @contextmanager
    def where(self, condition: PrimExpr) -> Generator[None]:
        """Context manager: run only the iterations for which a vector of conditions holds."""
        if self.masks == MAX_MASKS:
            raise _NoVectorFormError("conditions are nested too deeply")
        outside = self.mask, self.done
        self.masks += 1
        self.mask = condition if self.mask is None else And(self.mask, condition)
        self.done = {}
        try:
            yield
        finally:
            self.masks -= 1
            self.mask, self.done = outside

    def varies(self, node: Node) -> bool:
        """True if `node` depends on the loop variable."""
        used = free_vars(node)
        return self.var in used or any(var in self.lets for var in used)

    def serial(self, stmt: Stmt, reason: str) -> Stmt:
        loop_var = Var(self.var.name, self.var.dtype)
        if any(var in self.lets for var in free_vars(stmt)):
            raise _NoVectorFormError(reason)  # the binding of the vector it uses must be in the loop as well
        body = renew_bound_vars(substitute(stmt, {self.var: loop_var}))
        extent = const(self.lanes, self.var.dtype)
        return For(loop_var, self.start, extent, ForKind.SERIAL, body, {NOT_VECTORIZED: reason})

    def vector_stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case SeqStmt(seq):
                return seq_of([self.stmt(s) for s in seq])
            case BufferStore():
                return self.store(stmt)
            case For(_, low, extent) if not self.varies(low) and not self.varies(extent):
                with self.around.under(*_range_of(stmt)):
                    return stmt.replace(body=self.stmt(stmt.body))
            case IfThenElse(condition) if not self.varies(condition):
                other = None if stmt.else_case is None else self.stmt(stmt.else_case)
                return stmt.replace(then_case=self.stmt(stmt.then_case), else_case=other)
            case IfThenElse():
                return self.branch(stmt)
            case AssertStmt(condition) if self.mask is None and not self.varies(condition):
                return stmt.replace(body=self.stmt(stmt.body))
            case LetStmt(var, value, body):
                return self.let(stmt, var, value, body)
            case For(loop_var):
                raise _NoVectorFormError(f"the bounds of loop {loop_var.name} differ between the iterations")
            case Evaluate(Call() as call):
                raise _NoVectorFormError(f"the call of {_called(call)} may have effects")
            case AllocBuffer(buffer) | DeclBuffer(buffer):
                raise _NoVectorFormError(f"buffer {buffer.name} is declared in the loop")
            case _:
                raise _NoVectorFormError(f"a {type(stmt).__name__} has no vector form")

    def branch(self, stmt: IfThenElse) -> Stmt:
        """Vectorise a branch with a varying condition: both arms in sequence, under masks."""
        condition = self.expr(stmt.condition)
        named = None
        if _may_fail(stmt.condition):  # it is evaluated once: the arms may change what it reads
            named = Var("mask", condition.dtype)
        mask = condition if named is None else named
        arms = [self.arm(mask, stmt.then_case)]
        if stmt.else_case is not None:
            arms.append(self.arm(Not(mask), stmt.else_case))
        body = seq_of(arms)
        return body if named is None else LetStmt(named, condition, body, span=stmt.span)

    def arm(self, mask: PrimExpr, stmt: Stmt) -> Stmt:
        """Vectorise an arm under a mask; it is skipped if the mask is empty and a scalar part of the arm may fail."""
        with self.where(mask):
            arm = self.stmt(stmt)
            assert self.mask is not None
            return IfThenElse(vector_reduce_or(self.mask), arm) if self.around.may_fail(arm) else arm

    def store(self, stmt: BufferStore) -> Stmt:
        if not any(self.varies(index) for index in stmt.indices):
            raise _NoVectorFormError(f"all iterations store to one element of {stmt.buffer.name}")
        self.require_scalars(stmt.buffer, stmt.predicate)
        indices = self.indices(stmt.indices)
        value = self.widen(self.expr(stmt.value), self.lanes)
        return stmt.replace(indices=indices, value=value, predicate=self.mask)

    def require_scalars(self, buffer: Buffer, predicate: PrimExpr | None) -> None:
        if buffer.dtype.lanes != 1 or predicate is not None:
            raise _NoVectorFormError(f"an access to {buffer.name} is a vector already")

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
        """Return the indices of a varying access; the last one is a vector."""
        *outer, last = (self.expr(index) for index in indices)
        return (*outer, self.widen(last, self.lanes))

    # ------------------------------------------------------------------ expressions

    def widen(self, expr: PrimExpr, lanes: int) -> PrimExpr:
        return expr if expr.dtype.lanes == lanes else Broadcast(expr, lanes)

    def expr(self, expr: PrimExpr) -> PrimExpr:
        """Return the vector of an expression's values in all iterations; the expression itself if it is invariant."""
        if expr is self.var:
            return self.ramp
        if isinstance(expr, Var) and expr in self.lets:
            return self.lets[expr]
        if expr.dtype.lanes != 1:  # its lanes are not iterations of this loop, however many they are
            raise _NoVectorFormError("there are vectors in the loop already")
        vector = self.done.get(expr)
        if vector is None:
            vector = self.done[expr] = self.vector(expr) if self.varies(expr) else expr
        return vector

    def vector(self, expr: PrimExpr) -> PrimExpr:
        """Return the vector form of an expression that depends on the loop variable."""
        rule = _RULES.get(type(expr))
        if rule is not None:
            return rule(self, expr)
        if isinstance(expr, BinaryExpr):
            return self.binary(expr)
        raise _NoVectorFormError(f"a {type(expr).__name__} has no vector form")

    def chosen(self, condition: PrimExpr, expr: PrimExpr) -> PrimExpr:
        """Return the vector of an operand that is evaluated only where a vector of conditions holds."""
        if not _may_fail(expr):
            return self.widen(self.expr(expr), self.lanes)
        with self.where(condition):
            value = self.expr(expr)
            if self.around.may_fail(value):
                # No iteration may choose it; then no part of it is evaluated.
                assert self.mask is not None
                return Select(
                    vector_reduce_or(self.mask),
                    self.widen(value, self.lanes),
                    zero_of(expr.dtype.with_lanes(self.lanes)),
                )
            return self.widen(value, self.lanes)

    def binary(self, expr: BinaryExpr) -> PrimExpr:
        a = self.expr(expr.a)
        if isinstance(expr, (And, Or)) and (a.dtype.lanes > 1 or _may_fail(expr.b)):
            a = self.widen(a, self.lanes)
            return type(expr)(a, self.chosen(a if isinstance(expr, And) else Not(a), expr.b))
        b = self.expr(expr.b)
        if self.mask is not None and isinstance(expr, _DIVISIONS) and not _is_nonzero(expr.b):
            b = Select(self.mask, self.widen(b, self.lanes), Broadcast(const(1, expr.b.dtype), self.lanes))
        affine = _affine(expr, a, b)
        if affine is not None:
            return affine
        result = type(expr)(self.widen(a, self.lanes), self.widen(b, self.lanes))  # type: ignore[call-arg]
        return cast(PrimExpr, result)

    def cast(self, expr: Cast) -> PrimExpr:
        value = self.expr(expr.value)
        if isinstance(value, Ramp) and expr.dtype.is_int and expr.dtype.bits >= value.dtype.bits:
            return Ramp(value.base.astype(expr.dtype), value.stride.astype(expr.dtype), value.lanes)
        return Cast(expr.dtype.with_lanes(value.dtype.lanes), value, span=expr.span)

    def load(self, expr: BufferLoad) -> PrimExpr:
        self.require_scalars(expr.buffer, expr.predicate)
        return expr.replace(indices=self.indices(expr.indices), predicate=self.mask)

    def logical_not(self, expr: Not) -> PrimExpr:
        return Not(self.expr(expr.a))

    def select(self, expr: Select) -> PrimExpr:
        return self.choice(expr.condition, expr.true_value, expr.false_value)

    def choice(self, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> PrimExpr:
        """Choose between two values; a value that may fail is evaluated only where it is chosen."""
        test = self.expr(condition)
        if test.dtype.lanes == 1:
            return Select(test, self.widen(self.expr(yes), self.lanes), self.widen(self.expr(no), self.lanes))
        return Select(test, self.chosen(test, yes), self.chosen(Not(test), no))

    def call(self, expr: Call) -> PrimExpr:
        if expr.intrinsic == "if_then_else":
            return self.choice(*expr.args)
        if not is_pure(expr) or expr.intrinsic in _SCALAR_ONLY:
            raise _NoVectorFormError(f"{_called(expr)} has no vector form")
        if expr.intrinsic == "reinterpret" and not _keeps_lanes(expr):
            raise _NoVectorFormError(f"{_called(expr)} has no vector form")
        args = [self.widen(self.expr(arg), self.lanes) for arg in expr.args]
        return Call(expr.dtype.with_lanes(self.lanes), expr.op, tuple(args), span=expr.span)

    def bound(self, expr: Let) -> PrimExpr:
        """Bind the vector of a let's values; an invariant value, or a ramp, is substituted."""
        value = self.expr(expr.value)
        if value.dtype.lanes == 1 or isinstance(value, Ramp):
            return self.expr(substitute(expr.body, {expr.var: expr.value}))
        self.lets[expr.var] = wide = Var(expr.var.name, value.dtype)
        self.done.clear()
        try:
            body = self.expr(expr.body)
        finally:
            del self.lets[expr.var]
            self.done.clear()
        return Let(wide, value, body) if body.dtype.lanes > 1 else body


_RULES: dict[type[PrimExpr], Callable[[_Vectorizer, PrimExpr], PrimExpr]] = {
    Cast: lambda v, e: v.cast(cast(Cast, e)),
    BufferLoad: lambda v, e: v.load(cast(BufferLoad, e)),
    Not: lambda v, e: v.logical_not(cast(Not, e)),
    Select: lambda v, e: v.select(cast(Select, e)),
    Call: lambda v, e: v.call(cast(Call, e)),
    Let: lambda v, e: v.bound(cast(Let, e)),
}

_SCALAR_ONLY = frozenset({"call_pure_extern", "address_of", "tvm_access_ptr", "type_annotation"})
_DIVISIONS = (FloorDiv, FloorMod, Div, Mod)


def _called(call: Call) -> str:
    return call.op.name_hint if isinstance(call.op, GlobalVar) else call.op.name


def _keeps_lanes(call: Call) -> bool:
    """True for a reinterpretation between scalars of the same width without padding, which works lane by lane."""
    source, target = call.args[0].dtype, call.dtype
    is_plain = not (source.is_handle or target.is_handle or source.is_padded or target.is_padded)
    return is_plain and source.lanes == target.lanes == 1 and source.bits == target.bits


def _is_nonzero(expr: PrimExpr) -> bool:
    return expr.dtype.is_float or (isinstance(expr, IntImm) and expr.value != 0)


def _affine(expr: BinaryExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """Return the sum, difference or product of a ramp and a scalar (or two ramps) as a ramp, else None."""
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
    """True if an expression reads memory or may fail, so it must not be evaluated speculatively."""
    risky: list[Node] = []

    def visit(node: Node) -> None:
        if isinstance(node, Buffer) or (isinstance(node, PrimExpr) and fails_itself(node)):
            risky.append(node)

    post_order_visit(expr, visit)
    return bool(risky)


VectorizeLoop = each_prim_func(vectorize_loop, "VectorizeLoop")
"""Pass: turn vectorised loops into vector operations."""
