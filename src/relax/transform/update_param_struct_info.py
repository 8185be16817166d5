"""Give parameters other struct info, and derive what follows from it.

Before   def main(x: R.Tensor(("n", 4), "float32")):
             y: R.Tensor(("n", 4), "float32") = R.exp(x)
             return y
After    UpdateParamStructInfo(lambda var: R.Tensor((8, 4), "float16"))
         def main(x: R.Tensor((8, 4), "float16")):
             y: R.Tensor((8, 4), "float16") = R.exp(x)
             return y

The function is asked for each parameter of each Relax function; None leaves it as it is. Return annotations are derived
anew where parameters changed.
"""

from __future__ import annotations

from collections.abc import Callable

from ..analysis.properties import LEGALIZED, NO_OPERATORS, NORMAL_FORM, SHAPES_LOWERED
from ..derive.normalize import normalize_module
from ..expr import Function, Var
from ..ir import BaseFunc, GlobalVar, IRModule, StructInfo, structural_equal
from ..rewrite import Rewriter
from .decorators import module_pass


@module_pass(needs={NORMAL_FORM}, breaks={LEGALIZED, NO_OPERATORS, SHAPES_LOWERED})
def UpdateParamStructInfo(mod: IRModule, sinfo_func: Callable[[Var], StructInfo | None]) -> IRModule:
    """Update the struct info of parameters as `sinfo_func` says; see the module's docstring."""
    updated: dict[GlobalVar, BaseFunc] = {}
    for global_var, function in mod.functions.items():
        if isinstance(function, Function):
            params = tuple(_updated(param, sinfo_func(param)) for param in function.params)
            if any(new is not old for new, old in zip(params, function.params, strict=True)):
                function = _Update(mod, dict(zip(function.params, params, strict=True))).rewrite_function(
                    function, global_var.name_hint
                )
        updated[global_var] = function
    result = mod.with_functions(updated)
    return mod if result is mod else normalize_module(result)


def _updated(param: Var, info: StructInfo | None) -> Var:
    same = info is None or structural_equal(info, param.struct_info, map_free_vars=True)
    return param if same else Var(param.name_hint, info, span=param.span)


class _Update(Rewriter):
    def __init__(self, mod: IRModule, params: dict[Var, Var]) -> None:
        super().__init__(mod)
        self.params = params

    def define(self, var: Var) -> Var:
        return self.params.get(var) or super().define(var)

    def function(self, function: Function) -> Function:
        if any(param in self.params for param in function.params):
            function = function.replace(ret_struct_info=None)
        result = super().function(function)
        assert isinstance(result, Function)
        return result
