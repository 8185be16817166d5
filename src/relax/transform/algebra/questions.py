"""Questions that algebraic passes ask: sizes of operands, numbers of readers, values known before the program runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ...analysis.compile_time import computable_at_compile_time
from ...analysis.variables import all_bindings
from ...expr import Call, Constant, Function, Var
from ...ir import Node, RelaxExpr, walk
from ...op import Operator, operator_of
from ...prim import PrimExpr
from ...struct_info import TensorStructInfo


def dims(expr: RelaxExpr) -> Sequence[PrimExpr] | None:
    """The sizes of a tensor; None if they are not known, or it is none."""
    info = expr.struct_info_
    return info.dims if isinstance(info, TensorStructInfo) else None


def operator_in(value: RelaxExpr | None) -> Operator | None:
    """The operator that a value is a call of; None for anything else."""
    return operator_of(value) if isinstance(value, Call) else None


def read_counts(function: Function) -> Counter[Var]:
    """The number of places in which a variable is read, in a function and those local to it."""
    counts: Counter[Var] = Counter()

    def visit(item: Node) -> None:
        if isinstance(item, Var):
            counts[item] += 1

    walk(function.body, visit)
    counts.subtract(binding.var for binding in all_bindings(function))
    return counts


def known_before_running(function: Function) -> Callable[[RelaxExpr], bool]:
    """A test for values that depend on constants and weights only (`num_input`)."""
    known = set(computable_at_compile_time(function))
    return lambda expr: isinstance(expr, Constant) or expr in known
