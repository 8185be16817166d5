"""Gradients of calls and of branches: functions that pull a gradient of a result back to the arguments.

Before   y = cls.f(x, w)                          After   y = cls.f(x, w)
                                                          grads = cls.f_vjp(x, w, y_adjoint)
                                                          x_adjoint = grads[0]
                                                          w_adjoint = grads[1]

`f_vjp` computes f's intermediate values again. It calls itself where f calls itself. A binding ``y = if c: … else: …``
is treated as a call of a function of the condition and of what the branches use, whose branches are calls:

         y = if c: R.exp(x) else: x                       y = cls.main_if(c, x)
                                                          grads = cls.main_if_vjp(c, x, y_adjoint)
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.uses import bound_variables, uses_of
from ..block_builder import BlockBuilder
from ..derive.normalize import normalize_module
from ..derive.substitution import Substitution, copy_with_new_vars
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Function,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..info.mapping import bound_in, fields_in
from ..ir import GlobalVar, IRModule, RelaxExpr, StructInfo
from ..prim import Var as ShapeVar
from ..runtime.records import dataclass
from ..struct_info import FuncStructInfo, ObjectStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo

SUFFIX = "_vjp"


@dataclass(frozen=True)
class Pending:
    """A function whose gradients were asked for: the name of the function that computes them, and the parameters by
    which.
    """

    name: str
    vjp: str
    indices: Sequence[int]


class Calls:
    """Functions that gradients are pulled back through, of one module, and those that are still to be written."""

    def __init__(self) -> None:
        self.vjps: dict[str, tuple[GlobalVar, Sequence[int]]] = {}
        self.branches: dict[str, tuple[str, str]] = {}
        """Names of the functions of both branches, by the function that has the condition."""
        self.pending: list[Pending] = []

    # -- calls

    def vjp(self, builder: BlockBuilder, callee: GlobalVar) -> tuple[GlobalVar, Sequence[int]] | None:
        """Return the function that pulls a gradient back through a call, and the parameters of which it returns the
        gradients, in order; None if the callee is no pure Relax function.

        It takes the callee's parameters and the gradient of the result. Its body is written later: see `pending`.
        """
        name = callee.name_hint
        if name in self.vjps:
            return self.vjps[name]
        function = builder.get_context_module().get(name)
        if not isinstance(function, Function) or not function.is_pure or function.ret_struct_info is None:
            return None
        infos = [param.struct_info for param in function.params]
        indices = [i for i, info in enumerate(infos) if may_vary(info) and is_settled(info)]
        vjp = GlobalVar(builder.unique_global_name(f"{name}{SUFFIX}"))
        builder.declare(vjp, _signature(function, indices))
        self.vjps[name] = vjp, indices
        self.pending.append(Pending(name, vjp.name_hint, indices))
        return self.vjps[name]

    # -- branches

    def outlined(self, mod: IRModule, name: str) -> IRModule:
        """Return the module with the branches of a function as functions of their own, and calls in their place."""
        function = mod[name]
        assert isinstance(function, Function)
        assert isinstance(function.body, SeqExpr)
        has_branches = any(isinstance(binding.value, If) for binding in _bindings(function))
        if name in self.branches or not has_branches or not function.is_pure:
            return mod
        scope = dict.fromkeys(bound_in(*(param.struct_info for param in function.params)))
        blocks: list[BindingBlock] = []
        for block in function.body.blocks:
            new: list[Binding] = []
            for binding in block.bindings:
                if isinstance(binding, VarBinding) and isinstance(binding.value, If):
                    mod, call = self._outline(mod, name, binding.var, binding.value, scope)
                    binding = binding.replace(value=call)
                new.append(binding)
                if isinstance(binding, MatchCast):
                    scope.update(dict.fromkeys(bound_in(binding.struct_info)))
            blocks.append(block.replace(bindings=tuple(new)))
        body = function.body.replace(blocks=tuple(blocks))
        return normalize_module(mod.with_function(name, function.replace(body=body)))

    def _outline(
        self, mod: IRModule, name: str, var: Var, value: If, scope: dict[ShapeVar, None]
    ) -> tuple[IRModule, Call]:
        uses = uses_of(value.true_branch, value.false_branch)
        uses.add_definition(var)
        inside = bound_variables(value)
        captured = [each for each in uses.variables if each not in inside and each is not var]
        told = bound_in(*(each.struct_info for each in captured)) if captured else {}
        sizes = [size for size in uses.shape_variables if size in scope and size not in told]
        params = [Var(each.name_hint, each.struct_info) for each in captured]
        table: dict[Var, RelaxExpr] = dict(zip(captured, params, strict=True))
        arguments: list[RelaxExpr] = [*captured]
        if sizes:
            params.append(Var("sizes", ShapeStructInfo(sizes)))
            arguments.append(ShapeExpr(sizes))
        names = BlockBuilder(mod, warn=False)
        made: list[GlobalVar] = []
        for kind, branch in (("then", value.true_branch), ("else", value.false_branch)):
            body = Substitution(dict(table), {}).node(branch)
            assert isinstance(body, RelaxExpr)
            function = Function(params, body, _expressible(var.struct_info, scope), span=value.span)
            made.append(GlobalVar(names.unique_global_name(f"{name}_{kind}")))
            mod = mod.with_function(made[-1], copy_with_new_vars(function))
        condition = Var("condition", value.cond.struct_info)
        whole = If(condition, Call(made[0], tuple(params)), Call(made[1], tuple(params)), span=value.span)
        function = Function([condition, *params], whole, _expressible(var.struct_info, scope), span=value.span)
        chosen = GlobalVar(names.unique_global_name(f"{name}_if"))
        self.branches[chosen.name_hint] = made[0].name_hint, made[1].name_hint
        mod = mod.with_function(chosen, copy_with_new_vars(function))
        return mod, Call(chosen, (value.cond, *arguments), span=value.span)

    def choice(self, mod: IRModule, pending: Pending) -> tuple[IRModule, Function]:
        """Return the function that pulls a gradient back through branches: it calls that of the branch taken."""
        builder = BlockBuilder(mod, warn=False)
        function = mod[pending.vjp]
        assert isinstance(function, Function)
        copy = copy_with_new_vars(function)
        condition, *rest = copy.params
        both = [self.vjp(builder, mod.get_global_var(name)) for name in self.branches[pending.name]]
        calls = [Call(found[0], tuple(rest)) for found in both if found is not None]
        body = If(condition, calls[0], calls[1])
        return builder.get(), copy.replace(body=body)


def may_vary(info: StructInfo | None) -> bool:
    """True for a value that contains or may contain a float tensor."""
    return any(
        isinstance(field, (FuncStructInfo, ObjectStructInfo))
        or (isinstance(field, TensorStructInfo) and (field.dtype.is_float or field.dtype.is_void))
        for field in (fields_in(info) if info is not None else (ObjectStructInfo(),))
    )


def is_settled(info: StructInfo | None) -> bool:
    """True if it is known for each part of a value whether it is a float tensor."""
    return info is not None and not any(
        isinstance(field, (FuncStructInfo, ObjectStructInfo))
        or (isinstance(field, TensorStructInfo) and field.dtype.is_void)
        for field in fields_in(info)
    )


def gradient_info(info: StructInfo) -> StructInfo:
    """Struct info of the gradient by a value: its own for tensors, by field for tuples, else the empty tuple."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo([gradient_info(field) for field in info.fields])
    return info if isinstance(info, TensorStructInfo) else TupleStructInfo(())


def result_gradient(function: Function) -> Var:
    """Return a new variable for the gradient by the result of a function."""
    assert function.ret_struct_info is not None
    return Var("result_adjoint", gradient_info(function.ret_struct_info))


def _signature(function: Function, indices: Sequence[int]) -> Function:
    """Stand-in of the function that pulls a gradient back: it returns the parameters in the place of gradients."""
    copy = copy_with_new_vars(function)
    gradients = TupleStructInfo([gradient_info(copy.params[i].struct_info) for i in indices])
    body = SeqExpr((), Tuple([_in_place_of_gradient(copy.params[i], copy.params[i].struct_info) for i in indices]))
    return Function((*copy.params, result_gradient(copy)), body, gradients)


def _in_place_of_gradient(value: RelaxExpr, info: StructInfo) -> RelaxExpr:
    """Return the tensors of a value, in the structure of `gradient_info`."""
    if isinstance(info, TupleStructInfo):
        items = enumerate(info.fields)
        return Tuple([_in_place_of_gradient(TupleGetItem(value, i), field) for i, field in items])
    return value if isinstance(info, TensorStructInfo) else Tuple(())


def _bindings(function: Function) -> list[Binding]:
    assert isinstance(function.body, SeqExpr)
    return [binding for block in function.body.blocks for binding in block.bindings]


def _expressible(info: StructInfo, scope: dict[ShapeVar, None]) -> StructInfo | None:
    """Struct info over variables in scope; None if it uses others."""
    uses = uses_of()
    uses.add_info(info)
    return info if all(var in scope for var in uses.shape_variables) else None
