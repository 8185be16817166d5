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
from ..tir.stmt import AssertStmt, BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt
from .twofold import let
from .util import accumulator_dtype

Scalar = Callable[[PrimExpr], PrimExpr]

_GROUP: Final = 4
"""Sequences that go through the steps together: the recurrence weights seldom fit the first cache."""

_AT_ONCE: Final = 16
"""Products that are added to the gates of a row at once: units times sequences."""


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
    """One step of one sequence of a group: functions of a unit read and write the state, and the gates so far."""

    gate: Callable[[int, PrimExpr], PrimExpr]
    set_gate: Callable[[int, PrimExpr, PrimExpr], Stmt]
    recurrent_bias: Callable[[PrimExpr], PrimExpr]
    peephole: Callable[[int, PrimExpr], PrimExpr] | None
    state: Callable[[PrimExpr], PrimExpr]
    set_state: Callable[[PrimExpr, PrimExpr], Stmt]
    cell: Callable[[PrimExpr], PrimExpr]
    set_cell: Callable[[PrimExpr, PrimExpr], Stmt]


@dataclass(frozen=True)
class _Group:
    """One step of a few sequences: each weight is read once for all of them."""

    count: int
    hidden: PrimExpr
    step: Callable[[PrimExpr], _Step]
    """The step of a sequence, counted within the group."""
    recurrence: Callable[[PrimExpr, PrimExpr], PrimExpr]
    """The weight from a unit of the state to a row of the gates."""

    def each(self, body: Callable[[_Step, PrimExpr], Stmt]) -> Stmt:
        """`body` for each unit of each sequence."""
        unit, sequence = Var("j", "int64"), Var("s", "int64")
        if self.count == 1:
            return For(unit, 0, self.hidden, "serial", body(self.step(const(0, "int64")), unit))
        units = For(unit, 0, self.hidden, "serial", body(self.step(sequence), unit))
        return For(sequence, 0, self.count, "serial", units)

    def add_products(
        self, first: int, count: int, factor: Callable[[_Step, PrimExpr], PrimExpr], target: int | None = None
    ) -> Stmt:
        """Add the products of a vector with the recurrence weights of gates `first`, … to gates `target`, ….

        Several units go together, in their order: a gate is read and written once for all of them.
        """
        into = first if target is None else target
        steps = [self.step(const(i, "int64")) for i in range(self.count)]

        def added(units: list[PrimExpr]) -> Stmt:
            row = Var("row", "int64")
            loads = [self.recurrence(unit, row + self.hidden * first) for unit in units]
            weights: dict[Var, PrimExpr] = {Var("w", load.dtype): load for load in loads}
            factors: dict[Var, PrimExpr] = {}
            stores: list[Stmt] = []
            for step in steps:
                value = step.gate(into, row)
                for unit, weight in zip(units, weights, strict=True):
                    held = Var("x", value.dtype)
                    factors[held] = factor(step, unit)
                    value = value + held * weight
                stores.append(step.set_gate(into, row, value))
            body = For(row, 0, self.hidden * count, "serial", _lets(weights, SeqStmt(tuple(stores))))
            return _lets(factors, body)

        some, rest = Var("some", "int64"), Var("rest", "int64")
        at_once = _AT_ONCE // self.count
        together = added([some * at_once + i for i in range(at_once)])
        alone = added([self.hidden // at_once * at_once + rest])
        parts = [
            For(some, 0, self.hidden // at_once, "serial", together),
            For(rest, 0, self.hidden % at_once, "serial", alone),
        ]
        return SeqStmt(tuple(parts))


def _lets(values: dict[Var, PrimExpr], body: Stmt) -> Stmt:
    """A statement in which variables stand for values."""
    for var, value in reversed(values.items()):
        body = LetStmt(var, value, body)
    return body


Cell = Callable[[_Group, list[Scalar]], Stmt]


def _rnn_cell(group: _Group, functions: list[Scalar]) -> Stmt:
    (f,) = functions
    return SeqStmt(
        (
            group.add_products(0, 1, _state),
            group.each(lambda step, j: step.set_state(j, f(step.gate(0, j)))),
        )
    )


def _state(step: _Step, j: PrimExpr) -> PrimExpr:
    return step.state(j)


def _lstm_cell(input_forget: bool) -> Cell:
    def cell(group: _Group, functions: list[Scalar]) -> Stmt:
        f, g, h = functions

        def pre(step: _Step, gate: int, peephole: int, j: PrimExpr, seen: PrimExpr) -> PrimExpr:
            value = step.gate(gate, j)
            return value if step.peephole is None else value + step.peephole(peephole, j) * seen

        def unit(step: _Step, j: PrimExpr) -> Stmt:
            old = step.cell(j)
            enter = f(pre(step, 0, 0, j, old))

            def mixed(i: PrimExpr) -> PrimExpr:
                forget = const(1.0, i.dtype) - i if input_forget else f(pre(step, 2, 2, j, old))
                return forget * old + i * g(step.gate(3, j))

            new = step.cell(j)
            return SeqStmt(
                (
                    step.set_cell(j, let(enter, mixed)),
                    step.set_state(j, f(pre(step, 1, 1, j, new)) * h(new)),
                )
            )

        return SeqStmt((group.add_products(0, 4, _state), group.each(unit)))

    return cell


def _gru_cell(linear_before_reset: bool) -> Cell:
    def cell(group: _Group, functions: list[Scalar]) -> Stmt:
        f, g = functions

        def reset(step: _Step, j: PrimExpr) -> PrimExpr:
            return step.gate(1, j) * step.state(j)

        parts = [
            group.add_products(0, 2, _state),
            group.each(
                lambda step, j: SeqStmt(
                    (step.set_gate(0, j, f(step.gate(0, j))), step.set_gate(1, j, f(step.gate(1, j))))
                )
            ),
        ]
        if linear_before_reset:  # gate 3 is room for the state's part of the hidden gate
            parts += [
                group.each(lambda step, j: step.set_gate(3, j, step.recurrent_bias(j + group.hidden * 2))),
                group.add_products(2, 1, _state, target=3),
                group.each(
                    lambda step, j: step.set_gate(2, j, step.gate(2, j) + step.gate(1, j) * step.gate(3, j))
                ),
            ]
        else:
            parts.append(group.add_products(2, 1, reset))

        def blend(step: _Step, j: PrimExpr) -> Stmt:
            z = step.gate(0, j)
            return step.set_state(j, (1.0 - z) * g(step.gate(2, j)) + z * step.state(j))

        return SeqStmt((*parts, group.each(blend)))

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
        scratch = (_GROUP, self.rows + (h if self.what.separate_bias else 0))

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
    """The statement that scans: groups of sequences, and directions, one after the other."""

    def __init__(
        self, scan: _Scan, inputs: list[Buffer], optional: list[Buffer | None], outs: list[Buffer]
    ) -> None:
        self.scan = scan
        self.projected, self.transposed, self.bias = inputs
        self.lens, self.initial_h, self.initial_c, self.peepholes = optional
        self.y, self.h, *rest = outs
        self.c = rest[0] if scan.what.has_cell else self.h
        self.gates = rest[-1]

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

    def _state_index(self, d: int, n: PrimExpr, j: PrimExpr) -> tuple[Any, ...]:
        return (n, d, j) if self.scan.what.layout else (d, n, j)

    def _direction(self, d: int, back: bool) -> Stmt:
        """All sequences: groups, then those left. Sequences of lengths of their own go one by one."""
        batch = self.scan.batch
        if self.lens is not None:
            return self._sequences(d, back, 1, const(0, "int64"), batch)
        whole, size = batch // _GROUP, const(_GROUP, "int64")
        groups = self._sequences(d, back, _GROUP, const(0, "int64"), whole)
        return SeqStmt((groups, self._sequences(d, back, 1, whole * size, batch % size)))

    def _sequences(self, d: int, back: bool, count: int, begin: PrimExpr, times: PrimExpr) -> Stmt:
        """`times` groups of `count` sequences from sequence `begin`: their states, and all their steps."""
        n, t = Var("n", "int64"), Var("t", "int64")
        first: PrimExpr = begin + n * count
        length = self.scan.steps if self.lens is None else cast("int64", self.lens[first])
        at: PrimExpr = length - 1 - t if back else t
        group = _Group(
            count,
            self.scan.hidden,
            lambda s: self._step(d, first + s, s),
            lambda j, row: self.transposed[d, j, row],
        )
        whole: Stmt = SeqStmt(
            (
                self._start_gates(d, at, first, count),
                self.scan.what.cell(group, self.scan.what.functions(d)),
                self._put(d, at, first, count, lambda n, j: self.h[self._state_index(d, n, j)]),
            )
        )
        if self.lens is not None:
            idle = self._put(d, t, first, count, lambda n, j: const(0, self.scan.wide))
            whole = IfThenElse(t < length, whole, idle)
        steps = For(t, 0, self.scan.steps, "serial", whole)
        return For(n, 0, times, "serial", SeqStmt((self._start_states(d, first, count), steps)))

    def _each(self, count: int, extent: PrimExpr, body: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
        """`body` for each sequence of a group and each index less than an extent."""
        s, j = Var("s", "int64"), Var("j", "int64")
        return For(s, 0, count, "serial", For(j, 0, extent, "serial", body(s, j)))

    def _start_states(self, d: int, first: PrimExpr, count: int) -> Stmt:
        def start(s: PrimExpr, j: PrimExpr) -> Stmt:
            index = self._state_index(d, first + s, j)
            states = [(self.h, self.initial_h)]
            states += [(self.c, self.initial_c)] if self.scan.what.has_cell else []
            return SeqStmt(
                tuple(BufferStore(state, self._initial(given, index), index) for state, given in states)
            )

        return self._each(count, self.scan.hidden, start)

    def _initial(self, source: Buffer | None, index: tuple[Any, ...]) -> PrimExpr:
        return const(0, self.scan.wide) if source is None else source[index].astype(self.scan.wide)

    def _put(
        self,
        d: int,
        t: PrimExpr,
        first: PrimExpr,
        count: int,
        value: Callable[[PrimExpr, PrimExpr], PrimExpr],
    ) -> Stmt:
        """Store the results of a step."""

        def put(s: PrimExpr, j: PrimExpr) -> Stmt:
            n = first + s
            index = (n, t, d, j) if self.scan.what.layout else (t, d, n, j)
            return BufferStore(self.y, value(n, j), index)

        return self._each(count, self.scan.hidden, put)

    def _start_gates(self, d: int, at: PrimExpr, first: PrimExpr, count: int) -> Stmt:
        def start(s: PrimExpr, row: PrimExpr) -> Stmt:
            value = self.projected[d, at, first + s, row] + self.bias[d, 0, row]
            return BufferStore(self.gates, value, (s, row))

        return self._each(count, self.scan.rows, start)

    def _step(self, d: int, n: PrimExpr, s: PrimExpr) -> _Step:
        """The step of sequence `n`, whose gates are row `s` of the scratch space."""
        hidden, holes = self.scan.hidden, self.peepholes

        def peephole(gate: int, j: PrimExpr) -> PrimExpr:
            assert holes is not None
            return holes[d, j + hidden * gate].astype(self.scan.wide)

        return _Step(
            gate=lambda gate, j: self.gates[s, j + hidden * gate],
            set_gate=lambda gate, j, value: BufferStore(self.gates, value, (s, j + hidden * gate)),
            recurrent_bias=lambda row: self.bias[d, 1, row],
            peephole=None if holes is None else peephole,
            state=lambda j: self.h[self._state_index(d, n, j)],
            set_state=lambda j, value: BufferStore(self.h, value, self._state_index(d, n, j)),
            cell=lambda j: self.c[self._state_index(d, n, j)],
            set_cell=lambda j, value: BufferStore(self.c, value, self._state_index(d, n, j)),
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
