"""Operands of a tile in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....prim import PrimExpr
from ....prim.instructions import prefetch
from ....tir import Buffer, BufferLoad, Evaluate, Stmt
from ...build import vector_load


def row_at(buffer: Buffer, at: Sequence[PrimExpr], lanes: int) -> Callable[[PrimExpr], PrimExpr]:
    """Return the function from first columns to the vectors of the row of a buffer that begins at `at`."""
    *outer, start = at
    return lambda column: vector_load(buffer, (*outer, start + column), lanes)


def prefetched(buffer: Buffer, at: Sequence[PrimExpr], locality: int = 2) -> Stmt:
    """Prefetch the cache line of an element; see `prefetch` for the locality."""
    return Evaluate(prefetch(BufferLoad(buffer, tuple(at)), locality=locality))
