"""BERT, as models of sentences use it: MiniLM, BGE, E5. Tokens see all tokens of their text.

Source: Devlin et al., BERT, 2019; Reimers and Gurevych, Sentence-BERT, 2019 (the mean of all tokens).
"""

from __future__ import annotations

from typing import cast

import numpy as np

from ... import op as relax_op
from ...frontend import nn
from ...frontend.nn import Tensor, op
from ..layers import ACTIVATIONS, Embedding, LayerNorm, Linear, expr_of
from ..settings import MOST_LAYERS, Settings


class Embeddings(nn.Module):
    """Sum of the rows for tokens, positions and the first kind of segments, normalised."""

    def __init__(self, s: Settings, hidden: int, epsilon: float) -> None:
        super().__init__()
        self.word_embeddings = Embedding(s.integer("vocab_size"), hidden)
        self.position_embeddings = Embedding(s.integer("max_position_embeddings", 512), hidden)
        self.token_type_embeddings = Embedding(s.integer("type_vocab_size", 2), hidden)
        self.LayerNorm = LayerNorm(hidden, epsilon)

    def forward(self, tokens: Tensor) -> Tensor:
        """Activations (b, n, hidden) of tokens (b, n)."""
        positions = op.arange(0, tokens.shape[1], dtype="int32")
        first = Tensor.from_const(np.zeros(1, np.int32))
        return self.LayerNorm(
            self.word_embeddings(tokens) + self.position_embeddings(positions) + self.token_type_embeddings(first)
        )


class Projections(nn.Module):
    """Queries, keys and values; the names are those of checkpoints."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, hidden // heads
        self.qkv = Linear(hidden, (hidden,) * 3, ("query", "key", "value"), bias=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Attention (b, n, hidden) of all tokens to those that the mask (b, 1, n, n) permits."""
        batch, count, hidden = x.shape
        q, k, v = (
            expr_of(op.reshape(part, (batch, count, self.heads, self.head_dim)))
            for part in op.split(self.qkv(x), 3, axis=-1)
        )
        attended = op.wrap_nested(relax_op.nn.attention(q, k, v, expr_of(mask)), "attention")
        return op.reshape(cast(Tensor, attended), (batch, count, hidden))


class Dense(nn.Module):
    """Product, and the normalised sum with what went before."""

    def __init__(self, inner: int, hidden: int, epsilon: float) -> None:
        super().__init__()
        self.dense = Linear(inner, hidden, bias=True)
        self.LayerNorm = LayerNorm(hidden, epsilon)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        """Activations (b, n, hidden)."""
        return self.LayerNorm(self.dense(x) + before)


class Attention(nn.Module):
    """Attention and its output; the names are those of checkpoints."""

    def __init__(self, hidden: int, heads: int, epsilon: float) -> None:
        super().__init__()
        self.self = Projections(hidden, heads)
        self.output = Dense(hidden, hidden, epsilon)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Activations (b, n, hidden)."""
        return self.output(self.self(x, mask), x)


class Intermediate(nn.Module):
    """First product of a feed-forward layer, and its activation."""

    def __init__(self, hidden: int, inner: int, activation: str) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.dense = Linear(hidden, inner, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        """Activations (b, n, inner)."""
        return self.activation(self.dense(x))


class Layer(nn.Module):
    """Attention, then a feed-forward layer; norms stand behind both."""

    def __init__(self, s: Settings, hidden: int, heads: int, epsilon: float) -> None:
        super().__init__()
        inner = s.integer("intermediate_size")
        self.attention = Attention(hidden, heads, epsilon)
        self.intermediate = Intermediate(hidden, inner, s.activation("hidden_act", default="gelu"))
        self.output = Dense(inner, hidden, epsilon)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Activations (b, n, hidden)."""
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class Encoder(nn.Module):
    """All layers; the name is that of checkpoints."""

    def __init__(self, s: Settings, hidden: int, heads: int, epsilon: float) -> None:
        super().__init__()
        layers = [Layer(s, hidden, heads, epsilon) for _ in range(s.integer("num_hidden_layers", most=MOST_LAYERS))]
        self.layer = nn.ModuleList(layers)


class BERT(nn.Module):
    """Encoder of texts: tokens to activations that depend on the whole text."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        s = settings
        hidden, heads = s.integer("hidden_size"), s.integer("num_attention_heads")
        if not heads or not hidden or hidden % heads:
            raise ValueError(f"{hidden} elements cannot be shared by {heads} heads")
        epsilon = s.positive("layer_norm_eps", 1e-12)
        self.embeddings = Embeddings(s, hidden, epsilon)
        self.encoder = Encoder(s, hidden, heads, epsilon)

    def encode(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Activations (b, n, hidden) of tokens (b, n), of which the first `lengths` (b,) of each text count."""
        batch, count = tokens.shape
        x = self.embeddings(tokens)
        places = op.reshape(op.arange(0, count, dtype="int32"), (1, 1, 1, count))
        inside = places < op.reshape(lengths, (batch, 1, 1, 1))
        zero, least = Tensor.from_const(np.float32(0)), Tensor.from_const(np.float32(-np.inf))
        mask = op.broadcast_to(op.where(inside, zero, least), (batch, 1, count, count))
        for layer in self.encoder.layer:
            x = layer(x, mask)
        return x


__all__ = ["BERT"]
