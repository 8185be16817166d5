"""Llama's layers with mixtures of experts: Mixtral, Qwen 2 MoE (a shared expert, too) and Qwen 3 MoE.

Source: Jiang et al., Mixtral of Experts, 2024; Yang et al., Qwen2 Technical Report, 2024, and Qwen3 Technical Report,
2025.
"""

from __future__ import annotations

from typing import Final

from ...frontend import nn
from ...frontend.nn import Tensor
from ...frontend.nn.llm import PagedKVCache
from ..decoder import Decoder, Shape
from ..experts import MOST_EXPERTS, Experts
from ..layers import RMSNorm
from ..settings import Settings
from .llama import Layer, attention_of

MIXTRAL: Final = "mixtral"
_MATRICES: Final = ("w1", "w3", "w2")
"""Mixtral's names of gate, up and down."""


class SparseLayer(nn.Module):
    """Attention, then a mixture of experts; both read normalised activations, and add to them."""

    def __init__(self, settings: Settings, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden, shape.epsilon)
        self.self_attn = attention_of(settings, shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.epsilon)
        self.is_mixtral = settings.text("model_type") == MIXTRAL
        if self.is_mixtral:
            self.block_sparse_moe = _mixtral(settings, shape)
        else:
            self.mlp = _qwen(settings, shape)

    def forward(self, x: Tensor, cache: PagedKVCache, index: int) -> Tensor:
        """Activations (n, hidden) behind this layer."""
        x = x + self.self_attn(self.input_layernorm(x), cache, index)
        experts = self.block_sparse_moe if self.is_mixtral else self.mlp
        return x + experts(self.post_attention_layernorm(x))


def _mixtral(s: Settings, shape: Shape) -> Experts:
    return Experts(
        shape.hidden, shape.inner, _count(s), s.integer("num_experts_per_tok", 2), s.activation("hidden_act"),
        names=_MATRICES,
    )  # fmt: skip


def _qwen(s: Settings, shape: Shape) -> Experts:
    shared = s.text("model_type") == "qwen2_moe"
    return Experts(
        shape.hidden, s.integer("moe_intermediate_size"), _count(s), s.integer("num_experts_per_tok"),
        s.activation("hidden_act"), normalised=s.flag("norm_topk_prob"),
        shared=s.integer("shared_expert_intermediate_size") if shared else 0,
    )  # fmt: skip


def _count(s: Settings) -> int:
    """Return the number of experts, which settings have under one of two names."""
    name = "num_experts" if "num_experts" in s else "num_local_experts"
    return s.integer(name, most=MOST_EXPERTS)


class Mixture(Decoder):
    """Mixtral, Qwen 2 MoE and Qwen 3 MoE; the Qwen models may have layers without experts."""

    def layer(self, index: int) -> nn.Module:
        s = self.settings
        if s.text("model_type") == MIXTRAL:
            return SparseLayer(s, self.shape)
        step = s.integer("decoder_sparse_step", 1)
        is_sparse = step > 0 and (index + 1) % step == 0 and index not in s.integers("mlp_only_layers")
        return (SparseLayer if is_sparse else Layer)(s, self.shape)


__all__ = ["Mixture", "SparseLayer"]
