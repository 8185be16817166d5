"""``T.int32``, ``T.float16``, ``T.bool``, ``T.handle``: annotations, constants, casts and new variables.

n: T.int64                  a parameter
n = T.int64()               a new variable
T.float32(1)  T.float32(x)  a constant, a cast
"""

from __future__ import annotations

import math
from typing import Any

from ....ir import DataType
from ....prim import Cast, FloatImm, IntImm, PrimExpr, SizeVar, Var, const, convert
from ....tir.buffer import Broadcast

_SMALL_FLOATS = (
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
)  # fmt: skip

DTYPE_NAMES: tuple[str, ...] = (
    "int2", "int4", "int8", "int16", "int32", "int64", "uint2", "uint4", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "bfloat16", "bool", *_SMALL_FLOATS,
)  # fmt: skip


class DtypeName:
    """A dtype's name in the namespace `T`."""

    def __init__(self, dtype: str) -> None:
        self.dtype = DataType(dtype)

    def __call__(self, expr: Any = None, is_size_var: bool = False) -> PrimExpr:
        """Create a variable; from a number, a constant; from an expression, its conversion."""
        dtype = self.dtype
        if expr is None:
            return SizeVar("", dtype) if is_size_var else Var("", dtype)
        if isinstance(expr, str):
            expr = _number(expr)
        if not isinstance(expr, PrimExpr) and not hasattr(expr, "asobject"):
            kind = dtype.element_of
            value = FloatImm(kind, expr) if kind.is_float else const(expr, kind)
            return value if dtype.lanes == 1 else Broadcast(value, dtype.lanes)
        value = convert(expr)
        if isinstance(value, (IntImm, FloatImm)):
            return FloatImm(dtype, value.value) if dtype.is_float else const(value.value, dtype)
        return value if value.dtype == dtype else Cast(dtype, value)

    def __repr__(self) -> str:
        return f"T.{self.dtype}"


def _number(text: str) -> float:
    values = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
    if text not in values:
        raise ValueError(f"{text!r} is no number; the names are 'inf', '-inf' and 'nan'")
    return values[text]


class HandleName:
    """``T.handle``: a pointer."""

    dtype = DataType("handle")

    def __call__(self, dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False) -> Var:
        """Create a pointer variable; `dtype` and `storage_scope` describe its target."""
        return Var("", "handle")

    def __repr__(self) -> str:
        return "T.handle"


handle = HandleName()


def var(dtype: str, name: str = "") -> Var:
    """A new variable."""
    return Var(name, dtype)


def size_var(dtype: str = "int32", name: str = "") -> Var:
    """A new variable known to be ≥ 0."""
    return SizeVar(name, dtype)


class PtrName:
    """``T.Ptr[T.float32]``, ``T.ptr("float32")``: a pointer. The element type is informational only."""

    def __call__(self, dtype: Any, storage_scope: str = "global", is_size_var: bool = False) -> Var:
        return Var("", "handle")

    def __getitem__(self, dtype: Any) -> Var:
        return Var("", "handle")

    def __repr__(self) -> str:
        return "T.Ptr"


ptr = PtrName()


def dtype_member(name: str) -> DtypeName | None:
    """Dtype of this name, vectors included (``int32x4``); None if there is none."""
    if name == "boolean":
        name = "bool"
    if name.split("x")[0] in DTYPE_NAMES or name.rpartition("x")[0] in DTYPE_NAMES:
        try:
            return DtypeName(name)
        except ValueError:
            return None
    return None


def cast_(value: Any, dtype: str) -> PrimExpr:
    """`value` converted to `dtype`."""
    return DtypeName(dtype)(value)


def cast_node(dtype: str, value: Any) -> PrimExpr:
    """A Cast node, without folding."""
    return Cast(DataType(dtype), convert(value))


__all__ = [
    "DTYPE_NAMES", "DtypeName", "HandleName", "cast_", "cast_node", "dtype_member", "handle", "ptr",
    "size_var", "var",
]  # fmt: skip
