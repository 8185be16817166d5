"""Move the bindings of a straight-line function into one dataflow block, for passes that rebuild functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..derive.substitution import Substitution
from ..expr import Binding, DataflowVar, Function, If, SeqExpr, Tuple, TupleGetItem, Var
from ..ir import RelaxExpr, Span, set_slot
from ..prim import PrimExpr
from ..prim import Var as ShapeVar
from ..struct_info import TupleStructInfo


class OneBlock(Substitution):
    """Replaces the variables of bindings by those that one dataflow block may bind: all but `outputs` are local."""

    def __init__(
        self,
        outputs: Iterable[Var],
        variables: Mapping[Var, RelaxExpr] | None = None,
        shape_vars: Mapping[ShapeVar, PrimExpr] | None = None,
    ) -> None:
        super().__init__(dict(variables or {}), dict(shape_vars or {}))
        self.outputs = set(outputs)

    def define(self, var: Var) -> Var:
        new = super().define(var)
        if isinstance(new, DataflowVar) or var in self.outputs:
            return new
        local = DataflowVar(new.name_hint, new.annotation, span=new.span)
        set_slot(local, "_struct_info", new.struct_info_)
        self.variables[var] = local
        return local

    def expression(self, expr: RelaxExpr) -> RelaxExpr:
        """An expression over the variables of the block."""
        new = self.node(expr)
        assert isinstance(new, RelaxExpr)
        return new


def body_of(func: Function) -> SeqExpr:
    """The body of a function in normal form."""
    assert isinstance(func.body, SeqExpr)
    return func.body


def bindings_of(func: Function) -> list[Binding]:
    """The bindings of a function, of all blocks of its body."""
    return [binding for block in body_of(func).blocks for binding in block.bindings]


def results_of(func: Function) -> Sequence[RelaxExpr]:
    """The values that a function returns: the fields of a tuple, or the one value."""
    result = body_of(func).body
    if isinstance(result, Tuple):
        return result.fields
    if isinstance(result.struct_info, TupleStructInfo):
        return [TupleGetItem(result, i) for i in range(len(result.struct_info.fields))]
    return [result]


def obstacles(func: Function) -> list[tuple[str, Span | None, str]]:
    """The reasons why a function does not fit into one dataflow block: each a phrase, its place, and a hint."""
    reasons: list[tuple[str, Span | None, str]] = []
    if not func.is_pure:
        reasons.append(("an impure function", func.span, ""))
    for binding in bindings_of(func):
        value = binding.value
        span = value.span or binding.span or func.span
        if isinstance(value, If):
            reasons.append(("a function with branches", span, "compute both branches, and choose with R.where"))
        elif isinstance(value, Function):
            reasons.append(("a function with local functions", span, "write its body where it is called"))
    return reasons
