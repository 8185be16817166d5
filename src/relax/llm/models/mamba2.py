"""Mamba 2: layers with a state of one size in the place of attention. Prompts and single tokens take the same program.

Source: Dao and Gu, Transformers are SSMs: Generalized Models and Efficient Algorithms Through Structured State Space
Duality, 2024 (arXiv:2405.21060).
"""

from __future__ import annotations

import math
from typing import Any, cast

from ... import op as relax_op
from ...frontend import nn
from ...frontend.nn import Tensor, op
from ...frontend.nn.llm import RNNState
from ...runtime.records import dataclass
from ...topi.state_space import causal_conv, state_space_scan
from ..decoder import StateShape
from ..layers import ACTIVATIONS, Embedding, Linear, RMSNorm, expr_of
from ..settings import MOST_LAYERS, Settings


@dataclass(frozen=True)
class Sizes:
    """Sizes of the layers."""

    hidden: int
    heads: int
    head_dim: int
    groups: int
    state: int
    """Elements of the state for each element of a head."""
    taps: int
    """Tokens that the convolution sees."""

    @classmethod
    def of(cls, s: Settings) -> Sizes:
        """Return the sizes that settings say. Raises ValueError for sizes that do not fit together."""
        hidden, heads, head_dim = s.integer("hidden_size"), s.integer("num_heads"), s.integer("head_dim")
        groups, state, taps = s.integer("n_groups", 1), s.integer("state_size"), s.integer("conv_kernel", 4, most=4096)
        if not (hidden and heads and head_dim and groups and state) or heads % groups or taps < 2:
            raise ValueError(f"{heads} heads of {head_dim} elements in {groups} groups, with {taps} taps, do not fit")
        inner = s.number("expand") * hidden if "expand" in s else heads * head_dim
        if int(inner) != heads * head_dim:
            raise ValueError(f"{heads} heads of {head_dim} elements are not the {inner:g} elements of a layer")
        return cls(hidden, heads, head_dim, groups, state, taps)

    @property
    def inner(self) -> int:
        """Elements of all heads."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """Channels of the convolution: inputs, and the vectors that lead them into the state and out of it."""
        return self.inner + 2 * self.groups * self.state


class Convolution(nn.Module):
    """Convolution of each channel with its past; `weight` and `bias` are those of checkpoints.

    `flat`: the weight has two dimensions, as in GGUF files.
    """

    def __init__(self, sizes: Sizes, has_bias: bool, flat: bool) -> None:
        super().__init__()
        self.sizes = sizes
        shape = (sizes.channels, sizes.taps) if flat else (sizes.channels, 1, sizes.taps)
        self.weight = nn.Parameter(shape, "float32")
        self.bias = nn.Parameter((sizes.channels,), "float32") if has_bias else None

    def forward(self, x: Tensor, before: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        """Return the convolution (n, channels), and the state (b, taps - 1, channels) after it."""
        channels, taps = self.sizes.channels, self.sizes.taps
        weight = op.permute_dims(op.reshape(self.weight, (channels, taps)), [1, 0])
        bias = op.zeros((channels,), "float32") if self.bias is None else self.bias
        return op.tensor_expr_op(causal_conv, "causal_conv", [x, before, weight, bias, ends])


class GatedNorm(nn.Module):
    """Normalised product with a gate, in groups; `weight` is that of checkpoints, a row for each group if `by_rows`."""

    def __init__(self, size: int, groups: int, epsilon: float, by_rows: bool) -> None:
        super().__init__()
        self.size, self.groups, self.epsilon = size, groups, epsilon
        self.weight = nn.Parameter((groups, size // groups) if by_rows else (size,), "float32")

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        """Return normalised x · silu(gate), (n, size)."""
        count, width = x.shape[0], self.size // self.groups
        x = op.reshape(x * op.silu(gate), (count, self.groups, width))
        squares = op.sum(x * x, axis=-1, keepdims=True) / float(width)
        return op.reshape(x / op.sqrt(squares + self.epsilon), (count, self.size)) * op.reshape(
            self.weight, (self.size,)
        )


class Mixer(nn.Module):
    """Convolution and recurrence between two products; the names are those of checkpoints."""

    def __init__(self, s: Settings, sizes: Sizes, epsilon: float) -> None:
        super().__init__()
        self.sizes, self.limit = sizes, _limit(s)
        self.activation = ACTIVATIONS[s.activation("hidden_act")]
        bias = s.flag("use_bias")
        self.in_proj = Linear(sizes.hidden, sizes.inner + sizes.channels + sizes.heads, bias=bias)
        # GGUF files have rates themselves, not logarithms of their negatives, and other shapes.
        self.is_of_gguf = s.flag("is_of_gguf")
        self.conv1d = Convolution(sizes, s.flag("use_conv_bias", True), self.is_of_gguf)
        shape = (sizes.heads, 1) if self.is_of_gguf else (sizes.heads,)
        self.dt_bias, self.D = nn.Parameter((sizes.heads,), "float32"), nn.Parameter(shape, "float32")
        rates = nn.Parameter(shape, "float32")
        if self.is_of_gguf:
            self.A = rates
        else:
            self.A_log = rates
        self.norm = GatedNorm(sizes.inner, sizes.groups, epsilon, self.is_of_gguf)
        self.out_proj = Linear(sizes.inner, sizes.hidden, bias=bias)

    def forward(self, x: Tensor, states: RNNState, ends: Tensor, layer: int) -> tuple[Tensor, RNNState]:
        """Return the activations (n, hidden) of tokens, and the states after them."""
        z, count, batch = self.sizes, x.shape[0], ends.shape[0]
        gate, mixed, steps = op.split(self.in_proj(x), [z.inner, z.inner + z.channels], axis=-1)
        before = states.get(layer, 0, (batch, z.taps - 1, z.channels), "float32")
        mixed, after = self.conv1d(mixed, before, ends)
        states = states.set(layer, 0, after)
        inputs, inward, outward = op.split(
            self.activation(mixed), [z.inner, z.inner + z.groups * z.state], axis=-1
        )  # fmt: skip
        steps = op.softplus(steps + self.dt_bias)
        if self.limit != (0.0, math.inf):
            steps = cast(Tensor, op.wrap_nested(relax_op.clip(expr_of(steps), *self.limit), "steps"))
        rates = op.reshape(self.A, (z.heads,)) if self.is_of_gguf else op.negative(op.exp(self.A_log))
        decays = op.exp(steps * rates)
        before = states.get(layer, 1, (batch, z.heads, z.state, z.head_dim), "float32")
        arguments = [
            op.reshape(inputs, (count, z.heads, z.head_dim)), steps, decays,
            op.reshape(inward, (count, z.groups, z.state)), op.reshape(outward, (count, z.groups, z.state)),
            op.reshape(self.D, (z.heads,)), before, ends,
        ]  # fmt: skip
        y, after = op.tensor_expr_op(state_space_scan, "state_space_scan", arguments)
        states = states.set(layer, 1, after)
        return self.out_proj(self.norm(op.reshape(y, (count, z.inner)), gate)), states


def _limit(s: Settings) -> tuple[float, float]:
    """Return the least and the greatest step. Raises ValueError for anything but a pair of numbers."""
    value: Any = s.values.get("time_step_limit")
    if value is None:
        return 0.0, math.inf
    if not isinstance(value, list) or len(cast("list[Any]", value)) != 2:
        raise ValueError(f"the setting time_step_limit is {value!r}, and must be two numbers")
    low, high = cast("list[Any]", value)
    no_limit = high in (math.inf, {"__float__": "Infinity"})  # JSON has no name for it
    greatest = math.inf if no_limit else Settings({"time_step_limit": high}).number("time_step_limit")
    return Settings({"time_step_limit": low}).number("time_step_limit"), greatest


class Block(nn.Module):
    """A mixer, which reads normalised activations and adds to them."""

    def __init__(self, s: Settings, sizes: Sizes, epsilon: float) -> None:
        super().__init__()
        self.norm = RMSNorm(sizes.hidden, epsilon)
        self.mixer = Mixer(s, sizes, epsilon)


class Backbone(nn.Module):
    """Everything but the last product; the names are those of checkpoints."""

    def __init__(self, s: Settings, sizes: Sizes, epsilon: float, tied: bool) -> None:
        super().__init__()
        self.embeddings = Embedding(s.integer("vocab_size"), sizes.hidden, tied=tied)
        count = s.integer("num_hidden_layers", most=MOST_LAYERS)
        self.layers = nn.ModuleList([Block(s, sizes, epsilon) for _ in range(count)])
        self.norm_f = RMSNorm(sizes.hidden, epsilon)


class Mamba2(nn.Module):
    """Mamba 2. Raises ValueError for settings that it does not understand."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        sizes, epsilon = Sizes.of(settings), settings.positive("layer_norm_epsilon", 1e-5)
        tied = settings.flag("tie_word_embeddings", True)
        self.sizes = sizes
        self.backbone = Backbone(settings, sizes, epsilon, tied)
        self.lm_head = None if tied else Linear(sizes.hidden, settings.integer("vocab_size"))

    def cache(self) -> StateShape:
        """Return what the states of a sequence are: inputs of the convolution, and the state of the recurrence."""
        z = self.sizes
        return StateShape(len(self.backbone.layers), ((z.taps - 1, z.channels), (z.heads, z.state, z.head_dim)))

    def forward(self, tokens: Tensor, last: Tensor, cache: RNNState, ends: Tensor) -> tuple[Tensor, RNNState]:
        """Return the logits (m, vocabulary) behind the tokens at `last` (m,) of tokens (n,), and the states after them.

        The tokens of sequence i of the batch end before `ends[i]`.
        """
        x = self.backbone.embeddings(tokens)
        for index, layer in enumerate(self.backbone.layers):
            block = cast(Block, layer)
            added, cache = block.mixer(block.norm(x), cache, ends, index)
            x = x + added
        x = self.backbone.norm_f(op.take(x, last, axis=0))
        return self.backbone.embeddings.logits(x) if self.lm_head is None else self.lm_head(x), cache


__all__ = ["Mamba2"]
