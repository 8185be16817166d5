"""Convolutions with constant weights, which are packed or transformed at compile time.

    W: T.Buffer((64, 32, 3, 3), "float32")          W_packed: T.Buffer((2, 2, 9, 16, 32), "float32")
    for n, co, h, w, ci, i, j in T.grid(…):         the loops of a rule, which read W_packed
        C[n, co, h, w] += W[co, ci, i, j] * …

`packed_panels` does the same for products. Not supported: functions without tir.noalias, and weights with other
readers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ....tir import Buffer, PrimFunc, Stmt
from ....tir.buffer import decl_buffer
from ...rule import PackedFunction, Packing, Refusal
from ..large_sums import float_sum
from ..products.packed_panels import users_of
from .windows import Condition, Kernel, rewritten_kernels

Found = TypeVar("Found")


class Declare(Protocol):
    """Declares packed weights of a given shape and dtype; their name contains `form`."""

    def __call__(self, packing: Packing, shape: Sequence[int], dtype: str, form: str = "packed") -> Buffer: ...


def packed_kernels(
    func: PrimFunc,
    constants: Sequence[int],
    recognised: Callable[[Kernel], Found | Refusal],
    write: Callable[[Kernel, Found, Declare], Stmt],
    condition: Condition = float_sum,
) -> PackedFunction | Refusal:
    """Return the function with packed weights for constant parameters that are weights of its convolutions.

    `write` returns the loops of a convolution, given the answer of `recognised`, for the weights it declares.
    `condition` is on the sums.
    """
    buffers = dict(func.buffer_map)
    positions = {buffers[func.params[i]]: i for i in constants if func.params[i] in buffers}
    packings: dict[int, Packing] = {}

    def rewrite(kernel: Kernel) -> Stmt | Refusal:
        weights = kernel.windows.weight.buffer
        found = recognised(kernel)
        if isinstance(found, Refusal):
            return found
        position = positions.get(weights)
        if position is None:
            return Refusal("the weights are not constant")
        if position in packings or users_of(func, weights) != 1:
            return Refusal("the weights have another reader")

        def declare(packing: Packing, shape: Sequence[int], dtype: str, form: str = "packed") -> Buffer:
            packed = decl_buffer(shape, dtype, f"{weights.name}_{form}")
            packings[position], buffers[func.params[position]] = packing, packed
            return packed

        return write(kernel, found, declare)

    arranged = rewritten_kernels(func, rewrite, condition)
    if isinstance(arranged, Refusal):
        return arranged
    return PackedFunction(arranged.replace(buffer_map=buffers), packings)
