"""Checking values against annotations, and binding the shape variables in them (language.md §7.1).

Every check is given a context, the text its messages begin with: the function and what is checked, such as
``main: parameter w`` or ``main: match_cast of y``. Kinds and dtypes that are wrong are TypeErrors, ranks,
dimensions, lengths and values ValueErrors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import tvm_ffi

from .builtin_table import Effects, builtin
from .closure import Closure
from .devices import Device, is_cpu
from .heap import ShapeHeap
from .info import FuncInfo, mismatch, substitute
from .info_text import parse_info
from .messages import DEVICE, DIMENSIONS, DTYPE, IS, KIND, LENGTH, NO_SIZE, NO_TUPLE, RANK, SCALAR
from .sizes import is_size, shape_value
from .values import describe_shape, is_tuple, kind_of, prim_fits

ASSERT_IMM: Final = 0
"""The dimension equals the immediate value."""
STORE: Final = 1
"""Store the dimension into the slot."""
IGNORE: Final = 2
"""Any dimension will do."""
ASSERT_SLOT: Final = 3
"""The dimension equals what is in the slot."""
STORE_SIZE: Final = 4
"""Store a scalar that stands for a dimension elsewhere: it must be one that a dimension may be."""

USE_IMM: Final = 0
"""A dimension of a new shape is the immediate value."""
LOAD_SLOT: Final = 1
"""A dimension of a new shape is what is in the slot."""


@builtin("vm.builtin.check_tensor_info", pure=False, device=4)
def check_tensor_info(
    value: Any, ndim: int, dtype: str | None, context: str, device: Device | None = None
) -> None:
    """A tensor, of `ndim` dimensions (-1: any), of `dtype` (None or "": any), on `device` (None: on the host)."""
    if not isinstance(value, tvm_ffi.Tensor):
        raise KIND(context=context, expected="a tensor", found=kind_of(value))
    if ndim >= 0 and value.ndim != ndim:
        raise RANK(context=context, expected=ndim, found=value.ndim, shape=value.shape)
    if dtype and value.dtype != dtype:
        raise DTYPE(context=context, expected=dtype, found=value.dtype)
    place = value.device
    if place != device if device is not None else not is_cpu(place):
        raise DEVICE(context=context, expected=device or "cpu", found=place)


@builtin("vm.builtin.check_shape_info", pure=False)
def check_shape_info(value: Any, ndim: int, context: str) -> None:
    """A shape value, of `ndim` dimensions (-1: any)."""
    if not isinstance(value, tvm_ffi.Shape):
        raise KIND(context=context, expected="a shape", found=kind_of(value))
    if ndim >= 0 and len(value) != ndim:
        raise DIMENSIONS(context=context, expected=ndim, found=len(value), shape=describe_shape(value))


@builtin("vm.builtin.check_prim_value_info", pure=False)
def check_prim_value_info(value: Any, dtype: str, context: str) -> None:
    """A scalar of `dtype`."""
    if not isinstance(value, bool | int | float) or not prim_fits(value, dtype):
        article = "an" if dtype.startswith("int") else "a"
        raise SCALAR(context=context, article=article, expected=dtype, found=kind_of(value))


@builtin("vm.builtin.check_tuple_info", pure=False)
def check_tuple_info(value: Any, length: int, context: str) -> None:
    """A tuple of `length` fields. The null object, which a Python function without a result returns, is unit."""
    if length == 0 and value is None:
        return
    if not is_tuple(value) or len(value) != length:
        message = LENGTH if is_tuple(value) else NO_TUPLE
        raise message(context=context, expected=length, found=kind_of(value))


@builtin("vm.builtin.check_func_info", pure=False, closures=True)
def check_func_info(value: Any, heap: ShapeHeap | int | None, info: str, context: str) -> None:
    """A function that can serve as the FuncInfo of that text, whose slots are read from the heap, if any."""
    expected = cast("FuncInfo", parse_info(info))
    if isinstance(heap, ShapeHeap):
        expected = cast("FuncInfo", substitute(expected, {}, heap.value))
    check_function(value, expected, context)


def check_function(value: Any, expected: FuncInfo, context: str) -> None:
    """A function that can serve as what is expected: a packed function, or a Relax function that fits."""
    if expected.params is None:
        if isinstance(value, Closure) or not isinstance(value, tvm_ffi.Function):
            raise KIND(context=context, expected="a packed function", found=kind_of(value))
        return
    if not isinstance(value, Closure):
        raise KIND(context=context, expected="a Relax function", found=kind_of(value))
    why = None if value.info is None else mismatch(value.info, expected)
    if why is not None:
        raise TypeError(f"{context}: the function {value.name} does not fit: {why}")


@builtin("vm.builtin.match_shape", Effects(writes=(1,)), pure=False)
def match_shape(value: Any, heap: ShapeHeap | None, ndim: int, *codes_and_context: Any) -> None:
    """Match the dimensions of a tensor or shape, one (code, value) pair each, then the context.

    The pairs are (ASSERT_IMM, number), (STORE, slot), (IGNORE, 0) and (ASSERT_SLOT, slot).
    """
    context: str = codes_and_context[-1]
    dims: Sequence[int] = value.shape if isinstance(value, tvm_ffi.Tensor) else value
    if len(dims) != ndim:
        raise RANK(context=context, expected=ndim, found=len(dims), shape=describe_shape(dims))
    for axis in range(ndim):
        code, operand = codes_and_context[2 * axis], codes_and_context[2 * axis + 1]
        found, place = dims[axis], f"dimension {axis}"
        if code == ASSERT_SLOT:
            if found != _slots(heap)[operand]:
                expected = ShapeHeap.over(heap).expected(operand)
                raise IS(context=context, place=place, found=found, expected=expected)
        elif code == STORE:
            if not is_size(found):
                raise NO_SIZE(context=context, place=place, found=found)
            _slots(heap)[operand] = found
        elif code == ASSERT_IMM and found != operand:
            raise IS(context=context, place=place, found=found, expected=operand)


@builtin("vm.builtin.match_shape_value", pure=False)
def match_shape_value(value: Any, shape: Any, context: str) -> None:
    """Match all the dimensions of a tensor or shape against a shape value."""
    dims: Sequence[int] = value.shape if isinstance(value, tvm_ffi.Tensor) else value
    if tuple(dims) != tuple(shape):
        expected = describe_shape(shape)
        raise IS(context=context, place="the shape", found=describe_shape(dims), expected=expected)


@builtin("vm.builtin.match_prim_value", Effects(writes=(1,)), pure=False)
def match_prim_value(value: Any, heap: ShapeHeap | None, code: int, operand: Any, context: str) -> None:
    """Match a scalar; codes as for ``match_shape``, and STORE_SIZE. Floats are kept in slots as they are."""
    if code == IGNORE:
        return
    if code in (STORE, STORE_SIZE):
        if isinstance(value, float):
            ShapeHeap.over(heap).store_float(operand, value)
            return
        if code == STORE_SIZE:
            check_size(value, context)
        _slots(heap)[operand] = value
        return
    if code == ASSERT_SLOT:
        heap = ShapeHeap.over(heap)
        if isinstance(value, float):
            fits = same_scalar(value, heap.load_float(operand))
        else:
            fits = (value - heap.slots[operand]) % (1 << 64) == 0  # a uint64 may look negative in a slot
        if not fits:
            raise IS(context=context, place="the value", found=value, expected=heap.expected(operand))
    elif not same_scalar(value, operand):
        raise IS(context=context, place="the value", found=value, expected=operand)


def check_size(value: int, context: str) -> None:
    """Raise ValueError unless a scalar that stands for a dimension elsewhere may be one."""
    if not is_size(value):
        raise NO_SIZE(context=context, place="the value", found=value)


def same_scalar(a: float, b: float) -> bool:
    """True if two scalars are one value: they are equal, or both NaN."""
    return a == b or (a != a and b != b)


def _slots(heap: ShapeHeap | None) -> Any:
    return ShapeHeap.over(heap).slots


@builtin("vm.builtin.make_shape", internal=True)
def make_shape(heap: ShapeHeap | None, ndim: int, *codes: int) -> tvm_ffi.Shape:
    """A shape of `ndim` dimensions from (USE_IMM, number) and (LOAD_SLOT, slot) pairs.

    Raises ValueError unless they are sizes.
    """
    dims = [
        _slots(heap)[codes[i + 1]] if codes[i] == LOAD_SLOT else codes[i + 1] for i in range(0, 2 * ndim, 2)
    ]
    return shape_value(dims)


@builtin("vm.builtin.make_prim_value", internal=True)
def make_prim_value(heap: ShapeHeap | None, code: int, operand: Any, dtype: str) -> bool | int | float:
    """A scalar of `dtype`: an immediate (USE_IMM) or what is in a slot (LOAD_SLOT)."""
    if code == USE_IMM:
        return operand
    heap = ShapeHeap.over(heap)
    if dtype == "bool":
        return bool(heap.slots[operand])
    if "float" in dtype:
        return heap.load_float(operand)
    return heap.slots[operand] % (1 << 64) if dtype == "uint64" else heap.slots[operand]
