"""Traversals of expressions and types, with TVM's names: ExprFunctor, ExprVisitor, ExprMutator, TypeVisitor,
TypeMutator.

    class CountCalls(ExprVisitor):
        calls = 0

        def visit_call(self, call):
            self.calls += 1
            super().visit_call(call)

A subclass overrides the methods of the node kinds it handles. All other kinds are traversed in a loop: only overridden
methods that visit children recurse. So a subclass that handles other kinds traverses a chain of 100,000 `Let`s or
calls. To handle the kind of the chain itself, use MixedModeMutator, whose methods are called with rewritten children,
or `post_order_visit`.

A node object is visited once and its result is shared by all uses: sharing is preserved, and time is never exponential.
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
    """Visit method name for this kind of expression."""
    name = _METHODS.get(type(expr))
    if name is not None:
        return name
    if isinstance(expr, TempExpr):
        return "visit_temp_expr"
    raise TypeError(f"a {type(expr).__name__} is not an expression of Relay")


class ExprFunctor:
    """Function over expressions with a method per kind of node; each node object is visited once.

    A kind without a method raises NotImplementedError.
    """

    def __init__(self) -> None:
        self.memo_map: dict[Expr, Any] = {}

    def visit(self, expr: Expr) -> Any:
        """Return the result for an expression."""
        if expr in self.memo_map:
            return self.memo_map[expr]
        name = method_name(expr)
        method = getattr(self, name, None)
        if method is None:
            raise NotImplementedError(f"{type(self).__name__} has no method {name}")
        result = self.memo_map[expr] = method(expr)
        return result


class _Walk(ExprFunctor):
    """ExprFunctor that handles node kinds without an overridden method in a loop."""

    def is_own(self, expr: Expr) -> bool:
        """True if a subclass overrides the method for this kind of expression."""
        name = method_name(expr)
        method = getattr(type(self), name)
        return not getattr(method, "is_default", False)


def _default(method: Callable[..., Any]) -> Any:
    method.is_default = True  # type: ignore[attr-defined]
    return method


class ExprVisitor(_Walk):
    """Visits every expression object once, from left to right, parents before children.

    `visit_type` is called with every type annotation.
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
        """Called with every type annotation in an expression."""

    @_default
    def _visit_parts(self, expr: Expr) -> None:
        for written in types_of(expr):
            self.visit_type(written)
        for part in parts_of(expr):
            self.visit(part)

    visit_constant = visit_var = visit_global_var = visit_op = visit_constructor = visit_temp_expr = _visit_parts
    visit_tuple = visit_tuple_getitem = visit_function = visit_call = visit_let = visit_if = _visit_parts
    visit_match = visit_ref_create = visit_ref_read = visit_ref_write = _visit_parts


class ExprMutator(_Walk):
    """Rewrites an expression; nodes without changed parts are preserved.

    A method returns the replacement of its node. New nodes have no `checked_type`.
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
        """Return the replacement of a type annotation."""
        return type_

    @_default
    def _visit_parts(self, expr: Expr) -> Expr:
        changed = with_parts(expr, [self.visit(part) for part in parts_of(expr)])
        return with_types(changed, self.visit_type)

    visit_constant = visit_var = visit_global_var = visit_op = visit_constructor = visit_temp_expr = _visit_parts
    visit_tuple = visit_tuple_getitem = visit_function = visit_call = visit_let = visit_if = _visit_parts
    visit_match = visit_ref_create = visit_ref_read = visit_ref_write = _visit_parts


class MixedModeMutator(ExprMutator):
    """Rewrites an expression bottom-up, without recursion.

    A method ``rewrite_call(pre, post)``, and so on for each kind (`_METHODS` with ``rewrite`` for ``visit``), is called
    with the original node and the node with rewritten parts, and returns the replacement.
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
    """Call `fvisit` with every expression object once, in post-order."""
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
    """Visits the parts of a type; subclasses override ``visit_<class name in snake case>`` methods."""

    def visit(self, type_: Node) -> None:
        """Call the method for this kind of type; without one, visit the parts."""
        method = getattr(self, _type_method(type_), None)
        if method is None:
            self.visit_parts(type_)
        else:
            method(type_)

    def visit_parts(self, type_: Node) -> None:
        """Visit the direct parts of a type."""
        for part in children_of(type_):
            self.visit(part)


class TypeMutator:
    """Rewrites a type; types without changed parts are preserved."""

    def visit(self, type_: Node) -> Any:
        """Return the replacement of a type."""
        method = getattr(self, _type_method(type_), None)
        return self.visit_parts(type_) if method is None else method(type_)

    def visit_parts(self, type_: Node) -> Any:
        """Rewrite the direct parts of a type."""
        return map_children(type_, lambda part: cast(Node, self.visit(part)))


def _type_method(type_: Node) -> str:
    name = type(type_).__name__
    return "visit_" + "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))
