"""The operators of `relax.op.vm`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from relax.expr import Call
from relax.ir.expr import RelaxExpr
from relax.op.storage import DTypeLike, FunctionLike, InfoLike, ScalarLike, ShapeLike, TupleLike
from typing import Any

def alloc_storage(
    size: ShapeLike,
    runtime_device_index: ScalarLike = 0,
    dtype: RelaxExpr | DTypeLike = 'uint8',
    storage_scope: RelaxExpr | str = 'global',
) -> Call:
    """A storage of `size` elements of a dtype, from the VM's allocator."""

def alloc_tensor(
    storage: RelaxExpr,
    offset: ScalarLike,
    shape: ShapeLike,
    dtype: RelaxExpr | DTypeLike,
) -> Call:
    """A tensor in a storage of the VM."""

def call_tir_dyn(func: FunctionLike, args: TupleLike, sinfo_args: InfoLike | None = None) -> Call:
    """Call a kernel; the integers of the last argument, a shape, become the kernel's last arguments."""

def kill_object(obj: Any) -> Call:
    """Mark the last use of a register."""
