"""Move each allocation to the smallest scope that encloses all uses, to shorten lifetimes.

    with T.allocate(t):
        A[...] = ...                A[...] = ...
        t[...] = ...        gives   with T.allocate(t):
        B[...] = t[...]                 t[...] = ...
        C[...] = ...                    B[...] = t[...]
                                    C[...] = ...

An allocation does not move into a serial loop: its contents may be needed in the next iteration. It does move into a
parallel loop that encloses all uses, if its scope is local, or if no subscript or view layout depends on the loop: each
iteration then needs separate storage. Unused allocations are removed. An allocation whose size is read from memory is
not moved, as that memory may change.
"""

from __future__ import annotations

from ...ir import Node, walk
from ...prim import Call, Let, PrimExpr, Var, post_order
from ..buffer import Buffer, BufferLoad
from ..functor import StmtMutator, pre_order_visit
from ..statements import seq_of
from ..stmt import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
)
from ..usage import buffer_expressions, free_vars
from .each_prim_func import each_prim_func


def plan_buffer_allocation(func: PrimFunc) -> PrimFunc:
    """Return the function with each allocation in the smallest scope."""
    return func.replace(body=_Sinking().visit(func.body))


class _Pointers:
    """Cache of the data pointers that statements use."""

    def __init__(self) -> None:
        self._used: dict[int, tuple[Stmt, set[Var]]] = {}
        """Keyed by the statement's id; holding the statement keeps the id valid."""

    def used_in(self, stmt: Stmt) -> set[Var]:
        """Return the pointers that a statement uses, including those of its own allocations."""
        cached = self._used.get(id(stmt))
        if cached is not None:
            return cached[1]
        pointers: set[Var] = set()

        def visit(node: Node) -> bool:
            if isinstance(node, Stmt) and node is not stmt:
                pointers.update(self.used_in(node))
                return False
            if isinstance(node, Var) and node.dtype.is_handle:
                pointers.add(node)
            return True

        walk(stmt, visit)
        self._used[id(stmt)] = stmt, pointers
        return pointers


class _Sinking(StmtMutator):
    def __init__(self) -> None:
        super().__init__()
        self.pointers = _Pointers()

    def visit_AllocBuffer(self, node: AllocBuffer) -> Stmt:
        rewritten = self.visit_children(node)
        return self.sunk(rewritten, rewritten.body) if _has_stable_size(rewritten.buffer) else rewritten

    def uses(self, stmt: Stmt, buffer: Buffer) -> bool:
        return buffer.data in self.pointers.used_in(stmt)

    def sunk(self, alloc: AllocBuffer, body: Stmt) -> Stmt:
        """Return the body with the allocation moved inwards as far as possible; `alloc` with this body if it must
        stay.
        """
        buffer = alloc.buffer
        match body:
            case SeqStmt(seq):
                used = [i for i, stmt in enumerate(seq) if self.uses(stmt, buffer)]
                if not used:
                    return body
                first, last = used[0], used[-1] + 1
                if (first, last) == (0, len(seq)) and len(seq) > 1:
                    return alloc.replace(body=body)
                inner = self.sunk(alloc, seq_of(seq[first:last]))
                return seq_of([*seq[:first], inner, *seq[last:]])
            case IfThenElse(condition, then_case, else_case) if buffer.data not in free_vars(condition):
                in_else = else_case is not None and self.uses(else_case, buffer)
                if self.uses(then_case, buffer):
                    return alloc.replace(body=body) if in_else else body.replace(then_case=self.sunk(alloc, then_case))
                return body.replace(else_case=self.sunk(alloc, else_case)) if else_case is not None else body
            case LetStmt(_, value) if buffer.data not in free_vars(value):
                return body.replace(body=self.sunk(alloc, body.body))
            case AssertStmt(condition) if buffer.data not in free_vars(condition):
                return body.replace(body=self.sunk(alloc, body.body))
            case AllocBuffer():
                return body.replace(body=self.sunk(alloc, body.body))
            case DeclBuffer(other) if other.data is not buffer.data:
                return body.replace(body=self.sunk(alloc, body.body))
            case AttrStmt():
                return alloc.replace(body=body)
            case _ if not self.uses(body, buffer):
                return body
            case _:
                private = self.into_parallel(alloc, body)
                return alloc.replace(body=body) if private is None else private

    def into_parallel(self, alloc: AllocBuffer, stmt: Stmt) -> Stmt | None:
        """Return the statement with the allocation inside a parallel loop that encloses all uses, or None."""
        buffer = alloc.buffer
        match stmt:
            case For(kind=ForKind.PARALLEL, body=body) if _is_private(buffer, stmt):
                return stmt.replace(body=self.sunk(alloc, body))
            case DeclBuffer(other) if other.data is buffer.data:
                return None  # a view around the loop is one of storage around the loop
            case For(body=body) | LetStmt(body=body) | AllocBuffer(body=body) | DeclBuffer(body=body):
                inner = self.into_parallel(alloc, body)
                return None if inner is None else stmt.replace(body=inner)
            case SeqStmt(seq):
                used = [i for i, child in enumerate(seq) if self.uses(child, buffer)]
                inner = self.into_parallel(alloc, seq[used[0]]) if len(used) == 1 else None
                return None if inner is None else seq_of([*seq[: used[0]], inner, *seq[used[0] + 1 :]])
            case IfThenElse(condition, then_case, None) if buffer.data not in free_vars(condition):
                inner = self.into_parallel(alloc, then_case)
                return None if inner is None else stmt.replace(then_case=inner)
            case _:
                return None


def _has_stable_size(buffer: Buffer) -> bool:
    """True if the sizes of a buffer consist of variables and constants, without loads or calls."""
    reads: list[PrimExpr] = []
    for size in buffer_expressions(buffer):
        post_order(size, lambda node: reads.append(node) if isinstance(node, (BufferLoad, Call)) else None)
    return not reads


def _is_private(buffer: Buffer, loop: For) -> bool:
    """True if every iteration of a loop may have a separate buffer."""
    if buffer.scope.startswith("local"):
        return True
    dependent = {loop.loop_var}
    shared: list[Node] = []

    def visit(node: Node) -> None:
        match node:
            case For(loop_var, low, extent):
                if dependent & (free_vars(low) | free_vars(extent)):
                    dependent.add(loop_var)
            case LetStmt(var, value) | Let(var, value):
                if dependent & free_vars(value):
                    dependent.add(var)
            case BufferLoad(buffer=other, indices=indices) | BufferStore(buffer=other, indices=indices) if (
                other.data is buffer.data
            ):
                if any(dependent & free_vars(index) for index in indices):
                    shared.append(node)
            case DeclBuffer(other) if other.data is buffer.data:
                if any(dependent & free_vars(expr) for expr in buffer_expressions(other)):
                    shared.append(node)
            case Call(args=args) if any(arg is buffer.data for arg in args):
                shared.append(node)
            case _:
                pass

    pre_order_visit(loop.body, visit)
    return not shared


PlanAndUpdateBufferAllocationLocation = each_prim_func(plan_buffer_allocation, "PlanAndUpdateBufferAllocationLocation")
"""Pass: move allocations to the smallest scope that encloses all uses."""
