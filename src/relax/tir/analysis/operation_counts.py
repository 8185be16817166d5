"""Number of arithmetic operations of a call, as an expression of the function's sizes."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import add, mul
from typing import TypeAlias, cast

from ...prim import IntImm, PrimExpr, Var, const
from ...prim.functor import free_vars
from ..stmt import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
)
from .flops import ESTIMATED_FLOPS, estimate_tir_flops

_Terms: TypeAlias = "Counter[tuple[PrimExpr, ...]]"
"""Number of operations by the dynamic extents of their enclosing loops."""


class _Unknown(Exception):
    """Raised if the number of operations does not depend on sizes and scalar parameters alone."""


def operation_count(func: PrimFunc) -> PrimExpr | None:
    """Return the number of arithmetic operations of a call, as an expression of the function's sizes and scalars.

    Operations count as in `estimate_tir_flops`: ``n * 64`` for the product of an (n, 4) by a (4, 8) matrix. None if the
    number depends on computed values (extents bound within the function, a `while`), or does not fit int64: a shared
    subexpression counts at each occurrence, which may be exponential.
    """
    if ESTIMATED_FLOPS in func.attrs:
        return const(int(cast(int, func.attrs[ESTIMATED_FLOPS])), "int64")
    inputs = {var for buffer in func.buffer_map.values() for dim in buffer.shape for var in free_vars(dim)}
    try:
        terms = _terms(func.body, inputs | set(func.params))
    except _Unknown:
        return None
    if sum(terms.values()) >= 1 << 63:
        return None
    products = [reduce(mul, extents, const(count, "int64")) for extents, count in terms.items() if count]
    return reduce(add, products, const(0, "int64"))


def _terms(stmt: Stmt, inputs: set[Var]) -> _Terms:
    match stmt:
        case BufferStore() | Evaluate():
            return Counter({(): int(estimate_tir_flops(stmt))})
        case SeqStmt(seq):
            nothing: _Terms = Counter()
            return reduce(add, (_terms(child, inputs) for child in seq), nothing)
        case For():
            return _loop(stmt, inputs)
        case IfThenElse(_, then_case, else_case):
            cases = [_terms(case, inputs) for case in (then_case, else_case) if case is not None]
            return max(cases, key=lambda terms: sum(terms.values()))
        case LetStmt(_, value, body):
            return Counter({(): int(estimate_tir_flops(Evaluate(value)))}) + _terms(body, inputs)
        case BlockRealize(_, _, block):
            init: _Terms = Counter() if block.init is None else _terms(block.init, inputs)
            return init + _terms(block.body, inputs)
        case AllocBuffer(body=body) | DeclBuffer(body=body) | AttrStmt(body=body) | AssertStmt(body=body):
            return _terms(body, inputs)
        case _:
            raise _Unknown


def _loop(loop: For, inputs: set[Var]) -> _Terms:
    terms = _terms(loop.body, inputs)
    if isinstance(loop.extent, IntImm):
        return Counter({extents: count * max(loop.extent.value, 0) for extents, count in terms.items()})
    if not inputs.issuperset(free_vars(loop.extent)):
        raise _Unknown
    return Counter({(*extents, loop.extent): count for extents, count in terms.items()})
