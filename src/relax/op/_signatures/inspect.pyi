"""The operators of `relax.op.inspect`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from relax.expr import Call
from relax.op.arguments import ScalarLike, TensorLike

def tensor_byte_offset(x: TensorLike) -> Call:
    """The bytes before the first element of x, a uint64: 0, as a tensor begins where its memory does."""

def tensor_dtype_bits(x: TensorLike) -> Call:
    """The number of bits of x's dtype as DLPack has it, a uint8; of bool, 8."""

def tensor_dtype_code(x: TensorLike) -> Call:
    """The kind of x's dtype, a uint8, as DLPack numbers it: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool."""

def tensor_dtype_lanes(x: TensorLike) -> Call:
    """The number of lanes of x's dtype, a uint16: tensors have one."""

def tensor_elem_offset(x: TensorLike) -> Call:
    """The elements before the first element of x, a uint64: 0, as a tensor begins where its memory does."""

def tensor_ndim(x: TensorLike) -> Call:
    """The number of dimensions of x, an int32."""

def tensor_shape_i(x: TensorLike, axis: ScalarLike) -> Call:
    """The size of dimension `axis` of x, an int64. An axis that x does not have is an error."""

def tensor_stride_i(x: TensorLike, axis: ScalarLike) -> Call:
    """The number of elements from one index of dimension `axis` of x to the next, an int64: tensors are row-major."""
