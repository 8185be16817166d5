"""Recurrent layers: LSTM, GRU, RNN, of several layers and both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import op
from ....ir import RelaxExpr
from ..emitter import Emitter
from ..registry import converter

_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
"""Places of the gates in torch, in the order that Relax has."""


def _reordered(g: Emitter, weight: RelaxExpr, kind: str) -> RelaxExpr:
    """The gates of a weight in the order of Relax."""
    order = _GATES[kind]
    if len(order) == 1:
        return weight
    parts = g.parts(op.split(weight, len(order), 0))
    return g.emit(op.concat([parts[place] for place in order], axis=0))


def _stacked(g: Emitter, weights: Sequence[RelaxExpr], kind: str) -> RelaxExpr:
    """The weights of the directions of a layer, one behind the other."""
    return g.emit(op.stack([_reordered(g, weight, kind) for weight in weights], axis=0))


def _layers(
    g: Emitter,
    kind: str,
    run: Callable[..., Any],
    x: RelaxExpr,
    states: Sequence[RelaxExpr],
    params: Sequence[RelaxExpr],
    *,
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> list[RelaxExpr]:
    """The outputs of the last layer, then the last states of all layers."""
    unbatched = g.ndim(x) == 2
    if unbatched:
        x = g.emit(op.expand_dims(x, [1]))
        states = [g.emit(op.expand_dims(state, [1])) for state in states]
    elif batch_first:
        x = g.emit(op.permute_dims(x, [1, 0, 2]))
    ways = 2 if bidirectional else 1
    each = len(params) // (num_layers * ways)
    if each > (4 if has_biases else 2):
        g.unsupported("a recurrent layer with projections")
    last: list[list[RelaxExpr]] = [[] for _ in states]
    for layer in range(num_layers):
        first = layer * ways
        groups = [params[(first + way) * each : (first + way + 1) * each] for way in range(ways)]
        bias = None
        if has_biases:
            sides = [_stacked(g, [group[i] for group in groups], kind) for i in (2, 3)]
            bias = g.emit(op.concat(sides, axis=1))
        weights = [_stacked(g, [group[i] for group in groups], kind) for i in (0, 1)]
        begin = [
            g.emit(op.strided_slice(state, [0], [first], [first + ways], assume_inbound=True))
            for state in states
        ]
        results = g.parts(
            run(x, *weights, bias, None, *begin, direction="bidirectional" if bidirectional else "forward")
        )
        for place, state in enumerate(results[1:]):
            last[place].append(state)
        length, _, batch, hidden = g.dims(results[0])  # (length, directions, batch, hidden)
        beside = g.emit(op.permute_dims(results[0], [0, 2, 1, 3]))
        x = g.reshape(beside, [length, batch, hidden * ways])
    ends = [parts[0] if len(parts) == 1 else g.emit(op.concat(parts, axis=0)) for parts in last]
    if unbatched:
        return [g.emit(op.squeeze(value, [1])) for value in (x, *ends)]
    return [g.emit(op.permute_dims(x, [1, 0, 2])) if batch_first else x, *ends]


@converter("aten.lstm.input")
def lstm(
    g: Emitter,
    x: RelaxExpr,
    states: Sequence[RelaxExpr],
    params: Sequence[RelaxExpr],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> list[RelaxExpr]:
    options: dict[str, Any] = {
        "num_layers": num_layers,
        "bidirectional": bidirectional,
        "batch_first": batch_first,
    }
    return _layers(g, "lstm", op.nn.lstm, x, states, params, has_biases=has_biases, **options)


@converter("aten.gru.input")
def gru(
    g: Emitter,
    x: RelaxExpr,
    state: RelaxExpr,
    params: Sequence[RelaxExpr],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> list[RelaxExpr]:
    def run(*operands: Any, direction: str) -> Any:
        return op.nn.gru(*operands, direction=direction, linear_before_reset=True)

    options: dict[str, Any] = {
        "num_layers": num_layers,
        "bidirectional": bidirectional,
        "batch_first": batch_first,
    }
    return _layers(g, "gru", run, x, [state], params, has_biases=has_biases, **options)


def _rnn(activation: str) -> Callable[..., list[RelaxExpr]]:
    def convert(
        g: Emitter,
        x: RelaxExpr,
        state: RelaxExpr,
        params: Sequence[RelaxExpr],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> list[RelaxExpr]:
        def run(*operands: Any, direction: str) -> Any:
            names = [activation] * (2 if bidirectional else 1)
            return op.nn.rnn(*operands, direction=direction, activations=names)

        options: dict[str, Any] = {
            "num_layers": num_layers,
            "bidirectional": bidirectional,
            "batch_first": batch_first,
        }
        return _layers(g, "rnn", run, x, [state], params, has_biases=has_biases, **options)

    return convert


converter("aten.rnn_tanh.input")(_rnn("Tanh"))
converter("aten.rnn_relu.input")(_rnn("Relu"))
