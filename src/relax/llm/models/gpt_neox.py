"""GPT-NeoX and Pythia: attention and feed-forward layer side by side, a part of each head rotated, norms with means.

Source: Black et al., GPT-NeoX-20B, 2022; Biderman et al., Pythia, 2023.
"""

from __future__ import annotations

from typing import Any, cast

from ...frontend import nn
from ...frontend.nn import Tensor, op
from ...frontend.nn.llm import PagedKVCache
from ..decoder import CacheShape, Shape
from ..layers import ACTIVATIONS, Embedding, LayerNorm, Linear
from ..settings import Rotation, Settings


class SelfAttention(nn.Module):
    """Attention of all heads to the past. Rows of the checkpoint hold queries, keys and values of one head together."""

    def __init__(self, shape: Shape, bias: bool) -> None:
        super().__init__()
        self.heads, self.head_dim = shape.heads, shape.head_dim
        size = shape.heads * shape.head_dim
        self.query_key_value = Linear(shape.hidden, 3 * size, bias=bias)
        self.dense = Linear(size, shape.hidden, bias=bias)

    def forward(self, x: Tensor, cache: PagedKVCache, layer: int) -> Tensor:
        """Attention (n, hidden) of the tokens of a batch."""
        count = x.shape[0]
        by_head = op.reshape(self.query_key_value(x), (count, self.heads, 3, self.head_dim))
        qkv = op.reshape(op.permute_dims(by_head, [0, 2, 1, 3]), (1, count, 3 * self.heads, self.head_dim))
        result = cache.attention_with_fused_qkv(layer, qkv, self.heads, self.head_dim**-0.5)
        return self.dense(op.reshape(result, (count, self.heads * self.head_dim)))


class FeedForward(nn.Module):
    """dense_4h_to_h(activation(dense_h_to_4h(x)))."""

    def __init__(self, shape: Shape, activation: str) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.dense_h_to_4h = Linear(shape.hidden, shape.inner, bias=True)
        self.dense_4h_to_h = Linear(shape.inner, shape.hidden, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        """Result (n, hidden)."""
        return self.dense_4h_to_h(self.activation(self.dense_h_to_4h(x)))


class Layer(nn.Module):
    """Attention and a feed-forward layer, of the same activations or, if not parallel, one behind the other."""

    def __init__(self, settings: Settings, shape: Shape, epsilon: float) -> None:
        super().__init__()
        self.is_parallel = settings.flag("use_parallel_residual", True)
        self.input_layernorm = LayerNorm(shape.hidden, epsilon)
        self.post_attention_layernorm = LayerNorm(shape.hidden, epsilon)
        self.attention = SelfAttention(shape, settings.flag("attention_bias", True))
        self.mlp = FeedForward(shape, settings.activation("hidden_act", default="gelu"))

    def forward(self, x: Tensor, cache: PagedKVCache, index: int) -> Tensor:
        """Activations (n, hidden) behind this layer."""
        attended = x + self.attention(self.input_layernorm(x), cache, index)
        return attended + self.mlp(self.post_attention_layernorm(x if self.is_parallel else attended))


class Body(nn.Module):
    """Everything but the last product; the names are those of checkpoints."""

    def __init__(self, settings: Settings, shape: Shape) -> None:
        super().__init__()
        epsilon = settings.positive("layer_norm_eps", 1e-5)
        self.embed_in = Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList([Layer(settings, shape, epsilon) for _ in range(shape.layers)])
        self.final_layer_norm = LayerNorm(shape.hidden, epsilon)


class GPTNeoX(nn.Module):
    """GPT-NeoX and Pythia."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.shape = Shape.of(settings)
        # Older files have names of their own for the part of a head that is rotated, and for the base.
        part = settings.number("rotary_pct", 0.25)
        named = {"partial_rotary_factor": part, "rope_theta": settings.positive("rotary_emb_base", 10000.0)}
        self.rotation = Rotation.of(Settings({**named, **settings.values}), self.shape.head_dim)
        self.gpt_neox = Body(settings, self.shape)
        self.embed_out = Linear(self.shape.hidden, self.shape.vocabulary)

    def cache(self) -> CacheShape:
        """Return what the cache of attention holds."""
        return CacheShape(self.shape.layers, self.shape.heads, self.shape.heads, self.shape.head_dim, self.rotation)

    def forward(self, tokens: Tensor, last: Tensor, cache: PagedKVCache) -> Tensor:
        """Logits (m, vocabulary) behind the tokens at the places `last` (m,) of tokens (n,)."""
        x = self.gpt_neox.embed_in(tokens)
        for index, layer in enumerate(self.gpt_neox.layers):
            x = cast(Any, layer)(x, cache, index)
        return self.embed_out(self.gpt_neox.final_layer_norm(op.take(x, last, axis=0)))


__all__ = ["GPTNeoX"]
