"""Python numbers among the operands: each becomes a constant of the dtype of the operands beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..expr import Constant
from ..ir import DataType, RelaxExpr
from ..runtime.rounding import round_number
from ..struct_info import PrimStructInfo, TensorStructInfo
from .errors import DTYPES, OPERANDS, OperatorError
from .known import known_struct_info


def literals_like(arguments: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Convert Python numbers among the arguments to constants of the other operands' dtype.

    Raises OperatorError if all arguments are numbers, the dtype is unknown, or a number does not fit it.
    """
    given = [_constant(argument) for argument in arguments]
    if not any(_is_number(argument) for argument in given):
        return given
    operands = [(argument, name) for argument, name in zip(given, names, strict=False) if not _is_number(argument)]
    if not operands:
        raise OperatorError(OPERANDS, "one operand must be a tensor", hint="write relax.const(value, dtype)")
    dtype = next((d for d in (_dtype_of(argument) for argument, _ in operands) if not d.is_void), DataType(""))
    return [
        number_as(argument, dtype, name, operands[0][1]) if _is_number(argument) else argument
        for argument, name in zip(given, names, strict=False)
    ] + given[len(names) :]


def number_as(value: float, dtype: DataType, name: str, other: str) -> Constant:
    """Convert a Python number to a constant of the dtype of operand `other`. Raises OperatorError if it does not
    fit.
    """
    if dtype.is_void:
        raise OperatorError(
            DTYPES,
            f"{name} is the number {value!r}, and the dtype of {other} is not known",
            hint=f"write relax.const({value!r}, dtype), or match_cast {{{other}}}",
        )
    if not _fits(value, dtype):
        raise OperatorError(
            DTYPES,
            f"{name} is the number {value!r}, which {other}'s dtype {dtype!s} does not hold",
            hint=f"cast {{{other}}} first, or write relax.const({value!r}, dtype)",
        )
    if dtype.is_float:
        value = round_number(value, dtype)
    return Constant(np.array(value, np.float64 if dtype.is_float else dtype.numpy()).astype(dtype.numpy()))


def _fits(value: float, dtype: DataType) -> bool:
    if isinstance(value, bool):
        return True
    if dtype.is_bool:
        return False
    if dtype.is_integer:
        return isinstance(value, int) and dtype.min_value <= value <= dtype.max_value
    if isinstance(value, int) and abs(value) > np.finfo(np.float64).max:
        return False
    if dtype.saturates:
        return abs(value) <= dtype.max_finite
    return math.isfinite(round_number(value, dtype)) or not math.isfinite(value)


def _constant(argument: Any) -> Any:
    """Convert a NumPy scalar, which has a dtype of its own, to a constant; return other values unchanged."""
    return Constant(argument) if isinstance(argument, np.generic) else argument  # type: ignore[reportUnknownVariableType]


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def _dtype_of(argument: Any) -> DataType:
    if isinstance(argument, np.ndarray):
        return DataType(argument.dtype.name)  # type: ignore[reportUnknownMemberType]
    info = known_struct_info(argument) if isinstance(argument, RelaxExpr) else None
    return info.dtype if isinstance(info, (TensorStructInfo, PrimStructInfo)) else DataType("")
