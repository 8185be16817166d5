"""Recurrent networks: lstm, gru and rnn, as a scan over the steps of a sequence.

    for task in T.parallel(directions * groups of sequences):
        for t in range(steps):
            for s, row in T.grid(4, rows): G[s, row] = P[d, t, n + s, row] + B[d, row]        P: all inputs' products
            for s, row, k in T.grid(4, rows, hidden): G[s, row] += H[d, n + s, k] * R[d, k, row]
            for s, j in T.grid(4, hidden): H[d, n + s, j] = Y[t, d, n + s, j] = cell(G[s, j], G[s, j + hidden], …)

The products of the inputs with their weights are computed for all steps at once. The scan keeps the state in the
tensors of final states. In a step it adds the products of the state with the recurrence weights, which are transposed,
to all gates at once; the rule `StepProducts` keeps these sums in registers. Weights that are `dequantised` (see
`recurrent_weights`) are read as integers by both products.
"""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .. import te
from ..prim import IntImm, PrimExpr, Select, Var, cast, const, intrin, is_const, simplify
from ..runtime.records import dataclass
from ..tir.buffer import Buffer, decl_buffer
from ..tir.statements import NOTHING, seq_of
from ..tir.stmt import AllocBuffer, AssertStmt, BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt
from .recurrent_activations import DEFAULTS, Activation, Scalar, activations_of, default_activations
from .recurrent_weights import input_product, narrow_weights
from .twofold import let
from .util import accumulator_dtype

_GROUPS: Final = (4, 2, 1)
"""Sizes of sequence groups that advance together, tried in order: each weight is read once per group."""

_LANES: Final = 16
"""Units whose activations are computed at once, in one 512-bit vector or several narrower ones."""


# -------------------------------------------------------------------------------------------------- cells


@dataclass(frozen=True)
class _Step:
    """One step of one sequence of a group: accessors for a unit's state and gates."""

    gate: Callable[[int, PrimExpr], PrimExpr]
    set_gate: Callable[[int, PrimExpr, PrimExpr], Stmt]
    held: Callable[[PrimExpr], PrimExpr]
    """Scratch value of a unit, for use by the cell."""
    hold: Callable[[PrimExpr, PrimExpr], Stmt]
    peephole: Callable[[int, PrimExpr], PrimExpr] | None
    state: Callable[[PrimExpr], PrimExpr]
    set_state: Callable[[PrimExpr, PrimExpr], Stmt]
    """Store the state, which is also the step's result."""
    cell: Callable[[PrimExpr], PrimExpr]
    set_cell: Callable[[PrimExpr, PrimExpr], Stmt]


@dataclass(frozen=True)
class _Group:
    """One step of a group of sequences: each weight is read once for all of them."""

    count: int
    hidden: PrimExpr
    step: Callable[[PrimExpr], _Step]
    """Step of a sequence, given its index in the group."""
    recurrence: Callable[[PrimExpr, PrimExpr], PrimExpr]
    """Weight from a unit of the state to a row of the gates."""

    def each(self, body: Callable[[_Step, PrimExpr], Stmt]) -> Stmt:
        """Loop `body` over each unit of each sequence."""
        return each_unit(self.count, self.hidden, lambda s, j: body(self.step(s), j))

    def add_products(self, first: int, count: int, factor: Callable[[_Step, PrimExpr], PrimExpr]) -> Stmt:
        """Add the products of a vector and the recurrence weights of gates `first`, … to those gates."""
        s, row, k = (Var(name, "int64") for name in ("s", "row", "k"))
        step, at = self.step(s), row + self.hidden * first
        value = step.gate(first, row) + factor(step, k) * self.recurrence(k, at)
        products = For(k, 0, self.hidden, "serial", step.set_gate(first, row, value))
        return For(s, 0, self.count, "serial", For(row, 0, self.hidden * count, "serial", products))


def each_unit(count: int, extent: PrimExpr, body: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
    """Loop `body` over each sequence of a group and each index below `extent`, vectorised over indices."""
    s, j, lane = Var("s", "int64"), Var("j", "int64"), Var("lane", "int64")
    if not isinstance(extent, IntImm) or extent.value <= _LANES:
        return For(s, 0, count, "serial", For(j, 0, extent, "vectorized", body(s, j)))
    whole, rest = divmod(extent.value, _LANES)
    strips = For(j, 0, whole, "serial", For(lane, 0, _LANES, "vectorized", body(s, j * _LANES + lane)))
    if not rest:
        return For(s, 0, count, "serial", strips)
    last = Var("last", "int64")
    behind = For(last, 0, rest, "vectorized", body(s, last + whole * _LANES))
    return For(s, 0, count, "serial", SeqStmt((strips, behind)))


Cell = Callable[[_Group, list[Scalar]], Stmt]


def _rnn_cell(group: _Group, functions: list[Scalar]) -> Stmt:
    (f,) = functions
    return SeqStmt(
        (group.add_products(0, 1, _state), group.each(lambda step, j: step.set_state(j, f(step.gate(0, j)))))
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
                (step.set_cell(j, let(enter, mixed)), step.set_state(j, f(pre(step, 1, 1, j, new)) * h(new)))
            )

        return SeqStmt((group.add_products(0, 4, _state), group.each(unit)))

    return cell


def _gru_cell(linear_before_reset: bool) -> Cell:
    def cell(group: _Group, functions: list[Scalar]) -> Stmt:
        f, g = functions

        def blended(step: _Step, j: PrimExpr, hidden: PrimExpr) -> Stmt:
            z = f(step.gate(0, j))
            return step.set_state(j, let(z, lambda z: (1.0 - z) * g(hidden) + z * step.state(j)))

        def all_at_once(step: _Step, j: PrimExpr) -> Stmt:  # gate 3 is the input's part of the hidden gate
            return blended(step, j, step.gate(3, j) + f(step.gate(1, j)) * step.gate(2, j))

        if linear_before_reset:
            return SeqStmt((group.add_products(0, 3, _state), group.each(all_at_once)))
        reset = group.each(lambda step, j: step.hold(j, f(step.gate(1, j)) * step.state(j)))
        last = group.each(lambda step, j: blended(step, j, step.gate(2, j)))
        late = group.add_products(2, 1, lambda step, k: step.held(k))
        return SeqStmt((group.add_products(0, 2, _state), reset, late, last))

    return cell


# --------------------------------------------------------------------------------------------------- scan


@dataclass(frozen=True)
class Recurrence:
    """Parameters of a recurrent layer, without its operands."""

    name: str
    cell: Cell
    gates: int
    has_cell: bool
    direction: str
    activations: list[Activation]
    clip: float | None
    layout: int
    separate_bias: bool = False
    """True if the cell takes the last gate in two parts: that of the state, followed by that of the input, each with
    its bias."""

    @property
    def holds(self) -> bool:
        """True if the cell uses its scratch value of each unit."""
        return self.gates == 3 and not self.separate_bias

    @property
    def is_uniform(self) -> bool:
        """True if all directions have the same activation functions."""
        count = len(self.activations) // len(self.reversed)
        return self.activations[:count] == self.activations[-count:]

    @property
    def reversed(self) -> list[bool]:
        """Per direction, True if it runs backwards."""
        return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[self.direction]

    def functions(self, d: int) -> list[Scalar]:
        """Activation functions of a direction; those of gates clip their arguments."""
        count = len(self.activations) // len(self.reversed)

        def clipped(function: Activation) -> Scalar:
            if self.clip is None:
                return function
            limit = abs(self.clip)
            return lambda x: function(intrin.max(intrin.min(x, const(limit, x.dtype)), const(-limit, x.dtype)))

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
    """Stages of a recurrent layer."""

    def __init__(self, spec: Recurrence, operands: _Operands) -> None:
        self.what, self.given = spec, operands
        self.dtype = operands.data.dtype
        self.wide = accumulator_dtype(self.dtype)
        first, second, self.inputs = operands.data.shape
        self.steps, self.batch = (second, first) if spec.layout else (first, second)
        self.hidden = operands.recurrence.shape[2]
        self.directions = len(spec.reversed)
        self.rows = self.hidden * spec.gates
        self.narrow_weight = narrow_weights(operands.weight)
        self.narrow_recurrence = narrow_weights(operands.recurrence)

    def projected(self) -> te.Tensor:
        """Products of inputs and weights, (direction, step, sequence, row of gates); of narrow weights, in the order of
        the data with rows of all directions.
        """
        if self.narrow_weight is not None:
            return input_product(self.given.data, self.narrow_weight, f"{self.what.name}_input")
        k = te.reduce_axis((0, self.inputs), "k")
        data, weight, layout = self.given.data, self.given.weight, self.what.layout

        def element(d: Any, t: Any, n: Any, row: Any) -> PrimExpr:
            x = data(n, t, k.var) if layout else data(t, n, k.var)
            return te.sum(x.astype(self.wide) * weight(d, row, k.var).astype(self.wide), axis=k)

        shape = (self.directions, self.steps, self.batch, self.rows)
        return te.compute(shape, element, f"{self.what.name}_input", tag="matmul")

    def transposed(self) -> list[te.Tensor]:
        """Transposed recurrence weights, (direction, unit, row of gates), or the parts of narrow ones."""
        if self.narrow_recurrence is not None:
            return self.narrow_recurrence.parts
        source = self.given.recurrence
        shape = (self.directions, self.hidden, self.rows)
        name = f"{self.what.name}_recurrence"
        return [te.compute(shape, lambda d, j, row: source(d, row, j).astype(self.wide), name)]

    def biases(self) -> te.Tensor:
        """Initial values of the gates and, if it is separate, the recurrence bias: (direction, 2, row of gates)."""
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
        """Build Y, Y_h and, for an lstm, Y_c."""
        optional = [self.given.sequence_lens, self.given.initial_h, self.given.initial_c, self.given.peepholes]
        inputs = [self.projected(), self.biases(), *self.transposed()]
        present = [tensor for tensor in optional if tensor is not None]
        layout = self.what.layout
        d, n, h, t = self.directions, self.batch, self.hidden, self.steps
        states = (n, d, h) if layout else (d, n, h)
        shapes = [(n, t, d, h) if layout else (t, d, n, h), states]
        shapes += [states] if self.what.has_cell else []

        def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
            rest = iter(ins[len(inputs) :])
            buffers = [None if tensor is None else next(rest) for tensor in optional]
            return _Writer(self, ins[: len(inputs)], buffers, outs).statement()

        name = f"{self.what.name}_scan"
        outs = te.extern(shapes, [*inputs, *present], statement, name, [self.wide] * len(shapes))
        return [self._narrowed(out) for out in outs]

    def _narrowed(self, out: te.Tensor) -> te.Tensor:
        if self.wide == self.dtype:
            return out
        return te.compute(out.shape, lambda *i: out(*i).astype(self.dtype), f"{self.what.name}_cast")


class _Writer:
    """Builder of the scan statement: independent tasks per direction and group of sequences."""

    def __init__(self, scan: _Scan, inputs: list[Buffer], optional: list[Buffer | None], outs: list[Buffer]) -> None:
        self.scan = scan
        self.projected, self.bias, *self.weights = inputs
        self.lens, self.initial_h, self.initial_c, self.peepholes = optional
        self.y, self.h, *rest = outs
        self.c = rest[0] if scan.what.has_cell else self.h

    def statement(self) -> Stmt:
        """Check the lengths, then run one task per direction and group of sequences."""
        task, d, number, count = (Var(name, "int64") for name in ("task", "d", "group", "groups"))
        groups = self._groups()
        inside = self._direction(d, number, groups)
        inside = LetStmt(d, task // count, LetStmt(number, task % count, inside))
        if self.scan.directions == 1:
            inside = self._direction(const(0, "int64"), task, groups)
        tasks: Stmt = For(task, 0, count * self.scan.directions, "parallel", inside)
        tasks = LetStmt(count, groups[-1].end, tasks)
        return tasks if self.lens is None else SeqStmt((self._check_lens(self.lens), tasks))

    def _check_lens(self, lens: Buffer) -> Stmt:
        n = Var("n", "int64")
        length = cast("int64", lens[n])
        holds = intrin.all(length >= 0, length <= self.scan.steps)
        message = "sequence_lens must be from 0 to the number of steps"
        return For(n, 0, self.scan.batch, "serial", AssertStmt(holds, message, NOTHING))

    def _groups(self) -> list[_Groups]:
        """Groups by size, consecutively. Sequences with individual lengths form groups of one."""
        remaining: PrimExpr = self.scan.batch
        first = end = cast("int64", const(0, "int64"))
        result: list[_Groups] = []
        for size in _GROUPS if self.lens is None else (1,):
            number = remaining // size
            result.append(_Groups(size, first, end, simplify(end + number)))
            first, end, remaining = simplify(first + number * size), simplify(end + number), simplify(remaining % size)
        return result

    def _direction(self, d: PrimExpr, number: PrimExpr, groups: list[_Groups]) -> Stmt:
        """Process one group of one direction."""
        whole: Stmt | None = None
        for kind in reversed(groups):
            if is_const(simplify(kind.end - kind.begin), 0) and len(groups) > 1:
                continue
            own = self._any_direction(d, kind.size, kind.first + (number - kind.begin) * kind.size)
            whole = own if whole is None else IfThenElse(number < kind.end, own, whole)
        return SeqStmt(()) if whole is None else whole

    def _any_direction(self, d: PrimExpr, count: int, first: PrimExpr) -> Stmt:
        """Use one statement for all directions, unless their activation functions differ."""
        spec = self.scan.what
        if spec.is_uniform:
            return self._sequences(d, 0, count, first)
        one, other = (self._sequences(const(i, "int64"), i, count, first) for i in range(2))
        return IfThenElse(d.equal(0), one, other)

    def _sequences(self, d: PrimExpr, kind: int, count: int, first: PrimExpr) -> Stmt:
        """Run all steps of a group of sequences, with the activation functions of direction `kind`."""
        n, t, at = Var("n", "int64"), Var("t", "int64"), Var("at", "int64")
        spec, hidden = self.scan.what, self.scan.hidden
        length = self.scan.steps if self.lens is None else cast("int64", self.lens[n])
        gates = decl_buffer((count, self.scan.rows + (hidden if spec.separate_bias else 0)), self.scan.wide, "gates")
        held = decl_buffer((count, hidden), self.scan.wide, "held")
        task = _Task(self, d, at, n, count, gates, held)
        group = _Group(count, hidden, task.step, lambda k, row: self.recurrence(d, k, row))
        step: Stmt = SeqStmt((task.start_gates(), spec.cell(group, spec.functions(kind))))
        step = LetStmt(at, self._at(d, t, length), step)
        if self.lens is not None:
            step = IfThenElse(t < length, step, LetStmt(at, t, task.idle()))
        steps = For(t, 0, self.scan.steps, "serial", step)
        whole: Stmt = AllocBuffer(gates, SeqStmt((task.start_states(), steps)))
        return LetStmt(n, first, AllocBuffer(held, whole) if spec.holds else whole)

    def _at(self, d: PrimExpr, t: PrimExpr, length: PrimExpr) -> PrimExpr:
        """Time index of a step."""
        match self.scan.what.reversed:
            case [False]:
                return t
            case [True]:
                return length - 1 - t
            case _:
                return Select(d.equal(0), t, length - 1 - t)

    def recurrence(self, d: PrimExpr, k: PrimExpr, row: PrimExpr) -> PrimExpr:
        """Recurrence weight from a unit to a row of the gates."""
        narrow = self.scan.narrow_recurrence
        return self.weights[0][d, k, row] if narrow is None else narrow.of(self.weights).element(d, row, k)

    def input_product(self, d: PrimExpr, t: PrimExpr, n: PrimExpr, row: PrimExpr) -> PrimExpr:
        """Product of an input and the weights of a row of the gates."""
        if self.scan.narrow_weight is None:
            return self.projected[d, t, n, row]
        column = simplify(d * self.scan.rows) + row
        return self.projected[n, t, column] if self.scan.what.layout else self.projected[t, n, column]

    def state_index(self, d: PrimExpr, n: PrimExpr, j: PrimExpr) -> tuple[PrimExpr, ...]:
        return (n, d, j) if self.scan.what.layout else (d, n, j)

    def result_index(self, t: PrimExpr, d: PrimExpr, n: PrimExpr, j: PrimExpr) -> tuple[PrimExpr, ...]:
        return (n, t, d, j) if self.scan.what.layout else (t, d, n, j)

    def initial(self, source: Buffer | None, index: tuple[PrimExpr, ...]) -> PrimExpr:
        return const(0, self.scan.wide) if source is None else source[index].astype(self.scan.wide)


@dataclass(frozen=True)
class _Groups:
    """Groups of `size` sequences."""

    size: int
    first: PrimExpr
    """Index of their first sequence."""
    begin: PrimExpr
    """Index of the first of these groups among all groups."""
    end: PrimExpr


@dataclass(frozen=True)
class _Task:
    """Statements of a group of sequences, from `first` on, in a direction."""

    writer: _Writer
    d: PrimExpr
    at: PrimExpr
    """Time index of the step."""
    first: PrimExpr
    count: int
    gates: Buffer
    held: Buffer

    @property
    def scan(self) -> _Scan:
        return self.writer.scan

    def each_unit(self, extent: PrimExpr, body: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
        return each_unit(self.count, extent, body)

    def start_states(self) -> Stmt:
        writer = self.writer
        states = [(writer.h, writer.initial_h)]
        states += [(writer.c, writer.initial_c)] if self.scan.what.has_cell else []

        def start(s: PrimExpr, j: PrimExpr) -> Stmt:
            index = writer.state_index(self.d, self.first + s, j)
            stores = [BufferStore(state, writer.initial(given, index), index) for state, given in states]
            return seq_of(stores)

        return self.each_unit(self.scan.hidden, start)

    def start_gates(self) -> Stmt:
        """Initialise the gates with the products of the inputs and the biases."""
        d, bias, rows, hidden = self.d, self.writer.bias, self.scan.rows, self.scan.hidden

        def start(s: PrimExpr, row: PrimExpr, to: PrimExpr) -> Stmt:
            value = self.writer.input_product(d, self.at, self.first + s, row) + bias[d, 0, row]
            return BufferStore(self.gates, value, (s, to))

        if not self.scan.what.separate_bias:
            return self.each_unit(rows, lambda s, row: start(s, row, row))
        late = rows - hidden

        def apart(s: PrimExpr, j: PrimExpr) -> Stmt:
            inner = BufferStore(self.gates, bias[d, 1, j + late], (s, j + late))
            return SeqStmt((start(s, j + late, j + rows), inner))

        return SeqStmt((self.each_unit(late, lambda s, row: start(s, row, row)), self.each_unit(hidden, apart)))

    def idle(self) -> Stmt:
        """Store zeros as the results of a step beyond the end of a sequence."""
        zero = const(0, self.scan.wide)

        def put(s: PrimExpr, j: PrimExpr) -> Stmt:
            index = self.writer.result_index(self.at, self.d, self.first + s, j)
            return BufferStore(self.writer.y, zero, index)

        return self.each_unit(self.scan.hidden, put)

    def step(self, s: PrimExpr) -> _Step:
        """Accessors for sequence `s` of the group."""
        writer, d, hidden, holes = self.writer, self.d, self.scan.hidden, self.writer.peepholes
        n = self.first + s

        def peephole(gate: int, j: PrimExpr) -> PrimExpr:
            assert holes is not None
            return holes[d, j + hidden * gate].astype(self.scan.wide)

        def set_state(j: PrimExpr, value: PrimExpr) -> Stmt:
            new = Var("new", value.dtype)
            state = BufferStore(writer.h, new, writer.state_index(d, n, j))
            result = BufferStore(writer.y, new, writer.result_index(self.at, d, n, j))
            return LetStmt(new, value, SeqStmt((state, result)))

        return _Step(
            gate=lambda gate, j: self.gates[s, j + hidden * gate],
            set_gate=lambda gate, j, value: BufferStore(self.gates, value, (s, j + hidden * gate)),
            held=lambda j: self.held[s, j],
            hold=lambda j, value: BufferStore(self.held, value, (s, j)),
            peephole=None if holes is None else peephole,
            state=lambda j: writer.h[writer.state_index(d, n, j)],
            set_state=set_state,
            cell=lambda j: writer.c[writer.state_index(d, n, j)],
            set_cell=lambda j, value: BufferStore(writer.c, value, writer.state_index(d, n, j)),
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
    """All states and the last one: h = f(W x + R h + b)."""
    functions = activations_of(activations or default_activations("rnn", direction), activation_alpha, activation_beta)
    spec = Recurrence("rnn", _rnn_cell, 1, False, direction, functions, clip, layout)
    return _Scan(spec, _Operands(data, weight, recurrence, bias, sequence_lens, initial_h)).run()


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
    """All states and the last one of a gated recurrent unit (Cho et al. 2014)."""
    functions = activations_of(activations or default_activations("gru", direction), activation_alpha, activation_beta)
    cell = _gru_cell(linear_before_reset)
    spec = Recurrence("gru", cell, 3, False, direction, functions, clip, layout, linear_before_reset)
    return _Scan(spec, _Operands(data, weight, recurrence, bias, sequence_lens, initial_h)).run()


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
    """All states, the last one, and the last cell of a long short-term memory (Hochreiter & Schmidhuber 1997, with the
    forget gate of Gers et al. 2000)."""
    functions = activations_of(activations or default_activations("lstm", direction), activation_alpha, activation_beta)
    spec = Recurrence("lstm", _lstm_cell(input_forget), 4, True, direction, functions, clip, layout)
    operands = _Operands(data, weight, recurrence, bias, sequence_lens, initial_h, initial_c, peepholes)
    return _Scan(spec, operands).run()


__all__ = [
    "DEFAULTS",
    "Activation",
    "Recurrence",
    "activations_of",
    "default_activations",
    "each_unit",
    "gru",
    "lstm",
    "rnn",
]
