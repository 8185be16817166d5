"""EliminateCommonSubexpr: merge equal calls into one node.

    subtract(add(%x, 1), add(%x, 1))    becomes    %0 = add(%x, 1);
                                                   subtract(%0, %0)

Operator calls and projections are merged if their operands are the same nodes and the scope of one encloses that of the
other: equal calls in both branches of an `if` stay, as neither needs to be evaluated before it. Calls for which
`fskip(call)` is true are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir import Op
from ..expr import Call, Constant, Expr, Function, TupleGetItem
from ..parts import parts_of, with_parts
from ..scopes import EvaluationScope, place
from .rewriting import Program, ordered_rewrite, relay_pass

_MOST_COMPARED = 8
"""Most equal calls in unrelated scopes that are tracked."""
_MOST_BYTES = 64
"""Largest constant compared by content, in bytes; larger ones are compared by identity."""


def eliminate_common_subexpr(expr: Expr, fskip: Callable[[Expr], bool] | None = None) -> Expr:
    """Merge equal calls of a sequenced expression; return it unchanged if there are none."""
    placement = place(expr)
    memo: dict[Expr, Expr] = {}
    classes: dict[Any, list[tuple[Expr, EvaluationScope]]] = {}
    for node in placement.order:
        changed = with_parts(node, [memo.get(part, part) for part in parts_of(node)])
        memo[node] = changed
        key = None if fskip is not None and isinstance(node, Call) and fskip(node) else _key(changed)
        if key is None:
            continue
        scope = placement.of[node]
        representatives = classes.setdefault(key, [])
        for i, (other, where) in enumerate(representatives):
            common = EvaluationScope.common(scope, where)
            if common is scope or common is where:
                memo[node] = other
                representatives[i] = other, common
                break
        else:
            if len(representatives) < _MOST_COMPARED:
                representatives.append((changed, scope))
    return memo.get(expr, expr)


def _key(node: Expr) -> Any:
    """Hashable key, equal for nodes of equal value; None for nodes that are not merged."""
    if isinstance(node, TupleGetItem):
        return node.index, id(node.tuple_value)
    if isinstance(node, Call) and isinstance(node.op, Op):
        attrs = None if node.attrs is None else tuple((k, repr(v)) for k, v in node.attrs.items())
        return node.op.name, attrs, tuple(map(_operand_key, node.args))
    return None


def _operand_key(operand: Expr) -> Any:
    if isinstance(operand, Constant) and operand.data.nbytes <= _MOST_BYTES:
        return str(operand.data.dtype), operand.data.shape, operand.data.tobytes()
    return id(operand)


@relay_pass("EliminateCommonSubexpr", opt_level=3, required=["InferType"])
def EliminateCommonSubexpr(function: Function, program: Program, fskip: Callable[[Expr], bool] | None = None) -> Expr:
    """Merge equal calls in every function."""
    return ordered_rewrite(function, program, lambda expr: eliminate_common_subexpr(expr, fskip))
