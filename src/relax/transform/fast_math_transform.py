"""Replace functions by faster, less exact ones.

Before   def main(x: R.Tensor((n, 4), "float32")):
             y = R.tanh(x)
             return y
After    def main(x: R.Tensor((n, 4), "float32")):
             y = R.call_tir(cls.fast_tanh, (x,), R.Tensor((n, 4), "float32"))
             return y
         @T.prim_func(private=True)
         def fast_tanh(A, T_fast_tanh): ...                # x · P(x²) / Q(x²), see relax.topi.fast_tanh

The result of fast_tanh is within 8 ULP, that of tanh within 4 (docs/numerics.md). No default pipeline has this pass.

What stays: tanh of float64, and of tensors whose number of dimensions is not known; exp, erf and softmax, which TVM
replaces too: their kernels here are as fast as such formulas are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .. import te, topi
from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED, STORAGE_EXPLICIT
from ..expr import Call
from ..ir import IRModule, Op, RelaxExpr
from ..rewrite import Rewriter
from ..struct_info import TensorStructInfo
from .decorators import module_pass

FASTER: Final[dict[str, Callable[[te.Tensor], te.Tensor]]] = {"relax.tanh": topi.fast_tanh}
"""Replacement formulas by operator."""


@module_pass(needs={NORMAL_FORM}, breaks={STORAGE_EXPLICIT, SHAPES_LOWERED})
def FastMathTransform(mod: IRModule) -> IRModule:
    """Replace `R.tanh` of floats of at most 32 bits by a faster formula; see the module's docstring."""
    return _Faster(mod).module()


class _Faster(Rewriter):
    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        formula = FASTER.get(call.op.name) if isinstance(call.op, Op) else None
        if formula is None:
            return call
        (operand,) = call.args
        info, result = operand.struct_info_, call.struct_info_
        if not isinstance(info, TensorStructInfo) or not isinstance(result, TensorStructInfo):
            return call
        if info.ndim == -1 or not info.dtype.is_float or info.dtype.bits > 32:
            return call
        new = self.builder.call_te(formula, operand)
        return new.replace(sinfo_args=(result,), span=call.span) if result.dims is not None else new
