"""Layers of a transformer's encoder, and attention with its projections, as torch joins them in eval mode.

``torch.compile`` meets them in ``nn.TransformerEncoderLayer`` and ``nn.MultiheadAttention`` where no gradients are
asked for; ``torch.export`` takes the modules apart.
"""

from __future__ import annotations

from .... import op
from ....ir import RelaxExpr
from ....runtime.records import dataclass
from ..emitter import Emitter
from ..registry import converter
from .linear import linear
from .nn import layer_norm

PAIRS, KEYS = 0, 1
"""The kinds of masks: (queries, keys), (batch, keys). Any other mask is (batch, heads, queries, keys)."""


@dataclass(frozen=True)
class _Projections:
    """The weights around attention: of queries, keys and values one behind the other, and of the result."""

    size: int
    heads: int
    inner_weight: RelaxExpr
    inner_bias: RelaxExpr | None
    outer_weight: RelaxExpr
    outer_bias: RelaxExpr | None


@converter("aten._native_multi_head_attention")
def multi_head_attention(
    g: Emitter,
    query: RelaxExpr,
    key: RelaxExpr,
    value: RelaxExpr,
    embed_dim: int,
    num_head: int,
    qkv_weight: RelaxExpr,
    qkv_bias: RelaxExpr | None,
    proj_weight: RelaxExpr,
    proj_bias: RelaxExpr | None,
    mask: RelaxExpr | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> list[RelaxExpr | None]:
    """The result, and the scores behind the softmax if they are needed, their mean over heads if that is asked for."""
    if query is not key or key is not value:
        g.unsupported(
            "attention of different queries, keys and values in one operator",
            "call torch.backends.mha.set_fastpath_enabled(False) before",
        )
    projections = _Projections(embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias)
    result, scores = _attention(g, query, projections, mask, mask_type)
    if not need_weights:
        return [result, None]
    return [result, g.emit(op.mean(scores, [1])) if average_attn_weights else scores]


@converter("aten._transformer_encoder_layer_fwd")
def encoder_layer(
    g: Emitter,
    src: RelaxExpr,
    embed_dim: int,
    num_heads: int,
    qkv_weight: RelaxExpr,
    qkv_bias: RelaxExpr,
    proj_weight: RelaxExpr,
    proj_bias: RelaxExpr,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: RelaxExpr,
    norm_bias_1: RelaxExpr,
    norm_weight_2: RelaxExpr,
    norm_bias_2: RelaxExpr,
    ffn_weight_1: RelaxExpr,
    ffn_bias_1: RelaxExpr,
    ffn_weight_2: RelaxExpr,
    ffn_bias_2: RelaxExpr,
    mask: RelaxExpr | None = None,
    mask_type: int | None = None,
) -> RelaxExpr:
    """Attention and two products with an activation between, each with its input added, normalised before or behind."""
    projections = _Projections(embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias)

    def first(x: RelaxExpr) -> RelaxExpr:
        return g.emit(layer_norm(g, x, [embed_dim], norm_weight_1, norm_bias_1, eps))

    def second(x: RelaxExpr) -> RelaxExpr:
        return g.emit(layer_norm(g, x, [embed_dim], norm_weight_2, norm_bias_2, eps))

    attended, _ = _attention(g, first(src) if norm_first else src, projections, mask, mask_type)
    x = g.emit(op.add(attended, src))
    x = x if norm_first else first(x)
    hidden = g.emit(linear(g, second(x) if norm_first else x, ffn_weight_1, ffn_bias_1))
    activated = g.emit(op.nn.gelu(hidden) if use_gelu else op.nn.relu(hidden))
    x = g.emit(op.add(g.emit(linear(g, activated, ffn_weight_2, ffn_bias_2)), x))
    return x if norm_first else second(x)


def _attention(
    g: Emitter, x: RelaxExpr, projections: _Projections, mask: RelaxExpr | None, mask_type: int | None
) -> tuple[RelaxExpr, RelaxExpr]:
    """Attention of a sequence to itself, (batch, length, size), and its scores behind the softmax."""
    batch, length, _ = g.dims(x)
    heads, size, dtype = projections.heads, projections.size, str(g.dtype(x))
    if heads < 1 or size % heads:
        raise g.error(f"{heads} heads do not divide the size {size}", hint="pass a divisor of the size")
    joined = g.emit(linear(g, x, projections.inner_weight, projections.inner_bias))
    projected = g.emit(op.permute_dims(g.reshape(joined, [batch, length, 3, heads, size // heads]), (2, 0, 3, 1, 4)))
    query, key, value = (g.emit(op.take(projected, g.const(i, "int64"), 0)) for i in range(3))
    scores = g.emit(op.matmul(query, g.emit(op.permute_dims(key, (0, 1, 3, 2)))))
    scores = g.emit(op.multiply(scores, g.const((size // heads) ** -0.5, dtype)))
    if mask is not None:
        scores = g.emit(op.where(_masked(g, mask, mask_type), g.const(float("-inf"), dtype), scores))
    scores = g.emit(op.nn.softmax(scores, -1))
    attended = g.emit(op.permute_dims(g.emit(op.matmul(scores, value)), (0, 2, 1, 3)))
    flat = g.reshape(attended, [batch, length, size])
    return g.emit(linear(g, flat, projections.outer_weight, projections.outer_bias)), scores


def _masked(g: Emitter, mask: RelaxExpr, mask_type: int | None) -> RelaxExpr:
    """A mask as bool, True where a score does not count, with the dimensions of scores."""
    dims = list(g.dims(mask))
    shapes = {PAIRS: [1, 1, *dims], KEYS: [*dims[:1], 1, 1, *dims[1:]]}
    shape = shapes.get(-1 if mask_type is None else mask_type, dims)
    return g.reshape(g.cast(mask, "bool"), shape)
