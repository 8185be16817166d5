"""How a rewrite of PrimFuncs becomes a pass over a module."""

from __future__ import annotations

from collections.abc import Callable

from ...ir import BaseFunc, IRModule
from ...ir.transform import Pass, function_pass
from ..stmt import PrimFunc


def prim_func_pass(rewrite: Callable[[PrimFunc], PrimFunc], name: str) -> Callable[[], Pass]:
    """A pass factory that runs `rewrite` on every PrimFunc of a module."""

    def run(func: BaseFunc, mod: IRModule) -> BaseFunc:
        assert isinstance(func, PrimFunc)
        return rewrite(func)

    run.__doc__ = rewrite.__doc__
    run.__module__ = rewrite.__module__
    factory: Callable[[], Pass] = function_pass(run, name=name, kind=PrimFunc)
    return factory


__all__ = ["prim_func_pass"]
