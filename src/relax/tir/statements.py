"""Small builders of statements that passes share: sequences without nesting, nothing at all, conjunctions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..prim import And, IntImm, PrimExpr, is_const
from .stmt import Evaluate, SeqStmt, Stmt

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


def seq_of(stmts: Iterable[Stmt]) -> Stmt:
    """Statements one after the other; a lone one as it is."""
    made = SeqStmt(tuple(stmts))
    return made.seq[0] if len(made.seq) == 1 else made


def conjuncts(condition: PrimExpr) -> Iterator[PrimExpr]:
    """The conditions that all must hold; none for a constant truth."""
    if isinstance(condition, And):
        yield from conjuncts(condition.a)
        yield from conjuncts(condition.b)
    elif not is_const(condition, 1):
        yield condition


def conjunction(conditions: Sequence[PrimExpr]) -> PrimExpr:
    """The condition that all hold."""
    result: PrimExpr | None = None
    for condition in conditions:
        result = condition if result is None else And(result, condition)
    return TRUE if result is None else result


__all__ = ["NOTHING", "TRUE", "conjunction", "conjuncts", "is_nothing", "seq_of"]
