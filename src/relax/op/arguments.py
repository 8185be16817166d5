"""Type aliases of operator arguments: values accepted as a tensor, a shape, a scalar.

`operands.as_argument` and `attributes` convert them. The stubs of the operators (`tools/make_stubs.py`) are written
with these names, so that an editor shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..ir import DataType, RelaxExpr, StructInfo
from ..prim import PrimExpr
from ..runtime import NDArray

TensorLike: TypeAlias = "RelaxExpr | np.ndarray[Any, Any] | np.generic | NDArray"
"""A tensor operand: an expression, or an array, which becomes a constant."""

ScalarLike: TypeAlias = "RelaxExpr | PrimExpr | int | float | np.number[Any] | np.bool_"
"""A scalar operand: an expression, a number, or a scalar expression over shape variables."""

ShapeLike: TypeAlias = "RelaxExpr | PrimExpr | int | Sequence[PrimExpr | int]"
"""A shape operand: an expression, or dimensions. A single dimension is a shape of rank 1."""

DimensionLike: TypeAlias = "PrimExpr | int | str"
"""A dimension in struct info; text is the name of a shape variable, or an expression over such names."""

TupleLike: TypeAlias = "RelaxExpr | Sequence[TensorLike | ScalarLike]"
"""A tuple operand: an expression, or the fields of a tuple."""

FunctionLike: TypeAlias = "RelaxExpr | str"
"""A function operand: a GlobalVar, an expression, or the name of a packed function."""

InfoLike: TypeAlias = "StructInfo | Sequence[StructInfo]"
"""Struct info of one result, or of several."""

DTypeLike: TypeAlias = "DataType | str | type[Any] | np.dtype[Any] | None"
"""A dtype or its name; None leaves it unspecified."""
