"""Traversals of scalar expressions: substitution, free variables, bottom-up rewriting.

Traversals follow the declared fields, so TIR's own expressions (loads, vectors) are included. Only PrimExpr are
entered: a Buffer, an Op or an iteration variable below an expression is unchanged. A rewrite without changes returns
the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

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
    """Call `visit` on every sub-expression in postorder, with `expr` last.

    A shared object is visited once.
    """
    _post_order(expr, visit, set())


def _post_order(part: PrimExpr, visit: Callable[[PrimExpr], Any], seen: set[int]) -> None:
    # No local function that calls itself: it would be a cycle, which keeps all that `visit` holds for the collector.
    if id(part) not in seen:
        seen.add(id(part))
        for below in sub_expressions(part):
            _post_order(below, visit, seen)
        visit(part)


def rewrite(expr: PrimExpr, function: Callable[[PrimExpr], PrimExpr | None]) -> PrimExpr:
    """Rewrite bottom-up: `function` maps a node with rewritten operands to its replacement, or None to keep it."""
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
    """Free variables of an expression, in order of first occurrence."""
    found: dict[Var, None] = {}
    binds = False
    seen: set[int] = set()
    pending = [expr]
    while pending:
        part = pending.pop()
        if isinstance(part, Var):
            found[part] = None
        elif id(part) not in seen:
            seen.add(id(part))
            binds = binds or isinstance(part, Let)
            pending.extend(reversed(sub_expressions(part)))
    return list(FreeVars().of(expr) if binds else found)


class FreeVars:
    """Cache of the free variables of expressions and their sub-expressions."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[PrimExpr, dict[Var, None]]] = {}

    def of(self, expr: PrimExpr) -> dict[Var, None]:
        """Free variables of an expression, in order of first occurrence."""
        if isinstance(expr, Var):
            return {expr: None}
        known = self._known.get(id(expr))
        if known is None:
            found: dict[Var, None] = {}
            for part in sub_expressions(expr):
                found.update(self.of(part))
            if isinstance(expr, Let):
                inner = self.of(expr.body)
                found = self.of(expr.value) | {var: None for var in inner if var is not expr.var}
            known = self._known[id(expr)] = expr, found
        return known[1]


def uses(expr: PrimExpr, var: Var) -> bool:
    """True if a variable occurs free in an expression."""
    seen: set[int] = set()
    pending = [expr]
    while pending:
        part = pending.pop()
        if part is var:
            return True
        if id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, Let) and part.var is var:
                pending.append(part.value)
            else:
                pending.extend(sub_expressions(part))
    return False


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


_Table: TypeAlias = "dict[Var, PrimExpr]"


class _Lets:
    """State shared by nested substitutions: free variables, and substituted Lets by table."""

    def __init__(self) -> None:
        self.free = FreeVars()
        self.done: dict[Any, PrimExpr] = {}


class _Substitution:
    def __init__(self, table: _Table, lets: _Lets | None = None) -> None:
        self.table = table
        self.done: dict[int, PrimExpr] = {}
        self.lets = _Lets() if lets is None else lets

    def __call__(self, expr: PrimExpr) -> PrimExpr:
        if isinstance(expr, Var):
            return self.table.get(expr, expr)
        known = self.done.get(id(expr))
        if known is None:
            known = self.let(expr) if isinstance(expr, Let) else map_expressions(expr, self)
            self.done[id(expr)] = known
        return known

    def let(self, expr: Let) -> PrimExpr:
        """Substitute in a Let with the relevant part of the table; results are shared for equal parts."""
        free = self.lets.free.of(expr)
        table = {var: new for var, new in self.table.items() if var in free}
        if not table:
            return expr
        key = id(expr), frozenset((var, id(new)) for var, new in table.items())
        known = self.lets.done.get(key)
        if known is None:
            known = self.lets.done[key] = self._let(expr, table)
        return known

    def _let(self, expr: Let, table: _Table) -> PrimExpr:
        used = self.lets.free.of(expr.body)
        inner = {var: new for var, new in table.items() if var is not expr.var and var in used}
        var = expr.var
        if any(var in self.lets.free.of(new) for new in inner.values()):
            var = Var(var.name, var.dtype, span=var.span)
            inner[expr.var] = var
        value = _Substitution(table, self.lets)(expr.value)
        body = _Substitution(inner, self.lets)(expr.body) if inner else expr.body
        unchanged = var is expr.var and value is expr.value and body is expr.body
        return expr if unchanged else Let(var, value, body, span=expr.span)
