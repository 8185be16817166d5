"""Torch dtypes: names, and type promotion."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from ...ir import DataType
from ...runtime.records import dataclass

_PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


@dataclass(frozen=True)
class Operand:
    """An operand of an operator, as far as promotion asks: numbers of Python count less than tensors."""

    dtype: str
    has_dims: bool
    is_number: bool = False


def dtype_name(dtype: Any) -> str:
    """The name of a dtype of torch; of complex numbers that of their real and imaginary parts."""
    name = str(dtype).removeprefix("torch.")
    return _PARTS.get(name, name)


def promoted_dtype(operands: Sequence[Operand]) -> str:
    """The dtype of the result of an operator: that of tensors, then of those without dimensions, then of numbers.

    An operand that counts less decides where it is of a higher category (bool, integer, float).
    """
    groups = (
        [o.dtype for o in operands if o.has_dims],
        [o.dtype for o in operands if not o.has_dims and not o.is_number],
        [o.dtype for o in operands if o.is_number],
    )
    kinds = [reduce(_joined, group) for group in groups if group]
    return reduce(_combined, kinds)


def _combined(first: str, second: str) -> str:
    return _joined(first, second) if _category(first) < _category(second) else first


def _category(dtype: str) -> int:
    kind = DataType(dtype)
    return 2 if kind.is_float else 0 if kind.is_bool else 1


def _joined(a: str, b: str) -> str:
    """The dtype that holds both, as torch has it."""
    if a == b:
        return a
    if _category(a) != _category(b):
        return max(a, b, key=_category)
    x, y = DataType(a), DataType(b)
    if x.is_float:
        return "float32" if x.bits == y.bits else a if x.bits > y.bits else b
    if x.is_uint == y.is_uint:
        return a if x.bits > y.bits else b
    signed, unsigned = (y, x) if x.is_uint else (x, y)
    return str(signed) if signed.bits > unsigned.bits else f"int{min(2 * unsigned.bits, 64)}"
