"""Lift computations that depend on weights only into a separate transform function.

Before   def main(x, w1, w2):                            # num_input = 1: w1 and w2 are weights
             with R.dataflow():
                 lv = R.permute_dims(w1)
                 lv1 = R.matmul(x, lv)
                 gv = R.add(lv1, w2)
                 R.output(gv)
             return gv
After    def main(x, w2, lv):                            # num_input = 1
             with R.dataflow():
                 lv1 = R.matmul(x, lv)
                 gv = R.add(lv1, w2)
                 R.output(gv)
             return gv

         def main_transform_params(params: R.Tuple(w1, w2)):         # num_input = 0
             with R.dataflow():
                 w1 = params[0]
                 w2 = params[1]
                 lv = R.permute_dims(w1)
                 gv = (w2, lv)
                 R.output(gv)
             return gv

For ``main(x, w1, w2)`` one calls ``main(x, *main_transform_params((w1, w2)))``: first weights that main still reads, in
their order, then what was computed of them, in the order of the program. As they are used again in the next call, main
must not change them in place.

Lifted are pure calls of operators and of PrimFuncs in the dataflow blocks of the function's body, tuples and
projections, if all variables that they use come from weights. What comes from constants only is left to FoldConstant,
and computed in both places if both need it. A weight whose shape tells a size that the rest needs, and that no other
weight left tells, stays a parameter.

With `shared_transform`, functions that take the same weights share one function `transform_params`, of what all of them
compute of weights; all take the same parameters then, whether they read each or not.

Not lifted: what comes after R.builtin.stop_lift_params, match_casts, calls that reuse an argument in place, and calls
of Relax functions. Functions without `num_input`, and those that have a transform function already, stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from ..analysis.properties import NORMAL_FORM
from ..analysis.uses import uses_of
from ..derive.normalize import normalize_module
from ..derive.substitution import copy_with_new_vars, substitute
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..info.mapping import bound_in, substitute_struct_info
from ..info.relations import Verdict, fit_all
from ..ir import Diagnostic, DiagnosticError, IRModule, Op, RelaxExpr, structural_equal
from ..op import operator_of
from ..op.storage import StopLiftParams
from ..prim import PrimExpr
from ..prim import Var as ShapeVar
from ..rewrite.rebuild import with_info
from ..runtime.records import dataclass
from ..struct_info import TupleStructInfo
from .decorators import module_pass
from .model_params import NUM_INPUT, require_uncalled, with_weights

SUFFIX = "transform_params"
WHO = "LiftTransformParams"


@module_pass(needs={NORMAL_FORM}, breaks=())
def LiftTransformParams(mod: IRModule, shared_transform: bool | Sequence[str] = False) -> IRModule:
    """Lift what depends on weights only into functions of their own; see the module's docstring.

    `shared_transform`: True, or a list of functions, for one transform function of all, or of those. Raises
    DiagnosticError (E4011) for a wrong num_input, for functions that others call, and for functions that are to share
    a transform but do not take the same weights.
    """
    functions = {name: entry for name, entry in with_weights(mod, WHO).items() if not name.endswith(SUFFIX)}
    if shared_transform is False:
        groups = [([name], f"{name}_{SUFFIX}") for name in functions]
    else:
        names = list(functions) if shared_transform is True else [*shared_transform] or list(functions)
        unknown = [name for name in names if name not in functions]
        if unknown:
            message = f"{WHO}: {', '.join(unknown)}: no function with the attribute num_input"
            raise DiagnosticError(Diagnostic("E4011", message))
        groups = [(names, SUFFIX)] if names else []
    groups = [(names, name) for names, name in groups if mod.get(name) is None]
    if not groups:
        return mod
    require_uncalled(mod, [name for names, _ in groups for name in names], WHO)
    for names, transform in groups:
        mod = _lifted(mod, {name: functions[name] for name in names}, transform)
    return normalize_module(mod)


@dataclass
class _Part:
    """A function of a group: its weights, and the bindings that compute something of them."""

    function: Function
    inputs: tuple[Var, ...]
    weights: tuple[Var, ...]
    bindings: list[VarBinding] = field(default_factory=list[VarBinding])
    """Bindings that need neither inputs nor effects, in order."""
    from_weights: set[Var] = field(default_factory=set[Var])
    """Variables among them, and among the weights, that come from weights, not only from constants."""
    shared: dict[Var, Var] = field(default_factory=dict[Var, Var])
    """The variables that other functions of the group compute too, as variables of the first one."""
    sizes: dict[ShapeVar, PrimExpr] = field(default_factory=dict[ShapeVar, PrimExpr])
    """The shape variables of the weights, in those of the first function."""


def _lifted(mod: IRModule, functions: dict[str, tuple[Function, int]], transform: str) -> IRModule:
    """The module with one transform function of all these."""
    parts = [_part(function, count) for function, count in functions.values()]
    first = parts[0]
    for part, name in zip(parts, functions, strict=True):
        _share(first, part, name)
    common = [b for b in first.bindings if all(b.var in part.shared.values() for part in parts)]
    common_vars = {binding.var for binding in common}
    for part in parts:
        part.shared = {var: to for var, to in part.shared.items() if to in common_vars or to in first.weights}
    results = _results(parts, common)
    mod = mod.with_function(transform, _transform_function(first, common, results, transform))
    for part, name in zip(parts, functions, strict=True):
        mod = mod.with_function(name, _without_lifted(first, part, results))
    return mod


def _part(function: Function, count: int) -> _Part:
    part = _Part(function, function.params[:count], function.params[count:])
    part.from_weights = set(part.weights)
    sizes = bound_in(*(weight.struct_info for weight in part.weights))
    free: set[Var] = set(part.weights)
    assert isinstance(function.body, SeqExpr)
    for block in function.body.blocks:
        for binding in block.bindings if isinstance(block, DataflowBlock) else ():
            if not isinstance(binding, VarBinding) or not _is_liftable(binding.value):
                continue
            uses = uses_of(binding.value)
            uses.add_definition(binding.var)
            if all(var in free for var in uses.variables) and all(v in sizes for v in uses.shape_variables):
                part.bindings.append(binding)
                free.add(binding.var)
                if any(var in part.from_weights for var in uses.variables):
                    part.from_weights.add(binding.var)
    return part


def _is_liftable(value: RelaxExpr) -> bool:
    match value:
        case Var() | Constant() | ShapeExpr() | PrimValue() | Tuple() | TupleGetItem():
            return True
        case Call(Op()):
            operator = operator_of(value)
            return (
                operator is not None
                and operator.pure
                and not isinstance(operator, StopLiftParams)
                and not operator.reused(value)[1]
            )
        case _:
            return False


def _share(first: _Part, part: _Part, name: str) -> None:
    """Find the bindings of a function that compute the same values as bindings of the first function."""
    infos = [[weight.struct_info for weight in each.weights] for each in (first, part)]
    same = len(infos[0]) == len(infos[1])
    fits, sizes, unmatched = fit_all(infos[0], infos[1]) if same else ([], {}, set[ShapeVar]())
    if not same or unmatched or any(fit.verdict is not Verdict.YES for fit in fits):
        message = f"{WHO}: {name} does not take the weights that the others take"
        hint = "let functions that share a transform end in the same parameters"
        raise DiagnosticError(Diagnostic("E4011", message, part.function.span, hint=hint))
    part.sizes = {} if part is first else dict(sizes)
    part.shared = dict(zip(part.weights, first.weights, strict=True))
    for binding in part.bindings:
        if part is first:
            part.shared[binding.var] = binding.var
            continue
        value = substitute(binding.value, {**part.shared, **part.sizes})
        same_value = (b.var for b in first.bindings if structural_equal(b.value, value, map_free_vars=False))
        equal_var = next(same_value, None)
        if equal_var is not None:
            part.shared[binding.var] = equal_var


def _is_lifted(part: _Part, var: Var) -> bool:
    return var in part.shared and var in part.from_weights


def _rest(part: _Part) -> tuple[list[Binding], list[BindingBlock]]:
    """The bindings that stay in a function, and its blocks with only these."""
    assert isinstance(part.function.body, SeqExpr)
    blocks: list[BindingBlock] = []
    for block in part.function.body.blocks:
        kept = [b for b in block.bindings if not _is_lifted(part, b.var)]
        if len(kept) == len(block.bindings):
            blocks.append(block)
        elif kept:
            blocks.append(block.replace(bindings=tuple(kept)))
    return [binding for block in blocks for binding in block.bindings], blocks


def _results(parts: Sequence[_Part], common: Sequence[VarBinding]) -> list[Var]:
    """The variables of the first function that the transform function returns."""
    first = parts[0]
    needed: set[Var] = set()
    for part in parts:
        bindings, _ = _rest(part)
        assert isinstance(part.function.body, SeqExpr)
        uses = uses_of(*bindings, part.function.body.body)
        for param in part.inputs:
            uses.add_definition(param)
        needed |= {part.shared[var] for var in uses.variables if _is_lifted(part, var)}
        computed = [binding.var for binding in common if binding.var in needed]
        for var in (*computed, *needed):
            uses.add_definition(var)
        needed |= _telling(part, first, uses.shape_variables, needed)
    return [
        *(weight for weight in first.weights if weight in needed),
        *(binding.var for binding in common if binding.var in needed),
    ]


def _telling(part: _Part, first: _Part, sizes: Iterable[ShapeVar], results: Iterable[Var]) -> set[Var]:
    """The weights that must stay because they tell sizes that nothing else tells, or would be checked against."""
    told = bound_in(*(var.struct_info for var in results))
    added: set[Var] = set()
    wanted = [*sizes]
    for weight, original in zip(part.weights, first.weights, strict=True):
        mine = bound_in(weight.struct_info)
        theirs = bound_in(original.struct_info)
        if any(
            (size in wanted or other in wanted) and other not in told for size, other in zip(mine, theirs, strict=False)
        ):
            added.add(original)
            told = {**told, **theirs}
    return added


def _transform_function(first: _Part, common: Sequence[VarBinding], results: Sequence[Var], name: str) -> Function:
    """The function from the tuple of all weights to the results."""
    info = TupleStructInfo([weight.struct_info for weight in first.weights])
    params = Var("params", info)
    needed: set[Var] = set(results)
    bindings: list[Binding] = []
    for binding in reversed(common):
        if binding.var in needed:
            needed.update(uses_of(binding.value).variables)
            bindings.insert(0, binding)
    table: dict[Var, RelaxExpr] = {}
    head: list[Binding] = []
    for index, weight in enumerate(first.weights):
        if weight in needed:
            var = DataflowVar(weight.name_hint)
            with_info(var, weight.struct_info)
            table[weight] = var
            head.append(VarBinding(var, TupleGetItem(params, index)))
    output = Var("gv")
    tail = VarBinding(output, Tuple([*results]))
    block = DataflowBlock([*head, *bindings, tail])
    body = substitute(SeqExpr([_with_dataflow_vars(block, output)], output), table)
    returned = TupleStructInfo([var.struct_info for var in results])
    attrs = {"global_symbol": name, NUM_INPUT: 0}
    return copy_with_new_vars(Function([params], body, returned, True, attrs))


def _with_dataflow_vars(block: BindingBlock, output: Var) -> BindingBlock:
    """The block with all variables but one seen only inside."""
    table: dict[Var, RelaxExpr] = {}
    bindings: list[Binding] = []
    for binding in block.bindings:
        assert isinstance(binding, VarBinding)
        var = binding.var
        if var is not output and not isinstance(var, DataflowVar):
            var = DataflowVar(var.name_hint)
            with_info(var, binding.var.struct_info)
            table[binding.var] = var
        bindings.append(VarBinding(var, substitute(binding.value, table), span=binding.span))
    return block.replace(bindings=tuple(bindings))


def _without_lifted(first: _Part, part: _Part, results: Sequence[Var]) -> Function:
    """The function that takes the results of the transform function for its weights."""
    own = {to: var for var, to in reversed(part.shared.items())}
    infos = [[weight.struct_info for weight in each.weights] for each in (part, first)]
    _, sizes, _ = fit_all(infos[0], infos[1])
    table: dict[Var, RelaxExpr] = {}
    params: list[Var] = []
    for result in results:
        var = own[result]
        if var not in part.weights:
            info = var.struct_info if part is first else substitute_struct_info(result.struct_info, sizes)
            param = table[var] = Var(var.name_hint, info)
            params.append(param)
        else:
            params.append(var)
    for var, to in part.shared.items():  # several variables of a function may be one result
        if to in own and own[to] in table:
            table[var] = table[own[to]]
    _, blocks = _rest(part)
    blocks = _without_unused_constants(part, blocks)
    assert isinstance(part.function.body, SeqExpr)
    body = substitute(part.function.body.replace(blocks=tuple(blocks)), table)
    return part.function.replace(params=(*part.inputs, *params), body=body)


def _without_unused_constants(part: _Part, blocks: Sequence[BindingBlock]) -> list[BindingBlock]:
    """The blocks without what came from constants only and went only into what was lifted."""
    constant = {b.var for b in part.bindings if b.var not in part.from_weights}
    constant = {var for var in constant if isinstance(var, DataflowVar)}
    assert isinstance(part.function.body, SeqExpr)
    used = dict(uses_of(part.function.body.body).variables)
    result: list[BindingBlock] = []
    for block in reversed(blocks):
        kept: list[Binding] = []
        for binding in reversed(block.bindings):
            if binding.var in used or binding.var not in constant:
                kept.insert(0, binding)
                used.update(uses_of(binding).variables)
        if kept:
            same = len(kept) == len(block.bindings)
            result.insert(0, block if same else block.replace(bindings=tuple(kept)))
    return result
