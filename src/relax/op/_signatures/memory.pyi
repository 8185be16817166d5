"""The operators of `relax.op.memory`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from relax.expr import Call
from typing import Any

def alloc_storage(
    size: Any,
    virtual_device_index: Any = 0,
    storage_scope: Any = 'global',
    dtype: Any = 'uint8',
) -> Call:
    """Memory of so many bytes, to be cut into tensors."""

def alloc_tensor(storage: Any, offset: Any, shape: Any, dtype: Any) -> Call:
    """A tensor in a storage, `offset` bytes from its start."""

def kill_storage(storage: Any) -> Call:
    """A storage is not used after this."""

def kill_tensor(tensor: Any) -> Call:
    """A tensor is not used after this."""
