"""Remove reshapes that another one undoes, or that change nothing.

Before   lv = R.reshape(x, (n, 8, 8))        After   lv1 = R.reshape(x, (n, 64))
         lv1 = R.reshape(lv, (n, 64))                z = R.exp(lv1)
         y = R.reshape(lv1, (n, 64))
         z = R.exp(y)

A reshape of a reshape reads the first one's operand. A reshape to the very shape that its operand is proved to have
becomes another name for the operand, unless somebody could tell: a call gives a fresh tensor, so that of two names
for one tensor at most one may be referred to by others, and none where the function may change a tensor.
"""

from __future__ import annotations

from ...analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ...expr import Call, Function
from ...ir import IRModule, RelaxExpr
from ...op import is_call_of
from ...op.shapes import Reshape
from ...prim import Verdict, prove_shape_equal
from ..decorators import function_pass
from .questions import dims
from .same_value import SameValues


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def RemoveRedundantReshape(func: Function, mod: IRModule) -> Function:
    """Remove redundant reshapes; see the module's docstring."""
    return _Reshapes(mod).rewrite_function(func)


class _Reshapes(SameValues):
    concerned = Reshape

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if not is_call_of(call, Reshape):
            return call
        source, shape = call.args
        inner = self.value(source)
        if isinstance(inner, Call) and is_call_of(inner, Reshape):
            return Reshape().raw_call((inner.args[0], shape), span=call.span)
        return call

    def same_as(self, call: Call) -> RelaxExpr | None:
        if not is_call_of(call, Reshape):
            return None
        before, after = dims(call.args[0]), dims(call)
        if before is None or after is None or len(before) != len(after):
            return None
        return call.args[0] if prove_shape_equal(before, after) is Verdict.YES else None
