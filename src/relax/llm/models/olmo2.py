"""OLMo 2: Llama's layers with norms behind attention and feed-forward layer, and over all queries and all keys.

Source: OLMo Team, 2 OLMo 2 Furious, 2024.
"""

from __future__ import annotations

from ...frontend import nn
from ...frontend.nn import Tensor
from ...frontend.nn.llm import PagedKVCache
from ..decoder import Decoder, Shape
from ..layers import Attention, GatedMLP, RMSNorm
from ..settings import Settings


class Layer(nn.Module):
    """Attention, then a gated feed-forward layer; their normalised results are added."""

    def __init__(self, settings: Settings, shape: Shape) -> None:
        super().__init__()
        biases = settings.flag("attention_bias")
        self.self_attn = Attention(
            shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, bias=biases, out_bias=biases,
            norms="all", epsilon=shape.epsilon,
        )  # fmt: skip
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.epsilon)
        self.mlp = GatedMLP(shape.hidden, shape.inner, settings.activation("hidden_act"))
        self.post_feedforward_layernorm = RMSNorm(shape.hidden, shape.epsilon)

    def forward(self, x: Tensor, cache: PagedKVCache, index: int) -> Tensor:
        """Activations (n, hidden) behind this layer."""
        x = x + self.post_attention_layernorm(self.self_attn(x, cache, index))
        return x + self.post_feedforward_layernorm(self.mlp(x))


class OLMo2(Decoder):
    """OLMo 2."""

    def layer(self, index: int) -> nn.Module:
        return Layer(self.settings, self.shape)


__all__ = ["Layer", "OLMo2"]
