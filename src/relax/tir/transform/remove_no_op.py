"""Remove statements without effect.

    for i in range(n):                      A[0] = x
        pass                    gives
    A[0] = y
    A[0] = x
    A[1] = A[1]
    T.evaluate(n + 1)

Removes loops, branches, lets and allocations with an empty body; loops without iterations; unused evaluations; stores
of an element to itself; stores that the next statement overwrites. Statements that may fail are kept: a bound read from
memory, an index not proved to be inside, an allocation whose size is not proved to be valid.
"""

from __future__ import annotations

from ...ir import structural_equal
from ...prim import LE, PrimExpr, const, is_const
from ..buffer import Buffer, BufferLoad
from ..statements import NOTHING, is_nothing, seq_of
from ..stmt import (
    AllocBuffer,
    AttrStmt,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
)
from ..usage import free_vars, undefined_buffers
from .each_prim_func import each_prim_func
from .facts import FactsMutator, reads_memory


def remove_no_op(func: PrimFunc) -> PrimFunc:
    """Return the function without no-op statements."""
    return _Removal(func).run()


class _Removal(FactsMutator):
    def evaluated(self, *exprs: PrimExpr) -> Stmt:
        """Return a statement that evaluates those `exprs` that may fail."""
        return seq_of(Evaluate(expr) for expr in exprs if self.can_fail(expr))

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        kept: list[Stmt] = []
        for stmt in SeqStmt(tuple(self.visit(child) for child in node.seq)).seq:
            if is_nothing(stmt):
                continue
            while kept and self.overwrites(stmt, kept[-1]):
                kept.pop()
            kept.append(stmt)
        if len(kept) == len(node.seq) != 1 and all(a is b for a, b in zip(kept, node.seq, strict=True)):
            return node
        return seq_of(kept)

    def overwrites(self, stmt: Stmt, before: Stmt) -> bool:
        """True if a store overwrites everything that the previous store wrote."""
        if not isinstance(stmt, BufferStore) or not isinstance(before, BufferStore):
            return False
        if stmt.buffer is not before.buffer or not structural_equal(stmt.indices, before.indices):
            return False
        if stmt.predicate is not None:
            return False
        exprs = (stmt.value, before.value, *stmt.indices)
        # Other buffers may be views of the same memory.
        return not any(reads_memory(expr) or self.can_fail(expr) for expr in exprs)

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        return node if is_nothing(node) or self.can_fail(node.value) else NOTHING

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        value = node.value
        if (
            isinstance(value, BufferLoad)
            and value.buffer is node.buffer
            and structural_equal(value.indices, node.indices)
            and _is_covered(value.predicate, node.predicate)
            and not self.can_fail(value)
        ):
            return NOTHING
        return node

    def visit_For(self, node: For) -> Stmt:
        rewritten = super().visit_For(node)
        assert isinstance(rewritten, For)
        if is_nothing(rewritten.body) and not self.loop_can_fail(rewritten):
            return NOTHING
        never = self.analyzer.can_prove(LE(rewritten.extent, const(0, rewritten.extent.dtype)))
        return self.evaluated(rewritten.min, rewritten.extent) if never else rewritten

    def visit_While(self, node: While) -> Stmt:
        return NOTHING if is_const(node.condition, 0) else node.replace(body=self.visit(node.body))

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        if is_const(node.condition):
            chosen = node.then_case if is_const(node.condition, 1) else node.else_case
            return NOTHING if chosen is None else self.visit(chosen)
        rewritten = super().visit_IfThenElse(node)
        assert isinstance(rewritten, IfThenElse)
        if rewritten.else_case is not None and is_nothing(rewritten.else_case):
            rewritten = rewritten.replace(else_case=None)
        if rewritten.else_case is None and is_nothing(rewritten.then_case):
            return self.evaluated(rewritten.condition)
        return rewritten

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        with self.in_let(node):
            body = self.visit(node.body)
        if node.var in free_vars(body) or self.can_fail(node.value):
            return self.evaluated(node.value) if is_nothing(body) else node.replace(body=body)
        return body

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        body = self.visit(node.body)
        return self.evaluated(node.value) if is_nothing(body) else node.replace(body=body)

    def visit_AllocBuffer(self, node: AllocBuffer) -> Stmt:
        rewritten = super().visit_AllocBuffer(node)
        assert isinstance(rewritten, AllocBuffer)
        if rewritten.buffer.data in free_vars(rewritten.body):
            return rewritten
        return rewritten if self.allocation_can_fail(rewritten.buffer) else rewritten.body

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        body = self.visit(node.body)
        if _uses(body, node.buffer) or self.view_can_fail(node.buffer):
            return node.replace(body=body)
        return body

    def visit_BlockRealize(self, node: BlockRealize) -> Stmt:
        rewritten = super().visit_BlockRealize(node)
        assert isinstance(rewritten, BlockRealize)
        block = rewritten.block
        if not is_nothing(block.body) or block.iter_vars or block.init is not None or block.match_buffers:
            return rewritten
        if any(map(self.allocation_can_fail, block.alloc_buffers)):
            return rewritten
        return self.evaluated(rewritten.predicate)


def _uses(stmt: Stmt, buffer: Buffer) -> bool:
    return buffer in undefined_buffers(stmt)


RemoveNoOp = each_prim_func(remove_no_op, "RemoveNoOp")
"""Pass: remove statements without effect."""


def _is_covered(loaded: PrimExpr | None, stored: PrimExpr | None) -> bool:
    """True if the loaded lanes include all stored lanes."""
    return loaded is None or (stored is not None and structural_equal(loaded, stored))
