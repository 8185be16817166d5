"""Data flow of a lowered Relax function: last uses of variables, and allocations of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..expr import Call, ExternFunc, Function, MatchCast, SeqExpr, Tuple, Var, VarBinding
from ..ir import RelaxExpr, walk
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo

Bound = VarBinding | MatchCast


def makes_heap(call: Call) -> bool:
    """True for the call that allocates a function's shape heap."""
    return _calls(call, "vm.builtin.alloc_shape_heap")


def result_allocations(func: Function, outputs: int) -> dict[int, int]:
    """Allocations of results: position of the result by the call's identity; each result is allocated once.

    Empty if a parameter may hold tensors that are not compared with the caller's output memory.
    """
    if not all(isinstance(p.struct_info_, TensorStructInfo | ShapeStructInfo | PrimStructInfo) for p in func.params):
        return {}
    body = cast(SeqExpr, func.body)
    values = {b.var: b.value for block in body.blocks for b in block.bindings if isinstance(b, VarBinding)}

    def origin(expr: RelaxExpr) -> RelaxExpr:
        while isinstance(expr, Var) and expr in values:
            expr = values[expr]
        return expr

    result = origin(body.body)
    fields: tuple[RelaxExpr, ...] = (result,)
    if isinstance(result, Tuple):
        fields = result.fields
    elif isinstance(result, Call) and _calls(result, "vm.builtin.make_tuple"):
        fields = result.args
    positions: dict[int, int] = {}
    for position, field in enumerate(fields[:outputs]):
        call = origin(field)
        if _calls(call, "vm.builtin.alloc_tensor"):
            positions.setdefault(id(call), position)
    return positions


def _calls(expr: RelaxExpr, name: str) -> bool:
    return isinstance(expr, Call) and isinstance(expr.op, ExternFunc) and expr.op.global_symbol == name


def _variables_in(expr: RelaxExpr) -> list[Var]:
    """Variables read by an expression."""
    if isinstance(expr, Call) and not any(isinstance(arg, Tuple) for arg in expr.args):
        return [arg for arg in (expr.op, *expr.args) if isinstance(arg, Var)]
    variables: list[Var] = []
    walk(expr, lambda node: variables.append(node) if isinstance(node, Var) else None)
    return variables


def last_uses(bindings: Sequence[Bound], result: RelaxExpr, params: Sequence[Var]) -> list[list[Var]]:
    """Return the variables that are dead after each binding and after the result."""
    last = dict.fromkeys(params, 0)
    last |= {binding.var: i for i, binding in enumerate(bindings)}

    for i, value in enumerate((*(binding.value for binding in bindings), result)):
        for var in _variables_in(value):
            if var in last:
                last[var] = i
    ends: list[list[Var]] = [[] for _ in range(len(bindings) + 1)]
    for var, index in last.items():
        ends[index].append(var)
    return ends
