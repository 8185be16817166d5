"""Combine calls of one operator on the same data: CombineParallelConv2D, -Dense and -BatchMatmul.

    (nn.dense(%x, %a), nn.dense(%x, %b), nn.dense(%x, %c))
        becomes    %1 = nn.dense(%x, concatenate((%a, %b, %c), axis=0));
                   (strided_slice(%1, …), strided_slice(%1, …), strided_slice(%1, …))

Calls are combined if at least `min_num_branches` are in one scope with equal attributes except the channel count, and
if their weights are constants or parameters of static shape, available before all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from ...ir import Op
from ..attrs import Attrs
from ..expr import Call, Constant, Expr, Function, Let, Tuple, Var
from ..operators import call_operator
from ..parts import parts_of, with_parts
from ..scopes import place
from .rewriting import Program, is_call, ordered_rewrite, static_shape


class Combination(NamedTuple):
    """Strategy to combine the calls of an operator.

    `key` is equal for calls that may be combined, and None for others. `combine` returns one expression per call, given
    the data and the calls.
    """

    operator: str
    key: Callable[[Call], Any]
    combine: Callable[[Expr, Sequence[Call]], list[Expr]]


def combine_parallel(function: Function, program: Program, combination: Combination, min_num_branches: int) -> Expr:
    """Return the typed function with calls combined; itself if there are too few."""
    return ordered_rewrite(function, program, lambda expr: _combined(expr, combination, min_num_branches))


def _combined(function: Expr, combination: Combination, min_num_branches: int) -> Expr:
    placement = place(function)
    bound = {node.var for node in placement.order if isinstance(node, Let)}
    groups: dict[Any, list[Call]] = {}
    for node in placement.order:
        if is_call(node, combination.operator) and _is_early(node.args[1], bound):
            key = combination.key(node)
            if key is not None:
                groups.setdefault((id(node.args[0]), id(placement.of[node]), key), []).append(node)
    member = {call: group for group in groups.values() if len(group) >= min_num_branches for call in group}
    memo: dict[Expr, Expr] = {}
    for node in placement.order if member else ():
        if node in memo:
            continue
        if isinstance(node, Call) and node in member:
            group = member[node]
            data = memo.get(node.args[0], node.args[0])
            memo.update(zip(group, combination.combine(data, group), strict=True))
        else:
            memo[node] = with_parts(node, [memo.get(part, part) for part in parts_of(node)])
    return memo.get(function, function)


def _is_early(weight: Expr, bound: set[Var]) -> bool:
    return isinstance(weight, Constant) or (isinstance(weight, Var) and weight not in bound)


def shape_of(expr: Expr) -> tuple[int, ...] | None:
    """Static shape of an expression, or None."""
    return static_shape(expr.type if isinstance(expr, Constant) else getattr(expr, "checked_type_", None))


def attrs_but(call: Call, *names: str) -> tuple[tuple[str, str], ...]:
    """Attributes of a call as text, except `names`."""
    items = [] if call.attrs is None else call.attrs.items()
    return tuple((name, repr(value)) for name, value in items if name not in names)


def joined(data: Expr, calls: Sequence[Call], weight_axis: int, axis: int, **changed: Any) -> list[Expr]:
    """Return one call with concatenated weights, and the slice of its result for each original call."""
    weights = call_operator("concatenate", Tuple([call.args[1] for call in calls]), axis=weight_axis)
    first = calls[0]
    attrs = None if first.attrs is None else Attrs({**dict(first.attrs.items()), **changed})
    whole = Call(cast(Op, first.op), (data, weights), attrs, span=first.span)
    slices: list[Expr] = []
    begin = 0
    for call in calls:
        end = begin + cast("tuple[int, ...]", shape_of(call.args[1]))[weight_axis]
        slices.append(call_operator("strided_slice", whole, begin=[begin], end=[end], strides=[1], axes=[axis]))
        begin = end
    return slices
