"""Llama 2 and 3, and models of its shape: SmolLM, Mistral, Yi, Qwen 2 and 2.5 (biases), Qwen 3 (norms), Phi 3 and 4.

Source: Touvron et al., Llama, 2023; Yang et al., Qwen2 Technical Report, 2024, and Qwen3 Technical Report, 2025; Abdin
et al., Phi-3 Technical Report, 2024.
"""

from __future__ import annotations

from typing import Final

from ...frontend import nn
from ...frontend.nn import Tensor
from ...frontend.nn.llm import PagedKVCache
from ..decoder import Decoder, Shape
from ..layers import Attention, GatedMLP, RMSNorm
from ..settings import Settings

_BIASED: Final = ("qwen2", "qwen2_moe")
"""Models whose products for queries, keys and values have biases, and no others."""
_NORMED: Final = ("qwen3", "qwen3_moe")
_FUSED: Final = ("phi3",)
"""Models whose checkpoints hold queries, keys and values in one matrix, and gate and up in another."""


def attention_of(settings: Settings, shape: Shape) -> Attention:
    """Return the attention of a layer."""
    kind, biases = settings.text("model_type"), settings.flag("attention_bias")
    return Attention(
        shape.hidden, shape.heads, shape.kv_heads, shape.head_dim,
        bias=biases or (kind in _BIASED and settings.flag("qkv_bias", True)), out_bias=biases, epsilon=shape.epsilon,
        names=("qkv_proj",) if kind in _FUSED else ("q_proj", "k_proj", "v_proj"),
        norms="head" if kind in _NORMED else "",
    )  # fmt: skip


class Layer(nn.Module):
    """Attention, then a gated feed-forward layer; both read normalised activations, and add to them."""

    def __init__(self, settings: Settings, shape: Shape) -> None:
        super().__init__()
        kind = settings.text("model_type")
        self.input_layernorm = RMSNorm(shape.hidden, shape.epsilon)
        self.self_attn = attention_of(settings, shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.epsilon)
        self.mlp = GatedMLP(
            shape.hidden, shape.inner, settings.activation("hidden_act"), bias=settings.flag("mlp_bias"),
            names=("gate_up_proj",) if kind in _FUSED else ("gate_proj", "up_proj"),
        )  # fmt: skip

    def forward(self, x: Tensor, cache: PagedKVCache, index: int) -> Tensor:
        """Activations (n, hidden) behind this layer."""
        x = x + self.self_attn(self.input_layernorm(x), cache, index)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(Decoder):
    """Llama and models of its shape."""

    def layer(self, index: int) -> nn.Module:
        return Layer(self.settings, self.shape)


__all__ = ["Layer", "Llama", "attention_of"]
