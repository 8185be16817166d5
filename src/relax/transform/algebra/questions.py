"""Helpers of algebraic passes: operand sizes, use counts, values known at compile time."""

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
    """Return the dimensions of a tensor, or None if unknown or not a tensor."""
    info = expr.struct_info_
    return info.dims if isinstance(info, TensorStructInfo) else None


def operator_in(value: RelaxExpr | None) -> Operator | None:
    """Return the operator that a value calls, or None."""
    return operator_of(value) if isinstance(value, Call) else None


def read_counts(function: Function) -> Counter[Var]:
    """Return the number of uses of each variable in a function, local functions included."""
    counts: Counter[Var] = Counter()

    def visit(item: Node) -> None:
        if isinstance(item, Var):
            counts[item] += 1

    walk(function.body, visit)
    counts.subtract(binding.var for binding in all_bindings(function))
    return counts


def known_before_running(function: Function) -> Callable[[RelaxExpr], bool]:
    """Return a predicate for values that depend on constants and weights only (`num_input`)."""
    computable = set(computable_at_compile_time(function))
    return lambda expr: isinstance(expr, Constant) or expr in computable
