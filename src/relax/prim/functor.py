"""Walking scalar expressions: substitution, free variables, bottom-up rewriting.

The walkers go by the declared fields, so TIR's own expressions (loads, vectors) are walked as well. Only
PrimExpr are entered: a Buffer, an Op or an iteration variable below an expression is left as it is.
A rewrite that changes nothing returns the object it got.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..ir import Node, children_of, map_children
from .expr import BinaryExpr, Let, PrimExpr, Var, convert, match_dtypes


def sub_expressions(expr: PrimExpr) -> tuple[PrimExpr, ...]:
    """The PrimExpr directly below an expression, in order; a Let's variable is not one."""
    if isinstance(expr, BinaryExpr):
        return expr.a, expr.b
    if isinstance(expr, Let):
        return expr.value, expr.body
    return tuple(part for part in children_of(expr) if isinstance(part, PrimExpr))


def map_expressions(expr: PrimExpr, function: Callable[[PrimExpr], PrimExpr]) -> PrimExpr:
    """Rebuild an expression with `function` applied to each PrimExpr directly below; itself if none changed."""
    if isinstance(expr, BinaryExpr):
        a, b = function(expr.a), function(expr.b)
        return expr if a is expr.a and b is expr.b else type(expr)(a, b, span=expr.span)  # type: ignore[call-arg]
    if isinstance(expr, Let):
        value, body = function(expr.value), function(expr.body)
        unchanged = value is expr.value and body is expr.body
        return expr if unchanged else Let(expr.var, value, body, span=expr.span)

    def visit(part: Node) -> Node:
        return function(part) if isinstance(part, PrimExpr) else part

    return map_children(expr, visit)


def post_order(expr: PrimExpr, visit: Callable[[PrimExpr], Any]) -> None:
    """Call `visit` on every sub-expression, operands before what uses them, and on `expr` last.

    An object that occurs several times is visited once.
    """
    seen: set[int] = set()

    def walk(part: PrimExpr) -> None:
        if id(part) not in seen:
            seen.add(id(part))
            for below in sub_expressions(part):
                walk(below)
            visit(part)

    walk(expr)


def rewrite(expr: PrimExpr, function: Callable[[PrimExpr], PrimExpr | None]) -> PrimExpr:
    """Rewrite bottom-up: `function` gets each node with its operands rewritten; None leaves it as it is."""
    done: dict[int, PrimExpr] = {}

    def walk(part: PrimExpr) -> PrimExpr:
        known = done.get(id(part))
        if known is None:
            rebuilt = map_expressions(part, walk)
            result = function(rebuilt)
            known = done[id(part)] = rebuilt if result is None else result
        return known

    return walk(expr)


def free_vars(expr: PrimExpr) -> list[Var]:
    """The variables an expression uses and does not bind itself, in order of first occurrence."""
    found: dict[Var, None] = {}
    _collect_free(expr, frozenset(), found, set())
    return list(found)


def _collect_free(expr: PrimExpr, bound: frozenset[Var], found: dict[Var, None], seen: set[int]) -> None:
    if isinstance(expr, Var):
        if expr not in bound:
            found[expr] = None
        return
    if id(expr) in seen:
        return
    seen.add(id(expr))
    if isinstance(expr, Let):
        _collect_free(expr.value, bound, found, seen)
        _collect_free(expr.body, bound | {expr.var}, found, set())
        return
    for part in sub_expressions(expr):
        _collect_free(part, bound, found, seen)


def uses(expr: PrimExpr, var: Var) -> bool:
    """Whether a variable occurs free in an expression."""
    if isinstance(expr, Var):
        return expr is var
    if isinstance(expr, Let):
        return uses(expr.value, var) or (expr.var is not var and uses(expr.body, var))
    return any(uses(part, var) for part in sub_expressions(expr))


def substitute(expr: Any, mapping: Mapping[Var, Any]) -> Any:
    """Replace variables by expressions (or numbers); a tuple or list is replaced item by item.

    A number takes the variable's dtype. Variables bound inside are not replaced, and are renamed where
    a replacement would otherwise be captured. Raises TypeError if a replacement has another dtype.
    """
    if isinstance(expr, (tuple, list)):
        return type(expr)(substitute(item, mapping) for item in expr)  # type: ignore[reportUnknownVariableType]
    table = {var: _replacement(var, value) for var, value in mapping.items()}
    return _Substitution(table)(convert(expr)) if table else convert(expr)


def _replacement(var: Var, value: Any) -> PrimExpr:
    if not isinstance(value, PrimExpr):
        _, value = match_dtypes(var, value)
    if value.dtype != var.dtype:
        raise TypeError(f"substitute: {var.name} has dtype {var.dtype!s}, its replacement {value.dtype!s}")
    return value


class _Substitution:
    def __init__(self, table: dict[Var, PrimExpr]) -> None:
        self.table = table
        self.done: dict[int, PrimExpr] = {}

    def __call__(self, expr: PrimExpr) -> PrimExpr:
        if isinstance(expr, Var):
            return self.table.get(expr, expr)
        known = self.done.get(id(expr))
        if known is None:
            known = self.let(expr) if isinstance(expr, Let) else map_expressions(expr, self)
            self.done[id(expr)] = known
        return known

    def let(self, expr: Let) -> PrimExpr:
        value = self(expr.value)
        inner = {var: new for var, new in self.table.items() if var is not expr.var and uses(expr.body, var)}
        var = expr.var
        if any(uses(new, var) for new in inner.values()):
            var = Var(var.name, var.dtype, span=var.span)
            inner[expr.var] = var
        body = _Substitution(inner)(expr.body) if inner else expr.body
        unchanged = var is expr.var and value is expr.value and body is expr.body
        return expr if unchanged else Let(var, value, body, span=expr.span)
