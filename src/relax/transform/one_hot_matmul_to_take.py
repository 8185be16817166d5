"""Replace products of one-hot vectors and constant weights by taking rows of the weights.

Before   lv = R.equal(x, R.const([0, 1, …, 256]))           # x: (n, 2048, 1) of int32
         lv1 = R.astype(lv, "float32")
         y = R.matmul(lv1, R.const(W))                      # W: (257, 64)
After    lv = R.squeeze(x, -1)
         lv1 = R.add(lv, R.const(1))
         y = R.take(R.const(V), lv1, axis=0, mode="clip")   # V: (259, 64), W between two rows of zeros

The sum of a row of W times 1 and all others times 0 is that row; a number that is none of those compared with chooses
no row, and gives zeros. Every element is the same bit for bit: a -0 of W, which becomes 0 in the sum, is 0 in V.

Declines: weights that are not known, are no matrix, are of integers, or are not finite (0 times infinity is NaN);
numbers that do not follow one another; a sum in another dtype than that of the weights; bool, floats and uint64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ..dpl.rewrite import KnownValues
from ..expr import Call, Constant, Function, const
from ..ir import IRModule, RelaxExpr
from ..op import is_call_of
from ..op.binary import Equal
from ..op.gradients import apply, dims_of, tensor_info
from ..op.linear_algebra import Matmul
from ..op.unary import Astype
from ..prim import Verdict, is_const, prove_shape_equal
from ..rewrite import bindings_in
from .decorators import function_pass

INDICES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
WIDE = ("int32", "int64")
"""The dtypes in which places of rows are counted; others are converted to the last one."""


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def OneHotMatmulToTake(func: Function, mod: IRModule) -> Function:
    """Take rows of weights instead of multiplying by one-hot vectors; see the module's docstring."""
    return _Products(mod).rewrite_function(func)


class _Products(KnownValues):
    def concerns(self, function: Function) -> bool:
        """True if something is compared: one-hot vectors are."""
        return any(is_call_of(binding.value, Equal) for binding in bindings_in(function))

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if not is_call_of(call, Matmul):
            return call
        one_hot, table = self.value(call.args[0]), self.value(call.args[1])
        if not isinstance(table, Constant) or not isinstance(one_hot, Call) or not is_call_of(one_hot, Astype):
            return call
        same = self.value(one_hot.args[0])
        if not isinstance(same, Call) or not is_call_of(same, Equal):
            return call
        weights = _weights(table, call)
        for x, numbers in (same.args, same.args[::-1]):
            constant = self.value(numbers)
            if weights is None or not isinstance(constant, Constant) or not _is_index(x, same):
                continue
            first = _first(constant, len(weights))
            if first is not None:
                return _taken_rows(x, first, weights)
        return call


def _weights(table: Constant, product: Call) -> NDArray[Any] | None:
    """W as an array; None if sums of its elements times 0 and 1 are not those elements in the product's dtype."""
    info = tensor_info(product)
    dtypes = {info.dtype, tensor_info(product.args[0]).dtype, tensor_info(table).dtype}
    if len(dtypes) != 1 or not info.dtype.is_float or tensor_info(table).ndim != 2:
        return None
    weights: NDArray[Any] = table.data.numpy()
    return weights if np.isfinite(weights.astype("float64")).all() else None


def _is_index(x: RelaxExpr, same: Call) -> bool:
    """True for integers that are compared along a last dimension of their own, and are not repeated otherwise."""
    sizes, compared = dims_of(x), dims_of(same)
    if sizes is None or compared is None or len(sizes) != len(compared) or not sizes:
        return False
    rows_are_equal = prove_shape_equal(sizes[:-1], compared[:-1]) is Verdict.YES
    return tensor_info(x).dtype in INDICES and is_const(sizes[-1], 1) and rows_are_equal


def _first(numbers: Constant, count: int) -> int | None:
    """First of `count` consecutive integers along the last dimension; None if the constant is anything else."""
    values: NDArray[Any] = numbers.data.numpy()
    if not count or values.shape[-1:] != (count,) or values.size != count:
        return None
    integers = [int(value) for value in values.ravel().tolist()]
    return integers[0] if integers == list(range(integers[0], integers[0] + count)) else None


def _taken_rows(x: RelaxExpr, first: int, weights: NDArray[Any]) -> RelaxExpr:
    """Rows of the weights at indices `x`. Integer arithmetic wraps: an index that does lies beyond one of the ends."""
    indices: RelaxExpr = apply("squeeze", x, axis=(-1,))
    dtype = str(tensor_info(x).dtype)
    if dtype not in WIDE:
        dtype = WIDE[-1]
        indices = apply("astype", indices, dtype=dtype)
    if first != 1:
        shift = np.array(1 - first, "int64").astype(dtype)
        indices = apply("add", indices, const(shift))
    zeros = np.zeros((1, weights.shape[1]), weights.dtype)
    rows = np.concatenate([zeros, weights + zeros, zeros])
    return apply("take", const(rows), indices, axis=0, mode="clip")
