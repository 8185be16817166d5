"""Fuse dequantisation of weights into products: values are converted in registers, without a float tensor.

Before   w = R.dequantize(R.const(W), R.const(s), R.const(z), axis=0)     # W: (n * k / 32, 32), uint8
         v = R.permute_dims(R.reshape(w, R.shape([n, k])))
         y = R.matmul(x, v)                                               # x: (m, k), float32
After    y = R.call_tir(cls.matmul, (x, R.const(Q), R.const(S)), …)       # Q: (k, n), int4; S: (k / 32, n)

         @T.prim_func(private=True)
         def matmul(x, Q, S, y): … y[i, j] += x[i, k] * (float32(Q[k, j]) * S[k // 32, j])

Weights in a block format (`R.dequantize_blocks`) are taken apart too: their integers, their scales, and their minima,
which the kernel adds.

A product with few rows takes as long as memory takes to deliver its weights, of which bytes have a quarter and four
bits an eighth. Q holds the integers without their zero points, as int4 where that has all of them, else as int8. Beside
the zero points, unchanged, are integers that do not fit int8, and as uint4 those from 0 to 15. S has a row for each
group of the depth whose scales are equal. Each weight is rounded as `dequantize` rounds it, and each sum is one of a
float32 product. The rule `ComputedProduct` has the loops.

Recurrent layers read such weights in both of their products, that of the inputs and that of each step:

Before   y = R.nn.lstm(x, w, r)                      # w, r: dequantised, (directions, 4 * hidden, inputs or hidden)
After    y = R.call_tir(cls.lstm, (x, R.const(Qw), R.const(Sw), R.const(Qr), R.const(Sr)), …)

Each step reads the weights again: floats take less time where they stay in a near cache. `relax.topi.recurrent_weights`
has these products.

Products in float16 and bfloat16 add up in float32, as others do, and round each weight as the program does.

Declines: data and results in other dtypes; weights that are not constants, or no matrix, or have more than 16 bits and
do not fit int8 without their zero points; few weights, of which FoldConstant makes floats: up to its `MAX_BYTES` for
`matmul`, up to `FEW_BYTES` for recurrent layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from .. import te
from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED, STORAGE_EXPLICIT
from ..dpl.rewrite import KnownValues
from ..expr import Call, Constant, Function, const
from ..ir import DataType, IRModule, RelaxExpr
from ..op import is_call_of, operator_of
from ..op.binary import Add
from ..op.blocks import DequantizeBlocks
from ..op.errors import OperatorError
from ..op.gradients import tensor_info
from ..op.linear_algebra import Matmul
from ..op.operands import is_absent
from ..op.qdq import Dequantize
from ..op.recurrent import Recurrent
from ..prim import PrimExpr, is_const, simplify
from ..prim import cast as cast_expr
from ..prim import const as const_expr
from ..prim.intrin import floordiv
from ..rewrite import bindings_in
from ..runtime.records import dataclass
from ..struct_info import TensorStructInfo
from ..topi.recurrent_weights import NarrowWeights, dequantised
from .constant_moves import moved_array, moved_constant, moves_of
from .decorators import module_pass
from .fold_constant import MAX_BYTES

Array: TypeAlias = "NDArray[Any]"

DTYPES: Final = ("float32", "float16", "bfloat16")
"""Dtypes of data and weights of products."""
FEW_BYTES: Final = 1 << 18
"""Bytes of a layer's weights as floats up to which they become floats: the second-level cache holds them."""


@module_pass(opt_level=1, needs={NORMAL_FORM}, breaks={STORAGE_EXPLICIT, SHAPES_LOWERED})
def DequantizeInProducts(mod: IRModule) -> IRModule:
    """Dequantise weights in the products that read them; see the module's docstring."""
    return _Products(mod).module()


@dataclass(frozen=True)
class _Dequantised:
    """Known weights (numbers - zeros) * scales, all in the shape and order in which they are read."""

    numbers: Array
    zeros: Array
    scales: Array
    minima: Array | None = None
    """Summands of each product of a number and its scale."""

    def as_matrix(self) -> _Dequantised:
        """Return weights (directions, rows, depth), without minima, as (depth, directions * rows)."""
        parts = (np.transpose(part, (2, 0, 1)) for part in (self.numbers, self.zeros, self.scales))
        return _Dequantised(*(np.reshape(part, (len(part), -1)) for part in parts))

    def differences(self) -> Array | None:
        """Return `numbers - zeros` as int8, or None where int8 does not hold all of them."""
        dtype = np.int64 if max(self.numbers.itemsize, self.zeros.itemsize) > 2 else np.int32
        wide = self.numbers.astype(dtype) - self.zeros.astype(dtype)
        return wide.astype(np.int8) if wide.min() >= -128 and wide.max() <= 127 else None


class _Products(KnownValues):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._parts: dict[tuple[RelaxExpr, str], list[Constant] | None] = {}
        """Parts of narrow weights by the weights' value and use: products by the same weights share them."""

    def concerns(self, function: Function) -> bool:
        """True if something is dequantised."""
        return any(is_call_of(binding.value, Dequantize, DequantizeBlocks) for binding in bindings_in(function))

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        operator = operator_of(call)
        data = call.args[0].struct_info_ if call.args else None
        if not isinstance(data, TensorStructInfo) or data.dtype not in DTYPES or data.dims is None:
            return call
        if isinstance(operator, Recurrent):
            return self.layer(call, operator) if data.dtype == "float32" else call
        return self.product(call, data) if isinstance(operator, Matmul) else call

    def product(self, call: Call, data: TensorStructInfo) -> RelaxExpr:
        """Return a matmul whose weights are dequantised in its kernel."""
        result = call.struct_info_
        if not isinstance(result, TensorStructInfo) or result.dtype != data.dtype or data.ndim < 2:
            return call
        if tensor_info(call.args[1]).dtype != data.dtype:
            return call
        parts = self.parts_of(call.args[1], "matmul", 2, MAX_BYTES, _parts_for_matmul)
        if parts is None:
            return call
        new = self.builder.call_te(_product, call.args[0], *parts, primfunc_name_hint="matmul")
        return new.replace(sinfo_args=(result,), span=call.span) if result.dims is not None else call

    def layer(self, call: Call, operator: Recurrent) -> RelaxExpr:
        """Return a recurrent layer whose weights are dequantised in its kernel."""
        if not operator.can_compute(call):
            return call
        narrow: dict[int, list[Constant]] = {}
        for position, use, divide in ((1, "weight", _parts_for_inputs), (2, "recurrence", _parts_for_steps)):
            parts = self.parts_of(call.args[position], use, 3, FEW_BYTES, divide)
            if parts is not None:
                narrow[position] = parts
        return self.lowered(call, operator, narrow) if narrow else call

    def lowered(self, call: Call, operator: Recurrent, narrow: Mapping[int, list[Constant]]) -> RelaxExpr:
        """Return the call_tir of a layer; `narrow` has the parts of narrow weights by the positions of operands."""
        absent = [operand.optional and is_absent(arg) for operand, arg in operator.arguments(call)]
        values = [narrow.get(i, arg) for i, arg in enumerate(call.args) if not absent[i]]

        def formula(*tensors: Any) -> Any:
            rest = iter(tensors)
            operands: list[Any] = [None if left_out else next(rest) for left_out in absent]
            for i in narrow:
                operands[i] = _tensor_of(operands[i], operator.directions)
            return operator.checked_formula(call, operands)

        try:
            new = self.builder.call_te(formula, *values, primfunc_name_hint=operator.kernel_name())
        except OperatorError:  # LegalizeOps reports it
            return call
        return new.replace(span=call.span)

    # ------------------------------------------------------------------------------------ weights

    def parts_of(
        self, expr: RelaxExpr, use: str, ndim: int, few: int, divide: Callable[[_Dequantised], list[Array] | None]
    ) -> list[Constant] | None:
        """Return the constants into which `divide` divides the weights an operand stands for; None for `few` bytes."""
        key = (self.value(expr), use)
        if key not in self._parts:
            weights = self.dequantised(expr, ndim, few)
            parts = None if weights is None else divide(weights)
            self._parts[key] = None if parts is None else [const(part) for part in parts]
        return self._parts[key]

    def dequantised(self, expr: RelaxExpr, ndim: int, few: int) -> _Dequantised | None:
        """Return the weights that an operand of `ndim` dimensions stands for, or None if it has other elements, or only
        `few` bytes as floats.
        """
        moves, call = moves_of(self, expr)
        call, inner, minima = self.without_minima(call)
        operator = operator_of(call) if isinstance(call, Call) else None
        moved = expr.struct_info_
        if not isinstance(call, Call) or not isinstance(moved, TensorStructInfo) or moved.ndim != ndim:
            return None
        if isinstance(operator, DequantizeBlocks) and minima is None:
            return self.of_blocks(call, operator, moves, few)
        if not isinstance(operator, Dequantize) or operator.out_dtype != moved.dtype or moved.dtype not in DTYPES:
            return None
        numbers, scale, zero = (moved_constant(self, arg) for arg in call.args)
        if numbers is None or scale is None or zero is None or not numbers.size or scale.dtype != np.float32:
            return None
        if 4 * numbers.size <= few:
            return None
        infos = [call.args[i].struct_info_ for i in (0, 2)]
        if not all(isinstance(info, TensorStructInfo) and info.dtype.is_integer for info in infos):
            return None
        parts = [numbers, *(np.broadcast_to(operator.spread(part, numbers), numbers.shape) for part in (zero, scale))]
        known = [part for part in (moved_array(part, inner) for part in parts) if part is not None]
        if minima is not None and known and np.broadcast_shapes(minima.shape, known[0].shape) == known[0].shape:
            known.append(np.broadcast_to(minima.astype(np.float32), known[0].shape))
        whole = [part for part in (moved_array(part, moves) for part in known) if part is not None]
        return _Dequantised(*whole) if len(whole) == len(parts) + (minima is not None) else None

    def without_minima(self, value: RelaxExpr) -> tuple[RelaxExpr, list[Call], Array | None]:
        """Return the dequantised weights to which a constant is added, how they are moved before, and the constant;
        the value itself, no moves and None if it is no such sum.
        """
        if isinstance(value, Call) and is_call_of(value, Add):
            for left, right in (value.args, value.args[::-1]):
                moves, first = moves_of(self, left)
                minima = moved_constant(self, right) if is_call_of(first, Dequantize) else None
                if minima is not None and tensor_info(left).ndim == tensor_info(value).ndim:
                    return first, moves, minima
        return value, [], None

    def of_blocks(self, call: Call, operator: DequantizeBlocks, moves: list[Call], few: int) -> _Dequantised | None:
        """Return weights in a block format, moved as the program moves them."""
        rows = moved_constant(self, call.args[0])
        held = operator.held
        if rows is None or operator.out_dtype not in DTYPES or rows.ndim != 2 or not rows.size:
            return None
        parts = held.parts(rows)
        if 4 * parts.numbers.size <= few:
            return None
        shape = (len(rows), -1)

        def spread(part: Array) -> Array | None:
            return moved_array(np.reshape(np.broadcast_to(part, parts.numbers.shape), shape), moves)

        zeros, minima = np.zeros((1, 1, 1), np.int16), None
        if held.has_zero_point:
            zeros = parts.steps_of_numbers(parts.minimum_steps).astype(np.int16)
        elif parts.minimum is not None:
            least = parts.of_numbers(parts.minimum, parts.minimum_steps)
            if operator.out_dtype != "float32":  # rounded once, where the kernel would round products, too
                return None
            minima = spread(-least if held.subtracts_minimum else least)
        scales = spread(parts.of_numbers(parts.scale, parts.scale_steps))
        numbers, offsets = spread(parts.numbers.astype(np.int8)), spread(zeros)
        if numbers is None or scales is None or offsets is None:
            return None
        return _Dequantised(numbers, offsets, scales, minima)


def _tensor_of(parts: Sequence[te.Tensor], directions: int) -> te.Tensor:
    """Return the tensor of weights that `_parts_for_inputs` or `_parts_for_steps` divided."""
    numbers, scales, *zeros = parts
    return dequantised(NarrowWeights(numbers, scales, zeros[0] if zeros else None, directions))


def _narrowest(numbers: Array) -> Array:
    """Return integers as int4 if it has all of them, else unchanged."""
    fits = numbers.min() >= -8 and numbers.max() <= 7
    return numbers.astype(DataType("int4").numpy()) if fits else numbers


def _parts_for_matmul(weights: _Dequantised) -> list[Array] | None:
    """Return `_parts_for_product`, without scales that are all 1; or (numbers as uint4, scales, zeros) if four bits
    hold the numbers but not their differences from the zero points, and if these are fewer bytes.
    """
    parts, numbers = _parts_for_product(weights), weights.numbers
    if parts is not None and len(parts) == 2 and (parts[1] == 1).all():
        return parts[:1]
    if parts is None or parts[0].dtype != np.int8 or weights.minima is not None:
        return parts
    if numbers.min() < 0 or numbers.max() > 15:
        return parts
    zeros = _by_group(weights.zeros.astype(np.int32))
    if 2 * zeros.nbytes >= numbers.size:
        return parts
    return [np.ascontiguousarray(numbers).astype(DataType("uint4").numpy()), parts[1], zeros]


def _parts_for_product(weights: _Dequantised) -> list[Array] | None:
    """Return (numbers, scales), with zeros (int32) or minima (float32) behind them, of a product, with a row of
    parameters for each group of rows of numbers; None for more than 16 bits.
    """
    differences, scales = weights.differences(), _by_group(weights.scales)
    if differences is not None:
        minima = [] if weights.minima is None else [_by_group(weights.minima)]
        return [_narrowest(np.ascontiguousarray(differences)), scales, *minima]
    if weights.numbers.dtype.itemsize > 2 or weights.minima is not None:
        return None
    return [np.ascontiguousarray(weights.numbers), scales, _by_group(weights.zeros.astype(np.int32))]


def _parts_for_inputs(weights: _Dequantised) -> list[Array] | None:
    """Return the parts of `NarrowWeights` for the product of a layer's inputs, with parameters for each column.

    One for each direction would be read by a quotient of the column, element by element.
    """
    return None if weights.minima is not None else _parts_for_product(weights.as_matrix())


def _parts_for_steps(weights: _Dequantised) -> list[Array] | None:
    """Return the parts of `NarrowWeights` for the products of a layer's steps; None for more than 16 bits."""
    if weights.minima is not None:
        return None
    directions, matrix = len(weights.numbers), weights.as_matrix()
    scales, differences = _by_direction(matrix.scales, directions), matrix.differences()
    if differences is not None:
        return [np.ascontiguousarray(differences), scales]
    if matrix.numbers.dtype.itemsize > 2:
        return None
    zeros = _by_direction(matrix.zeros.astype(np.int32), directions)
    return [np.ascontiguousarray(matrix.numbers), scales, zeros]


def _by_direction(parameter: Array, directions: int) -> Array:
    """Return a parameter by group, with one column per direction if its columns are equal in each direction."""
    groups = _by_group(parameter)
    split = np.reshape(groups, (len(groups), directions, -1))
    bits: NDArray[np.uint32] = cast("Any", split).view(np.uint32)
    return np.ascontiguousarray(split[:, :, 0]) if (bits == bits[:, :, :1]).all() else groups


def _by_group(parameter: Array) -> Array:
    """Return a parameter of each element with one row per maximal group of equal rows."""
    bits: NDArray[np.uint32] = cast("Any", np.ascontiguousarray(parameter)).view(np.uint32)
    different: NDArray[np.bool_] = (bits[1:] != bits[:-1]).any(axis=1)
    changes: list[int] = (np.flatnonzero(different) + 1).tolist()
    group = math.gcd(len(parameter), *changes)
    return np.ascontiguousarray(parameter[::group])


def _product(data: te.Tensor, numbers: te.Tensor, *parameters: te.Tensor) -> te.Tensor:
    """Formula of the product of data and `(numbers - zeros) * scales + minima`, of `parameters` that begin with the
    scales, have a row per group of the depth, and are left out if the scales are 1. Of zeros (int32) and minima
    (float32), one is given at most. Weights are rounded to the dtype of the data wherever the program rounds them.
    """
    depth, dtype = numbers.shape[0], data.dtype
    k = te.reduce_axis((0, depth), "k")
    scales, others = parameters[:1], parameters[1:]

    def parameter(held: te.Tensor, column: PrimExpr) -> PrimExpr:
        groups = held.shape[0]
        row = const_expr(0, "int64") if is_const(groups, 1) else floordiv(k.var, simplify(depth // groups))
        return held(row, column)

    def rounded(weight: PrimExpr) -> PrimExpr:
        return weight if dtype == "float32" else cast_expr("float32", cast_expr(dtype, weight))

    def element(*i: Any) -> PrimExpr:
        number = numbers(k.var, i[-1])
        for other in others:
            if other.dtype == "int32":
                number = cast_expr("int32", number) - parameter(other, i[-1])
        weight = cast_expr("float32", number)
        for scale in scales:
            weight = rounded(weight * parameter(scale, i[-1]))
        for other in others:
            if other.dtype == "float32":
                weight = rounded(weight + parameter(other, i[-1]))
        return te.sum(cast_expr("float32", data(*i[:-1], k.var)) * weight, axis=k)

    product = te.compute((*data.shape[:-1], numbers.shape[1]), element, "matmul", tag="matmul")
    if dtype == "float32":
        return product
    return te.compute(product.shape, lambda *i: cast_expr(dtype, product(*i)), "matmul_cast", tag="elemwise")
