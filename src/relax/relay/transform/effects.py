"""Effects of evaluating expressions, which rewrites must preserve, in order.

Operators and constructors have no effects. Creating, reading or writing a reference is an effect, and so is calling a
function that may do so, and an `if` or `match` with an effect in a branch.
"""

from __future__ import annotations

import enum
from typing import Any, Final

from ...ir import GlobalVar, IRModule, Op
from ..adt import Constructor, Match
from ..expr import Call, Expr, Function, If, Let, RefCreate, RefRead, RefWrite, Var
from ..parts import parts_of
from ..scopes import EvaluationScope, Placement, nodes_with_parts, place


class Effect(enum.IntEnum):
    """Effect of evaluating a node; greater effects include lesser ones."""

    PURE = 0
    """No effect: the node may be moved, dropped or duplicated."""
    READS = 1
    """Creates or reads a reference: the node must keep its position, but may be dropped if unused."""
    WRITES = 2
    """May write a reference: the node must be evaluated exactly once, in its position."""


_DIRECT: Final[dict[type, Effect]] = {RefCreate: Effect.READS, RefRead: Effect.READS, RefWrite: Effect.WRITES}


class Effects:
    """Effects of expressions of a module or, without one, of an expression by itself.

    An unknown closure may have any effect that occurs in the module. A closure passed in from outside is assumed to
    have no other effects. Without a module, a global function may write.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = mod
        self._globals: dict[str, Effect] = {}
        self._worst = Effect.PURE
        if mod is None:
            return
        functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function)}
        self._worst = max((_worst_of(nodes_with_parts(f)) for f in functions.values()), default=Effect.PURE)
        if self._worst is not Effect.PURE:
            self._solve(functions)

    def _solve(self, functions: dict[str, Function]) -> None:
        """Compute the effects of global functions, as a least fixed point."""
        self._globals = dict.fromkeys(functions, Effect.PURE)
        changed = True
        while changed:
            changed = False
            for name, function in functions.items():
                effect = _Analysis(self, place(function), self._worst).latent[function]
                changed |= effect is not self._globals[name]
                self._globals[name] = effect

    def of_global(self, global_var: GlobalVar) -> Effect:
        """Effect of a call of a global function."""
        if self.mod is None:
            return Effect.WRITES
        return self._globals.get(global_var.name_hint, Effect.PURE)

    def of(self, expr: Expr, placement: Placement | None = None) -> dict[Expr, Effect]:
        """Effect of each node beyond those of its operands; nodes without effects are omitted.

        A `let`, `if` or `match` includes the effects of the scopes it opens.
        """
        placement = place(expr) if placement is None else placement
        worst = max(self._worst, _worst_of(placement.order))
        if self.mod is None and worst is Effect.PURE and _calls_a_global(placement.order):
            worst = Effect.WRITES
        return {} if worst is Effect.PURE else _Analysis(self, placement, worst).nodes

    def whole(self, expr: Expr) -> Effect:
        """Effect of evaluating an expression, including its operands."""
        return max(_outside_functions(expr, self.of(expr)), default=Effect.PURE)


def _outside_functions(expr: Expr, effects: dict[Expr, Effect]) -> list[Effect]:
    """Effects of the nodes evaluated with an expression, excluding function bodies."""
    if not effects:
        return []
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if not isinstance(node, Function):
                stack.extend(parts_of(node))
    return [effects[node] for node in seen if node in effects]


def _worst_of(nodes: list[Expr]) -> Effect:
    return max((_DIRECT.get(type(node), Effect.PURE) for node in nodes), default=Effect.PURE)


def _calls_a_global(nodes: list[Expr]) -> bool:
    return any(isinstance(node, Call) and isinstance(node.op, GlobalVar) for node in nodes)


class _Analysis:
    """Effects of the nodes of one expression."""

    def __init__(self, effects: Effects, placement: Placement, worst: Effect) -> None:
        self.effects = effects
        self.placement = placement
        self.worst = worst
        self.nodes: dict[Expr, Effect] = {}
        self.latent: dict[Expr, Effect] = {}
        """Effects of calls of the expression's functions."""
        self.bound = {
            node.var: node.value
            for node in placement.order
            if isinstance(node, Let) and isinstance(node.value, Function)
        }
        while self._step():
            pass

    def _step(self) -> bool:
        """Visit all nodes once; True if a function's effect grew, so that another iteration is needed."""
        placement = self.placement
        inside: dict[EvaluationScope, Effect] = {}
        changed = False
        for node in placement.order:
            opened = [inside.get(scope, Effect.PURE) for scope in placement.opened.get(node, ())]
            if isinstance(node, Function):
                changed |= opened[0] > self.latent.get(node, Effect.PURE)
                self.latent[node] = opened[0]
                continue
            effect = self._effect(node, max(opened, default=Effect.PURE))
            if effect is not Effect.PURE:
                self.nodes[node] = effect
                scope = placement.of[node]
                inside[scope] = max(effect, inside.get(scope, Effect.PURE))
        return changed

    def _effect(self, node: Expr, opened: Effect) -> Effect:
        if isinstance(node, Call):
            return self._callee(node.op)
        if isinstance(node, (Let, If, Match)):
            return opened
        return _DIRECT.get(type(node), Effect.PURE)

    def _callee(self, callee: Any) -> Effect:
        if isinstance(callee, (Op, Constructor)):
            return Effect.PURE
        if isinstance(callee, GlobalVar):
            return self.effects.of_global(callee)
        if isinstance(callee, Var) and callee in self.bound:
            callee = self.bound[callee]
        if isinstance(callee, Function):
            return self.latent.get(callee, Effect.PURE)
        return self.worst
