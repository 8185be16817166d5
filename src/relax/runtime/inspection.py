"""Builtins that inspect a tensor's dtype, rank, shape and strides at run time, and draw random seeds."""

from __future__ import annotations

import secrets
from typing import Any

from .builtin_table import Effects, builtin
from .dtypes import DLPACK_CODES, canonical_dtype
from .tensor import compact_strides, tensor_of
from .values import kind_of

_LOOKS: Effects = Effects(reads=())


def _tensor(value: Any, name: str) -> Any:
    tensor = tensor_of(value)
    if tensor is None:
        raise TypeError(f"{name}: expected a tensor, found {kind_of(value)}")
    return tensor


def _type(value: Any, name: str) -> tuple[int, int]:
    return DLPACK_CODES[canonical_dtype(str(_tensor(value, name).dtype))]


def _at(values: Any, axis: int, name: str) -> int:
    if not 0 <= axis < len(values):
        raise AssertionError(f"{name}: axis {axis} is out of range for {len(values)} dimensions")
    return int(values[axis])


@builtin("relax.run.tensor_dtype_code", _LOOKS)
def tensor_dtype_code(tensor: Any) -> int:
    """The kind of a tensor's dtype, as DLPack numbers it."""
    return _type(tensor, "tensor_dtype_code")[0]


@builtin("relax.run.tensor_dtype_bits", _LOOKS)
def tensor_dtype_bits(tensor: Any) -> int:
    """The bits of a tensor's dtype, as DLPack has it."""
    return _type(tensor, "tensor_dtype_bits")[1]


@builtin("relax.run.tensor_ndim", _LOOKS)
def tensor_ndim(tensor: Any) -> int:
    """The number of a tensor's dimensions."""
    return len(_tensor(tensor, "tensor_ndim").shape)


@builtin("relax.run.tensor_shape_i", _LOOKS)
def tensor_shape_i(tensor: Any, axis: int) -> int:
    """The size of a dimension. AssertionError if there is none such."""
    return _at(_tensor(tensor, "tensor_shape_i").shape, axis, "tensor_shape_i")


@builtin("relax.run.tensor_stride_i", _LOOKS)
def tensor_stride_i(tensor: Any, axis: int) -> int:
    """The number of elements from one index of a dimension to the next. AssertionError if there is none such."""
    shape = _tensor(tensor, "tensor_stride_i").shape
    return _at(compact_strides(shape), axis, "tensor_stride_i")


@builtin("relax.run.random_seed", pure=False)
def random_seed() -> int:
    """Return a random seed in [0, 2⁶³) from the operating system."""
    return secrets.randbits(63)
