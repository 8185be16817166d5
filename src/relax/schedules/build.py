"""Small builders of TIR for rules: loops from Python functions, vectors, allocations."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..prim import PrimExpr, Var, const
from ..tir import AllocBuffer, Broadcast, Buffer, BufferLoad, BufferStore, For, ForKind, LetStmt, Ramp, Stmt
from ..tir.buffer import decl_buffer
from ..tir.statements import seq_of

Body = Callable[[Var], Stmt]


def int64(value: int | PrimExpr) -> PrimExpr:
    """An index: numbers become int64."""
    return const(value, "int64") if isinstance(value, int) else value.astype("int64")


def loop(name: str, extent: int | PrimExpr, body: Body, kind: ForKind = ForKind.SERIAL) -> Stmt:
    """A loop from 0 to `extent` over what `body` makes of its variable."""
    var = Var(name, "int64")
    return For(var, const(0, "int64"), int64(extent), kind, body(var))


def let(name: str, value: PrimExpr, body: Body) -> Stmt:
    """A let: `body` is told the variable that stands for the value."""
    var = Var(name, value.dtype)
    return LetStmt(var, value, body(var))


def alloc(
    name: str, shape: Iterable[int | PrimExpr], dtype: str, scope: str, body: Callable[[Buffer], Stmt]
) -> Stmt:
    """An allocation: `body` is told the buffer, which lives as long as it runs."""
    buffer = decl_buffer([int64(size) for size in shape], dtype, name, scope=scope)
    return AllocBuffer(buffer, body(buffer))


def ramp(start: int | PrimExpr, lanes: int) -> PrimExpr:
    """The indices start, start + 1, …"""
    return Ramp(int64(start), const(1, "int64"), lanes) if lanes > 1 else int64(start)


def vector_load(buffer: Buffer, indices: Iterable[int | PrimExpr], lanes: int) -> PrimExpr:
    """Neighbouring elements, the first of which has these indices."""
    *outer, last = indices
    return BufferLoad(buffer, (*map(int64, outer), ramp(last, lanes)))


def vector_store(buffer: Buffer, indices: Iterable[int | PrimExpr], value: PrimExpr) -> Stmt:
    """Store a vector into neighbouring elements, the first of which has these indices."""
    *outer, last = indices
    lanes = value.dtype.lanes
    return BufferStore(buffer, value, (*map(int64, outer), ramp(last, lanes)))


def spread(value: PrimExpr, lanes: int) -> PrimExpr:
    """A vector of equal elements."""
    return Broadcast(value, lanes) if lanes > 1 else value


def block(stmts: Iterable[Stmt]) -> Stmt:
    """Statements one after the other."""
    return seq_of(stmts)


__all__ = ["alloc", "block", "int64", "let", "loop", "ramp", "spread", "vector_load", "vector_store"]
