"""Copies of statements with fresh variables and buffers, for rewrites that duplicate a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

from ..ir import Node, fields_of, map_children
from ..ir.deep import run_deep
from ..prim import Analyzer, Let, PrimExpr, SizeVar, Var
from .buffer import Buffer, IterVar, Reduce
from .functor import StmtExprMutator, pre_order_visit, substitute
from .stmt import AllocBuffer, Block, DeclBuffer, For, LetStmt, PrimFunc
from .usage import shape_vars_bound_by

N = TypeVar("N", bound=Node)


def renew_bound_vars(node: N) -> N:
    """Return a copy of a statement, expression or function with fresh variables and buffers for all that it binds."""
    return _Renewal().visit(node)


class _Renewal(StmtExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.renamed: dict[Var, Var] = {}

    def renew(self, var: Var) -> None:
        new = (SizeVar if var.nonnegative else Var)(var.name, var.dtype, span=var.span)
        self.renamed[var] = new

    def renew_buffer(self, buffer: Buffer, with_pointer: bool = True) -> None:
        if with_pointer:
            self.renew(buffer.data)
        rebuilt = self.visit_children(buffer)
        self._buffers[buffer] = Buffer(**dict(fields_of(rebuilt)), span=buffer.span) if rebuilt is buffer else rebuilt

    def define_buffer(self, buffer: Buffer) -> None:
        """Do nothing: the methods below have renewed the buffer already."""

    def visit_PrimFunc(self, node: PrimFunc) -> PrimFunc:
        for param in node.params:
            self.renew(param)
        for buffer in node.buffer_map.values():
            for size in shape_vars_bound_by(buffer):
                if size not in self.renamed:
                    self.renew(size)
        for buffer in node.buffer_map.values():
            self.renew_buffer(buffer, with_pointer=buffer.data not in self.renamed)
        return self.visit_children(node)

    def visit_Var(self, node: Var) -> PrimExpr:
        return self.renamed.get(node, node)

    def visit_For(self, node: For) -> For:
        self.renew(node.loop_var)
        return self.visit_children(node)

    def visit_LetStmt(self, node: LetStmt) -> LetStmt:
        self.renew(node.var)
        return self.visit_children(node)

    def visit_Let(self, node: Let) -> Let:
        self.renew(node.var)
        return self.visit_children(node)

    def visit_IterVar(self, node: IterVar) -> IterVar:
        if node.var not in self.renamed:
            self.renew(node.var)
        return self.visit_children(node)

    def visit_AllocBuffer(self, node: AllocBuffer) -> AllocBuffer:
        self.renew_buffer(node.buffer)
        return self.visit_children(node)

    def visit_DeclBuffer(self, node: DeclBuffer) -> DeclBuffer:
        self.renew_buffer(node.buffer, with_pointer=False)
        return self.visit_children(node)

    def visit_Block(self, node: Block) -> Block:
        for iter_var in node.iter_vars:
            self.renew(iter_var.var)
        for buffer in node.alloc_buffers:
            self.renew_buffer(buffer)
        for match in node.match_buffers:
            self.renew_buffer(match.buffer)
        return self.visit_children(node)


def with_names(func: PrimFunc, names: Mapping[str, str]) -> PrimFunc:
    """Return a copy of a function whose variables and buffers have other names: `names` has one for each name."""
    copies: dict[int, Node] = {}

    def copy(node: Node) -> Node:
        found = copies.get(id(node))
        if found is None:
            found = map_children(node, copy)
            if isinstance(found, Var):
                found = (SizeVar if found.nonnegative else Var)(names[found.name], found.dtype, span=found.span)
            elif isinstance(found, Buffer):
                found = found.replace(name=names[found.name])
            copies[id(node)] = found
        return found

    return cast(PrimFunc, run_deep("the function", "renamed", lambda: copy(func)))


def renew_doubtful_sizes(func: PrimFunc) -> PrimFunc:
    """Replace variables marked as sizes that are bound to values not proved to be ≥ 0; usually returns `func` itself.

    A variable that is a dimension of a parameter is marked ≥ 0 (`Var.nonnegative`), and is the same object in every
    function. A function built by API may bind it to a possibly negative value; that function gets an unmarked variable
    of its own.
    """
    doubtful: dict[Var, Var] = {}
    analyzer = Analyzer()

    def doubt(var: Var, value: PrimExpr | None) -> None:
        if var.nonnegative and (value is None or not analyzer.can_prove(value >= 0)):
            doubtful[var] = Var(var.name, var.dtype, span=var.span)

    def visit(node: Node) -> None:
        match node:
            case LetStmt() | Let():
                doubt(node.var, node.value)
            case For():
                doubt(node.loop_var, node.min)
            case Block():
                for iter_var in node.iter_vars:
                    doubt(iter_var.var, None)
                for region in node.match_buffers:
                    for size in shape_vars_bound_by(region.buffer):
                        doubt(size, None)
            case Reduce():
                for iter_var in node.axis:
                    doubt(iter_var.var, None)
            case _:
                pass

    pre_order_visit(func.body, visit)
    return func.replace(body=substitute(func.body, doubtful)) if doubtful else func
