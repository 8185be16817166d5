"""``R.reinterpret``: the bits of a tensor read as another dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from .. import topi
from ..info.text import prim_text
from ..ir import DataType
from ..prim import PrimExpr, simplify
from ..prim.intrin import floormod
from ..struct_info import TensorStructInfo
from .base import Gradients, Term
from .dims import like, require_same_dim, tensor
from .errors import DTYPES, SHAPES, OperatorError
from .facts import Exactness
from .operator import Array, Operator, operator


@operator("relax.reinterpret")
class Reinterpret(Operator):
    """The bits of x read as another dtype, without a conversion of numbers.

    If the dtypes differ in width, the last axis has as many elements as hold its bits, lower bits first: three of
    float32 are twelve of uint8. A bool is a byte; a byte other than 0 is True.
    """

    exactness: ClassVar[Exactness] = Exactness.IEEE

    dtype: DataType

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        self.require_attribute(_has_bytes(self.dtype), "dtype", "a dtype of whole bytes")
        if x.dtype.is_void:
            return tensor(None, self.dtype, x.ndim, x.vdevice)
        self.require(_has_bytes(x.dtype), "x", "a tensor of whole bytes", found=str(x.dtype))
        source, target = _width(x.dtype), _width(self.dtype)
        if source == target:
            return like(x, self.dtype)
        if x.ndim == 0:
            raise OperatorError(
                DTYPES,
                f"a tensor of rank 0 has no axis for several elements: {x.dtype!s} has {source} bits, "
                f"{self.dtype!s} {target}",
                hint="reshape it to one axis first: R.reshape(x, R.shape([1]))",
            )
        if x.dims is None:
            return tensor(None, self.dtype, x.ndim, x.vdevice)
        return tensor([*x.dims[:-1], self._last(x.dims[-1], x.dtype)], self.dtype, vdevice=x.vdevice)

    def _last(self, size: PrimExpr, dtype: DataType) -> PrimExpr:
        """Return the size of the last axis. Raises OperatorError if its elements are no whole number of new ones."""
        source, target = _width(dtype), _width(self.dtype)
        if source > target:
            return simplify(size * (source // target))
        count = target // source
        error = OperatorError(SHAPES, f"{prim_text(size)} elements of {dtype!s} are no whole number of {self.dtype!s}")
        require_same_dim(simplify(floormod(size, count)), size * 0, error)
        return simplify(size // count)

    compute = topi.reinterpret

    def reference(self, x: Array) -> Array:
        read = np.dtype("uint8") if self.dtype.is_bool else self.dtype.numpy()
        found: Array = cast("Any", np.asarray(x, order="C")).view(read)
        return found != 0 if self.dtype.is_bool else found

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return (None,)


def _has_bytes(dtype: DataType) -> bool:
    return not (dtype.is_void or dtype.is_handle) and dtype.lanes == 1 and _width(dtype) % 8 == 0


def _width(dtype: DataType) -> int:
    return 8 if dtype.is_bool else dtype.bits
