"""Take all weights in one tuple.

Before   def main(x, w1, w2):                            # num_input = 1
             lv = R.matmul(x, w1)
             gv = R.add(lv, w2)
             return gv
After    def main(x, model_params: R.Tuple(w1, w2)):     # num_input = 1
             w1 = model_params[0]
             w2 = model_params[1]
             lv = R.matmul(x, w1)
             gv = R.add(lv, w2)
             return gv

Functions without the attribute `num_input` stay as they are; so do those without weights, and those whose only weight
is a tuple.
"""

from __future__ import annotations

from ..analysis.properties import NORMAL_FORM
from ..analysis.uses import uses_of
from ..derive.normalize import normalize_module
from ..derive.substitution import substitute
from ..expr import BindingBlock, Function, SeqExpr, TupleGetItem, Var, VarBinding
from ..ir import IRModule
from ..struct_info import TupleStructInfo
from .decorators import module_pass
from .model_params import require_uncalled, with_weights

WHO = "BundleModelParams"


@module_pass(needs={NORMAL_FORM}, breaks=())
def BundleModelParams(mod: IRModule, param_tuple_name: str | None = None) -> IRModule:
    """Bundle weights into a tuple called `param_tuple_name`, "model_params" without one; see the module's docstring."""
    bundled = {
        name: _bundled(function, count, param_tuple_name or "model_params")
        for name, (function, count) in with_weights(mod, WHO).items()
        if _has_several(function, count)
    }
    require_uncalled(mod, bundled, WHO)
    if not bundled:
        return mod
    return normalize_module(mod.with_functions({g: bundled.get(g.name_hint, f) for g, f in mod.functions.items()}))


def _has_several(function: Function, count: int) -> bool:
    weights = function.params[count:]
    return bool(weights) and not (len(weights) == 1 and isinstance(weights[0].struct_info, TupleStructInfo))


def _bundled(function: Function, count: int, name: str) -> Function:
    weights = function.params[count:]
    whole = Var(name, TupleStructInfo([weight.struct_info for weight in weights]))
    used = uses_of(function.body).variables
    names = {weight: Var(weight.name_hint, span=weight.span) for weight in weights if weight in used}
    fields = [VarBinding(names[weight], TupleGetItem(whole, i)) for i, weight in enumerate(weights) if weight in used]
    body = substitute(function.body, names)
    if fields:
        body = SeqExpr([BindingBlock(fields)], body, span=function.body.span)
    return function.replace(params=(*function.params[:count], whole), body=body)
