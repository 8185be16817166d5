"""Rewrites that fetch parameters lazily and hand over results early.

The rewrites of LazyGetInput, LazySetOutput and LazyTransformParams, for functions without dataflow blocks: the order of
such calls is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..analysis.uses import uses_of
from ..expr import Binding, BindingBlock, Call, Function, MatchCast, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ..info.mapping import bound_in
from ..ir import RelaxExpr
from ..op import vm
from ..prim import Var as ShapeVar
from ..struct_info import ObjectStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo

Fetch = Callable[[int, Var], RelaxExpr]
"""The call that gives the value of a parameter, by its number and variable."""
Store = Callable[[int, RelaxExpr], RelaxExpr]
"""The call that takes a field of the result."""


def bindings_of(function: Function) -> list[Binding]:
    """The bindings of a function's body, which is in normal form."""
    assert isinstance(function.body, SeqExpr)
    return [binding for block in function.body.blocks for binding in block.bindings]


def with_body(function: Function, bindings: Sequence[Binding], result: RelaxExpr) -> Function:
    """A function with side effects, of these bindings; what it returns is derived anew."""
    blocks = [BindingBlock(bindings)] if bindings else []
    body = SeqExpr(blocks, result, span=function.body.span)
    return function.replace(body=body, ret_struct_info=None, is_pure=False)


def fetching(function: Function, params: Sequence[Var], fetch: Fetch) -> Function:
    """The function that gets each of these parameters right before it first uses it, or a size that it tells."""
    assert isinstance(function.body, SeqExpr)
    kept = [param for param in function.params if param not in params]
    sizes: dict[ShapeVar, None] = bound_in(*(param.struct_info for param in kept))
    missing = dict(zip(params, range(len(params)), strict=True))
    bindings: list[Binding] = []

    def provide(variables: Iterable[Var], shape_variables: Iterable[ShapeVar]) -> None:
        unknown = [size for size in shape_variables if size not in sizes]
        for param in [*missing]:
            told = bound_in(param.struct_info)
            if param in variables or any(size in told for size in unknown):
                value = fetch(missing.pop(param), param)
                bindings.extend(_typed(param, value))
                sizes.update(told)

    for binding in bindings_of(function):
        uses = uses_of(binding)
        provide(uses.variables, uses.shape_variables)
        bindings.append(binding)
        if isinstance(binding, MatchCast):
            sizes.update(bound_in(binding.struct_info))
    uses = uses_of(function.body.body)
    provide(uses.variables, uses.shape_variables)
    return with_body(function.replace(params=tuple(kept)), bindings, function.body.body)


def _typed(param: Var, value: RelaxExpr) -> list[Binding]:
    """Bind a parameter to an object that is checked to be what the parameter was declared to be."""
    if isinstance(param.struct_info, ObjectStructInfo):
        return [VarBinding(param, value)]
    untyped = Var(f"{param.name_hint}_untyped")
    return [VarBinding(untyped, value), MatchCast(param, untyped, param.struct_info)]


def storing(function: Function, store: Store) -> Function:
    """The function that hands over each field of its result as soon as it has it, and returns the unit tuple."""
    assert isinstance(function.body, SeqExpr)
    bindings, result = bindings_of(function), function.body.body
    values = {b.var: b.value for b in bindings if isinstance(b, VarBinding)}
    whole = values.get(result, result) if isinstance(result, Var) else result
    info = result.struct_info
    if isinstance(whole, Tuple):
        fields: Sequence[RelaxExpr] = whole.fields
        remaining = [b for b in bindings if b.value is not whole]
        if not any(result in uses_of(b.value).variables for b in remaining):
            bindings = remaining
    elif isinstance(info, TupleStructInfo):
        fields = [TupleGetItem(result, i) for i in range(len(info.fields))]
    else:
        fields = [result]
    pending = dict(enumerate(fields))
    new: list[Binding] = []

    def hand_over(ready: Callable[[RelaxExpr], bool]) -> None:
        for index in [i for i, value in pending.items() if ready(value)]:
            new.append(VarBinding(Var("_"), store(index, pending.pop(index))))

    for binding in bindings:
        new.append(binding)
        hand_over(lambda value, var=binding.var: value is var)
    hand_over(lambda value: True)
    return with_body(function, new, Tuple(()))


def forgetting(function: Function) -> Function:
    """The function that forgets tensors and objects after their last use."""
    bindings = bindings_of(function)
    assert isinstance(function.body, SeqExpr)
    held = {binding.var for binding in bindings if _is_held(binding)}
    seen = set(uses_of(function.body.body).variables)
    new: list[Binding] = []
    for binding in reversed(bindings):
        used = dict.fromkeys([binding.var, *uses_of(binding).variables])
        last = [var for var in used if var in held and var not in seen]
        if binding.var in last and isinstance(binding.var.struct_info, ObjectStructInfo):
            last.remove(binding.var)  # a result that nobody reads, such as that of a store
        new.extend(VarBinding(Var("_"), vm.kill_object(var)) for var in reversed(last))
        seen.update(used)
        new.append(binding)
    return with_body(function, new[::-1], function.body.body)


def _is_held(binding: Binding) -> bool:
    """True for a binding whose value may be large: a tensor, or an object of which nothing is known."""
    if not isinstance(binding, MatchCast) and not isinstance(binding.value, Call):
        return False
    info = binding.struct_info if isinstance(binding, MatchCast) else binding.var.struct_info_
    return not isinstance(info, ShapeStructInfo) and isinstance(info, TensorStructInfo | ObjectStructInfo | None)
