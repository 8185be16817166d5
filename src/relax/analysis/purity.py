"""Purity and recursion: impure calls, and recursive functions."""

from __future__ import annotations

from ..derive.call_graph import call_graph, recursive_groups
from ..derive.context import FORCE_PURE
from ..derive.rules import is_pure_call
from ..expr import Call, Function, Var
from ..ir import GlobalVar, IRModule, RelaxExpr
from ..rewrite.visitor import ExprVisitor


def find_impure_call(expr: RelaxExpr, own_name: Var | GlobalVar | None = None) -> Call | None:
    """The first impure call made by evaluating an expression (of a function: by calling it), None without one.

    Calls inside nested functions count only where those are called, by their own declared purity. Calls of `own_name`,
    the function's own, do not count.
    """
    if isinstance(expr, Function):
        if expr.attrs.get(FORCE_PURE, False):
            return None
        expr = expr.body
    finder = _Finder(own_name)
    finder.visit_expr(expr)
    return finder.found


def contains_impure_call(expr: RelaxExpr, own_name: Var | GlobalVar | None = None) -> bool:
    """True if evaluating an expression, or calling a function, makes an impure call: see `find_impure_call`."""
    return find_impure_call(expr, own_name) is not None


class _Finder(ExprVisitor):
    def __init__(self, own_name: Var | GlobalVar | None) -> None:
        self.own_name = own_name
        self.found: Call | None = None

    def visit_expr(self, expr: RelaxExpr) -> None:
        if self.found is None:
            super().visit_expr(expr)

    def visit_function_(self, op: Function) -> None:
        """Making a closure has no effect."""

    def visit_call_(self, op: Call) -> None:
        super().visit_call_(op)
        if self.found is None and not self._is_own(op.op) and not is_pure_call(op):
            self.found = op

    def _is_own(self, callee: RelaxExpr) -> bool:
        if isinstance(callee, GlobalVar) and isinstance(self.own_name, GlobalVar):
            return callee.name_hint == self.own_name.name_hint
        return callee is self.own_name


def detect_recursion(mod: IRModule) -> list[list[GlobalVar]]:
    """The groups of mutually recursive functions of a module, each sorted by name, and sorted by their first names.

    A function that mentions itself is a group of its own.
    """
    names = {g.name_hint: g for g in mod.functions}
    groups = sorted(sorted(group) for group in recursive_groups(call_graph(mod)))
    return [[names[name] for name in group] for group in groups]
