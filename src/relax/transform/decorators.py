"""Passes as users write them: `module_pass`, `function_pass`, `dataflowblock_pass`, in TVM's style and ours.

Ours: a function whose first parameters are what is rewritten; further ones are the pass's options.
The result is a factory.

    @relax.transform.function_pass
    def Rename(func, mod, prefix="p_"): ...
    mod = Rename(prefix="q_")(mod)

The properties a pass needs of a module, gives it and may break are arguments of the decorator: see
``relax.analysis.properties``. VerifyInstrument holds passes to them.

TVM's: a parameter `ctx` after the module makes the decorated function itself a pass; a class with a method
`transform_module`, `transform_function` or `transform_dataflowblock` becomes a class of passes.

    @relax.transform.function_pass(opt_level=0)
    def Rename(func, mod, ctx): ...
    mod = Rename(mod)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..expr import BindingBlock, DataflowBlock, Function
from ..ir import BaseFunc, GlobalVar, IRModule
from ..ir.transform import (
    ModulePass,
    PassContext,
    PassInfo,
    Properties,
    is_our_style,
    made_pass,
    module_pass,
    on_functions,
    pass_factory,
)
from ..rewrite import Rewriter

Rewrite = Callable[[IRModule], IRModule]


class FunctionPass(ModulePass):
    """A pass over the Relax functions of a module, one at a time."""


class DataflowBlockPass(ModulePass):
    """A pass over the dataflow blocks of a module, one at a time."""


FuncPass = FunctionPass

__all__ = [
    "DataflowBlockPass",
    "FuncPass",
    "FunctionPass",
    "ModulePass",
    "dataflowblock_pass",
    "function_pass",
    "module_pass",
]


def function_pass(
    pass_func: Any = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
    *,
    needs: Properties = (),
    gives: Properties = (),
    breaks: Properties | None = None,
) -> Any:
    """Make a function ``(func, mod, ctx)``, a class with `transform_function`, or ``(func, mod, **options)``
    a pass, run on every Relax function of the module (PrimFuncs are left alone).
    """

    def decorate(target: Any) -> Any:
        info = PassInfo.of(name or target.__name__, opt_level, required, needs, gives, breaks)
        if is_our_style(target, subjects=2):
            return pass_factory(target, info, on_functions(target, Function))
        return made_pass(target, info, FunctionPass, "transform_function", _function_rewrite)

    return decorate if pass_func is None else decorate(pass_func)


def dataflowblock_pass(
    pass_func: Any = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a function ``(block, mod, ctx)`` or a class with `transform_dataflowblock` a pass.

    It is run on every dataflow block, those in the branches of an If and in local functions included.
    """

    def decorate(target: Any) -> Any:
        info = PassInfo.of(name or target.__name__, opt_level, required)
        return made_pass(target, info, DataflowBlockPass, "transform_dataflowblock", _dataflow_rewrite)

    return decorate if pass_func is None else decorate(pass_func)


def _function_rewrite(function: Callable[..., Any]) -> Rewrite:
    def run(mod: IRModule) -> IRModule:
        context = PassContext.current()
        updated: dict[GlobalVar, BaseFunc] = {}
        for global_var, func in mod.functions.items():
            updated[global_var] = function(func, mod, context) if isinstance(func, Function) else func
        return mod.with_functions(updated)

    return run


def _dataflow_rewrite(function: Callable[..., Any]) -> Rewrite:
    class Blocks(Rewriter):
        def block(self, block: BindingBlock) -> BindingBlock:
            if isinstance(block, DataflowBlock):
                block = function(block, self.mod, PassContext.current())
            return super().block(block)

    return lambda mod: Blocks(mod).module()
