"""Operators that hold graphs: torch.cond, while_loop, scan and map.

A loop becomes a local function that calls itself, once an iteration; what its body reads from outside is captured::

    def loop(state):
        if cond(state):
            result = loop(body(state))
        else:
            result = (state,)
        return result

A scan counts its iterations, and appends a row to its stacked outputs in each::

    def loop(i, state, outputs):                  # outputs: (i, ...)
        if i < n:
            state_out, row = body(state, xs[i])
            result = loop(i + 1, state_out, concat([outputs, row]))
        else:
            result = (state, outputs)
        return result
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ....expr import Call, If, PrimValue, SeqExpr, ShapeExpr, Tuple, Var
from ....ir import RelaxExpr
from ....prim import PrimExpr, const
from ....prim.expr import Var as PrimVar
from ....struct_info import PrimStructInfo, TensorStructInfo
from ...building import bind_loop
from ..dtypes import dtype_name
from ..emitter import Emitter
from ..registry import converter

Graph = Any
"""A graph module of torch.fx."""


@converter("cond")
def cond(g: Emitter, test: Any, then_graph: Graph, else_graph: Graph, operands: Sequence[Any] = ()) -> list[RelaxExpr]:
    if isinstance(test, (bool, PrimExpr)):
        truth = test if isinstance(test, bool) else g.is_true(test)
        if truth is not None:
            return g.read_graph(then_graph if truth else else_graph, operands)
        test = g.emit(op.full(ShapeExpr([]), PrimValue(test), "bool"))
    condition = g.reshape(test, []) if g.ndim(test) else test
    branches: list[SeqExpr] = []
    for graph, holds in ((then_graph, True), (else_graph, False)):
        with g.branch() as branch, g.builder.given(condition, holds):
            results = _tensors(g, g.read_graph(graph, operands), "a branch that returns")
            branches.append(branch.finish(Tuple(results)))
    return g.parts(If(condition, *branches))


@converter("while_loop")
def while_loop(
    g: Emitter, cond_graph: Graph, body_graph: Graph, carried: Sequence[Any], additional: Sequence[Any] = ()
) -> list[RelaxExpr]:
    initial = _tensors(g, carried, "a loop that carries")
    params = [Var(g.builder.get_unique_name("state"), g.info(state)) for state in initial]

    def test() -> RelaxExpr:
        (condition,) = _tensors(g, g.read_graph(cond_graph, [*params, *additional]), "a condition that is")
        return condition

    def again() -> list[RelaxExpr]:
        results = _tensors(g, g.read_graph(body_graph, [*params, *additional]), "a loop that carries")
        return [g.cast_shape(result, g.dims(param)) for result, param in zip(results, params, strict=True)]

    infos = [param.struct_info for param in params]
    loop = bind_loop(g.builder, g.branch, params, infos, test, again, params)
    return g.parts(Call(loop, tuple(initial)))


@converter("scan")
def scan(
    g: Emitter, body: Graph, initial: Sequence[Any], scanned: Sequence[Any], additional: Sequence[Any] = ()
) -> list[RelaxExpr]:
    """The last states, then for each further output of the body its values in all iterations, along a first axis."""
    states = _tensors(g, initial, "a scan that carries")
    trip = g.dims(scanned[0])[0]
    index = PrimVar(g.builder.get_unique_name("i"), "int64")
    rows = [(g.shape(example)[1:], dtype_name(example.dtype)) for example in g.value[len(states) :]]
    params = [Var(g.builder.get_unique_name("iteration"), PrimStructInfo(value=index))]
    params += [Var(g.builder.get_unique_name("state"), g.info(state)) for state in states]
    params += [
        Var(g.builder.get_unique_name("outputs"), TensorStructInfo(ShapeExpr([index, *dims]), dtype))
        for dims, dtype in rows
    ]
    carried, outputs = params[1 : 1 + len(states)], params[1 + len(states) :]

    def again() -> list[RelaxExpr]:
        slices = [g.emit(op.take(x, PrimValue(index), 0)) for x in scanned]
        results = _tensors(g, g.read_graph(body, [*carried, *slices, *additional]), "a body that returns")
        after = [g.cast_shape(new, g.dims(old)) for new, old in zip(results, carried, strict=False)]
        grown = [
            g.emit(op.concat([whole, op.expand_dims(g.cast_shape(row, dims), 0)], axis=0))
            for whole, row, (dims, _) in zip(outputs, results[len(states) :], rows, strict=True)
        ]
        return [PrimValue(index + 1), *after, *grown]

    infos = [*(param.struct_info for param in carried), *(_of_any_length(dims, dtype) for dims, dtype in rows)]
    done: list[RelaxExpr] = [*carried, *outputs]
    loop = bind_loop(g.builder, g.branch, params, infos, lambda: PrimValue(index < trip), again, done)
    empty = [g.emit(op.zeros(ShapeExpr([0, *dims]), dtype)) for dims, dtype in rows]
    results = g.parts(Call(loop, (PrimValue(const(0, "int64")), *states, *empty)))
    stacked = [
        g.builder.match_cast(whole, TensorStructInfo(ShapeExpr([trip, *dims]), dtype))
        for whole, (dims, dtype) in zip(results[len(states) :], rows, strict=True)
    ]
    return [*results[: len(states)], *stacked]


@converter("map_impl")
def map_(g: Emitter, body: Graph, mapped: Sequence[Any], additional: Sequence[Any] = ()) -> list[RelaxExpr]:
    return scan(g, body, (), mapped, additional)


def _of_any_length(dims: Sequence[PrimExpr], dtype: str) -> TensorStructInfo:
    return TensorStructInfo(None, dtype, None, len(dims) + 1)


def _tensors(g: Emitter, values: Sequence[Any], subject: str) -> list[RelaxExpr]:
    """Values that are tensors. Raises DiagnosticError for a number."""
    if not all(isinstance(value, RelaxExpr) for value in values):
        g.unsupported(f"{subject} a number", "make it a tensor: torch.tensor(number)")
    return list(values)
