"""The operators of `relax.op.inspect`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from relax.expr import Call
from relax.op.arguments import ScalarLike, TensorLike

def tensor_byte_offset(x: TensorLike) -> Call:
    """Byte offset of the first element of x in its memory, a uint64: always 0."""

def tensor_dtype_bits(x: TensorLike) -> Call:
    """The bits of x's dtype, a uint8, as defined by DLPack; 8 for bool."""

def tensor_dtype_code(x: TensorLike) -> Call:
    """The kind of x's dtype, a uint8, as numbered by DLPack: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool."""

def tensor_dtype_lanes(x: TensorLike) -> Call:
    """The lanes of x's dtype, a uint16: always one."""

def tensor_elem_offset(x: TensorLike) -> Call:
    """Element offset of the first element of x in its memory, a uint64: always 0."""

def tensor_ndim(x: TensorLike) -> Call:
    """The rank of x, an int32."""

def tensor_shape_i(x: TensorLike, axis: ScalarLike) -> Call:
    """The size of dimension `axis` of x, an int64. An axis that x does not have is an error."""

def tensor_stride_i(x: TensorLike, axis: ScalarLike) -> Call:
    """The stride of dimension `axis` of x in elements, an int64: tensors are row-major."""
