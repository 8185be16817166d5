"""The values that the message of a failed assertion shows."""

from __future__ import annotations

from ..prim.expr import BinaryExpr, IntImm, Not, PrimExpr, Var
from ..prim.functor import free_vars

_SHOWN = 4


def shown_sizes(condition: PrimExpr) -> tuple[Var, ...]:
    """Return the variables of a condition on sizes, at most four; () for other conditions.

    A condition on sizes compares integers computed from variables. Its message ends in their values:
    ``the shapes cannot be broadcast: n and m (n = 3, m = 4)``.
    """
    return tuple(free_vars(condition)[:_SHOWN]) if _is_on_sizes(condition) else ()


def _is_on_sizes(condition: PrimExpr) -> bool:
    pending, seen = [condition], set[int]()
    while pending:
        expr = pending.pop()
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        match expr:
            case Var() | IntImm():
                if expr.dtype.lanes != 1 or not (expr.dtype.is_int or expr.dtype.is_bool):
                    return False
            case BinaryExpr():
                pending += (expr.a, expr.b)
            case Not(a):
                pending.append(a)
            case _:
                return False
    return True
