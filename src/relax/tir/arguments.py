"""Arguments of a PrimFunc, checked against its parameters and bound to its variables.

The interpreter binds them here. Its messages are those of compiled functions (`relax.codegen`), word for word:

    matmul: argument B: dimension 0 is 783, expected n = 784 (n was bound by A, dimension 1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from ..prim import Add, BinaryExpr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr, Sub, Var, free_vars
from ..runtime.messages import ARGUMENT_DTYPE, ARGUMENT_RANK, IS, KIND, NO_NUMBER, NO_SIZE, TOO_NARROW
from ..runtime.rounding import round_number
from ..runtime.sizes import is_size
from .buffer import Buffer
from .evaluation import Env, View, flat_memory

Array = np.ndarray[Any, Any]
Bound = dict[Var, str]
"""The origin of each variable's value: ``A, dimension 1``."""

_KINDS: Final[dict[type, str]] = {
    type(None): "None",
    bool: "a bool",
    int: "an int",
    float: "a float",
    str: "a string",
    bytes: "bytes",
    np.ndarray: "a tensor",
    tuple: "a tuple",
    list: "a tuple",
    dict: "a dict",
}


def bind_scalar(name: str, param: Var, arg: Any) -> Any:
    """The checked value of a scalar argument. Raises TypeError for another kind, ValueError if it does not fit."""
    dtype, context = param.dtype, f"{name}: argument {param.name}"
    if dtype.is_handle:
        return arg
    if dtype.lanes > 1 and isinstance(arg, (tuple, list)):
        lanes = cast("Sequence[Any]", arg)
        if len(lanes) == dtype.lanes:
            lane = Var(param.name, dtype.element_of)
            return [bind_scalar(name, lane, part) for part in lanes]
    if isinstance(arg, np.generic):
        arg = cast(Any, arg).item()
    if not isinstance(arg, (int, float)) or (isinstance(arg, float) and not dtype.is_float):
        wanted = "a float" if dtype.is_float else "a bool" if dtype.is_bool else "an int"
        raise KIND(context=context, expected=wanted, found=_kind(arg))
    if dtype.is_float:
        return round_number(arg, dtype)
    if dtype.is_bool:
        return bool(arg)
    if not dtype.min_value <= arg <= dtype.max_value:
        raise NO_NUMBER(context=context, found=arg, dtype=dtype)
    if param.nonnegative and not is_size(int(arg)):
        raise NO_SIZE(context=context, place="the value", found=arg)
    return int(arg)


def _kind(arg: Any) -> str:
    kind = cast("type[Any]", type(arg))
    return _KINDS.get(kind, "a function" if callable(arg) else kind.__name__)


def bind_sizes(env: Env, bound: Bound, name: str, buffer: Buffer, arg: Any) -> None:
    """Check an array's dtype and rank, and bind what stands alone in the buffer's shape, strides and offset."""
    who = f"{name}: argument {buffer.name}"
    if not isinstance(arg, np.ndarray):
        raise KIND(context=who, expected="a tensor", found=_kind(arg))
    array = cast(Array, arg)
    if array.dtype != buffer.dtype.element_of.numpy():
        raise ARGUMENT_DTYPE(context=who, found=array.dtype, expected=buffer.dtype)
    lanes = (buffer.dtype.lanes,) if buffer.dtype.lanes > 1 else ()
    if array.ndim != len(buffer.shape) + len(lanes):
        raise ARGUMENT_RANK(context=who, found=array.ndim, expected=len(buffer.shape))
    steps = [stride // array.itemsize for stride in array.strides]
    for what, sizes, found in (
        ("dimension", buffer.shape, array.shape),
        ("stride of dimension", buffer.strides, steps),
    ):
        for axis, (size, value) in enumerate(zip(sizes, found, strict=False)):
            place = f"{what} {axis}"
            if isinstance(size, Var) and size not in env:
                if what == "dimension" and not is_size(int(value)):
                    raise NO_SIZE(context=who, place=place, found=value)
                if not size.dtype.min_value <= int(value) <= size.dtype.max_value:
                    variable, dtype = size.name, size.dtype
                    raise TOO_NARROW(context=who, place=place, found=value, variable=variable, dtype=dtype)
                env[size] = int(value)
                bound[size] = f"{buffer.name}, {place}"
    if isinstance(buffer.elem_offset, Var):
        env.setdefault(buffer.elem_offset, 0)


def bind_array(
    env: Env, bound: Bound, name: str, buffer: Buffer, array: Array, layout: Callable[[Env, Array], View]
) -> None:
    """Compare an array's dimensions with the buffer's, now that every size is bound, and bind the buffer."""
    memory = flat_memory(array, name, buffer.name, strided=bool(buffer.strides))
    try:
        view = layout(env, memory)
    except OverflowError as error:
        raise OverflowError(f"{name}: {error}") from None
    for axis, (expected, found) in enumerate(zip(view.shape, array.shape, strict=False)):
        if expected != found:
            wanted = _expected(buffer.shape[axis], expected, bound)
            context = f"{name}: argument {buffer.name}"
            raise IS(context=context, place=f"dimension {axis}", found=found, expected=wanted)
    env[buffer.data] = memory
    env[buffer] = view


def _expected(size: PrimExpr, value: int, bound: Bound) -> str:
    """``n * 4 = 8 (n was bound by A, dimension 0)``; of a constant, its value."""
    if isinstance(size, IntImm):
        return str(value)
    origins = (
        f"{var.name} was bound by {bound[var]}" if var in bound else f"{var.name} is an argument"
        for var in free_vars(size)
    )
    return f"{size_text(size)} = {value} ({'; '.join(origins)})"


_SYMBOLS: Final[dict[type, str]] = {Add: " + ", Sub: " - ", Mul: " * ", FloorDiv: " // ", FloorMod: " % "}


def size_text(expr: PrimExpr) -> str:
    """A size as messages at run time write it."""
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, IntImm):
        return str(expr.value)
    if isinstance(expr, (Min, Max)):
        return f"{type(expr).__name__.lower()}({size_text(expr.a)}, {size_text(expr.b)})"
    if isinstance(expr, BinaryExpr) and type(expr) in _SYMBOLS:
        sides = (f"({size_text(e)})" if type(e) in _SYMBOLS else size_text(e) for e in (expr.a, expr.b))
        return _SYMBOLS[type(expr)].join(sides)
    return f"{type(expr).__name__}(…)"


__all__ = ["Bound", "bind_array", "bind_scalar", "bind_sizes", "size_text"]
