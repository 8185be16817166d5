"""Operands of a tile in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....prim import PrimExpr, Var, is_const, simplify, substitute
from ....prim.instructions import prefetch
from ....tir import Buffer, BufferLoad, Evaluate, Stmt
from ....tir.functor import StmtExprVisitor
from ....tir.nests import is_compact
from ....tir.transform.vectorize_loop import in_lanes
from ...build import vector_load


def row_at(buffer: Buffer, at: Sequence[PrimExpr], lanes: int) -> Callable[[PrimExpr], PrimExpr]:
    """Return the function from first columns to the vectors of the row of a buffer that begins at `at`."""
    *outer, start = at
    return lambda column: vector_load(buffer, (*outer, start + column), lanes)


def prefetched(buffer: Buffer, at: Sequence[PrimExpr], locality: int = 2) -> Stmt:
    """Prefetch the cache line of an element; see `prefetch` for the locality."""
    return Evaluate(prefetch(BufferLoad(buffer, tuple(at)), locality=locality))


# ------------------------------------------------------------------------------------- computed operands


def vector_of(
    value: PrimExpr,
    column: Var,
    at: Mapping[Var, PrimExpr],
    lanes: int,
    known: Mapping[PrimExpr, PrimExpr] | None = None,
    mask: PrimExpr | None = None,
) -> PrimExpr:
    """Return the vector of a value, which `has_vectors`, for consecutive columns; `at` has its variables' first values.

    `known` has vectors that stand for parts of the value, for more than one lane. Other loads read only the lanes of
    `mask`, if there is one.
    """
    typed = {var: place.astype(str(var.dtype)) for var, place in at.items()}
    if lanes == 1:
        assert not known
        return substitute(value, typed)
    vector = in_lanes(value, column, typed[column], lanes, known or {}, mask)
    assert vector is not None
    return substitute(vector, typed)


def has_vectors(value: PrimExpr, column: Var) -> bool:
    """True if a value for consecutive columns can be computed in vectors."""
    return in_lanes(value, column, column, 2, {}, None) is not None


def runs_along(load: BufferLoad, column: Var) -> bool:
    """True if a load is contiguous along a column, or depends on it only by what other loads return."""
    *outer, last = load.indices
    is_next = is_compact(load.buffer) and is_const(simplify(substitute(last, {column: column + 1}) - last), 1)
    return not any(_is_direct(index, column) for index in outer) and (is_next or not _is_direct(last, column))


def _is_direct(index: PrimExpr, column: Var) -> bool:
    """True if an index depends on a column other than by what loads return."""
    return any(part is column for part in _Outside().parts(index))


class _Outside(StmtExprVisitor):
    """Collects the parts of an expression that are outside of loads."""

    def parts(self, expr: PrimExpr) -> list[object]:
        """Return the parts."""
        self.found: list[object] = []
        self.visit(expr)
        return self.found

    def visit(self, node: Any) -> None:
        self.found.append(node)
        if not isinstance(node, BufferLoad):
            super().visit(node)
