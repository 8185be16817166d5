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
    """`size` elements of a dtype, from the machine's allocator."""

def alloc_tensor(
    storage: RelaxExpr,
    offset: ScalarLike,
    shape: ShapeLike,
    dtype: RelaxExpr | DTypeLike,
) -> Call:
    """A tensor in a storage of the machine."""

def call_tir_dyn(func: FunctionLike, args: TupleLike, sinfo_args: InfoLike | None = None) -> Call:
    """Call a kernel; the last argument is a shape, whose integers become its last arguments."""

def kill_object(obj: Any) -> Call:
    """A register is not read after this."""
