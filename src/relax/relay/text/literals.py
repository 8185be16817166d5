"""Conversion between scalar constants and literals.

    True  1  -7i64  3u8  1f  2.5f16  -0f64  1e-05f  nanf  inff64  1bf16  3int4  1float8_e4m3fn

An integer without suffix is an int32, a number with a point or an exponent a float32; `f` is float32, `i` int32.
"""

from __future__ import annotations

import functools
import math
import re
from typing import Any, Final

import numpy as np

from ...expr import ConstantData
from ...ir import DataType
from ..expr import const

_NUMBER: Final = re.compile(r"(?P<digits>\d+(?P<real>(?:\.\d*)?(?:[eE][+-]?\d+)?))(?P<suffix>\D\w*)?", re.ASCII)
_SPECIAL: Final = re.compile(r"(?P<digits>inf|nan)(?P<suffix>(?:f|bf|bfloat|float)\w*)", re.ASCII)
_SHORT: Final = {"f": "float", "i": "int", "u": "uint", "bf": "bfloat"}
_SUFFIX: Final = re.compile(r"(f|i|u|bf)(\d*)")


def is_special(text: str) -> bool:
    """True for identifiers that are numbers: ``inff``, ``nanf64``."""
    return _SPECIAL.fullmatch(text) is not None


@functools.lru_cache(1024)
def read_number(text: str, negative: bool) -> ConstantData:
    """Scalar denoted by a number token.

    Raises ValueError for an unknown dtype and for a value out of range.
    """
    match = _NUMBER.fullmatch(text) or _SPECIAL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number")
    digits, suffix = match.group("digits"), match.group("suffix") or ""
    is_real = match.re is _SPECIAL or bool(match.group("real"))
    dtype = suffix_dtype(suffix, is_real)
    if not dtype.is_float and is_real:
        raise ValueError(f"{text!r} is a real number with the suffix of the dtype {dtype}")
    if len(digits) > 400:
        raise ValueError(f"a number has up to 400 digits, found {len(digits)}")
    value: float = float(digits) if dtype.is_float else int(digits)
    return const(-value if negative else value, str(dtype)).data


def suffix_dtype(suffix: str, is_real: bool) -> DataType:
    """Dtype denoted by a suffix. Raises ValueError for an unknown one."""
    if not suffix:
        return DataType("float32" if is_real else "int32")
    short = _SUFFIX.fullmatch(suffix)
    name = suffix if short is None else _SHORT[short[1]] + (short[2] or ("16" if short[1] == "bf" else "32"))
    dtype = DataType(name)
    if not dtype.is_scalar or not (dtype.is_float or dtype.is_integer):
        raise ValueError(f"{suffix!r} is not the dtype of a number")
    return dtype


def write_number(data: np.ndarray[Any, Any]) -> str | None:
    """Literal of a scalar, or None for a dtype without literals."""
    dtype = DataType(data.dtype.name)
    if dtype.is_bool:
        return "True" if data[()] else "False"
    if dtype.is_integer:
        return f"{int(data[()])}{'' if dtype == 'int32' else _suffix(dtype)}"
    if dtype.is_float:
        return _real(data, dtype)
    return None


def _real(data: np.ndarray[Any, Any], dtype: DataType) -> str:
    value = float(data[()])
    if math.isnan(value):
        digits = "nan"
    elif math.isinf(value):
        digits = "inf" if value > 0 else "-inf"
    else:
        # Shortest digits that round-trip for float32; values of narrower dtypes are exact in float64.
        digits = str(np.float32(value)) if dtype == "float32" else repr(value)
        digits = digits.removesuffix(".0")
    return digits + _suffix(dtype)


def _suffix(dtype: DataType) -> str:
    if dtype == "float32":
        return "f"
    short = {"float": "f", "int": "i", "uint": "u", "bfloat": "bf"}.get(dtype.code)
    return f"{short}{dtype.bits}" if short else str(dtype)
