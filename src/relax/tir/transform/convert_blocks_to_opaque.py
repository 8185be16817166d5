"""Substitute the values of block variables.

    with T.block("B"):
        vi = T.axis.spatial(16, i * 4 + j)              with T.block("B"):
        B[vi] = A[vi] + T.float32(1)        gives           B[i * 4 + j] = A[i * 4 + j] + T.float32(1)

Blocks must not have an `init` (see LowerInitBlock).
"""

from __future__ import annotations

from ...ir import Diagnostic, DiagnosticError
from ...prim import PrimExpr, Var
from ..functor import StmtExprMutator
from ..statements import has_blocks
from ..stmt import BlockRealize, PrimFunc
from .each_prim_func import each_prim_func


def convert_blocks_to_opaque(func: PrimFunc) -> PrimFunc:
    """The function with blocks that have no variables."""
    return func.replace(body=_Conversion().visit(func.body)) if has_blocks(func.body) else func


class _Conversion(StmtExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[Var, PrimExpr] = {}

    def visit_Var(self, node: Var) -> PrimExpr:
        return self.values.get(node, node)

    def visit_BlockRealize(self, node: BlockRealize) -> BlockRealize:
        block = node.block
        if block.init is not None:
            message, hint = f"block {block.name_hint} still has an init", "run LowerInitBlock first"
            raise DiagnosticError(Diagnostic("E5011", message, node.span or block.span, hint=hint))
        values = [self.visit(value) for value in node.iter_values]
        for iter_var, value in zip(block.iter_vars, values, strict=True):
            self.values[iter_var.var] = value
        predicate = self.visit(node.predicate)
        new_block = self.visit_children(block.replace(iter_vars=()))
        return (
            node.replace(iter_values=(), predicate=predicate, block=new_block)
            if values
            else node.replace(predicate=predicate, block=new_block)
        )


ConvertBlocksToOpaque = each_prim_func(convert_blocks_to_opaque, "ConvertBlocksToOpaque")
"""Pass: substitute the values of block variables."""
