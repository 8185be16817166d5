"""The variables and buffers that a piece of TIR defines, and those it uses without defining them."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir import Node
from ..prim import Let, PrimExpr, Var
from .buffer import Buffer, BufferRegion, CommReducer, IterVar, Reduce, shape_vars_bound_by
from .functor import StmtExprVisitor
from .stmt import AllocBuffer, Block, DeclBuffer, For, LetStmt, PrimFunc


def buffer_expressions(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """The expressions in a buffer's layout: sizes, strides, offset."""
    offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
    return (*buffer.shape, *buffer.strides, *offset)


class _Usage(StmtExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.defined: set[Var] = set()
        self.used: dict[Var, None] = {}
        self.buffers: dict[Buffer, None] = {}
        self.own_buffers: set[Buffer] = set()

    def define(self, buffer: Buffer, with_pointer: bool = True) -> None:
        self.own_buffers.add(buffer)
        if with_pointer:
            self.defined.add(buffer.data)
        self.visit(buffer)

    def visit_Var(self, node: Var) -> None:
        self.used[node] = None

    def visit_Buffer(self, node: Buffer) -> None:
        if node not in self.buffers:
            self.buffers[node] = None
            self.visit(node.data)
            for expr in buffer_expressions(node):
                self.visit(expr)

    def visit_For(self, node: For) -> None:
        self.defined.add(node.loop_var)
        self.visit_children(node)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.defined.add(node.var)
        self.visit_children(node)

    def visit_Let(self, node: Let) -> None:
        self.defined.add(node.var)
        self.visit_children(node)

    def visit_IterVar(self, node: IterVar) -> None:
        self.defined.add(node.var)
        self.visit_children(node)

    def visit_CommReducer(self, node: CommReducer) -> None:
        self.defined.update(node.lhs, node.rhs)
        self.visit_children(node)

    def visit_Reduce(self, node: Reduce) -> None:
        self.visit_children(node)

    def visit_AllocBuffer(self, node: AllocBuffer) -> None:
        self.define(node.buffer)
        self.visit(node.body)

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        self.define(node.buffer, with_pointer=False)
        self.visit(node.body)

    def visit_Block(self, node: Block) -> None:
        for buffer in node.alloc_buffers:
            self.define(buffer)
        for match in node.match_buffers:
            self.defined.update(shape_vars_bound_by(match.buffer))
            self.define(match.buffer)
        self.visit_children(node)

    def visit_BufferRegion(self, node: BufferRegion) -> None:
        self.visit_children(node)

    def visit_PrimFunc(self, node: PrimFunc) -> None:
        self.defined.update(node.params)
        for buffer in node.buffer_map.values():
            self.defined.update(shape_vars_bound_by(buffer))
            self.define(buffer)
        for precondition in node.preconditions:
            self.visit(precondition)
        self.visit(node.body)


def _usage(node: Node) -> _Usage:
    usage = _Usage()
    usage.visit(node)
    return usage


def undefined_vars(node: Node, defs: Iterable[Var] = ()) -> list[Var]:
    """The variables used in a statement, expression or function that it does not define, in order of first
    use; `defs` are defined outside.

    A buffer's pointer counts as used where the buffer is; the sizes of a parameter's buffer are defined by
    it.
    """
    usage = _usage(node)
    defined = usage.defined.union(defs)
    return [var for var in usage.used if var not in defined]


def free_vars(node: Node) -> set[Var]:
    """`undefined_vars` as a set. (Never ask a list of variables `in`: comparing variables builds an expression.)"""
    return set(undefined_vars(node))


def undefined_buffers(node: Node) -> list[Buffer]:
    """The buffers used that are neither parameters nor allocated or declared inside, in order of first
    use.
    """
    usage = _usage(node)
    return [buffer for buffer in usage.buffers if buffer not in usage.own_buffers]


__all__ = ["buffer_expressions", "free_vars", "shape_vars_bound_by", "undefined_buffers", "undefined_vars"]
