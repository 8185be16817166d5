"""A program that also returns the values it computes on the way, to find the first that is wrong.

    Before   def main(x):                     After   def main(x):
                 lv = R.exp(x)                            lv = R.exp(x)
                 gv = R.add(lv, lv)                       gv = R.add(lv, lv)
                 return gv                                return gv, (lv, gv)

Only bindings of the entry point itself are told, not those in branches, local functions and functions it calls.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis import check_well_formed
from ..derive.call_graph import global_vars_in
from ..derive.normalize import normalize_module
from ..expr import Function, MatchCast, SeqExpr, Tuple, Var, VarBinding
from ..ir import BaseFunc, DiagnosticError, IRModule, RelaxExpr
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from ..transform.to_non_dataflow import ToNonDataflow

_TOLD = (TensorStructInfo, ShapeStructInfo, PrimStructInfo)


@dataclass(frozen=True)
class Probed:
    """A program whose entry point returns its result and a tuple of values it computes."""

    mod: IRModule
    values: tuple[tuple[str, RelaxExpr], ...]
    """The variables of these values by name, each with the expression it is bound to."""


def probed(mod: IRModule, entry: str) -> Probed | None:
    """The program with its values told; None where that would change it.

    It would where a function calls the entry point, and where a value is written over after it was computed.
    """
    mod = ToNonDataflow()(normalize_module(mod))
    if any(entry in global_vars_in(function) for function in mod.functions.values()):
        return None
    global_var = mod.get_global_var(entry)
    function = mod[global_var]
    assert isinstance(function, Function)
    assert isinstance(function.body, SeqExpr)
    values = [
        (binding.var, binding.value)
        for block in function.body.blocks
        for binding in block.bindings
        if isinstance(binding, VarBinding | MatchCast) and not isinstance(binding.value, Var)
        if isinstance(binding.var.struct_info_, _TOLD)
    ]
    result = Tuple((function.body.body, Tuple([var for var, _ in values])))
    body = SeqExpr(function.body.blocks, result)
    telling = function.replace(body=body, ret_struct_info=None)
    functions: dict[object, BaseFunc] = {**mod.functions, global_var: telling}
    try:
        changed = normalize_module(mod.with_functions(functions))
    except DiagnosticError:
        return None
    if check_well_formed(changed):
        return None
    return Probed(changed, tuple((var.name_hint, value) for var, value in values))
