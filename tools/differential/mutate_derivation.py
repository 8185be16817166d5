"""Mutations that are well-formed and cannot be derived (language.md §6): arguments, annotations, casts, tuples, purity.

Each puts one binding, which is proved wrong, into a program that is right; or changes a call, a condition or a return
annotation that is there.
"""

from __future__ import annotations

import numpy as np

from relax import op
from relax.derive.call_graph import global_vars_in
from relax.derive.context import FORCE_PURE
from relax.expr import (
    BindingBlock,
    Call,
    Constant,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    const,
)
from relax.ir import GlobalVar, IRModule, Op, RelaxExpr, StructInfo
from relax.op.intrinsics import Intrinsic
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

from .choices import Choices
from .mutate_tree import Known, Places, Site, Table, any_tensor, change, insert, pick, rewrite, scan, tensor_info

TABLE = Table()

DERIVE = "derive"


def contradictions(info: StructInfo) -> list[StructInfo]:
    """Struct infos that no value of the given one has; shape variables occur in none."""
    match info:
        case TensorStructInfo(_, dtype, _, ndim):
            other = "int8" if dtype.is_float or dtype.is_bool else "float64"
            found: list[StructInfo] = [ShapeStructInfo(ndim=1), PrimStructInfo("int64"), TupleStructInfo(())]
            if not dtype.is_void:
                found.append(TensorStructInfo(None, other, ndim=ndim))
            if ndim >= 0:
                found.append(TensorStructInfo(None, dtype, ndim=ndim + 1))
            return found
        case ShapeStructInfo(_, ndim):
            return [TensorStructInfo(None, "int64", ndim=1), *([ShapeStructInfo(ndim=ndim + 1)] if ndim >= 0 else [])]
        case PrimStructInfo(dtype):
            return [ShapeStructInfo(), PrimStructInfo("int16" if dtype != "int16" else "int8")]
        case TupleStructInfo(fields):
            return [ShapeStructInfo(), TupleStructInfo([*fields, ObjectStructInfo()])]
        case FuncStructInfo():
            return [ShapeStructInfo(), TupleStructInfo(())]
        case _:
            return []


def wrong_values(info: StructInfo) -> list[RelaxExpr]:
    """Values that are proved not to be of a struct info."""
    values: list[RelaxExpr] = []
    if not isinstance(info, ObjectStructInfo | ShapeStructInfo):
        values.append(ShapeExpr((2, 3)))
    if not isinstance(info, ObjectStructInfo | PrimStructInfo):
        values.append(PrimValue(3))
    if isinstance(info, TensorStructInfo) and info.ndim != -1:
        values.append(Constant(np.zeros((1,) * (info.ndim + 1), "float32")))
    return values


def put(module: IRModule, choices: Choices, value: RelaxExpr) -> IRModule | None:
    """The module with a value bound somewhere."""
    site = pick(choices, scan(module).sites)
    return None if site is None else insert(module, site, site.bind("wrong", value))


# ------------------------------------------------------------------------------------------- calls


def _called(module: IRModule, places: Places, call: Call) -> FuncStructInfo | None:
    """The struct info of a function that a call enters, where it says its parameters."""
    info = None
    if isinstance(call.op, GlobalVar):
        info = module.get_global_var(call.op.name_hint).struct_info_
    elif isinstance(call.op, Var):
        info = call.op.struct_info_
    return info if isinstance(info, FuncStructInfo) and info.params is not None else None


def _local_call(site: Site, args: list[RelaxExpr]) -> tuple[VarBinding, VarBinding]:
    """A local function of one tensor, and a call of it."""
    p = Var("p", TensorStructInfo((2,), "float32"), span=site.span)
    function = Function([p], SeqExpr((), p), TensorStructInfo((2,), "float32"), True, {}, span=site.span)
    made = VarBinding(site.new_var("f"), function, span=site.span)
    return made, site.bind("wrong", Call(made.var, args))


@TABLE.declare("E3001", stage=DERIVE)
def incompatible_argument(module: IRModule, choices: Choices) -> IRModule | None:
    """Give a function an argument that its parameter cannot be."""
    places = scan(module)
    found: list[tuple[Call, int, RelaxExpr]] = []
    for _, call in places.calls():
        info = _called(module, places, call)
        for i, param in enumerate(info.params if info is not None else ()):
            found += [(call, i, value) for value in wrong_values(param)]
    if found and choices.chance(50):
        call, index, value = pick(choices, found)
        args = (*call.args[:index], value, *call.args[index + 1 :])
        return change(module, call, args=args)
    site = pick(choices, places.sites)
    if site is None:
        return None
    wrong = choices.pick(wrong_values(TensorStructInfo((2,), "float32")))
    return insert(module, site, *_local_call(site, [wrong]))


@TABLE.declare("E3002", stage=DERIVE)
def wrong_number_of_arguments(module: IRModule, choices: Choices) -> IRModule | None:
    """Call a function with one argument more, or with none."""
    places = scan(module)
    found = [call for _, call in places.calls() if _called(module, places, call) is not None]
    if found and choices.chance(50):
        call = pick(choices, found)
        more = (*call.args, PrimValue(1))
        args = call.args[:-1] if call.args and choices.chance(50) else more
        return change(module, call, args=args)
    site = pick(choices, places.sites)
    if site is None:
        return None
    args = choices.pick([[], [const([1.0, 2.0]), const([1.0, 2.0])]])
    return insert(module, site, *_local_call(site, args))


@TABLE.declare("E3003", stage=DERIVE)
def call_of_no_function(module: IRModule, choices: Choices) -> IRModule | None:
    """Call a tensor."""
    found = [(s, v) for s in scan(module).sites for v in s.tensors()]
    chosen = pick(choices, found)
    if chosen is None:
        return None
    site, var = chosen
    return insert(module, site, site.bind("wrong", Call(var, [PrimValue(1)])))


@TABLE.declare("E3016", stage=DERIVE, text={"E3016", "E1004"})
def sinfo_args_of_a_call_that_takes_none(module: IRModule, choices: Choices) -> IRModule | None:
    """Give sinfo_args to the call of an operator or a Relax function, whose result is derived."""
    places = scan(module)
    calls = [call for _, call in places.calls() if isinstance(call.op, Op | Var | GlobalVar) and not call.sinfo_args]
    calls = [c for c in calls if isinstance(c.op, Op) or _called(module, places, c) is not None]
    calls = [c for c in calls if not isinstance(c.attrs, Intrinsic)]
    call = pick(choices, calls)
    info = TensorStructInfo(None, "float32", ndim=1)
    if call is None:
        return put(module, choices, op.exp(const([1.0])).replace(sinfo_args=(info,)))
    return change(module, call, sinfo_args=(info,))


@TABLE.declare("E3011", text={"E1003"})
def call_of_unknown_function(module: IRModule, choices: Choices) -> IRModule | None:
    """Call a global function that the module does not have."""
    return put(module, choices, Call(GlobalVar("nowhere"), []))


@TABLE.declare("E3012", stage=DERIVE)
def unregistered_derivation(module: IRModule, choices: Choices) -> IRModule | None:
    """Call a packed function whose derivation is not registered."""
    places = scan(module)
    site = pick(choices, places.ordinary)
    if site is None:
        return None
    info = FuncStructInfo.opaque_func(derive_func="differential.unknown", purity=True)
    p = Var("p", info, span=site.span)
    called = Var("called", span=site.span)
    body = SeqExpr([BindingBlock([VarBinding(called, Call(p, [], span=site.span), span=site.span)])], called)
    function = Function([p], body, ObjectStructInfo(), True, {}, span=site.span)
    return insert(module, site, VarBinding(site.new_var("f"), function, span=site.span))


# ------------------------------------------------------------------------------------------- purity


def _must_be_pure(site: Site) -> bool:
    return site.owner.is_pure and not site.owner.attrs.get(FORCE_PURE, False)


def _impure(choices: Choices, site: Site) -> Call:
    """A call with effects."""
    value = any_tensor(choices, site)
    calls = [
        op.call_packed("differential.unknown", value, sinfo_args=TensorStructInfo(ndim=1)),
        op.print(value, format="{}"),
        op.assert_op(Constant(np.array(True)), format="never"),
    ]
    return choices.pick(calls)


@TABLE.declare("E3004", stage=DERIVE)
def impure_call_in_dataflow_block(module: IRModule, choices: Choices) -> IRModule | None:
    """Make a call with effects inside a dataflow block."""
    forced = [s for s in scan(module).dataflow if not s.owner.attrs.get(FORCE_PURE, False)]
    site = pick(choices, forced)
    return None if site is None else insert(module, site, site.bind("effect", _impure(choices, site)))


@TABLE.declare("E3005", stage=DERIVE)
def impure_call_in_pure_function(module: IRModule, choices: Choices) -> IRModule | None:
    """Make a call with effects in a function that is pure."""
    site = pick(choices, [s for s in scan(module).ordinary if _must_be_pure(s)])
    return None if site is None else insert(module, site, site.bind("effect", _impure(choices, site)))


@TABLE.declare("E3005", stage=DERIVE)
def impure_local_function_called_in_pure_function(module: IRModule, choices: Choices) -> IRModule | None:
    """Call a local function declared impure in a function that is pure."""
    site = pick(choices, [s for s in scan(module).ordinary if _must_be_pure(s)])
    if site is None:
        return None
    made, called = _local_call(site, [const([1.0, 2.0])])
    return insert(module, site, made.replace(value=made.value.replace(is_pure=False)), called)


# ------------------------------------------------------------------------------------------- annotations


def _contradicted(module: IRModule, choices: Choices) -> tuple[Site, Var, StructInfo] | None:
    """A place in a function, a tensor there, and struct info that it cannot have; None if there is no tensor."""
    sites = scan(module).sites
    return pick(choices, [(s, v, wrong) for s in sites for v in s.tensors() for wrong in contradictions(v.struct_info)])


@TABLE.declare("E3006", stage=DERIVE)
def annotation_contradicts_the_value(module: IRModule, choices: Choices) -> IRModule | None:
    """Annotate a variable with what its value cannot be."""
    chosen = _contradicted(module, choices)
    if chosen is None:
        return None
    site, var, wrong = chosen
    return insert(module, site, site.bind("wrong", var, wrong))


@TABLE.declare("E3006", stage=DERIVE)
def match_cast_to_something_else_than_declared(module: IRModule, choices: Choices) -> IRModule | None:
    """Annotate the variable of a match_cast with what the cast does not give."""
    site = pick(choices, scan(module).sites)
    if site is None:
        return None
    value = any_tensor(choices, site)
    info = TensorStructInfo(None, tensor_info(value).dtype, ndim=tensor_info(value).ndim)
    wrong = choices.pick(contradictions(info))
    return insert(module, site, MatchCast(site.new_var("wrong", wrong), value, info, span=site.span))


@TABLE.declare("E3007", stage=DERIVE)
def return_annotation_contradicts_the_body(module: IRModule, choices: Choices) -> IRModule | None:
    """Declare a result that a function, which nobody calls, does not return."""
    called = {g for f in module.functions.values() if isinstance(f, Function) for g in global_vars_in(f)}
    found: list[tuple[Known, StructInfo]] = []
    for known in scan(module).functions:
        if isinstance(known.var, GlobalVar) and known.name not in called:
            info = known.function.body.struct_info
            found += [(known, wrong) for wrong in contradictions(info)]
    chosen = pick(choices, found)
    if chosen is None:
        return None
    known, wrong = chosen
    return rewrite(module, {known.function: known.function.replace(ret_struct_info=wrong)})


@TABLE.declare("E3008", stage=DERIVE)
def match_cast_never_succeeds(module: IRModule, choices: Choices) -> IRModule | None:
    """Cast a tensor to what it cannot be."""
    chosen = _contradicted(module, choices)
    if chosen is None:
        return None
    site, var, wrong = chosen
    return insert(module, site, MatchCast(site.new_var("wrong"), var, wrong, span=site.span))


# ------------------------------------------------------------------------------------------- tuples, if


@TABLE.declare("E3009", stage=DERIVE)
def field_of_no_tuple(module: IRModule, choices: Choices) -> IRModule | None:
    """Take a field of a tensor."""
    found = [(s, v) for s in scan(module).sites for v in s.tensors()]
    chosen = pick(choices, found)
    if chosen is None:
        return None
    site, var = chosen
    return insert(module, site, site.bind("wrong", TupleGetItem(var, choices.integer(0, 2))))


@TABLE.declare("E3009", stage=DERIVE, text={"E3009", "E1005"})
def tuple_index_out_of_range(module: IRModule, choices: Choices) -> IRModule | None:
    """Take a field that a tuple does not have."""
    places = scan(module)
    found = [(b, b.value) for b in places.bindings if isinstance(b.value, TupleGetItem)]
    found = [(b, v) for b, v in found if isinstance(v.tuple_value.struct_info_, TupleStructInfo)]
    if found and choices.chance(50):
        bound, value = pick(choices, found)
        size = len(value.tuple_value.struct_info.fields)
        return change(module, value, index=choices.pick([size, size + 7, -1]))
    site = pick(choices, places.sites)
    if site is None:
        return None
    made = site.bind("pair", Tuple([any_tensor(choices, site), PrimValue(1)]))
    return insert(module, site, made, site.bind("wrong", TupleGetItem(made.var, choices.pick([2, -1]))))


@TABLE.declare("E3010", stage=DERIVE)
def condition_is_no_bool_scalar(module: IRModule, choices: Choices) -> IRModule | None:
    """Let an if ask for something that is no bool scalar."""
    places = scan(module)
    wrong = [const(1.0), const([True, False]), PrimValue(1), ShapeExpr((1,)), const(1, "int32")]
    cond = choices.pick(wrong)
    found = [b.value for b in places.bindings if isinstance(b.value, If)]
    if found and choices.chance(50):
        return change(module, pick(choices, found), cond=cond)
    site = pick(choices, places.ordinary)
    if site is None:
        return None
    value = any_tensor(choices, site)
    return insert(module, site, site.bind("wrong", If(cond, SeqExpr((), value), SeqExpr((), value))))


__all__ = ["DERIVE", "TABLE", "put"]
