"""Element types in registers and in memory.

    dtype                  register        memory
    bool                   i1              i8 (0 or 1; any other byte reads as true)
    int2, int4, uint2, …   i2, i4          i8 (the upper bits are 0, and ignored when read)
    int8 … uint64          i8 … i64        the same
    float32, float64       float, double   the same
    float16, bfloat16      float           i16: the bits
    float8_*               float           i8: the bits
    float4_e2m1fn          float           i8, as of int4
    handle                 ptr             ptr

A small float is *held* in a float of exactly its value; every operation computes in float32 and rounds the result
(correctly, since float32 has more than twice the digits plus two). Results are therefore the same on every machine,
with or without native arithmetic of the type.
"""

from __future__ import annotations

from typing import Final

from ..ir import DataType, Diagnostic, DiagnosticError
from .builder import vector

_REGISTER: Final = {"bool": "i1", "float32": "float", "float64": "double", "handle": "ptr"}
_INTEGER_BITS: Final = (2, 4, 8, 16, 32, 64)


def is_small_float(dtype: DataType) -> bool:
    """True if a dtype is held in a float of higher precision."""
    return dtype.is_float and dtype.bits < 32


def is_small_integer(dtype: DataType) -> bool:
    """True if a dtype is an integer with fewer bits than its byte in memory."""
    return dtype.is_integer and dtype.is_padded


_HINT = "integers of 2, 4 and 8 to 64 bits, floats of 4 to 64 bits and bool have code"


MAX_LANES: Final = 1024
"""Maximum vector length: LLVM's time grows with it, and LLVM fails above 65,535 lanes."""


def check_lanes(dtype: DataType) -> None:
    """Raise DiagnosticError for a vector that is too long."""
    if dtype.lanes > MAX_LANES:
        message = f"there is no code for vectors of {dtype.lanes} lanes"
        raise DiagnosticError(
            Diagnostic("E5901", message, hint=f"vectors have at most {MAX_LANES} lanes; write a loop")
        )


def element_type(dtype: DataType) -> str:
    """LLVM type of one lane in a register. Raises DiagnosticError for an unsupported dtype."""
    check_lanes(dtype)
    if dtype.is_integer and dtype.bits in _INTEGER_BITS:
        return f"i{dtype.bits}"
    if is_small_float(dtype):
        return "float"
    found = _REGISTER.get(dtype.element_of) if not dtype.is_void else None
    if found is None:
        raise DiagnosticError(
            Diagnostic("E5901", f"there is no code for values of dtype {str(dtype) or 'void'!r}", hint=_HINT)
        )
    return found


def register_type(dtype: DataType) -> str:
    """LLVM type of a value in a register, vectors included."""
    return vector(element_type(dtype), max(dtype.lanes, 1))


def memory_element(dtype: DataType) -> str:
    """LLVM type of one lane in memory."""
    if dtype.is_bool or is_small_integer(dtype):
        return "i8"
    if is_small_float(dtype):
        return f"i{max(dtype.bits, 8)}"
    return element_type(dtype)


def memory_type(dtype: DataType) -> str:
    """LLVM type of a value in memory, vectors included."""
    return vector(memory_element(dtype), max(dtype.lanes, 1))


#: dtype code → DLPack type code
_DLPACK: Final = {
    "int": 0, "uint": 1, "float": 2, "handle": 3, "bfloat": 4, "bool": 6, "float8_e3m4": 7, "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12,
    "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14, "float6_e2m3fn": 15, "float6_e3m2fn": 16, "float4_e2m1fn": 17,
}  # fmt: skip


def dlpack_code(dtype: DataType) -> tuple[int, int]:
    """DLPack's type code and number of bits of one element; a bool has eight bits."""
    return _DLPACK[dtype.code], 8 if dtype.is_bool else dtype.bits


#: How the name of a dtype is made of its bits (printf), by DLPack type code; for messages at run time.
DTYPE_FORMATS: Final = (
    "int%d", "uint%d", "float%d", "handle", "bfloat%d", "complex%d", "bool", *list(_DLPACK)[6:],
)  # fmt: skip
