"""Operators on ONNX sequences and optional values, whose lengths are data dependent.

A sequence is a tuple of the machine, an optional value without a content the null object.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm_ffi

from .builtin_table import Effects, builtin
from .dtypes import NUMPY_DTYPES, Array
from .ops import array_of
from .tensor import tensor_of_numpy
from .values import is_tuple, kind_of


def _items(value: Any, operator: str) -> tuple[Any, ...]:
    if not is_tuple(value):
        raise TypeError(f"{operator}: expected a sequence, found {kind_of(value)}")
    return tuple(value)


def _position(value: Any, length: int, end: int, operator: str) -> int:
    """Index into a sequence, counted from the front; `end` is the exclusive upper bound."""
    index = int(array_of(value, operator).reshape(-1)[0])
    if not -length <= index < end:
        raise IndexError(f"{operator}: position {index} is out of range for a sequence of {length}")
    return index + length if index < 0 else index


@builtin("relax.run.sequence", Effects(reads=(), aliases="all"))
def sequence(*items: Any) -> tuple[Any, ...]:
    """The sequence of these values."""
    return items


@builtin("relax.run.sequence_at", Effects(reads=(1,), aliases=(0,)), trusted=False)
def sequence_at(items: Any, position: Any) -> Any:
    """The item at a position, a tensor of one integer; a negative one counts from the end."""
    values = _items(items, "sequence_at")
    return values[_position(position, len(values), len(values), "sequence_at")]


@builtin("relax.run.sequence_insert", Effects(reads=(2,), aliases=(0, 1)))
def sequence_insert(items: Any, item: Any, position: Any) -> tuple[Any, ...]:
    """The sequence with one more item before a position; at the end for the null object."""
    values = _items(items, "sequence_insert")
    length = len(values)
    index = length if position is None else _position(position, length, length + 1, "sequence_insert")
    return (*values[:index], item, *values[index:])


@builtin("relax.run.sequence_erase", Effects(reads=(1,), aliases=(0,)))
def sequence_erase(items: Any, position: Any) -> tuple[Any, ...]:
    """The sequence without the item at a position; without the last for the null object.

    Raises IndexError if it has no such item.
    """
    values = _items(items, "sequence_erase")
    length = len(values)
    if position is None:
        if not length:
            raise IndexError("sequence_erase: the sequence is empty")
        return values[:-1]
    index = _position(position, length, length, "sequence_erase")
    return (*values[:index], *values[index + 1 :])


@builtin("relax.run.sequence_length", Effects(reads=()))
def sequence_length(items: Any) -> tvm_ffi.Tensor:
    """The number of items, an int64 tensor without dimensions."""
    return tensor_of_numpy(np.array(len(_items(items, "sequence_length")), np.int64))


@builtin("relax.run.sequence_of_parts")
def sequence_of_parts(data: Any, sizes: Any, axis: int, keepdims: int) -> tuple[Any, ...]:
    """Consecutive parts of a tensor along an axis, copied.

    `sizes` is a vector of their sizes, or one number: the size of all but the last. Slices for the null object:
    parts of size 1, without the axis unless `keepdims`.
    """
    array = array_of(data, "sequence_of_parts")
    length = int(array.shape[axis])
    part_sizes = _part_sizes(sizes, length)
    pieces: list[Array] = np.split(array, np.cumsum(part_sizes)[:-1], axis) if part_sizes else []
    if sizes is None and not keepdims:
        pieces = [piece.squeeze(axis) for piece in pieces]
    return tuple(tensor_of_numpy(np.array(piece, order="C")) for piece in pieces)


def _part_sizes(sizes: Any, length: int) -> list[int]:
    if sizes is None:
        return [1] * length
    numbers = array_of(sizes, "sequence_of_parts")
    part_sizes = [int(number) for number in numbers.reshape(-1)]
    if numbers.ndim:
        if sum(part_sizes) != length or min(part_sizes, default=0) < 0:
            raise ValueError(f"sequence_of_parts: sizes {part_sizes} do not make up a dimension of {length}")
        return part_sizes
    if part_sizes[0] <= 0:
        raise ValueError(f"sequence_of_parts: the size of a part must be positive, found {part_sizes[0]}")
    whole, rest = divmod(length, part_sizes[0])
    return [part_sizes[0]] * whole + ([rest] if rest else [])


@builtin("relax.run.sequence_concat", trusted=False)
def sequence_concat(items: Any, axis: int, new_axis: int) -> tvm_ffi.Tensor:
    """The items joined along an axis, which is a new one if `new_axis` is not 0.

    Raises ValueError for no items and for shapes that do not fit, TypeError for items of several dtypes.
    """
    arrays = [array_of(item, "sequence_concat") for item in _items(items, "sequence_concat")]
    if not arrays:
        raise ValueError("sequence_concat: the sequence is empty")
    if len({array.dtype for array in arrays}) > 1:
        raise TypeError("sequence_concat: the items have several dtypes")
    joined: Array = np.stack(arrays, axis) if new_axis else np.concatenate(arrays, axis)
    return tensor_of_numpy(np.ascontiguousarray(joined))


@builtin("relax.run.sequence_stack")
def sequence_stack(items: Any, ndim: int, dtype: str) -> tvm_ffi.Tensor:
    """The items, tensors of one shape, along a new first axis. Without items: sizes of 0. ValueError for two shapes."""
    arrays = [array_of(item, "sequence_stack") for item in _items(items, "sequence_stack")]
    if not arrays:
        return tensor_of_numpy(np.zeros((0,) * (ndim + 1), NUMPY_DTYPES[dtype]))
    shapes = list(dict.fromkeys(array.shape for array in arrays))
    if len(shapes) > 1:
        raise ValueError(f"outputs of iterations must have one shape, found {shapes[0]} and {shapes[1]}")
    return tensor_of_numpy(np.stack(arrays))


@builtin("relax.run.optional_has", Effects(reads=()))
def optional_has(value: Any) -> tvm_ffi.Tensor:
    """True for a value, False for the null object; a bool tensor without dimensions."""
    return tensor_of_numpy(np.array(value is not None))


@builtin("relax.run.optional_get", Effects(reads=(), aliases=(0,)), trusted=False)
def optional_get(value: Any) -> Any:
    """The value. ValueError for the null object."""
    if value is None:
        raise ValueError("optional_get: the optional value is empty")
    return value
