"""Whisper: features of 30 seconds of speech to tokens. An encoder, and a decoder that attends to the encoder's states.

`encode` makes the keys and values of all layers' attention to the speech, once for a window; `forward` is a decoder as
others are, called with them.

Source: Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision, 2022.
"""

from __future__ import annotations

from typing import Any, cast

from ... import op as relax_op
from ...frontend import nn
from ...frontend.nn import Tensor, op
from ...frontend.nn.llm import PagedKVCache
from ...runtime.records import dataclass
from ..decoder import CacheShape
from ..layers import ACTIVATIONS, Embedding, LayerNorm, Linear, expr_of
from ..settings import MOST_LAYERS, Rotation, Settings

EPSILON = 1e-5
_PROJECTIONS = ("q_proj", "k_proj", "v_proj")
_MOST_FRAMES = 1 << 20


@dataclass(frozen=True)
class Sizes:
    """Sizes of an encoder or a decoder."""

    hidden: int
    heads: int
    inner: int
    layers: int
    positions: int
    activation: str

    @classmethod
    def of(cls, s: Settings, part: str) -> Sizes:
        """Return the sizes of the part "encoder" or "decoder". Raises ValueError for those that do not fit together."""
        hidden, heads = s.integer("d_model"), s.integer(f"{part}_attention_heads")
        if not hidden or not heads or hidden % heads:
            raise ValueError(f"{hidden} elements cannot be shared by {heads} heads")
        positions = s.integer(
            "max_source_positions" if part == "encoder" else "max_target_positions", most=_MOST_FRAMES
        )
        if not positions:
            raise ValueError(f"the {part} has no positions")
        return cls(
            hidden, heads, s.integer(f"{part}_ffn_dim"), s.integer(f"{part}_layers", most=MOST_LAYERS), positions,
            s.activation("activation_function", default="gelu"),
        )  # fmt: skip

    @property
    def head_dim(self) -> int:
        """Elements of a head."""
        return self.hidden // self.heads


class SelfAttention(nn.Module):
    """Attention among the states of one sequence; without a cache every state sees all."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.qkv_proj = Linear(sizes.hidden, (sizes.hidden,) * 3, _PROJECTIONS, bias=(True, False, True))
        self.out_proj = Linear(sizes.hidden, sizes.hidden, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        """Attention (n, hidden) of the states (n, hidden) to all of them."""
        q, k, v = (heads_of(part, self.sizes) for part in op.split(self.qkv_proj(x), 3, axis=-1))
        return self.out_proj(attention(q, k, v, self.sizes))

    def with_cache(self, x: Tensor, cache: PagedKVCache, layer: int) -> Tensor:
        """Attention (n, hidden) of the tokens of a batch to the past of their sequences."""
        count, sizes = x.shape[0], self.sizes
        qkv = op.reshape(self.qkv_proj(x), (1, count, 3 * sizes.heads, sizes.head_dim))
        result = cache.attention_with_fused_qkv(layer, qkv, sizes.heads, sizes.head_dim**-0.5)
        return self.out_proj(op.reshape(result, (count, sizes.hidden)))


class CrossAttention(nn.Module):
    """Attention of tokens to the states of the encoder."""

    def __init__(self, sizes: Sizes, states: int) -> None:
        super().__init__()
        self.sizes = sizes
        self.q_proj = Linear(sizes.hidden, sizes.hidden, bias=True)
        self.kv_proj = Linear(states, (sizes.hidden,) * 2, _PROJECTIONS[1:], bias=(False, True))
        self.out_proj = Linear(sizes.hidden, sizes.hidden, bias=True)

    def keys_and_values(self, states: Tensor) -> list[Tensor]:
        """Keys and values (1, frames, heads, head dim) of the encoder's states (frames, hidden)."""
        return [heads_of(part, self.sizes) for part in op.split(self.kv_proj(states), 2, axis=-1)]

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention (n, hidden) of tokens (n, hidden)."""
        return self.out_proj(attention(heads_of(self.q_proj(x), self.sizes), keys, values, self.sizes))


def heads_of(x: Tensor, sizes: Sizes) -> Tensor:
    """Return states (n, hidden) as those of heads (1, n, heads, head dim)."""
    return op.reshape(x, (1, x.shape[0], sizes.heads, sizes.head_dim))


def attention(q: Tensor, k: Tensor, v: Tensor, sizes: Sizes) -> Tensor:
    """Return the attention (n, hidden) of queries (1, n, heads, head dim) to all keys."""
    attended = relax_op.nn.attention(expr_of(q), expr_of(k), expr_of(v))
    return op.reshape(cast(Tensor, op.wrap_nested(attended, "attention")), (q.shape[1], sizes.hidden))


class Layer(nn.Module):
    """Attention, attention to the encoder (in a decoder), then a feed-forward layer; each adds to normalised states."""

    def __init__(self, sizes: Sizes, states: int = 0) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[sizes.activation]
        self.self_attn = SelfAttention(sizes)
        self.self_attn_layer_norm = LayerNorm(sizes.hidden, EPSILON)
        if states:
            self.encoder_attn = CrossAttention(sizes, states)
            self.encoder_attn_layer_norm = LayerNorm(sizes.hidden, EPSILON)
        self.fc1 = Linear(sizes.hidden, sizes.inner, bias=True)
        self.fc2 = Linear(sizes.inner, sizes.hidden, bias=True)
        self.final_layer_norm = LayerNorm(sizes.hidden, EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """States (n, hidden) of the encoder behind this layer."""
        return self._fed_forward(x + self.self_attn(self.self_attn_layer_norm(x)))

    def decode(self, x: Tensor, cache: PagedKVCache, index: int, keys: Tensor, values: Tensor) -> Tensor:
        """States (n, hidden) of tokens behind this layer of the decoder."""
        x = x + self.self_attn.with_cache(self.self_attn_layer_norm(x), cache, index)
        x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), keys, values)
        return self._fed_forward(x)

    def _fed_forward(self, x: Tensor) -> Tensor:
        return x + self.fc2(self.activation(self.fc1(self.final_layer_norm(x))))


class Encoder(nn.Module):
    """Two convolutions, positions, and layers; the names are those of checkpoints."""

    def __init__(self, s: Settings, sizes: Sizes) -> None:
        super().__init__()
        self.conv1 = nn.Conv1D(s.integer("num_mel_bins"), sizes.hidden, 3, padding=1)
        self.conv2 = nn.Conv1D(sizes.hidden, sizes.hidden, 3, stride=2, padding=1)
        self.embed_positions = Embedding(sizes.positions, sizes.hidden)
        self.layers = nn.ModuleList([Layer(sizes) for _ in range(sizes.layers)])
        self.layer_norm = LayerNorm(sizes.hidden, EPSILON)

    def forward(self, features: Tensor) -> Tensor:
        """States (frames, hidden) of features (1, mel bins, 2 · frames)."""
        x = op.gelu(self.conv2(op.gelu(self.conv1(features))))
        _, hidden, frames = x.shape
        x = op.permute_dims(op.reshape(x, (hidden, frames)), [1, 0])
        x = x + self.embed_positions(op.arange(0, frames, dtype="int32"))
        for layer in self.layers:
            x = cast(Any, layer)(x)
        return self.layer_norm(x)


class Decoder(nn.Module):
    """Embeddings and layers; the names are those of checkpoints."""

    def __init__(self, s: Settings, sizes: Sizes, states: int) -> None:
        super().__init__()
        self.embed_tokens = Embedding(s.integer("vocab_size"), sizes.hidden, tied=s.flag("tie_word_embeddings", True))
        self.embed_positions = Embedding(sizes.positions, sizes.hidden)
        self.layers = nn.ModuleList([Layer(sizes, states) for _ in range(sizes.layers)])
        self.layer_norm = LayerNorm(sizes.hidden, EPSILON)


class Parts(nn.Module):
    """Encoder and decoder; the names are those of checkpoints."""

    def __init__(self, s: Settings, encoder: Sizes, decoder: Sizes) -> None:
        super().__init__()
        self.encoder = Encoder(s, encoder)
        self.decoder = Decoder(s, decoder, encoder.hidden)


class Whisper(nn.Module):
    """Speech to text. Raises ValueError for settings that it does not understand."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        if settings.flag("scale_embedding"):
            raise ValueError("Whisper with scaled embeddings (scale_embedding) is not read")
        encoder, decoder = Sizes.of(settings, "encoder"), Sizes.of(settings, "decoder")
        self.bins, self.sizes, self.frames = settings.integer("num_mel_bins"), decoder, encoder.positions
        self.model = Parts(settings, encoder, decoder)
        tied = settings.flag("tie_word_embeddings", True)
        self.lm_head = None if tied else Linear(decoder.hidden, settings.integer("vocab_size"))

    def cache(self) -> CacheShape:
        """Return what the cache of attention holds: the past of the decoder."""
        sizes = self.sizes
        return CacheShape(sizes.layers, sizes.heads, sizes.heads, sizes.head_dim, Rotation(10000.0, 0))

    def encode(self, features: Tensor) -> list[Tensor]:
        """Keys and values of each decoder layer's attention to the features (1, mel bins, 2 · frames) in turn."""
        states = self.model.encoder(features)
        return [
            part
            for layer in self.model.decoder.layers
            for part in cast(Any, layer).encoder_attn.keys_and_values(states)
        ]

    def forward(self, tokens: Tensor, last: Tensor, cache: PagedKVCache, speech: list[Tensor]) -> Tensor:
        """Logits (m, vocabulary) behind the tokens at `last` (m,) of tokens (n,); `speech` comes from `encode`."""
        decoder = self.model.decoder
        x = decoder.embed_tokens(tokens) + decoder.embed_positions(cache.get_query_positions(tokens.shape[0]))
        for index, layer in enumerate(decoder.layers):
            x = cast(Any, layer).decode(x, cache, index, speech[2 * index], speech[2 * index + 1])
        x = decoder.layer_norm(op.take(x, last, axis=0))
        return decoder.embed_tokens.logits(x) if self.lm_head is None else self.lm_head(x)


__all__ = ["Whisper"]
