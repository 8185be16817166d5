"""DefuseOps: inline functions with the attribute Primitive, undoing FuseOps.

fn (%p: float32, Primitive=1) { exp(negative(%p)) }(%x)    becomes    exp(negative(%x))
"""

from __future__ import annotations

from typing import TypeGuard

from ..expr import Call, Expr, Function, Let, Var
from ..functor import MixedModeMutator
from ..scopes import nodes_with_parts
from .inline import inlined
from .rewriting import Program, ordered_rewrite, relay_pass


class _Defuser(MixedModeMutator):
    def __init__(self, bound: dict[Var, Function]) -> None:
        super().__init__()
        self.bound = bound

    def rewrite_call(self, pre: Call, post: Call) -> Expr:
        callee = self.bound.get(pre.op, pre.op) if isinstance(pre.op, Var) else pre.op
        return inlined(callee, post.args, post.type_args) if is_primitive(callee) else post

    def rewrite_let(self, pre: Let, post: Let) -> Expr:
        return post.body if pre.var in self.bound else post


def is_primitive(expr: Expr) -> TypeGuard[Function]:
    """True for a function with the attribute Primitive."""
    return isinstance(expr, Function) and bool(expr.attrs.get("Primitive"))


def defuse_ops(expr: Expr) -> Expr:
    """Inline primitive functions where they are called; return the expression unchanged if there are none."""
    bound = {
        node.var: node.value
        for node in nodes_with_parts(expr)
        if isinstance(node, Let) and isinstance(node.value, Function) and is_primitive(node.value)
    }
    return _Defuser(bound).visit(expr)


@relay_pass("DefuseOps", opt_level=3)
def DefuseOps(function: Function, program: Program) -> Expr:
    """Inline primitive functions where they are called, in every function."""
    return ordered_rewrite(function, program, defuse_ops)
