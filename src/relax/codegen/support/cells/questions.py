"""Functions that query the value in a cell: kind, rank, sizes, fields and truth."""

from __future__ import annotations

from ....native import ffi_layouts as ffi
from ....runtime.limits import DIMENSION_LIMIT
from ....runtime.native import CELLS
from ....script import tir as T
from ...plain import Data
from ..c import NULL, address, is_size, u64, udiv
from .values import Any, cells, hidden, internal, set_cell

Tensor = T.struct("DLTensor")
TensorObject = T.struct("TensorObject")
Shape = T.struct("ShapeObject")
Array = T.struct("ArrayObject")

MOST_BYTES = 1 << 47
"""Bytes of the largest tensor that is allocated here."""

DATA = (Data(f"{CELLS}condition", words=(0, 0, 0, 6 | 8 << 8 | 1 << 16, 0, 0)),)
"""Numbers of the check of a tensor: rank and dtype of a condition, and nothing of its dimensions."""


@internal
def sizes(dims: T.handle, count: T.int64) -> T.bool:
    """Return true if all dimensions are valid sizes."""
    shape = T.decl_buffer((count,), "int64", data=dims)
    for i in range(count):
        if not is_size(shape[i], DIMENSION_LIMIT):
            return False
    return True


@internal
def unit(bits: T.int64) -> T.int64:
    """Return the stride between neighbouring elements: more than 1 for elements of 2 and 4 bits, padded to a byte."""
    return udiv(8, T.Cast("int64", T.min(u64(bits), T.uint64(8))))


@hidden
def bytes(dtype: T.int32, ndim: T.int32, dims: T.handle) -> T.int64:
    """Return the size in bytes of a compact tensor, -1 if a dimension is invalid or the size overflows."""
    bits = T.int64((dtype >> 8) & 255)
    item = (bits + 7) >> 3
    shape = T.decl_buffer((ndim,), "int64", data=dims)
    total = T.alloc_var("int64", item)
    room = T.alloc_var("int64", T.max(item, unit(bits)))
    for axis in range(T.int64(ndim)):
        dim = shape[axis]
        if not is_size(dim, DIMENSION_LIMIT):
            return -1
        factor = T.max(dim, 1)
        if T.umul_overflows(room, factor) or u64(room * factor) > u64(MOST_BYTES):
            return -1
        room *= factor
        total *= dim
    return total


@internal
def is_compact(tensor: Tensor, bits: T.int64) -> T.bool:
    """Return true if the strides of a tensor are those of a compact one."""
    if T.isnullptr(tensor.strides):
        return False
    ndim = T.int64(tensor.ndim)
    shape = T.decl_buffer((ndim,), "int64", data=tensor.shape)
    strides = T.decl_buffer((ndim,), "int64", data=tensor.strides)
    expected = T.alloc_var("int64", unit(bits))
    gaps = T.alloc_var("bool", T.bool(False))
    for i in range(ndim):
        axis = ndim - 1 - i
        size = shape[axis]
        if strides[axis] != expected and size != 1:
            gaps = T.bool(True)
        if not is_size(size, DIMENSION_LIMIT):
            return False
        expected *= size
    if expected == 0:
        # The strides of a tensor without elements mean nothing, and its other sizes may be more than can be counted.
        return bytes(tensor.dtype, tensor.ndim, tensor.shape) >= 0
    return not gaps


@cells
def plain(cell: Any) -> T.bool:
    """Return true if kernels take the value unchanged: a tensor must be compact, aligned and in host memory."""
    type = cell.type_index
    if type == ffi.TENSOR:
        tensor = TensorObject(cell.object).tensor
        bits = T.int64((tensor.dtype >> 8) & 255)
        lanes = T.Cast("uint32", tensor.dtype) >> 16
        low = address(tensor.data) & (((bits + 7) >> 3) - 1)
        if tensor.device_type != 1 or tensor.byte_offset != 0 or lanes != 1 or low != 0 or bits == 0:
            return False
        return is_compact(tensor, bits)
    if type == ffi.SHAPE:
        shape = Shape(cell.object)
        return sizes(shape.data, shape.size)
    if type == ffi.ARRAY:
        array = Array(cell.object)
        fields = Any(array.data)
        for i in range(array.size):
            if not T.call_extern("bool", f"{CELLS}plain", fields[i]):
                return False
        return True
    return type != ffi.LIST


@cells
def rank(cell: Any) -> T.int32:
    """Return the rank of a tensor or shape, -1 for another value."""
    if cell.type_index == ffi.TENSOR:
        return TensorObject(cell.object).tensor.ndim
    if cell.type_index == ffi.SHAPE:
        return T.int32(Shape(cell.object).size)
    return -1


@cells
def dim(cell: Any, axis: T.int64) -> T.int64:
    """Return one size of a tensor or shape, -1 if there is none."""
    if axis >= T.int64(rank(cell)):
        return -1
    if cell.type_index == ffi.TENSOR:
        of_tensor = T.decl_buffer((axis,), "int64", data=TensorObject(cell.object).tensor.shape)
        return of_tensor[axis]
    of_shape = T.decl_buffer((axis,), "int64", data=Shape(cell.object).data)
    return of_shape[axis]


@cells
def count(cell: Any) -> T.int64:
    """Return the number of fields of a tuple, -1 for another value."""
    if cell.type_index != ffi.ARRAY:
        return -1
    return Array(cell.object).size


@cells
def field(to: Any, cell: Any, index: T.int64) -> T.bool:
    """Copy a field of a tuple to a cell; false if there is none."""
    if index >= count(cell):
        return False
    set_cell(to, Any(Array(cell.object).data)[index])
    return True


@cells
def truth(cell: Any) -> T.int32:
    """Return the truth of a condition as 0 or 1, or 2 if the value is neither a bool nor a bool tensor of rank 0."""
    if cell.type_index == ffi.BOOL:
        return T.Cast("int32", cell.value != 0)
    numbers = T.symbol_address(f"{CELLS}condition")
    if cell.type_index != ffi.TENSOR or not T.call_extern("bool", f"{CELLS}fits_tensor", cell, numbers, NULL, NULL):
        return 2
    value = T.decl_buffer((1,), "uint8", data=TensorObject(cell.object).tensor.data)
    return T.Cast("int32", value[0] != 0)


FUNCTIONS = (sizes, unit, bytes, is_compact, plain, rank, dim, count, field, truth)
