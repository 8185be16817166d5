"""Re-derive struct info after values became more precise than their annotations.

Before   y: R.Tensor((2,)) = R.add(x, R.const([1, 1], "float32"))      x: R.Tensor((2,), "float32")
         z: R.Tensor((2,)) = R.exp(y)
After    y: R.Tensor((2,), "float32") = R.add(x, R.const([1, 1], "float32"))
         z: R.Tensor((2,), "float32") = R.exp(y)

A variable, or a function's result, that was described by less than its value gives takes the description of the
value. Where an annotation says as much as the value or more, it stays. Passes that replace a variable by something
known better (a constant, a variable of more precise struct info) end in this.
"""

from __future__ import annotations

from typing import cast

from ..expr import Function, SeqExpr, Var, VarBinding
from ..info.relations import is_base_of
from ..ir import IRModule, RelaxExpr, StructInfo, structural_equal
from ..rewrite import Rewriter


def refined(func: Function, mod: IRModule) -> Function:
    """A function in normal form with every description at least as precise as its value's; itself if all are."""
    return _Refiner(mod).rewrite_function(func)


def tells_more(info: StructInfo, current: StructInfo) -> bool:
    """True if struct info is provably more precise than what is known."""
    return is_base_of(current, info) and not structural_equal(current, info)


class _Refiner(Rewriter):
    def bind(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> Var:
        info = self.builder.visible(binding.var, value.struct_info)
        if tells_more(info, binding.var.struct_info):
            var = self.with_struct_info(binding.var, info)
        return super().bind(binding, value, var)

    def function(self, function: Function) -> RelaxExpr:
        result = cast(Function, super().function(function))
        info = cast(SeqExpr, result.body).struct_info
        declared = result.ret_struct_info
        if declared is None or not tells_more(info, declared):
            return result
        return result.replace(ret_struct_info=info)
