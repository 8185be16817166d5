"""``x.shape[0]``, ``x.dtype``, ``x.ndim``, ``x.strides[0]`` of tensors in a script, as far as known at parse time."""

from __future__ import annotations

from typing import Any

from ....ir import RelaxExpr
from ....op.known import known_struct_info
from ....prim import PrimExpr, const, is_const
from ....struct_info import ShapeStructInfo, TensorStructInfo

TENSOR_FACTS = frozenset({"byte_offset", "dtype", "elem_offset", "ndim", "shape", "strides"})
"""Attributes that a tensor has in a script."""


def tensor_fact(value: RelaxExpr, name: str) -> Any:
    """Value of one of TENSOR_FACTS of a tensor, or the `ndim` of a shape. Raises TypeError if it is unknown."""
    info = known_struct_info(value)
    if isinstance(info, ShapeStructInfo) and name == "ndim" and info.ndim != -1:
        return info.ndim
    if not isinstance(info, TensorStructInfo):
        raise TypeError(f"`{name}` is known of tensors only; match_cast the value to R.Tensor(...)")
    if name == "dtype" and not info.dtype.is_void:
        return info.dtype
    if name == "ndim" and info.ndim != -1:
        return info.ndim
    if name in ("byte_offset", "elem_offset"):
        return const(0, "int64")
    if name in ("shape", "strides") and info.dims is not None:
        return info.dims if name == "shape" else _strides(info.dims)
    raise TypeError(f"the `{name}` of this tensor is not known here; match_cast it to what it is")


def _strides(dims: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    """Strides of a compact tensor: products of the following dimensions, in elements."""
    strides: list[PrimExpr] = []
    step: PrimExpr = const(1, "int64")
    for dim in reversed(dims):
        strides.append(step)
        step = dim if is_const(step, 1) else step * dim
    return tuple(reversed(strides))


__all__ = ["TENSOR_FACTS", "tensor_fact"]
