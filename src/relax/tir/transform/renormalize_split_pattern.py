"""Normalise split indices: apply the remainder after the quotient.

    A[x % 32 // 4] = y          gives          A[x // 4 % 8] = y

``x % (a * b) // b`` and ``x // b % a`` are equal for positive constants. Simplification may produce the first form from
the second, which schedules create.
"""

from __future__ import annotations

from ...prim import FloorDiv, FloorMod, IntImm, PrimExpr
from ..functor import StmtExprMutator
from ..stmt import PrimFunc
from .each_prim_func import each_prim_func


def renormalize_split_pattern(func: PrimFunc) -> PrimFunc:
    """Return the function with quotients of remainders rewritten as remainders of quotients."""
    return func.replace(body=_Renormalization().visit(func.body))


class _Renormalization(StmtExprMutator):
    def visit_FloorDiv(self, node: FloorDiv) -> PrimExpr:
        rewritten = self.visit_children(node)
        match rewritten:
            case FloorDiv(FloorMod(x, IntImm(dtype, whole)), IntImm(_, divisor)) if (
                divisor > 1 and whole > divisor and whole % divisor == 0
            ):
                return FloorMod(self.visit(FloorDiv(x, rewritten.b)), IntImm(dtype, whole // divisor))
            case _:
                return rewritten


RenormalizeSplitPattern = each_prim_func(renormalize_split_pattern, "RenormalizeSplitPattern")
"""Pass: rewrite quotients of remainders as remainders of quotients."""
