"""Questions about dimensions, put to the prover of `relax.prim`; the one place where Relax asks them."""

from __future__ import annotations

from collections.abc import Mapping

from ..prim import IntImm, cast, evaluate, free_vars, simplify, substitute
from ..prim.expr import PrimExpr, Var


def simplify_dim(value: PrimExpr) -> PrimExpr:
    """The simplest form of a dimension. Constants that leave 64 bits stay: computing them is an error at run time."""
    if not isinstance(value, IntImm) and not free_vars(value):
        try:
            evaluate(value, checked=True)
        except OverflowError:
            return value
        except (TypeError, ArithmeticError):
            pass
    return simplify(value)


def define_dim(value: PrimExpr, table: Mapping[Var, PrimExpr]) -> PrimExpr | None:
    """A dimension with every variable replaced as a table says; None when it mentions any other."""
    if isinstance(value, Var):
        new = table.get(value)
        return None if new is None else cast(value.dtype, new)
    used = free_vars(value)
    if any(var not in table for var in used):
        return None
    changed = {var: cast(var.dtype, table[var]) for var in used if table[var] is not var}
    return simplify_dim(substitute(value, changed)) if changed else value
