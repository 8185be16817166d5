"""Conversion of numbers to floating-point dtypes, rounded once: to nearest, ties to even.

NumPy and ml_dtypes convert float64 and 64-bit integers to the 16- and 8-bit floats by way of float32, which rounds
twice: 1 + 2⁻⁸ + 2⁻³⁰ becomes 1 + 2⁻⁸ and then, a tie by now, the bfloat16 1. Rounding the first time *to odd* (an
inexact result takes the neighbour whose last bit is 1) keeps what is beside a tie beside it, so that the second
rounding is right (S. Boldo and G. Melquiond, *Emulation of a FMA and correctly rounded sums*, 2008).

Beyond the greatest finite value is what the dtype has for overflow, infinity or NaN. float8_e8m0fnu holds only powers
of two: halves go up, a positive number below the least is the least, and zero and negative numbers are NaN.
float4_e2m1fn has neither infinity nor NaN: greater numbers become the greatest, and NaN becomes 0.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import ml_dtypes
import numpy as np

from .dtypes import NUMPY_DTYPES, Array, is_float
from .records import dataclass

Number: TypeAlias = "int | float"


def round_number(value: Number, dtype: str) -> float:
    """The value of a floating-point dtype nearest to a number, as a Python float.

    Raises OverflowError for an integer that no float64 holds.
    """
    return rounder(dtype)(_as_float(value, dtype) if isinstance(value, int) else value)


def _as_float(value: int, dtype: str) -> float:
    """An integer as a float64; of more than 53 digits, rounded to odd unless float64 is the dtype that is meant."""
    extra = value.bit_length() - 53
    if extra > 0 and dtype != "float64":
        magnitude = abs(value)
        kept = magnitude >> extra
        kept |= (kept << extra) != magnitude
        value = (kept if value > 0 else -kept) << extra
    return float(value)


@functools.cache
def rounder(dtype: str) -> Callable[[float], float]:
    """The function that rounds a Python float to a floating-point dtype."""
    if dtype == "float64":
        return float
    if dtype == "float8_e8m0fnu":
        return _round_to_power
    if dtype == "float32":
        return _round_to_float32
    form = _format(dtype)

    def rounded(value: float) -> float:
        if not abs(value) < 2 * form.greatest:
            return form.overflow(value) if value == value else form.nan
        exponent = max(math.frexp(value)[1] - form.digits, form.least)
        result = math.ldexp(round(math.ldexp(value, -exponent)), exponent)
        if abs(result) > form.greatest:
            return form.overflow(value)
        return math.copysign(result, value) if result or form.negative_zero else 0.0

    return rounded


def _round_to_float32(value: float) -> float:
    return ctypes.c_float(value).value


@dataclass(frozen=True)
class _Format:
    digits: int
    """Binary digits of a normal number."""
    least: int
    """The exponent of the least positive value, which is the step of all subnormal ones."""
    greatest: float
    infinity: float
    """The value of greater numbers: infinity or NaN; the greatest itself if there is neither."""
    nan: float
    """The value of NaN: 0 if there is no NaN."""
    negative_zero: bool

    def overflow(self, value: float) -> float:
        return math.copysign(self.infinity, value)


@functools.cache
def _format(dtype: str) -> _Format:
    kind = NUMPY_DTYPES[dtype]
    info = cast("Any", ml_dtypes.finfo)(kind)
    zero, infinity = np.array([-0.0, np.inf], np.float32).astype(kind).astype(np.float64)
    return _Format(
        digits=int(info.nmant) + 1,
        least=math.frexp(float(info.smallest_subnormal))[1] - 1,
        greatest=float(info.max),
        infinity=float(infinity),
        nan=0.0 if infinity == info.max else math.nan,
        negative_zero=bool(np.signbit(zero)),
    )


def _round_to_power(value: float) -> float:
    """`value` as a float8_e8m0fnu."""
    if not 0 < value < math.inf:
        return math.nan
    mantissa, exponent = math.frexp(value)
    exponent = max(exponent - (mantissa < 0.75), -127)
    return math.ldexp(1.0, exponent) if exponent < 128 else math.nan


# ------------------------------------------------------------------------------------------------ arrays


def convert_array(array: Array, dtype: str | np.dtype[Any]) -> Array:
    """A copy of the array with its elements converted as ``astype`` does, but rounded only once."""
    target = NUMPY_DTYPES[dtype] if isinstance(dtype, str) else dtype
    name = str(target.name)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    if array.dtype == object and is_float(name):
        return _convert_objects(array, name)
    with np.errstate(all="ignore"):
        if target != array.dtype and target.isbuiltin == array.dtype.isbuiltin == 2:
            # ml_dtypes has no casts between some of its dtypes; float32 holds the values of all.
            array = array.astype(np.float32)
        if target == array.dtype or not _rounds_twice(array.dtype, name):
            return array.astype(target)
        if name == "float4_e2m1fn":
            array = cast("Array", np.where(array != array, np.zeros_like(array), array))
        single = _round_to_odd(_as_float64(array))
        if name == "float8_e8m0fnu":
            # ml_dtypes takes what lies between the two least powers for the greater one.
            single = np.where((single > 0) & (single < 1.5 * 2.0**-127), np.float32(2.0**-127), single)
        return single.astype(target)


def exact_array(source: Any) -> Array:
    """Return NumPy's array of nested lists of numbers, with dtype object where NumPy would round integers."""
    array: Array = np.asarray(source)
    if isinstance(source, list | tuple) and array.dtype == np.float64 and (np.abs(array) > 2**53).any():
        return np.array(source, object)
    return array


def _convert_objects(array: Array, dtype: str) -> Array:
    """Convert an object array of Python numbers, as used for integers beyond 64 bits."""
    result: Array = np.empty(array.shape, NUMPY_DTYPES[dtype])
    result.ravel()[:] = [
        round_number(value if isinstance(value, int) else float(value), dtype) for value in array.ravel()
    ]
    return result


def _rounds_twice(source: np.dtype[Any], dtype: str) -> bool:
    """True if ``astype`` rounds twice, or wrongly."""
    if dtype in ("float8_e8m0fnu", "float4_e2m1fn"):
        return True
    small = dtype == "bfloat16" or dtype.startswith("float8")
    return small and source.kind in "fiu" and source.itemsize > 2


def _as_float64(array: Array) -> Array:
    """Numbers as float64; integers of more than 53 digits rounded to odd (and to fewer digits, of 43 at least)."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8:
        return array.astype(np.float64)
    lost = (array & 0x7FF) != 0
    cut = (array & ~array.dtype.type(0x7FF)) | (lost.astype(array.dtype) << 11)
    low, high = (-(2**53) if array.dtype.kind == "i" else 0), 2**53
    return cast("Array", np.where((array >= low) & (array <= high), array, cut)).astype(np.float64)


def _round_to_odd(wide: Array) -> Array:
    """float64 as float32: where inexact, the neighbour whose last bit is 1."""
    single: Array = wide.astype(np.float32)
    back = single.astype(np.float64)
    bits = single.view(np.int32) - (np.abs(back) > np.abs(wide))
    odd: Array = (bits | 1).view(np.float32)
    return cast("Array", np.where((back != wide) & ~np.isnan(wide), odd, single))
