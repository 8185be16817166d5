"""Order of the sums of attention to pages: parts of keys, folded from the first to the last.

    most = -inf, total = 0, sums = 0                                        of a row (a query and a head)
    for each part of the keys, a fixed range of positions:
        greatest = max of the scores                                        -inf where no key counts for the row
        weights = exp(scores - greatest)
        added = Σ weights · values                                          from 0, token by token
        most' = max(most, greatest)
        total = total · exp(most - most') + Σ weights · exp(greatest - most')
        sums = sums · exp(most - most') + added · exp(greatest - most')

Nothing of a part depends on other parts, and folding one without a key that counts changes nothing. So a result has the
same bits whether one task folds the parts as it computes them, for any number of queries, or several tasks compute
parts that another one folds. The two products of a fold are rounded before they are added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....prim import Add, Mul, PrimExpr, Select, Var, const
from ....prim.instructions import vector_reduce_add
from ....prim.intrin import exp, log2
from ....tir import Buffer, BufferLoad, BufferStore, ForKind, Stmt
from ....topi.paged_attention import Parameters
from ...build import block, int64, let, loop, spread, vector_load, vector_store
from .paged_shapes import Memory

STATE = ("most", "greatest", "level", "old", "factor")
"""Buffers of `levels`, each with a number per row, padded to whole vectors."""


def levels(memory: Memory) -> Stmt:
    """Compute for all rows the level of a part's scores and both factors of the fold, and update "most"."""
    least, zero = const(-math.inf, "float32"), const(0.0, "float32")

    def at(name: str, r: Var) -> PrimExpr:
        return BufferLoad(memory[name], (r,))

    def finite(level: PrimExpr) -> PrimExpr:
        return Select(level.equal(least), zero, level)

    def row(r: Var) -> Stmt:
        def stored(before: Var, greatest: Var, most: Var, level: Var) -> Stmt:
            return block([
                BufferStore(memory["level"], finite(greatest), (r,)),
                BufferStore(memory["old"], exp(before - level), (r,)),
                BufferStore(memory["factor"], exp(greatest - level), (r,)),
                BufferStore(memory["most"], most, (r,)),
            ])  # fmt: skip

        return let("before", at("most", r), lambda before: let("greatest", at("greatest", r), lambda greatest: let(
            "most", Select(greatest > before, greatest, before), lambda most: let(
                "level", finite(most), lambda level: stored(before, greatest, most, level)))))  # fmt: skip

    return loop("r", memory["most"].shape[0], row, ForKind.VECTORIZED)


def folded(memory: Memory, r: PrimExpr, before: PrimExpr, added: PrimExpr) -> PrimExpr:
    """Return a row's sums with those of a part, of which both are vectors."""
    lanes = before.dtype.lanes
    old, factor = (spread(BufferLoad(memory[name], (r,)), lanes) for name in ("old", "factor"))
    return Add(Mul(before, old), Mul(added, factor))


def fold_row(memory: Memory, r: PrimExpr, lanes: int, name: str, added: Buffer, places: Sequence[PrimExpr]) -> Stmt:
    """Fold the last dimension of `added` at `places` into row `r` of the memory `name`."""
    sums = memory[name]
    columns = sums.shape[1]

    def vector(v: Var) -> Stmt:
        before, part = (vector_load(sums, (r, v * lanes), lanes), vector_load(added, (*places, v * lanes), lanes))
        return let("folded", folded(memory, r, before, part), lambda value: vector_store(sums, (r, v * lanes), value))

    return loop("v", columns // lanes, vector)


def total_of(memory: Memory, r: PrimExpr, lanes: int) -> PrimExpr:
    """Sum of the weights of a row."""
    return vector_reduce_add(vector_load(memory["totals"], (r, 0), lanes))


def result(
    of: Parameters, memory: Memory, r: PrimExpr, lanes: int, query: PrimExpr, head: PrimExpr,
) -> Stmt:  # fmt: skip
    """Store the result of a query head from its sums, the greatest score and the sum of the weights."""
    zero, least = const(0.0, "float32"), const(-math.inf, "float32")
    sums = memory["sums"]

    def stored(most: Var, total: Var) -> Stmt:
        level = Select(most.equal(least), zero, most)
        lse = level * const(math.log2(math.e), "float32") + log2(total)
        inverse = const(1.0, "float32") / total
        return block([
            let("inverse", inverse, lambda inverse: loop("c", of.heads.columns, lambda c: of.store(
                "out", Select(total.equal(zero), zero, BufferLoad(sums, (r, c)) * inverse), query, head, c),
                ForKind.VECTORIZED)),
            of.store("lse", lse, query, head),
        ])  # fmt: skip

    most = BufferLoad(memory["most"], (int64(r),))
    return let("most", most, lambda most: let(
        "total", total_of(memory, r, lanes), lambda total: stored(most, total)))  # fmt: skip


__all__ = ["STATE", "fold_row", "folded", "levels", "result", "total_of"]
