"""CombineParallelBatchMatmul: calls of `nn.batch_matmul` with the same left operand, as one.

(nn.batch_matmul(%x, %a), nn.batch_matmul(%x, %b), nn.batch_matmul(%x, %c))
    becomes    %1 = nn.batch_matmul(%x, concatenate((%a, %b, %c), axis=1));
               (strided_slice(%1, …), strided_slice(%1, …), strided_slice(%1, …))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..expr import Call, Expr, Function
from .combine_parallel import Combination, attrs_but, combine_parallel, joined, shape_of
from .rewriting import Program, relay_pass


def _axis(call: Call) -> int:
    """Axis of the right operand that corresponds to the columns of the result."""
    return 1 if cast(Any, call.attrs).transpose_b else 2


def _key(call: Call) -> Any:
    shape = shape_of(call.args[1])
    if shape is None:
        return None
    return shape[: _axis(call)], shape[_axis(call) + 1 :], attrs_but(call)


def _combined(data: Expr, calls: Sequence[Call]) -> list[Expr]:
    return joined(data, calls, _axis(calls[0]), 2)


@relay_pass("CombineParallelBatchMatmul", opt_level=4, required=["InferType"])
def CombineParallelBatchMatmul(function: Function, program: Program, min_num_branches: int = 3) -> Expr:
    """Combine calls of `nn.batch_matmul` with the same left operand, in every function."""
    return combine_parallel(function, program, Combination("nn.batch_matmul", _key, _combined), min_num_branches)
