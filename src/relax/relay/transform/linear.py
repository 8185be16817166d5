"""Linearise expressions into chains of `let` that name the nodes of a scope in evaluation order.

    add(multiply(%x, %x), 1)    becomes    let %y = multiply(%x, %x); let %z = add(%y, 1); %z

`linearized` binds the nodes that a caller selects. The result evaluates the same nodes in the same order: the nodes of
a scope in the order of `Placement.order`, a `let` inside a value before the value. `sequenced` binds nodes with
effects, so that rewriting other nodes cannot change the order, number or position of effects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ..adt import Match
from ..expr import Expr, Function, If, Let, RelayExpr, Var, update_checked_type
from ..parts import parts_of, with_parts
from ..scopes import EvaluationScope, place
from .effects import Effects


def linearized(expr: Expr, binds: Callable[[Expr], bool], binds_result: bool = False) -> Expr:
    """Return the expression with a `let` for each node selected by `binds`, and for each existing one.

    With `binds_result`, results of scopes are bound too. Functions with the attribute Primitive are not entered. An
    expression already in this form is returned unchanged.
    """
    return _Linear(expr, binds, binds_result).run()


def sequenced(expr: Expr, effects: Effects) -> Expr:
    """Bind each node with effects by a `let`; return the expression unchanged if there are none to bind.

    let %r = ref(1);                                let %r = ref(1);
    (ref_write(%r, 2), ref_read(%r) + 1)  becomes   let %x = ref_write(%r, 2);
                                                    let %y = ref_read(%r);
                                                    (%x, add(%y, 1))
    """
    table = effects.of(expr)
    return linearized(expr, table.__contains__) if table else expr


def typed_like(expr: Expr, origin: Expr) -> Expr:
    """Copy the type of `origin` to an expression without one, if it is known."""
    if expr is not origin and isinstance(expr, RelayExpr) and expr.checked_type_ is None:
        type_ = getattr(origin, "checked_type_", None)
        if type_ is not None:
            update_checked_type(expr, type_)
    return expr


class _Chain:
    """Bindings of a scope in order, each with its original `Let`."""

    def __init__(self) -> None:
        self.bindings: list[tuple[Var, Expr, Let | None]] = []

    def closed(self, result: Expr, binds_result: bool) -> Expr:
        """Wrap `result` in the bindings."""
        bindings = self.bindings
        if bindings and not binds_result and bindings[-1][0] is result and bindings[-1][2] is None:
            *bindings, (_, result, _) = bindings
        for var, value, origin in reversed(bindings):
            if origin is not None and origin.value is value and origin.body is result:
                result = origin
            else:
                let = Let(var, value, result, span=value.span if origin is None else origin.span)
                result = typed_like(let, result)
        return result


class _Linear:
    def __init__(self, expr: Expr, binds: Callable[[Expr], bool], binds_result: bool) -> None:
        self.expr = expr
        self.binds = binds
        self.binds_result = binds_result
        self.placement = place(expr)
        self.nodes: dict[EvaluationScope, list[Expr]] = {}
        self.lets: dict[Expr, Let] = {}
        """First `let` of each value; if the value is itself a `let`, its innermost body counts as the value."""
        self.results: dict[Expr, Expr] = {}
        """Innermost body of each `let`."""
        for node in self.placement.order:
            self.nodes.setdefault(self.placement.of[node], []).append(node)
            if isinstance(node, Let):
                self.results[node] = self.results.get(node.body, node.body)
                self.lets.setdefault(self.results.get(node.value, node.value), node)
        self.standing: dict[Expr, Expr] = {}
        """Variable bound to each node, or its rebuilt node."""
        self.chains: dict[EvaluationScope, _Chain] = {}
        self.count = 0

    def run(self) -> Expr:
        stack: list[Any] = [self._entered(self.placement.root, _Chain())]
        while stack:
            item = stack[-1]
            if isinstance(item, tuple):  # all scopes of the node are done
                stack.pop()
                self._leave(*cast("tuple[Expr, _Chain]", item))
                continue
            node = next(item, None)
            if node is None:
                stack.pop()
            else:
                stack.extend(self._enter(node, self.chains[self.placement.of[node]]))
        return self.chains[self.placement.root].closed(self._standing(self.expr), self.binds_result)

    def _entered(self, scope: EvaluationScope, chain: _Chain) -> Any:
        self.chains[scope] = chain
        return iter(self.nodes.get(scope, ()))

    def _standing(self, expr: Expr) -> Expr:
        return self.standing.get(expr, expr)

    def _enter(self, node: Expr, chain: _Chain) -> list[Any]:
        """Process a node, or return the scopes to process before it, the first one last."""
        opened = self.placement.opened.get(node, ())
        if not opened or (isinstance(node, Function) and node.attrs.get("Primitive")):
            self._bind(node, with_parts(node, map(self._standing, parts_of(node))) if not opened else node, chain)
            return []
        if isinstance(node, Let):
            value = self.results.get(node.value, node.value)
            if self.lets[value] is not node or value not in self.placement.of:
                chain.bindings.append((node.var, self._standing(node.value), node))
            return [(node, chain), self._entered(opened[0], chain)]
        return [(node, chain), *(self._entered(scope, _Chain()) for scope in reversed(opened))]

    def _leave(self, node: Expr, chain: _Chain) -> None:
        if isinstance(node, Let):
            self.standing[node] = self._standing(node.body)
            return
        scopes = iter(self.placement.opened[node])

        def body(branch: Expr) -> Expr:
            return self.chains[next(scopes)].closed(self._standing(branch), self.binds_result)

        match node:
            case Function():
                changed: Expr = node.replace(body=body(node.body))
            case If():
                true, false = body(node.true_branch), body(node.false_branch)
                changed = node.replace(cond=self._standing(node.cond), true_branch=true, false_branch=false)
            case Match():
                clauses = tuple(clause.replace(rhs=body(clause.rhs)) for clause in node.clauses)
                same = all(a is b for a, b in zip(clauses, node.clauses, strict=True))
                data = self._standing(node.data)
                changed = node.replace(data=data, clauses=node.clauses if same else clauses)
            case _:
                raise TypeError(f"a {type(node).__name__} opens no scope")
        self._bind(node, changed, chain)

    def _bind(self, node: Expr, value: Expr, chain: _Chain) -> None:
        value = typed_like(value, node)
        let = self.lets.get(node)
        if let is not None:
            chain.bindings.append((let.var, value, let))
            self.standing[node] = let.var
        elif self.binds(node) and not (node is self.expr and isinstance(node, Function)):
            self.count += 1
            var = Var(f"x{self.count}", span=value.span)
            typed_like(var, node)
            chain.bindings.append((var, value, None))
            self.standing[node] = var
        else:
            self.standing[node] = value
