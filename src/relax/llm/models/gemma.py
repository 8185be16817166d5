"""Gemma 1, 2 and 3 (text): scaled embeddings, norms before and behind each layer, windows in most layers.

Gemma 2 caps scores and logits; Gemma 3 normalises heads, and rotates windowed layers by an own base.

Source: Gemma Team, Gemma, 2024; Gemma 2, 2024; Gemma 3 Technical Report, 2025.
"""

from __future__ import annotations

import math
from typing import Final

from ...frontend import nn
from ...frontend.nn import Tensor
from ...frontend.nn.llm import PagedKVCache
from ..decoder import CacheShape, Decoder, Shape, capped
from ..layers import Attention, GatedMLP, RMSNorm
from ..settings import Rotation, Settings

_PERIODS: Final = {"gemma2": 2, "gemma3_text": 6}
"""Every second, or sixth, layer sees all tokens, where settings do not list the kinds of layers."""


class Layer(nn.Module):
    """Attention, then a gated feed-forward layer, each between two norms; the first Gemma has those before only."""

    def __init__(self, settings: Settings, shape: Shape) -> None:
        super().__init__()
        kind, offset = settings.text("model_type"), settings.number("norm_offset", 1.0)
        biases = settings.flag("attention_bias")
        wanted = settings.positive("query_pre_attn_scalar", float(shape.head_dim))

        def norm() -> RMSNorm:
            return RMSNorm(shape.hidden, shape.epsilon, offset)

        self.input_layernorm = norm()
        self.self_attn = Attention(
            shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, bias=biases, out_bias=biases,
            norms="head" if kind == "gemma3_text" else "", epsilon=shape.epsilon, offset=offset, scale=wanted**-0.5,
        )  # fmt: skip
        self.post_attention_layernorm = norm()
        activation = settings.activation("hidden_activation", "hidden_act", default="gelu_pytorch_tanh")
        self.mlp = GatedMLP(shape.hidden, shape.inner, "gelu_tanh" if activation == "gelu" else activation)
        self.sandwiched = kind != "gemma"
        if self.sandwiched:
            self.pre_feedforward_layernorm = norm()
            self.post_feedforward_layernorm = norm()

    def forward(self, x: Tensor, cache: PagedKVCache, index: int) -> Tensor:
        """Activations (n, hidden) behind this layer."""
        attended = self.self_attn(self.input_layernorm(x), cache, index)
        if not self.sandwiched:
            x = x + attended
            return x + self.mlp(self.post_attention_layernorm(x))
        x = x + self.post_attention_layernorm(attended)
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


class Gemma(Decoder):
    """Gemma 1, 2 and 3."""

    tied = True

    def layer(self, index: int) -> nn.Module:
        return Layer(self.settings, self.shape)

    def norm(self) -> nn.Module:
        return RMSNorm(self.shape.hidden, self.shape.epsilon, self.settings.number("norm_offset", 1.0))

    def embedded(self, tokens: Tensor) -> Tensor:
        return super().embedded(tokens) * math.sqrt(self.shape.hidden)

    def logits(self, x: Tensor) -> Tensor:
        return capped(super().logits(x), self.settings.number("final_logit_softcapping", 0.0))

    def cache(self) -> CacheShape:
        shape, s = self.shape, self.settings
        kind = s.text("model_type")
        window = s.integer("sliding_window", 0) if kind in _PERIODS else 0
        rotation, local = Rotation.of(s, shape.head_dim), None
        if kind == "gemma3_text":
            rotation = Rotation.of(s, shape.head_dim, "full_attention", 1e6)
            inner = s.inner("rope_parameters").inner("sliding_attention")
            theta = inner.positive("rope_theta", s.positive("rope_local_base_freq", 10000.0))
            local = Rotation(theta, rotation.dim, interleaved=rotation.interleaved)
        return CacheShape(
            shape.layers, shape.heads, shape.kv_heads, shape.head_dim, rotation, local,
            windowed=self._windowed(kind) if window else (), window=window,
            softcap=s.number("attn_logit_softcapping", 0.0) if kind == "gemma2" else 0.0,
        )  # fmt: skip

    def _windowed(self, kind: str) -> tuple[bool, ...]:
        """Return which layers have windows."""
        listed = self.settings.texts("layer_types")
        if listed:
            return tuple(name == "sliding_attention" for name in listed)
        period = self.settings.integer("sliding_window_pattern", _PERIODS[kind])
        return tuple(bool((index + 1) % period) for index in range(self.shape.layers))


__all__ = ["Gemma", "Layer"]
