"""Recurrent networks: lstm, gru and rnn, as a scan over the steps of a sequence.

The products of the inputs with their weights are computed for all steps at once. The scan keeps the state in the
tensors of final states; in a step it adds the products of the state with the recurrence weights, whose transposed rows
are added to all gates of a sequence at once.
"""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .. import te
from ..prim import PrimExpr, Select, Var, cast, const, intrin
from ..tir.buffer import Buffer
from ..tir.statements import NOTHING
from ..tir.stmt import AssertStmt, BufferStore, For, IfThenElse, SeqStmt, Stmt
from .twofold import let
from .util import accumulator_dtype

Scalar = Callable[[PrimExpr], PrimExpr]


# ------------------------------------------------------------------------------------------- activations

DEFAULTS: Final[dict[str, tuple[float | None, float | None]]] = {
    "affine": (1.0, 0.0),
    "elu": (1.0, None),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01, None),
    "relu": (None, None),
    "scaledtanh": (1.0, 1.0),
    "sigmoid": (None, None),
    "softplus": (None, None),
    "softsign": (None, None),
    "tanh": (None, None),
    "thresholdedrelu": (1.0, None),
}
"""Activation functions by their names in small letters, with default values of alpha and beta; None for those that
take no such number."""


@dataclass(frozen=True)
class Activation:
    """An activation function with its numbers."""

    name: str
    alpha: float
    beta: float

    def __call__(self, x: PrimExpr) -> PrimExpr:
        return let(x, self._of)

    def _of(self, x: PrimExpr) -> PrimExpr:
        zero, one = const(0.0, x.dtype), const(1.0, x.dtype)
        alpha, beta = const(self.alpha, x.dtype), const(self.beta, x.dtype)
        match self.name:
            case "affine":
                return x * alpha + beta
            case "elu":
                return Select(x >= zero, x, alpha * (intrin.exp(x) - one))
            case "hardsigmoid":
                return intrin.min(intrin.max(x * alpha + beta, zero), one)
            case "leakyrelu":
                return Select(x >= zero, x, x * alpha)
            case "relu":
                return intrin.max(x, zero)
            case "scaledtanh":
                return alpha * intrin.tanh(beta * x)
            case "sigmoid":
                return intrin.sigmoid(x)
            case "softplus":
                return intrin.max(x, zero) + intrin.log1p(intrin.exp(zero - intrin.abs(x)))
            case "softsign":
                return x / (intrin.abs(x) + one)
            case "tanh":
                return intrin.tanh(x)
            case _:  # thresholdedrelu
                return Select(x >= alpha, x, zero)


def default_activations(kind: str, direction: str) -> tuple[str, ...]:
    """The activation functions of an rnn, gru or lstm of which nothing else is said."""
    names = {"rnn": ("Tanh",), "gru": ("Sigmoid", "Tanh"), "lstm": ("Sigmoid", "Tanh", "Tanh")}[kind]
    return names * 2 if direction == "bidirectional" else names


def activations_of(names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]) -> list[Activation]:
    """Activation functions by name; each that takes an alpha (a beta) gets the next one there is, or its default."""
    alpha_values, beta_values = iter(alphas), iter(betas)
    result: list[Activation] = []
    for name in names:
        alpha, beta = DEFAULTS[name.lower()]
        alpha = 0.0 if alpha is None else next(alpha_values, alpha)
        beta = 0.0 if beta is None else next(beta_values, beta)
        result.append(Activation(name.lower(), alpha, beta))
    return result


# -------------------------------------------------------------------------------------------------- cells


@dataclass(frozen=True)
class _Step:
    """One step of one sequence: functions of a unit read and write the state, and the gates so far."""

    hidden: PrimExpr
    gate: Callable[[int, PrimExpr], PrimExpr]
    set_gate: Callable[[int, PrimExpr, PrimExpr], Stmt]
    recurrence: Callable[[PrimExpr, PrimExpr], PrimExpr]
    """The weight from a unit of the state to a row of the gates."""
    recurrent_bias: Callable[[PrimExpr], PrimExpr]
    peephole: Callable[[int, PrimExpr], PrimExpr] | None
    state: Callable[[PrimExpr], PrimExpr]
    set_state: Callable[[PrimExpr, PrimExpr], Stmt]
    cell: Callable[[PrimExpr], PrimExpr]
    set_cell: Callable[[PrimExpr, PrimExpr], Stmt]

    def each(self, body: Callable[[PrimExpr], Stmt]) -> Stmt:
        """`body` for each unit."""
        unit = Var("j", "int64")
        return For(unit, 0, self.hidden, "serial", body(unit))

    def add_products(self, first: int, count: int, factor: Scalar, target: int | None = None) -> Stmt:
        """Add the products of a vector with the recurrence weights of gates `first`, … to gates `target`, …."""
        into = first if target is None else target
        j, row = Var("j", "int64"), Var("row", "int64")
        value = self.gate(into, row) + factor(j) * self.recurrence(j, row + self.hidden * first)
        inner = For(row, 0, self.hidden * count, "serial", self.set_gate(into, row, value))
        return For(j, 0, self.hidden, "serial", inner)


Cell = Callable[[_Step, list[Scalar]], Stmt]


def _rnn_cell(step: _Step, functions: list[Scalar]) -> Stmt:
    (f,) = functions
    return SeqStmt(
        (
            step.add_products(0, 1, step.state),
            step.each(lambda j: step.set_state(j, f(step.gate(0, j)))),
        )
    )


def _lstm_cell(input_forget: bool) -> Cell:
    def cell(step: _Step, functions: list[Scalar]) -> Stmt:
        f, g, h = functions

        def pre(gate: int, peephole: int, j: PrimExpr, seen: PrimExpr) -> PrimExpr:
            value = step.gate(gate, j)
            return value if step.peephole is None else value + step.peephole(peephole, j) * seen

        def unit(j: PrimExpr) -> Stmt:
            old = step.cell(j)
            enter = f(pre(0, 0, j, old))

            def mixed(i: PrimExpr) -> PrimExpr:
                forget = const(1.0, i.dtype) - i if input_forget else f(pre(2, 2, j, old))
                return forget * old + i * g(step.gate(3, j))

            new = step.cell(j)
            return SeqStmt(
                (
                    step.set_cell(j, let(enter, mixed)),
                    step.set_state(j, f(pre(1, 1, j, new)) * h(new)),
                )
            )

        return SeqStmt((step.add_products(0, 4, step.state), step.each(unit)))

    return cell


def _gru_cell(linear_before_reset: bool) -> Cell:
    def cell(step: _Step, functions: list[Scalar]) -> Stmt:
        f, g = functions

        def reset(j: PrimExpr) -> PrimExpr:
            return step.gate(1, j) * step.state(j)

        parts = [
            step.add_products(0, 2, step.state),
            step.each(
                lambda j: SeqStmt(
                    (step.set_gate(0, j, f(step.gate(0, j))), step.set_gate(1, j, f(step.gate(1, j))))
                )
            ),
        ]
        if linear_before_reset:  # gate 3 is room for the state's part of the hidden gate
            parts += [
                step.each(lambda j: step.set_gate(3, j, step.recurrent_bias(j + step.hidden * 2))),
                step.add_products(2, 1, step.state, target=3),
                step.each(lambda j: step.set_gate(2, j, step.gate(2, j) + step.gate(1, j) * step.gate(3, j))),
            ]
        else:
            parts.append(step.add_products(2, 1, reset))

        def blend(j: PrimExpr) -> Stmt:
            z = step.gate(0, j)
            return step.set_state(j, (1.0 - z) * g(step.gate(2, j)) + z * step.state(j))

        return SeqStmt((*parts, step.each(blend)))

    return cell


# --------------------------------------------------------------------------------------------------- scan


@dataclass(frozen=True)
class Recurrence:
    """The computation of a recurrent layer, without its operands."""

    name: str
    cell: Cell
    gates: int
    has_cell: bool
    direction: str
    activations: list[Activation]
    clip: float | None
    layout: int
    separate_bias: bool = False
    """True if the recurrence bias of the last gate is added by the cell."""

    @property
    def reversed(self) -> list[bool]:
        """For each direction, True if it starts at the end."""
        return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[self.direction]

    def functions(self, d: int) -> list[Scalar]:
        """The activation functions of a direction, those of gates of clipped values."""
        count = len(self.activations) // len(self.reversed)

        def clipped(function: Activation) -> Scalar:
            if self.clip is None:
                return function
            limit = abs(self.clip)
            return lambda x: function(
                intrin.max(intrin.min(x, const(limit, x.dtype)), const(-limit, x.dtype))
            )

        own = self.activations[d * count : (d + 1) * count]
        return [a if self.has_cell and i == 2 else clipped(a) for i, a in enumerate(own)]


@dataclass(frozen=True)
class _Operands:
    data: te.Tensor
    weight: te.Tensor
    recurrence: te.Tensor
    bias: te.Tensor | None
    sequence_lens: te.Tensor | None
    initial_h: te.Tensor | None
    initial_c: te.Tensor | None = None
    peepholes: te.Tensor | None = None


class _Scan:
    """The stages of a recurrent layer."""

    def __init__(self, what: Recurrence, operands: _Operands) -> None:
        self.what, self.given = what, operands
        self.dtype = operands.data.dtype
        self.wide = accumulator_dtype(self.dtype)
        first, second, self.inputs = operands.data.shape
        self.steps, self.batch = (second, first) if what.layout else (first, second)
        self.hidden = operands.recurrence.shape[2]
        self.directions = len(what.reversed)
        self.rows = self.hidden * what.gates

    def projected(self) -> te.Tensor:
        """(direction, step, sequence, row of gates): the inputs times their weights."""
        k = te.reduce_axis((0, self.inputs), "k")
        data, weight, layout = self.given.data, self.given.weight, self.what.layout

        def element(d: Any, t: Any, n: Any, row: Any) -> PrimExpr:
            x = data(n, t, k.var) if layout else data(t, n, k.var)
            return te.sum(x.astype(self.wide) * weight(d, row, k.var).astype(self.wide), axis=k)

        shape = (self.directions, self.steps, self.batch, self.rows)
        return te.compute(shape, element, f"{self.what.name}_input", tag="matmul")

    def transposed(self) -> te.Tensor:
        """(direction, unit, row of gates): the recurrence weights."""
        source = self.given.recurrence
        shape = (self.directions, self.hidden, self.rows)
        return te.compute(
            shape, lambda d, j, row: source(d, row, j).astype(self.wide), f"{self.what.name}_recurrence"
        )

    def biases(self) -> te.Tensor:
        """(direction, 2, row of gates): what each gate starts from, and the recurrence bias that the cell adds."""
        given = self.given.bias
        shape = (self.directions, 2, self.rows)
        zero = const(0, self.wide)

        def element(d: Any, part: Any, row: Any) -> PrimExpr:
            if given is None:
                return zero
            inner = given(d, row + self.rows).astype(self.wide)
            if not self.what.separate_bias:
                return Select(part.equal(0), given(d, row).astype(self.wide) + inner, zero)
            late = row >= self.rows - self.hidden
            start = given(d, row).astype(self.wide) + Select(late, zero, inner)
            return Select(part.equal(0), start, inner)

        return te.compute(shape, element, f"{self.what.name}_bias")

    def run(self) -> list[te.Tensor]:
        """Y, Y_h and, for an lstm, Y_c."""
        optional = [
            self.given.sequence_lens,
            self.given.initial_h,
            self.given.initial_c,
            self.given.peepholes,
        ]
        inputs = [self.projected(), self.transposed(), self.biases()]
        present = [tensor for tensor in optional if tensor is not None]
        layout = self.what.layout
        d, n, h, t = self.directions, self.batch, self.hidden, self.steps
        states = (n, d, h) if layout else (d, n, h)
        shapes = [(n, t, d, h) if layout else (t, d, n, h), states]
        shapes += [states] if self.what.has_cell else []
        scratch = (self.rows + (h if self.what.separate_bias else 0),)

        def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
            rest = iter(ins[3:])
            found = [None if tensor is None else next(rest) for tensor in optional]
            return _Writer(self, ins[:3], found, outs).statement()

        name = f"{self.what.name}_scan"
        outs = te.extern(
            [*shapes, scratch], [*inputs, *present], statement, name, [self.wide] * (len(shapes) + 1)
        )
        return [self._narrowed(out) for out in outs[: len(shapes)]]

    def _narrowed(self, out: te.Tensor) -> te.Tensor:
        if self.wide == self.dtype:
            return out
        return te.compute(out.shape, lambda *i: out(*i).astype(self.dtype), f"{self.what.name}_cast")


class _Writer:
    """The statement that scans: sequences of a batch side by side, directions one after the other."""

    def __init__(
        self, scan: _Scan, inputs: list[Buffer], optional: list[Buffer | None], outs: list[Buffer]
    ) -> None:
        self.scan = scan
        self.projected, self.transposed, self.bias = inputs
        self.lens, self.initial_h, self.initial_c, self.peepholes = optional
        self.y, self.h, *rest = outs
        self.c = rest[0] if scan.what.has_cell else self.h
        self.gates = rest[-1]
        self.n = Var("n", "int64")

    def statement(self) -> Stmt:
        parts = [] if self.lens is None else [self._check_lens(self.lens)]
        parts += [self._direction(d, back) for d, back in enumerate(self.scan.what.reversed)]
        return SeqStmt(tuple(parts))

    def _check_lens(self, lens: Buffer) -> Stmt:
        n = Var("n", "int64")
        length = cast("int64", lens[n])
        holds = intrin.all(length >= 0, length <= self.scan.steps)
        message = "sequence_lens must be from 0 to the number of steps"
        return For(n, 0, self.scan.batch, "serial", AssertStmt(holds, message, NOTHING))

    def _state_index(self, d: int, j: PrimExpr) -> tuple[Any, ...]:
        return (self.n, d, j) if self.scan.what.layout else (d, self.n, j)

    def _direction(self, d: int, back: bool) -> Stmt:
        t, j = Var("t", "int64"), Var("j", "int64")
        length = self.scan.steps if self.lens is None else cast("int64", self.lens[self.n])
        at: PrimExpr = length - 1 - t if back else t
        step = self._step(d)
        active = SeqStmt((self._start_gates(d, at), self.scan.what.cell(step, self.scan.what.functions(d)),
                          step.each(lambda u: self._put(d, at, u, step.state(u)))))  # fmt: skip
        whole: Stmt = active
        if self.lens is not None:
            idle = step.each(lambda u: self._put(d, t, u, const(0, self.scan.wide)))
            whole = IfThenElse(t < length, active, idle)
        start = [BufferStore(self.h, self._initial(self.initial_h, d, j), self._state_index(d, j))]
        if self.scan.what.has_cell:
            start.append(BufferStore(self.c, self._initial(self.initial_c, d, j), self._state_index(d, j)))
        begin = For(j, 0, self.scan.hidden, "serial", SeqStmt(tuple(start)))
        steps = For(t, 0, self.scan.steps, "serial", whole)
        return For(self.n, 0, self.scan.batch, "serial", SeqStmt((begin, steps)))

    def _initial(self, source: Buffer | None, d: int, j: PrimExpr) -> PrimExpr:
        if source is None:
            return const(0, self.scan.wide)
        return source[self._state_index(d, j)].astype(self.scan.wide)

    def _put(self, d: int, t: PrimExpr, j: PrimExpr, value: PrimExpr) -> Stmt:
        index = (self.n, t, d, j) if self.scan.what.layout else (t, d, self.n, j)
        return BufferStore(self.y, value, index)

    def _start_gates(self, d: int, at: PrimExpr) -> Stmt:
        row = Var("row", "int64")
        value = self.projected[d, at, self.n, row] + self.bias[d, 0, row]
        return For(row, 0, self.scan.rows, "serial", BufferStore(self.gates, value, (row,)))

    def _step(self, d: int) -> _Step:
        hidden, holes = self.scan.hidden, self.peepholes

        def peephole(gate: int, j: PrimExpr) -> PrimExpr:
            assert holes is not None
            return holes[d, j + hidden * gate].astype(self.scan.wide)

        return _Step(
            hidden=hidden,
            gate=lambda gate, j: self.gates[j + hidden * gate],
            set_gate=lambda gate, j, value: BufferStore(self.gates, value, (j + hidden * gate,)),
            recurrence=lambda j, row: self.transposed[d, j, row],
            recurrent_bias=lambda row: self.bias[d, 1, row],
            peephole=None if holes is None else peephole,
            state=lambda j: self.h[self._state_index(d, j)],
            set_state=lambda j, value: BufferStore(self.h, value, self._state_index(d, j)),
            cell=lambda j: self.c[self._state_index(d, j)],
            set_cell=lambda j, value: BufferStore(self.c, value, self._state_index(d, j)),
        )


def rnn(
    data: te.Tensor,
    weight: te.Tensor,
    recurrence: te.Tensor,
    bias: te.Tensor | None = None,
    sequence_lens: te.Tensor | None = None,
    initial_h: te.Tensor | None = None,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    layout: int = 0,
) -> list[te.Tensor]:
    """The states after each step, and the last one: h = f(W x + R h + b)."""
    functions = activations_of(
        activations or default_activations("rnn", direction), activation_alpha, activation_beta
    )
    what = Recurrence("rnn", _rnn_cell, 1, False, direction, functions, clip, layout)
    return _Scan(what, _Operands(data, weight, recurrence, bias, sequence_lens, initial_h)).run()


def gru(
    data: te.Tensor,
    weight: te.Tensor,
    recurrence: te.Tensor,
    bias: te.Tensor | None = None,
    sequence_lens: te.Tensor | None = None,
    initial_h: te.Tensor | None = None,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    layout: int = 0,
    linear_before_reset: bool = False,
) -> list[te.Tensor]:
    """The states after each step, and the last one, of a gated recurrent unit (Cho et al. 2014)."""
    functions = activations_of(
        activations or default_activations("gru", direction), activation_alpha, activation_beta
    )
    cell = _gru_cell(linear_before_reset)
    what = Recurrence("gru", cell, 3, False, direction, functions, clip, layout, linear_before_reset)
    return _Scan(what, _Operands(data, weight, recurrence, bias, sequence_lens, initial_h)).run()


def lstm(
    data: te.Tensor,
    weight: te.Tensor,
    recurrence: te.Tensor,
    bias: te.Tensor | None = None,
    sequence_lens: te.Tensor | None = None,
    initial_h: te.Tensor | None = None,
    initial_c: te.Tensor | None = None,
    peepholes: te.Tensor | None = None,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    layout: int = 0,
    input_forget: bool = False,
) -> list[te.Tensor]:
    """The states after each step, the last one, and the last cell, of a long short-term memory (Hochreiter &
    Schmidhuber 1997, with the forget gate of Gers et al. 2000)."""
    functions = activations_of(
        activations or default_activations("lstm", direction), activation_alpha, activation_beta
    )
    what = Recurrence("lstm", _lstm_cell(input_forget), 4, True, direction, functions, clip, layout)
    operands = _Operands(data, weight, recurrence, bias, sequence_lens, initial_h, initial_c, peepholes)
    return _Scan(what, operands).run()


__all__ = [
    "DEFAULTS",
    "Activation",
    "Recurrence",
    "activations_of",
    "default_activations",
    "gru",
    "lstm",
    "rnn",
]
