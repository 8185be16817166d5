"""Operators that run as packed functions: data-dependent result shapes, and side effects.

They are found by the names ``relax.run.*``. Arguments and results are values of the machine; NDArrays are
taken as well, so that other executors of the language can use them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import tvm_ffi

from .builtin_table import builtin
from .closure import Closure
from .dtypes import Array, canonical_dtype, dtype_of_numpy
from .sizes import shape_value
from .tensor import check_shape, numpy_view, tensor_of, tensor_of_numpy
from .values import is_tuple, kind_of


def array_of(value: Any, operator: str) -> Array:
    """A tensor as a NumPy array. TypeError, which names the operator, for another value."""
    tensor = tensor_of(value)
    if tensor is None:
        raise TypeError(f"{operator}: expected a tensor, found {kind_of(value)}")
    return numpy_view(tensor)


@builtin("relax.run.unique")
def unique(
    data: Any,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """The distinct elements (or slices along `axis`), ascending or in the order they first occur; NaNs are alike.

    With any of the `return_` flags a tuple, which has in this order: the values, the indices of first
    occurrence, the inverse (for each element, flat, or slice its index in the values) and the counts.
    Indices and counts are int64 tensors of rank 1.
    """
    array = array_of(data, "unique")
    distinct: Any = np.unique(array, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    values, index, inverse, counts = distinct
    if not sorted:
        order = np.argsort(index)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        values = np.take(values, order, 0 if axis is None else axis)
        index, inverse, counts = index[order], rank[inverse], counts[order]
    results: list[Array] = [values]
    extras = (index, inverse, counts)
    for extra, wanted in zip(extras, (return_index, return_inverse, return_counts), strict=True):
        if wanted:
            flat: Array = np.asarray(extra, np.int64)
            results.append(flat.reshape(-1))
    tensors = tuple(tensor_of_numpy(np.ascontiguousarray(result)) for result in results)
    return tensors if len(results) > 1 else tensors[0]


@builtin("relax.run.nonzero")
def nonzero(data: Any) -> tvm_ffi.Tensor:
    """The positions of the elements that are not zero, row-major, as an int64 tensor of shape (rank, number)."""
    array = array_of(data, "nonzero")
    if not array.ndim:
        return tensor_of_numpy(np.zeros((0, int(array != 0)), np.int64))
    return tensor_of_numpy(np.asarray(np.nonzero(array), np.int64))


@builtin("relax.run.dynamic_strided_slice")
def dynamic_strided_slice(data: Any, begin: Any, end: Any, strides: Any) -> tvm_ffi.Tensor:
    """``data[begin:end:stride]`` along each dimension, of integer tensors that hold one number for each.

    ValueError for a stride of 0, or tensors of other lengths.
    """
    array = array_of(data, "dynamic_strided_slice")
    bounds: list[list[int]] = []
    for name, value in (("begin", begin), ("end", end), ("strides", strides)):
        numbers = array_of(value, "dynamic_strided_slice")
        if numbers.shape != (array.ndim,) or numbers.dtype.kind not in "iu":
            actual = f"{numbers.dtype} of shape {numbers.shape}"
            raise ValueError(
                f"dynamic_strided_slice: {name} must hold {array.ndim} integers, one for each dimension, found {actual}"
            )
        bounds.append([int(number) for number in numbers])
    slices = tuple(slice(b, e, s) for b, e, s in zip(*bounds, strict=True))
    if any(slice_.step == 0 for slice_ in slices):
        raise ValueError("dynamic_strided_slice: a stride must not be 0")
    return tensor_of_numpy(np.array(array[slices], order="C"))


@builtin("relax.run.leading_rows")
def leading_rows(data: Any, count: Any) -> tvm_ffi.Tensor:
    """A copy of the first rows of a tensor; a tensor of one element says how many, 0 if it is negative."""
    rows = max(int(array_of(count, "leading_rows").reshape(-1)[0]), 0)
    return tensor_of_numpy(np.array(array_of(data, "leading_rows")[:rows], order="C"))


@builtin("relax.run.reshape")
def reshape(data: Any, shape: Sequence[int]) -> tvm_ffi.Tensor:
    """A fresh tensor of this shape with the elements of `data` in order. AssertionError if there are not as many.

    ValueError for a negative size, TypeError if `shape` is no shape.
    """
    array = array_of(data, "reshape")
    if not isinstance(shape, tvm_ffi.Shape):
        raise TypeError(f"reshape: shape must be a shape, found {kind_of(shape)}")
    dims = cast("tuple[int, ...]", tuple(shape))
    check_shape(dims, canonical_dtype(array.dtype))
    if math.prod(dims) != array.size:
        raise AssertionError("reshape: the numbers of elements differ")
    return tensor_of_numpy(array.reshape(dims).copy())


@builtin("relax.run.read_tensor_from_file", pure=False)
def read_tensor_from_file(path: str) -> tvm_ffi.Tensor:
    """The float32 tensor in a file: NumPy's ``.npy``, or text with one row per line.

    Raises TypeError if `path` is no text, OSError if it cannot be read, ValueError if it holds something else.
    """
    if not isinstance(path, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"read_tensor_from_file: expected a path, found {kind_of(path)}")
    loaded: Array
    if path.endswith(".npy"):
        loaded = np.load(path, allow_pickle=False)
    else:
        with open(path, encoding="utf-8") as file:  # given a path, NumPy would also fetch a URL
            loaded = np.loadtxt(file, np.float32)
    return tensor_of_numpy(np.asarray(loaded, np.float32, order="C"))


@builtin("vm.builtin.shape_to_tensor")
@builtin("relax.run.shape_to_tensor")
def shape_to_tensor(shape: Sequence[int]) -> tvm_ffi.Tensor:
    """The dimensions of a shape as an int64 tensor of rank 1. Raises TypeError if it is no shape."""
    if not isinstance(shape, tvm_ffi.Shape):
        raise TypeError(f"shape_to_tensor: expected a shape, found {kind_of(shape)}")
    return tensor_of_numpy(np.array(tuple(shape), "int64"))


@builtin("vm.builtin.tensor_to_shape")
@builtin("relax.run.tensor_to_shape")
def tensor_to_shape(tensor: Any) -> tvm_ffi.Shape:
    """The shape whose dimensions are the elements of an integer tensor of rank 1; ValueError unless they are sizes."""
    array = array_of(tensor, "tensor_to_shape")
    if array.ndim != 1 or not dtype_of_numpy(array.dtype).startswith(("int", "uint")):
        actual = f"{array.dtype} of rank {array.ndim}"
        raise ValueError(f"tensor_to_shape: expected an integer tensor of rank 1, found {actual}")
    try:
        return shape_value(int(extent) for extent in array)
    except ValueError as error:
        raise ValueError(f"tensor_to_shape: {error}") from None


def render(value: Any) -> Any:
    """A value as ``print`` and the message of ``assert_op`` show it.

    Scalars become Python numbers, so that format specifications (``{:.2f}``) apply to them; other tensors
    become NumPy arrays.
    """
    tensor = tensor_of(value)
    if tensor is not None:
        array = numpy_view(tensor)
        return array.item() if array.ndim == 0 else array
    if isinstance(value, tvm_ffi.Shape):
        return tuple(cast("tuple[int, ...]", value))
    if is_tuple(value):
        return tuple(render(v) for v in value)
    if isinstance(value, Closure):
        return f"<function {value.name}>"
    return value


def formatted(format: str, values: Sequence[Any], operator: str) -> str:
    """`format` with the values put in; without a format, the values separated by spaces.

    Raises ValueError if the format does not fit the values.
    """
    shown = [render(value) for value in values]
    if not format:
        return " ".join(map(str, shown))
    try:
        return format.format(*shown)
    except (IndexError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{operator}: the format {format!r} does not fit {len(shown)} values ({error})") from None


@builtin("relax.run.print", pure=False)
def print(format: str, *values: Any) -> None:
    """Write the formatted values and a line end to the standard output."""
    sys.stdout.write(formatted(format, values, "print") + "\n")
    sys.stdout.flush()


@builtin("relax.run.assert_op", pure=False, program_errors=True)
def assert_op(condition: Any, format: str = "", *values: Any) -> None:
    """Raise AssertionError with the formatted values if the condition, a bool scalar, is false."""
    if not truth(condition, "assert_op: the condition"):
        text = formatted(format, values, "assert_op") if format or values else ""
        raise AssertionError(f"Assertion Failed: {text}" if text else "Assertion Failed")


@builtin("relax.run.fail", program_errors=True)
def fail(message: str) -> Any:
    """Raise ValueError: the program has come to a place whose operators do not fit their operands."""
    raise ValueError(message)


@builtin("relax.run.finite_range", program_errors=True)
def finite_range(title: str, low: Any, high: Any) -> Any:
    """Return `low`, a float scalar. Raises RuntimeError if it or `high` is NaN or infinite, as torch does for bins."""
    limits = [float(array_of(limit, title).item()) for limit in (low, high)]
    if not all(map(math.isfinite, limits)):
        raise RuntimeError(f"{title}: range of [{limits[0]:g}, {limits[1]:g}] is not finite")
    return low


def truth(value: Any, context: str) -> bool:
    """The value of a condition: a bool scalar, as a prim value or as a tensor of rank 0.

    Raises TypeError for another value.
    """
    if isinstance(value, bool):
        return value
    tensor = tensor_of(value)
    if tensor is None:
        raise TypeError(f"{context} is {kind_of(value)}, expected a bool scalar")
    if tensor.ndim or tensor.dtype != "bool":
        raise TypeError(f"{context} is a {tensor.dtype} tensor of rank {tensor.ndim}, expected a bool scalar")
    return bool(numpy_view(tensor)[()])
