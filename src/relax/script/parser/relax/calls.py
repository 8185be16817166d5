"""Struct info of calls of Relax functions at parse time, as far as it is known.

The literal in ``cls.f(x) * 2`` takes its dtype from the return type of f, and -1 in ``R.reshape(f(x), (-1,))`` its
value. The struct info of a module's function is its declared one; that of a local function the declared one or that of
its body.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ....expr import Call, Function, Var
from ....info.mapping import bound_in, substitute_struct_info
from ....info.relations import Verdict, call_result, erase_to_well_defined
from ....ir import BaseFunc, GlobalVar, StructInfo
from ....op.known import known_struct_info, remember
from ....prim import PrimExpr
from ....prim import Var as PrimVar
from ....struct_info import FuncStructInfo
from ..core.dialect import ModuleContext


def remember_global(global_var: GlobalVar, params: Sequence[Var], ret: StructInfo) -> None:
    """Record the declared struct info of a module's function.

    Its shape variables are renamed, as those of the function itself would be in scope in its body.
    """
    infos = [param.struct_info for param in params]
    own = {var: PrimVar(var.name, var.dtype, span=var.span) for var in bound_in(*infos)}
    remember(global_var, substitute_struct_info(FuncStructInfo(infos, ret), own))


def adopt(module: ModuleContext, function: BaseFunc) -> GlobalVar:
    """Adopt a function of the surrounding program, with its known struct info; returns its global variable."""
    global_var = module.adopt(function)
    if function.struct_info_ is not None:
        remember(global_var, function.struct_info_)
    return global_var


def remember_local(var: Var, function: Function, in_scope: Collection[PrimVar]) -> None:
    """Record the struct info of a local function; `in_scope` are the shape variables around it."""
    infos = [param.struct_info_ for param in function.params]
    ret = function.ret_struct_info or known_struct_info(function.body)
    if ret is None or None in infos:
        return
    params = [info for info in infos if info is not None]
    visible: dict[PrimVar, PrimExpr] = {v: v for v in (*in_scope, *bound_in(*params))}
    remember(var, FuncStructInfo(params, erase_to_well_defined(ret, visible), function.is_pure))


def remember_result(call: Call, in_scope: Collection[PrimVar]) -> None:
    """Record the struct info of a call's result; `in_scope` are the shape variables at the call."""
    function = known_struct_info(call.op)
    args = [info for arg in call.args if (info := known_struct_info(arg)) is not None]
    if not isinstance(function, FuncStructInfo) or function.params is None:
        return
    if len(args) != len(call.args) or len(args) != len(function.params):
        return
    fits, _, result = call_result(function, args, () if isinstance(call.op, GlobalVar) else in_scope)
    if not any(fit.verdict is Verdict.NO for fit in fits):  # otherwise normalisation reports the mismatch
        remember(call, result)
