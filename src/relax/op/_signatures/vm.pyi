"""The operators of `relax.op.vm`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from relax.expr import Call
from typing import Any

def alloc_storage(
    size: Any,
    runtime_device_index: Any = 0,
    dtype: Any = 'uint8',
    storage_scope: Any = 'global',
) -> Call:
    """`size` elements of a dtype, from the machine's allocator."""

def alloc_tensor(storage: Any, offset: Any, shape: Any, dtype: Any) -> Call:
    """A tensor in a storage of the machine."""

def call_tir_dyn(func: Any, args: Any, sinfo_args: Any = None) -> Call:
    """Call a kernel; the last argument is a shape, whose integers become its last arguments."""

def kill_object(obj: Any) -> Call:
    """A register is not read after this."""
