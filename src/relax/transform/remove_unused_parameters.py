"""Remove unused parameters of private functions, and the arguments passed for them.

Before   def main(x, y):                          After   def main(x, y):
             z = cls.f(x, y)                                  z = cls.f(x)
             return z                                         return z

         @R.function(private=True)                        @R.function(private=True)
         def f(a, b):                                     def f(a):
             c = R.exp(a)                                     c = R.exp(a)
             return c                                         return c

A size that only a dropped parameter told becomes a parameter itself, ``n: R.Prim(value="n")``. A parameter stays where
a caller's argument must be checked against its annotation at run time, or where the caller does not know such a size.
Functions that are values, not only called, stay as they are, and so do public ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..analysis.properties import NORMAL_FORM
from ..analysis.uses import Uses, uses_of
from ..expr import Call, Function, PrimValue, RelaxExpr, Var
from ..info.mapping import bound_in
from ..info.relations import Verdict, fit_all
from ..ir import IRModule
from ..prim import PrimExpr
from ..prim import Var as ShapeVar
from ..struct_info import PrimStructInfo
from .decorators import module_pass
from .private_calls import Rewrite, calls_of_private, with_calls


@module_pass(needs={NORMAL_FORM}, breaks=())
def RemoveUnusedParameters(mod: IRModule) -> IRModule:
    """Remove unused parameters of private functions; see the module's docstring."""
    while True:  # what is passed on to nobody any more is used no more
        new = _with_fewer(mod)
        if new is mod:
            return mod
        mod = new


def _with_fewer(mod: IRModule) -> IRModule:
    """The module without the parameters that no function uses; itself if there are none."""
    functions: dict[str, Function] = {}
    rewrites: dict[str, Rewrite] = {}
    for name, calls in calls_of_private(mod).items():
        function = mod[name]
        assert isinstance(function, Function)
        dropped = _unused(function, calls)
        if dropped:
            kept = [i for i in range(len(function.params)) if i not in dropped]
            sizes = _sizes_to_pass(function, kept)
            params = [function.params[i] for i in kept] + [_size_param(size) for size in sizes]
            functions[name] = function.replace(params=tuple(params))
            rewrites[name] = _rewrite(function, kept, sizes)
    return with_calls(mod, functions, rewrites) if functions else mod


def _used(function: Function, kept: Iterable[int]) -> dict[Var, None]:
    """The variables that a function uses, in annotations of the result and of these parameters as well."""
    uses = uses_of(function.body)
    for number in kept:
        uses.add_definition(function.params[number])  # such as ``b: R.Tensor(a)``
    if function.ret_struct_info is not None:
        uses.add_info(function.ret_struct_info)
    return uses.variables


def _unused(function: Function, calls: Sequence[Call]) -> set[int]:
    """The numbers of the parameters that can be dropped."""
    used = _used(function, ())
    dropped = {i for i, param in enumerate(function.params) if param not in used}
    if dropped and _sizes_to_pass(function, [i for i in range(len(function.params)) if i not in dropped]):
        told = [param for param in function.params if isinstance(param.struct_info, PrimStructInfo)]
        dropped -= {i for i, param in enumerate(function.params) if param in told}
    for call in calls:
        fits, sizes, unmatched = _fit(function, call)
        dropped = {i for i in dropped if fits[i] is Verdict.YES}
        kept = [i for i in range(len(function.params)) if i not in dropped]
        if unmatched or any(size not in sizes for size in _sizes_to_pass(function, kept)):
            return set()
    while True:
        used = _used(function, (i for i in range(len(function.params)) if i not in dropped))
        needed = {i for i in dropped if function.params[i] in used}
        if not needed:
            return dropped
        dropped -= needed


def _fit(function: Function, call: Call) -> tuple[list[Verdict], dict[ShapeVar, PrimExpr], set[ShapeVar]]:
    fits, sizes, unmatched = fit_all(
        [arg.struct_info for arg in call.args], [param.struct_info for param in function.params]
    )
    return [fit.verdict for fit in fits], sizes, unmatched


def _sizes_to_pass(function: Function, kept: Sequence[int]) -> list[ShapeVar]:
    """The sizes that what is left of a function uses, and that the parameters left do not tell."""
    params = [function.params[i] for i in kept]
    uses: Uses = uses_of(function.body)
    for param in params:
        uses.add_definition(param)
    if function.ret_struct_info is not None:
        uses.add_info(function.ret_struct_info)
    own = bound_in(*(param.struct_info for param in function.params))
    told = bound_in(*(param.struct_info for param in params))
    return [size for size in own if size in uses.shape_variables and size not in told]


def _size_param(size: ShapeVar) -> Var:
    return Var(size.name, PrimStructInfo(value=size))


def _rewrite(function: Function, kept: Sequence[int], sizes: Sequence[ShapeVar]) -> Rewrite:
    def rewrite(call: Call) -> RelaxExpr:
        _, values, _ = _fit(function, call)
        args = [call.args[i] for i in kept] + [PrimValue(values[size]) for size in sizes]
        return call.replace(args=tuple(args))

    return rewrite
