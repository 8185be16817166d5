"""Hoist loop-invariant conditions and lets out of loops.

    for i in range(m):                                      with T.LetStmt(n * 4) as x:
        with T.LetStmt(n * 4) as x:                             if n > 0:
            A[i] = T.if_then_else(n > 0, B[i], x)   gives           for i in range(m):
                                                                        A[i] = B[i]
                                                                else:
                                                                    for i in range(m):
                                                                        A[i] = x

Hoisted expressions read no memory and cannot fail. A let or a branch is hoisted if it is the whole body of the loop;
the condition of an `if_then_else`, if the body of the loop is a single store whose value contains it.

PassContext's config ``tir.HoistExpression`` may restrict the kinds that are hoisted: ``{"hoisted_conditionals":
HoistedConditionals, "hoisted_let_bindings": HoistedLetBindings}``.
"""

from __future__ import annotations

import enum
from typing import Any

from ...ir.transform import PassContext
from ...prim import Call, Let, PrimExpr, map_expressions, post_order
from ..renew import renew_bound_vars
from ..stmt import BufferStore, For, IfThenElse, LetStmt, PrimFunc, Stmt
from .each_prim_func import each_prim_func
from .hoist_if_then_else import Hoisting


class HoistedConditionals(enum.Flag):
    """Kinds of conditions that HoistExpression moves, with TVM's numbers; only IfElseStmt and IfElseExpr have an
    effect.
    """

    Never = 0
    IfElseStmt = 1
    IfElseExpr = 2
    BooleanExpression = 4
    UsingBlockVar = 8
    All = 15


class HoistedLetBindings(enum.Flag):
    """Kinds of lets that HoistExpression moves, with TVM's numbers; only LetStmt has an effect."""

    Never = 0
    RequiredByConditional = 1
    LetStmt = 2
    LetExpr = 4
    All = 7


def hoist_expression(func: PrimFunc) -> PrimFunc:
    """Return the function with loop-invariant conditions and lets hoisted out of loops."""
    config: dict[str, Any] = PassContext.current().config.get("tir.HoistExpression", {})
    conditionals = HoistedConditionals(config.get("hoisted_conditionals", HoistedConditionals.All))
    bindings = HoistedLetBindings(config.get("hoisted_let_bindings", HoistedLetBindings.All))
    return _ExpressionHoisting(func, conditionals, bindings).run()


class _ExpressionHoisting(Hoisting):
    def __init__(self, func: PrimFunc, conditionals: HoistedConditionals, bindings: HoistedLetBindings) -> None:
        super().__init__(func)
        self.conditionals, self.bindings = conditionals, bindings

    def hoisted(self, loop: For) -> Stmt:
        match loop.body:
            case LetStmt(_, value, body) if self.lets_move and self.moves(value, loop):
                return loop.body.replace(body=self.hoisted(loop.replace(body=body)))
            case IfThenElse() if HoistedConditionals.IfElseStmt in self.conditionals:
                return super().hoisted(loop)
            case BufferStore():
                return self.hoisted_choice(loop, loop.body)
            case _:
                return loop

    @property
    def lets_move(self) -> bool:
        return HoistedLetBindings.LetStmt in self.bindings

    def hoisted_choice(self, loop: For, store: BufferStore) -> Stmt:
        """Return a branch over two copies of the loop, if the stored value has a loop-invariant choice; else the loop
        itself.
        """
        if HoistedConditionals.IfElseExpr not in self.conditionals:
            return loop
        choice = self.choice_in(store.value, loop)
        if choice is None:
            return loop
        condition, yes, no = choice.args
        then_case = loop.replace(body=store.replace(value=_with(store.value, choice, yes)))
        else_case = renew_bound_vars(loop.replace(body=store.replace(value=_with(store.value, choice, no))))
        return IfThenElse(condition, self.hoisted(then_case), self.hoisted(else_case), span=loop.span)

    def choice_in(self, expr: PrimExpr, loop: For) -> Call | None:
        """Return the first `if_then_else` in an expression with a loop-invariant condition, or None."""
        choices: list[Call] = []
        lets: list[Let] = []

        def visit(node: PrimExpr) -> None:
            if isinstance(node, Let):
                lets.append(node)
            is_choice = isinstance(node, Call) and node.intrinsic == "if_then_else"
            if isinstance(node, Call) and is_choice and not choices and self.moves(node.args[0], loop):
                choices.append(node)

        post_order(expr, visit)
        return choices[0] if choices and not lets else None


def _with(expr: PrimExpr, old: PrimExpr, new: PrimExpr) -> PrimExpr:
    """Replace the object `old` in an expression by `new`."""
    done: dict[PrimExpr, PrimExpr] = {old: new}

    def visit(node: PrimExpr) -> PrimExpr:
        if node not in done:
            done[node] = map_expressions(node, visit)
        return done[node]

    return visit(expr)


HoistExpression = each_prim_func(hoist_expression, "HoistExpression")
"""Pass: hoist loop-invariant conditions and lets out of loops."""
