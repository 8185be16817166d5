"""Remove opaque blocks: predicates become branches, allocated buffers become AllocBuffer.

    with T.block("B"):
        T.where(i < n)                              if i < n:
        t = T.alloc_buffer((4,))        gives           with T.allocate([4], "float32") as t:
        ...                                                 ...

Blocks must have no variables, `init` or views (see ConvertBlocksToOpaque, LowerInitBlock, LowerMatchBuffer).
"""

from __future__ import annotations

from ...ir import Diagnostic, DiagnosticError
from ...prim import is_const
from ..functor import StmtMutator
from ..statements import has_blocks
from ..stmt import AllocBuffer, BlockRealize, IfThenElse, PrimFunc, Stmt
from .each_prim_func import each_prim_func


def lower_opaque_block(func: PrimFunc) -> PrimFunc:
    """The function without blocks."""
    return func.replace(body=_Lowering().visit(func.body)) if has_blocks(func.body) else func


class _Lowering(StmtMutator):
    def visit_BlockRealize(self, node: BlockRealize) -> Stmt:
        block = node.block
        if block.iter_vars or block.init is not None or block.match_buffers:
            raise DiagnosticError(
                Diagnostic(
                    "E5012",
                    f"block {block.name_hint} still has variables, an init or views",
                    node.span or block.span,
                    hint="run LowerInitBlock, LowerMatchBuffer and ConvertBlocksToOpaque first",
                )
            )
        body: Stmt = self.visit(block.body)
        for buffer in reversed(block.alloc_buffers):
            body = AllocBuffer(self.visit(buffer), body)
        return body if is_const(node.predicate, 1) else IfThenElse(self.visit(node.predicate), body)


LowerOpaqueBlock = each_prim_func(lower_opaque_block, "LowerOpaqueBlock")
"""Pass: replace blocks by branches and allocations."""
