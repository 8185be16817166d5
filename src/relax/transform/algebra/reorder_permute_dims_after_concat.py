"""Transpose once, after a concatenation, instead of each of its parts.

Before   at = R.permute_dims(a, (1, 0))              After   lv = R.concat((a, b), axis=1)
         bt = R.permute_dims(b, (1, 0))                      y = R.permute_dims(lv, (1, 0))
         y = R.concat((at, bt), axis=0)

Declines unless all parts are permuted in the same way and read nowhere else, and the tuple of them is written in the
call (as CanonicalizeBindings leaves it).
"""

from __future__ import annotations

from ...analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ...dpl.rewrite import KnownValues
from ...expr import Call, Function, Tuple
from ...ir import IRModule, RelaxExpr
from ...op.pieces import Concat
from ...op.shapes import PermuteDims
from ...struct_info import TensorStructInfo
from ..decorators import function_pass
from .questions import operator_in, read_counts


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def ReorderPermuteDimsAfterConcat(func: Function, mod: IRModule) -> Function:
    """Move transpositions behind concatenations; see the module's docstring."""
    return _Reorderer(func, mod).rewrite_function(func)


class _Reorderer(KnownValues):
    def __init__(self, func: Function, mod: IRModule) -> None:
        super().__init__(mod)
        self.reads = read_counts(func)

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        concat = operator_in(call)
        if not isinstance(concat, Concat) or not isinstance(fields := call.args[0], Tuple):
            return call
        permuted = [self.value(field) for field in fields]
        axes = _axes(permuted[0]) if permuted else None
        if axes is None or any(_axes(transposed) != axes for transposed in permuted):
            return call
        if any(self.reads[field] != 1 for field in fields):
            return call
        sources = [transposed.args[0] for transposed in permuted if isinstance(transposed, Call)]
        axis = 0 if concat.axis is None else concat.axis
        joined = Concat(axes[axis % len(axes)]).call(Tuple(sources))
        return PermuteDims(axes).call(joined)


def _axes(expr: RelaxExpr) -> tuple[int, ...] | None:
    """The permutation that a call makes; None for what is none, or of unknown rank."""
    operator, info = operator_in(expr), expr.struct_info_
    if not isinstance(operator, PermuteDims) or not isinstance(info, TensorStructInfo) or info.ndim < 0:
        return None
    return operator.order(info.ndim)
