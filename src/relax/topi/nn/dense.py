"""Dense layers, the bias of a layer, and dropout."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from ... import te
from ...ir import DataType
from ...prim import PrimExpr, const
from ..util import accumulator_dtype, normalize_axis


def dense(data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None) -> te.Tensor:
    """data · weightᵀ + bias, for matrices."""
    dtype = DataType(out_dtype) if out_dtype else data.dtype
    total = accumulator_dtype(dtype)
    k = te.reduce_axis((0, data.shape[-1]), "k")

    def element(i: PrimExpr, j: PrimExpr) -> PrimExpr:
        return te.sum(data(i, k.var).astype(total) * weight(j, k.var).astype(total), axis=k)

    shape = (data.shape[0], weight.shape[0])
    product = te.compute(shape, element, "dense", tag="dense")
    if bias is None and total == dtype:
        return product

    def finish(i: PrimExpr, j: PrimExpr) -> PrimExpr:
        value = product(i, j)
        return (value if bias is None else value + bias(j).astype(total)).astype(dtype)

    return te.compute(shape, finish, "dense_bias", tag="broadcast")


def bias_add(data: te.Tensor, bias: te.Tensor, axis: int = 1) -> te.Tensor:
    """data + bias, where bias lies along one axis."""
    dimension = normalize_axis(axis, data.ndim)
    return te.compute(data.shape, lambda *i: data(*i) + bias(i[dimension]), "bias_add", tag="broadcast")


def dropout(x: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """Dropout at inference: x itself and a mask of ones."""
    out = te.compute(x.shape, lambda *i: x(*i), "dropout")
    return out, te.compute(x.shape, lambda *_i: const(1, x.dtype), "dropout_mask")
