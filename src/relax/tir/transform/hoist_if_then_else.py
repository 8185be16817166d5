"""Hoist loop-invariant branches out of loops.

    for i in range(m):                  if n > 3:
        if n > 3:                           for i in range(m):
            A[i] = x        gives               A[i] = x
        else:                           else:
            A[i] = y                        for i in range(m):
                                                A[i] = y

Declines if the condition depends on the loop, reads memory or may fail, if the branch is not the whole body of the
loop, and, without an else, if the bounds of the loop may fail.
"""

from __future__ import annotations

from typing import Any

from ...ir.transform import Pass
from ...prim import PrimExpr
from ..renew import renew_bound_vars
from ..stmt import For, ForKind, IfThenElse, PrimFunc, Stmt
from ..usage import free_vars
from .each_prim_func import each_prim_func
from .facts import FactsMutator, reads_memory


def hoist_if_then_else(func: PrimFunc) -> PrimFunc:
    """Return the function with loop-invariant branches hoisted out of loops."""
    return Hoisting(func).run()


class Hoisting(FactsMutator):
    """Hoist loop-invariant branches out of loops, inner loops first."""

    def visit_For(self, node: For) -> Stmt:
        rewritten = super().visit_For(node)
        return self.hoisted(rewritten) if isinstance(rewritten, For) else rewritten

    def hoisted(self, loop: For) -> Stmt:
        """Return the loop inside the branch that was its whole body; the loop itself if the branch must stay."""
        branch = loop.body
        if not isinstance(branch, IfThenElse) or not self.moves(branch.condition, loop):
            return loop
        if branch.else_case is None and self.loop_can_fail(loop):
            return loop
        then_case = self.hoisted(loop.replace(body=branch.then_case))
        if branch.else_case is None:
            return branch.replace(then_case=then_case)
        copy = renew_bound_vars(loop.replace(body=branch.else_case))
        return branch.replace(then_case=then_case, else_case=self.hoisted(copy))

    def moves(self, expr: PrimExpr, loop: For) -> bool:
        """True if an expression may be evaluated once before a loop, even if the loop has no iteration."""
        if loop.kind is ForKind.THREAD_BINDING or loop.loop_var in free_vars(expr):
            return False
        return not reads_memory(expr) and not self.can_fail(expr)


_hoist = each_prim_func(hoist_if_then_else, "HoistIfThenElse")


def HoistIfThenElse(variant: Any = None) -> Pass:
    """Pass: hoist loop-invariant branches out of loops. The only variant is TVM's ``basic``.

    Raises ValueError for another one.
    """
    if variant not in (None, "basic"):
        raise ValueError(f'HoistIfThenElse: the variant is None or "basic", found {variant!r}')
    return _hoist()
