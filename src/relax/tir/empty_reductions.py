"""Reductions over empty loops: the init of the reduction runs although the loop has no iteration."""

from __future__ import annotations

from ..prim import Var
from .stmt import BlockRealize, For, IfThenElse, LetStmt, SeqStmt, Stmt
from .usage import free_vars


def _loops_of(stmt: BlockRealize, kind: str) -> set[Var]:
    """Return the loop variables in the values of a block's axes of this kind."""
    used: set[Var] = set()
    for iter_var, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
        if iter_var.iter_type == kind:
            used.update(free_vars(value))
    return used


def reduces(loop: For, target: BlockRealize) -> bool:
    """True if the loop variable occurs in reduction axes of the block only."""
    return loop.loop_var in _loops_of(target, "reduce") - _loops_of(target, "spatial")


def reductions(stmt: Stmt) -> list[BlockRealize]:
    """Return the blocks with init directly below a statement, in program order."""
    match stmt:
        case BlockRealize():
            return [] if stmt.block.init is None else [stmt]
        case For(body=body) | LetStmt(body=body) | IfThenElse(then_case=body):
            return reductions(body)
        case SeqStmt(seq):
            return [realize for child in seq for realize in reductions(child)]
        case _:
            return []
