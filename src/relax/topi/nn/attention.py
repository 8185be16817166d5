"""Scaled dot-product attention."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import te
from ...prim import PrimExpr, Select, const, intrin
from ..broadcast import read_broadcast
from ..util import accumulator_dtype

Visible = Callable[[Any, Any], PrimExpr]
"""Mask condition: whether a query row sees a key row."""


def _causal(causal_mask: str | None, window_size: int | None) -> Callable[[Any, Any, Any, Any], PrimExpr] | None:
    """Mask condition for query i of m and key j of n; None without a mask."""
    if causal_mask is None:
        return None

    def visible(i: Any, j: Any, m: Any, n: Any) -> PrimExpr:
        last = i if causal_mask == "TopLeft" else i + n - m
        seen = j <= last
        return intrin.all(seen, j > last - window_size) if window_size is not None else seen

    return visible


def attention(
    query: te.Tensor,
    key: te.Tensor,
    value: te.Tensor,
    bias: te.Tensor | None = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> te.Tensor:
    """softmax(scale · Q Kᵀ + bias) V per head (Vaswani et al. 2017).

    Q (batch, m, heads, d), K (batch, n, heads, d), V (batch, n, heads, dv), bias broadcast to (batch, heads, m, n);
    scale defaults to 1/√d. `causal_mask` "TopLeft" lets query i see keys ≤ i, "BottomRight" keys ≤ i + n - m; with
    `window_size` w only the last w of those. The result is 0 for a query that sees no key.
    """
    m, n = query.shape[1], key.shape[1]
    causal = _causal(causal_mask, window_size)
    visible: Visible | None = None if causal is None else lambda i, j: causal(i, j, m, n)
    return _attend(query, key, value, bias, scale, visible)


def attention_var_len(
    queries: te.Tensor,
    keys: te.Tensor,
    values: te.Tensor,
    seqstart_q: te.Tensor,
    seqstart_k: te.Tensor | None = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> te.Tensor:
    """`attention` within each of several sequences, concatenated in a batch of 1.

    Sequence s has the queries from seqstart_q[s] up to seqstart_q[s + 1], and the keys from seqstart_k[s] (by default
    the same). A query sees only keys of its own sequence.
    """
    of_queries = _Sequences(seqstart_q, queries.shape[1], "q")
    of_keys = _Sequences(seqstart_q if seqstart_k is None else seqstart_k, keys.shape[1], "k")
    causal = _causal(causal_mask, window_size)

    def visible(i: Any, j: Any) -> PrimExpr:
        number, start, end = (part(i) for part in of_queries.parts)
        other, first, last = (part(j) for part in of_keys.parts)
        same = [number.equal(other), number > 0, number < seqstart_q.shape[0]]
        if causal is not None:
            same.append(causal(i - start, j - first, end - start, last - first))
        return intrin.all(*same)

    return _attend(queries, keys, values, None, scale, visible)


class _Sequences:
    """Sequence of each row: its number (from 1), its start and its end."""

    def __init__(self, seqstart: te.Tensor, rows: PrimExpr, name: str) -> None:
        count = seqstart.shape[0]
        none, far = const(0, "int64"), intrin.max_value("int64")

        def fold(reduce: Any, element: Callable[[Any, Any], PrimExpr], suffix: str) -> te.Tensor:
            s = te.reduce_axis((0, count), "s")
            return te.compute(
                (rows,),
                lambda i: reduce(element(i, seqstart(s.var).astype("int64")), axis=s),
                f"{name}_{suffix}",
                tag="comm_reduce",
            )

        self.parts = (
            fold(te.sum, lambda i, at: (at <= i).astype("int64"), "number"),
            fold(te.max, lambda i, at: Select(at <= i, at, none), "start"),
            fold(te.min, lambda i, at: Select(at <= i, far, at), "end"),
        )


def _attend(
    query: te.Tensor,
    key: te.Tensor,
    value: te.Tensor,
    bias: te.Tensor | None,
    scale: float | None,
    visible: Visible | None,
) -> te.Tensor:
    """softmax(scale · Q Kᵀ + bias) V over the keys visible to each query."""
    wide = accumulator_dtype(query.dtype)
    batch, m, heads, depth = query.shape
    n, out_depth = key.shape[1], value.shape[3]
    zero, nothing = const(0, wide), const(-math.inf, wide)
    factor = const(scale, wide) if scale is not None else const(1.0, wide) / intrin.sqrt(depth.astype(wide))

    k = te.reduce_axis((0, depth), "k")
    products = te.compute(
        (batch, heads, m, n),
        lambda b, h, i, j: te.sum(query(b, i, h, k.var).astype(wide) * key(b, j, h, k.var).astype(wide), axis=k),
        "attention_qk",
        tag="matmul",
    )

    def score(b: Any, h: Any, i: Any, j: Any) -> Any:
        result = products(b, h, i, j) * factor
        if bias is not None:
            result = result + read_broadcast(bias, (batch, heads, m, n), (b, h, i, j)).astype(wide)
        return result if visible is None else intrin.if_then_else(visible(i, j), result, nothing)

    scores = te.compute((batch, heads, m, n), score, "attention_scores", tag="elemwise")
    j1 = te.reduce_axis((0, n), "j")
    largest = te.compute((batch, heads, m), lambda b, h, i: te.max(scores(b, h, i, j1.var), axis=j1), "attention_max")

    def weight(b: Any, h: Any, i: Any, j: Any) -> Any:
        seen = scores(b, h, i, j)
        return Select(seen.equal(nothing), zero, intrin.exp(seen - largest(b, h, i)))

    weights = te.compute((batch, heads, m, n), weight, "attention_weights", tag="elemwise")
    j2 = te.reduce_axis((0, n), "j")
    total = te.compute((batch, heads, m), lambda b, h, i: te.sum(weights(b, h, i, j2.var), axis=j2), "attention_total")
    j3 = te.reduce_axis((0, n), "j")
    mixed = te.compute(
        (batch, m, heads, out_depth),
        lambda b, i, h, d: te.sum(weights(b, h, i, j3.var) * value(b, j3.var, h, d).astype(wide), axis=j3),
        "attention_wv",
        tag="matmul",
    )

    def normalised(b: Any, i: Any, h: Any, d: Any) -> Any:
        divisor = total(b, h, i)
        return intrin.if_then_else(divisor.equal(0.0), zero, mixed(b, i, h, d) / divisor).astype(query.dtype)

    return te.compute((batch, m, heads, out_depth), normalised, "attention")
