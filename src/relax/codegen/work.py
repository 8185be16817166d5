"""An estimate of the work of a parallel loop, which decides how many iterations a thread takes at once.

The unit is one operation on one element: a load, a store, an addition; about a quarter of a nanosecond, because LLVM
turns several of them into one instruction. What is vectors already counts by instructions: arithmetic, of which a core
does two in a cycle, little; a load or a store as much as the second-level cache takes, unless its buffer is kept in
registers; a function such as exp for what it is made of. Sizes that the function's parameters tell count as they are
when the loop runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from ..ir import DataType, GlobalVar
from ..prim import (
    Add,
    BinaryExpr,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Select,
    Sub,
    Var,
    post_order,
)
from ..tir import (
    AllocBuffer,
    AssertStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
)
from ..tir.transform import PARALLEL_RANGE
from .context import Context
from .formula import Val
from .index import index

Work: TypeAlias = "float | Val"
"""A number of operations: known when compiling, or a double."""

CHUNK_WORK: Final = 16384
"""The least work of one chunk: some microseconds, where claiming it takes 0.1 µs."""
LOOP_WORK: Final = 4 * CHUNK_WORK
"""The least work of a loop that runs on several threads: to wake a thread takes as long."""

_UNKNOWN_EXTENT: Final = 16.0
"""The iterations of a loop whose length depends on loops around it, or on memory."""
_UNKNOWN_CALL: Final = 1e4
_ELEMENTARY: Final = 16.0
_VECTOR_ARITHMETIC: Final = 0.5
_VECTOR_ACCESS: Final = 4.0
_VECTOR_ELEMENTARY: Final = 24.0


def work_of_iteration(cx: Context, func: PrimFunc) -> Work | None:
    """The work of one iteration of the loop that an outlined function runs a part of; None if it has no such loop.

    The function's parameters and sizes must be bound in the context.
    """
    body: Stmt = func.body
    while isinstance(body, (DeclBuffer, AllocBuffer, LetStmt, AssertStmt)):
        body = body.body
    if not isinstance(body, For) or PARALLEL_RANGE not in body.annotations:
        return None
    return _total([1.0, _of(cx, body.body)])


def _of(cx: Context, stmt: Stmt) -> Work:
    match stmt:
        case SeqStmt(seq):
            return _total(_of(cx, part) for part in seq)
        case For(_, _, extent, _, body):
            return _times(_extent(cx, extent), _of(cx, body))
        case While(condition, body):
            return _times(_UNKNOWN_EXTENT, _total([_operations(cx, condition), _of(cx, body)]))
        case IfThenElse(condition, then_case, else_case):
            arms = [_of(cx, then_case)] + ([] if else_case is None else [_of(cx, else_case)])
            return _total([_operations(cx, condition), *arms])
        case LetStmt(_, value, body):
            return _total([_operations(cx, value), _of(cx, body)])
        case BufferStore(buffer, value):
            return _operations(cx, value) + _access(cx, buffer, value.dtype)
        case Evaluate(value):
            return _operations(cx, value)
        case AllocBuffer() | DeclBuffer() | AssertStmt():
            return _of(cx, stmt.body)
        case _:
            return 1.0


def _operations(cx: Context, expr: PrimExpr) -> float:
    """The operations of an expression. Those on integers alone are index arithmetic, and cost next to nothing."""
    total = 0.0

    def visit(part: PrimExpr) -> None:
        nonlocal total
        vectors = _vectors(cx, part.dtype)
        if isinstance(part, BufferLoad):
            total += _access(cx, part.buffer, part.dtype)
        elif isinstance(part, (BinaryExpr, Select)) and part.dtype.is_float:
            total += vectors * _VECTOR_ARITHMETIC or 1.0
        elif isinstance(part, Call):
            called = _UNKNOWN_CALL if isinstance(part.op, GlobalVar) else _ELEMENTARY
            total += 1.0 if _asks(part) else vectors * _VECTOR_ELEMENTARY or called

    post_order(expr, visit)
    return total


def _asks(call: Call) -> bool:
    """True for a prefetch, which nothing waits for."""
    return not isinstance(call.op, GlobalVar) and call.op.name == "tir.prefetch"


def _access(cx: Context, buffer: Buffer, dtype: DataType) -> float:
    """The operations of a load or a store."""
    if buffer.scope == "local":
        return 0.0
    return _vectors(cx, dtype) * _VECTOR_ACCESS or 1.0


def _vectors(cx: Context, dtype: DataType) -> int:
    """The number of the machine's vectors in a value; 0 for a single number."""
    return 0 if dtype.lanes <= 1 else -(-dtype.lanes * dtype.bits // cx.unit.target.vector_bits)


def _extent(cx: Context, extent: PrimExpr) -> Work:
    if isinstance(extent, IntImm):
        return float(max(extent.value, 0))
    if not _is_plain(cx, extent):
        return _UNKNOWN_EXTENT
    return index(cx, extent).intrinsic("smax", 0).to("double")


def _is_plain(cx: Context, expr: PrimExpr) -> bool:
    """True for arithmetic that cannot fail over variables that have a value here."""
    match expr:
        case IntImm():
            return True
        case Var():
            return expr in cx.vars or expr in cx.wide
        case Add(a, b) | Sub(a, b) | Mul(a, b) | Min(a, b) | Max(a, b):
            return _is_plain(cx, a) and _is_plain(cx, b)
        case FloorDiv(a, b) | FloorMod(a, b):
            return isinstance(b, IntImm) and b.value > 0 and _is_plain(cx, a)
        case Cast(_, value):
            return expr.dtype.is_integer and value.dtype.is_integer and _is_plain(cx, value)
        case _:
            return False


def _times(a: Work, b: Work) -> Work:
    if isinstance(a, Val):
        return a * b
    return b * a


def _total(parts: Iterable[Work]) -> Work:
    known, others = 0.0, None
    for part in parts:
        if isinstance(part, Val):
            others = part if others is None else others + part
        else:
            known += part
    return known if others is None else others + known
