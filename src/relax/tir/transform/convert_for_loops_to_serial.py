"""Make parallel loops serial.

for i in T.parallel(8):                     for i in range(8):
    A[i] = x                    gives           A[i] = x
"""

from __future__ import annotations

from ..functor import StmtExprMutator
from ..stmt import For, ForKind, PrimFunc, Stmt
from .each_prim_func import each_prim_func


def convert_for_loops_to_serial(func: PrimFunc) -> PrimFunc:
    """Return the function with parallel loops made serial."""
    return func.replace(body=_Conversion().visit(func.body))


class _Conversion(StmtExprMutator):
    def visit_For(self, node: For) -> Stmt:
        rewritten = self.visit_children(node)
        return rewritten.replace(kind=ForKind.SERIAL) if rewritten.kind is ForKind.PARALLEL else rewritten


ConvertForLoopsToSerial = each_prim_func(convert_for_loops_to_serial, "ConvertForLoopsToSerial")
"""Pass: make parallel loops serial."""
