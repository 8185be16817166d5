"""Recurrent layers: LSTM, GRU, RNN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ..emitter import Emitter
from ..registry import converter
from ..values import Floats, Tensor


def _options(
    direction: str, activations: Sequence[str], alpha: Floats, beta: Floats, clip: float | None, layout: int
) -> dict[str, Any]:
    return {
        "direction": direction,
        "activations": list(activations) or None,
        "activation_alpha": list(alpha),
        "activation_beta": list(beta),
        "clip": clip,
        "layout": layout,
    }


@converter("RNN")
def rnn(
    g: Emitter,
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    hidden_size: int | None = None,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    layout: int = 0,
    output_sequence: int = 0,
) -> Tensor:
    options = _options(direction, activations, activation_alpha, activation_beta, clip, layout)
    return op.nn.rnn(X, W, R, B, sequence_lens, initial_h, **options)


@converter("GRU")
def gru(
    g: Emitter,
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    hidden_size: int | None = None,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> Tensor:
    options = _options(direction, activations, activation_alpha, activation_beta, clip, layout)
    reset = bool(linear_before_reset)
    return op.nn.gru(X, W, R, B, sequence_lens, initial_h, **options, linear_before_reset=reset)


@converter("LSTM")
def lstm(
    g: Emitter,
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    P: Tensor | None = None,
    *,
    hidden_size: int | None = None,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> Tensor:
    options = _options(direction, activations, activation_alpha, activation_beta, clip, layout)
    forget = bool(input_forget)
    return op.nn.lstm(X, W, R, B, sequence_lens, initial_h, initial_c, P, **options, input_forget=forget)
