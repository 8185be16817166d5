"""Convolutions with constant weights, which are packed or transformed at compile time.

    W: T.Buffer((64, 32, 3, 3), "float32")          W_packed: T.Buffer((2, 2, 9, 16, 32), "float32")
    for n, co, h, w, ci, i, j in T.grid(…):         the loops of a rule, which read W_packed
        C[n, co, h, w] += W[co, ci, i, j] * …

`packed_panels` does the same for products. Not supported: functions without tir.noalias, and weights with other
readers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ....tir import Buffer, PrimFunc, Stmt
from ....tir.buffer import decl_buffer
from ...rule import PackedFunction, Packing
from ..products.operands import is_large_float_sum
from ..products.packed_panels import users_of
from .windows import Accepts, Kernel, rewritten_kernels


class Declare(Protocol):
    """Declares packed weights of a given shape and dtype; their name contains `form`."""

    def __call__(self, packing: Packing, shape: Sequence[int], dtype: str, form: str = "packed") -> Buffer: ...


def packed_kernels(
    func: PrimFunc,
    constants: Sequence[int],
    write: Callable[[Kernel, Declare], Stmt | None],
    accepts: Accepts = is_large_float_sum,
) -> PackedFunction | None:
    """Return the function with packed weights for constant parameters that are weights of its convolutions.

    `write` returns the loops of a convolution for the weights it declares, or None if the rule does not support it.
    """
    if not func.attrs.get("tir.noalias"):
        return None
    buffers = dict(func.buffer_map)
    positions = {buffers[func.params[i]]: i for i in constants if func.params[i] in buffers}
    packings: dict[int, Packing] = {}

    def rewrite(kernel: Kernel) -> Stmt | None:
        weights = kernel.windows.weight.buffer
        position = positions.get(weights)
        if position is None or position in packings or users_of(func, weights) != 1:
            return None

        def declare(packing: Packing, shape: Sequence[int], dtype: str, form: str = "packed") -> Buffer:
            packed = decl_buffer(shape, dtype, f"{weights.name}_{form}")
            packings[position], buffers[func.params[position]] = packing, packed
            return packed

        return write(kernel, declare)

    arranged = rewritten_kernels(func, rewrite, accepts)
    return None if arranged is None else PackedFunction(arranged.replace(buffer_map=buffers), packings)
