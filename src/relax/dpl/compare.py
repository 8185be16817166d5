"""Comparisons for patterns: dimensions by proof, attributes by value or structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..ir import DataType, Node, RelaxExpr, structural_equal
from ..prim import PrimExpr, Verdict, prove_shape_equal
from ..struct_info import ShapeStructInfo, TensorStructInfo


def dims_of(expr: RelaxExpr) -> Sequence[PrimExpr] | None:
    """Dimensions of a tensor or a shape, None if unknown."""
    match expr.struct_info_:
        case TensorStructInfo() as info:
            return info.dims
        case ShapeStructInfo() as info:
            return info.values
        case _:
            return None


def same_dims(expected: Sequence[PrimExpr], dims: Sequence[PrimExpr] | None) -> bool:
    """True if dimensions are proved equal to the expected ones."""
    if dims is None or len(dims) != len(expected):
        return False
    return prove_shape_equal(expected, dims) is Verdict.YES


def same_attr(expected: Any, actual: Any) -> bool:
    """True if an attribute's value equals the expected one."""
    if isinstance(actual, DataType):
        return actual == expected
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        first, second = cast("Sequence[Any]", expected), cast("Sequence[Any]", actual)
        return len(first) == len(second) and all(map(same_attr, first, second))
    if isinstance(expected, Node) or isinstance(actual, Node):
        return structural_equal(expected, actual)
    return bool(np.all(expected == actual))
