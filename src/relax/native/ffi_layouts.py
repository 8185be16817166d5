"""Layouts of tvm-ffi's and DLPack's C structures, and tvm-ffi's type indices."""

from __future__ import annotations

from typing import NamedTuple

POINTER_BITS = 64
"""Pointer size of the structures that generated code reads; `relax.farm.host` rejects targets with another one."""
ANY_TYPE = "{ i32, i32, i64 }"
TENSOR_TYPE = "{ ptr, i32, i32, i32, i8, i8, i16, ptr, ptr, i64 }"
OBJECT_HEADER = 24


class TensorOffsets(NamedTuple):
    """Offsets in bytes of the fields of a DLTensor."""

    data: int
    device: int
    ndim: int
    dtype: int
    shape: int
    strides: int
    byte_offset: int


def tensor_offsets(pointer_bits: int = POINTER_BITS) -> TensorOffsets:
    """Return the offsets of the fields of `TENSOR_TYPE`, for pointers of `pointer_bits` and int64 aligned to 8."""
    pointer = pointer_bits // 8
    shape = -(-(pointer + 16) // pointer) * pointer  # behind the device, the number of dimensions and the dtype
    strides = shape + pointer
    return TensorOffsets(
        data=0,
        device=pointer,
        ndim=pointer + 8,
        dtype=pointer + 12,
        shape=shape,
        strides=strides,
        byte_offset=-(-(strides + pointer) // 8) * 8,
    )


#: TVMFFITypeIndex
NONE, INT, BOOL, FLOAT, POINTER, TENSOR_POINTER, TENSOR = 0, 1, 2, 3, 4, 7, 70
