"""Fetch parameters on first use by a callback, so that they need not all be in memory at once.

Before   def transform_params(a: R.Tensor((16, 32)), b: R.Tensor((4,))):         # public
             c = R.exp(a)
             d = R.exp(b)
             return (c, d)
After    def transform_params(fget_param: R.Callable(ret=R.Object, purity=False)):   # impure
             a_untyped = fget_param(R.prim_value(0), R.str("a"))
             a = R.match_cast(a_untyped, R.Tensor((16, 32)))
             c = R.exp(a)
             b_untyped = fget_param(R.prim_value(1), R.str("b"))
             b = R.match_cast(b_untyped, R.Tensor((4,)))
             d = R.exp(b)
             return (c, d)

The first `num_input` parameters stay; `fget_param` comes after them: a packed function, such as one of Python. A
parameter that is not used is not asked for. One that tells a size is got before the size is used. Dataflow blocks
become ordinary ones, as the order of the calls is seen. Private functions stay as they are.
"""

from __future__ import annotations

from ..analysis.properties import NO_DATAFLOW, NORMAL_FORM, PURITY_TRUSTED
from ..derive.context import FORCE_PURE
from ..derive.normalize import normalize_module
from ..expr import Call, Function, PrimValue, StringImm, Var
from ..ir import IRModule
from ..struct_info import FuncStructInfo, ObjectStructInfo
from .decorators import module_pass
from .lazy_values import fetching
from .model_params import NUM_INPUT, number_of_inputs, require_uncalled
from .to_non_dataflow import without_dataflow

WHO = "LazyGetInput"


@module_pass(needs={NORMAL_FORM}, breaks={NO_DATAFLOW, PURITY_TRUSTED})
def LazyGetInput(mod: IRModule) -> IRModule:
    """Make public functions get their parameters by calls of `fget_param`; see the module's docstring."""
    lazy: dict[str, Function] = {}
    for global_var, function in mod.functions.items():
        if isinstance(function, Function) and "global_symbol" in function.attrs:
            count = number_of_inputs(function, global_var.name_hint, WHO) or 0
            if count < len(function.params):
                lazy[global_var.name_hint] = _lazy(without_dataflow(function), count)
    require_uncalled(mod, lazy, WHO)
    if not lazy:
        return mod
    return normalize_module(mod.with_functions({g: lazy.get(g.name_hint, f) for g, f in mod.functions.items()}))


def _lazy(function: Function, count: int) -> Function:
    fget = Var("fget_param", FuncStructInfo.opaque_func(ret=ObjectStructInfo(), purity=False))
    inputs, params = function.params[:count], function.params[count:]
    function = fetching(function, params, lambda index, var: Call(fget, [PrimValue(index), StringImm(var.name_hint)]))
    attrs = {key: value for key, value in function.attrs.items() if key != FORCE_PURE}
    return function.replace(params=(*inputs, fget), attrs={**attrs, NUM_INPUT: count + 1})
