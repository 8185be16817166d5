"""Multiply by a transposed matrix where it lies.

Before   lv = R.permute_dims(w)                             # w: (n, k), not constant
         y = R.matmul(x, lv)                                # x: (…, k)
After    y = R.einsum((x, w), subscripts="abc,dc->abd")

Kernels of products read a right operand whose rows lie along the sum in panels, or a few rows at once, so that the
transposed matrix is neither computed nor stored. Linear layers of torch whose weights are inputs are such products.
TVM's pass of this name makes a kernel at once; here legalisation does.

Declines: constants, which FoldConstant transposes once; right operands of another rank, as keys of attention, whose
kernel `FuseAttention` finds by its product; integers; a sum in another dtype than that of the operands; and sizes along
the sum that are not proved equal, since an einsum broadcasts a size of 1.
"""

from __future__ import annotations

from string import ascii_lowercase

from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ..dpl.rewrite import KnownValues
from ..expr import Call, Constant, Function, Tuple
from ..ir import IRModule, RelaxExpr
from ..op import is_call_of
from ..op.base import operator_of
from ..op.gradients import apply, dims_of, tensor_info
from ..op.linear_algebra import Matmul
from ..op.shapes import PermuteDims
from ..prim import Verdict, prove_shape_equal
from ..rewrite import bindings_in
from .decorators import function_pass


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def FuseTransposeMatmul(func: Function, mod: IRModule) -> Function:
    """Multiply by transposed matrices where they lie; see the module's docstring."""
    return _Products(mod).rewrite_function(func)


class _Products(KnownValues):
    def concerns(self, function: Function) -> bool:
        """True if something is transposed."""
        return any(is_call_of(binding.value, PermuteDims) for binding in bindings_in(function))

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if not is_call_of(call, Matmul):
            return call
        x, turned = call.args[0], self.value(call.args[1])
        if not isinstance(turned, Call) or not is_call_of(turned, PermuteDims) or not _is_transposed(turned):
            return call
        w = turned.args[0]
        sizes, depth = dims_of(x), dims_of(w)
        if isinstance(self.value(w), Constant) or not sizes or depth is None:
            return call
        dtypes = {info.dtype for info in map(tensor_info, (call, x, w))}
        if len(dtypes) > 1 or not tensor_info(x).dtype.is_float:
            return call
        if prove_shape_equal(sizes[-1:], depth[-1:]) is not Verdict.YES:
            return call
        *outer, along, column = ascii_lowercase[: len(sizes) + 1]
        rows = "".join(outer)
        return apply("einsum", Tuple([x, w]), subscripts=f"{rows}{along},{column}{along}->{rows}{column}")


def _is_transposed(turned: Call) -> bool:
    """True for a matrix whose two dimensions are exchanged."""
    operator = operator_of(turned)
    return isinstance(operator, PermuteDims) and tensor_info(turned).ndim == 2 and [*operator.order(2)] == [1, 0]


__all__ = ["FuseTransposeMatmul"]
