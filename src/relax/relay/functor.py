"""Walks over expressions and types, in TVM's names: ExprFunctor, ExprVisitor, ExprMutator, TypeVisitor, TypeMutator.

    class CountCalls(ExprVisitor):
        calls = 0

        def visit_call(self, call):
            self.calls += 1
            super().visit_call(call)

A subclass has a method for each kind of node it cares about. Every other kind is handled by a loop, which does not
recurse, however deep the expression: only methods of a subclass that visit the parts of their node do. A chain of
100,000 `Let`s or calls is walked so by a subclass with methods for other kinds. One with a method for that very kind
uses MixedModeMutator, whose methods are called with parts that have been rewritten, or `post_order_visit`.

A node object is visited once, and what it became is used wherever it stands: sharing is kept, and is never exponential.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from ..ir import GlobalVar, Node, Op, map_children
from ..ir.node import children_of
from .adt import Constructor, Match
from .expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    TempExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from .parts import parts_of, types_of, with_parts, with_types
from .types import Type

_METHODS: Final[dict[type, str]] = {
    Constant: "visit_constant",
    Var: "visit_var",
    GlobalVar: "visit_global_var",
    Op: "visit_op",
    Constructor: "visit_constructor",
    Tuple: "visit_tuple",
    TupleGetItem: "visit_tuple_getitem",
    Function: "visit_function",
    Call: "visit_call",
    Let: "visit_let",
    If: "visit_if",
    Match: "visit_match",
    RefCreate: "visit_ref_create",
    RefRead: "visit_ref_read",
    RefWrite: "visit_ref_write",
}


def method_name(expr: Expr) -> str:
    """The name of the method for this kind of expression."""
    name = _METHODS.get(type(expr))
    if name is not None:
        return name
    if isinstance(expr, TempExpr):
        return "visit_temp_expr"
    raise TypeError(f"a {type(expr).__name__} is not an expression of Relay")


class ExprFunctor:
    """A function of expressions by a method per kind of node; every node object is visited once.

    A kind without a method raises NotImplementedError.
    """

    def __init__(self) -> None:
        self.memo_map: dict[Expr, Any] = {}

    def visit(self, expr: Expr) -> Any:
        """The result for an expression."""
        if expr in self.memo_map:
            return self.memo_map[expr]
        name = method_name(expr)
        method = getattr(self, name, None)
        if method is None:
            raise NotImplementedError(f"{type(self).__name__} has no method {name}")
        result = self.memo_map[expr] = method(expr)
        return result


class _Walk(ExprFunctor):
    """An ExprFunctor that handles in a loop the kinds of node for which a subclass has no method."""

    def is_own(self, expr: Expr) -> bool:
        """True if a subclass has a method for this kind of expression."""
        name = method_name(expr)
        method = getattr(type(self), name)
        return not getattr(method, "is_default", False)


def _default(method: Callable[..., Any]) -> Any:
    method.is_default = True  # type: ignore[attr-defined]
    return method


class ExprVisitor(_Walk):
    """Visits every expression below one, each object once, from left to right, a node before its parts.

    `visit_type` is called with every type that is written in an expression.
    """

    def visit(self, expr: Expr) -> None:
        stack = [expr]
        while stack:
            item = stack.pop()
            if item in self.memo_map:
                continue
            self.memo_map[item] = None
            if self.is_own(item):
                getattr(self, method_name(item))(item)
            else:
                for written in types_of(item):
                    self.visit_type(written)
                stack.extend(reversed(parts_of(item)))

    def visit_type(self, type_: Type) -> None:
        """Called with every type written in an expression."""

    @_default
    def _visit_parts(self, expr: Expr) -> None:
        for written in types_of(expr):
            self.visit_type(written)
        for part in parts_of(expr):
            self.visit(part)

    visit_constant = visit_var = visit_global_var = visit_op = visit_constructor = visit_temp_expr = (
        _visit_parts
    )
    visit_tuple = visit_tuple_getitem = visit_function = visit_call = visit_let = visit_if = _visit_parts
    visit_match = visit_ref_create = visit_ref_read = visit_ref_write = _visit_parts


class ExprMutator(_Walk):
    """Rewrites an expression; a node none of whose parts changed stays the same object.

    A method returns the expression to stand in the place of its node. A new node has no `checked_type`.
    """

    def visit(self, expr: Expr) -> Expr:
        memo = self.memo_map
        stack: list[tuple[Expr, bool]] = [(expr, False)]
        while stack:
            item, entered = stack.pop()
            if item in memo:
                continue
            if entered:
                changed = with_parts(item, [memo[part] for part in parts_of(item)])
                memo[item] = with_types(changed, self.visit_type)
            elif self.is_own(item):
                memo[item] = getattr(self, method_name(item))(item)
            else:
                stack.append((item, True))
                stack.extend((part, False) for part in reversed(parts_of(item)))
        return memo[expr]

    def visit_type(self, type_: Type) -> Type:
        """The type to stand in the place of one that is written in an expression."""
        return type_

    @_default
    def _visit_parts(self, expr: Expr) -> Expr:
        changed = with_parts(expr, [self.visit(part) for part in parts_of(expr)])
        return with_types(changed, self.visit_type)

    visit_constant = visit_var = visit_global_var = visit_op = visit_constructor = visit_temp_expr = (
        _visit_parts
    )
    visit_tuple = visit_tuple_getitem = visit_function = visit_call = visit_let = visit_if = _visit_parts
    visit_match = visit_ref_create = visit_ref_read = visit_ref_write = _visit_parts


class MixedModeMutator(ExprMutator):
    """Rewrites an expression from the leaves up, without recursion.

    A method ``rewrite_call(pre, post)``, and so on for each kind (`_METHODS` with ``rewrite`` for ``visit``), is called
    with the node and with the node made of rewritten parts, and returns the expression to stand in its place.
    """

    def visit(self, expr: Expr) -> Expr:
        memo = self.memo_map
        stack: list[tuple[Expr, bool]] = [(expr, False)]
        while stack:
            item, entered = stack.pop()
            if item in memo:
                continue
            if entered:
                post = with_types(with_parts(item, [memo[part] for part in parts_of(item)]), self.visit_type)
                rewrite = getattr(self, method_name(item).replace("visit", "rewrite"), None)
                memo[item] = post if rewrite is None else rewrite(item, post)
            else:
                stack.append((item, True))
                stack.extend((part, False) for part in reversed(parts_of(item)))
        return memo[expr]


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], None]) -> None:
    """Call `fvisit` with every expression of one, each object once, behind its parts."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        item, entered = stack.pop()
        if entered:
            fvisit(item)
        elif item not in seen:
            seen.add(item)
            stack.append((item, True))
            stack.extend((part, False) for part in reversed(parts_of(item)))


class TypeVisitor:
    """Visits the parts of a type; a subclass has a method ``visit_<class name in lower case with _>`` for some."""

    def visit(self, type_: Node) -> None:
        """Call the method for this kind of type; without one, visit the parts."""
        method = getattr(self, _type_method(type_), None)
        if method is None:
            self.visit_parts(type_)
        else:
            method(type_)

    def visit_parts(self, type_: Node) -> None:
        """Visit what is directly below a type."""
        for part in children_of(type_):
            self.visit(part)


class TypeMutator:
    """Rewrites a type; one none of whose parts changed stays the same object."""

    def visit(self, type_: Node) -> Any:
        """The type to stand in the place of one."""
        method = getattr(self, _type_method(type_), None)
        return self.visit_parts(type_) if method is None else method(type_)

    def visit_parts(self, type_: Node) -> Any:
        """The type with what is directly below rewritten."""
        return map_children(type_, lambda part: cast(Node, self.visit(part)))


def _type_method(type_: Node) -> str:
    name = type(type_).__name__
    return "visit_" + "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))


__all__ = [
    "ExprFunctor", "ExprMutator", "ExprVisitor", "MixedModeMutator", "TypeMutator", "TypeVisitor", "method_name",
    "post_order_visit",
]  # fmt: skip
