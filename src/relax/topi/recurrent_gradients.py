"""Backward scans of recurrent layers: gradients of the gates, from those of the states.

    for d, n in T.grid(directions, sequences):                  n in parallel
        for t from the last step to the first:
            for j in range(hidden): gates' gradients[d, t, n, j + …] = f(gradient of the state[j], …)
            for row, k in T.grid(gates · hidden, hidden):       the gradient of the state before
                gradient of the state[k] += gates' gradients[d, t, n, row] * R[d, row, k]

Tensors of gates and states are laid out (direction, step, sequence, unit). Gradients of weights and inputs are products
of these gradients, which the caller computes for all steps at once.
"""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..prim import PrimExpr, Select, Var, const, intrin
from ..tir.buffer import Buffer
from ..tir.statements import seq_of
from ..tir.stmt import BufferStore, For, LetStmt, Stmt
from .recurrent import each_unit


def previous_states(states: te.Tensor, initial: te.Tensor, *, reverse: Sequence[bool]) -> te.Tensor:
    """Return the state before each step, (direction, step, sequence, unit).

    `states` (step, direction, sequence, unit) are those after the steps, `initial` (direction, sequence, unit) the
    first ones; a direction runs backwards where `reverse` is true.
    """
    steps, directions, batch, hidden = states.shape

    def element(d: Any, t: Any, n: Any, j: Any) -> PrimExpr:
        first = initial(d, n, j)
        forward = intrin.if_then_else(t.equal(0), first, states(t - 1, d, n, j))
        backward = intrin.if_then_else(t.equal(steps - 1), first, states(t + 1, d, n, j))
        if all(reverse) or not any(reverse):
            return backward if all(reverse) else forward
        return intrin.if_then_else(d.equal(0), forward, backward)

    return te.compute((directions, steps, batch, hidden), element, "previous_states")


def lstm_backward(
    i: te.Tensor,
    o: te.Tensor,
    f: te.Tensor,
    c: te.Tensor,
    initial_c: te.Tensor,
    recurrence: te.Tensor,
    by_states: te.Tensor,
    by_h: te.Tensor,
    by_c: te.Tensor,
    *,
    reverse: Sequence[bool],
) -> list[te.Tensor]:
    """Return the gradients of an lstm's gates before activation, of the initial state and of the initial cell.

    `i`, `o`, `f` (sigmoid) and `c` (tanh) are the activated gates, the output activation is tanh. `by_states`
    (step, direction, sequence, unit), `by_h` and `by_c` are gradients of the results.
    """
    directions, steps, batch, hidden = i.shape
    dtype = i.dtype
    state = (directions, batch, hidden)
    shapes = [(directions, steps, batch, hidden * 4), state, state, (directions, steps + 1, batch, hidden)]
    inputs = [i, o, f, c, initial_c, recurrence, by_states, by_h, by_c]

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        scan = _LstmScan(ins, outs, reverse)
        return _sequences(len(reverse), batch, scan.sequence)

    return list(te.extern(shapes, inputs, statement, "lstm_backward", [dtype] * 4)[:3])


class _LstmScan:
    """Statements of `lstm_backward` for one sequence."""

    def __init__(self, ins: list[Buffer], outs: list[Buffer], reverse: Sequence[bool]) -> None:
        *gates, self.initial_c, self.weight, self.by_states, self.by_h, self.by_c = ins
        self.i, self.o, self.f, self.g = gates
        self.dgates, self.dh, self.dc, self.cells = outs
        self.reverse = reverse
        _, self.steps, _, self.hidden = self.i.shape

    def sequence(self, d: int, n: Var) -> Stmt:
        """The cells of all steps, then the gradients of the last step to the first."""
        s, back = Var("s", "int64"), Var("back", "int64")
        step, hidden = self.steps - 1 - back, self.hidden
        t = _at(step, self.steps, self.reverse[d])
        whole = each_unit(1, hidden, lambda _, j: self._gates(d, n, step, t, j))
        products = _products(self.dh, (d, n), self.dgates, (d, t, n), self.weight, d, 0, 0, hidden * 4, hidden)
        return seq_of(
            [
                each_unit(1, hidden, lambda _, j: self._start(d, n, j)),
                For(s, 0, self.steps, "serial", each_unit(1, hidden, lambda _, j: self._cell(d, n, s, j))),
                For(back, 0, self.steps, "serial", seq_of([whole, products])),
            ]
        )

    def _start(self, d: int, n: Var, j: PrimExpr) -> Stmt:
        """The first cell, and the gradients that come in behind the last step."""
        return seq_of(
            [
                BufferStore(self.cells, self.initial_c[d, n, j], (d, 0, n, j)),
                BufferStore(self.dh, self.by_h[d, n, j], (d, n, j)),
                BufferStore(self.dc, self.by_c[d, n, j], (d, n, j)),
            ]
        )

    def _cell(self, d: int, n: Var, s: Var, j: PrimExpr) -> Stmt:
        """The cell after step `s`."""
        at = (d, _at(s, self.steps, self.reverse[d]), n, j)
        cell = self.f[at] * self.cells[d, s, n, j] + self.i[at] * self.g[at]
        return BufferStore(self.cells, cell, (d, s + 1, n, j))

    def _gates(self, d: int, n: Var, step: PrimExpr, t: PrimExpr, j: PrimExpr) -> Stmt:
        """The gradients of a step's gates, and of the cell before it."""
        at, dtype = (d, t, n, j), self.i.dtype
        i, o, f, g, one = self.i[at], self.o[at], self.f[at], self.g[at], const(1, dtype)
        h, out, c = (Var(name, dtype) for name in ("by_state", "output", "by_cell"))

        def put(gate: int, value: PrimExpr) -> Stmt:
            return BufferStore(self.dgates, value, (d, t, n, j + self.hidden * gate))

        body = seq_of(
            [
                put(0, c * g * i * (one - i)),
                put(1, h * out * o * (one - o)),
                put(2, c * self.cells[d, step, n, j] * f * (one - f)),
                put(3, c * i * (one - g * g)),
                BufferStore(self.dc, c * f, (d, n, j)),
                BufferStore(self.dh, const(0, dtype), (d, n, j)),
            ]
        )
        body = LetStmt(c, self.dc[d, n, j] + h * o * (one - out * out), body)
        body = LetStmt(out, intrin.tanh(self.cells[d, step + 1, n, j]), body)
        return LetStmt(h, self.dh[d, n, j] + self.by_states[t, d, n, j], body)


def gru_backward(
    z: te.Tensor,
    r: te.Tensor,
    h: te.Tensor,
    previous: te.Tensor,
    recurrence: te.Tensor,
    by_states: te.Tensor,
    by_h: te.Tensor,
    late: te.Tensor | None = None,
    *,
    reverse: Sequence[bool],
) -> list[te.Tensor]:
    """Return the gradients of a gru's gates before activation, of the products of the state with the hidden gate's
    weights, and of the initial state.

    `z`, `r` (sigmoid) and `h` (tanh) are the activated gates. `late` is the state's part of the hidden gate where the
    reset gate is applied to it; None where it is applied to the state `previous`, before the product.
    """
    directions, steps, batch, hidden = z.shape
    dtype = z.dtype
    shapes = [(directions, steps, batch, hidden * 3), (directions, steps, batch, hidden), (directions, batch, hidden)]
    inputs = [z, r, h, previous, recurrence, by_states, by_h, *([] if late is None else [late])]

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        z, r, g, before, weight, dy, dh_last, *rest = ins
        dgates, dlate, dh = outs
        one = const(1, dtype)

        def sequence(d: int, n: Var) -> Stmt:
            back = Var("back", "int64")
            t = _at(steps - 1 - back, steps, reverse[d])

            def start(_: PrimExpr, j: PrimExpr) -> Stmt:
                return BufferStore(dh, dh_last[d, n, j], (d, n, j))

            def put(gate: int, j: PrimExpr, value: PrimExpr) -> Stmt:
                return BufferStore(dgates, value, (d, t, n, j + hidden * gate))

            def unit(_: PrimExpr, j: PrimExpr) -> Stmt:
                at = (d, t, n, j)
                h, hidden_gate = Var("by_state", dtype), Var("by_hidden", dtype)
                stores = [
                    put(2, j, hidden_gate),
                    put(0, j, h * (before[at] - g[at]) * z[at] * (one - z[at])),
                    BufferStore(dh, h * z[at], (d, n, j)),
                    BufferStore(dlate, hidden_gate * r[at] if rest else const(0, dtype), at),
                ]
                if rest:
                    stores.append(put(1, j, hidden_gate * rest[0][at] * r[at] * (one - r[at])))
                value = h * (one - z[at]) * (one - g[at] * g[at])
                return LetStmt(h, dh[d, n, j] + dy[t, d, n, j], LetStmt(hidden_gate, value, seq_of(stores)))

            def reset(_: PrimExpr, j: PrimExpr) -> Stmt:
                at = (d, t, n, j)
                by_reset = put(1, j, dlate[at] * before[at] * r[at] * (one - r[at]))
                return seq_of([by_reset, BufferStore(dh, dh[d, n, j] + dlate[at] * r[at], (d, n, j))])

            steps_of = [each_unit(1, hidden, unit)]
            if rest:
                steps_of.append(_products(dh, (d, n), dlate, (d, t, n), weight, d, 0, hidden * 2, hidden, hidden))
            else:
                steps_of.append(
                    _products(dlate, (d, t, n), dgates, (d, t, n), weight, d, hidden * 2, hidden * 2, hidden, hidden)
                )
                steps_of.append(each_unit(1, hidden, reset))
            steps_of.append(_products(dh, (d, n), dgates, (d, t, n), weight, d, 0, 0, hidden * 2, hidden))
            return seq_of([each_unit(1, hidden, start), For(back, 0, steps, "serial", seq_of(steps_of))])

        return _sequences(len(reverse), batch, sequence)

    return list(te.extern(shapes, inputs, statement, "gru_backward", [dtype] * 3))


def rnn_backward(
    states: te.Tensor,
    recurrence: te.Tensor,
    by_states: te.Tensor,
    by_h: te.Tensor,
    *,
    reverse: Sequence[bool],
    activation: str,
) -> list[te.Tensor]:
    """Return the gradients of a layer's sums before activation (``tanh`` or ``relu``), and of the initial state.

    `states` and `by_states` are (step, direction, sequence, unit).
    """
    steps, directions, batch, hidden = states.shape
    dtype = states.dtype
    shapes = [(directions, steps, batch, hidden), (directions, batch, hidden)]

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        y, weight, dy, dh_last = ins
        dsums, dh = outs
        one, zero = const(1, dtype), const(0, dtype)

        def slope(value: PrimExpr) -> PrimExpr:
            return one - value * value if activation == "tanh" else Select(value > zero, one, zero)

        def sequence(d: int, n: Var) -> Stmt:
            back = Var("back", "int64")
            t = _at(steps - 1 - back, steps, reverse[d])

            def start(_: PrimExpr, j: PrimExpr) -> Stmt:
                return BufferStore(dh, dh_last[d, n, j], (d, n, j))

            def unit(_: PrimExpr, j: PrimExpr) -> Stmt:
                value = (dh[d, n, j] + dy[t, d, n, j]) * slope(y[t, d, n, j])
                return seq_of([BufferStore(dsums, value, (d, t, n, j)), BufferStore(dh, zero, (d, n, j))])

            products = _products(dh, (d, n), dsums, (d, t, n), weight, d, 0, 0, hidden, hidden)
            body = seq_of([each_unit(1, hidden, unit), products])
            return seq_of([each_unit(1, hidden, start), For(back, 0, steps, "serial", body)])

        return _sequences(len(reverse), batch, sequence)

    return list(te.extern(shapes, [states, recurrence, by_states, by_h], statement, "rnn_backward", [dtype] * 2))


def _at(step: PrimExpr, steps: PrimExpr, reverse: bool) -> PrimExpr:
    """Index in the sequence of a step, counted in the order of computation."""
    return steps - 1 - step if reverse else step


def _sequences(directions: int, batch: PrimExpr, sequence: Callable[[int, Var], Stmt]) -> Stmt:
    """Loop over the sequences of all directions, in parallel over those of one."""
    loops: list[Stmt] = []
    for d in range(directions):
        n = Var("n", "int64")
        loops.append(For(n, 0, batch, "parallel", sequence(d, n)))
    return seq_of(loops)


def _products(
    target: Buffer,
    place: tuple[Any, ...],
    factor: Buffer,
    at: tuple[Any, ...],
    weight: Buffer,
    d: int,
    first: Any,
    row: Any,
    rows: PrimExpr,
    hidden: PrimExpr,
) -> Stmt:
    """Add ``factor[at, first + r] * weight[d, row + r, k]`` to ``target[place, k]`` for `rows` rows and all units k."""
    r = Var("r", "int64")

    def add(_: PrimExpr, k: PrimExpr) -> Stmt:
        value = target[(*place, k)] + factor[(*at, r + first)] * weight[d, r + row, k]
        return BufferStore(target, value, (*place, k))

    return For(r, 0, rows, "serial", each_unit(1, hidden, add))


__all__ = ["gru_backward", "lstm_backward", "previous_states", "rnn_backward"]
