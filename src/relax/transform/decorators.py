"""Passes as users write them: `module_pass`, `function_pass`, `dataflowblock_pass`, in TVM's style and ours.

Ours: a function whose first parameters are what is rewritten; further ones are the pass's options.
The result is a factory.

    @relax.transform.function_pass
    def Rename(func, mod, prefix="p_"): ...
    mod = Rename(prefix="q_")(mod)

TVM's: a parameter `ctx` after the module makes the decorated function itself a pass; a class with a method
`transform_module`, `transform_function` or `transform_dataflowblock` becomes a class of passes.

    @relax.transform.function_pass(opt_level=0)
    def Rename(func, mod, ctx): ...
    mod = Rename(mod)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..derive.normalize import Normalizer
from ..expr import BindingBlock, DataflowBlock, Function
from ..ir import BaseFunc, GlobalVar, IRModule
from ..ir import transform as ir_transform
from ..ir.transform import ModulePass, PassContext, PassInfo, is_our_style, made_pass, module_pass

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
) -> Any:
    """Make a function ``(func, mod, ctx)``, a class with `transform_function`, or ``(func, mod, **options)``
    a pass, run on every Relax function of the module (PrimFuncs are left alone).
    """

    def decorate(target: Any) -> Any:
        info = PassInfo(name or target.__name__, opt_level, tuple(required or ()))
        if is_our_style(target, subjects=2):
            return ir_transform.function_pass(
                target, opt_level=opt_level, name=info.name, required=info.required, kind=Function
            )
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
        info = PassInfo(name or target.__name__, opt_level, tuple(required or ()))
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
    def run(mod: IRModule) -> IRModule:
        rewriter = _BlockRewriter(mod, lambda block: function(block, mod, PassContext.current()))
        return mod.with_functions(
            {
                g: rewriter.function_body(f, g.name_hint) if isinstance(f, Function) else f
                for g, f in mod.functions.items()
            }
        )

    return run


class _BlockRewriter(Normalizer):
    """Normalisation, with a function applied to each dataflow block on the way."""

    def __init__(self, mod: IRModule, rewrite: Callable[[DataflowBlock], DataflowBlock]) -> None:
        super().__init__(mod)
        self.rewrite = rewrite

    def block(self, block: BindingBlock) -> list[BindingBlock]:
        return super().block(self.rewrite(block) if isinstance(block, DataflowBlock) else block)
