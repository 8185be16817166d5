"""Partition loops so that most iterations need not test a likely condition.

    for i in range((n + 3) // 4):               for i in range(T.min(n // 4, (n + 3) // 4)):
        for j in range(4):                          for j in range(4):
            if T.likely(i * 4 + j < n):                 A[i * 4 + j] = x
                A[i * 4 + j] = x        gives   for i_1 in range(…, (n + 3) // 4):
                                                    for j in range(4):
                                                        if i * 4 + j < n:
                                                            A[i * 4 + j] = x

A loop is partitioned by the conditions in it that are marked `T.likely`, and by all conditions if it has the annotation
``pragma_loop_partition_hint``. A loop of static length is partitioned only with that annotation, or if PassContext's
config contains ``{"tir.LoopPartition": {"partition_const_loop": True}}``.

Declines if the condition is not linear in the loop variable, reads memory, or is not proved to hold in the middle part
for all iterations of the inner loops. Vectorised, unrolled and thread-bound loops are not partitioned.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...ir import Node
from ...ir.transform import PassContext
from ...prim import GE, GT, LE, LT, Call, CompareExpr, IntImm, Let, PrimExpr, Var, const, is_const, simplify
from ...prim import substitute as substituted
from ...prim.intrin import floordiv
from ...prim.intrin import max as maximum
from ...prim.intrin import min as minimum
from ..buffer import IterVar
from ..functor import StmtExprMutator, StmtExprVisitor, pre_order_visit
from ..regions import Interval, bounds_of
from ..renew import renew_bound_vars
from ..statements import conjunction, conjuncts, seq_of
from ..stmt import For, ForKind, IfThenElse, LetStmt, PrimFunc, Stmt
from ..usage import free_vars
from .each_prim_func import each_prim_func
from .facts import FactsMutator, loop_facts, reads_memory, without_likely

HINT = "pragma_loop_partition_hint"


def loop_partition(func: PrimFunc) -> PrimFunc:
    """Return the function with loops partitioned where likely conditions begin and cease to hold."""
    config: dict[str, Any] = PassContext.current().config.get("tir.LoopPartition", {})
    return _Partition(func, bool(config.get("partition_const_loop", False))).run()


class _Condition(NamedTuple):
    """A condition in a loop, with the loops between both."""

    marked: PrimExpr
    """The condition including `likely`."""
    plain: PrimExpr
    inner: tuple[For, ...]


class _Point(NamedTuple):
    """An iteration at which a condition begins, or ceases, to hold."""

    starts: bool
    value: PrimExpr


class _Partition(FactsMutator):
    def __init__(self, func: PrimFunc, constant_loops: bool) -> None:
        super().__init__(func)
        self.constant_loops = constant_loops

    def visit_For(self, node: For) -> Stmt:
        parts = self.parts(node)
        return super().visit_For(node) if parts is None else parts

    def parts(self, loop: For) -> Stmt | None:
        """Return the loop in up to three parts, or None if it is not partitioned."""
        hinted = bool(loop.annotations.get(HINT))
        if loop.kind not in (ForKind.SERIAL, ForKind.PARALLEL) or not self.has_end(loop):
            return None
        if isinstance(loop.extent, IntImm) and not (hinted or self.constant_loops):
            return None
        conditions = _Conditions(hinted)
        conditions.visit(loop.body)
        starts: list[PrimExpr] = []
        stops: list[PrimExpr] = []
        settled: list[PrimExpr] = []
        for condition in conditions.found:
            point = self.point(loop, condition)
            if point is not None:
                (starts if point.starts else stops).append(point.value)
                settled.append(condition.marked)
        return self.split(loop, starts, stops, settled) if settled else None

    def has_end(self, loop: For) -> bool:
        """True if the end of a loop's range is proved to be computed without failure or overflow."""
        end = self.analyzer.interval(loop.min)[1] + self.analyzer.interval(loop.extent)[1]
        return not self.loop_can_fail(loop) and end <= loop.loop_var.dtype.max_value

    # ------------------------------------------------------------------ where a condition holds

    def point(self, loop: For, condition: _Condition) -> _Point | None:
        """Return the iteration at which a condition begins, or ceases, to hold for all iterations of the inner
        loops.
        """
        plain, var = condition.plain, loop.loop_var
        negative = _negative(plain)
        if negative is None or reads_memory(plain) or self.can_fail(plain):
            return None
        step = simplify(substituted(negative, {var: var + 1}) - negative)
        if not isinstance(step, IntImm) or step.value == 0:
            return None
        rest = bounds_of(simplify(substituted(negative, {var: const(0, var.dtype)})), _domain(condition.inner))
        if rest is None:
            return None
        # The condition is step * var + rest < 0; it holds for the greatest rest.
        size = const(abs(step.value), step.dtype)
        if step.value > 0:
            value = simplify(floordiv(size - 1 - rest[1], size))
        else:
            value = simplify(floordiv(rest[1], size) + 1)
        if value.dtype != var.dtype or not free_vars(value).isdisjoint(_bound_in(loop)):
            return None
        fact = LT(var, value) if step.value > 0 else GE(var, value)
        if self.can_fail(value) or not self.holds_under(fact, loop, condition):
            return None
        return _Point(step.value < 0, value)

    def holds_under(self, fact: PrimExpr, loop: For, condition: _Condition) -> bool:
        """True if `fact` is proved to imply the condition in all iterations of the loop and its inner loops."""
        facts = [*loop_facts(loop.loop_var, loop.min, loop.extent), fact]
        for inner in condition.inner:
            facts += loop_facts(inner.loop_var, inner.min, inner.extent)
        with self.holding(facts):
            return self.analyzer.can_prove(condition.plain)

    # ------------------------------------------------------------------ the parts

    def split(self, loop: For, starts: list[PrimExpr], stops: list[PrimExpr], settled: list[PrimExpr]) -> Stmt:
        """Return the loop before, between and after the points; the conditions hold between them."""
        annotations = {key: value for key, value in loop.annotations.items() if key != HINT}
        end = simplify(loop.min + loop.extent)
        first, last = loop.min, end
        for start in starts:
            first = maximum(first, start)
        for stop in stops:
            last = minimum(last, stop)
        first = simplify(minimum(first, end)) if starts else loop.min
        last = simplify(maximum(last, first)) if stops else end
        whole = loop.replace(annotations=annotations) if annotations != loop.annotations else loop
        unmarked = _Settled(settled, hold=False).visit(whole.body)
        middle = _Settled(settled, hold=True).visit(whole.body)
        pieces: list[Stmt] = []
        for low, high, body in ((loop.min, first, unmarked), (first, last, middle), (last, end, unmarked)):
            extent = simplify(high - low)
            if not is_const(extent, 0):
                piece = whole.replace(min=low, extent=extent, body=body)
                pieces.append(renew_bound_vars(piece) if pieces else piece)
        return seq_of([self.visit_inside(piece) for piece in pieces])

    def visit_inside(self, piece: Stmt) -> Stmt:
        """Partition the loops inside a part of a loop."""
        return super().visit_For(piece) if isinstance(piece, For) else piece


def _domain(loops: tuple[For, ...]) -> dict[Var, Interval | None]:
    """Return the intervals of the variables of nested loops, given from the outermost inwards."""
    domain: dict[Var, Interval | None] = {}
    for loop in loops:
        low, high = bounds_of(loop.min, domain), bounds_of(loop.min + loop.extent - 1, domain)
        domain[loop.loop_var] = None if low is None or high is None else (low[0], high[1])
    return domain


def _negative(condition: PrimExpr) -> PrimExpr | None:
    """Return an expression that is negative iff an integer comparison holds (without overflow); None for other
    conditions.
    """
    if not isinstance(condition, CompareExpr) or not condition.a.dtype.is_int:
        return None
    if isinstance(condition, (LT, LE)):
        difference = condition.a - condition.b
    elif isinstance(condition, (GT, GE)):
        difference = condition.b - condition.a
    else:
        return None
    return difference - 1 if isinstance(condition, (LE, GE)) else difference


def _bound_in(loop: For) -> set[Var]:
    """Return the variables of a loop, and of all loops and lets in it."""
    bound: set[Var] = set()

    def visit(node: Node) -> None:
        match node:
            case For(loop_var=var) | LetStmt(var=var) | Let(var=var) | IterVar(var=var):
                bound.add(var)
            case _:
                pass

    pre_order_visit(loop, visit)
    return bound


class _Conditions(StmtExprVisitor):
    """Collect the conditions by which a loop may be partitioned, outermost first."""

    def __init__(self, hinted: bool) -> None:
        super().__init__()
        self.hinted = hinted
        self.inner: tuple[For, ...] = ()
        self.found: list[_Condition] = []

    def visit_For(self, node: For) -> None:
        outside, self.inner = self.inner, (*self.inner, node)
        self.visit_children(node)
        self.inner = outside

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        self.add(node.condition)
        self.visit_children(node)

    def visit_Call(self, node: Call) -> None:
        if node.intrinsic == "if_then_else":
            self.add(node.args[0])
        self.visit_children(node)

    def add(self, choice: PrimExpr) -> None:
        for conjunct in conjuncts(choice):
            plain = without_likely(conjunct)
            if self.hinted or plain is not conjunct:
                self.found.append(_Condition(conjunct, plain, self.inner))


class _Settled(StmtExprMutator):
    """Replace conditions of branches by True, or strip their `likely`."""

    def __init__(self, conditions: list[PrimExpr], hold: bool) -> None:
        super().__init__()
        self.conditions = set(conditions)
        self.hold = hold

    def settled(self, condition: PrimExpr) -> PrimExpr:
        terms = list(conjuncts(condition))
        if self.conditions.isdisjoint(terms):
            return self.visit(condition)
        kept = [term for term in terms if term not in self.conditions or not self.hold]
        return conjunction([without_likely(p) if p in self.conditions else self.visit(p) for p in kept])

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.settled(node.condition)
        if is_const(condition, 1):
            return self.visit(node.then_case)
        otherwise = None if node.else_case is None else self.visit(node.else_case)
        return node.replace(condition=condition, then_case=self.visit(node.then_case), else_case=otherwise)

    def visit_Call(self, node: Call) -> PrimExpr:
        if node.intrinsic != "if_then_else":
            return self.visit_children(node)
        condition = self.settled(node.args[0])
        yes, no = self.visit(node.args[1]), self.visit(node.args[2])
        if is_const(condition, 1):
            return yes
        same = condition is node.args[0] and yes is node.args[1] and no is node.args[2]
        return node if same else node.replace(args=(condition, yes, no))


LoopPartition = each_prim_func(loop_partition, "LoopPartition")
"""Pass: partition loops where likely conditions begin and cease to hold."""
