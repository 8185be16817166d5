"""Element-wise operators of three tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import topi
from ..ir import DataType
from ..struct_info import TensorStructInfo
from .base import Gradients, Term
from .dims import broadcast_all, same_dtype, tensor
from .errors import SHAPES, OperatorError
from .facts import Exactness, MixedPrecision
from .gradients import collapsed, is_float
from .literals import literals_like
from .operands import NUMBERS
from .operator import Array, Operator, operator

NAMES = ("x1", "x2", "x3")


@operator("relax.ewise_fma")
class EwiseFMA(Operator):
    """x1 · x2 + x3. Product and sum are each rounded; integers wrap around.

    The operands have one number of dimensions, in which they broadcast; scalars broadcast to any.
    """

    takes = NUMBERS

    exactness: ClassVar[Exactness] = Exactness.IEEE
    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.FOLLOW
    elementwise: ClassVar[bool] = True
    total = True

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Any]:
        return literals_like(arguments, NAMES)

    def infer(self, x1: TensorStructInfo, x2: TensorStructInfo, x3: TensorStructInfo) -> TensorStructInfo:
        infos = x1, x2, x3
        for name, info in zip(NAMES, infos, strict=True):
            self.require_dtype(info, name, *self.takes)
        dtype = same_dtype(same_dtype(x1.dtype, x2.dtype), x3.dtype, ("x1", "x3"))
        ranks = {name: info.ndim for name, info in zip(NAMES, infos, strict=True) if info.ndim > 0}
        if len(set(ranks.values())) > 1:
            found = ", ".join(f"{name} has {rank}" for name, rank in ranks.items())
            message = f"the operands must have one number of dimensions, found: {found}"
            raise OperatorError(SHAPES, message, hint="expand_dims the operand that has fewer")
        result = broadcast_all(infos, dtype, NAMES)
        rank = next(iter(ranks.values()), -1)
        return tensor(None, dtype, rank) if result.ndim == -1 else result

    compute = topi.ewise_fma

    def reference(self, x1: Array, x2: Array, x3: Array) -> Array:
        dtype = DataType(x1.dtype.name)
        wide = np.float32 if dtype.is_float and dtype.bits < 32 else x1.dtype
        a, b, c = (x.astype(wide) for x in (x1, x2, x3))
        return np.asarray(a * b + c).astype(x1.dtype)

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        x1, x2, x3 = operands
        if not is_float(x1):
            return (None,) * 3
        products = (grad * x2, x1), (grad * x1, x2), (grad, x3)
        gradients = [collapsed(product, operand) for product, operand in products]
        return None if None in gradients else gradients
