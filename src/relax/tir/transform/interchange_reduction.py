"""Interchange reduction loops so that the innermost loop has unit stride.

    for j in range(m):                            for j in range(m):
        C[i, j] = 0                                   C[i, j] = 0
        for k in range(n):               gives    for k in range(n):
            C[i, j] += A[i, k] * B[k, j]              for j in range(m):
                                                          C[i, j] += A[i, k] * B[k, j]

The order of summation of each element does not change, so results are bit-identical; the inner loop now accesses
adjacent elements and can be vectorised.

Declines unless the interchange is proved to be safe: the iterations of `j` write different elements and read no other
element of that buffer, bounds of the reduction do not depend on `j`, there are no effects, and buffers do not alias
(`tir.noalias`). Declines where it does not pay: if an operand would be read with a larger stride, or if the innermost
reduction loop has unit stride in all operands and is not short.
"""

from __future__ import annotations

from typing import NamedTuple

from ...ir import structural_equal
from ...prim import IntImm, PrimExpr, Var, simplify
from ..dependence import loads_in, reads_no_other
from ..functor import StmtMutator, substitute
from ..statements import seq_of
from ..stmt import BufferStore, For, ForKind, IfThenElse, PrimFunc, SeqStmt, Stmt
from ..usage import free_vars
from .each_prim_func import each_prim_func

SHORT = 16
"""Iterations below which a reduction loop does not pay as innermost loop, even with unit stride."""


class _Nest(NamedTuple):
    """The parts of an interchange candidate."""

    starts: tuple[BufferStore, ...]
    loops: tuple[For, ...]
    condition: PrimExpr | None
    update: BufferStore


def interchange_reduction(func: PrimFunc) -> PrimFunc:
    """Return the function with reduction loops moved outside of unit-stride loops."""
    if not func.attrs.get("tir.noalias"):
        return func
    return func.replace(body=_Interchange().visit(func.body))


class _Interchange(StmtMutator):
    def visit_For(self, node: For) -> Stmt:
        loop = self.visit_children(node)
        nest = _nest(loop)
        if nest is None or not _is_safe(loop.loop_var, nest) or not _pays(loop.loop_var, nest):
            return loop
        return _interchanged(loop, nest)


def _nest(loop: For) -> _Nest | None:
    """Match a serial loop over [initial stores, serial loops over one update]; None for other loops."""
    if not _is_plain(loop) or (isinstance(loop.body, SeqStmt) and not loop.body.seq):
        return None
    *before, last = loop.body.seq if isinstance(loop.body, SeqStmt) else (loop.body,)
    starts = [stmt for stmt in before if isinstance(stmt, BufferStore) and stmt.predicate is None]
    loops: list[For] = []
    while isinstance(last, For) and _is_plain(last):
        loops.append(last)
        last = last.body
    condition = None
    if isinstance(last, IfThenElse) and last.else_case is None:
        condition, last = last.condition, last.then_case
    if not loops or not isinstance(last, BufferStore) or last.predicate is not None or len(starts) != len(before):
        return None
    return _Nest(tuple(starts), tuple(loops), condition, last)


def _is_plain(loop: For) -> bool:
    return loop.kind is ForKind.SERIAL and not loop.annotations


def _is_safe(j: Var, nest: _Nest) -> bool:
    """True if the iterations of `j` are independent, including the reduction."""
    target, indices = nest.update.buffer, nest.update.indices
    if not indices or _stride(indices, j) != 1:
        return False
    bounds = [bound for loop in nest.loops for bound in (loop.min, loop.extent)]
    if any(j in free_vars(bound) or loads_in(bound) for bound in bounds):
        return False
    if any(loop.loop_var in free_vars(index) for loop in nest.loops for index in indices):
        return False
    for start in nest.starts:
        same_place = start.buffer is target and structural_equal(start.indices, indices)
        if not same_place or any(load.buffer.data is target.data for load in loads_in(start.value)):
            return False
    return all(reads_no_other(expr, target, indices) for expr in _inner(nest))


def _pays(j: Var, nest: _Nest) -> bool:
    """True if `j` has stride 0 or 1 in every load, and the innermost reduction loop has a larger stride or is short."""
    loads = [load for expr in _inner(nest) for load in loads_in(expr) if load.buffer is not nest.update.buffer]
    if not loads or any(_stride(load.indices, j) not in (0, 1) for load in loads):
        return False
    k = nest.loops[-1]
    short = isinstance(k.extent, IntImm) and k.extent.value < SHORT
    return short or any(_stride(load.indices, k.loop_var) not in (0, 1) for load in loads)


def _inner(nest: _Nest) -> tuple[PrimExpr, ...]:
    """Return the expressions evaluated in the innermost loop."""
    value = nest.update.value
    return (value,) if nest.condition is None else (nest.condition, value)


def _stride(indices: tuple[PrimExpr, ...], var: Var) -> int | None:
    """Return the stride of `var` in the last index: 0 if it does not occur; None if not constant or in another
    index.
    """
    if any(var in free_vars(index) for index in indices[:-1]):
        return None
    if not indices or var not in free_vars(indices[-1]):
        return 0
    step = simplify(substitute(indices[-1], {var: var + 1}) - indices[-1])
    return step.value if isinstance(step, IntImm) else None


def _interchanged(loop: For, nest: _Nest) -> Stmt:
    j = Var(loop.loop_var.name, loop.loop_var.dtype)
    body: Stmt = nest.update
    if nest.condition is not None:
        body = IfThenElse(nest.condition, body)
    body = loop.replace(loop_var=j, body=substitute(body, {loop.loop_var: j}))
    for inner in reversed(nest.loops):
        body = inner.replace(body=body)
    return seq_of([loop.replace(body=seq_of(nest.starts)), body]) if nest.starts else body


InterchangeReduction = each_prim_func(interchange_reduction, "InterchangeReduction")
"""Pass: interchange reduction loops so that the innermost loop has unit stride."""
