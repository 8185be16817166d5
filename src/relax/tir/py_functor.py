"""TVM's visitor and mutator classes of TIR, with its decorators and method names.

    @tir.stmt_functor.visitor
    class Loads(tir.PyStmtExprVisitor):
        def visit_buffer_load_(self, op):
            print(op.buffer.name)
            super().visit_buffer_load_(op)

    visit_stmt, visit_expr         any statement, any expression
    visit_for_, visit_if_then_else_, visit_buffer_store_, visit_add_, visit_call_, visit_var_, …      by class

Default methods visit the parts. A mutator's methods return the replacement of the node; a mutator that changes nothing
returns the same object. The passes of this package use StmtExprVisitor and StmtExprMutator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..ir import Node, children_of, map_children
from ..prim import Let, PrimExpr, Var
from .buffer import IterVar
from .functor import StmtExprMutator, StmtExprVisitor
from .stmt import For, LetStmt, Stmt

C = TypeVar("C", bound=type)
N = TypeVar("N", bound=Node)

VISITS: dict[str, str] = {
    "AttrStmt": "attr_stmt", "IfThenElse": "if_then_else", "LetStmt": "let_stmt", "For": "for", "While": "while",
    "AllocBuffer": "allocate", "DeclBuffer": "decl_buffer", "BufferStore": "buffer_store",
    "AssertStmt": "assert_stmt", "SeqStmt": "seq_stmt", "Evaluate": "evaluate", "Block": "block",
    "BlockRealize": "block_realize",
    "Var": "var", "BufferLoad": "buffer_load", "Let": "let", "Call": "call", "Add": "add", "Sub": "sub", "Mul": "mul",
    "Div": "div", "Mod": "mod", "FloorDiv": "floor_div", "FloorMod": "floor_mod", "Min": "min", "Max": "max",
    "EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge", "And": "and", "Or": "or", "Not": "not",
    "Reduce": "reduce", "Cast": "cast", "Select": "select", "Ramp": "ramp", "Broadcast": "broadcast",
    "IntImm": "int_imm", "FloatImm": "float_imm", "StringImm": "string_imm",
}  # fmt: skip
"""Name of the method for each class of nodes: ``visit_<name>_``."""


def visitor(cls: C) -> C:
    """Return the class unchanged: TVM's decorator of visitors."""
    return cls


def mutator(cls: C) -> C:
    """Return the class unchanged: TVM's decorator of mutators."""
    return cls


def _bound_by(node: Node) -> Var | None:
    """Return the variable that a node binds, which is not visited as a use."""
    match node:
        case For(loop_var=var) | LetStmt(var=var) | Let(var=var) | IterVar(var=var):
            return var
        case _:
            return None


class PyStmtExprVisitor(StmtExprVisitor):
    """A walk with one method per class of nodes, under TVM's names; variables are visited at their uses, not where
    bound.
    """

    def visit(self, node: Node) -> None:
        if isinstance(node, Stmt):
            self.visit_stmt(node)
        elif isinstance(node, PrimExpr):
            self.visit_expr(node)
        else:
            super().visit(node)

    def visit_stmt(self, stmt: Stmt) -> None:
        """Visit any statement: dispatch on its class."""
        super().visit(stmt)

    def visit_expr(self, expr: PrimExpr) -> None:
        """Visit any expression: dispatch on its class."""
        super().visit(expr)

    def visit_children(self, node: Node) -> None:
        bound = _bound_by(node)
        if not node.__is_variable__:
            for below in children_of(node):
                if below is not bound:
                    self.visit(below)


class PyStmtExprMutator(StmtExprMutator):
    """A rewrite with one method per class of nodes, under TVM's names; each returns the replacement of the node.

    A bound variable stays; its uses may be replaced.
    """

    def visit(self, node: N) -> N:
        result: Any
        if isinstance(node, Stmt):
            result = self.visit_stmt(node)
        elif isinstance(node, PrimExpr):
            result = self.visit_expr(node)
        else:
            result = super().visit(node)
        return result

    def visit_stmt(self, stmt: Stmt) -> Stmt:
        """Rewrite any statement: dispatch on its class."""
        return super().visit(stmt)

    def visit_expr(self, expr: PrimExpr) -> PrimExpr:
        """Rewrite any expression: dispatch on its class."""
        return super().visit(expr)

    def visit_children(self, node: N) -> N:
        bound = _bound_by(node)
        if bound is None:
            return super().visit_children(node)
        return map_children(node, lambda below: below if below is bound else self.visit(below))


def _named(method: str) -> Callable[[Any, Any], Any]:
    """Return a method named after a class of nodes that calls the method with TVM's name."""
    return lambda self, node: getattr(self, method)(node)


def _visit_var(self: Any, op: Var) -> Var:
    """Do nothing: a variable is a leaf."""
    return op


def _visit_parts(self: Any, op: Node) -> Any:
    """Visit the parts of a node."""
    return self.visit_children(op)


for _class, _name in VISITS.items():
    _default = _visit_var if _class == "Var" else _visit_parts
    for _walker in (PyStmtExprVisitor, PyStmtExprMutator):
        setattr(_walker, f"visit_{_class}", _named(f"visit_{_name}_"))
        setattr(_walker, f"visit_{_name}_", _default)
