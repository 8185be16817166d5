"""Outline bindings of a block into a function, for passes that group calls.

Before   lv = R.add(x, w)                 After   @R.function(private=True)
         lv1 = R.nn.relu(lv)                      def fused(x, w):
                                                      with R.dataflow():
                                                          lv = R.add(x, w)
                                                          lv1 = R.nn.relu(lv)
                                                          R.output(lv1)
                                                      return lv1

The variables and constants that the bindings read become parameters, constants only if they are lifted. A size that no
parameter tells arrives by a last parameter, an R.Shape. The function has shape variables of its own. Struct info whose
shape is a variable of the caller, as in ``R.Tensor(s, "float32")``, gets the dimensions of that shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ...analysis.uses import Uses
from ...derive.substitution import Substitution
from ...expr import (
    Binding,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ...info.mapping import bound_in
from ...ir import GlobalVar, RelaxExpr
from ...prim import PrimExpr, SizeVar, free_vars
from ...prim import Var as ShapeVar
from ...struct_info import ShapeStructInfo, TupleStructInfo


class Outlined(NamedTuple):
    """An outlined function, and the arguments of its call."""

    function: Function
    arguments: tuple[RelaxExpr, ...]
    sizes: tuple[PrimExpr, ...]
    """The values of the last parameter; empty if there is none."""

    def call(self, callee: GlobalVar, arguments: Sequence[RelaxExpr] | None = None) -> Call:
        """Return a call of the function by its name in the module, with rewritten arguments."""
        operands = self.arguments if arguments is None else tuple(arguments)
        return Call(callee, (*operands, ShapeExpr(self.sizes)) if self.sizes else operands)


def outlined(
    group: Sequence[VarBinding], attrs: Mapping[str, Any], *, lift_constants: bool = True, outputs: Sequence[Var] = ()
) -> Outlined:
    """The function that bindings become. It returns `outputs`, as a tuple if several; by default the last variable."""
    bound = {binding.var for binding in group}
    wanted = (Var, Constant) if lift_constants else Var
    operands = [leaf for b in group for leaf in operands_of(b.value) if isinstance(leaf, wanted)]
    arguments = tuple(dict.fromkeys(leaf for leaf in operands if leaf not in bound))
    told = bound_in(*(argument.struct_info for argument in arguments))
    sizes = tuple(v for v in sizes_in(group) if v not in told)
    renamed: dict[ShapeVar, PrimExpr] = {v: SizeVar(v.name, v.dtype) for v in (*told, *sizes)}
    rewrite = _Inside({}, renamed)
    params: list[Var] = []
    constants: dict[RelaxExpr, Var] = {}
    for number, argument in enumerate(arguments):
        name = argument.name_hint if isinstance(argument, Var) else f"param_{number}"
        param = Var(name, rewrite.info(argument.struct_info), span=argument.span)
        params.append(param)
        if isinstance(argument, Var):
            rewrite.variables[argument] = param
        else:
            constants[argument] = param
    returned = tuple(outputs) or (group[-1].var,)
    bindings: list[Binding] = []
    for binding in group:
        value = cast(RelaxExpr, rewrite.node(_with_parameters(binding.value, constants)))
        info = rewrite.info(binding.var.struct_info)
        kind = Var if binding.var in returned else DataflowVar
        var = kind(binding.var.name_hint, info, span=binding.span)
        rewrite.variables[binding.var] = var
        bindings.append(VarBinding(var, value, span=binding.span))
    results = tuple(rewrite.variables[var] for var in returned)
    result = results[0] if len(results) == 1 else Tuple(results)
    if sizes:
        params.append(Var("sizes", ShapeStructInfo([renamed[v] for v in sizes])))
    infos = [value.struct_info for value in results]
    returns = infos[0] if len(infos) == 1 else TupleStructInfo(infos)
    function = Function(params, SeqExpr([DataflowBlock(bindings)], result), returns, True, attrs)
    return Outlined(function, arguments, sizes)


class _Inside(Substitution):
    """Substitution of the caller's variables, by dimensions where a variable stands for a shape in struct info."""

    def shape(self, shape: RelaxExpr) -> RelaxExpr | None:
        if not isinstance(shape, Var) or shape in self.variables:
            return super().shape(shape)
        info = shape.struct_info_
        values = info.values if isinstance(info, ShapeStructInfo) else None
        if values is None or any(var not in self.shape_vars for value in values for var in free_vars(value)):
            return None  # the number of dimensions remains
        return super().shape(ShapeExpr(values))


def operands_of(value: RelaxExpr) -> list[RelaxExpr]:
    """The leaves that a value reads, those in tuples in their place."""
    match value:
        case Call(_, operands) | Tuple(operands):
            return [
                leaf
                for operand in operands
                for leaf in (operands_of(operand) if isinstance(operand, Tuple) else [operand])
            ]
        case TupleGetItem(source):
            return operands_of(source) if isinstance(source, Tuple) else [source]
        case _:
            return [value]


def _with_parameters(value: RelaxExpr, constants: Mapping[RelaxExpr, Var]) -> RelaxExpr:
    """A value with parameters in the place of constants."""
    match value:
        case Constant():
            return constants.get(value, value)
        case Call(_, args) if constants:
            return value.replace(args=tuple(_with_parameters(arg, constants) for arg in args))
        case Tuple(fields) if constants:
            return Tuple(tuple(_with_parameters(field, constants) for field in fields), span=value.span)
        case _:
            return value


def sizes_in(bindings: Iterable[Binding]) -> list[ShapeVar]:
    """The shape variables that bindings use, those in the signatures of the functions they call aside."""
    uses = Uses()
    for binding in bindings:
        uses.add_definition(binding.var)
        match binding.value:
            case Call(_, args, _, infos):
                for item in (*args, *infos):
                    if not isinstance(item, GlobalVar):
                        uses.add(item)
            case value:
                uses.add(value)
    return list(uses.shape_variables)


def can_be_passed(sizes: Iterable[ShapeVar]) -> bool:
    """True if shape variables can be the values of an R.Shape: sizes that are known not to be negative."""
    return all(v.nonnegative and v.dtype == "int64" for v in sizes)
