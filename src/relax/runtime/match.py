"""Checking values against annotations, and binding the shape variables in them (language.md §7.1).

Every check is given a context, the text its messages begin with: the function and what is checked, such as
``main: parameter w`` or ``main: match_cast of y``. Kinds and dtypes that are wrong are TypeErrors, ranks,
dimensions, lengths and values ValueErrors.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, cast

import tvm_ffi

from .builtin_table import Effects, builtin
from .closure import Closure
from .devices import Device, is_cpu
from .heap import Heap, ShapeHeap
from .info import FuncInfo, mismatch, substitute
from .info_text import parse_info
from .messages import DEVICE, DIMENSIONS, DTYPE, IS, KIND, LENGTH, NO_SIZE, NO_TUPLE, RANK, SCALAR
from .sizes import is_size, shape_value
from .values import describe_shape, identity, is_tuple, kind_of, prim_fits

ASSERT_IMM: Final = 0
"""The dimension equals the immediate value."""
STORE: Final = 1
"""Store the dimension into the slot."""
IGNORE: Final = 2
"""The dimension is unconstrained."""
ASSERT_SLOT: Final = 3
"""The dimension equals what is in the slot."""
STORE_SIZE: Final = 4
"""Store a scalar that stands for a dimension elsewhere: it must be one that a dimension may be."""

_COMPARING: Final = (ASSERT_IMM, IGNORE, ASSERT_SLOT)

USE_IMM: Final = 0
"""A dimension of a new shape is the immediate value."""
LOAD_SLOT: Final = 1
"""A dimension of a new shape is what is in the slot."""


@builtin("vm.builtin.match", Effects(writes=(1,)), pure=False, device=2)
def match(
    value: Any, heap: Any, kind: str | Device, size: int, dtype: str | None, count: int, *codes_and_context: Any
) -> None:
    """Match a value: its kind, then `count` dimensions, or the value of a scalar.

    The kind is "tensor" (in the memory of the host), a device (a tensor on that), "shape", "scalar" or "tuple"; `size`
    the rank or length (-1: any); `dtype` that of a tensor or scalar (None or "": any). Then there is a pair for each
    dimension: (ASSERT_IMM, number), (STORE, slot), (IGNORE, 0) or (ASSERT_SLOT, slot); that of a scalar may be
    (STORE_SIZE, slot), and floats are kept in slots as they are. What messages begin with comes last.
    """
    if len(codes_and_context) != 2 * count + 1:
        _check_pairs("match", count, codes_and_context[:-1])
        raise ValueError("match: the text with which messages begin is missing")
    context: str = codes_and_context[-1]
    dims: Sequence[Any]
    if isinstance(kind, str):
        dims = _KINDS[kind](value, size, dtype, context)
    else:
        dims = _tensor(value, size, dtype, context, kind)
    if count and len(dims) != count:
        raise RANK(context=context, expected=count, found=len(dims), shape=describe_shape(dims))
    for axis in range(count):
        number, code, operand = dims[axis], codes_and_context[2 * axis], codes_and_context[2 * axis + 1]
        if code == IGNORE or (code == ASSERT_IMM and number == operand):
            continue
        if code == ASSERT_IMM and dtype == "uint64":
            operand %= 1 << 64  # a lowered program has it as an int64
        place = "the value" if kind == "scalar" else f"dimension {axis}"
        _match_number(number, heap, code, operand, context, place)


@builtin("vm.builtin.match_parts", pure=False, closures=True)
def match_parts(value: Any, heap: Any, table: str, context: str) -> None:
    """Match a value that may hold a tuple in many places, each tuple once.

    The table is a list in JSON, of one entry for each struct info: the kind, size, dtype and pairs of `match`, then the
    numbers of the entries of the fields (None: anything). The value's own is the last.
    """
    entries = _entries(table)
    met: dict[tuple[int, int], Any] = {}
    pending: list[tuple[Any, int, str]] = [(value, len(entries) - 1, context)]
    while pending:
        item, index, where = pending.pop()
        key = identity(item), index
        if key in met:
            continue
        met[key] = item  # kept, so that nothing else gets its identity
        kind, size, dtype, codes, fields = entries[index]
        match(item, heap, kind, size, dtype, len(codes) // 2, *codes, where)
        for position, field in reversed(list(enumerate(fields))):
            if field is not None:
                pending.append((item[position], field, f"{where}[{position}]"))


_Entry: TypeAlias = "tuple[str, int, str, list[Any], list[int | None]]"


@functools.lru_cache(maxsize=256)
def _entries(table: str) -> list[_Entry]:
    """The entries of a table. Raises ValueError for a text that is none, as a file may have it."""
    try:
        entries = json.loads(table)
        if entries and all(_is_entry(entry, index) for index, entry in enumerate(entries)):
            return entries
    except (ValueError, TypeError, RecursionError):
        pass
    raise ValueError(f"match_parts: this is no table of what is matched: {table[:200]}")


def _is_entry(entry: Any, index: int) -> bool:
    """True for an entry that compares, and whose fields are entries before it."""
    kind, size, dtype, codes, fields = entry
    pairs = list(zip(codes[::2], codes[1::2], strict=True))
    compares = all(code in _COMPARING and isinstance(operand, int | float) for code, operand in pairs)
    inside = all(field is None or (isinstance(field, int) and 0 <= field < index) for field in fields)
    fits = len(fields) == size if kind == "tuple" else not fields
    return kind in _KINDS and isinstance(size, int) and isinstance(dtype, str) and compares and inside and fits


def _match_number(number: float, heap: Any, code: int, operand: Any, context: str, place: str) -> None:
    """Match a dimension or scalar."""
    if code == ASSERT_IMM:
        if not _same_number(number, operand):
            raise IS(context=context, place=place, found=number, expected=operand)
        return
    slots, is_float = Heap.over(heap), isinstance(number, float)
    if code == ASSERT_SLOT:
        if not _same_number(number, slots.load(operand, is_float)):
            raise IS(context=context, place=place, found=number, expected=slots.expected(operand))
        return
    is_dimension = code == STORE_SIZE or place != "the value"
    if is_dimension and not is_float and not is_size(cast(int, number)):
        raise NO_SIZE(context=context, place=place, found=number)
    slots.store(operand, number)


def _same_number(a: float, b: float) -> bool:
    """True if two numbers are equal, or both NaN. A uint64 may look negative in a slot."""
    if a == b:
        return True
    return (a != a and b != b) if isinstance(a, float) else (a - b) % (1 << 64) == 0


def _tensor(value: Any, ndim: int, dtype: str | None, context: str, device: Device | None = None) -> Sequence[int]:
    if not isinstance(value, tvm_ffi.Tensor):
        raise KIND(context=context, expected="a tensor", found=kind_of(value))
    if ndim >= 0 and value.ndim != ndim:
        raise RANK(context=context, expected=ndim, found=value.ndim, shape=value.shape)
    if dtype and value.dtype != dtype:
        raise DTYPE(context=context, expected=dtype, found=value.dtype)
    actual_device = value.device
    if actual_device != device if device is not None else not is_cpu(actual_device):
        raise DEVICE(context=context, expected=device or "cpu", found=actual_device)
    return value.shape


def _shape(value: Any, ndim: int, dtype: str | None, context: str) -> Sequence[int]:
    if not isinstance(value, tvm_ffi.Shape):
        raise KIND(context=context, expected="a shape", found=kind_of(value))
    if ndim >= 0 and len(value) != ndim:
        raise DIMENSIONS(context=context, expected=ndim, found=len(value), shape=describe_shape(value))
    return value


def _scalar(value: Any, size: int, dtype: str | None, context: str) -> Sequence[float]:
    if dtype and not (isinstance(value, bool | int | float) and prim_fits(value, dtype)):
        article = "an" if dtype.startswith("int") else "a"
        raise SCALAR(context=context, article=article, expected=dtype, found=kind_of(value))
    return (value,)


def _tuple(value: Any, length: int, dtype: str | None, context: str) -> Sequence[int]:
    """The null object, which a Python function without a result returns, is unit."""
    if length == 0 and value is None:
        return ()
    if not is_tuple(value) or len(value) != length:
        message = LENGTH if is_tuple(value) else NO_TUPLE
        raise message(context=context, expected=length, found=kind_of(value))
    return ()


_KINDS: Final = {"tensor": _tensor, "shape": _shape, "scalar": _scalar, "tuple": _tuple}


@builtin("vm.builtin.check_func_info", pure=False, closures=True)
def check_func_info(value: Any, heap: ShapeHeap | int | None, info: str, context: str) -> None:
    """Check that a value is a function that conforms to the FuncInfo in `text`; its slots are read from the heap."""
    expected = cast("FuncInfo", parse_info(info))
    if isinstance(heap, ShapeHeap):
        expected = cast("FuncInfo", substitute(expected, {}, heap.value))
    check_function(value, expected, context)


def check_function(value: Any, expected: FuncInfo, context: str) -> None:
    """Check that a value is a packed function, or a Relax function that conforms to `expected`."""
    if expected.params is None:
        if isinstance(value, Closure) or not isinstance(value, tvm_ffi.Function):
            raise KIND(context=context, expected="a packed function", found=kind_of(value))
        return
    if not isinstance(value, Closure):
        raise KIND(context=context, expected="a Relax function", found=kind_of(value))
    why = None if value.info is None else mismatch(value.info, expected)
    if why is not None:
        raise TypeError(f"{context}: the function {value.name} does not fit: {why}")


@builtin("vm.builtin.match_shape_value", pure=False)
def match_shape_value(value: Any, shape: Any, context: str) -> None:
    """Match all the dimensions of a tensor or shape against a shape value."""
    dims: Sequence[int] = value.shape if isinstance(value, tvm_ffi.Tensor) else value
    if tuple(dims) != tuple(shape):
        expected = describe_shape(shape)
        raise IS(context=context, place="the shape", found=describe_shape(dims), expected=expected)


# ------------------------------------------------------------------------------------- TVM's names

# Parts of `match` under the names by which TVM's lowered programs call them. Functions with such calls stay bytecode:
# compiled code has no shape heap to give them.


@builtin("vm.builtin.check_tensor_info", pure=False, device=4, closures=True)
def check_tensor_info(value: Any, ndim: int, dtype: str | None, context: str, device: Device | None = None) -> None:
    """A tensor, of `ndim` dimensions (-1: any), of `dtype` (None or "": any), on `device` (None: on the host)."""
    match(value, None, device or "tensor", ndim, dtype, 0, context)


@builtin("vm.builtin.check_shape_info", pure=False, closures=True)
def check_shape_info(value: Any, ndim: int, context: str) -> None:
    """A shape value, of `ndim` dimensions (-1: any)."""
    match(value, None, "shape", ndim, None, 0, context)


@builtin("vm.builtin.check_prim_value_info", pure=False, closures=True)
def check_prim_value_info(value: Any, dtype: str, context: str) -> None:
    """A scalar of `dtype`."""
    match(value, None, "scalar", 0, dtype, 0, context)


@builtin("vm.builtin.check_tuple_info", pure=False, closures=True)
def check_tuple_info(value: Any, length: int, context: str) -> None:
    """A tuple of `length` fields."""
    match(value, None, "tuple", length, None, 0, context)


@builtin("vm.builtin.match_shape", Effects(writes=(1,)), pure=False, closures=True)
def match_shape(value: Any, heap: Any, ndim: int, *codes_and_context: Any) -> None:
    """The dimensions of a tensor or shape."""
    dims: Any = value.shape if isinstance(value, tvm_ffi.Tensor) else value
    if len(dims) != ndim:
        raise RANK(context=codes_and_context[-1], expected=ndim, found=len(dims), shape=describe_shape(dims))
    match(value, heap, "tensor" if dims is not value else "shape", -1, None, ndim, *codes_and_context)


@builtin("vm.builtin.match_prim_value", Effects(writes=(1,)), pure=False, closures=True)
def match_prim_value(value: Any, heap: Any, code: int, operand: Any, context: str) -> None:
    """A scalar."""
    match(value, heap, "scalar", 0, None, 1, code, operand, context)


@builtin("vm.builtin.make_shape", internal=True)
def make_shape(heap: ShapeHeap | None, ndim: int, *codes: int) -> tvm_ffi.Shape:
    """A shape of `ndim` dimensions from (USE_IMM, number) and (LOAD_SLOT, slot) pairs.

    Raises ValueError unless they are sizes.
    """
    _check_pairs("make_shape", ndim, codes)
    dims = [
        int(ShapeHeap.over(heap).load(codes[i + 1], False)) if codes[i] == LOAD_SLOT else codes[i + 1]
        for i in range(0, 2 * ndim, 2)
    ]
    return shape_value(dims)


def _check_pairs(name: str, count: int, pairs: Sequence[Any]) -> None:
    """Raise ValueError unless there are as many pairs of a code and a number as are announced."""
    if len(pairs) != 2 * count:
        raise ValueError(f"{name}: {count} dimensions are {2 * count} codes and numbers, found {len(pairs)}")


@builtin("vm.builtin.make_prim_value", internal=True)
def make_prim_value(heap: ShapeHeap | None, code: int, operand: Any, dtype: str) -> bool | int | float:
    """A scalar of `dtype`: an immediate (USE_IMM) or what is in a slot (LOAD_SLOT)."""
    if code == USE_IMM:
        return operand
    heap = ShapeHeap.over(heap)
    if dtype == "bool":
        return bool(heap.load(operand, False))
    number = heap.load(operand, "float" in dtype)
    return number % (1 << 64) if dtype == "uint64" else number
