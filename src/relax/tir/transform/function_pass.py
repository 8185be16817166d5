"""User-defined passes over PrimFuncs.

    @tir.transform.prim_func_pass
    def Rename(func, mod, ctx, prefix="p_"): ...

    mod = Rename(mod)                   run with the defaults
    mod = Rename(prefix="q_")(mod)      run with an option

The context `ctx` and the options after it may be left out. A class with a method ``transform_function(func, mod, ctx)``
becomes a class of passes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ...ir import IRModule
from ...ir.transform import ModulePass, PassInfo, module_pass, on_functions, pass_class, pass_factory, without_context
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
    """Make a function ``(func, mod, ctx, **options)``, or a class with `transform_function`, a pass over every
    PrimFunc.

    `ctx` and options may be left out. `traceable` is accepted for TVM, and ignored.
    """

    def decorate(target: Any) -> Any:
        info = PassInfo.of(name or target.__name__, opt_level or 0, required)
        if inspect.isclass(target):
            return pass_class(target, info, PrimFuncPass, "transform_function", 2, _rewrite)
        inner = without_context(target, 2)
        return pass_factory(inner, info, on_functions(inner, PrimFunc), PrimFuncPass)

    return decorate if pass_func is None else decorate(pass_func)


def _rewrite(function: Callable[..., Any]) -> Callable[[IRModule], IRModule]:
    run = on_functions(function, PrimFunc)
    return lambda mod: run(mod, {})


@module_pass
def Apply(mod: IRModule, ftransform: Callable[[PrimFunc], PrimFunc]) -> IRModule:
    """Apply a function to every PrimFunc of the module."""
    return mod.with_functions({v: ftransform(f) if isinstance(f, PrimFunc) else f for v, f in mod.functions.items()})


@module_pass
def Filter(mod: IRModule, fcond: Callable[[PrimFunc], bool]) -> IRModule:
    """Keep the PrimFuncs of the module for which a condition holds, and all other functions."""
    dropped = [v.name_hint for v, f in mod.functions.items() if isinstance(f, PrimFunc) and not fcond(f)]
    return mod.without(dropped) if dropped else mod
