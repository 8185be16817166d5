"""Check the preconditions of a function before its body.

    T.precondition(n == m, "n and m differ")               with T.Assert(n == m, "n and m differ"):
    for i in range(n):                           gives         pass
        ...                                                for i in range(n):
                                                               ...
"""

from __future__ import annotations

from ..statements import seq_of
from ..stmt import AssertStmt, PrimFunc, SeqStmt
from .passes import prim_func_pass


def lower_preconditions(func: PrimFunc) -> PrimFunc:
    """The function with its preconditions as assertions ahead of the body."""
    if not func.preconditions:
        return func
    checks = [AssertStmt(p.condition, p.message, SeqStmt(()), span=p.span) for p in func.preconditions]
    return func.replace(preconditions=(), body=seq_of([*checks, func.body]))


LowerPreconditions = prim_func_pass(lower_preconditions, "LowerPreconditions")
"""Pass: preconditions become assertions ahead of the body."""
