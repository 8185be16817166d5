"""Operators that create tensors: full, zeros, ones, arange."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import topi
from ..expr import Call, PrimValue, const
from ..ir import DataType, RelaxExpr
from ..prim import Var
from ..runtime.rounding import convert_array
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from .attributes import VOID
from .base import Gradients, Term
from .binary import as_tensor
from .dims import like, tensor
from .errors import OPERANDS, SHAPES, OperatorError
from .facts import Exactness
from .known import known_struct_info
from .literals import number_as
from .operator import Array, Operator, operator
from .shapes import Move, require_sizes, shaped


class Filled(Move):
    """Base of operators that fill a shape with an operand."""

    __slots__ = ()

    dtype: DataType = VOID

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """Convert a Python number to a constant of the result's dtype."""
        source, value, *rest = arguments
        if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
            dtype = self.dtype
            value = const(value) if dtype.is_void else number_as(value, dtype, "fill_value", "the result")
        return [source, value, *rest]

    def filled_dtype(self, fill_value: TensorStructInfo) -> DataType:
        """Return the result's dtype, after checking the fill value."""
        if fill_value.ndim not in (-1, 0):
            raise OperatorError(
                SHAPES, f"fill_value must be a scalar, found {fill_value.ndim} dimensions", operand="fill_value"
            )
        return fill_value.dtype if self.dtype.is_void else self.dtype


@operator("relax.full")
class Full(Filled):
    """A tensor of a shape, every element fill_value, converted to dtype if one is given."""

    def infer_from_call(
        self, call: Call, builder: Any, shape: ShapeStructInfo, fill_value: TensorStructInfo | PrimStructInfo
    ) -> TensorStructInfo:
        require_sizes(shape)
        return shaped(call.args[0], shape, self.filled_dtype(as_tensor(fill_value)))

    def compute(self, shape: Any, fill_value: Any) -> Any:
        return topi.full(shape, self.dtype or fill_value.dtype, fill_value)

    def reference(self, shape: Sequence[int], fill_value: Array) -> Array:
        value = np.asarray(fill_value)
        return np.full(tuple(shape), convert_array(value, self.dtype.numpy() if self.dtype else value.dtype))


@operator("relax.full_like")
class FullLike(Filled):
    """A tensor of x's shape, every element fill_value, converted to dtype (default: that of x)."""

    total = True

    def infer(self, x: TensorStructInfo, fill_value: TensorStructInfo | PrimStructInfo) -> TensorStructInfo:
        self.filled_dtype(as_tensor(fill_value))
        return like(x, self.dtype or x.dtype)

    def compute(self, x: Any, fill_value: Any) -> Any:
        return topi.full(x.shape, self.dtype or x.dtype, fill_value)

    def reference(self, x: Array, fill_value: Array) -> Array:
        dtype = self.dtype.numpy() if self.dtype else x.dtype
        return np.full(x.shape, convert_array(np.asarray(fill_value), dtype))


class Same(Move):
    """Base of tensors of a given shape filled with one constant."""

    __slots__ = ()

    dtype: DataType
    number = 0

    def infer_from_call(self, call: Call, builder: Any, shape: ShapeStructInfo) -> TensorStructInfo:
        self.require_attribute(not self.dtype.is_void, "dtype", "a dtype")
        require_sizes(shape)
        return shaped(call.args[0], shape, self.dtype)

    def compute(self, shape: Any) -> Any:
        return topi.full(shape, self.dtype, self.number)

    def reference(self, shape: Sequence[int]) -> Array:
        return np.full(tuple(shape), self.number, self.dtype.numpy())


@operator("relax.zeros")
class Zeros(Same):
    """A tensor of zeros."""

    dtype: DataType


@operator("relax.ones")
class Ones(Same):
    """A tensor of ones."""

    dtype: DataType
    number = 1


class SameLike(Move):
    """Base of tensors filled with one constant, shaped like another tensor."""

    __slots__ = ()

    elementwise: ClassVar[bool] = True
    total = True

    dtype: DataType = VOID
    number = 0

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        return like(x, self.dtype or x.dtype)

    def compute(self, x: Any) -> Any:
        return topi.full(x.shape, self.dtype or x.dtype, self.number)

    def reference(self, x: Array) -> Array:
        return np.full(x.shape, self.number, self.dtype.numpy() if self.dtype else x.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (None,)


@operator("relax.zeros_like")
class ZerosLike(SameLike):
    """A tensor of zeros of x's shape; dtype defaults to that of x."""


@operator("relax.ones_like")
class OnesLike(SameLike):
    """A tensor of ones of x's shape; dtype defaults to that of x."""

    number = 1


class OfScalars(Operator):
    """Base of tensors whose dimensions are computed from scalar operands."""

    __slots__ = ()

    def legalize(self, builder: Any, call: Call) -> RelaxExpr:
        """Bind scalars only known at run time to shape variables, over which the result's dimensions are written."""
        args: list[RelaxExpr] = []
        for arg in call.args:
            info = known_struct_info(arg)
            if isinstance(info, PrimStructInfo) and info.value is None:
                named = PrimStructInfo(value=Var("s", info.dtype))
                builder.match_cast(arg, named)
                args.append(PrimValue(named.value))
            else:
                args.append(arg)
        return super().legalize(builder, call.replace(args=args))


@operator("relax.arange")
class Arange(OfScalars):
    """start, start + step, … as long as end is not reached; ``arange(end)`` starts at 0.

    Without a dtype the result is int64 if all three are integers, else float32.
    """

    exactness: ClassVar[Exactness] = Exactness.INTEGERS

    dtype: DataType = VOID

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Any]:
        start, end, step = (*arguments, None, None)[:3]
        if end is None:
            start, end = 0, start
        return [start, end, 1 if step is None else step]

    def infer(
        self, start: PrimStructInfo, end: PrimStructInfo | None = None, step: PrimStructInfo | None = None
    ) -> TensorStructInfo:
        if end is None or step is None:
            raise OperatorError(OPERANDS, "start, end and step must be given")
        bounds = (start, end, step)
        dtype = self._result_dtype(*(bound.dtype for bound in bounds))
        if any(bound.value is None for bound in bounds):
            return tensor(None, dtype, 1)
        try:
            size = topi.arange_size(*(bound.value for bound in bounds if bound.value is not None))
        except ValueError as error:
            raise OperatorError(OPERANDS, str(error)) from None
        return tensor([size], dtype)

    def _result_dtype(self, *bounds: DataType) -> DataType:
        if not self.dtype.is_void:
            return self.dtype
        return DataType("float32" if any(dtype.is_float for dtype in bounds) else "int64")

    def compute(self, start: Any, end: Any, step: Any) -> Any:
        return topi.arange(start, end, step, self._result_dtype(start.dtype, end.dtype, step.dtype))

    def reference(self, start: Any, end: Any, step: Any) -> Array:
        is_float = any(isinstance(bound, float) for bound in (start, end, step))
        dtype = self.dtype or DataType("float32" if is_float else "int64")
        size = max(0, math.ceil((end - start) / step) if is_float else -((start - end) // step))
        wide = np.float32 if dtype.is_float and dtype.bits < 32 else dtype.numpy()
        numbers = np.array(start, wide) + np.arange(size).astype(wide) * np.array(step, wide)
        return numbers.astype(dtype.numpy())
