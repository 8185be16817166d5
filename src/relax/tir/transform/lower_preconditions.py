"""Check the preconditions of a function before its body.

T.precondition(n == m, "n and m differ")               with T.Assert(n == m, "n and m differ"):
for i in range(n):                           gives         pass
    ...                                                for i in range(n):
                                                           ...
"""

from __future__ import annotations

from collections.abc import Sequence

from ...prim import is_const
from ..statements import seq_of
from ..stmt import AssertStmt, BlockRealize, PrimFunc, SeqStmt, Stmt
from .each_prim_func import each_prim_func


def lower_preconditions(func: PrimFunc) -> PrimFunc:
    """Return the function with its preconditions as assertions before the body."""
    if not func.preconditions:
        return func
    checks = [AssertStmt(p.condition, p.message, SeqStmt(()), span=p.span) for p in func.preconditions]
    return func.replace(preconditions=(), body=_after(checks, func.body))


def _after(checks: Sequence[Stmt], body: Stmt) -> Stmt:
    """Put the checks before the body, inside the root block if there is one."""
    if isinstance(body, BlockRealize) and not body.block.iter_vars and is_const(body.predicate, 1):
        block = body.block
        return body.replace(block=block.replace(body=seq_of([*checks, block.body])))
    return seq_of([*checks, body])


LowerPreconditions = each_prim_func(lower_preconditions, "LowerPreconditions")
"""Pass: turn preconditions into assertions before the body."""
