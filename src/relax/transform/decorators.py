"""Decorators that make passes: `module_pass`, `function_pass`, `dataflowblock_pass`.

A pass is a function. Its first parameters are what is rewritten (the module; a function and its module), then may come
the PassContext, called `ctx`, then the options of the pass:

    @relax.transform.function_pass
    def Rename(func, mod, ctx, prefix="p_"): ...

    mod = Rename(mod)                   run with the defaults
    mod = Rename(prefix="q_")(mod)      run with an option
    Sequential([Rename, Rename()])      a pass among others, either way

A class with a method `transform_module`, `transform_function` or `transform_dataflowblock`, which takes the same
parameters without options, becomes a class of passes; its options are those of the constructor.

The properties a pass needs of a module, gives it and may break are arguments of the decorator: see
``relax.analysis.properties``. VerifyInstrument holds passes to them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..expr import BindingBlock, DataflowBlock, Function
from ..ir import IRModule
from ..ir.transform import (
    ModulePass,
    PassInfo,
    Properties,
    module_pass,
    on_functions,
    pass_class,
    pass_factory,
    without_context,
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
    """Make a function ``(func, mod, ctx, **options)`` or a class with `transform_function` a pass.

    It is run on every Relax function of the module (PrimFuncs are left alone). `ctx` and options may be left out.
    """

    def decorate(target: Any) -> Any:
        info = PassInfo.of(name or target.__name__, opt_level, required, needs, gives, breaks)
        if inspect.isclass(target):
            return pass_class(target, info, FunctionPass, "transform_function", 2, _function_rewrite)
        inner = without_context(target, 2)
        return pass_factory(inner, info, on_functions(inner, Function), FunctionPass)

    return decorate if pass_func is None else decorate(pass_func)


def dataflowblock_pass(
    pass_func: Any = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a function ``(block, mod, ctx, **options)`` or a class with `transform_dataflowblock` a pass.

    It is run on every dataflow block, those in the branches of an If and in local functions included. `ctx` and options
    may be left out.
    """

    def decorate(target: Any) -> Any:
        info = PassInfo.of(name or target.__name__, opt_level, required)
        if inspect.isclass(target):
            return pass_class(target, info, DataflowBlockPass, "transform_dataflowblock", 2, _dataflow_rewrite)
        inner = without_context(target, 2)

        def run(mod: IRModule, options: dict[str, Any]) -> IRModule:
            return _dataflow_rewrite(functools.partial(inner, **options))(mod)

        return pass_factory(inner, info, run, DataflowBlockPass)

    return decorate if pass_func is None else decorate(pass_func)


def _function_rewrite(function: Callable[..., Any]) -> Rewrite:
    run = on_functions(function, Function)
    return lambda mod: run(mod, {})


def _dataflow_rewrite(function: Callable[..., Any]) -> Rewrite:
    class Blocks(Rewriter):
        def block(self, block: BindingBlock) -> BindingBlock:
            if isinstance(block, DataflowBlock):
                block = function(block, self.mod)
            return super().block(block)

    return lambda mod: Blocks(mod).module()
