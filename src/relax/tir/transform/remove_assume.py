"""Remove assumptions.

    T.evaluate(T.assume(n < 8))         gives       A[0] = x
    A[0] = x

An assumption is a promise of the program's author, which the interpreter checks. Run this pass when no later pass uses
it.
"""

from __future__ import annotations

from ...prim import Call
from ..functor import StmtExprMutator
from ..statements import NOTHING, is_nothing, seq_of
from ..stmt import Evaluate, PrimFunc, SeqStmt, Stmt
from .each_prim_func import each_prim_func


def remove_assume(func: PrimFunc) -> PrimFunc:
    """Return the function without assumptions."""
    return func.replace(body=_Removal().visit(func.body))


class _Removal(StmtExprMutator):
    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        is_assumption = isinstance(node.value, Call) and node.value.intrinsic == "assume"
        return NOTHING if is_assumption else node

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        rewritten = self.visit_children(node)
        return rewritten if rewritten is node else seq_of(child for child in rewritten.seq if not is_nothing(child))


RemoveAssume = each_prim_func(remove_assume, "RemoveAssume")
"""Pass: remove assumptions."""
