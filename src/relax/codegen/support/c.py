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
    """C functions as attributes."""

    def __getattr__(self, name: str) -> Callable[..., Call]:
        function = C_FUNCTIONS.get(name)
        if function is None:
            raise AttributeError(f"the C function {name} is not described")
        return lambda *args: call_extern(str(function.dtype), name, *map(pointers, args))


C: Final = _CFunctions()
NULL: Final = reinterpret("handle", convert(0).astype("int64"))
"""The null pointer."""


def called(function: PrimFunc, *args: Any) -> Call:
    """Call of a plain function."""
    values = [convert(pointers(arg)) for arg in args]
    return call_extern(str(function.ret_type or ""), str(function.attrs["global_symbol"]), *values)


def u64(value: Any) -> PrimExpr:
    """An integer as one of 64 bits without sign."""
    return Cast("uint64", convert(value))


def udiv(a: Any, b: Any) -> PrimExpr:
    """Quotient of two int64 taken as unsigned."""
    return Cast("int64", Div(u64(a), u64(b)))


def umod(a: Any, b: Any) -> PrimExpr:
    """Remainder of two int64 taken as unsigned."""
    return Cast("int64", Mod(u64(a), u64(b)))


def is_size(value: Any, limit: int) -> PrimExpr:
    """True for an int64 that is at least 0 and less than `limit`."""
    return u64(value) < u64(limit)


def address(pointer: Any) -> PrimExpr:
    """A pointer as a number."""
    return reinterpret("int64", pointers(pointer))


def pointer(number: Any) -> PrimExpr:
    """A number as a pointer."""
    return reinterpret("handle", convert(number))
