"""Eliminate common subexpressions: bind repeated expressions by lets.

    A[i * 4 + j] = x                            with T.LetStmt(i * 4 + j) as cse_var_1:
    B[i * 4 + j] = y              gives             A[cse_var_1] = x
                                                    B[cse_var_1] = y

The let encloses the outermost statement that contains an expression twice and binds none of its variables. Larger
expressions are bound first. Expressions that read memory, call functions, may fail, or are vectors or conditions are
not bound: a let may evaluate its value where the program would not. Conditions of assertions do not change either,
since error messages show them.

Options: ``CommonSubexprElimTIR(enable_cse_tir=True, identify_equiv_terms=False)``. With `identify_equiv_terms`,
expressions are equal if they simplify to the same form, as ``x * 2 + x`` and ``x * 3``. Skips functions with blocks.
"""

from __future__ import annotations

from typing import Any

from ...ir import Node, map_children
from ...prim import Analyzer, BinaryExpr, Call, Cast, FloatImm, IntImm, Let, Not, PrimExpr, Select, Var, sub_expressions
from ...prim.functor import FreeVars
from ...prim.traits import cost, may_fail
from ..functor import StmtExprMutator, StmtExprVisitor, pre_order_visit, substitute
from ..stmt import AssertStmt, AttrStmt, BlockRealize, For, LetStmt, PrimFunc, Stmt
from .each_prim_func import each_prim_func


def common_subexpr_elim(func: PrimFunc, enable_cse_tir: bool = True, identify_equiv_terms: bool = False) -> PrimFunc:
    """Return the function with common subexpressions bound by lets."""
    if not enable_cse_tir or _has_blocks(func):
        return func
    result = func.replace(body=_Elimination(_Keys(identify_equiv_terms)).rewritten(func.body))
    if result is func or not identify_equiv_terms:
        return result
    return common_subexpr_elim(result, identify_equiv_terms=True)  # what was bound may make others equal


def _has_blocks(func: PrimFunc) -> bool:
    blocks: list[Node] = []
    pre_order_visit(func.body, lambda n: blocks.append(n) if isinstance(n, BlockRealize) else None)
    return bool(blocks)


class _Keys:
    """Value numbers: structurally equal expressions over the same variables have the same number."""

    def __init__(self, by_value: bool) -> None:
        self.by_value = by_value
        self.numbers: dict[Any, int] = {}
        self.done: dict[PrimExpr, int | None] = {}
        self.free = FreeVars()
        self.analyzer = Analyzer(wraps=True)

    def of(self, expr: PrimExpr) -> int | None:
        """Return the number of an expression, or None if it reads memory, calls something, or is a vector."""
        return self.written(self.analyzer.simplify(expr) if self._simplifies(expr) else expr)

    def written(self, expr: PrimExpr) -> int | None:
        """Return the number of an expression without simplifying it."""
        if expr not in self.done:
            spelled = self.spelled(expr)
            self.done[expr] = None if spelled is None else self.numbers.setdefault(spelled, len(self.numbers))
        return self.done[expr]

    def _simplifies(self, expr: PrimExpr) -> bool:
        return self.by_value and expr.dtype.is_integer and expr.dtype.is_scalar and not may_fail(expr)

    def spelled(self, expr: PrimExpr) -> Any:
        if expr.dtype.lanes != 1:
            return None
        match expr:
            case Var():
                return expr
            case IntImm(_, value) | FloatImm(_, value):
                return type(expr), str(expr.dtype), repr(value)
            case BinaryExpr() | Cast() | Not() | Select():
                operands = [self.written(operand) for operand in sub_expressions(expr)]
                return None if None in operands else (type(expr), str(expr.dtype), *operands)
            case _:
                return None


class _Occurrences(StmtExprVisitor):
    """The number of occurrences of each expression in a statement, by value number."""

    def __init__(self, keys: _Keys) -> None:
        super().__init__()
        self.keys = keys
        self.count: dict[int, int] = {}
        self.first: dict[int, PrimExpr] = {}
        self.bound: set[Var] = set()
        self.seen: set[PrimExpr] = set()
        self.around: list[int] = []
        """Value numbers of the enclosing expressions."""

    def visit(self, node: Node) -> None:
        if isinstance(node, PrimExpr):
            self.expression(node)
        else:
            super().visit(node)

    def expression(self, expr: PrimExpr) -> None:
        """Count an expression at each occurrence, and its parts at the first."""
        key = self.keys.of(expr) if _is_candidate(expr) else None
        if key in self.around:
            key = None  # x + 0 is no second place for x
        if key is not None:
            self.count[key] = self.count.get(key, 0) + 1
            self.first.setdefault(key, expr)
        if expr in self.seen or _stays(expr):
            return
        self.seen.add(expr)
        if isinstance(expr, Let):
            self.bound.add(expr.var)
        if key is not None:
            self.around.append(key)
        for operand in sub_expressions(expr):
            self.expression(operand)
        if key is not None:
            self.around.pop()

    def visit_For(self, node: For) -> None:
        self.bound.add(node.loop_var)
        self.visit_children(node)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.bound.add(node.var)
        self.visit_children(node)

    def visit_AssertStmt(self, node: AssertStmt) -> None:
        self.visit(node.body)  # the message shows the variables of the condition

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        self.visit(node.body)

    def best(self) -> PrimExpr | None:
        """Return the most expensive expression that occurs twice and can be computed before the statement, or None."""
        best: PrimExpr | None = None
        for key, expr in self.first.items():
            if self.count[key] < 2 or (best is not None and cost(expr) <= cost(best)):
                continue
            if self.bound.isdisjoint(self.keys.free.of(expr)):
                best = expr
        return best


def _is_candidate(expr: PrimExpr) -> bool:
    """True if an expression may be bound by a let: it never fails, and is no condition, variable or constant."""
    if isinstance(expr, (Var, IntImm, FloatImm)) or expr.dtype.is_bool or may_fail(expr):
        return False
    is_plain = isinstance(expr, Cast) and (isinstance(expr.value, Var) or expr.value.dtype.is_bool)
    return not is_plain


def _stays(expr: PrimExpr) -> bool:
    """True for an assumption, whose text is its message and must not change."""
    return isinstance(expr, Call) and expr.intrinsic == "assume"


class _Elimination:
    def __init__(self, keys: _Keys) -> None:
        self.keys = keys
        self.made = 0

    def rewritten(self, stmt: Stmt) -> Stmt:
        """Return the statement with lets around it for its common subexpressions, and its parts rewritten."""
        whole, lets = stmt, 0
        while True:
            occurrences = _Occurrences(self.keys)
            occurrences.visit(whole)
            value = occurrences.best()
            if value is None:
                break
            self.made += 1
            var = Var(f"cse_var_{self.made}", value.dtype)
            whole = LetStmt(var, value, _Replacement(self.keys, value, var).visit(whole))
            lets += 1
        return self.inside(whole, lets)

    def inside(self, stmt: Stmt, lets: int) -> Stmt:
        """Rewrite the parts of the statement inside `lets` nested lets."""
        if lets:
            assert isinstance(stmt, LetStmt)
            return stmt.replace(body=self.inside(stmt.body, lets - 1))
        return map_children(stmt, lambda child: self.rewritten(child) if isinstance(child, Stmt) else child)


class _Replacement(StmtExprMutator):
    def __init__(self, keys: _Keys, value: PrimExpr, var: Var) -> None:
        super().__init__()
        self.keys, self.key, self.var = keys, keys.of(value), var

    def visit(self, node: Any) -> Any:
        if isinstance(node, PrimExpr):
            if _is_candidate(node) and self.keys.of(node) == self.key:
                return self.var
            if _stays(node):
                return self.kept(node)
        return super().visit(node)

    def kept(self, expr: PrimExpr) -> PrimExpr:
        """Keep an expression, apart from replacing buffers whose shape was rewritten."""
        return substitute(expr, {old: new for old, new in self._buffers.items() if old is not new})

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        return node.replace(condition=self.kept(node.condition), body=self.visit(node.body))

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        return node.replace(value=self.kept(node.value), body=self.visit(node.body))


CommonSubexprElimTIR = each_prim_func(common_subexpr_elim, "CommonSubexprElimTIR")
"""Pass: eliminate common subexpressions."""
