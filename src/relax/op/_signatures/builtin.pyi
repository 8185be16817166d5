"""The operators of `relax.op.builtin`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from relax.expr import Call
from relax.ir.expr import RelaxExpr
from relax.op.arguments import TensorLike
from relax.op.storage import DTypeLike, ScalarLike, ShapeLike

def alloc_tensor(
    shape: ShapeLike,
    dtype: RelaxExpr | DTypeLike,
    runtime_device_index: ScalarLike = 0,
    storage_scope: RelaxExpr | str = 'global',
) -> Call:
    """A newly allocated tensor of undefined contents."""

def stop_lift_params(x: TensorLike) -> Call:
    """The tensor itself; computations after it are not lifted into the parameter transform."""
