"""Decoder: tokens of a batch to logits of the next tokens. Families of models give it their layers.

    class Llama(Decoder):
        def layer(self, index): return Layer(self.settings, self.shape)

One function serves a prompt of any length, one more token, and batches of both: `forward` takes the tokens of all
sequences one behind the other, and the cache knows which sequence each belongs to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from ..frontend import nn
from ..frontend.nn import Tensor, op
from ..frontend.nn.llm import PagedKVCache
from ..runtime.records import dataclass
from .layers import Embedding, Linear, RMSNorm
from .settings import MOST_LAYERS, Rotation, Settings


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder."""

    hidden: int
    inner: int
    """Elements between the products of a feed-forward layer."""
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    epsilon: float
    """Added to the mean of squares where activations are normalised."""

    @classmethod
    def of(cls, s: Settings) -> Shape:
        """Return the sizes that settings say. Raises ValueError for sizes that do not fit together."""
        hidden, heads = s.integer("hidden_size"), s.integer("num_attention_heads")
        if not heads or ("head_dim" not in s and hidden % heads):
            raise ValueError(f"{hidden} elements cannot be shared by {heads} heads")
        kv_heads = s.integer("num_key_value_heads", heads)
        if not kv_heads or heads % kv_heads:
            raise ValueError(f"{heads} heads of queries cannot share {kv_heads} heads of keys")
        head_dim = s.integer("head_dim", hidden // heads)
        if not head_dim or not hidden:
            raise ValueError(f"a model of {hidden} elements, with heads of {head_dim}, computes nothing")
        return cls(
            hidden=hidden, inner=s.integer("intermediate_size"),
            layers=s.integer("num_hidden_layers", most=MOST_LAYERS), heads=heads,
            kv_heads=kv_heads, head_dim=head_dim, vocabulary=s.integer("vocab_size"),
            epsilon=s.positive("rms_norm_eps", 1e-6),
        )  # fmt: skip


@dataclass(frozen=True)
class CacheShape:
    """Contents of the cache of a decoder's attention."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rotation: Rotation
    local_rotation: Rotation | None = None
    """Rotation of the layers with a window; None: the same."""
    windowed: tuple[bool, ...] = ()
    """For each layer: True if its queries see the last `window` tokens only; empty: none does."""
    window: int = 0
    value_dim: int = 0
    """Elements of a head's values; 0: `head_dim`."""
    softcap: float = 0.0
    """Scores become softcap · tanh(score / softcap); 0: they stay."""


@dataclass(frozen=True)
class StateShape:
    """States of the sequences of a recurrent model."""

    layers: int
    states: tuple[tuple[int, ...], ...]
    """Shapes of the states of a layer for one sequence, float32, which begin as zeros."""


class Body(nn.Module):
    """Everything of a decoder but its last product; the names are those of checkpoints."""

    def __init__(self, shape: Shape, layers: Sequence[nn.Module], norm: nn.Module, tied: bool) -> None:
        super().__init__()
        self.embed_tokens = Embedding(shape.vocabulary, shape.hidden, tied=tied)
        self.layers = nn.ModuleList([*layers])
        self.norm = norm


class Decoder(nn.Module):
    """Base class of decoders with rotated queries and keys, whose layers are called with activations, cache and number.

    A family overrides `layer`, and what else is its own. Raises ValueError for settings that it does not understand.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings, self.shape = settings, Shape.of(settings)
        layers = [self.layer(index) for index in range(self.shape.layers)]
        tied = settings.flag("tie_word_embeddings", self.tied)
        self.model = Body(self.shape, layers, self.norm(), tied)
        self.lm_head = None if tied else Linear(self.shape.hidden, self.shape.vocabulary)

    tied: bool = False
    """True if the family's embeddings are its last product's weights where settings do not say."""

    def layer(self, index: int) -> nn.Module:
        """Return a layer. Raises NotImplementedError in the base class."""
        raise NotImplementedError(f"{type(self).__name__} has no layers")

    def norm(self) -> nn.Module:
        """Return the normalisation before the last product."""
        return RMSNorm(self.shape.hidden, self.shape.epsilon)

    def cache(self) -> CacheShape:
        """Return what the cache of attention holds."""
        shape, s = self.shape, self.settings
        window = s.integer("sliding_window", 0) if s.flag("use_sliding_window", True) else 0
        return CacheShape(
            shape.layers, shape.heads, shape.kv_heads, shape.head_dim, Rotation.of(s, shape.head_dim),
            windowed=(True,) * shape.layers if window else (), window=window,
        )  # fmt: skip

    def embedded(self, tokens: Tensor) -> Tensor:
        """Return the activations (n, hidden) of tokens (n,)."""
        return self.model.embed_tokens(tokens)

    def hidden(self, tokens: Tensor, cache: PagedKVCache) -> Tensor:
        """Return the activations (n, hidden) behind the last layer."""
        x = self.embedded(tokens)
        for index, layer in enumerate(self.model.layers):
            x = cast(Any, layer)(x, cache, index)
        return x

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits (n, vocabulary) of activations (n, hidden)."""
        if self.lm_head is None:
            return self.model.embed_tokens.logits(x)
        return self.lm_head(x)

    def forward(self, tokens: Tensor, last: Tensor, cache: PagedKVCache) -> Tensor:
        """Logits (m, vocabulary) behind the tokens at the places `last` (m,) of tokens (n,)."""
        x = op.take(self.hidden(tokens, cache), last, axis=0)
        return self.logits(cast(Any, self.model.norm)(x))


def capped(x: Tensor, cap: float) -> Tensor:
    """Return cap · tanh(x / cap); x itself if cap is 0."""
    return op.tanh(x / cap) * cap if cap and math.isfinite(cap) else x


__all__ = ["Body", "CacheShape", "Decoder", "Shape", "StateShape", "capped"]
