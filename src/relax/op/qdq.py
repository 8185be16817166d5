"""Quantization: floats as integers (or floats of 8 or 4 bits) with a scale and a zero point, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import te, topi
from ..expr import Call, Constant, const
from ..ir import DataType, RelaxExpr, StructInfo
from ..runtime.rounding import convert_array
from ..struct_info import TensorStructInfo
from ..target import Target
from .base import Gradients, Term
from .dims import like, require_stretch
from .errors import SHAPES, OperatorError
from .facts import Axes, Exactness, Permuted, has_rank, moved_axis
from .known import known_struct_info
from .operands import FLOATS, NUMBERS
from .operator import Array, Operator, operator
from .reciprocals import MOST_BITS, reciprocal
from .unary import Astype


class Quantization(Operator):
    """Base class: a scale and a zero point for all elements, or one per index along `axis`."""

    __slots__ = ()

    exactness: ClassVar[Exactness] = Exactness.IEEE
    total = True

    axis: int
    out_dtype: DataType

    def check_parameters(self, data: TensorStructInfo, scale: TensorStructInfo, zero_point: TensorStructInfo) -> None:
        """Raise OperatorError for a scale or zero point that does not fit the data."""
        self.require_dtype(scale, "scale", "float")
        self.require_dtype(zero_point, "zero_point", "int", "uint", "float")
        for name, info in (("scale", scale), ("zero_point", zero_point)):
            few = info.ndim in (-1, 0, 1)
            self.require(few, name, "of at most one dimension", code=SHAPES, found=str(info.ndim))
            if info.ndim == 1 and info.dims is not None and not self._is_one(info):
                self._require_one_each(data, info, name)

    def _is_one(self, info: TensorStructInfo) -> bool:
        return info.dims is not None and topi.same_size(info.dims[0], topi.as_size(1))

    def _require_one_each(self, data: TensorStructInfo, info: TensorStructInfo, name: str) -> None:
        axis = self.require_axis(self.axis, data)
        if axis is not None and data.dims is not None and info.dims is not None:
            message = f"{name} must have as many elements as dimension {axis} of data"
            require_stretch(info.dims[0], data.dims[axis], OperatorError(SHAPES, message, operand=name))

    def spread(self, parameter: Array, data: Array) -> Array:
        """Reshape a parameter to broadcast with the data."""
        if parameter.size == 1:
            return parameter.reshape(())
        shape = [1] * data.ndim
        shape[self.axis] = -1
        return parameter.reshape(shape)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes) or not axes:
            return None
        scalars = [isinstance(info, TensorStructInfo) and info.ndim == 0 for info in infos[1:]]
        moved = self if all(scalars) else self.replace(axis=moved_axis(self.axis, axes))
        return Permuted(moved, (axes, None, None), (axes,))


@operator("relax.quantize")
class Quantize(Quantization):
    """round(data / scale) + zero_point as out_dtype, halves to even, saturating at its limits.

    Scale and zero point are scalars, or have one element for each index along `axis`. NaN becomes 0. For a float
    out_dtype of 8 or 4 bits the quotient is not rounded to an integer: the sum is converted, and NaN stays NaN if the
    dtype has it.
    """

    takes = FLOATS

    axis: int = -1
    out_dtype: DataType = DataType("int8")

    def infer(self, data: TensorStructInfo, scale: TensorStructInfo, zero_point: TensorStructInfo) -> TensorStructInfo:
        small = self.out_dtype.is_float and self.out_dtype.bits <= 8
        whole = self.out_dtype.is_integer and self.out_dtype.bits <= 32
        self.require_attribute(
            small or whole, "out_dtype", "an integer dtype of at most 32 bits, or a float of at most 8"
        )
        self.require_dtype(data, "data", *self.takes)
        self.check_parameters(data, scale, zero_point)
        return like(data, self.out_dtype)

    compute = topi.quantize

    def legalize_for(self, target: Target, builder: Any, call: Call) -> RelaxExpr | None:
        """On targets with fused multiply-add, replace division by a constant scale by reciprocal products; None for
        scale 1.
        """
        data, scale, zero = call.args
        info = known_struct_info(data)
        if not target.is_resolved or not isinstance(info, TensorStructInfo) or info.dtype != "float32":
            return None
        if not isinstance(scale, Constant) or not isinstance(zero, Constant):
            return None
        if scale.data.dtype != "float32" or scale.data.shape or zero.data.shape:
            return None
        point = zero.data.numpy()
        if point.dtype.kind not in "iu" or point.dtype.itemsize > 2 or self.out_dtype.bits > 8:
            return None
        number = np.float32(scale.data.numpy().item())
        pair = reciprocal(number, int(point.item()), self.out_dtype) if target.has_fma else None
        if pair is None and number != 1:
            return None
        is_one = number == 1
        formula = topi.qdq.quantize_by_one if is_one else topi.qdq.quantize_by_reciprocal
        factors = () if is_one or pair is None else pair

        def compute(*operands: te.Tensor) -> te.Tensor:
            return formula(*operands, out_dtype=str(self.out_dtype))

        numbers = [const(np.array(factor, np.float32)) for factor in factors]
        limits = limits_of(self.out_dtype, int(point.item()))
        return builder.call_te(compute, data, *numbers, *limits, primfunc_name_hint=self.kernel_name())

    def reference(self, data: Array, scale: Array, zero_point: Array) -> Array:
        target = self.out_dtype
        wide = np.float64 if np.float64 in (data.dtype.type, scale.dtype.type) else np.float32
        quotient: Array = data.astype(wide) / self.spread(scale, data).astype(wide)
        large = target.bits > 16 or zero_point.dtype.itemsize > 2
        added = np.float64 if large else wide
        zero: Array = self.spread(zero_point, data).astype(added)
        if target.is_float:
            limit = np.asarray(target.max_finite, added)
            total = np.maximum(np.minimum(quotient.astype(added) + zero, limit), -limit)
            return convert_array(np.asarray(total), target.numpy())
        return Astype(target).evaluate(np.asarray(np.rint(quotient).astype(added) + zero))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return None, None, None


def limits_of(dtype: DataType, zero: int) -> tuple[Constant, Constant]:
    """Lower limit of a dtype minus the zero point, and the offset of integers in the bits of a float sum."""
    offset = const(np.array(zero - topi.qdq.WHOLE_BITS, np.int32))
    return const(np.array(int(dtype.min_value) - zero, np.float32)), offset


@operator("relax.dequantize")
class Dequantize(Quantization):
    """(data - zero_point) · scale as out_dtype: the inverse of `quantize`, of integers or floats of at most 8 bits.

    Scale and zero point are scalars, or have one element for each index along `axis`. The difference of integers is
    exact; the product is computed in float32 (float64, if scale or out_dtype is) and converted.
    """

    takes = NUMBERS

    axis: int = -1
    out_dtype: DataType = DataType("float32")

    def infer(self, data: TensorStructInfo, scale: TensorStructInfo, zero_point: TensorStructInfo) -> TensorStructInfo:
        self.require_attribute(self.out_dtype.is_float, "out_dtype", "a floating-point dtype")
        self.require_dtype(data, "data", *self.takes)
        narrow = data.dtype.is_void or data.dtype.bits <= (8 if data.dtype.is_float else 32)
        expected = "a tensor of integers of at most 32 bits, or of floats of at most 8"
        self.require(narrow, "data", expected, found=str(data.dtype))
        self.check_parameters(data, scale, zero_point)
        return like(data, self.out_dtype)

    compute = topi.dequantize

    def legalize_for(self, target: Target, builder: Any, call: Call) -> RelaxExpr | None:
        """Widen a constant zero point to int32 at compile time, so that kernels need not widen it per vector."""
        data, scale, zero = call.args
        info = known_struct_info(data)
        if not isinstance(info, TensorStructInfo) or not isinstance(zero, Constant) or zero.data.shape:
            return None
        point = zero.data.numpy()
        narrow = info.dtype.is_integer and info.dtype.bits <= MOST_BITS and point.dtype.kind in "iu"
        if not narrow or point.dtype.itemsize > 2 or not isinstance(scale, Constant):
            return None
        if self.out_dtype != "float32" or scale.data.dtype != "float32" or scale.data.shape:
            return None
        wide = const(np.array(point, np.int32))
        return builder.call_te(topi.qdq.dequantize_narrow, data, scale, wide, primfunc_name_hint=self.kernel_name())

    def reference(self, data: Array, scale: Array, zero_point: Array) -> Array:
        target = self.out_dtype
        wide = np.float64 if target == "float64" or scale.dtype == np.float64 else np.float32
        whole = all(DataType(x.dtype.name).is_integer for x in (data, zero_point))
        exact = np.int64 if whole else wide
        difference = data.astype(exact) - self.spread(zero_point, data).astype(exact)
        product = difference.astype(wide) * self.spread(scale, data).astype(wide)
        return convert_array(np.asarray(product), target.numpy())
