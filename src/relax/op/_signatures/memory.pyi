"""The operators of `relax.op.memory`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from collections.abc import Sequence
from relax.expr import Call
from relax.ir.expr import RelaxExpr
from relax.op.memory_view import TensorLike
from relax.op.storage import DTypeLike, ScalarLike, ShapeLike
from typing import Any

def alloc_storage(
    size: ShapeLike,
    virtual_device_index: ScalarLike = 0,
    storage_scope: RelaxExpr | str = 'global',
    dtype: RelaxExpr | DTypeLike = 'uint8',
) -> Call:
    """A storage of `size` bytes, to be cut into tensors."""

def alloc_tensor(
    storage: RelaxExpr,
    offset: ScalarLike,
    shape: ShapeLike,
    dtype: RelaxExpr | DTypeLike,
) -> Call:
    """A tensor in a storage, `offset` bytes from its start."""

def kill_storage(storage: Any) -> Call:
    """Mark the last use of a storage."""

def kill_tensor(tensor: Any) -> Call:
    """Mark the last use of a tensor."""

def view(
    data: TensorLike,
    shape: RelaxExpr | Sequence[Any] | None = None,
    dtype: DTypeLike | RelaxExpr = None,
    relative_byte_offset: int | RelaxExpr | None = None,
) -> Call:
    """The bytes of data from an offset on, in another shape and dtype: ``reshape`` and ``reinterpret`` of a
    ``strided_slice``. Without a shape, ``reinterpret`` alone.
    """
