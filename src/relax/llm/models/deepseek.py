"""DeepSeek V2 and V3: latent attention, and mixtures of experts that are chosen by groups.

Queries, keys and values of all heads are products of short latent vectors. Each head's queries and keys have a part
that is rotated, which is the same for the keys of all heads, and a part that is not. The cache holds keys and values.

Source: DeepSeek-AI, DeepSeek-V2, 2024 (arXiv:2405.04434), and DeepSeek-V3 Technical Report, 2024 (arXiv:2412.19437).
"""

from __future__ import annotations

import math
from typing import Any, Final, cast

import numpy as np

from ... import op as relax_op
from ...frontend import nn
from ...frontend.nn import Tensor, op
from ...frontend.nn.llm import PagedKVCache
from ...runtime.records import dataclass
from ..decoder import CacheShape, Decoder, Shape
from ..experts import MOST_EXPERTS, Experts
from ..layers import GatedMLP, Linear, QuantizedActivations, RMSNorm, expr_of
from ..settings import Rotation, Settings

_MOST: Final = 1 << 20
"""Most elements of a latent vector, or of a head: a corrupt file must not make its reader list billions of angles."""
_EPSILON: Final = 1e-6
"""Added to the mean of squares where latent vectors are normalised."""


@dataclass(frozen=True)
class Latent:
    """Sizes of latent attention."""

    heads: int
    queries: int
    """Elements of the latent vectors of queries; 0: queries are products of the activations."""
    keys: int
    """Elements of the latent vectors of keys and values."""
    plain: int
    """Elements of a head's queries and keys that are not rotated."""
    rotated: int
    values: int
    """Elements of a head's values."""

    @classmethod
    def of(cls, s: Settings, heads: int) -> Latent:
        """Return the sizes that settings say. Raises ValueError for sizes with which nothing is computed."""
        queries = s.integer("q_lora_rank", 0)
        names = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        keys, plain, rotated, values = (s.integer(name, most=_MOST) for name in names)
        if not (keys and plain and rotated and values) or rotated % 2:
            raise ValueError(f"latent attention of the sizes {keys}, {plain}, {rotated}, {values} computes nothing")
        return cls(heads, queries, keys, plain, rotated, values)

    @property
    def head_dim(self) -> int:
        """Elements of a head's queries and keys."""
        return self.plain + self.rotated


class LatentAttention(nn.Module):
    """Attention whose queries, keys and values are made of latent vectors; the names are those of checkpoints."""

    def __init__(self, s: Settings, hidden: int, sizes: Latent) -> None:
        super().__init__()
        self.sizes, self.scale = sizes, _scale(s, sizes.head_dim)
        bias, queries = s.flag("attention_bias"), sizes.heads * sizes.head_dim
        first, name = (sizes.queries, "q_a_proj") if sizes.queries else (queries, "q_proj")
        self.first = first
        self.a_proj = Linear(
            hidden, (first, sizes.keys + sizes.rotated), (name, "kv_a_proj_with_mqa"),
            bias=(bias and bool(sizes.queries), bias),
        )  # fmt: skip
        if sizes.queries:
            self.q_a_layernorm = RMSNorm(sizes.queries, _EPSILON)
            self.q_b_proj = Linear(sizes.queries, queries)
        self.kv_a_layernorm = RMSNorm(sizes.keys, _EPSILON)
        self.is_split = s.flag("split_kv_b_proj")
        if self.is_split:
            self.k_b_proj = HeadProduct(sizes.heads, sizes.keys, sizes.plain)
            self.v_b_proj = HeadProduct(sizes.heads, sizes.values, sizes.keys)
        else:
            self.kv_b_proj = Linear(sizes.keys, sizes.heads * (sizes.plain + sizes.values))
        self.o_proj = Linear(sizes.heads * sizes.values, hidden, bias=bias)

    def forward(self, x: Tensor, cache: PagedKVCache, layer: int) -> Tensor:
        """Attention (n, hidden) of the tokens of a batch, whose keys and values are appended to the cache."""
        count, sizes = x.shape[0], self.sizes
        q, latent, rotated = op.split(self.a_proj(x), [self.first, self.first + sizes.keys], axis=-1)
        if sizes.queries:
            q = self.q_b_proj(self.q_a_layernorm(q))
        q = op.reshape(q, (count, sizes.heads, sizes.head_dim))
        q_plain, q_rotated = op.split(q, [sizes.plain], axis=-1)
        k_plain, v = self._keys_and_values(self.kv_a_layernorm(latent))
        shared = op.reshape(rotated, (count, 1, sizes.rotated))
        k_rotated = op.broadcast_to(shared, (count, sizes.heads, sizes.rotated))
        # The cache rotates the first elements of each head.
        parts = [op.concat([q_rotated, q_plain], dim=-1), op.concat([k_rotated, k_plain], dim=-1), v]
        widths = (sizes.head_dim, sizes.head_dim, sizes.values)
        rows = [op.reshape(part, (1, count, sizes.heads * w)) for part, w in zip(parts, widths, strict=True)]
        result = cache.attention_with_fused_qkv(
            layer, op.concat(rows, dim=-1), sizes.heads, self.scale, v_head_dim=sizes.values
        )
        return self.o_proj(op.reshape(result, (count, sizes.heads * sizes.values)))

    def _keys_and_values(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Keys without their rotated part (n, heads, plain) and values (n, heads, values) of latent vectors."""
        sizes = self.sizes
        if self.is_split:
            return self.k_b_proj(latent), self.v_b_proj(latent, transposed=True)
        kv = op.reshape(self.kv_b_proj(latent), (latent.shape[0], sizes.heads, sizes.plain + sizes.values))
        plain, values = op.split(kv, [sizes.plain], axis=-1)
        return plain, values


class HeadProduct(nn.Module):
    """Products with a matrix of each head, which GGUF files since 2025 have in the place of `kv_b_proj`."""

    def __init__(self, heads: int, rows: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter((heads, rows, columns), "float32")

    def forward(self, x: Tensor, transposed: bool = False) -> Tensor:
        """Products (n, heads, columns) of x (n, rows), or (n, heads, rows) of x (n, columns) if `transposed`."""
        weight = op.permute_dims(self.weight, [0, 2, 1]) if transposed else self.weight
        return op.permute_dims(op.matmul(op.unsqueeze(x, dim=0), weight), [1, 0, 2])


def _scale(s: Settings, head_dim: int) -> float:
    """Return the factor of scores: 1 / √head_dim, and more where rotations are scaled by YaRN with `mscale_all_dim`."""
    parameters = s.inner("rope_scaling") if "rope_scaling" in s else s.inner("rope_parameters")
    all_dim = parameters.number("mscale_all_dim", 0.0)
    kind = parameters.text("rope_type", parameters.text("type", "default"))
    factor = parameters.positive("factor", 1.0)
    scale = 0.1 * all_dim * math.log(factor) + 1.0 if kind != "default" and all_dim and factor > 1 else 1.0
    return head_dim**-0.5 * scale * scale


class RoutedExperts(Experts):
    """Mixture of experts, of which each token takes some of its best groups, and shared experts that all tokens take.

    V2 gives an expert the softmax of the router's product, and a group the best of its experts; V3 gives an expert the
    sigmoid plus a bias, by which it is chosen but not weighed, and a group the sum of its two best. Weights are
    multiplied by `routed_scaling_factor`.
    """

    def __init__(self, s: Settings, hidden: int) -> None:
        name = "n_routed_experts" if "n_routed_experts" in s else "num_local_experts"
        count = s.integer(name, most=MOST_EXPERTS)
        inner, activation = s.integer("moe_intermediate_size"), s.activation("hidden_act")
        self.sigmoid = (
            s.text("scoring_func", "sigmoid" if s.text("model_type") == "deepseek_v3" else "softmax") == "sigmoid"
        )
        super().__init__(
            hidden, inner, count, s.integer("num_experts_per_tok"), activation,
            normalised=s.flag("norm_topk_prob", self.sigmoid),
        )  # fmt: skip
        self.count, self.factor = count, s.number("routed_scaling_factor", 1.0)
        limited = self.sigmoid or s.text("topk_method", "greedy") == "group_limited_greedy"
        self.groups = max(s.integer("n_group", 1), 1) if limited else 1
        self.used_groups = s.integer("topk_group", 1)
        if count % self.groups or not 0 < self.used_groups <= self.groups or (self.sigmoid and count < 2 * self.groups):
            raise ValueError(f"{count} experts cannot be chosen from {self.used_groups} of {self.groups} groups")
        if self.used_groups * (count // self.groups) < self.used:
            raise ValueError(f"{self.used_groups} groups of {count // self.groups} experts have no {self.used} experts")
        if self.sigmoid:
            cast(Any, self.gate).e_score_correction_bias = nn.Parameter((count,), "float32")
        shared = s.integer("n_shared_experts", 0)
        self.shared_experts = GatedMLP(hidden, shared * inner, activation) if shared else None

    def forward(self, x: Tensor) -> Tensor:
        result = super().forward(x)
        return result if self.shared_experts is None else result + self.shared_experts(QuantizedActivations(x))

    def chosen(self, x: Tensor) -> tuple[Tensor, Tensor]:
        product = self.gate(x)
        scores = op.sigmoid(product) if self.sigmoid else op.softmax(product, axis=-1)
        choice = scores + cast(Any, self.gate).e_score_correction_bias if self.sigmoid else scores
        _, experts = op.topk(self._of_best_groups(choice), k=self.used, axis=-1)
        weights = cast(
            Tensor, op.wrap_nested(relax_op.gather_elements(expr_of(scores), expr_of(experts), axis=1), "weights")
        )
        if self.normalised:
            weights = weights / (op.sum(weights, axis=-1, keepdims=True) + 1e-20)
        return weights * self.factor, experts

    def _of_best_groups(self, scores: Tensor) -> Tensor:
        """Return scores (n, count) with the least number in the place of those outside of the best groups."""
        if self.groups == self.used_groups:
            return scores
        count, size = scores.shape[0], self.count // self.groups
        best, _ = op.topk(op.reshape(scores, (count, self.groups, size)), k=2 if self.sigmoid else 1, axis=-1)
        _, groups = op.topk(op.sum(best, axis=-1), k=self.used_groups, axis=-1)
        all_groups = Tensor.from_const(np.arange(self.groups, dtype=np.int32)[None, :, None])
        is_best = op.equal(op.reshape(groups, (count, 1, self.used_groups)), all_groups)
        taken = op.max(is_best.astype("int32"), axis=-1)
        taken = op.reshape(
            op.broadcast_to(op.reshape(taken, (count, self.groups, 1)), (count, self.groups, size)), scores.shape
        )
        return op.where(taken > 0, scores, Tensor.from_const(np.float32(-np.inf)))


class Layer(nn.Module):
    """Latent attention, then a feed-forward layer or a mixture of experts; both read normalised activations."""

    def __init__(self, s: Settings, shape: Shape, index: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden, shape.epsilon)
        self.self_attn = LatentAttention(s, shape.hidden, Latent.of(s, shape.heads))
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.epsilon)
        is_dense = index < s.integer("first_k_dense_replace", 0) or index % max(s.integer("moe_layer_freq", 1), 1)
        if is_dense:
            self.mlp: Any = GatedMLP(shape.hidden, shape.inner, s.activation("hidden_act"), bias=s.flag("mlp_bias"))
        else:
            self.mlp = RoutedExperts(s, shape.hidden)

    def forward(self, x: Tensor, cache: PagedKVCache, index: int) -> Tensor:
        """Activations (n, hidden) behind this layer."""
        x = x + self.self_attn(self.input_layernorm(x), cache, index)
        return x + self.mlp(self.post_attention_layernorm(x))


class DeepSeek(Decoder):
    """DeepSeek V2 and V3."""

    def layer(self, index: int) -> nn.Module:
        return Layer(self.settings, self.shape, index)

    def cache(self) -> CacheShape:
        s, shape = self.settings, self.shape
        sizes = Latent.of(s, shape.heads)
        interleaved = s.flag("rope_interleave", True)
        rotation = Rotation.of(Settings({**s.values, "interleaved": interleaved}), sizes.rotated)
        return CacheShape(shape.layers, shape.heads, shape.heads, sizes.head_dim, rotation, value_dim=sizes.values)


__all__ = ["DeepSeek"]
