"""Sums of floats in serial loops, for nests that no other rule rewrites and for targets below -opt-level=2.

    for i, k in T.grid(4, 1000):                    for i in range(4):
        with T.block("sum"):                            total = 0.0                                  float64
            with T.init(): S[i] = 0.0                   for b in range(32):
            S[i] = S[i] + A[k, i]                           block = 0.0                              float32
                                                            for k in range(min(32, 1000 - b * 32)):
                                                                block += A[b * 32 + k, i]
                                                            total += float64(block)
                                                        S[i] = float32(total)

The error of such a sum is bounded as that of any other (`sum_blocks`), and so is that of a running sum, whose carry is
float64 (`scans`).

Not supported: functions without tir.noalias, as a result is stored after all its terms are read; products of two
buffers, which are left to the rules for them.
"""

from __future__ import annotations

from typing import Final

from ....prim import Add, Cast, Mul, PrimExpr
from ....target import Target
from ....tir import BufferLoad, BufferStore, PrimFunc, Stmt
from ....tir.nests import nest_of
from ....tir.renew import renew_bound_vars
from ...rule import Refusal, ScheduleRule
from ...stages import Stage, group_of
from .lanes import nested
from .passes import Element
from .scans import rewritten_statements, scan_of
from .sum_blocks import TERMS, blocks_of, is_float_sum, updated

_SHORT: Final = Refusal(f"the sum has at most {TERMS} terms, or is a running one of other values than floats")


class PlainSums(ScheduleRule):
    """Schedule rule for sums in serial loops."""

    complements = True

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del target, tunable
        return rewritten_statements(func, _summed)


def _summed(stmt: Stmt) -> Stmt | Refusal:
    """Return the loops of a long sum or running sum in blocks."""
    scan = scan_of(stmt)
    if scan:
        return scan.plain() if scan.is_long_float_sum else _SHORT
    nest = nest_of(stmt)
    group = None if nest is None or not nest.is_reduction else group_of([nest])
    if group is None or not is_float_sum(group.stages[0]):
        return Refusal("no nest is a sum of floats", unrelated=True)
    (stage,) = group.stages
    elements = group.elements(stage)
    if _is_product(stage):
        return Refusal("products of two buffers are summed", unrelated=True)
    if not elements or blocks_of(elements) is None:
        return _SHORT
    written = {buffer.data for buffer in stage.buffers}
    if any(load.buffer.data in written for load in stage.loads()):
        return Refusal("a term reads the memory of the results")
    return renew_bound_vars(nested(group.rows, updated(elements, Element((), (), (stage,)))))


def _is_product(stage: Stage) -> bool:
    """True for a sum of products of elements of two buffers."""
    body = stage.body
    if not isinstance(body, BufferStore) or not isinstance(body.value, Add):
        return False
    factors = [
        (_without_cast(term.a), _without_cast(term.b))
        for term in map(_without_cast, (body.value.a, body.value.b))
        if isinstance(term, Mul)
    ]
    return any(isinstance(a, BufferLoad) and isinstance(b, BufferLoad) and a.buffer is not b.buffer for a, b in factors)


def _without_cast(value: PrimExpr) -> PrimExpr:
    return value.value if isinstance(value, Cast) else value
