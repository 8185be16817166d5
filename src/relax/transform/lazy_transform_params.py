"""Transform weights one by one: load each on first use, pass on each result when computed, free both.

Before   def main_transform_params(params: R.Tuple(R.Tensor((3, 4)), R.Tensor((4,)))):
             w = params[0]
             b = params[1]
             lv = R.permute_dims(w)
             gv = (b, lv)
             return gv
After    def main_transform_params():                                                      # impure, no force_pure
             w_untyped = R.call_packed("get_item", R.prim_value(0), sinfo_args=R.Object)
             w = R.match_cast(w_untyped, R.Tensor((3, 4)))
             _ = R.vm.kill_object(w_untyped)
             lv = R.permute_dims(w)
             _ = R.vm.kill_object(w)
             _ = R.call_packed("set_item", R.prim_value(1), lv, sinfo_args=R.Object)
             _ = R.vm.kill_object(lv)
             b_untyped = R.call_packed("get_item", R.prim_value(1), sinfo_args=R.Object)
             ...
             return ()

Functions are those whose names end in "transform_params", as LiftTransformParams makes them: of one tuple of weights,
or of weights. The packed functions get `extra_get_item_params` and `extra_set_item_params` first, variables that become
parameters. Without `fset_item` (None) results are returned, without `fget_item` weights stay parameters. A weight that
is not used is not loaded. Dataflow blocks become ordinary ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..analysis.properties import NO_DATAFLOW, NORMAL_FORM, PURITY_TRUSTED
from ..analysis.uses import uses_of
from ..derive.context import FORCE_PURE
from ..derive.normalize import normalize_module
from ..derive.substitution import substitute
from ..expr import Binding, Function, PrimValue, SeqExpr, TupleGetItem, Var, VarBinding
from ..ir import IRModule, RelaxExpr, structural_equal
from ..op import call_packed
from ..struct_info import ObjectStructInfo, TupleStructInfo
from .decorators import module_pass
from .lazy_values import bindings_of, fetching, forgetting, storing, with_body
from .lift_transform_params import SUFFIX
from .model_params import require_uncalled
from .to_non_dataflow import without_dataflow

WHO = "LazyTransformParams"


@module_pass(needs={NORMAL_FORM}, breaks={NO_DATAFLOW, PURITY_TRUSTED})
def LazyTransformParams(
    mod: IRModule,
    fget_item: str | None = "get_item",
    fset_item: str | None = "set_item",
    extra_get_item_params: Sequence[Var] | None = None,
    extra_set_item_params: Sequence[Var] | None = None,
) -> IRModule:
    """Make functions that transform weights get and set items by packed functions; see the module's docstring."""
    getting, setting = tuple(extra_get_item_params or ()), tuple(extra_set_item_params or ())
    lazy: dict[str, Function] = {}
    for global_var, function in mod.functions.items():
        if not isinstance(function, Function) or not global_var.name_hint.endswith(SUFFIX):
            continue
        new = without_dataflow(function)
        changed = False
        if fget_item is not None and [param for param in function.params if param not in (*getting, *setting)]:
            new, changed = _getting(new, fget_item, getting, setting), True
        if fset_item is not None and not structural_equal(function.body.struct_info, TupleStructInfo(())):
            new, changed = _setting(new, fset_item, setting), True
        if changed:
            extra = tuple(dict.fromkeys((*getting, *setting)))
            kept = tuple(param for param in new.params if param not in extra)
            attrs = {key: value for key, value in new.attrs.items() if key != FORCE_PURE}
            lazy[global_var.name_hint] = new.replace(params=(*extra, *kept), attrs=attrs)
    require_uncalled(mod, lazy, WHO)
    if not lazy:
        return mod
    mod = normalize_module(mod.with_functions({g: lazy.get(g.name_hint, f) for g, f in mod.functions.items()}))
    lazy = {name: forgetting(cast(Function, mod[name])) for name in lazy}
    return normalize_module(mod.with_functions({g: lazy.get(g.name_hint, f) for g, f in mod.functions.items()}))


def _getting(function: Function, name: str, getting: Sequence[Var], setting: Sequence[Var]) -> Function:
    function = _apart(function)
    params = [param for param in function.params if param not in (*getting, *setting)]

    def fetch(index: int, var: Var) -> RelaxExpr:
        return call_packed(name, *getting, PrimValue(index), sinfo_args=[ObjectStructInfo()])

    return fetching(function, params, fetch)


def _apart(function: Function) -> Function:
    """The function with a parameter for each field of its one tuple of weights, if it is used field by field only."""
    if len(function.params) != 1 or not isinstance(function.params[0].struct_info, TupleStructInfo):
        return function
    (whole,) = function.params
    info = function.params[0].struct_info
    params = [Var(f"{whole.name_hint}_{index}", field) for index, field in enumerate(info.fields)]
    table: dict[Var, RelaxExpr] = {}
    names: set[int] = set()
    rest: list[Binding] = []
    for binding in bindings_of(function):
        match binding:
            case VarBinding(var, TupleGetItem(tuple_value, index)) if tuple_value is whole:
                if index not in names:
                    params[index] = Var(var.name_hint, info.fields[index])
                    names.add(index)
                table[var] = params[index]
            case _:
                rest.append(binding)
    assert isinstance(function.body, SeqExpr)
    if any(whole in uses_of(binding).variables for binding in (*rest, function.body.body)):
        return function
    body = with_body(function, rest, function.body.body).body
    return function.replace(params=tuple(params), body=substitute(body, table))


def _setting(function: Function, name: str, extra: Sequence[Var]) -> Function:
    def store(index: int, value: RelaxExpr) -> RelaxExpr:
        return call_packed(name, *extra, PrimValue(index), value, sinfo_args=[ObjectStructInfo()])

    return storing(function, store)
