"""Passes over PrimFuncs as users write them, in TVM's style and ours.

Ours: a function ``(func, mod)`` with options after these. The result is a factory.

    @tir.transform.prim_func_pass
    def Rename(func, mod, prefix="p_"): ...
    mod = Rename(prefix="q_")(mod)

TVM's: with a parameter `ctx` after the module, the decorated function itself is a pass; a class with a method
`transform_function` becomes a class of passes.

    @tir.transform.prim_func_pass(opt_level=1)
    def rename(func, mod, ctx): ...
    mod = rename(mod)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir import BaseFunc, GlobalVar, IRModule
from ...ir.transform import (
    ModulePass,
    PassContext,
    PassInfo,
    is_our_style,
    made_pass,
    module_pass,
    on_functions,
    pass_factory,
)
from ..stmt import PrimFunc


class PrimFuncPass(ModulePass):
    """A pass over the PrimFuncs of a module, one at a time."""


def prim_func_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a function ``(func, mod, ctx)``, a class with `transform_function`, or ``(func, mod, **options)``
    a pass, run on every PrimFunc of the module. `traceable` is TVM's, and says nothing here.
    """

    def decorate(target: Any) -> Any:
        info = PassInfo.of(name or target.__name__, opt_level or 0, required)
        if is_our_style(target, subjects=2):
            return pass_factory(target, info, on_functions(target, PrimFunc))
        return made_pass(target, info, PrimFuncPass, "transform_function", _rewrite)

    return decorate if pass_func is None else decorate(pass_func)


def _rewrite(function: Callable[..., Any]) -> Callable[[IRModule], IRModule]:
    def run(mod: IRModule) -> IRModule:
        context = PassContext.current()
        updated: dict[GlobalVar, BaseFunc] = {}
        for global_var, func in mod.functions.items():
            updated[global_var] = function(func, mod, context) if isinstance(func, PrimFunc) else func
        return mod.with_functions(updated)

    return run


@module_pass
def Apply(mod: IRModule, ftransform: Callable[[PrimFunc], PrimFunc]) -> IRModule:
    """Apply a function to every PrimFunc of the module."""
    return mod.with_functions(
        {v: ftransform(f) if isinstance(f, PrimFunc) else f for v, f in mod.functions.items()}
    )


@module_pass
def Filter(mod: IRModule, fcond: Callable[[PrimFunc], bool]) -> IRModule:
    """Keep the PrimFuncs of the module for which a condition holds, and all other functions."""
    dropped = [v.name_hint for v, f in mod.functions.items() if isinstance(f, PrimFunc) and not fcond(f)]
    return mod.without(dropped) if dropped else mod


__all__ = ["Apply", "Filter", "PrimFuncPass", "prim_func_pass"]
