"""Properties of a tensor as scalars of the program: ``relax.op.inspect.tensor_shape_i(x, axis)``, ….

Static properties become constants or expressions over shape variables; a runtime function reads dynamic ones from the
tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..expr import Call, PrimValue
from ..ir import DataType, RelaxExpr
from ..prim import IntImm, PrimExpr, const
from ..runtime.dtypes import DLPACK_CODES
from ..struct_info import PrimStructInfo, TensorStructInfo
from .base import Gradients, Term
from .errors import AXES, DTYPES, OperatorError
from .known import known_struct_info
from .operator import Array, Operator, namespace, operator
from .shapes import product


class Inspection(Operator):
    """Base class: a scalar property of a tensor that does not depend on its elements."""

    __slots__ = ()

    propagates_vdevice = False

    gives: ClassVar[str] = "int64"

    def scalar(self, value: PrimExpr | None) -> PrimStructInfo:
        """Struct info of a scalar with an optional known value."""
        return PrimStructInfo(DataType(self.gives)) if value is None else PrimStructInfo(value=value)

    def legalize(self, builder: Any, call: Call) -> RelaxExpr:
        info = known_struct_info(call)
        if isinstance(info, PrimStructInfo) and info.value is not None:
            return PrimValue(info.value, span=call.span)
        return super().legalize(builder, call)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (None,) * len(operands)


class OfTensor(Inspection):
    """Base class of properties of a tensor as a whole."""

    __slots__ = ()

    def value(self, x: TensorStructInfo) -> PrimExpr | None:
        """Static value of the property, None if unknown."""
        raise NotImplementedError

    def infer(self, x: TensorStructInfo) -> PrimStructInfo:
        return self.scalar(self.value(x))


class OfDtype(OfTensor):
    """Base class of properties of the dtype, in DLPack's encoding."""

    __slots__ = ()

    def value(self, x: TensorStructInfo) -> PrimExpr | None:
        return None if x.dtype.is_void else const(self.number(x), self.gives)

    def number(self, x: TensorStructInfo) -> int:
        """Value of the property for a known dtype."""
        raise NotImplementedError


@operator("relax.inspect.tensor_dtype_code")
class TensorDtypeCode(OfDtype):
    """The kind of x's dtype, a uint8, as numbered by DLPack: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool."""

    gives = "uint8"
    packed: ClassVar[str | None] = "relax.run.tensor_dtype_code"

    def number(self, x: TensorStructInfo) -> int:
        return DLPACK_CODES[x.dtype][0]

    def reference(self, x: Array) -> Array:
        return np.uint8(DLPACK_CODES[x.dtype.name][0])


@operator("relax.inspect.tensor_dtype_bits")
class TensorDtypeBits(OfDtype):
    """The bits of x's dtype, a uint8, as defined by DLPack; 8 for bool."""

    gives = "uint8"
    packed: ClassVar[str | None] = "relax.run.tensor_dtype_bits"

    def number(self, x: TensorStructInfo) -> int:
        return DLPACK_CODES[x.dtype][1]

    def reference(self, x: Array) -> Array:
        return np.uint8(DLPACK_CODES[x.dtype.name][1])


@operator("relax.inspect.tensor_dtype_lanes")
class TensorDtypeLanes(OfTensor):
    """The lanes of x's dtype, a uint16: always one."""

    gives = "uint16"

    def value(self, x: TensorStructInfo) -> PrimExpr | None:
        return const(1, self.gives)

    def reference(self, x: Array) -> Array:
        return np.uint16(1)


@operator("relax.inspect.tensor_ndim")
class TensorNdim(OfTensor):
    """The rank of x, an int32."""

    gives = "int32"
    packed: ClassVar[str | None] = "relax.run.tensor_ndim"

    def value(self, x: TensorStructInfo) -> PrimExpr | None:
        return None if x.ndim == -1 else const(x.ndim, self.gives)

    def reference(self, x: Array) -> Array:
        return np.int32(x.ndim)


class OfAxis(Inspection):
    """Base class of properties of one dimension of a tensor. The axis is a non-negative scalar of the program."""

    __slots__ = ()

    def infer(self, x: TensorStructInfo, axis: PrimStructInfo) -> PrimStructInfo:
        if not axis.dtype.is_integer:
            raise OperatorError(DTYPES, f"axis must be an integer, found {axis.dtype!s}", operand="axis")
        if not isinstance(axis.value, IntImm):
            return self.scalar(None)
        number = axis.value.value
        if number < 0 or (x.ndim != -1 and number >= x.ndim):
            allowed = "a size ≥ 0" if x.ndim == -1 else f"from 0 to {x.ndim - 1}"
            raise OperatorError(AXES, f"axis {number} is out of range: expected {allowed}", operand="axis")
        return self.scalar(None if x.dims is None else self.at(x.dims, number))

    def at(self, dims: Sequence[PrimExpr], axis: int) -> PrimExpr:
        """Value of the property for dimension `axis` of a tensor with known dimensions."""
        raise NotImplementedError


@operator("relax.inspect.tensor_shape_i")
class TensorShapeI(OfAxis):
    """The size of dimension `axis` of x, an int64. An axis that x does not have is an error."""

    packed: ClassVar[str | None] = "relax.run.tensor_shape_i"

    def at(self, dims: Sequence[PrimExpr], axis: int) -> PrimExpr:
        return dims[axis]

    def reference(self, x: Array, axis: int) -> Array:
        return np.int64(x.shape[axis])


@operator("relax.inspect.tensor_stride_i")
class TensorStrideI(OfAxis):
    """The stride of dimension `axis` of x in elements, an int64: tensors are row-major."""

    packed: ClassVar[str | None] = "relax.run.tensor_stride_i"

    def at(self, dims: Sequence[PrimExpr], axis: int) -> PrimExpr:
        return product(dims[axis + 1 :])

    def reference(self, x: Array, axis: int) -> Array:
        return np.int64(math.prod(x.shape[axis + 1 :]))


class Offset(OfTensor):
    """Base class of offsets of the first element from the start of a tensor's memory, which are 0."""

    __slots__ = ()

    gives = "uint64"

    def value(self, x: TensorStructInfo) -> PrimExpr | None:
        return const(0, self.gives)

    def reference(self, x: Array) -> Array:
        return np.uint64(0)


@operator("relax.inspect.tensor_byte_offset")
class TensorByteOffset(Offset):
    """Byte offset of the first element of x in its memory, a uint64: always 0."""


@operator("relax.inspect.tensor_elem_offset")
class TensorElemOffset(Offset):
    """Element offset of the first element of x in its memory, a uint64: always 0."""


__all__: list[str] = []

if TYPE_CHECKING:
    from ._signatures.inspect import *  # noqa: F403  # pyright: ignore[reportMissingModuleSource]
else:
    __getattr__, __dir__ = namespace("relax.inspect.")
