"""Check that every variable and buffer has a single binding."""

from __future__ import annotations

from typing import Any

from ...ir import IRModule, Node
from ...prim import Let, Var
from ..buffer import Buffer, CommReducer, IterVar, shape_vars_bound_by
from ..functor import StmtExprVisitor
from ..stmt import AllocBuffer, Block, DeclBuffer, For, LetStmt, PrimFunc


def verify_ssa(obj: PrimFunc | IRModule) -> bool:
    """True if no variable or buffer of a function is bound twice; for a module, also not in two functions."""
    functions = obj.functions.values() if isinstance(obj, IRModule) else (obj,)
    checker = _Bindings()
    for func in functions:
        if isinstance(func, PrimFunc):
            checker.visit(func)
    return not checker.twice


class _Bindings(StmtExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.bound: set[Node] = set()
        self.in_scope: set[Var] = set()
        self.twice: list[Node] = []

    def bind(self, *names: Any) -> None:
        for name in names:
            if name in self.bound:
                self.twice.append(name)
            self.bound.add(name)

    def open(self, buffer: Buffer) -> None:
        """Bind a buffer of a parameter or a region's view, after the variables in its sizes, strides and offset."""
        new = [var for var in (*shape_vars_bound_by(buffer), buffer.data) if var not in self.in_scope]
        self.bind(buffer, *dict.fromkeys(new))
        self.in_scope.update(new)

    def visit_PrimFunc(self, node: PrimFunc) -> None:
        self.in_scope = set(node.params)
        self.bind(*node.params)
        for buffer in dict.fromkeys(node.buffer_map.values()):
            self.open(buffer)
        self.visit_children(node)

    def visit_For(self, node: For) -> None:
        self.bind(node.loop_var)
        self.visit_children(node)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.bind(node.var)
        self.in_scope.add(node.var)
        self.visit_children(node)

    def visit_Let(self, node: Let) -> None:
        self.bind(node.var)
        self.visit_children(node)

    def visit_IterVar(self, node: IterVar) -> None:
        self.bind(node.var)
        self.visit_children(node)

    def visit_CommReducer(self, node: CommReducer) -> None:
        self.bind(*node.lhs, *node.rhs)
        self.visit_children(node)

    def visit_AllocBuffer(self, node: AllocBuffer) -> None:
        self.bind(node.buffer, node.buffer.data)
        self.visit_children(node)

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        self.bind(node.buffer)
        self.visit_children(node)

    def visit_Block(self, node: Block) -> None:
        for buffer in node.alloc_buffers:
            self.bind(buffer, buffer.data)
        for match in node.match_buffers:
            self.open(match.buffer)
        self.visit_children(node)
