"""The struct info of calls of Relax functions, as far as it is known while a program is read.

``cls.f(x) * 2`` takes the dtype of the literal from what f returns, and ``R.reshape(f(x), (-1,))`` its size. A
function of the module is known by what it declares, wherever it stands; a local one by what it declares or else by
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
    """Note what a function of the module declares.

    It has shape variables of its own: in the body of the function they would be those in scope.
    """
    infos = [param.struct_info for param in params]
    own = {var: PrimVar(var.name, var.dtype, span=var.span) for var in bound_in(*infos)}
    remember(global_var, substitute_struct_info(FuncStructInfo(infos, ret), own))


def adopt(module: ModuleContext, function: BaseFunc) -> GlobalVar:
    """The global variable of a function of the surrounding program, whose struct info is known already."""
    global_var = module.adopt(function)
    if function.struct_info_ is not None:
        remember(global_var, function.struct_info_)
    return global_var


def remember_local(var: Var, function: Function, in_scope: Collection[PrimVar]) -> None:
    """Note what is known of a local function; `in_scope` are the shape variables around it."""
    infos = [param.struct_info_ for param in function.params]
    ret = function.ret_struct_info or known_struct_info(function.body)
    if ret is None or None in infos:
        return
    params = [info for info in infos if info is not None]
    visible: dict[PrimVar, PrimExpr] = {v: v for v in (*in_scope, *bound_in(*params))}
    remember(var, FuncStructInfo(params, erase_to_well_defined(ret, visible), function.is_pure))


def remember_result(call: Call, in_scope: Collection[PrimVar]) -> None:
    """Note what a call of a function gives; `in_scope` are the shape variables at the call."""
    function = known_struct_info(call.op)
    args = [info for arg in call.args if (info := known_struct_info(arg)) is not None]
    if not isinstance(function, FuncStructInfo) or function.params is None:
        return
    if len(args) != len(call.args) or len(args) != len(function.params):
        return
    fits, _, result = call_result(function, args, () if isinstance(call.op, GlobalVar) else in_scope)
    if not any(fit.verdict is Verdict.NO for fit in fits):  # else normalisation will say what does not fit
        remember(call, result)
