"""Gradient of attention, by matrix products: the weights are computed again.

P = softmax(scale · Q Kᵀ + bias), O = P V        dV = Pᵀ dO, dS = P ⊙ (dO Vᵀ - Σ dO ⊙ O), dQ = scale · dS K, …
"""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import PrimValue, ShapeExpr
from ...ir import RelaxExpr
from ...prim import PrimExpr, cast, const, intrin
from ..base import Gradients, Term
from ..gradients import apply, collapsed, dims_of, masked, tensor_info

HIDDEN = -1e30
"""Score of a key that a query does not see, before the softmax: finite, as a query may see no key."""


def attention_gradient(
    operands: Sequence[Term],
    result: Term,
    grad: Term,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
) -> Gradients | None:
    """Return the gradients of query, key, value and bias, if there is one; None if a shape is unknown."""
    query, key, value, *bias = operands
    queries, keys = dims_of(query), dims_of(key)
    if queries is None or keys is None or dims_of(value) is None:
        return None
    dtype = tensor_info(query).dtype
    wide = "float32" if dtype.bits < 32 else dtype

    def heads_first(x: Term) -> Term:
        moved = apply("permute_dims", x, axes=[0, 2, 1, 3])
        return moved if wide == dtype else apply("astype", moved, dtype=wide)

    def back(x: Term) -> RelaxExpr:
        narrow = x if wide == dtype else apply("astype", x, dtype=dtype)
        return apply("permute_dims", narrow, axes=[0, 2, 1, 3])

    q, k, v, out, d_out = map(heads_first, (query, key, value, result, grad))
    factor = _factor(scale, queries[3], wide)
    scores: Term = apply("matmul", q, _transposed(k)) * factor
    if bias:
        scores = scores + (bias[0] if wide == dtype else apply("astype", bias[0], dtype=wide))
    seen = None if causal_mask is None else _seen(queries[1], keys[1], causal_mask, window_size)
    if seen is not None:
        scores = apply("where", seen, scores, apply("full_like", scores, PrimValue(const(HIDDEN, wide))))
    weights: Term = apply("nn.softmax", scores, axis=-1)
    if bias:  # a query all of whose scores are -inf sees no key: its result is 0, and so are its gradients
        never = apply("full_like", scores, PrimValue(const(float("-inf"), wide)))
        weights = masked(weights, apply("not_equal", scores, never))
    if seen is not None:
        weights = masked(weights, seen)
    by_weights: Term = apply("matmul", d_out, _transposed(v))
    by_scores: Term = weights * (by_weights - apply("sum", d_out * out, axis=[-1], keepdims=True))
    by_query = back(apply("matmul", by_scores, k) * factor)
    by_key = back(apply("matmul", _transposed(by_scores), q) * factor)
    by_value = back(apply("matmul", _transposed(weights), d_out))
    by_bias: list[RelaxExpr | None] = []
    for operand in bias:
        summed = collapsed(by_scores, operand)
        by_bias.append(summed if summed is None or wide == dtype else apply("astype", summed, dtype=dtype))
    return by_query, by_key, by_value, *by_bias


def _transposed(x: Term) -> Term:
    return apply("permute_dims", x, axes=[0, 1, 3, 2])


def _factor(scale: float | None, size: PrimExpr, dtype: str) -> RelaxExpr:
    """Factor of the scores, as a scalar."""
    if scale is not None:
        return PrimValue(const(scale, dtype))
    return PrimValue(const(1.0, dtype) / intrin.sqrt(cast(dtype, size)))


def _seen(m: PrimExpr, n: PrimExpr, causal_mask: str, window_size: int | None) -> Term:
    """Mask (m queries, n keys) of the keys that each query sees."""
    shape = ShapeExpr((m, n))
    rows = apply("broadcast_to", apply("reshape", _numbers(m), ShapeExpr((m, const(1, "int64")))), shape)
    columns = apply("broadcast_to", _numbers(n), shape)
    last: Term = rows if causal_mask == "TopLeft" else apply("add", rows, PrimValue(n - m))
    seen = apply("less_equal", columns, last)
    if window_size is None:
        return seen
    first = apply("subtract", last, PrimValue(const(window_size, "int64")))
    return apply("logical_and", seen, apply("greater", columns, first))


def _numbers(count: PrimExpr) -> Term:
    """The numbers 0, 1, … below `count`, as int64."""
    zero, one = (PrimValue(const(i, "int64")) for i in range(2))
    return apply("arange", zero, PrimValue(count), one, dtype="int64")


__all__: list[str] = ["attention_gradient"]
