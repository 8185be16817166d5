"""Tensor memory: making, viewing and importing ``tvm_ffi.Tensor`` objects.

A tensor of the machine is *compact*: row-major, without gaps, at offset 0, in host memory. Fresh ones are
aligned to 64 bytes; imported ones share the memory of whoever made them, aligned to their element.
Elements of 2 and 4 bits are padded to a byte each, which their strides show: see `dtypes`.
It belongs to one of the host's devices, which its views and compact copies keep; `to_device` moves it.
Everything here speaks the raw object; ``nd.NDArray`` is the face it shows to users.

The layouts used are those of DLPack and of tvm-ffi's C header, which are stable ABIs:
``DLManagedTensor`` for handing memory over, and ``{TVMFFIObject, DLTensor}`` for a tensor object.
"""

from __future__ import annotations

import ctypes
import functools
import math
import mmap
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np
import tvm_ffi

from .devices import Device, is_cpu, require_host
from .dtypes import DLPACK_CODES, NUMPY_DTYPES, Array, canonical_dtype, dtype_of_numpy, itemsize, stride_unit
from .rounding import convert_array
from .sizes import check_dimensions

ALIGNMENT: Final = 64
"""Fresh memory starts at a multiple of this many bytes."""

LARGE_PAGE: Final = 1 << 21
"""The bytes of a large page. A tensor of one or more begins with one, and asks for as many as it fills.

The processor looks up 512 times fewer addresses, and recognises further ahead what is read in the order of memory: a
product of one row reads its weights at 27 GB/s, where pages of 4 kB give 17 (AMD Zen 4, one core).
"""

MAX_BYTES: Final = 1 << 47  # more than any user address space: refused before the allocator is asked
_MAX_NDIM: Final = 1 << 16

# DLManagedTensor: data, device (type, id), ndim, dtype (code, bits, lanes), shape, strides, byte_offset;
# then manager_ctx and deleter.
_DLTENSOR = struct.Struct("@QiiiBBHQQQ")
_MANAGED = struct.Struct("@QiiiBBHQQQQQ")
_DTYPE_OFFSET: Final = 20
_OBJECT_HEADER: Final = 24  # sizeof(TVMFFIObject)
_CPU: Final = 1  # kDLCPU

_libc = ctypes.CDLL(None)
_aligned_alloc = cast("Callable[[int, int], int | None]", _libc.aligned_alloc)
_libc.aligned_alloc.restype = ctypes.c_void_p
_libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_WANT_LARGE_PAGES: Final[int | None] = getattr(mmap, "MADV_HUGEPAGE", None)
"""The advice to the system; None where there is none."""
_FREE: Final = ctypes.cast(_libc.free, ctypes.c_void_p).value

_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype = ctypes.py_object
_capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

_create_view = tvm_ffi.LIB.TVMFFITensorCreateUnsafeView
_create_view.restype = ctypes.c_int
_create_view.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]
_to_dlpack = tvm_ffi.LIB.TVMFFITensorToDLPack
_to_dlpack.restype = ctypes.c_int
_to_dlpack.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]
_decref = tvm_ffi.LIB.TVMFFIObjectDecRef
_decref.restype = ctypes.c_int
_decref.argtypes = [ctypes.c_void_p]


def compact_strides(shape: Sequence[int], unit: int = 1) -> list[int]:
    """Row-major strides, in elements of which each takes the room of `unit`."""
    strides = [unit] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * shape[axis]
    return strides


def element_strides(tensor: tvm_ffi.Tensor) -> tuple[int, ...]:
    """The strides in elements, also of a dtype that is padded.

    Raises ValueError for a packed tensor, whose elements share bytes.
    """
    unit = stride_unit(canonical_dtype(tensor.dtype))
    if unit == 1:
        return tensor.strides
    if tensor.numel() < 2:
        return tuple(compact_strides(tensor.shape))
    if any(stride % unit for size, stride in zip(tensor.shape, tensor.strides, strict=True) if size > 1):
        raise ValueError(
            f"a packed tensor is not supported: elements of dtype {tensor.dtype} share a byte; "
            "unpack them: each takes one byte here"
        )
    return tuple(stride // unit for stride in tensor.strides)


def is_compact(tensor: tvm_ffi.Tensor, dtype: str | None = None) -> bool:
    """True if the elements, whose dtype a caller may know, lie row-major without gaps.

    Raises ValueError for a packed tensor.
    """
    if stride_unit(dtype or canonical_dtype(tensor.dtype)) == 1 or not tensor.numel():
        return tensor.is_contiguous()
    compact = compact_strides(tensor.shape)
    return all(
        size == 1 or stride == expected
        for size, stride, expected in zip(tensor.shape, element_strides(tensor), compact, strict=True)
    )


def check_shape(shape: Sequence[int], dtype: str) -> int:
    """The bytes a tensor of `shape` takes; ValueError or MemoryError if there can be no such tensor."""
    check_dimensions(shape)
    if len(shape) > _MAX_NDIM:
        raise ValueError(f"a tensor cannot have {len(shape)} dimensions")
    nbytes = math.prod(shape) * itemsize(dtype)
    if not nbytes and math.prod(extent or 1 for extent in shape) * _stride_bytes(dtype) >= 1 << 63:
        raise MemoryError(f"a {dtype} tensor of shape {_tuple(shape)} has strides of more than 64 bits")
    if nbytes > MAX_BYTES:
        raise MemoryError(f"a {dtype} tensor of shape {_tuple(shape)} needs {nbytes} bytes")
    return nbytes


@functools.lru_cache(maxsize=4096)
def tensor_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Cached `check_shape`."""
    return check_shape(shape, dtype)


def _stride_bytes(dtype: str) -> int:
    """The greater of an element's bytes and its stride."""
    return max(itemsize(dtype), stride_unit(dtype))


@functools.lru_cache(maxsize=4096)
def _layout(shape: tuple[int, ...], dtype: str) -> tuple[int, int, int, int, int, bytes]:
    """For one allocation: total bytes, header bytes, rank, type code, bits, and shape and strides in binary."""
    nbytes = check_shape(shape, dtype)
    ndim = len(shape)
    header = -(-(_MANAGED.size + 16 * ndim) // ALIGNMENT) * ALIGNMENT
    total = header + max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
    dims = struct.pack(f"@{2 * ndim}q", *shape, *compact_strides(shape, stride_unit(dtype)))
    return total, header, ndim, *DLPACK_CODES[dtype], dims


def new_tensor(
    shape: Sequence[int], dtype: str, device: Device | None = None, *, large_pages: bool = True
) -> tvm_ffi.Tensor:
    """A fresh, uninitialised tensor in host memory, aligned to 64 bytes, on a device of the host (None: the first).

    Header, shape, strides and data are one allocation which the tensor's end gives back by plain ``free``:
    no Python runs then, so a tensor may die on any thread, and after the interpreter. Without `large_pages`, none are
    asked for. Raises MemoryError if there is not as much memory, ValueError for what is no shape.
    """
    total, header, ndim, code, bits, dims = _layout(tuple(shape), dtype)
    if large_pages and total >= LARGE_PAGE:
        address = _in_large_pages(total)
    else:
        address = _aligned_alloc(ALIGNMENT, total)
    if not address:
        raise MemoryError(f"out of memory: a {dtype} tensor of shape {_tuple(shape)} needs {total} bytes")
    at = address + _MANAGED.size
    device_index = 0 if device is None else device.index
    fields = _MANAGED.pack(address + header, _CPU, device_index, ndim, code, bits, 1, at, at + 8 * ndim, 0, 0, _FREE)
    ctypes.memmove(address, fields + dims, len(fields) + len(dims))
    return tvm_ffi.from_dlpack(_capsule_new(address, b"dltensor", None))


def _in_large_pages(total: int) -> int | None:
    """Allocate memory aligned to a large page, or return None; the remainder stays in small pages."""
    if _WANT_LARGE_PAGES is None:
        return _aligned_alloc(ALIGNMENT, total)
    address = _aligned_alloc(LARGE_PAGE, total)
    if address:  # a system that has no large pages refuses the advice, and may
        _libc.madvise(address, total // LARGE_PAGE * LARGE_PAGE, _WANT_LARGE_PAGES)
    return address


@functools.lru_cache(maxsize=4096)
def _view_layout(shape: tuple[int, ...], dtype: str) -> tuple[int, int, int, Any, int]:
    """For a view: rank, type code, bits, shape and strides in memory, and where that is."""
    code, bits = DLPACK_CODES[dtype]
    ndim = len(shape)
    dims = (ctypes.c_int64 * (2 * ndim))(*shape, *compact_strides(shape, stride_unit(dtype)))
    return ndim, code, bits, dims, ctypes.addressof(dims)


def view_tensor(
    source: tvm_ffi.Tensor, shape: Sequence[int], dtype: str | None = None, byte_offset: int = 0
) -> tvm_ffi.Tensor:
    """A compact tensor over the memory of `source`, which it keeps alive.

    The caller answers for the range lying inside `source`. Raises MemoryError if there is none for the tensor's header.
    """
    if not source.__chandle__():
        source = copy_tensor(source)
    name = canonical_dtype(source.dtype) if dtype is None else dtype
    ndim, code, bits, dims, at = _view_layout(tuple(shape), name)
    data = source.data_ptr() + byte_offset
    prototype = _DLTENSOR.pack(data, _CPU, source.device.index, ndim, code, bits, 1, at, at + 8 * ndim, 0)
    del dims
    view, managed = ctypes.c_void_p(), ctypes.c_void_p()
    if _create_view(source.__chandle__(), prototype, ctypes.byref(view)):
        raise MemoryError("out of memory: cannot make a view of a tensor")
    failed = _to_dlpack(view, ctypes.byref(managed))
    _decref(view)
    if failed:
        raise MemoryError("out of memory: cannot make a view of a tensor")
    return tvm_ffi.from_dlpack(_capsule_new(managed, b"dltensor", None))


class _Memory:
    """An ``__array_interface__`` over a tensor's memory; the array keeps this alive, and this the tensor."""

    __slots__ = ("__array_interface__", "tensor")

    def __init__(self, tensor: tvm_ffi.Tensor, dtype: str) -> None:
        size = itemsize(dtype)
        kind = "b" if dtype == "bool" else "u" if dtype not in _PLAIN else NUMPY_DTYPES[dtype].kind
        strides = None if is_compact(tensor, dtype) else tuple(s * size for s in element_strides(tensor))
        self.tensor = tensor
        self.__array_interface__: dict[str, Any] = {
            "data": (tensor.data_ptr(), False),
            "shape": tensor.shape,
            "strides": strides,
            "typestr": f"|{kind}1" if size == 1 else f"{_ORDER}{kind}{size}",
            "version": 3,
        }


_ORDER: Final = "<" if sys.byteorder == "little" else ">"
#: the types NumPy has of its own
_PLAIN: Final = frozenset(name for name, dtype in NUMPY_DTYPES.items() if dtype.isbuiltin == 1)


def numpy_view(tensor: tvm_ffi.Tensor) -> Array:
    """A writable NumPy array over the tensor's own memory, whatever its dtype. Raises ValueError off the host."""
    if not is_cpu(tensor.device):
        raise ValueError(f"a tensor on {tensor.device} cannot be seen from NumPy; copy it to the host first")
    dtype = canonical_dtype(tensor.dtype)
    numpy_dtype = NUMPY_DTYPES[dtype]
    if tensor.numel() == 0:
        return np.empty(tensor.shape, numpy_dtype)
    array: Array = np.asarray(_Memory(tensor, dtype))  # the array keeps the tensor alive
    return array if array.dtype == numpy_dtype else array.view(numpy_dtype)


def new_array(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """A fresh, uninitialised array in the memory of a tensor: see `tensor_under`."""
    return numpy_view(new_tensor(shape, dtype_of_numpy(dtype)))


def tensor_under(array: Array) -> tvm_ffi.Tensor | None:
    """The tensor whose memory an array of `numpy_view`, or a view of it, shows as a whole; None if there is none."""
    memory: Any = array.base
    while isinstance(memory, np.ndarray):
        memory = cast("Array", memory).base
    if not isinstance(memory, _Memory):
        return None
    tensor = memory.tensor
    same = tensor.data_ptr() == array.ctypes.data and tuple(tensor.shape) == array.shape
    fits = same and array.flags.c_contiguous and canonical_dtype(tensor.dtype) == dtype_of_numpy(array.dtype)
    return tensor if fits else None


def without_padding(array: Array) -> Array:
    """The array itself, with 0 in the bits beside elements of 2 and 4 bits, which ml_dtypes expects there."""
    bits = DLPACK_CODES[dtype_of_numpy(array.dtype)][1]
    if bits < 8:
        raw = array.view(np.uint8)
        raw &= (1 << bits) - 1
    return array


def tensor_of_numpy(array: Array) -> tvm_ffi.Tensor:
    """A compact tensor sharing the array's memory if it can (compact, writable, aligned), else a copy.

    Raises ValueError for a dimension that is no size, which only an array without elements can have.
    """
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    dtype = dtype_of_numpy(array.dtype)
    if not array.size:
        check_shape(array.shape, dtype)
    if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
        return copy_of_numpy(array, dtype)
    return shared_tensor(array, dtype)


def shared_tensor(array: Array, dtype: str) -> tvm_ffi.Tensor:
    """A tensor in the array's memory, with its strides; elements of 2 and 4 bits must be compact."""
    if dtype in _PLAIN:
        return tvm_ffi.from_dlpack(array)
    # NumPy exports the ml_dtypes as nothing at all: export the bits, and put the true type on the capsule.
    code, bits = DLPACK_CODES[dtype]
    if bits < 8:
        return view_tensor(tvm_ffi.from_dlpack(array.view(np.uint8)), array.shape, dtype)
    capsule = array.view(f"u{bits // 8}").__dlpack__()
    address = _capsule_pointer(capsule, b"dltensor")
    struct.pack_into(
        "@BB", (ctypes.c_char * _MANAGED.size).from_address(cast("int", address)), _DTYPE_OFFSET, code, bits
    )
    return tvm_ffi.from_dlpack(capsule)


def copy_of_numpy(array: Array, dtype: str, device: Device | None = None) -> tvm_ffi.Tensor:
    """A fresh tensor with the array's elements, converted to `dtype`."""
    tensor = new_tensor(array.shape, dtype, device)
    if array.size:
        view = numpy_view(tensor)
        view[...] = array if array.dtype == view.dtype else convert_array(array, dtype)
    return tensor


def compact_tensor(tensor: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
    """The tensor itself if kernels can take it; a view if only its offset is wrong; else a compact copy.

    Raises ValueError for a tensor on another device, and for dimensions that are no sizes.
    """
    if not is_cpu(tensor.device):
        raise ValueError(f"expected a tensor on cpu, found one on {tensor.device}")
    dtype = canonical_dtype(tensor.dtype)
    if not tensor.numel():  # what has elements is in memory, and cannot be as large
        check_shape(tensor.shape, dtype)
    if not is_compact(tensor, dtype) or not tensor.__chandle__():  # no handle: memory lent for one call only
        return copy_of_numpy(numpy_view(tensor), dtype, tensor.device)
    if tensor.data_ptr() % itemsize(dtype):
        return copy_of_numpy(np.copy(_unaligned_view(tensor, dtype)), dtype, tensor.device)
    return view_tensor(tensor, tensor.shape) if _byte_offset(tensor) else tensor


def device_of(tensor: tvm_ffi.Tensor) -> Device:
    """The device a tensor belongs to."""
    return tensor.device


def to_device(tensor: tvm_ffi.Tensor, device: Device) -> tvm_ffi.Tensor:
    """The tensor itself if it is on `device`, else a copy there. ValueError for a device this runtime has not."""
    if tensor.device == device:
        return tensor
    require_host(device, "to_device")
    require_host(tensor.device, "to_device")
    return copy_tensor(tensor, device)


def copy_tensor(tensor: tvm_ffi.Tensor, device: Device | None = None) -> tvm_ffi.Tensor:
    """A fresh tensor with the same contents, on a device of the host (None: where the tensor is)."""
    fresh = new_tensor(tensor.shape, canonical_dtype(tensor.dtype), tensor.device if device is None else device)
    if is_compact(tensor):
        nbytes = tensor.numel() * itemsize(canonical_dtype(tensor.dtype))
        ctypes.memmove(fresh.data_ptr(), tensor.data_ptr(), nbytes)
    else:
        numpy_view(fresh)[...] = numpy_view(tensor)
    return fresh


def tensor_of(value: Any) -> tvm_ffi.Tensor | None:
    """The compact tensor a foreign value stands for, without copying where that is possible.

    None if the value is no tensor. Takes NumPy arrays, ``tvm_ffi.Tensor``, everything that wraps one
    (``__tvm_ffi_object__``) and every DLPack producer.
    """
    if isinstance(value, tvm_ffi.Tensor):
        return compact_tensor(value)
    if is_ndarray(value):
        return tensor_of_numpy(value)
    unwrap = getattr(value, "__tvm_ffi_object__", None)
    if unwrap is not None:
        inner = unwrap()
        return compact_tensor(inner) if isinstance(inner, tvm_ffi.Tensor) else None
    if hasattr(value, "__dlpack__"):
        return compact_tensor(tvm_ffi.from_dlpack(without_gradient(value)))
    return None


def without_gradient(value: Any) -> Any:
    """The value as DLPack takes it: a PyTorch tensor that requires gradients refuses."""
    return value.detach() if getattr(value, "requires_grad", False) else value


def is_ndarray(value: object) -> bool:
    """True if the value is a NumPy array."""
    return isinstance(value, np.ndarray)


def _dltensor(tensor: tvm_ffi.Tensor) -> tuple[int, ...]:
    """The fields of the DLTensor inside a tensor object."""
    return _DLTENSOR.unpack(ctypes.string_at(tensor.__chandle__() + _OBJECT_HEADER, _DLTENSOR.size))


def _byte_offset(tensor: tvm_ffi.Tensor) -> int:
    return _dltensor(tensor)[9]


def _unaligned_view(tensor: tvm_ffi.Tensor, dtype: str) -> Array:
    nbytes = tensor.numel() * itemsize(dtype)
    raw: Array = np.frombuffer(ctypes.string_at(tensor.data_ptr(), nbytes), np.uint8)
    return raw.view(NUMPY_DTYPES[dtype]).reshape(tensor.shape)


def _tuple(shape: Sequence[int]) -> str:
    return str(tuple(int(extent) for extent in shape))
