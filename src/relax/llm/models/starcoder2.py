"""StarCoder 2: Llama's attention with biases, norms with means, and a feed-forward layer without gate.

Source: Lozhkov et al., StarCoder 2 and The Stack v2, 2024.
"""

from __future__ import annotations

from ...frontend import nn
from ...frontend.nn import Tensor
from ...frontend.nn.llm import PagedKVCache
from ..decoder import Decoder, Shape
from ..layers import ACTIVATIONS, Attention, LayerNorm, Linear
from ..settings import Settings


class FeedForward(nn.Module):
    """c_proj(activation(c_fc(x)))."""

    def __init__(self, shape: Shape, activation: str, bias: bool) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.c_fc = Linear(shape.hidden, shape.inner, bias=bias)
        self.c_proj = Linear(shape.inner, shape.hidden, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Result (n, hidden)."""
        return self.c_proj(self.activation(self.c_fc(x)))


class Layer(nn.Module):
    """Attention, then a feed-forward layer; both read normalised activations, and add to them."""

    def __init__(self, settings: Settings, shape: Shape) -> None:
        super().__init__()
        bias, epsilon = settings.flag("use_bias", True), settings.positive("norm_epsilon", 1e-5)
        self.input_layernorm = LayerNorm(shape.hidden, epsilon)
        self.self_attn = Attention(
            shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, bias=bias, out_bias=bias
        )  # fmt: skip
        self.post_attention_layernorm = LayerNorm(shape.hidden, epsilon)
        self.mlp = FeedForward(shape, settings.activation("hidden_act", default="gelu_pytorch_tanh"), bias)

    def forward(self, x: Tensor, cache: PagedKVCache, index: int) -> Tensor:
        """Activations (n, hidden) behind this layer."""
        x = x + self.self_attn(self.input_layernorm(x), cache, index)
        return x + self.mlp(self.post_attention_layernorm(x))


class StarCoder2(Decoder):
    """StarCoder 2."""

    tied = True

    def layer(self, index: int) -> nn.Module:
        return Layer(self.settings, self.shape)

    def norm(self) -> nn.Module:
        return LayerNorm(self.shape.hidden, self.settings.positive("norm_epsilon", 1e-5))


__all__ = ["Layer", "StarCoder2"]
