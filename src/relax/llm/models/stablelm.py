"""StableLM: Llama's layers with norms with means, and a part of each head rotated.

Source: Bellagente et al., Stable LM 2 1.6B Technical Report, 2024.
"""

from __future__ import annotations

from ...frontend import nn
from ...frontend.nn import Tensor
from ...frontend.nn.llm import PagedKVCache
from ..decoder import Decoder, Shape
from ..layers import Attention, GatedMLP, LayerNorm
from ..settings import Settings


class Layer(nn.Module):
    """Attention and a gated feed-forward layer, one behind the other, or, if parallel, of the same activations."""

    def __init__(self, settings: Settings, shape: Shape) -> None:
        super().__init__()
        epsilon = settings.positive("layer_norm_eps", 1e-5)
        self.is_parallel = settings.flag("use_parallel_residual")
        self.input_layernorm = LayerNorm(shape.hidden, epsilon)
        self.self_attn = Attention(
            shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, bias=settings.flag("use_qkv_bias")
        )
        if not self.is_parallel:
            self.post_attention_layernorm = LayerNorm(shape.hidden, epsilon)
        self.mlp = GatedMLP(shape.hidden, shape.inner, settings.activation("hidden_act"))

    def forward(self, x: Tensor, cache: PagedKVCache, index: int) -> Tensor:
        """Activations (n, hidden) behind this layer."""
        normalised = self.input_layernorm(x)
        x = x + self.self_attn(normalised, cache, index)
        return x + self.mlp(normalised if self.is_parallel else self.post_attention_layernorm(x))


class StableLM(Decoder):
    """StableLM. Raises ValueError for its variant with norms of single heads."""

    def __init__(self, settings: Settings) -> None:
        if settings.flag("qk_layernorm"):
            raise ValueError("StableLM with norms of queries and keys (qk_layernorm) is not read")
        part = {"partial_rotary_factor": 0.25}
        super().__init__(Settings({**part, **settings.values}))

    def layer(self, index: int) -> nn.Module:
        return Layer(self.settings, self.shape)

    def norm(self) -> nn.Module:
        return LayerNorm(self.shape.hidden, self.settings.positive("layer_norm_eps", 1e-5))


__all__ = ["Layer", "StableLM"]
