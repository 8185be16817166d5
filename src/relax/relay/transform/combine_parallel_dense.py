"""CombineParallelDense: calls of `nn.dense` on the same data, as one.

    (nn.dense(%x, %a), nn.dense(%x, %b), nn.dense(%x, %c))
        becomes    %1 = nn.batch_matmul(stack((%x, %x, %x)), stack((%a, %b, %c)));
                   (take(%1, 0, axis=0), take(%1, 1, axis=0), take(%1, 2, axis=0))
        or, with `to_batch=False`, one nn.dense on the concatenated weights, whose result is sliced

The batched form needs weights of equal shape and two-dimensional data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..expr import Call, Expr, Function, Tuple, const
from ..operators import call_operator
from ..types import TensorType
from .combine_parallel import Combination, attrs_but, combine_parallel, joined, shape_of
from .rewriting import Program, relay_pass


def _rank(call: Call) -> int | None:
    type_ = call.checked_type_
    return len(type_.shape) if isinstance(type_, TensorType) and isinstance(type_.shape, tuple) else None


def _key(call: Call) -> Any:
    shape, rank = shape_of(call.args[1]), _rank(call)
    return None if shape is None or rank is None else (shape[1:], attrs_but(call, "units"))


def _batch_key(call: Call) -> Any:
    shape = shape_of(call.args[1])
    return None if shape is None or _rank(call) != 2 else (shape, attrs_but(call, "units"))


def _sliced(data: Expr, calls: Sequence[Call]) -> list[Expr]:
    units = sum(cast("tuple[int, ...]", shape_of(call.args[1]))[0] for call in calls)
    declared = cast(Any, calls[0].attrs).units
    return joined(data, calls, 0, cast(int, _rank(calls[0])) - 1, units=None if declared is None else units)


def _batched(data: Expr, calls: Sequence[Call]) -> list[Expr]:
    many = call_operator("stack", Tuple([data] * len(calls)))
    weights = call_operator("stack", Tuple([call.args[1] for call in calls]))
    out_dtype = cast(Any, calls[0].attrs).out_dtype
    whole = call_operator("nn.batch_matmul", many, weights, out_dtype=out_dtype)
    return [call_operator("take", whole, const(i), axis=0) for i in range(len(calls))]


@relay_pass("CombineParallelDense", opt_level=4, required=["InferType"])
def CombineParallelDense(
    function: Function, program: Program, min_num_branches: int = 3, to_batch: bool = True
) -> Expr:
    """Combine calls of `nn.dense` on the same data, in every function."""
    how = Combination("nn.dense", _batch_key if to_batch else _key, _batched if to_batch else _sliced)
    return combine_parallel(function, program, how, min_num_branches)
