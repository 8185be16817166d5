"""Formulas of linear algebra."""

from __future__ import annotations

from typing import Any

from .. import te
from ..ir import DataType
from ..prim import PrimExpr, cast
from .broadcast import broadcast_shape, read_broadcast
from .util import accumulator_dtype, sum_of, times


def matmul(x1: te.Tensor, x2: te.Tensor, out_dtype: str | None = None) -> te.Tensor:
    """The matrix product, over leading dimensions that broadcast, as NumPy's.

    A tensor of one dimension is a row on the left, a column on the right. Products are summed in the result's dtype, of
    16-bit and narrower floats in float32, which is rounded once.
    """
    dtype = DataType(out_dtype) if out_dtype else x1.dtype
    total = accumulator_dtype(dtype)
    row, column = x1.ndim == 1, x2.ndim == 1
    batch = broadcast_shape(x1.shape[:-2], x2.shape[:-2])
    rows = () if row else (x1.shape[-2],)
    columns = () if column else (x2.shape[-1],)
    k = te.reduce_axis((0, x1.shape[-1]), "k")

    def element(*i: Any) -> PrimExpr:
        batch_i = i[: len(batch)]
        rest = list(i[len(batch) :])
        row_i = [] if row else [rest.pop(0)]
        left = _read(x1, batch, batch_i, [*row_i, k.var])
        right = _read(x2, batch, batch_i, [k.var, *rest])
        return sum_of(times(cast(total, left), cast(total, right)), [k])

    names = [*(f"b{d}" for d in range(len(batch))), *(["i"] if rows else []), *(["j"] if columns else [])]
    product = te.compute((*batch, *rows, *columns), element, "matmul", tag="matmul", varargs_names=names)
    if total == dtype:
        return product
    return te.compute(
        product.shape, lambda *i: cast(dtype, product(*i)), "matmul_cast", tag="elemwise", varargs_names=names
    )


def _read(x: te.Tensor, batch: tuple[PrimExpr, ...], batch_i: tuple[Any, ...], inner: list[Any]) -> PrimExpr:
    """Read an element of `x`, whose leading dimensions are broadcast to `batch`."""
    shape = (*batch, *x.shape[max(x.ndim - 2, 0) :])
    return read_broadcast(x, shape, (*batch_i, *inner))
