"""Flash attention for CPUs, as graphs of training have it: results, logarithms of the sums, and gradients."""

from __future__ import annotations

from typing import Any

from .... import op
from ....expr import ShapeExpr
from ....ir import RelaxExpr
from ..emitter import Emitter
from ..registry import converter
from .linear import attention


@converter("aten._scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    g: Emitter,
    query: RelaxExpr,
    key: RelaxExpr,
    value: RelaxExpr,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: RelaxExpr | None = None,
    scale: float | None = None,
) -> list[RelaxExpr | None]:
    """(batch, heads, length, size) operands; the second result is (batch, heads, length), in float32 or float64."""
    if not g.reads(1):
        return [attention(g, query, key, value, attn_mask, dropout_p, is_causal, scale=scale), None]
    if dropout_p:
        g.unsupported("attention with dropout")
    scores = _scores(g, query, key, is_causal, attn_mask, _scale(g, query, scale))
    wide = _wide(g, query)
    highest = g.emit(op.max(scores, axis=[-1], keepdims=True))
    sees_none = g.emit(op.equal(highest, g.const(float("-inf"), wide)))  # such a query has the result 0
    highest = g.emit(op.where(sees_none, g.const(0, wide), highest))
    exponents = g.emit(op.exp(op.subtract(scores, highest)))
    total = g.emit(op.where(sees_none, g.const(1, wide), op.sum(exponents, axis=[-1], keepdims=True)))
    attended = op.divide(op.matmul(exponents, g.cast(value, wide)), total)
    logarithm = op.squeeze(op.add(highest, op.log(total)), [-1])
    return [g.cast(g.emit(attended), str(g.dtype(query))), g.emit(logarithm)]


@converter("aten._scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    g: Emitter,
    grad_out: RelaxExpr,
    query: RelaxExpr,
    key: RelaxExpr,
    value: RelaxExpr,
    out: RelaxExpr,
    logsumexp: RelaxExpr,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: RelaxExpr | None = None,
    scale: float | None = None,
) -> list[RelaxExpr]:
    """Gradients by query, key and value; the probabilities are computed again from the logarithm of their sums."""
    if dropout_p:
        g.unsupported("attention with dropout")
    wide, factor = _wide(g, query), _scale(g, query, scale)
    dtype = str(g.dtype(query))
    q, k, v, grad, result = (g.cast(x, wide) for x in (query, key, value, grad_out, out))
    sums = g.emit(op.expand_dims(g.cast(logsumexp, wide), [-1]))
    probabilities = g.emit(op.exp(op.subtract(_scores(g, query, key, is_causal, attn_mask, factor), sums)))
    by_value = op.matmul(_turned(g, probabilities), grad)
    by_probability = op.matmul(grad, _turned(g, v))
    means = g.emit(op.sum(op.multiply(grad, result), axis=[-1], keepdims=True))
    by_scores = op.multiply(op.multiply(probabilities, op.subtract(by_probability, means)), g.const(factor, wide))
    by_scores = g.emit(by_scores)
    by_query, by_key = op.matmul(by_scores, k), op.matmul(_turned(g, by_scores), q)
    return [g.cast(g.emit(x), dtype) for x in (by_query, by_key, by_value)]


def _wide(g: Emitter, x: RelaxExpr) -> str:
    return "float64" if str(g.dtype(x)) == "float64" else "float32"


def _turned(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    return g.emit(op.permute_dims(x, (0, 1, 3, 2)))


def _scale(g: Emitter, query: RelaxExpr, scale: float | None) -> float:
    """The factor of the scores. Raises DiagnosticError if it would depend on an open size."""
    if scale is not None:
        return float(scale)
    size: Any = getattr(g.dims(query)[-1], "value", None)
    if size is None:
        g.unsupported("the gradient of attention whose heads have an open size", "pass scale")
    return size**-0.5


def _scores(
    g: Emitter, query: RelaxExpr, key: RelaxExpr, is_causal: bool, mask: RelaxExpr | None, scale: float
) -> RelaxExpr:
    wide = _wide(g, query)
    scores = op.multiply(op.matmul(g.cast(query, wide), _turned(g, g.cast(key, wide))), g.const(scale, wide))
    scores = g.emit(scores)
    never = g.const(float("-inf"), wide)
    if is_causal:
        size = ShapeExpr(g.dims(scores)[-2:])
        seen = g.emit(op.tril(op.ones(size, "int32")))
        scores = g.emit(op.where(g.cast(seen, "bool"), scores, never))
    if mask is None:
        return scores
    if str(g.dtype(mask)) == "bool":
        return g.emit(op.where(mask, scores, never))
    return g.emit(op.add(scores, g.cast(mask, wide)))
