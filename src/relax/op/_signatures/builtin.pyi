"""The operators of `relax.op.builtin`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from relax.expr import Call
from relax.op.arguments import TensorLike
from typing import Any

def alloc_tensor(
    shape: Any,
    dtype: Any,
    runtime_device_index: Any = 0,
    storage_scope: Any = 'global',
) -> Call:
    """A fresh tensor of unknown contents."""

def stop_lift_params(x: TensorLike) -> Call:
    """The tensor itself; nothing after it is computed ahead of time from parameters."""
