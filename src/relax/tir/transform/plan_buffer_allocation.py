"""Move each allocation to the smallest scope that holds all uses, so that buffers do not live longer than needed.

    with T.allocate(t):
        A[...] = ...                A[...] = ...
        t[...] = ...        gives   with T.allocate(t):
        B[...] = t[...]                 t[...] = ...
        C[...] = ...                    B[...] = t[...]
                                    C[...] = ...

An allocation does not move into a loop: what a buffer holds may be meant to last from one iteration to the next.
An allocation that nobody uses is dropped.
"""

from __future__ import annotations

from ..buffer import Buffer
from ..functor import StmtExprMutator
from ..statements import seq_of
from ..stmt import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    DeclBuffer,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
)
from ..usage import free_vars
from .passes import prim_func_pass


def plan_buffer_allocation(func: PrimFunc) -> PrimFunc:
    """The function with allocations in the smallest scope."""
    return func.replace(body=_Sinking().visit(func.body))


class _Sinking(StmtExprMutator):
    def visit_AllocBuffer(self, node: AllocBuffer) -> Stmt:
        made = self.visit_children(node)
        return _sunk(made, made.body)


def _uses(stmt: Stmt, buffer: Buffer) -> bool:
    return buffer.data in free_vars(stmt)


def _sunk(alloc: AllocBuffer, body: Stmt) -> Stmt:
    """The body with the allocation as deep inside as it may go; `alloc` itself if that is where it is."""
    buffer = alloc.buffer
    match body:
        case SeqStmt(seq):
            used = [i for i, stmt in enumerate(seq) if _uses(stmt, buffer)]
            if not used:
                return body
            first, last = used[0], used[-1] + 1
            if (first, last) == (0, len(seq)) and len(seq) > 1:
                return alloc.replace(body=body)
            inner = _sunk(alloc, seq_of(seq[first:last]))
            return seq_of([*seq[:first], inner, *seq[last:]])
        case IfThenElse(condition, then_case, else_case) if buffer.data not in free_vars(condition):
            in_else = else_case is not None and _uses(else_case, buffer)
            if _uses(then_case, buffer):
                return (
                    alloc.replace(body=body) if in_else else body.replace(then_case=_sunk(alloc, then_case))
                )
            return body.replace(else_case=_sunk(alloc, else_case)) if else_case is not None else body
        case LetStmt(_, value) if buffer.data not in free_vars(value):
            return body.replace(body=_sunk(alloc, body.body))
        case AssertStmt(condition) if buffer.data not in free_vars(condition):
            return body.replace(body=_sunk(alloc, body.body))
        case AllocBuffer():
            return body.replace(body=_sunk(alloc, body.body))
        case DeclBuffer(other) if other.data is not buffer.data:
            return body.replace(body=_sunk(alloc, body.body))
        case AttrStmt():
            return alloc.replace(body=body)
        case _:
            return alloc.replace(body=body) if _uses(body, buffer) else body


PlanAndUpdateBufferAllocationLocation = prim_func_pass(
    plan_buffer_allocation, "PlanAndUpdateBufferAllocationLocation"
)
"""Pass: allocations move to the smallest scope that holds all uses."""
