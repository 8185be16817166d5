"""Estimates for a parallel loop: its work, which determines the chunk size, and the bytes it stores.

The unit of work is one operation on one element (a load, a store, an addition): 0.1 to 0.25 ns, since LLVM combines
several of them in one instruction (AMD EPYC, Zen 4). Explicit vectors count by instruction: little for arithmetic, of
which a core executes two per cycle; as much as the second-level cache takes for a load or a store, unless its buffer is
kept in registers; a function such as exp by its instructions. Sizes and conditions that depend on the function's
parameters, directly or through variables, are evaluated at run time, with enclosing loops in the middle of their ranges
(`typical_iteration`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from ..ir import DataType, GlobalVar, walk
from ..native.formula import Val, constant, number_of
from ..prim import BinaryExpr, Call, PrimExpr, Select, Var, post_order
from ..prim.instructions import DOTS
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
from .typical_iteration import Values, middle, typical

Work: TypeAlias = "float | Val"
"""Number of operations: a constant, or a double at run time."""

CHUNK_WORK: Final = 16384
"""Minimum work of one chunk: some microseconds, while claiming it takes 0.1 µs."""
LOOP_WORK: Final = 4 * CHUNK_WORK
"""Minimum work of a loop run on several threads, about the time of waking a thread."""

SPLIT_WORK: Final = 1 << 18
"""Work, some 30 to 60 microseconds, from which a loop runs on several threads whatever it stores."""
BYTE_WORK: Final = 16
"""Work per stored byte that pays for several threads. With two, each finds half of its operands, and the consumer of
the results half of these, in the other core's cache. A cache line of 64 bytes takes 50 to 90 ns from there if the cores
share no cache.
"""

_UNKNOWN_EXTENT: Final = 16.0
"""Assumed iterations of a loop whose length depends on memory."""
_UNKNOWN_CALL: Final = 1e4
_ELEMENTARY: Final = 16.0
_VECTOR_ARITHMETIC: Final = 0.5
_VECTOR_ACCESS: Final = 4.0
_VECTOR_ELEMENTARY: Final = 24.0
_SIMPLE: Final = frozenset({
    "tir.fma", *(f"tir.dot_{name}" for name in DOTS), "tir.prefetch", "tir.reinterpret", "tir.likely",
    "tir.if_then_else", "tir.fabs", "tir.abs", "tir.copysign", "tir.floor", "tir.ceil", "tir.trunc", "tir.nearbyint",
    "tir.isnan", "tir.bitwise_and", "tir.bitwise_or", "tir.bitwise_xor", "tir.bitwise_not", "tir.shift_left",
    "tir.shift_right",
})  # fmt: skip
"""Functions of one or two instructions, or, as a prefetch, without latency."""


class _Measure(NamedTuple):
    """An estimated quantity: work, or bytes stored."""

    of: Callable[[Context, PrimExpr | BufferStore], float]
    """Amount added by an expression, or by the store of its value."""
    branch: Callable[[Context, Val | None, Work, Work], Work]
    """Amount added by a branch, from its condition (None if unknown) and the amounts of its arms."""


class IterationWork(NamedTuple):
    """Estimate of one iteration of a parallel loop."""

    work: Work
    stored: Work
    """Bytes stored."""


def work_of_iteration(cx: Context, func: PrimFunc) -> IterationWork | None:
    """Work of one iteration of the parallel loop in an outlined function; None if it has no such loop.

    The function's parameters and sizes must be bound in the context.
    """
    found = _loop_of(cx, func, {})
    if found is None:
        return None
    loop, values = found
    work = _total([1.0, _of(cx, loop.body, values, _WORK)])
    stored = _Measure(partial(_stored, _allocated(loop)), _greater)
    return IterationWork(work, _of(cx, loop.body, values, stored))


def _allocated(loop: For) -> frozenset[Var]:
    """Memory private to each iteration."""
    found: set[Var] = set()
    walk(loop, lambda node: found.add(node.buffer.data) if isinstance(node, AllocBuffer) else None)
    return frozenset(found)


def _loop_of(cx: Context, func: PrimFunc, values: Values) -> tuple[For, Values] | None:
    """The parallel loop in an outlined function, with the values of its variable and of those around it."""
    body: Stmt = func.body
    while isinstance(body, (DeclBuffer, AllocBuffer, LetStmt, AssertStmt)):
        if isinstance(body, LetStmt):
            values = _with(values, body.var, typical(cx, body.value, values))
        body = body.body
    if not isinstance(body, For) or PARALLEL_RANGE not in body.annotations:
        return None
    return body, _with(values, body.loop_var, middle(cx, body, values))


def _of_shared(cx: Context, call: Call, values: Values, measure: _Measure) -> Work:
    """Work of a nested parallel loop: a call of the function with its iterations."""
    func = cx.unit.functions.get(call.op.name_hint) if isinstance(call.op, GlobalVar) else None
    passed: Values = {}
    for param, arg in zip(() if func is None else func.params, call.args, strict=False):
        passed = _with(passed, param, typical(cx, arg, values))
    found = None if func is None else _loop_of(cx, func, passed)
    if found is None:
        return measure.of(cx, call)
    loop, inside = found
    return _times(_extent(cx, loop.extent, inside), _of(cx, loop.body, inside, measure))


def _of(cx: Context, stmt: Stmt, values: Values, measure: _Measure) -> Work:
    match stmt:
        case SeqStmt(seq):
            return _total(_of(cx, part, values, measure) for part in seq)
        case For(var, _, extent, _, body):
            inside = _of(cx, body, _with(values, var, middle(cx, stmt, values)), measure)
            return _times(_extent(cx, extent, values), inside)
        case While(condition, body):
            return _times(_UNKNOWN_EXTENT, _total([measure.of(cx, condition), _of(cx, body, values, measure)]))
        case IfThenElse(condition, then_case, else_case):
            otherwise = 0.0 if else_case is None else _of(cx, else_case, values, measure)
            arms = _of(cx, then_case, values, measure), otherwise
            return _total([measure.of(cx, condition), measure.branch(cx, typical(cx, condition, values), *arms)])
        case LetStmt(var, value, body):
            inside = _of(cx, body, _with(values, var, typical(cx, value, values)), measure)
            return _total([measure.of(cx, value), inside])
        case BufferStore():
            return measure.of(cx, stmt)
        case Evaluate(Call(_, _, (Call() as called, *_)) as value) if value.intrinsic == "parallel_for":
            return _of_shared(cx, called, values, measure)
        case Evaluate(value):
            return measure.of(cx, value)
        case AllocBuffer() | DeclBuffer() | AssertStmt():
            return _of(cx, stmt.body, values, measure)
        case _:
            return 0.0


def _with(values: Values, var: Var, value: Val | None) -> dict[Var, Val]:
    """Copy of `values` with `var` added, unless `value` is None."""
    return {**values} if value is None else {**values, var: value}


def _either(cx: Context, met: Val | None, then: Work, otherwise: Work) -> Work:
    """Work of a branch; of both arms if the condition is unknown."""
    if met is None:
        return _total([then, otherwise])
    if met.ref in ("true", "false"):
        return then if met.ref == "true" else otherwise
    if not isinstance(then, Val):
        then = constant(cx.b, "double", 1, then)
    return met.choose(then, otherwise)


def _greater(cx: Context, met: Val | None, then: Work, otherwise: Work) -> Work:
    """Maximum of both arms: in the middle of loops over few rows and their margins nothing may be stored."""
    if isinstance(then, Val):
        return then.intrinsic("maxnum", otherwise)
    return otherwise.intrinsic("maxnum", then) if isinstance(otherwise, Val) else max(then, otherwise)


def _stored(own: frozenset[Var], _: Context, part: PrimExpr | BufferStore) -> float:
    """Bytes of results that a statement stores, not counting memory private to an iteration."""
    if not isinstance(part, BufferStore) or part.buffer.data in own:
        return 0.0
    return part.value.dtype.lanes * max(part.value.dtype.bits // 8, 1)


def _operations(cx: Context, expr: PrimExpr | BufferStore) -> float:
    """Work of an expression. Integer operations are index arithmetic and nearly free."""
    if isinstance(expr, BufferStore):
        return _operations(cx, expr.value) + _access(cx, expr.buffer, expr.value.dtype)
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
            total += max(vectors, 1) if _is_simple(part) else vectors * _VECTOR_ELEMENTARY or called

    post_order(expr, visit)
    return total


_WORK: Final = _Measure(_operations, _either)


def _is_simple(call: Call) -> bool:
    return not isinstance(call.op, GlobalVar) and call.op.name in _SIMPLE


def _access(cx: Context, buffer: Buffer, dtype: DataType) -> float:
    """Work of a load or a store."""
    if buffer.scope == "local":
        return 0.0
    return _vectors(cx, dtype) * _VECTOR_ACCESS or 1.0


def _vectors(cx: Context, dtype: DataType) -> int:
    """Number of vector registers a value takes; 0 for a scalar."""
    return 0 if dtype.lanes <= 1 else -(-dtype.lanes * dtype.bits // cx.unit.target.vector_bits)


def _extent(cx: Context, extent: PrimExpr, values: Values) -> Work:
    count = typical(cx, extent, values)
    if count is None:
        return _UNKNOWN_EXTENT
    number = number_of(count.ref, "i64")
    return count.intrinsic("smax", 0).to("double") if number is None else float(max(number, 0))


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
