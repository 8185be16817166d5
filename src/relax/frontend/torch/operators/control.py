"""Operators that hold graphs: torch.cond and while_loop.

A loop becomes a local function that calls itself, once an iteration; what its body reads from outside is captured::

    def loop(state):
        if cond(state):
            result = loop(body(state))
        else:
            result = (state,)
        return result
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ....expr import Call, If, PrimValue, SeqExpr, ShapeExpr, Tuple, Var
from ....ir import RelaxExpr
from ....prim import PrimExpr
from ...building import bind_loop
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


def _tensors(g: Emitter, values: Sequence[Any], subject: str) -> list[RelaxExpr]:
    """Values that are tensors. Raises DiagnosticError for a number."""
    if not all(isinstance(value, RelaxExpr) for value in values):
        g.unsupported(f"{subject} a number", "make it a tensor: torch.tensor(number)")
    return list(values)
