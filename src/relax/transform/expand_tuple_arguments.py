"""Pass the fields of tuples to private functions one by one.

Before   def main(x, y):                              After   def main(x, y):
             z = cls.f((x, y))                                    z = cls.f(x, y)
             return z                                             return z

         @R.function(private=True)                            @R.function(private=True)
         def f(args: R.Tuple(A, B)):                          def f(args_0: A, args_1: B):
             a = args[0]                                          args = (args_0, args_1)
             return a                                             a = args[0]
                                                                  return a

Tuples in tuples are expanded too. Functions that are values, not only called, stay as they are, and so do public ones.
CanonicalizeBindings and RemoveUnusedParameters clean up afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..analysis.properties import NORMAL_FORM
from ..derive.substitution import substitute
from ..expr import Binding, BindingBlock, Call, Function, RelaxExpr, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ..ir import IRModule, StructInfo
from ..struct_info import TupleStructInfo
from .decorators import module_pass
from .private_calls import Rewrite, calls_of_private, with_calls


@module_pass(needs={NORMAL_FORM}, breaks=())
def ExpandTupleArguments(mod: IRModule) -> IRModule:
    """Expand tuple arguments of private functions; see the module's docstring."""
    functions: dict[str, Function] = {}
    rewrites: dict[str, Rewrite] = {}
    for name in calls_of_private(mod):
        function = mod[name]
        assert isinstance(function, Function)
        if any(isinstance(param.struct_info, TupleStructInfo) for param in function.params):
            functions[name] = _expanded(function)
            rewrites[name] = _rewrite(function)
    return with_calls(mod, functions, rewrites) if functions else mod


def _expanded(function: Function) -> Function:
    params: list[Var] = []
    table: dict[Var, RelaxExpr] = {}
    bindings: list[Binding] = []
    for param in function.params:
        if not isinstance(param.struct_info, TupleStructInfo):
            params.append(param)
            continue
        whole = _with_params(param.name_hint, param.struct_info, params)
        var = table[param] = Var(param.name_hint)
        bindings.append(VarBinding(var, whole))
    body = SeqExpr([BindingBlock(bindings)], substitute(function.body, table), span=function.body.span)
    return function.replace(params=tuple(params), body=body)


def _with_params(name: str, info: StructInfo, params: list[Var]) -> RelaxExpr:
    """Return a parameter's value rebuilt from new parameters for its fields."""
    if isinstance(info, TupleStructInfo):
        return Tuple([_with_params(f"{name}_{i}", field, params) for i, field in enumerate(info.fields)])
    params.append(Var(name, info))
    return params[-1]


def _rewrite(function: Function) -> Rewrite:
    infos = [param.struct_info for param in function.params]

    def rewrite(call: Call) -> RelaxExpr:
        pairs = zip(call.args, infos, strict=True)
        return call.replace(args=tuple(field for arg, info in pairs for field in _fields(arg, info)))

    return rewrite


def _fields(arg: RelaxExpr, info: StructInfo) -> Iterator[RelaxExpr]:
    if not isinstance(info, TupleStructInfo):
        yield arg
        return
    for i, field in enumerate(info.fields):
        yield from _fields(arg.fields[i] if isinstance(arg, Tuple) else TupleGetItem(arg, i), field)
