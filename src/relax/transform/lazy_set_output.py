"""Pass each result to a callback as soon as it is computed, so that not all are in memory at once.

Before   def transform_params(a, b):                     # public
             c = R.exp(a)
             d = R.exp(b)
             return (c, d)
After    def transform_params(a, b, fset_output: R.Callable(ret=R.Object, purity=False)):     # impure
             c = R.exp(a)
             _ = fset_output(R.prim_value(0), c)
             d = R.exp(b)
             _ = fset_output(R.prim_value(1), d)
             return ()

`fset_output` is a packed function, such as one of Python. With `num_input`, it comes after the first `num_input`
parameters, and counts as one of them; else it is the last one. A result that is no tuple has the number 0. Dataflow
blocks become ordinary ones, as the order of the calls is seen. Private functions, and those that return nothing, stay
as they are.
"""

from __future__ import annotations

from ..analysis.properties import NO_DATAFLOW, NORMAL_FORM, PURITY_TRUSTED
from ..derive.context import FORCE_PURE
from ..derive.normalize import normalize_module
from ..expr import Call, Function, PrimValue, Var
from ..ir import IRModule, structural_equal
from ..struct_info import FuncStructInfo, ObjectStructInfo, TupleStructInfo
from .decorators import module_pass
from .lazy_values import storing
from .model_params import NUM_INPUT, number_of_inputs, require_uncalled
from .to_non_dataflow import without_dataflow

WHO = "LazySetOutput"
UNIT = TupleStructInfo(())


@module_pass(needs={NORMAL_FORM}, breaks={NO_DATAFLOW, PURITY_TRUSTED})
def LazySetOutput(mod: IRModule) -> IRModule:
    """Make public functions hand over their results by calls of `fset_output`; see the module's docstring."""
    lazy: dict[str, Function] = {}
    for global_var, function in mod.functions.items():
        if not isinstance(function, Function) or "global_symbol" not in function.attrs:
            continue
        count = number_of_inputs(function, global_var.name_hint, WHO)
        if not structural_equal(function.body.struct_info, UNIT):
            lazy[global_var.name_hint] = _lazy(without_dataflow(function), count)
    require_uncalled(mod, lazy, WHO)
    if not lazy:
        return mod
    return normalize_module(mod.with_functions({g: lazy.get(g.name_hint, f) for g, f in mod.functions.items()}))


def _lazy(function: Function, count: int | None) -> Function:
    fset = Var("fset_output", FuncStructInfo.opaque_func(ret=ObjectStructInfo(), purity=False))
    position = len(function.params) if count is None else count
    params = (*function.params[:position], fset, *function.params[position:])
    function = storing(function, lambda index, value: Call(fset, [PrimValue(index), value]))
    attrs = {key: value for key, value in function.attrs.items() if key != FORCE_PURE}
    if count is not None:
        attrs[NUM_INPUT] = count + 1
    return function.replace(params=params, attrs=attrs)
