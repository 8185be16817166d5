"""C functions, numbers and pointers in the scripts of support code.

memory = C.malloc(size)          a call of a C function that is described in `relax.target.c_functions`
udiv(a, b)                       an expression that is built while the script is read
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...prim import Call, Cast, Div, Mod, PrimExpr, convert
from ...prim.intrin import call_extern, reinterpret
from ...script.parser.tir.buffers import pointers
from ...target.c_functions import C_FUNCTIONS
from ...tir import PrimFunc


class _CFunctions:
    """Namespace whose attributes are the C functions."""

    def __getattr__(self, name: str) -> Callable[..., Call]:
        function = C_FUNCTIONS.get(name)
        if function is None:
            raise AttributeError(f"the C function {name} is not described")
        return lambda *args: call_extern(str(function.dtype), name, *map(pointers, args))


C: Final = _CFunctions()
NULL: Final = reinterpret("handle", convert(0).astype("int64"))
"""The null pointer."""


def called(function: PrimFunc, *args: Any) -> Call:
    """Return a call of a plain function."""
    values = [convert(pointers(arg)) for arg in args]
    return call_extern(str(function.ret_type or ""), str(function.attrs["global_symbol"]), *values)


def u64(value: Any) -> PrimExpr:
    """Reinterpret an integer as uint64."""
    return Cast("uint64", convert(value))


def udiv(a: Any, b: Any) -> PrimExpr:
    """Return the quotient of two int64 as unsigned integers."""
    return Cast("int64", Div(u64(a), u64(b)))


def umod(a: Any, b: Any) -> PrimExpr:
    """Return the remainder of two int64 as unsigned integers."""
    return Cast("int64", Mod(u64(a), u64(b)))


def is_size(value: Any, limit: int) -> PrimExpr:
    """Return the condition 0 ≤ `value` < `limit` for an int64."""
    return u64(value) < u64(limit)


def address(pointer: Any) -> PrimExpr:
    """Convert a pointer to its address as int64."""
    return reinterpret("int64", pointers(pointer))


def pointer(number: Any) -> PrimExpr:
    """Convert an address to a pointer."""
    return reinterpret("handle", convert(number))
