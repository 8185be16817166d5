"""Evaluation scopes: the scope in which each node of an expression graph is evaluated.

A scope is opened by the whole expression, by the body of a function or `Let`, by a branch of an `If`, and by the right
side of a clause. A node is evaluated in the innermost scope that encloses all its uses, so in

    %1 = add(%x, %x);
    if (%c) { %2 = multiply(%1, %1); subtract(%2, %2) } else { %1 }

``%1`` belongs outside of the `If`, as both branches use it, and ``%2`` in its first branch. A use counts in the scope
where the user is evaluated, not where it is written: a node used only by ``%1`` would be outside, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from ..runtime.records import dataclass
from .adt import Match
from .expr import Expr, Function, If, Let
from .parts import LEAVES, parts_of


@final
class EvaluationScope:
    """Evaluation scope. `depth` scopes enclose it, `parent` directly; `owner` is the expression that opens it."""

    __slots__ = ("_jump", "depth", "owner", "parent")

    def __init__(self, parent: EvaluationScope | None, owner: Expr | None) -> None:
        self.parent: EvaluationScope = self if parent is None else parent
        self.owner = owner
        self.depth: int = 0 if parent is None else parent.depth + 1
        # Skew-binary jump pointers: ancestors are found in logarithmic time.
        self._jump: EvaluationScope = self
        if parent is not None:
            jump = parent._jump
            is_long = parent.depth - jump.depth == jump.depth - jump._jump.depth
            self._jump = jump._jump if is_long else parent

    def ancestor(self, depth: int) -> EvaluationScope:
        """Return the enclosing scope of this depth, or this one."""
        scope = self
        while scope.depth > depth:
            scope = scope._jump if scope._jump.depth >= depth else scope.parent
        return scope

    def encloses(self, other: EvaluationScope) -> bool:
        """True if the other scope is this one or nested in it."""
        return other.ancestor(self.depth) is self

    @staticmethod
    def common(a: EvaluationScope, b: EvaluationScope) -> EvaluationScope:
        """Innermost scope that encloses both."""
        depth = min(a.depth, b.depth)
        a, b = a.ancestor(depth), b.ancestor(depth)
        while a is not b:
            if a._jump is not b._jump:
                a, b = a._jump, b._jump
            else:
                a, b = a.parent, b.parent
        return a


@dataclass(frozen=True, slots=True)
class Placement:
    """Scopes of an expression.

    `order` holds every non-leaf node (`parts.LEAVES`) once, children first; `of` maps nodes to their evaluation scopes;
    `opened` to the scopes they open: the body of a Function or Let, each branch of an If or Match.
    """

    root: EvaluationScope
    order: list[Expr]
    of: dict[Expr, EvaluationScope]
    opened: dict[Expr, tuple[EvaluationScope, ...]]

    def positions(self, expr: Expr) -> Iterator[tuple[Expr, EvaluationScope]]:
        """Yield the children of a node, except variables it binds, with their scopes."""
        return positions(expr, self.of[expr], self.opened.get(expr, ()))


def place(expr: Expr) -> Placement:
    """Compute the evaluation scope of every node, in time linear (times a logarithm) in the size of the graph."""
    order = nodes_with_parts(expr)
    root = EvaluationScope(None, None)
    of: dict[Expr, EvaluationScope] = {expr: root}
    opened: dict[Expr, tuple[EvaluationScope, ...]] = {}
    has_parts = set(order)
    for node in reversed(order):  # users before the nodes they use
        scope = of[node]
        count = _opened_count(node)
        if count:
            opened[node] = tuple(EvaluationScope(scope, node) for _ in range(count))
        for part, where in positions(node, scope, opened.get(node, ())):
            if part in has_parts:
                before = of.get(part)
                of[part] = where if before is None or before is where else EvaluationScope.common(before, where)
    return Placement(root, order, of, opened)


def nodes_with_parts(expr: Expr) -> list[Expr]:
    """Nodes that have children, and empty tuples, each once and children first."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        node, entered = stack.pop()
        if entered:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            if not isinstance(node, LEAVES):
                stack.append((node, True))
                stack.extend((part, False) for part in reversed(parts_of(node)))
    return order


def _opened_count(node: Expr) -> int:
    match node:
        case Function() | Let():
            return 1
        case If():
            return 2
        case Match():
            return len(node.clauses)
        case _:
            return 0


def positions(
    node: Expr, scope: EvaluationScope, opened: tuple[EvaluationScope, ...]
) -> Iterator[tuple[Expr, EvaluationScope]]:
    """Yield the children of a node in `scope` with their scopes, given the scopes it opened."""
    match node:
        case Function():
            yield node.body, opened[0]
        case Let():
            yield node.value, scope
            yield node.body, opened[0]
        case If():
            yield node.cond, scope
            yield node.true_branch, opened[0]
            yield node.false_branch, opened[1]
        case Match():
            yield node.data, scope
            for clause, inner in zip(node.clauses, opened, strict=True):
                yield clause.rhs, inner
        case _:
            for part in parts_of(node):
                yield part, scope
