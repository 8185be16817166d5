"""Discrete Fourier transforms as packed functions, computed by NumPy (pocketfft).

A complex tensor is a real tensor with a trailing axis of 2: real and imaginary parts. Axes are those of the complex
tensor. float32 stays float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
import tvm_ffi

from .builtin_table import builtin
from .dtypes import Array
from .ops import array_of
from .tensor import tensor_of_numpy

_FORWARD: Final = {"none": "backward", "root": "ortho", "all": "forward"}
_BACKWARD: Final = {"none": "forward", "root": "ortho", "all": "backward"}
"""NumPy's names of a scale: none, 1 / √n or 1 / n, which for it depends on the direction."""


def complex_view(data: Any, name: str) -> Array:
    """Return a tensor with a trailing axis of 2 as an array of complex numbers on the same memory.

    Raises TypeError for a value that is no tensor of float32 or float64, and ValueError for another trailing axis.
    """
    array = real_array(data, name)
    if not array.ndim or array.shape[-1] != 2:
        raise ValueError(f"{name}: expected real and imaginary parts along the last axis, found shape {array.shape}")
    compact: Any = np.ascontiguousarray(array)
    return compact.view(complex_dtype(compact))[..., 0]


def real_array(data: Any, name: str) -> Array:
    """Return a tensor as an array. Raises TypeError for a value that is no tensor of float32 or float64."""
    array = array_of(data, name)
    if array.dtype not in (np.float32, np.float64):
        raise TypeError(f"{name}: expected a tensor of float32 or float64, found {array.dtype}")
    return array


def complex_dtype(array: Array) -> Any:
    """Return the complex dtype whose parts have the dtype of an array of floats."""
    return np.complex64 if array.dtype == np.float32 else np.complex128


def parts_of(array: Array, dtype: Any) -> tvm_ffi.Tensor:
    """Return an array of complex numbers as a tensor of its parts, of a real dtype, with a trailing axis of 2."""
    exact: Any = np.array(array, np.complex64 if dtype == np.float32 else np.complex128, order="C", copy=None)
    return tensor_of_numpy(exact[..., None].view(dtype))


def _axes(name: str, axes: Any, ndim: int) -> tuple[int, ...]:
    """Return axes as integers. Raises ValueError for one out of range, and for none."""
    numbers = tuple(int(axis) for axis in cast("Sequence[int]", axes))
    if not numbers or any(not 0 <= axis < ndim for axis in numbers):
        raise ValueError(f"{name}: the axes {numbers} do not fit a tensor of {ndim} dimensions")
    return numbers


def _nonempty(name: str, shape: Sequence[int], axes: Sequence[int]) -> None:
    """Raise ValueError for a transform over no elements."""
    for axis in axes:
        if shape[axis] < 1:
            raise ValueError(f"{name}: invalid number of data points ({shape[axis]}) along axis {axis}")


@builtin("relax.run.fft_c2c")
def fft_c2c(data: Any, axes: Any, forward: bool, scale: str) -> tvm_ffi.Tensor:
    """Return the transform of complex numbers over `axes`, a shape; `scale` is "none", "root" or "all".

    Raises ValueError for axes out of range or without elements.
    """
    array = complex_view(data, "fft_c2c")
    chosen = _axes("fft_c2c", axes, array.ndim)
    _nonempty("fft_c2c", array.shape, chosen)
    transform: Any = np.fft.fftn if forward else np.fft.ifftn
    norm = (_FORWARD if forward else _BACKWARD)[scale]
    return parts_of(transform(array, axes=chosen, norm=norm), array.real.dtype)


@builtin("relax.run.fft_r2c")
def fft_r2c(data: Any, axes: Any, scale: str) -> tvm_ffi.Tensor:
    """Return the forward transform of real numbers, with the first n // 2 + 1 frequencies of the last of `axes`.

    Raises ValueError for axes out of range or without elements.
    """
    array = real_array(data, "fft_r2c")
    chosen = _axes("fft_r2c", axes, array.ndim)
    _nonempty("fft_r2c", array.shape, chosen)
    result: Any = np.fft.rfftn(array, axes=chosen, norm=cast("Any", _FORWARD[scale]))
    return parts_of(result, array.dtype)


@builtin("relax.run.fft_c2r")
def fft_c2r(data: Any, axes: Any, scale: str, size: int) -> tvm_ffi.Tensor:
    """Return the real inverse transform of n // 2 + 1 frequencies; `size` is n of the last of `axes`.

    Raises ValueError for axes out of range or without elements.
    """
    array = complex_view(data, "fft_c2r")
    chosen = _axes("fft_c2r", axes, array.ndim)
    sizes = [*(array.shape[axis] for axis in chosen[:-1]), size]
    if size < 1:
        raise ValueError(f"fft_c2r: invalid number of data points ({size}) along axis {chosen[-1]}")
    _nonempty("fft_c2r", array.shape, chosen)
    result: Any = np.fft.irfftn(array, s=sizes, axes=chosen, norm=cast("Any", _BACKWARD[scale]))
    return tensor_of_numpy(np.array(result, array.real.dtype, order="C"))
