"""Recurrent layers: LSTM, GRU, RNN, of several layers and both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import op
from ....ir import RelaxExpr
from ..emitter import Emitter
from ..registry import register

_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
"""Places of the gates in torch, in the order that Relax has."""


def _reordered(g: Emitter, weight: RelaxExpr, kind: str) -> RelaxExpr:
    """The gates of a weight in the order of Relax."""
    order = _GATES[kind]
    if len(order) == 1:
        return weight
    gates = g.parts(op.split(weight, len(order), 0))
    return g.emit(op.concat([gates[gate] for gate in order], axis=0))


def _stacked(g: Emitter, weights: Sequence[RelaxExpr], kind: str) -> RelaxExpr:
    """The weights of the directions of a layer, one behind the other."""
    return g.emit(op.stack([_reordered(g, weight, kind) for weight in weights], axis=0))


def _layer(kind: str, run: Callable[..., Any]) -> Callable[..., list[RelaxExpr]]:
    """The converter of a kind of layers: the outputs of the last one, then the last states of all.

    `run` gets the operands of one layer, and its direction.
    """

    def convert(
        g: Emitter,
        x: RelaxExpr,
        initial: RelaxExpr | Sequence[RelaxExpr],
        params: Sequence[RelaxExpr],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> list[RelaxExpr]:
        if train and dropout:
            g.unsupported("dropout of a module in the mode train", "call eval() before torch.export.export")
        states = [initial] if isinstance(initial, RelaxExpr) else list(initial)
        unbatched = g.ndim(x) == 2
        if unbatched:
            x = g.emit(op.expand_dims(x, [1]))
            states = [g.emit(op.expand_dims(state, [1])) for state in states]
        elif batch_first:
            x = g.emit(op.permute_dims(x, [1, 0, 2]))
        ways = 2 if bidirectional else 1
        _check(g, x, states, kind, num_layers, ways)
        each = len(params) // (num_layers * ways)
        if each > (4 if has_biases else 2):
            g.unsupported("a recurrent layer with projections")
        last: list[list[RelaxExpr]] = [[] for _ in states]
        for layer in range(num_layers):
            first = layer * ways
            groups = [params[(first + way) * each : (first + way + 1) * each] for way in range(ways)]
            begin = [
                g.emit(op.strided_slice(state, [0], [first], [first + ways], assume_inbound=True)) for state in states
            ]
            direction = "bidirectional" if bidirectional else "forward"
            results = g.parts(run(x, *_weights(g, groups, kind), None, *begin, direction=direction))
            for ends, state in zip(last, results[1:], strict=True):
                ends.append(state)
            length, _, batch, hidden = g.dims(results[0])  # (length, directions, batch, hidden)
            beside = g.emit(op.permute_dims(results[0], [0, 2, 1, 3]))
            x = g.reshape(beside, [length, batch, hidden * ways])
        ends = [group[0] if len(group) == 1 else g.emit(op.concat(group, axis=0)) for group in last]
        if unbatched:
            return [g.emit(op.squeeze(value, [1])) for value in (x, *ends)]
        return [g.emit(op.permute_dims(x, [1, 0, 2])) if batch_first else x, *ends]

    return convert


def _check(g: Emitter, x: RelaxExpr, states: Sequence[RelaxExpr], kind: str, layers: int, ways: int) -> None:
    """Raise DiagnosticError for no layers, an empty sequence, and states that are not those of the layers."""
    if any(g.ndim(operand) != 3 for operand in (x, *states)):
        raise g.error("a sequence or a state is of another rank", hint="pass (length, batch, size), or (length, size)")
    if layers < 1:
        raise g.error(f"there are {layers} layers", hint="pass one layer or more")
    if g.is_true(g.dims(x)[0].equal(0)) is True:
        raise g.error("the sequence is empty", hint="pass a sequence of one element or more")
    if len(states) != (2 if kind == "lstm" else 1):
        raise g.error(f"there are {len(states)} initial states", hint="an LSTM has two of them, another layer one")
    for state in states:
        if g.is_true(g.dims(state)[0].equal(layers * ways)) is False:
            count = g.dims(state)[0]
            raise g.error(f"an initial state of {count} layers, not {layers * ways}", hint="pass one for each layer")


def _weights(g: Emitter, groups: Sequence[Sequence[RelaxExpr]], kind: str) -> list[RelaxExpr | None]:
    """The weights of the input and of the state, and the bias, of the directions of a layer."""
    stacked = [_stacked(g, weights, kind) for weights in zip(*groups, strict=True)]
    return [*stacked[:2], g.emit(op.concat(stacked[2:], axis=1)) if len(stacked) == 4 else None]


def _gru(*operands: Any, direction: str) -> Any:
    return op.nn.gru(*operands, direction=direction, linear_before_reset=True)


def _rnn(activation: str) -> Callable[..., Any]:
    def run(*operands: Any, direction: str) -> Any:
        names = [activation] * (2 if direction == "bidirectional" else 1)
        return op.nn.rnn(*operands, direction=direction, activations=names)

    return run


for _name, _kind, _run in (
    ("lstm", "lstm", op.nn.lstm),
    ("gru", "gru", _gru),
    ("rnn_tanh", "rnn", _rnn("Tanh")),
    ("rnn_relu", "rnn", _rnn("Relu")),
):
    register(f"aten.{_name}.input", _layer(_kind, _run))
