"""Operators of linear algebra: matmul, and linear, which is built on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import topi
from ..expr import Call
from ..info.text import prim_text
from ..ir import DataType, RelaxExpr
from ..struct_info import TensorStructInfo
from .arguments import DTypeLike, TensorLike
from .attributes import VOID
from .base import Gradients, Term
from .dims import broadcast_dims, require_same_dim, same_dtype, tensor
from .errors import SHAPES, OperatorError
from .facts import MixedPrecision
from .gradients import apply, collapsed, dims_of, is_float, reshaped, tensor_info
from .operator import Array, Operator, composite, operator, public_function


@operator("relax.matmul")
class Matmul(Operator):
    """The matrix product of the last two dimensions, over leading ones that broadcast, as NumPy's ``@``.

    A tensor of one dimension is a row on the left and a column on the right. Products are summed in out_dtype (default:
    the operands' dtype), those of 16-bit and narrower floats in float32, rounded once. Of booleans, a sum is True where
    a product is.
    """

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.ALWAYS
    total = True
    keeps_ones = True

    out_dtype: DataType = VOID

    def infer(self, x1: TensorStructInfo, x2: TensorStructInfo) -> TensorStructInfo:
        for name, info in (("x1", x1), ("x2", x2)):
            self.require(info.ndim != 0, name, "a tensor of at least one dimension", code=SHAPES)
        dtype = self.out_dtype or same_dtype(x1.dtype, x2.dtype)
        if -1 in (x1.ndim, x2.ndim):
            return tensor(None, dtype)
        ndim = max(x1.ndim, x2.ndim, 2) - (x1.ndim == 1) - (x2.ndim == 1)
        if x1.dims is None or x2.dims is None:
            return tensor((), dtype) if ndim == 0 else tensor(None, dtype, ndim)
        a, b = x1.dims, x2.dims
        dimension = "last dimension" if len(b) == 1 else "second to last dimension"
        left, right = a[-1], b[-1] if len(b) == 1 else b[-2]
        require_same_dim(
            left,
            right,
            OperatorError(
                SHAPES,
                "the reduced dimensions differ",
                remarks={"x1": f"last dimension {prim_text(left)}", "x2": f"{dimension} {prim_text(right)}"},
                hint="transpose {x1} or {x2}, or match_cast it if its shape is only known at run time",
            ),
        )
        batch = broadcast_dims(a[:-2], b[:-2], ("x1", "x2"))
        if batch is None:
            return tensor(None, dtype, ndim)
        return tensor([*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ())], dtype)

    compute = topi.matmul

    def reference(self, x1: Array, x2: Array) -> Array:
        dtype = self.out_dtype or DataType(x1.dtype.name)
        wide = np.float32 if dtype.is_float and dtype.bits < 32 else dtype.numpy()
        return np.asarray(np.matmul(x1.astype(wide), x2.astype(wide))).astype(dtype.numpy())

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        if not self.out_dtype.is_void or not all(map(is_float, operands)):
            return None
        x1, x2 = operands
        # A lone row or column gets the dimension that the product drops.
        if tensor_info(x1).ndim == 1:
            axis = -1 if tensor_info(x2).ndim == 1 else -2
            x1, grad = apply("expand_dims", x1, axis=0), apply("expand_dims", grad, axis=axis)
        if tensor_info(x2).ndim == 1:
            x2, grad = apply("expand_dims", x2, axis=1), apply("expand_dims", grad, axis=-1)
        if dims_of(x1) is None or dims_of(x2) is None:
            return None
        products = (Matmul().call(grad, _transposed(x2)), x1), (Matmul().call(_transposed(x1), grad), x2)
        sums = [collapsed(product, operand) for product, operand in products]
        gradients = [None if s is None else reshaped(s, operand) for s, operand in zip(sums, operands, strict=True)]
        return None if None in gradients else gradients


def _transposed(x: RelaxExpr) -> RelaxExpr:
    ndim = tensor_info(x).ndim
    return apply("permute_dims", x, axes=[*range(ndim - 2), ndim - 1, ndim - 2])


@composite("relax.nn.linear")
@composite("relax.linear")
def linear(data: TensorLike, weight: TensorLike, bias: TensorLike | None = None, out_dtype: DTypeLike = None) -> Call:
    """data · weightᵀ + bias: ``matmul(data, permute_dims(weight))``, and an add."""
    transposed = _function("permute_dims")(weight)
    product = _function("matmul")(data, transposed, out_dtype=out_dtype)
    return product if bias is None else _function("add")(product, bias)


def _function(name: str) -> Any:
    function = public_function(f"relax.{name}")
    assert function is not None
    return function
