"""Names of element types, and what NumPy and DLPack call them.

A dtype is a string everywhere in the runtime: ``"float32"``, ``"bool"``, ``"bfloat16"``, ``"float8_e4m3fn"``.
NumPy knows the unusual ones through ml_dtypes, DLPack as a (code, bits, lanes) triple.

Elements of 2 and 4 bits (``"int4"``, ``"uint4"``, ``"int2"``, ``"uint2"``, ``"float4_e2m1fn"``) are *padded*: each
takes a byte, in memory, in files and in NumPy (ml_dtypes). The bits are the lower ones; the upper ones are written as
0, and neither kernels nor ``NDArray.numpy`` read them. DLPack and tvm-ffi count such elements in their own bits: two
elements of an int4 tensor of stride 1 share a byte. So tensors here have strides of `stride_unit` times those of their
elements: of 2 for a compact int4 vector, whose elements are then those that DLPack means. A packed tensor (two int4 in
a byte) has stride 1 and is refused.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
import tvm_ffi

Array: TypeAlias = Any
"""A NumPy array. (Its own stubs leave element types unknown, which the strict type checker refuses.)"""

_FLOAT8: Final = {
    "float8_e3m4": 7,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 9,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
}

INTEGER_BITS: Final = (2, 4, 8, 16, 32, 64)

#: dtype name → (DLPack type code, bits)
DLPACK_CODES: Final[dict[str, tuple[int, int]]] = {
    **{f"int{bits}": (0, bits) for bits in INTEGER_BITS},
    **{f"uint{bits}": (1, bits) for bits in INTEGER_BITS},
    **{f"float{bits}": (2, bits) for bits in (16, 32, 64)},
    "bfloat16": (4, 16),
    "bool": (6, 8),
    **{name: (code, 8) for name, code in _FLOAT8.items()},
    "float4_e2m1fn": (17, 4),
}

#: dtype name → NumPy dtype
NUMPY_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    name: np.dtype(getattr(ml_dtypes, name, name)) for name in DLPACK_CODES
}

_OF_NUMPY: Final = {dtype: name for name, dtype in NUMPY_DTYPES.items()}
_ALIASES: Final = {"uint1": "bool", "int": "int64", "float": "float64"}


def canonical_dtype(dtype: object) -> str:
    """The runtime's name of a dtype given as a string, a NumPy dtype, a scalar type or a ``tvm_ffi.dtype``.

    Raises TypeError for a type tensors cannot have here (complex numbers, NumPy objects, vectors).
    """
    if isinstance(dtype, str):
        name = _ALIASES.get(dtype, str(dtype))
        if name in DLPACK_CODES:
            return name
        raise TypeError(f"unsupported dtype {dtype!r}; tensors hold {', '.join(DLPACK_CODES)}")
    try:
        numpy_dtype = np.dtype(dtype)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType]
    except TypeError:
        raise TypeError(f"{dtype!r} is not a dtype") from None
    return dtype_of_numpy(numpy_dtype)  # pyright: ignore[reportUnknownArgumentType]


def dtype_of_numpy(dtype: np.dtype[Any]) -> str:
    """The name of a NumPy dtype. Raises TypeError for one that tensors do not have: they are of native byte order."""
    name = _OF_NUMPY.get(dtype)
    if name is None:
        raise TypeError(f"unsupported NumPy dtype {dtype}; tensors hold {', '.join(DLPACK_CODES)}")
    return name


def itemsize(dtype: str) -> int:
    """Bytes of one element."""
    return max(DLPACK_CODES[dtype][1] // 8, 1)


def stride_unit(dtype: str) -> int:
    """The stride that DLPack has for neighbouring elements: 1; more where elements are padded to a byte."""
    return max(8 // DLPACK_CODES[dtype][1], 1)


def is_float(dtype: str) -> bool:
    """True if a dtype is a floating-point one, those of 8 and 4 bits included."""
    return "float" in dtype


def ffi_dtype(dtype: str) -> tvm_ffi.dtype:
    """The dtype as the value packed functions are given."""
    return tvm_ffi.dtype(dtype)
