"""Helper functions for statements, shared by passes: flat sequences, no-ops, conjunctions, sub-statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from ..prim import And, IntImm, PrimExpr, is_const
from .stmt import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)

TRUE = IntImm("bool", 1)
NOTHING = SeqStmt(())
"""The statement that does nothing."""


def is_nothing(stmt: Stmt) -> bool:
    """True if a statement does nothing."""
    match stmt:
        case SeqStmt(seq):
            return all(map(is_nothing, seq))
        case Evaluate(value):
            return isinstance(value, IntImm)
        case _:
            return False


@lru_cache(maxsize=32)
def has_blocks(stmt: Stmt) -> bool:
    """True if a statement is, or holds, a block. Passes over blocks skip kernels that are written in loops."""
    pending = [stmt]
    while pending:
        node = pending.pop()
        if isinstance(node, (Block, BlockRealize)):
            return True
        pending += [inner for inner in node.__children__() if isinstance(inner, Stmt)]
    return False


def seq_of(stmts: Iterable[Stmt]) -> Stmt:
    """Return a sequence of statements; a single statement is returned unchanged."""
    sequence = SeqStmt(tuple(stmts))
    return sequence.seq[0] if len(sequence.seq) == 1 else sequence


def conjuncts(condition: PrimExpr) -> Iterator[PrimExpr]:
    """Yield the operands of a conjunction; none for a constant true."""
    if isinstance(condition, And):
        yield from conjuncts(condition.a)
        yield from conjuncts(condition.b)
    elif not is_const(condition, 1):
        yield condition


def conjunction(conditions: Sequence[PrimExpr]) -> PrimExpr:
    """Return the conjunction of conditions; true if there are none."""
    result: PrimExpr | None = None
    for condition in conditions:
        result = condition if result is None else And(result, condition)
    return TRUE if result is None else result


def parts_of(stmt: Stmt) -> tuple[Stmt, ...]:
    """Return the direct sub-statements of a statement, without a block's init."""
    match stmt:
        case SeqStmt(seq):
            return seq
        case BlockRealize(block=block):
            return (block.body,)
        case IfThenElse(then_case=then_case, else_case=else_case):
            return (then_case,) if else_case is None else (then_case, else_case)
        case For() | LetStmt() | AssertStmt() | AttrStmt() | AllocBuffer() | DeclBuffer() | While():
            return (stmt.body,)
        case _:
            return ()


def map_parts(stmt: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """Return a statement with `change` applied to its direct sub-statements; the statement itself if none changed."""
    match stmt:
        case SeqStmt(seq):
            children = [change(child) for child in seq]
            return stmt if all(a is b for a, b in zip(children, seq, strict=True)) else seq_of(children)
        case BlockRealize(block=block):
            body = change(block.body)
            return stmt if body is block.body else stmt.replace(block=block.replace(body=body))
        case IfThenElse(then_case=then_case, else_case=else_case):
            first = change(then_case)
            second = None if else_case is None else change(else_case)
            same = first is then_case and second is else_case
            return stmt if same else stmt.replace(then_case=first, else_case=second)
        case For() | LetStmt() | AssertStmt() | AttrStmt() | AllocBuffer() | DeclBuffer() | While():
            body = change(stmt.body)
            return stmt if body is stmt.body else stmt.replace(body=body)
        case _:
            return stmt
