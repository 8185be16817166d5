"""Small builders of TIR for rules: loops from Python functions, vectors, allocations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..prim import IntImm, PrimExpr, SizeVar, Var, const, is_const
from ..prim.intrin import floordiv, floormod
from ..tir import (
    AllocBuffer,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    LetStmt,
    Ramp,
    Stmt,
)
from ..tir.buffer import decl_buffer
from ..tir.statements import seq_of
from ..tir.stmt import OWN_FUNCTION, STAYS_PARALLEL

Body = Callable[[Var], Stmt]


def int64(value: int | PrimExpr) -> PrimExpr:
    """An index: numbers become int64."""
    return const(value, "int64") if isinstance(value, int) else value.astype("int64")


def loop(name: str, extent: int | PrimExpr, body: Body, kind: ForKind = ForKind.SERIAL) -> Stmt:
    """A loop from 0 to `extent` over what `body` makes of its variable."""
    var = Var(name, "int64")
    return For(var, const(0, "int64"), int64(extent), kind, body(var))


def apart(name: str, extent: int | PrimExpr, body: Body) -> Stmt:
    """A loop from 0 to `extent` in a function of its own, which leaves the registers to the loops around it."""
    var = Var(name, "int64")
    zero, annotations = const(0, "int64"), {OWN_FUNCTION: True}
    return For(var, zero, int64(extent), ForKind.SERIAL, body(var), annotations)


def shared(name: str, extent: int | PrimExpr, body: Body) -> Stmt:
    """A parallel loop inside of another one, which threads share if they do not share the one around it."""
    var = Var(name, "int64")
    zero, annotations = const(0, "int64"), {STAYS_PARALLEL: True}
    return For(var, zero, int64(extent), ForKind.PARALLEL, body(var), annotations)


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


def scratch(name: str, shape: Iterable[int | PrimExpr], dtype: str, body: Callable[[Buffer], Stmt]) -> Stmt:
    """An allocation that is used through a view: passes do not make it as small as what is used of it.

    Whole vectors reach beyond that, and an index is proven to be below the size that is written at once.
    """

    def viewed(buffer: Buffer) -> Stmt:
        view = decl_buffer(buffer.shape, dtype, name, data=buffer.data)
        return DeclBuffer(view, body(view))

    return alloc(f"{name}_memory", shape, dtype, "global", viewed)


def ramp(start: int | PrimExpr, lanes: int) -> PrimExpr:
    """The indices start, start + 1, …"""
    return Ramp(int64(start), const(1, "int64"), lanes) if lanes > 1 else int64(start)


def vector_load(
    buffer: Buffer, indices: Iterable[int | PrimExpr], lanes: int, mask: PrimExpr | None = None
) -> PrimExpr:
    """Neighbouring elements, the first of which has these indices; 0 in the lanes that a mask leaves out."""
    *outer, last = indices
    return BufferLoad(buffer, (*map(int64, outer), ramp(last, lanes)), mask)


def vector_store(
    buffer: Buffer, indices: Iterable[int | PrimExpr], value: PrimExpr, mask: PrimExpr | None = None
) -> Stmt:
    """Store a vector into neighbouring elements, the first of which has these indices, or the lanes of a mask."""
    *outer, last = indices
    lanes = value.dtype.lanes
    return BufferStore(buffer, value, (*map(int64, outer), ramp(last, lanes)), mask)


def spread(value: PrimExpr, lanes: int) -> PrimExpr:
    """A vector of equal elements."""
    return Broadcast(value, lanes) if lanes > 1 else value


def block(stmts: Iterable[Stmt]) -> Stmt:
    """Statements one after the other."""
    return seq_of(stmts)


def named(name: str, value: PrimExpr, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """`body` of a size, which has a name unless it is a number or a variable: proofs need not look at what it is."""
    if isinstance(value, (IntImm, Var)):
        return body(value)
    var = SizeVar(name, "int64")
    return LetStmt(var, value, body(var))


def digits(
    index: PrimExpr, names: Sequence[str], sizes: Sequence[PrimExpr], body: Callable[[list[PrimExpr]], Stmt]
) -> Stmt:
    """`body` of the digits of an index in mixed radix, of which the last one counts fastest."""
    several = [i for i, size in enumerate(sizes) if not is_const(size, 1)]
    parts: list[PrimExpr] = [int64(0) for _ in sizes]
    values: list[tuple[Var, PrimExpr]] = []
    for i in reversed(several):
        if i == several[0]:
            value, index = index, int64(0)
        else:
            value, index = floormod(index, sizes[i]), floordiv(index, sizes[i])
        if isinstance(value, Var):
            parts[i] = value
        else:
            parts[i] = var = SizeVar(names[i], "int64")
            values.append((var, value))
    result = body(parts)
    for var, value in reversed(values):
        result = LetStmt(var, value, result)
    return result


__all__ = [
    "alloc", "block", "digits", "int64", "let", "loop", "named", "ramp", "scratch", "shared", "spread", "vector_load",
    "vector_store",
]  # fmt: skip
