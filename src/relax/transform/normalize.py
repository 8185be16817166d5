"""Bring a module into normal form (language.md §4), with struct info written on every node.

Before   return R.add(R.exp(x), y)          After   lv = R.exp(x)
                                                    gv = R.add(lv, y)
                                                    return gv
"""

from __future__ import annotations

from ..analysis.properties import NORMAL_FORM
from ..derive.normalize import normalize_module
from ..ir import IRModule
from .decorators import module_pass


@module_pass(gives={NORMAL_FORM}, breaks=())
def Normalize(mod: IRModule) -> IRModule:
    """Normal form for every Relax function. Raises DiagnosticError with all that is wrong in the module."""
    return normalize_module(mod)
