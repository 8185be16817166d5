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

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..expr import BindingBlock, DataflowBlock, Function
from ..ir import BaseFunc, GlobalVar, IRModule
from ..ir import transform as ir_transform
from ..ir.transform import Pass, PassContext, PassInfo
from ..normalize import Normalizer

Rewrite = Callable[[IRModule], IRModule]


class ModulePass(Pass):
    """A pass given by a function from module to module."""

    def __init__(self, info: PassInfo, rewrite: Rewrite) -> None:
        super().__init__(info)
        self._rewrite = rewrite

    def transform(self, mod: IRModule) -> IRModule:
        return self._rewrite(mod)


class FunctionPass(ModulePass):
    """A pass over the Relax functions of a module, one at a time."""


class DataflowBlockPass(ModulePass):
    """A pass over the dataflow blocks of a module, one at a time."""


FuncPass = FunctionPass


def module_pass(
    pass_func: Any = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a function ``(mod, ctx)``, a class with `transform_module`, or ``(mod, **options)`` a pass."""

    def decorate(target: Any) -> Any:
        info = PassInfo(name or target.__name__, opt_level, tuple(required or ()))
        if _is_our_style(target, subjects=1):
            return ir_transform.module_pass(target, opt_level=opt_level, name=info.name)
        return _made(target, info, ModulePass, "transform_module", _module_rewrite)

    return decorate if pass_func is None else decorate(pass_func)


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
        if _is_our_style(target, subjects=2):
            return ir_transform.function_pass(target, opt_level=opt_level, name=info.name, kind=Function)
        return _made(target, info, FunctionPass, "transform_function", _function_rewrite)

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
        return _made(target, info, DataflowBlockPass, "transform_dataflowblock", _dataflow_rewrite)

    return decorate if pass_func is None else decorate(pass_func)


def _is_our_style(target: Any, subjects: int) -> bool:
    """Whether a function states options, instead of the context, after what it rewrites."""
    if inspect.isclass(target):
        return False
    names = list(inspect.signature(target).parameters)
    return names[subjects : subjects + 1] not in (["ctx"], ["_ctx"], ["_"], ["context"])


def _made(
    target: Any,
    info: PassInfo,
    cls: type[ModulePass],
    method: str,
    rewrite: Callable[[Callable[..., Any]], Rewrite],
) -> Any:
    """A pass of the decorated function, or a subclass of `cls` of the decorated class."""
    if not inspect.isclass(target):
        return cls(info, rewrite(target))
    if not hasattr(target, method):
        raise TypeError(f"{target.__name__}: a {cls.__name__} class needs a method {method}")

    class Made(cls):
        def __init__(self, *args: Any, **options: Any) -> None:
            self.inst: Any = target(*args, **options)
            super().__init__(info, rewrite(getattr(self.inst, method)))

        def __getattr__(self, attribute: str) -> Any:
            if attribute == "inst":
                raise AttributeError(attribute)
            return getattr(self.inst, attribute)

    Made.__name__ = Made.__qualname__ = target.__name__
    Made.__doc__ = target.__doc__
    Made.__module__ = target.__module__
    return Made


def _module_rewrite(function: Callable[..., Any]) -> Rewrite:
    return lambda mod: function(mod, PassContext.current())


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
