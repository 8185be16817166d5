"""Recurrent networks, as ONNX defines them: rnn, gru, lstm."""

# NumPy's own types leave many types of references unknown.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from .. import topi
from ..expr import Call
from ..prim import IntImm, PrimExpr
from ..runtime.rounding import convert_array
from ..struct_info import TensorStructInfo, TupleStructInfo
from ..topi.recurrent import DEFAULTS, Activation, activations_of, default_activations
from .base import Gradients, Term
from .dims import same_dtype, tensor
from .errors import DTYPES, OperatorError
from .facts import MixedPrecision
from .nn.activation import wide
from .operands import FLOATS
from .operator import Array, Operator, operator
from .recurrent_gradients import recurrent_gradient
from .sizes import require_dim, require_rank

Direction = Literal["forward", "reverse", "bidirectional"]
Cell = Any


class Recurrent(Operator):
    """Base class of rnn, gru and lstm.

    data (steps, batch, inputs), weight (directions, gates · hidden, inputs), recurrence (directions, gates · hidden,
    hidden), bias (directions, 2 · gates · hidden), sequence_lens (batch), initial states (directions, batch, hidden);
    results (steps, directions, batch, hidden) and (directions, batch, hidden). With `layout` 1 the batch comes first.
    """

    __slots__ = ()

    takes = FLOATS

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.NEVER
    gates: ClassVar[int]
    states: ClassVar[int] = 1

    direction: Direction = "forward"
    activations: tuple[str, ...] | None = None
    activation_alpha: tuple[float, ...] = ()
    activation_beta: tuple[float, ...] = ()
    clip: float | None = None
    layout: int = 0

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    def functions(self) -> list[Activation]:
        """Activation functions of all directions."""
        names = self.activations or default_activations(self.op_name.rpartition(".")[2], self.direction)
        return activations_of(names, self.activation_alpha, self.activation_beta)

    def inferred(
        self,
        data: TensorStructInfo,
        weight: TensorStructInfo,
        recurrence: TensorStructInfo,
        *optional: TensorStructInfo | None,
    ) -> TupleStructInfo:
        """Struct info of all states and the last ones, from the operands in order."""
        self._require_attributes()
        infos = (data, weight, recurrence, *optional)
        operands = {operand.name: info for operand, info in zip(self.operands, infos, strict=True)}
        dtype = self._common_dtype(operands)
        ranks = {"data": 3, "weight": 3, "recurrence": 3, "bias": 2, "sequence_lens": 1, "initial_h": 3}
        ranks |= {"initial_c": 3, "peepholes": 2}
        for name, info in operands.items():
            if info is not None:
                require_rank(name, info, ranks[name])
        if data.dims is None or recurrence.dims is None:
            states = tensor(None, dtype, 3)
            return TupleStructInfo((tensor(None, dtype, 4), *[states] * self.states))
        first, second, inputs = data.dims
        steps, batch = (second, first) if self.layout else (first, second)
        hidden = recurrence.dims[2]
        self._require_sizes(operands, inputs, batch, hidden)
        d = IntImm("int64", self.directions)
        state = tensor((batch, d, hidden) if self.layout else (d, batch, hidden), dtype)
        every = tensor((batch, steps, d, hidden) if self.layout else (steps, d, batch, hidden), dtype)
        return TupleStructInfo((every, *[state] * self.states))

    def _require_attributes(self) -> None:
        self.require_attribute(self.layout in (0, 1), "layout", "0 or 1")
        self.require_attribute(self.clip is None or self.clip > 0, "clip", "positive")
        if self.activations is None:
            return
        names = ", ".join(sorted(DEFAULTS))
        legal = all(name.lower() in DEFAULTS for name in self.activations)
        self.require_attribute(legal, "activations", f"names among {names}")
        count = len(default_activations(self.op_name.rpartition(".")[2], self.direction))
        self.require_attribute(len(self.activations) == count, "activations", f"{count} names")

    def _common_dtype(self, operands: dict[str, TensorStructInfo | None]) -> Any:
        dtype: Any = None
        for name, info in operands.items():
            if info is None:
                continue
            if name == "sequence_lens":
                self.require_dtype(info, name, "int")
                continue
            self.require_dtype(info, name, *self.takes)
            dtype = info.dtype if dtype is None else same_dtype(dtype, info.dtype, ("data", name))
        if dtype is None:
            raise OperatorError(DTYPES, "data must be a tensor", operand="data")
        return dtype

    def _require_sizes(
        self, operands: dict[str, TensorStructInfo | None], inputs: PrimExpr, batch: PrimExpr, hidden: PrimExpr
    ) -> None:
        both, rows = IntImm("int64", self.directions), hidden * self.gates
        state = (batch, both, hidden) if self.layout else (both, batch, hidden)
        expected: dict[str, tuple[PrimExpr, ...]] = {
            "weight": (both, rows, inputs),
            "recurrence": (both, rows, hidden),
            "bias": (both, rows * 2),
            "sequence_lens": (batch,),
            "initial_h": state,
            "initial_c": state,
            "peepholes": (both, hidden * 3),
        }
        for name, sizes in expected.items():
            info = operands.get(name)
            if info is None:
                continue
            for d, size in enumerate(sizes):
                require_dim(name, info, d, size)

    def gradient_of_call(self, builder: Any, call: Call, result: Term, grad: Term) -> Gradients | None:
        return recurrent_gradient(self, builder, call, result, grad)

    # -------------------------------------------------------------------------------------- reference

    def scanned(
        self,
        data: Array,
        weight: Array,
        recurrence: Array,
        bias: Array | None,
        lens: Array | None,
        initial: Sequence[Array | None],
        peepholes: Array | None,
    ) -> list[Array]:
        """Compute the results in NumPy, in float64 for float64 operands."""
        dtype, kind = data.dtype, wide(data).dtype
        x = data.astype(kind).swapaxes(0, 1) if self.layout else data.astype(kind)
        steps, batch, hidden = x.shape[0], x.shape[1], recurrence.shape[2]
        every = np.zeros((steps, self.directions, batch, hidden), kind)
        last = [np.zeros((self.directions, batch, hidden), kind) for _ in range(self.states)]
        functions = self._numpy_functions()
        count = len(functions) // self.directions
        for d in range(self.directions):
            w, r = weight[d].astype(kind), recurrence[d].astype(kind)
            b = np.zeros((2, len(w)), kind) if bias is None else bias[d].astype(kind).reshape(2, -1)
            p = None if peepholes is None else peepholes[d].astype(kind).reshape(3, -1)
            own_functions = functions[d * count : (d + 1) * count]
            back = self.direction == "reverse" or d == 1
            for n in range(batch):
                length = steps if lens is None else int(lens[n])
                if not 0 <= length <= steps:
                    raise AssertionError("sequence_lens must be from 0 to the number of steps")
                state = [self._first(given, d, n, hidden, kind) for given in initial]
                for t in range(length)[:: -1 if back else 1]:
                    state = self.step(w @ x[t, n] + b[0], r, b[1], p, state, own_functions)
                    every[t, d, n] = state[0]
                for out, value in zip(last, state, strict=True):
                    out[d, n] = value
        if self.layout:
            every, last = every.transpose(2, 0, 1, 3), [out.swapaxes(0, 1) for out in last]
        return [convert_array(np.ascontiguousarray(out), dtype) for out in (every, *last)]

    def _first(self, given: Array | None, d: int, n: int, hidden: int, kind: Any) -> Array:
        if given is None:
            return np.zeros(hidden, kind)
        return (given[n, d] if self.layout else given[d, n]).astype(kind)

    def step(
        self, x: Array, r: Array, rb: Array, p: Array | None, state: list[Array], functions: list[Cell]
    ) -> list[Array]:
        """Advance one sequence by one step; `x` is the projected input including its bias."""
        raise NotImplementedError

    def _numpy_functions(self) -> list[Cell]:
        """Activation functions of all directions in NumPy; all but an lstm's last one are clipped as gates."""
        every = self.functions()
        return [
            self._numpy_function(a, None if self.gates == 4 and i % 3 == 2 else self.clip) for i, a in enumerate(every)
        ]

    def _numpy_function(self, activation: Activation, clip: float | None) -> Cell:
        def function(x: Array) -> Array:
            x = x if clip is None else np.clip(x, -clip, clip)
            with np.errstate(all="ignore"):
                return np.asarray(_ACTIVATIONS[activation.name](x, activation.alpha, activation.beta), x.dtype)

        return function


_ACTIVATIONS: dict[str, Any] = {
    "affine": lambda x, a, b: a * x + b,
    "elu": lambda x, a, b: np.where(x >= 0, x, a * (np.exp(x) - 1)),
    "hardsigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "leakyrelu": lambda x, a, b: np.where(x >= 0, x, a * x),
    "relu": lambda x, a, b: np.maximum(x, 0),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "softplus": lambda x, a, b: np.logaddexp(0, x),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "tanh": lambda x, a, b: np.tanh(x),
    "thresholdedrelu": lambda x, a, b: np.where(x >= a, x, 0),
}


@operator("relax.nn.rnn")
class Rnn(Recurrent):
    """(Y, Y_h) of a recurrent layer: h = f(W x + Wb + R h + Rb), f by default tanh; operands as in `Recurrent`.

    `activations` has one name for each direction, in any case of letters: Affine, Elu, HardSigmoid, LeakyRelu, Relu,
    ScaledTanh, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu. Functions with an alpha or a beta take the next one
    of the lists, or ONNX's default (Affine and ScaledTanh: 1 and 0, 1 and 1). `clip` bounds gates before activation.
    Steps beyond a sequence's length yield 0.
    """

    gates: ClassVar[int] = 1

    compute = topi.recurrent.rnn

    def infer(
        self,
        data: TensorStructInfo,
        weight: TensorStructInfo,
        recurrence: TensorStructInfo,
        bias: TensorStructInfo | None = None,
        sequence_lens: TensorStructInfo | None = None,
        initial_h: TensorStructInfo | None = None,
    ) -> TupleStructInfo:
        return self.inferred(data, weight, recurrence, bias, sequence_lens, initial_h)

    def reference(
        self,
        data: Array,
        weight: Array,
        recurrence: Array,
        bias: Array | None = None,
        sequence_lens: Array | None = None,
        initial_h: Array | None = None,
    ) -> list[Array]:
        return self.scanned(data, weight, recurrence, bias, sequence_lens, [initial_h], None)

    def step(
        self, x: Array, r: Array, rb: Array, p: Array | None, state: list[Array], functions: list[Cell]
    ) -> list[Array]:
        return [functions[0](x + r @ state[0] + rb)]


@operator("relax.nn.gru")
class Gru(Recurrent):
    """(Y, Y_h) of a gated recurrent unit; its gates are update z, reset r and hidden h, in this order.

    z, r = f(W x + R h + b), by default sigmoids; n = g(W x + Wb + R (r h) + Rb), by default tanh, or with
    `linear_before_reset` g(W x + Wb + r (R h + Rb)); the state becomes (1 - z) n + z h. Otherwise like `nn.rnn`, with
    two activations (f, g) for each direction.
    """

    gates: ClassVar[int] = 3

    linear_before_reset: bool = False
    compute = topi.recurrent.gru

    infer = Rnn.infer
    reference = Rnn.reference

    def step(
        self, x: Array, r: Array, rb: Array, p: Array | None, state: list[Array], functions: list[Cell]
    ) -> list[Array]:
        h, size, (f, g) = state[0], len(state[0]), functions
        both = f(x[: 2 * size] + r[: 2 * size] @ h + rb[: 2 * size])
        update, reset = both[:size], both[size:]
        late, bias = r[2 * size :], rb[2 * size :]
        if self.linear_before_reset:
            hidden = g(x[2 * size :] + reset * (late @ h + bias))
        else:
            hidden = g(x[2 * size :] + late @ (reset * h) + bias)
        return [(1 - update) * hidden + update * h]


@operator("relax.nn.lstm")
class Lstm(Recurrent):
    """(Y, Y_h, Y_c) of a long short-term memory; its gates are input i, output o, forget f and cell c, in this order.

    i, o, f = f(W x + R h + b), by default sigmoids; the cell becomes f c + i g(W x + R h + b) and the state o h(c), g
    and h by default tanh. `peepholes` (directions, 3 · hidden), for i, o and f, times the cell (for o the new one) are
    added to the gates. With `input_forget` f is 1 - i. Otherwise like `nn.rnn`, with three activations (f, g, h) for
    each direction.
    """

    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2

    input_forget: bool = False
    compute = topi.recurrent.lstm

    def infer(
        self,
        data: TensorStructInfo,
        weight: TensorStructInfo,
        recurrence: TensorStructInfo,
        bias: TensorStructInfo | None = None,
        sequence_lens: TensorStructInfo | None = None,
        initial_h: TensorStructInfo | None = None,
        initial_c: TensorStructInfo | None = None,
        peepholes: TensorStructInfo | None = None,
    ) -> TupleStructInfo:
        return self.inferred(data, weight, recurrence, bias, sequence_lens, initial_h, initial_c, peepholes)

    def reference(
        self,
        data: Array,
        weight: Array,
        recurrence: Array,
        bias: Array | None = None,
        sequence_lens: Array | None = None,
        initial_h: Array | None = None,
        initial_c: Array | None = None,
        peepholes: Array | None = None,
    ) -> list[Array]:
        initial = [initial_h, initial_c]
        return self.scanned(data, weight, recurrence, bias, sequence_lens, initial, peepholes)

    def step(
        self, x: Array, r: Array, rb: Array, p: Array | None, state: list[Array], functions: list[Cell]
    ) -> list[Array]:
        (h, c), (f, g, out) = state, functions
        gates = (x + r @ h + rb).reshape(4, -1)
        holes = np.zeros((3, len(h)), h.dtype) if p is None else p
        enter = f(gates[0] + holes[0] * c)
        forget = 1 - enter if self.input_forget else f(gates[2] + holes[2] * c)
        cell = forget * c + enter * g(gates[3])
        return [f(gates[1] + holes[1] * cell) * out(cell), cell]
