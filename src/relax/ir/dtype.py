"""DataType: the scalar and vector types of the language (language.md §1).

A ``DataType`` *is* its canonical string, so ``x.dtype == "float32"`` reads naturally, hashing is free
and printing needs no table. The empty string is void: a dtype that is not known.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

_PATTERN: Final = re.compile(r"^(int|uint|float|bfloat|bool|handle)(\d*)(?:x(\d+))?$")
_SMALL_FLOATS: Final = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in (
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float4_e2m1fn",
    )
}
"""Floats of 8 and 4 bits, whose names are not a code followed by a number of bits."""
_SMALL_INTEGERS: Final = {name: np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "int4", "uint2", "uint4")}
_BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)


class DataType(str):
    """An element type with a number of lanes, in TVM's spelling.

    ``DataType("float32")``, ``DataType("int8x4")`` (a vector of four), ``DataType("bool")`` (alias ``uint1``),
    ``DataType("handle")``, ``DataType("")`` (void).

    Raises ValueError for an invalid name.
    """

    __slots__ = (
        "bits",
        "code",
        "is_bool",
        "is_float",
        "is_handle",
        "is_int",
        "is_integer",
        "is_scalar",
        "is_uint",
        "is_vector",
        "is_void",
        "lanes",
    )

    code: str
    """One of int, uint, float, bfloat, float8_*, float4_*, bool, handle, void."""
    bits: int
    lanes: int
    is_void: bool
    is_handle: bool
    is_bool: bool
    is_int: bool
    """True for signed integers."""
    is_uint: bool
    """True for unsigned integers, not for bool."""
    is_integer: bool
    """True for signed and unsigned integers, not for bool."""
    is_float: bool
    """True for all floating-point types, including bfloat16 and those of 8 and 4 bits."""
    is_scalar: bool
    is_vector: bool

    _interned: dict[str, DataType] = {}  # noqa: RUF012

    def __new__(cls, text: Any = "") -> DataType:
        if text.__class__ is cls:
            return text
        interned = cls._interned.get(text) if isinstance(text, str) else None
        if interned is not None:
            return interned
        spelling = _spelling_of(text)
        code, bits, lanes = _parse(spelling)
        canonical = _canonical(code, bits, lanes)
        result = cls._interned.get(canonical)
        if result is None:
            result = str.__new__(cls, canonical)
            result.code, result.bits, result.lanes = code, bits, lanes
            result.is_void, result.is_handle, result.is_bool = (code == "void", code == "handle", code == "bool")
            result.is_int, result.is_uint = code == "int", code == "uint"
            result.is_integer, result.is_float = code in ("int", "uint"), "float" in code
            result.is_scalar, result.is_vector = lanes == 1, lanes > 1
            cls._interned[canonical] = result
        cls._interned[spelling] = result
        return result

    def __reduce__(self) -> tuple[type[DataType], tuple[str]]:
        return DataType, (str(self),)

    @property
    def itemsize(self) -> int:
        """Size of an element in a tensor in bytes; a bool and elements of 2 or 4 bits take one byte."""
        return (self.bits + 7) // 8 * self.lanes

    def with_lanes(self, lanes: int) -> DataType:
        return DataType(_canonical(self.code, self.bits, lanes))

    @property
    def is_padded(self) -> bool:
        """True for elements of 2 or 4 bits, which take a whole byte in a tensor (`relax.runtime.dtypes`)."""
        return self.bits in (2, 4)

    @property
    def saturates(self) -> bool:
        """True for a float without infinity and NaN: overflow saturates to the greatest value."""
        return self.code == "float4_e2m1fn"

    @property
    def element_of(self) -> DataType:
        """The same type with one lane."""
        return self if self.lanes == 1 else self.with_lanes(1)

    def numpy(self) -> np.dtype[Any]:
        """NumPy (or ml_dtypes) type of one element. Raises TypeError for void and handle."""
        if self.code in _SMALL_FLOATS:
            return _SMALL_FLOATS[self.code]
        if self.code == "bfloat":
            return _BFLOAT16
        if self.code in ("void", "handle"):
            raise TypeError(f"dtype '{self}' has no NumPy equivalent")
        name = str(self.element_of)
        return _SMALL_INTEGERS.get(name) or np.dtype(name)

    @property
    def min_value(self) -> int | float:
        """Minimum value; -inf for floats with infinity."""
        return 0 if self.is_bool else _limits(self)[0]

    @property
    def max_value(self) -> int | float:
        """Maximum value; +inf for floats with infinity."""
        return 1 if self.is_bool else _limits(self)[1]

    @property
    def max_finite(self) -> float:
        """Maximum finite value of a floating-point type."""
        return _max_finite(self)


def _spelling_of(text: Any) -> str:
    if text is None:
        return ""
    if isinstance(text, str):
        return {"void": "", "f32": "float32", "f16": "float16", "f64": "float64"}.get(text, text)
    if not _is_of_numpy(text):
        return str(text)
    try:
        dtype: Any = np.dtype(text)
        return str(dtype.name)
    except TypeError:
        return str(text)


def _is_of_numpy(kind: Any) -> bool:
    """True for a dtype or a class. Older versions of NumPy convert any object with a dtype attribute."""
    return isinstance(kind, (type, np.dtype))


def _parse(text: str) -> tuple[str, int, int]:
    if text == "":
        return "void", 0, 0
    base, _, lanes = text.rpartition("x") if re.search(r"x\d+$", text) else (text, "", "1")
    if base in _SMALL_FLOATS and int(lanes) > 0:
        return base, 4 if base.startswith("float4") else 8, int(lanes)
    match = _PATTERN.match(text)
    if match is None:
        raise ValueError(f"unknown dtype {text!r}")
    code, bits_text, lanes_text = match.groups()
    bits = int(bits_text) if bits_text else {"bool": 1, "handle": 64}.get(code, 32)
    lanes = int(lanes_text) if lanes_text else 1
    if (code == "uint" and bits == 1) or (code == "bool" and bits in (1, 8)):
        return "bool", 1, lanes
    allowed = {
        "int": (1, 2, 4, 8, 16, 32, 64),
        "uint": (2, 4, 8, 16, 32, 64),
        "float": (16, 32, 64),
        "bfloat": (16,),
        "bool": (),
        "handle": (64,),
    }[code]
    if bits not in allowed or lanes < 1:
        raise ValueError(f"unknown dtype {text!r}")
    return code, bits, lanes


def _canonical(code: str, bits: int, lanes: int) -> str:
    if code == "void":
        return ""
    base = code if code in _SMALL_FLOATS or code in ("bool", "handle") else f"{code}{bits}"
    return base if lanes == 1 else f"{base}x{lanes}"


@functools.cache
def _limits(dtype: DataType) -> tuple[int | float, int | float]:
    if dtype.is_integer:
        signed = dtype.is_int
        top = (1 << (dtype.bits - signed)) - 1
        return (-top - 1 if signed else 0), top
    info: Any = cast(Any, ml_dtypes.finfo)(dtype.numpy())
    inf = np.array(np.inf, np.float64).astype(dtype.numpy())
    if np.isinf(inf.astype(np.float64)):
        return -np.inf, np.inf
    return float(info.min), float(info.max)


@functools.cache
def _max_finite(dtype: DataType) -> float:
    return float(cast(Any, ml_dtypes.finfo)(dtype.numpy()).max)
