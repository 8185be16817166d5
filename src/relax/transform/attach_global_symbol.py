"""Make every function an entry point under its own name.

Before   @R.function(private=True)                After   @R.function
         def f(x): ...                                    def f(x): ...                 # global_symbol = "f"
         @T.prim_func(private=True)                       @T.prim_func
         def kernel(a: T.handle): ...                     def kernel(a: T.handle): ...  # global_symbol = "kernel"
"""

from __future__ import annotations

from ..analysis.properties import NORMAL_FORM
from ..expr import Function
from ..ir import BaseFunc, GlobalVar, IRModule
from ..tir import PrimFunc
from .decorators import module_pass


@module_pass(needs={NORMAL_FORM}, breaks=())
def AttachGlobalSymbol(mod: IRModule) -> IRModule:
    """Attach `global_symbol` to Relax functions and PrimFuncs."""
    functions: dict[GlobalVar, BaseFunc] = {}
    for global_var, function in mod.functions.items():
        lacks = function.attrs.get("global_symbol") != global_var.name_hint
        if isinstance(function, Function | PrimFunc) and lacks:
            function = function.with_attr("global_symbol", global_var.name_hint)
        functions[global_var] = function
    return mod.with_functions(functions)
