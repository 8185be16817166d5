"""Attention in one pass over keys and values, without storing the scores (the chain of nests of `tir.attention`).

    S[b, i, j] = Σ_k Q[b, i, k] · K[b, j, k]         for task in T.parallel(batch * blocks):     64 queries at a time
    X[b, i, j] = S[b, i, j] * c + mask[b, i, j]          queries[0:d, 0:64] = Q[b, 64 queries, :]ᵀ
    M[b, i]    = max_j X[b, i, j]                        most, total, sums[0:dv, 0:64] = -inf, 0, 0
    W[b, i, j] = exp(X[b, i, j] - M[b, i])               for ko in range(ceildiv(n, 60)):        60 keys at a time
    T[b, i]    = Σ_j W[b, i, j]                              for io in range(10):                six keys at a time
    O[b, i, d] = Σ_j W[b, i, j] · V[b, j, d]                     acc = Σ_k K[key + p, k] * queries[k, :]   p in 0 .. 5
    R[b, i, d] = O[b, i, d] / T[b, i]                            weights[io * 6 + p, :] = X of acc
                                                                 new = max(new, weights[io * 6 + p, :])
                                                             old = exp(most - new)               most = new
                                                             weights = exp(weights - most)
                                                             total = total * old + Σ weights
                                                             for co in range(11):                six columns at a time
                                                                 acc = sums[co * 6 + p, :] * old
                                                                 acc += V[key, co * 6 + p] * weights[key, :]
                                                                 sums[co * 6 + p, :] = acc
                                                         R[b, 64 queries, :] = (sums / total)ᵀ

Vectors run along queries: elements of keys and values are broadcast as they lie in memory, and maxima, exponentials and
sums need no cross-lane operations. Queries and results are transposed once each. The running maximum is that of M.
Milakov and N. Gimelshein, *Online normalizer calculation for softmax*, 2018; blocking over queries and keys follows T.
Dao et al., *FlashAttention*, 2022.

Masks are read through transposed copies of blocks. Keys hidden from all queries of a block by a condition on positions
are skipped, unless `relax.fast_algorithms` is False: an infinite or NaN value there is then ignored instead of
producing NaN.

Not supported: functions without tir.noalias, heads of dynamic size or more than 512 elements, and small attention.
`decoding` has the loops for few queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ....prim import IntImm
from ....target import Target
from ....tir import IfThenElse, PrimFunc, Stmt
from ....tir.attention import Attention, attention_of
from ....tir.nests import root_of, with_root
from ...build import size_of
from ...rule import ALIASED, Refusal, ScheduleRule
from ...space import Space
from ..products.operands import few_multiplications
from ..tile.division import shapes_of_tiles
from ..tile.parameters import TALLEST
from .blocks import AttentionParameters, Streamed
from .decoding import FEW_QUERIES, Decoded
from .rounded import Rounded

LONGEST: Final = 512
"""Largest supported head dimension."""


class StreamedAttention(ScheduleRule):
    """Schedule rule for attention."""

    parameters = AttentionParameters()

    def space(self, target: Target) -> Space[AttentionParameters]:
        """Return the shapes of register tiles, and the keys of a block, for attention in blocks of queries."""
        tiles = (None, *shapes_of_tiles(target, TALLEST))
        return Space(AttentionParameters, {"tile": tiles, "keys": (None, 4, 8, 12, 16, 24)})

    def accepts(self, func: PrimFunc, target: Target | None, constants: Sequence[int] = ()) -> Attention | Refusal:
        """Return the attention that a function computes."""
        del target, constants
        one = attention_of(func)
        if one is None:
            return Refusal("the function is not a softmax of products, times values", unrelated=True)
        if not func.attrs.get("tir.noalias"):
            return ALIASED
        refusal = _refusal(one)
        return one if refusal is None else refusal

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable
        one = self.accepts(func, target)
        if isinstance(one, Refusal):
            return one
        written = written_attention(one, target, self.parameters)
        stmts: list[Stmt] = []
        for position, stmt in enumerate(root_of(func)[1]):
            if position not in one.chain:
                stmts.append(stmt)
            elif position == max(one.chain):
                stmts.append(written)
        return with_root(func, stmts, tuple(one.inner))


def written_attention(one: Attention, target: Target, parameters: AttentionParameters) -> Stmt:
    """Return the loops of an attention: query by query for few queries, else in blocks of one or more vectors of
    queries.
    """
    rows = size_of(one.row)
    in_blocks = Streamed if one.rounded is None else Rounded
    blocks = partial(in_blocks, one, target, parameters=parameters)
    if not one.is_streamable:
        return blocks().tasks()
    if isinstance(rows, IntImm):
        return Decoded(one, target).tasks() if rows.value <= FEW_QUERIES else blocks().tasks()
    stmt = blocks().tasks()
    lanes = target.machine.vector_bits // one.product.dtype.bits
    if lanes > FEW_QUERIES:
        stmt = IfThenElse(rows <= lanes, blocks(lanes).tasks(), stmt)
    return IfThenElse(rows <= FEW_QUERIES, Decoded(one, target).tasks(), stmt)


def _refusal(one: Attention) -> Refusal | None:
    """Return what keeps an attention from being streamed, or None."""
    lengths = size_of(one.depth), size_of(one.column)
    if not all(isinstance(length, IntImm) and 0 < length.value <= LONGEST for length in lengths):
        return Refusal(f"heads have a dynamic size, or more than {LONGEST} elements")
    if one.query.indices[-1] is not one.depth.var or one.out.indices[-1] is not one.column.var:
        return Refusal("queries or results are not contiguous along a head")
    return few_multiplications((*one.batch, one.row, one.key, one.depth))
