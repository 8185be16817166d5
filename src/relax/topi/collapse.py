"""The sum that reverses broadcasting: over the dimensions along which a shape would be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te
from ..ir import DataType
from ..prim import PrimExpr, Select, Verdict, const, is_const, prove_equal
from .broadcast import same_size
from .util import accumulator_dtype


def collapse_sum_to(data: te.Tensor, shape: Sequence[PrimExpr]) -> te.Tensor:
    """data summed to a shape that broadcasts to its own; booleans are counted in int64.

    Along a dimension that may or may not have been repeated, the reduction extent is chosen at run time: the whole
    dimension or one.
    """
    new = data.ndim - len(shape)
    dtype = DataType("int64") if data.dtype.is_bool else data.dtype
    wide = accumulator_dtype(dtype)
    one = const(1, "int64")
    extents: dict[int, PrimExpr] = {d: data.shape[d] for d in range(new)}
    for d, size in enumerate(shape, new):
        if is_const(size, 1) and not is_const(data.shape[d], 1):
            extents[d] = data.shape[d]
        elif not same_size(size, data.shape[d]) and prove_equal(size, one) is not Verdict.NO:
            extents[d] = Select(size.equal(1), data.shape[d], one)
    summed = {d: te.reduce_axis((0, extent), f"k{d}") for d, extent in extents.items()}

    def element(*i: Any) -> PrimExpr:
        index: list[Any] = []
        for d in range(data.ndim):
            if d not in summed:
                index.append(i[d - new])
            elif d < new or is_const(shape[d - new], 1):
                index.append(summed[d].var)
            else:
                index.append(Select(shape[d - new].equal(1), summed[d].var, i[d - new]))
        value = data(*index).astype(wide)
        return te.sum(value, axis=list(summed.values())) if summed else value

    total = te.compute(shape, element, "collapse_sum", tag="comm_reduce" if summed else "injective")
    if wide == dtype:
        return total
    return te.compute(shape, lambda *i: total(*i).astype(dtype), "collapse_sum_cast", tag="elemwise")


def collapse_sum_like(data: te.Tensor, collapse_target: te.Tensor) -> te.Tensor:
    """data summed to the shape of another tensor, which broadcasts to its own."""
    return collapse_sum_to(data, collapse_target.shape)
