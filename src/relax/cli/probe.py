"""Instrumentation of a program to return its intermediate values, to find the first wrong one.

    Before   def main(x):                     After   def main(x):
                 lv = R.exp(x)                            lv = R.exp(x)
                 gv = R.add(lv, lv)                       gv = R.add(lv, lv)
                 return gv                                return gv, (lv, gv)

Only bindings of the entry point itself are returned, not those in branches, local functions and functions it calls.
"""

from __future__ import annotations

from ..analysis import check_well_formed
from ..derive.call_graph import global_vars_in
from ..derive.normalize import normalize_module
from ..expr import Function, MatchCast, SeqExpr, Tuple, Var, VarBinding
from ..ir import BaseFunc, DiagnosticError, IRModule, RelaxExpr
from ..runtime.records import dataclass
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from ..transform.to_non_dataflow import ToNonDataflow

_TOLD = (TensorStructInfo, ShapeStructInfo, PrimStructInfo)


@dataclass(frozen=True)
class Probed:
    """A program whose entry point returns its result and a tuple of intermediate values."""

    mod: IRModule
    values: tuple[tuple[str, RelaxExpr], ...]
    """Variables of the intermediate values by name, each with its expression."""


def probed(mod: IRModule, entry: str) -> Probed | None:
    """Instrument a program; None if that would change its behaviour.

    It would if a function calls the entry point, or if a value is overwritten in place.
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
