"""Tensors as users hold them: ``relax.nd.array``, ``empty``, ``from_dlpack`` and the class NDArray.

An NDArray is a thin handle on a ``tvm_ffi.Tensor``; it adds what users expect (``numpy()``, ``b[:] = a``) and
every tvm-ffi function in the process takes it as the tensor it is. Packed functions made by
``relax.register_func`` receive NDArrays, and what the virtual machine returns are NDArrays. tvm-ffi's own
tensor class stays as it is, for the sake of other packages in the process.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from .devices import Device, cpu, device, is_cpu, require_host
from .dtypes import Array, canonical_dtype, dtype_of_numpy, is_float
from .missing import missing
from .rounding import convert_array, exact_array
from .sizes import is_size
from .tensor import (
    check_shape,
    compact_tensor,
    copy_of_numpy,
    copy_tensor,
    element_strides,
    is_compact,
    is_ndarray,
    new_tensor,
    numpy_view,
    tensor_of_numpy,
    view_tensor,
    without_gradient,
    without_padding,
)

__all__ = ["NDArray", "array", "cpu", "device", "empty", "from_dlpack"]


class NDArray:
    """An n-dimensional array in memory shared, by DLPack, with whoever else holds it."""

    __slots__ = ("__weakref__", "tensor")

    tensor: tvm_ffi.Tensor
    """The tvm-ffi object itself."""

    def __init__(self, tensor: tvm_ffi.Tensor) -> None:
        """Wrap an existing tensor; use ``relax.nd.array`` or ``relax.nd.empty`` to make a new one."""
        if not isinstance(tensor, tvm_ffi.Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected a tvm_ffi.Tensor, found {type(tensor).__name__}; use relax.nd.array")
        self.tensor = tensor

    # ------------------------------------------------------------------------------ what it is

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return self.tensor.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.tensor.ndim

    @property
    def dtype(self) -> str:
        """The element type, as a string."""
        return canonical_dtype(self.tensor.dtype)

    @property
    def device(self) -> Device:
        """The device that holds the memory."""
        return self.tensor.device

    @property
    def strides(self) -> tuple[int, ...]:
        """The distance between neighbours along each dimension, in elements."""
        return element_strides(self.tensor)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.tensor.numel()

    def is_contiguous(self) -> bool:
        """True if the elements lie row-major without gaps."""
        return is_compact(self.tensor)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.tensor.data_ptr()

    def same_as(self, other: object) -> bool:
        """True if both are the same tensor object (not merely equal in value)."""
        return isinstance(other, NDArray) and self.tensor.same_as(other.tensor)

    def __eq__(self, other: object) -> bool:
        """True if both are the same tensor object, as `same_as` tells; compare contents with ``.numpy()``."""
        return self.same_as(other)

    def __hash__(self) -> int:
        return hash(self.tensor)

    # ------------------------------------------------------------------------------- contents

    def numpy(self) -> Array:
        """A copy of the contents as a NumPy array; ml_dtypes has the dtypes that NumPy lacks."""
        if self.tensor.__chandle__():  # no handle: memory lent for one call only, which DLPack cannot share
            try:
                view: Array = np.from_dlpack(self.tensor)
                return view.copy()
            except (BufferError, RuntimeError):  # a dtype that NumPy lacks, or a device
                pass
        return without_padding(numpy_view(self.tensor).copy())

    asnumpy = numpy

    def item(self) -> bool | int | float:
        """The value of a tensor of one element."""
        return self.numpy().item()

    def copyfrom(self, source: object) -> NDArray:
        """Overwrite the contents with those of `source`, and return the array itself; the dtype is converted.

        Raises ValueError if `source` has another shape.
        """
        value = _as_numpy(source)
        if value.shape != self.shape:
            raise ValueError(f"copyfrom: expected shape {self.shape}, found {value.shape}")
        if self.size:
            view = numpy_view(self.tensor)
            view[...] = value if value.dtype == view.dtype else convert_array(value, view.dtype)
        return self

    def copyto(self, target: NDArray | Device) -> NDArray:
        """Copy the contents into `target`, or into a fresh tensor on a device."""
        if isinstance(target, NDArray):
            return target.copyfrom(self)
        require_host(target, "copyto")
        return NDArray(copy_tensor(self.tensor, target))

    def view(self, shape: Sequence[int]) -> NDArray:
        """Return an array over the same memory with another shape of as many elements.

        Raises ValueError for a shape of more or fewer elements, and for an array that is not contiguous.
        """
        shape = [operator.index(extent) for extent in shape]
        if math.prod(shape) != self.size or not all(map(is_size, shape)):
            raise ValueError(f"view: shape {self.shape} cannot be seen as {tuple(shape)}")
        check_shape(shape, self.dtype)
        if not self.is_contiguous():
            raise ValueError("view: the tensor is not contiguous")
        return NDArray(view_tensor(self.tensor, shape))

    def __setitem__(self, index: Any, value: object) -> None:
        whole = index is Ellipsis or (isinstance(index, slice) and index == slice(None))
        scalar = np.isscalar(value)
        if whole and not scalar:
            self.copyfrom(value)
        elif self.size:
            view = numpy_view(self.tensor)
            if not scalar or is_float(self.dtype):
                value = convert_array(np.asarray(value) if scalar else _as_numpy(value), view.dtype)
            view[... if whole else index] = value

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a tensor of rank 0 has no len()")
        return self.shape[0]

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        value = self.item()
        if not isinstance(value, int):
            raise TypeError(f"a {self.dtype} tensor is not an index")
        return value

    def __bool__(self) -> bool:
        return bool(self.item())

    # ---------------------------------------------------------------- exchange with others

    def __tvm_ffi_object__(self) -> tvm_ffi.Tensor:
        return self.tensor

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.tensor.__dlpack__(**kwargs)

    def to_dlpack(self) -> Any:
        """TVM's name for ``__dlpack__``: a capsule that another library's from_dlpack takes over."""
        return self.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        view = numpy_view(self.tensor)
        if dtype is not None and np.dtype(dtype) != view.dtype:
            if copy is False:
                raise ValueError(f"a {self.dtype} tensor cannot become {dtype} without a copy")
            return convert_array(view, np.dtype(dtype))
        return view.copy() if copy else view

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.numpy(), self.device.index)

    def __repr__(self) -> str:
        contents = str(numpy_view(self.tensor)) if is_cpu(self.device) else "…"
        return f"<relax.nd.NDArray shape={self.shape}, dtype={self.dtype!r}, {self.device}>\n{contents}"


def empty(shape: Sequence[int] | int, dtype: object = "float32", device: Device | None = None) -> NDArray:
    """A tensor with unspecified contents, aligned to 64 bytes.

    Parameters
    ----------
    shape
        Its sizes.
    dtype
        Its element type.
    device
        A device of the host.

    Returns
    -------
    NDArray
        The tensor.
    """
    if device is not None:
        require_host(device, "empty")
    dims = (shape,) if isinstance(shape, int) else shape
    return NDArray(new_tensor([operator.index(extent) for extent in dims], canonical_dtype(dtype), device))


def array(source: object, device: Device | None = None, dtype: object = None) -> NDArray:
    """A fresh tensor with the contents of `source`.

    The contents are copied, so that later changes of `source` do not show; ``from_dlpack`` shares instead.

    Parameters
    ----------
    source
        Numbers, lists, NumPy arrays, DLPack producers such as torch tensors, NDArray.
    device
        One of the host's: ``relax.cpu()``, ``relax.cpu(1)``, … .
    dtype
        The element type, by default that of `source`.

    Returns
    -------
    NDArray
        The tensor.

    Raises
    ------
    ValueError
        If `device` is not the host, or `dtype` does not hold an integer of 64 bits and more.
    """
    if device is not None:
        require_host(device, "array")
    value = _as_numpy(source)
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    name = dtype_of_numpy(value.dtype) if dtype is None else canonical_dtype(dtype)
    if isinstance(source, list | tuple) and dtype is not None:
        value = exact_array(source)
    try:
        return NDArray(copy_of_numpy(value, name, device))
    except OverflowError:  # of Python's integers, which NumPy does not cast
        raise ValueError(f"array: a number is out of the range of {name}") from None


def _restored(value: Array, index: int) -> NDArray:
    """An array from the parts that pickle keeps."""
    return array(value, cpu(index))


def from_dlpack(source: Any) -> NDArray:
    """A tensor sharing the memory of a DLPack producer.

    Parameters
    ----------
    source
        A NumPy array (a read-only one is copied), a torch tensor, anything with ``__dlpack__``.

    Returns
    -------
    NDArray
        The tensor.
    """
    if isinstance(source, NDArray):
        return source
    if is_ndarray(source):
        return NDArray(tensor_of_numpy(source))
    return NDArray(tvm_ffi.from_dlpack(source))


def _as_numpy(source: Any) -> Array:
    """A NumPy array with the contents of `source`, sharing its memory if that is easy."""
    if isinstance(source, NDArray):
        return numpy_view(source.tensor)
    if isinstance(source, tvm_ffi.Tensor):
        return numpy_view(source)
    if hasattr(source, "__dlpack__") and not is_ndarray(source):
        return numpy_view(compact_tensor(tvm_ffi.from_dlpack(without_gradient(source))))
    value: Array = np.asarray(source)
    if value.dtype.kind in "OUS":
        raise TypeError(f"cannot make a tensor of {type(source).__name__}: its elements are no numbers")
    return value


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise missing("relax.nd", name)
