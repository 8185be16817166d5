"""Struct info of Relay types: tensors and tuples, for operands of operators and for translated programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..ir import StructInfo
from ..prim import PrimExpr
from ..struct_info import TensorStructInfo, TupleStructInfo
from .types import Any as AnyDim
from .types import Dim, TensorType, TupleType, Type, TypeVar

Sizes: TypeAlias = Callable[[Dim], "PrimExpr | None"]
"""Maps a dimension to a size; None leaves the whole shape unknown."""


def struct_info_of(type_: Type, sizes: Sizes, other: Callable[[Type], StructInfo]) -> StructInfo:
    """Struct info of a type; `other` converts types other than tensors and tuples."""
    match type_:
        case TensorType(shape, dtype) if not isinstance(shape, TypeVar) and not isinstance(dtype, TypeVar):
            dims = [sizes(dim) for dim in shape]
            static = [dim for dim in dims if dim is not None]
            if len(static) < len(dims):
                return TensorStructInfo(ndim=len(dims), dtype=str(dtype))
            return TensorStructInfo(static, str(dtype))
        case TupleType(fields):
            return TupleStructInfo([struct_info_of(field, sizes, other) for field in fields])
        case _:
            return other(type_)


def as_size(dim: Dim) -> PrimExpr | None:
    """Convert a dimension to a Relax size; None for `Any`."""
    return None if isinstance(dim, AnyDim) else dim.astype("int64")
