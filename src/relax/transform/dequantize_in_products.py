"""Fuse dequantisation of weights into products: values are converted in registers, without a float tensor.

Before   w = R.dequantize(R.const(W), R.const(s), R.const(z), axis=0)     # W: (n * k / 32, 32), uint8
         v = R.permute_dims(R.reshape(w, R.shape([n, k])))
         y = R.matmul(x, v)                                               # x: (m, k), float32
After    y = R.call_tir(cls.matmul, (x, R.const(Q), R.const(S)), …)       # Q: (k, n), int4; S: (k / 32, n)

         @T.prim_func(private=True)
         def matmul(x, Q, S, y): … y[i, j] += x[i, k] * (float32(Q[k, j]) * S[k // 32, j])

A product with few rows takes as long as memory takes to deliver its weights, of which bytes have a quarter and four
bits an eighth. Q holds the integers without their zero points, as int4 where that has all of them, else as int8; S has
a row for each group of the depth whose scales are equal. Each weight is rounded as `dequantize` rounds it, and each sum
is one of a float32 product. `relax.schedules.cpu.products.computed_product` has the loops.

Declines: products of data in other dtypes; weights that are not known, no matrix, or do not fit int8 without their zero
point; and weights of which FoldConstant makes floats, because they are few.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from .. import te
from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED, STORAGE_EXPLICIT
from ..dpl.rewrite import KnownValues
from ..expr import Call, Constant, Function, const
from ..ir import DataType, IRModule, RelaxExpr
from ..op import is_call_of, operator_of
from ..op.linear_algebra import Matmul
from ..op.qdq import Dequantize
from ..op.shapes import PermuteDims
from ..prim import IntImm, PrimExpr
from ..prim import cast as cast_expr
from ..prim import const as const_expr
from ..prim.intrin import floordiv
from ..rewrite import bindings_in
from ..struct_info import TensorStructInfo
from .decorators import module_pass
from .fold_constant import MAX_BYTES

Array: TypeAlias = "NDArray[Any]"


@module_pass(opt_level=1, needs={NORMAL_FORM}, breaks={STORAGE_EXPLICIT, SHAPES_LOWERED})
def DequantizeInProducts(mod: IRModule) -> IRModule:
    """Dequantise weights in the products that read them; see the module's docstring."""
    return _Products(mod).module()


@dataclass(frozen=True)
class _Weights:
    """A weight matrix `numbers * scales`; each row of `scales` applies to a group of rows of `numbers`."""

    numbers: Array
    scales: NDArray[np.float32]

    @property
    def group(self) -> int:
        """Number of rows of `numbers` per row of `scales`."""
        return len(self.numbers) // len(self.scales)


class _Products(KnownValues):
    def concerns(self, function: Function) -> bool:
        """True if something is dequantised."""
        return any(is_call_of(binding.value, Dequantize) for binding in bindings_in(function))

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if not is_call_of(call, Matmul):
            return call
        data, result = call.args[0].struct_info_, call.struct_info_
        if not isinstance(data, TensorStructInfo) or not isinstance(result, TensorStructInfo):
            return call
        if data.dtype != "float32" or result.dtype != "float32" or data.ndim < 2 or data.dims is None:
            return call
        weights = self.weights(call.args[1])
        if weights is None:
            return call
        operands = const(weights.numbers), const(weights.scales)
        new = self.builder.call_te(_formula(weights), call.args[0], *operands, primfunc_name_hint="matmul")
        return new.replace(sinfo_args=(result,), span=call.span) if result.dims is not None else call

    # ------------------------------------------------------------------------------------ weights

    def weights(self, expr: RelaxExpr) -> _Weights | None:
        """The weights that an operand stands for; None for those that this pass leaves alone."""
        moves: list[Call] = []
        call = self.value(expr)
        while isinstance(call, Call) and _is_moved(call):
            moves.append(call)
            call = self.value(call.args[0])
        if not isinstance(call, Call) or not isinstance(operator := operator_of(call), Dequantize):
            return None
        operands = [self.value(arg) for arg in call.args]
        info, moved = call.args[0].struct_info_, expr.struct_info_
        if not isinstance(info, TensorStructInfo) or not isinstance(moved, TensorStructInfo):
            return None
        if operator.out_dtype != "float32" or not info.dtype.is_integer or moved.ndim != 2:
            return None
        if not all(isinstance(operand, Constant) for operand in operands):
            return None
        numbers, scale, zero = (operand.data.numpy() for operand in operands if isinstance(operand, Constant))
        if scale.dtype != np.float32 or zero.dtype.kind == "f" or 4 * numbers.size <= MAX_BYTES:
            return None
        differences = np.asarray(numbers, np.int64) - operator.spread(np.asarray(zero, np.int64), numbers)
        if differences.min() < -128 or differences.max() > 127:
            return None
        dtype = DataType("int4" if differences.min() >= -8 and differences.max() <= 7 else "int8")
        matrix = _moved(differences.astype(np.int8), moves)
        spread = np.broadcast_to(operator.spread(scale, numbers), numbers.shape)
        return None if matrix is None else _Weights(matrix.astype(dtype.numpy()), _by_group(spread, moves))


def _is_moved(call: Call) -> bool:
    """True if the result has all elements of the first operand, in another shape or order of dimensions."""
    operator = operator_of(call)
    return operator is not None and (operator.view or isinstance(operator, PermuteDims))


def _moved(array: Array, moves: list[Call]) -> Array | None:
    """An array as operators move it, of which the last one stands first; None where a shape is not known."""
    for call in reversed(moves):
        operator, info = operator_of(call), call.struct_info_
        if not isinstance(info, TensorStructInfo) or info.dims is None:
            return None
        sizes = [dim.value for dim in info.dims if isinstance(dim, IntImm)]
        if len(sizes) != len(info.dims):
            return None
        is_permuted = isinstance(operator, PermuteDims)
        array = np.transpose(array, operator.order(array.ndim)) if is_permuted else np.reshape(array, sizes)
    return array


def _by_group(scales: Array, moves: list[Call]) -> NDArray[np.float32]:
    """Return scales with one row per maximal group of equal rows."""
    whole = _moved(scales, moves)
    assert whole is not None
    bits: NDArray[np.uint32] = cast("Any", np.ascontiguousarray(whole)).view(np.uint32)
    different: NDArray[np.bool_] = (bits[1:] != bits[:-1]).any(axis=1)
    changes: list[int] = (np.flatnonzero(different) + 1).tolist()
    group = math.gcd(len(whole), *changes)
    return np.ascontiguousarray(whole[::group])


def _formula(weights: _Weights) -> Callable[[te.Tensor, te.Tensor, te.Tensor], te.Tensor]:
    """Formula of the product of data and `numbers * scales`, with one row of scales per `group` rows of numbers."""
    depth, columns = weights.numbers.shape
    several = len(weights.scales) > 1

    def product(data: te.Tensor, numbers: te.Tensor, scales: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, depth), "k")

        def element(*i: Any) -> PrimExpr:
            row = floordiv(k.var, weights.group) if several else const_expr(0, "int64")
            weight = cast_expr("float32", numbers(k.var, i[-1])) * scales(row, i[-1])
            return te.sum(data(*i[:-1], k.var) * weight, axis=k)

        return te.compute((*data.shape[:-1], columns), element, "matmul", tag="matmul")

    return product
