"""Control flow: If, Loop and Scan.

A loop becomes a local function that calls itself, once an iteration; what its body reads from outside is captured. The
number of the iteration is a scalar of the program, so that a body may slice and gather by it::

    def loop(i, cond, state, outputs):            # outputs: (i, ...)
        if i < trip and cond:
            ... the body ...
            result = loop(i + 1, cond_out, state_out, concat([outputs, output]))
        else:
            result = (state, outputs)
        return result

A state whose shape changes from iteration to iteration has a shape variable for each dimension that does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import NoneType
from typing import Any, TypeAlias

from .... import op
from ....expr import Call, Constant, PrimValue, ShapeExpr, TupleGetItem, Var
from ....ir import RelaxExpr, StructInfo
from ....prim import IntImm, PrimExpr, const, free_vars
from ....prim.expr import Var as PrimVar
from ....runtime.records import dataclass
from ....struct_info import ObjectStructInfo, PrimStructInfo, TensorStructInfo
from ...building import bind_loop
from ..branches import chosen, condition, scalar_condition
from ..emitter import FAR, Emitter
from ..objects import is_numeric, lowered, raised, run, type_of, type_of_proto, united
from ..registry import converter
from ..values import Elements, Ints, Object, Optional, Strings, Subgraph, Tensor, Value, ValueType
from ..values import Sequence as SequenceValue


@converter("If")
def if_(g: Emitter, cond: Value, *, then_branch: Subgraph, else_branch: Subgraph) -> Sequence[Any]:
    test = condition(g, cond)
    if isinstance(test, bool):
        return g.reader.read_subgraph(then_branch if test else else_branch, [])
    graphs = then_branch, else_branch
    if len(then_branch.graph.output) != len(else_branch.graph.output):
        raise g.error("its branches have different numbers of outputs", code="E6002")
    declared = [
        united(*(type_of_proto(graph.graph.output[i].type) for graph in graphs))
        for i in range(len(then_branch.graph.output))
    ]
    read = g.reader.read_subgraph
    return chosen(g, test, (partial(read, then_branch, ()), partial(read, else_branch, ())), declared)


# ------------------------------------------------------------------------------------- loops


@dataclass(frozen=True)
class LoopStep:
    """The results of the body of a loop: whether to go on (None: always), the states, and a slice of each output."""

    proceed: RelaxExpr | None
    states: list[RelaxExpr]
    slices: list[RelaxExpr]


StateInfo: TypeAlias = "TensorStructInfo | ObjectStructInfo"

Body: TypeAlias = Callable[[PrimVar, "RelaxExpr | None", list[RelaxExpr]], LoopStep]
"""The body of a loop, read from the iteration's number, the condition and the states."""


@converter("Loop")
def loop(g: Emitter, M: Value | None, cond: Value | None, *v_initial: Value | None, body: Subgraph) -> Sequence[Any]:
    count = len(v_initial)
    _check_body(g, body, count + 2, count + 1)
    types = [_state_type(g, *pair) for pair in zip(v_initial, body.graph.input[2:], strict=True)]

    def value_of(state: RelaxExpr, kind: ValueType | None) -> Value:
        return state if kind is None else raised(g, state, kind)

    def step(i: PrimVar, proceed: RelaxExpr | None, states: list[RelaxExpr]) -> LoopStep:
        keeps = g.const(True, "bool") if proceed is None else proceed
        inputs = [value_of(*pair) for pair in zip(states, types, strict=True)]
        after, *rest = g.reader.read_subgraph(body, [Elements.of(i), keeps, *inputs])
        going = g.tensor(after, "the condition")
        always = (isinstance(going, Constant) and bool(going.data)) or (proceed is None and going is keeps)
        new = [
            g.tensor(value, "a state of the loop") if kind is None else lowered(g, value)
            for value, kind in zip(rest[:count], types, strict=True)
        ]
        slices = [g.tensor(value, "an output of the body") for value in rest[count:]]
        return LoopStep(None if always else scalar_condition(g, going), new, slices)

    first = None if cond is None else scalar_condition(g, g.tensor(cond, "cond"))
    if isinstance(first, Constant) and bool(first.data):
        first = None
    initial = [
        g.tensor(value, "a state of the loop") if kind is None else lowered(g, value)
        for value, kind in zip(v_initial, types, strict=True)
    ]
    held = [kind is not None for kind in types]
    results = _Loop(g, _trip_count(g, M), first, initial, step, (), held).run()
    return [*(value_of(*pair) for pair in zip(results[:count], types, strict=True)), *results[count:]]


def _state_type(g: Emitter, value: Value | None, declared: Any) -> ValueType | None:
    """The type of a state that is no tensor of numbers, None for one that is."""
    if not isinstance(value, (Object, Optional, SequenceValue, Strings, NoneType)):
        kind = type_of_proto(declared.type)
        return None if kind is None or is_numeric(kind) else kind
    return united(type_of_proto(declared.type), None if value is None else type_of(g, value))


def _trip_count(g: Emitter, value: Value | None) -> PrimExpr | None:
    """The greatest number of iterations, None for no limit."""
    if value is None:
        return None
    elements = g.elements(value)
    if elements is not None:
        return g.single(g.scalars(value, "M", signed=True), "M")
    low, high = g.const(0, "int64"), g.const(FAR, "int64")
    bounded = op.minimum(op.maximum(op.astype(g.tensor(value), "int64"), low), high)
    return g.sizes(g.emit(bounded), "trip_count")[0]


@converter("Scan", since=9)
def scan(
    g: Emitter,
    *inputs: Tensor,
    body: Subgraph,
    num_scan_inputs: int,
    scan_input_axes: Ints = (),
    scan_input_directions: Ints = (),
    scan_output_axes: Ints = (),
    scan_output_directions: Ints = (),
) -> Sequence[Any]:
    count = len(inputs) - num_scan_inputs
    if not 0 < num_scan_inputs <= len(inputs):
        raise g.error(f"num_scan_inputs is {num_scan_inputs}, of {len(inputs)} inputs", code="E6003")
    _check_body(g, body, len(inputs), count)
    states, scanned = list(inputs[:count]), inputs[count:]
    chosen = scan_input_axes or [0] * len(scanned)
    axes = [
        g.axis(axis, g.ndim(x))
        for axis, x in zip(g.fitting(chosen, len(scanned), "scan_input_axes"), scanned, strict=True)
    ]
    trip = g.dims(scanned[0])[axes[0]]
    scanned = [_of_length(g, x, axis, trip) for x, axis in zip(scanned, axes, strict=True)]
    backwards = scan_input_directions or [0] * len(scanned)
    g.fitting(backwards, len(scanned), "scan_input_directions")

    def step(i: PrimVar, proceed: RelaxExpr | None, states: list[RelaxExpr]) -> LoopStep:
        numbers = [trip - 1 - i if back else i for back in backwards]
        slices = [op.take(x, PrimValue(p), axis) for x, p, axis in zip(scanned, numbers, axes, strict=True)]
        results = g.reader.read_subgraph(body, [*states, *(g.emit(slice_) for slice_ in slices)])
        tensors = [g.tensor(value, "an output of the body") for value in results]
        return LoopStep(None, tensors[:count], tensors[count:])

    stacked = len(body.graph.output) - count
    output_axes = g.fitting(scan_output_axes or [0] * stacked, stacked, "scan_output_axes")
    prepended = [bool(direction) for direction in scan_output_directions]
    results = _Loop(g, trip, None, states, step, prepended).run()
    outputs = [_moved(g, x, axis) for x, axis in zip(results[count:], output_axes, strict=True)]
    return [*results[:count], *outputs]


@converter("Scan", since=8)
def scan_of_batches(
    g: Emitter,
    sequence_lens: Value | None,
    *inputs: Tensor,
    body: Subgraph,
    num_scan_inputs: int,
    directions: Ints = (),
) -> Sequence[Any]:
    """The first axis is the batch, each row of which is scanned along the second."""
    if sequence_lens is not None:
        g.unsupported("a length for each row of the batch")
    batch = g.dims(inputs[0])[0]
    batches = [_of_length(g, x, 0, batch) for x in inputs]

    def step(i: PrimVar, proceed: RelaxExpr | None, states: list[RelaxExpr]) -> LoopStep:
        rows = [g.emit(op.take(x, PrimValue(i), 0)) for x in batches]
        results = scan(g, *rows, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions)
        return LoopStep(None, [], [g.emit(result) for result in results])

    return _Loop(g, batch, None, [], step, ()).run()


def _check_body(g: Emitter, body: Subgraph, inputs: int, outputs: int) -> None:
    """Raise DiagnosticError if the body of a loop has not this number of inputs, or fewer outputs."""
    graph = body.graph
    if len(graph.input) != inputs:
        raise g.error(f"its graph has {len(graph.input)} inputs, {inputs} are passed", code="E6002")
    if len(graph.output) < outputs:
        raise g.error(f"its graph has {len(graph.output)} outputs, expected {outputs} or more", code="E6002")


def _of_length(g: Emitter, x: Tensor, axis: int, length: PrimExpr) -> Tensor:
    """A scanned input, which has as many slices as the others: checked when it runs, if that is not known."""
    dims = list(g.dims(x))
    if g.is_true(dims[axis].equal(length)):
        return x
    dims[axis] = length
    return g.builder.match_cast(x, TensorStructInfo(ShapeExpr(dims), g.dtype(x)))


def _moved(g: Emitter, x: RelaxExpr, axis: int) -> RelaxExpr:
    """Move the first axis to index `axis`."""
    ndim = g.ndim(x)
    destination = g.axis(axis, ndim)
    rest = list(range(1, ndim))
    return x if destination == 0 else op.permute_dims(x, [*rest[:destination], 0, *rest[destination:]])


class _Loop:
    """The building of one loop."""

    def __init__(
        self,
        g: Emitter,
        trip: PrimExpr | None,
        proceed: RelaxExpr | None,
        states: list[RelaxExpr],
        body: Body,
        prepended: Sequence[bool],
        held: Sequence[bool] = (),
    ) -> None:
        self.g, self.trip, self.proceed, self.states, self.body = g, trip, proceed, states, body
        self.prepended = prepended
        self.index = PrimVar(g.builder.get_unique_name("i"), "int64")
        self.held = held or [False] * len(states)
        self.infos = [self._info(index, state) for index, state in enumerate(states)]
        self.slices: list[TensorStructInfo] = []
        self.varying: list[bool] = []
        """True for an output whose slices have sizes that each iteration tells: they are kept as a sequence."""
        self.conditional = proceed is not None

    def _info(self, index: int, state: RelaxExpr) -> TensorStructInfo | ObjectStructInfo:
        """The struct info of a state; one that is no tensor is an object in every iteration."""
        return ObjectStructInfo() if self.held[index] else self.g.info(state)

    def run(self) -> list[RelaxExpr]:
        """Emit the loop; the last states, then the outputs."""
        if self.trip is not None and isinstance(self.trip, IntImm) and self.trip.value <= 0 and not self.states:
            self.g.unsupported("a loop without iterations and states")
        while not self._settled():
            pass
        return self._call(self._function())

    # -- finding the shapes

    def _settled(self) -> bool:
        """Read the body once, for its shapes; False if a state has another shape than was taken."""
        g, outside = self.g, set(self.g.builder.shape_vars)
        with g.branch():
            params = self._params()
            g.builder.begin_scope(params)
            step = self._step(params)
            self._check_ranks(step.states)
            slices = [g.info(slice_) for slice_ in step.slices]
            infos = [
                self._generalised(index, old, self._info(index, new))
                for index, (old, new) in enumerate(zip(self.infos, step.states, strict=True))
            ]
        conditional = self.conditional or step.proceed is not None
        settled = conditional == self.conditional and all(a is b for a, b in zip(infos, self.infos, strict=True))
        self.infos, self.slices, self.conditional = infos, slices, conditional
        self.varying = [
            info.dims is None or not {var for dim in info.dims for var in free_vars(dim)} <= outside for info in slices
        ]
        return settled

    def _check_ranks(self, states: Sequence[RelaxExpr]) -> None:
        """Raise DiagnosticError for a state whose rank after an iteration is not known."""
        for index, (old, new) in enumerate(zip(self.infos, states, strict=True)):
            if isinstance(old, TensorStructInfo) and self.g.info(new).ndim == -1:
                raise self.g.open_rank(new, f"the rank of a loop's state {index} after an iteration is not known")

    def _generalised(self, index: int, old: StateInfo, new: StateInfo) -> StateInfo:
        """The struct info of a state for all iterations: a shape variable for each dimension that changes."""
        g = self.g
        if isinstance(old, ObjectStructInfo) or isinstance(new, ObjectStructInfo):
            return old
        if old.dtype != new.dtype or old.ndim != new.ndim or old.dims is None or new.dims is None:
            actual = f"{old.dtype} of rank {old.ndim}, then {new.dtype} of rank {new.ndim}"
            message = f"the dtype and rank of a loop's state {index} must not change, found {actual}"
            raise g.error(message, code="E6001")
        own = self._own
        same = [a in own or g.is_true(a.equal(b)) for a, b in zip(old.dims, new.dims, strict=True)]
        if all(same):
            return old
        dims = [
            dim if kept else g.fresh_dim(f"state{index}", axis)
            for axis, (dim, kept) in enumerate(zip(old.dims, same, strict=True))
        ]
        return TensorStructInfo(ShapeExpr(dims), old.dtype)

    @property
    def _own(self) -> set[PrimExpr]:
        """Shape variables of the loop's own, which take any size."""
        tensors = [state for state, held in zip(self.states, self.held, strict=True) if not held]
        initial = {dim for state in tensors for dim in self.g.dims(state)}
        infos = [info for info in self.infos if isinstance(info, TensorStructInfo)]
        return {d for info in infos for d in info.dims or () if isinstance(d, PrimVar) and d not in initial}

    # -- the function

    def _params(self) -> list[Var]:
        names = self.g.builder.get_unique_name
        params = [Var(names("iteration"), PrimStructInfo(value=self.index))]
        if self.conditional:
            params.append(Var(names("proceed"), TensorStructInfo(ShapeExpr([]), "bool")))
        params += [Var(names("state"), info) for info in self.infos]
        outputs = [
            ObjectStructInfo() if varies else TensorStructInfo(ShapeExpr([self.index, *(info.dims or ())]), info.dtype)
            for info, varies in zip(self.slices, self.varying, strict=True)
        ]
        return params + [Var(names("outputs"), info) for info in outputs]

    def _taken_apart(self, params: list[Var]) -> tuple[Var | None, list[Var], list[Var]]:
        rest = params[2:] if self.conditional else params[1:]
        return params[1] if self.conditional else None, rest[: len(self.states)], rest[len(self.states) :]

    def _step(self, params: list[Var]) -> LoopStep:
        proceed, states, _ = self._taken_apart(params)
        return self.body(self.index, proceed, list(states))

    def _function(self) -> Var:
        g = self.g
        params = self._params()
        proceed, states, outputs = self._taken_apart(params)

        def again() -> list[RelaxExpr]:
            step = self._step(params)
            going = [] if not self.conditional else [step.proceed or g.const(True, "bool")]
            grown = [self._grown(i, x, slice_) for i, (x, slice_) in enumerate(zip(outputs, step.slices, strict=True))]
            arguments = [PrimValue(self.index + 1), *going, *step.states, *grown]
            return [g.emit(argument) for argument in arguments]

        results = [*(self._returned(info) for info in self.infos), *map(_of_any_length, self.slices, self.varying)]
        done = [*states, *outputs]
        return bind_loop(g.builder, g.branch, params, results, lambda: self._test(proceed), again, done)

    def _returned(self, info: StateInfo) -> StructInfo:
        if isinstance(info, ObjectStructInfo):
            return info
        own = self._own
        changes = any(dim in own for dim in info.dims or ())
        return TensorStructInfo(None, info.dtype, None, info.ndim) if changes else info

    def _test(self, proceed: RelaxExpr | None) -> RelaxExpr:
        g = self.g
        within = None if self.trip is None else PrimValue(self.index < self.trip)
        if within is None:
            return proceed if proceed is not None else g.const(True, "bool")
        return within if proceed is None else g.emit(op.logical_and(op.full((), within, "bool"), proceed))

    def _grown(self, index: int, outputs: RelaxExpr, slice_: RelaxExpr) -> RelaxExpr:
        first = index < len(self.prepended) and self.prepended[index]
        if self.varying[index]:
            return run(self.g, "sequence_insert", outputs, slice_, self.g.const(0, "int64") if first else None)
        row = op.expand_dims(slice_, 0)
        return op.concat([row, outputs] if first else [outputs, row], axis=0)

    # -- its call

    def _call(self, function: Var) -> list[RelaxExpr]:
        g = self.g
        empty = [
            run(g, "sequence") if varies else op.zeros(ShapeExpr([0, *(info.dims or ())]), info.dtype)
            for info, varies in zip(self.slices, self.varying, strict=True)
        ]
        going = [] if not self.conditional else [self.proceed or g.const(True, "bool")]
        arguments = [PrimValue(const(0, "int64")), *going, *self.states, *map(g.emit, empty)]
        result = g.builder.emit(Call(function, tuple(arguments)))
        fields = [g.builder.emit(TupleGetItem(result, i)) for i in range(len(self.infos) + len(self.slices))]
        states = [g.sized(field) for field in fields[: len(self.infos)]]
        outputs = zip(fields[len(states) :], self.slices, self.varying, strict=True)
        return states + [self._output(x, info, varies) for x, info, varies in outputs]

    def _output(self, x: RelaxExpr, info: TensorStructInfo, varies: bool) -> RelaxExpr:
        """An output with its length, which is the trip count if nothing else ends the loop."""
        g = self.g
        if varies:
            stacked = TensorStructInfo(None, info.dtype, None, info.ndim + 1)
            return run(g, "sequence_stack", x, info.ndim, str(info.dtype), info=stacked)
        if self.conditional or self.trip is None or not g.is_true(self.trip >= 0):
            return g.sized(x)
        shape = ShapeExpr([self.trip, *(info.dims or ())])
        return g.builder.match_cast(x, TensorStructInfo(shape, info.dtype))


def _of_any_length(info: TensorStructInfo, varies: bool) -> StructInfo:
    if varies:
        return ObjectStructInfo()
    return TensorStructInfo(None, info.dtype, None, info.ndim + 1)
