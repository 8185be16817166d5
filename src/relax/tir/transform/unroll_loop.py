"""Unroll loops marked as unrolled.

    for i in T.unroll(3):                   B[0] = A[0]
        B[i] = A[i]             gives       B[1] = A[1]
                                            B[2] = A[2]

Skips loops of dynamic length or of more than `LIMIT` iterations, and loops whose variable may overflow, which is an
error at run time.
"""

from __future__ import annotations

from ...prim import IntImm, PrimExpr
from ..functor import StmtExprMutator, substitute
from ..renew import renew_bound_vars
from ..statements import seq_of
from ..stmt import For, ForKind, PrimFunc, SeqStmt, Stmt
from .each_prim_func import each_prim_func

LIMIT = 256


def unroll_loop(func: PrimFunc) -> PrimFunc:
    """Return the function with unrolled loops written out."""
    return func.replace(body=_Unrolling().visit(func.body))


class _Unrolling(StmtExprMutator):
    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        rewritten = self.visit_children(node)
        return rewritten if rewritten is node else seq_of(rewritten.seq)  # a loop that never runs leaves nothing

    def visit_For(self, node: For) -> Stmt:
        rewritten = self.visit_children(node)
        if not is_written_out(rewritten):
            return rewritten
        count = rewritten.extent.value if isinstance(rewritten.extent, IntImm) else 0
        steps = [substitute(rewritten.body, {rewritten.loop_var: rewritten.min + i}) for i in range(count)]
        # The first copy keeps the variables bound inside; the others get their own.
        return seq_of([*steps[:1], *(renew_bound_vars(step) for step in steps[1:])])


def is_written_out(loop: For) -> bool:
    """True for unrolled loops that this pass writes out."""
    extent = loop.extent
    if loop.kind is not ForKind.UNROLLED or not isinstance(extent, IntImm) or extent.value > LIMIT:
        return False
    return _ends_within(loop.min, extent.value)


def _ends_within(start: PrimExpr, count: int) -> bool:
    """True if constants show that a loop variable's last value fits its dtype."""
    return count <= 1 or (isinstance(start, IntImm) and start.value + count - 1 <= start.dtype.max_value)


UnrollLoop = each_prim_func(unroll_loop, "UnrollLoop")
"""Pass: unroll loops marked as unrolled."""
