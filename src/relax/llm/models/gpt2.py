"""GPT-2: learned positions, norms with means, and a feed-forward layer without gate.

Source: Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
"""

from __future__ import annotations

from typing import Any, cast

from ...frontend import nn
from ...frontend.nn import Tensor, op
from ...frontend.nn.llm import PagedKVCache
from ..decoder import CacheShape
from ..layers import ACTIVATIONS, Embedding, LayerNorm, Linear
from ..settings import MOST_LAYERS, Rotation, Settings


class SelfAttention(nn.Module):
    """Attention of all heads to the past; the names are those of checkpoints."""

    def __init__(self, hidden: int, heads: int, transposed: bool) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, hidden // heads
        self.c_attn = Linear(hidden, 3 * hidden, bias=True, transposed=transposed)
        self.c_proj = Linear(hidden, hidden, bias=True, transposed=transposed)

    def forward(self, x: Tensor, cache: PagedKVCache, layer: int) -> Tensor:
        """Attention (n, hidden) of the tokens of a batch."""
        count = x.shape[0]
        qkv = op.reshape(self.c_attn(x), (1, count, 3 * self.heads, self.head_dim))
        result = cache.attention_with_fused_qkv(layer, qkv, self.heads, self.head_dim**-0.5)
        return self.c_proj(op.reshape(result, (count, self.heads * self.head_dim)))


class FeedForward(nn.Module):
    """c_proj(activation(c_fc(x)))."""

    def __init__(self, hidden: int, inner: int, activation: str, transposed: bool) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.c_fc = Linear(hidden, inner, bias=True, transposed=transposed)
        self.c_proj = Linear(inner, hidden, bias=True, transposed=transposed)

    def forward(self, x: Tensor) -> Tensor:
        """Result (n, hidden)."""
        return self.c_proj(self.activation(self.c_fc(x)))


class Layer(nn.Module):
    """Attention, then a feed-forward layer; both read normalised activations, and add to them."""

    def __init__(self, settings: Settings, hidden: int, heads: int, epsilon: float) -> None:
        super().__init__()
        transposed = settings.flag("transposed_weights", True)
        inner = settings.integer("n_inner", settings.integer("intermediate_size", 4 * hidden))
        self.ln_1 = LayerNorm(hidden, epsilon)
        self.attn = SelfAttention(hidden, heads, transposed)
        self.ln_2 = LayerNorm(hidden, epsilon)
        activation = settings.activation("activation_function", default="gelu_new")
        self.mlp = FeedForward(hidden, inner, activation, transposed)

    def forward(self, x: Tensor, cache: PagedKVCache, index: int) -> Tensor:
        """Activations (n, hidden) behind this layer."""
        x = x + self.attn(self.ln_1(x), cache, index)
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """GPT-2, whose embeddings are the weights of its last product, too."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        s = settings
        hidden = s.integer("n_embd", s.integer("hidden_size", 768))
        self.heads = s.integer("n_head", s.integer("num_attention_heads", 12))
        if not self.heads or not hidden or hidden % self.heads:
            raise ValueError(f"{hidden} elements cannot be shared by {self.heads} heads")
        count = s.integer("n_layer", s.integer("num_hidden_layers", 12, most=MOST_LAYERS), most=MOST_LAYERS)
        context = s.integer("n_positions", s.integer("max_position_embeddings", 1024))
        epsilon = s.positive("layer_norm_epsilon", s.positive("layer_norm_eps", 1e-5))
        self.head_dim, self.count = hidden // self.heads, count
        self.wte = Embedding(s.integer("vocab_size"), hidden, tied=True)
        self.wpe = Embedding(context, hidden)
        self.h = nn.ModuleList([Layer(s, hidden, self.heads, epsilon) for _ in range(count)])
        self.ln_f = LayerNorm(hidden, epsilon)

    def cache(self) -> CacheShape:
        """Return what the cache of attention holds."""
        return CacheShape(self.count, self.heads, self.heads, self.head_dim, Rotation(10000.0, 0))

    def forward(self, tokens: Tensor, last: Tensor, cache: PagedKVCache) -> Tensor:
        """Logits (m, vocabulary) behind the tokens at the places `last` (m,) of tokens (n,)."""
        positions = cache.get_query_positions(tokens.shape[0])
        x = self.wte(tokens) + self.wpe(positions)
        for index, layer in enumerate(self.h):
            x = cast(Any, layer)(x, cache, index)
        return self.wte.logits(self.ln_f(op.take(x, last, axis=0)))


__all__ = ["GPT2"]
