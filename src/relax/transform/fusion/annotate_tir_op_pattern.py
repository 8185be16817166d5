"""Annotate each PrimFunc with its fusion pattern, as the attribute `op_pattern`.

Before   @T.prim_func(private=True)                  After   @T.prim_func(private=True)
         def relu(A, B):                                     def relu(A, B):
             for i in range(n): … B[v] = max(A[v], 0)            T.func_attr({"op_pattern": 0})
                                                                 …

The kinds, and how they are told from the structure of the loops, are in `relax.tir.op_pattern`. A function that has the
attribute keeps it: a kernel's author may know better. One that is scheduled (`tir.is_scheduled`) is opaque.
"""

from __future__ import annotations

from typing import Final

from ...ir import BaseFunc, GlobalVar, IRModule
from ...tir.op_pattern import OpPatternKind, op_pattern
from ...tir.stmt import PrimFunc
from ..decorators import module_pass

OP_PATTERN: Final = "op_pattern"
IS_SCHEDULED: Final = "tir.is_scheduled"


@module_pass(breaks=())
def AnnotateTIROpPattern(mod: IRModule) -> IRModule:
    """Annotate every PrimFunc; see the module's docstring."""
    updated: dict[GlobalVar, BaseFunc] = {}
    for global_var, func in mod.functions.items():
        updated[global_var] = _annotated(func) if isinstance(func, PrimFunc) else func
    return mod.with_functions(updated)


def _annotated(func: PrimFunc) -> PrimFunc:
    if OP_PATTERN in func.attrs:
        return func
    kind = OpPatternKind.OPAQUE if func.attrs.get(IS_SCHEDULED) else op_pattern(func)
    return func.with_attr(OP_PATTERN, int(kind))
