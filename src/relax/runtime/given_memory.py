"""Caller-provided memory for results: arrays that results are computed in or copied to."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import combinations
from typing import Any, cast

import tvm_ffi

from .dtypes import canonical_dtype, itemsize
from .messages import DTYPE, IS, KIND
from .tensor import copy_tensor, is_ndarray, tensor_of
from .values import describe_shape, kind_of


def memory_of_results(values: Sequence[Any], function: str) -> list[tvm_ffi.Tensor]:
    """The memory of arrays as tensors. Raises TypeError and ValueError for what cannot serve as memory of results."""
    memory = [_memory_of(value, f"{function}: memory of result {i}") for i, value in enumerate(values)]
    for i, j in combinations(range(len(memory)), 2):
        if _overlap(memory[i], memory[j]):
            raise ValueError(f"{function}: the memory of result {j} overlaps that of result {i}")
    return memory


def _memory_of(value: Any, context: str) -> tvm_ffi.Tensor:
    """The memory of an array as a tensor. Raises TypeError and ValueError for what cannot be written to as it is."""
    if is_ndarray(value) and not value.flags.writeable:
        raise ValueError(f"{context}: the array is read-only")
    tensor = tensor_of(value)
    if tensor is None:
        raise KIND(context=context, expected="a tensor", found=kind_of(value))
    if tensor.numel() and tensor.data_ptr() != _address(value):
        raise ValueError(f"{context}: the array is not compact, or not aligned to its elements; pass a compact one")
    return tensor


def _address(value: Any) -> int:
    """The address of an array's first element."""
    if is_ndarray(value):
        return value.ctypes.data
    inner = value.__tvm_ffi_object__() if hasattr(value, "__tvm_ffi_object__") else value
    tensor = inner if isinstance(inner, tvm_ffi.Tensor) else tvm_ffi.from_dlpack(value)
    return tensor.data_ptr()


def placed_in(result: Any, memory: Sequence[tvm_ffi.Tensor], function: str) -> Any:
    """A function's result with each tensor in the memory given for it: those elsewhere are copied.

    Raises ValueError and TypeError for memory of another shape or dtype; then nothing has been copied.
    """
    results = cast("tuple[tvm_ffi.Tensor, ...]", result if isinstance(result, tuple) else (result,))
    for position, (tensor, to) in enumerate(zip(results, memory, strict=True)):
        context = f"{function}: memory of result {position}"
        if to.dtype != tensor.dtype:
            raise DTYPE(context=context, expected=tensor.dtype, found=to.dtype)
        if tuple(to.shape) != tuple(tensor.shape):
            expected, actual = describe_shape(tensor.shape), describe_shape(to.shape)
            raise IS(context=context, place="the shape", found=actual, expected=expected)
    elsewhere = [(t, to) for t, to in zip(results, memory, strict=True) if t.data_ptr() != to.data_ptr()]
    # A result that is a parameter may lie where another one is copied to.
    kept = [(copy_tensor(t) if any(_overlap(t, to) for to in memory) else t, to) for t, to in elsewhere]
    for tensor, to in kept:
        ctypes.memmove(to.data_ptr(), tensor.data_ptr(), _bytes(tensor))
    return tuple(memory) if isinstance(result, tuple) else memory[0]


def _bytes(tensor: tvm_ffi.Tensor) -> int:
    return tensor.numel() * itemsize(canonical_dtype(tensor.dtype))


def _overlap(a: tvm_ffi.Tensor, b: tvm_ffi.Tensor) -> bool:
    start, end = max(a.data_ptr(), b.data_ptr()), min(a.data_ptr() + _bytes(a), b.data_ptr() + _bytes(b))
    return start < end
