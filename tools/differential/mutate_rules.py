"""Mutations that break a rule about variables, shape variables, structure or linkage: 1–9, 11–13, 18 and 21."""

from __future__ import annotations

from typing import Any

from relax.derive.call_graph import call_graph, recursive_groups
from relax.derive.context import FORCE_PURE
from relax.expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
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
)
from relax.info.mapping import bound_in
from relax.ir import GlobalVar, IRModule, Op, set_slot
from relax.op import call_pure_packed, negative
from relax.prim import StringImm as PrimString
from relax.struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo
from relax.tir import PrimFunc
from relax.utils import copy_with_new_vars

from .choices import Choices
from .mutate_tree import (
    LOST,
    Bound,
    Known,
    Places,
    Site,
    Table,
    any_tensor,
    change,
    insert,
    new_size,
    operands,
    pick,
    rewrite,
    scan,
    with_operand,
    with_param,
)

TABLE = Table()

UNDEFINED = {"E1002"}
"""In text, a variable that is not visible is a name that is not defined."""


# ------------------------------------------------------------------------------- 1: dataflow variables


@TABLE.declare("E2001", text=UNDEFINED)
def use_dataflow_var_outside_its_block(module: IRModule, choices: Choices) -> IRModule | None:
    """Use a dataflow variable after its block."""
    found: list[tuple[DataflowVar, Site]] = []
    for seq, end in scan(module).sequences:
        for block in seq.blocks:
            found += [(b.var, end) for b in block.bindings if isinstance(b.var, DataflowVar)]
    chosen = pick(choices, found)
    if chosen is None:
        return None
    var, end = chosen
    return insert(module, end, end.bind("escaped", Tuple([var])))


@TABLE.declare("E2001", text=LOST)
def bind_dataflow_var_in_ordinary_block(module: IRModule, choices: Choices) -> IRModule | None:
    """Bind a dataflow variable outside of every dataflow block."""
    bound = pick(choices, [b for b in scan(module).bindings if _renewable(b.binding.var) and not b.site.in_dataflow])
    if bound is None:
        return None
    old = bound.binding.var
    new = DataflowVar(old.name_hint, old.annotation, span=old.span)
    if old.struct_info_ is not None:
        set_slot(new, "_struct_info", old.struct_info_)
    return rewrite(module, {old: new})


def _renewable(var: Var) -> bool:
    """Whether a variable can be replaced by another: shapes in struct info may be held by variables."""
    return type(var) is Var and not isinstance(var.struct_info_, ShapeStructInfo)


@TABLE.declare("E2001", text=LOST)
def dataflow_var_as_parameter(module: IRModule, choices: Choices) -> IRModule | None:
    """Give a function a dataflow variable as a parameter."""
    known = pick(choices, scan(module).functions)
    if known is None:
        return None
    param = DataflowVar("extra", ObjectStructInfo(), span=known.function.span)
    return rewrite(module, {known.function: with_param(known.function, param)})


# ------------------------------------------------------------------------------- 2 and 3: bindings


@TABLE.declare("E2002", text=UNDEFINED)
def use_unbound_variable(module: IRModule, choices: Choices) -> IRModule | None:
    """Use a variable that nothing binds, in the place of another."""
    chosen = _operand(scan(module), choices)
    if chosen is None:
        return None
    bound, index, var = chosen
    stray = Var("stray", var.struct_info_, span=bound.binding.span)
    return _with_operand(module, bound, index, stray)


@TABLE.declare("E2002", text=LOST)
def bind_variable_twice(module: IRModule, choices: Choices) -> IRModule | None:
    """Bind the same variable again."""
    plain = [b for b in scan(module).bindings if _repeatable(b)]
    bound = pick(choices, plain)
    if bound is None or bound.site.block is None:
        return None
    again = bound.binding.replace(value=bound.value)
    block = bound.site.block
    at = bound.site.index + 1
    copy = VarBinding(again.var, bound.value, span=bound.binding.span)
    return change(module, block, bindings=(*block.bindings[:at], copy, *block.bindings[at:]))


def _repeatable(bound: Bound) -> bool:
    plain = isinstance(bound.binding, VarBinding) and not isinstance(bound.value, Function | If)
    return plain and (not bound.site.in_dataflow or isinstance(bound.binding.var, DataflowVar))


@TABLE.declare("E2002", text=UNDEFINED)
def use_variable_in_its_own_value(module: IRModule, choices: Choices) -> IRModule | None:
    """Use a variable in the value it is bound to."""
    chosen = _operand(scan(module), choices)
    if chosen is None:
        return None
    bound, index, _ = chosen
    return _with_operand(module, bound, index, bound.binding.var)


@TABLE.declare("E2002", text=UNDEFINED)
def use_variable_of_a_branch_outside(module: IRModule, choices: Choices) -> IRModule | None:
    """Use what a branch of an if binds, after the if."""
    found: list[tuple[Var, Site]] = []
    for bound in scan(module).bindings:
        if isinstance(bound.value, If):
            inner = [v for b in (bound.value.true_branch, bound.value.false_branch) for v in _plain_vars(b)]
            found += [(v, _after(bound.site)) for v in inner]
    chosen = pick(choices, found)
    return None if chosen is None else insert(module, chosen[1], chosen[1].bind("escaped", Tuple([chosen[0]])))


@TABLE.declare("E2002", text=UNDEFINED)
def use_variable_of_a_function_outside(module: IRModule, choices: Choices) -> IRModule | None:
    """Use what a local function binds, or its parameter, outside of it."""
    found: list[tuple[Var, Site]] = []
    for known in scan(module).functions:
        if known.site is not None:
            inner = [*known.function.params, *_plain_vars(known.function.body)]
            found += [(v, _after(known.site)) for v in inner]
    chosen = pick(choices, found)
    return None if chosen is None else insert(module, chosen[1], chosen[1].bind("escaped", Tuple([chosen[0]])))


def _plain_vars(seq: SeqExpr) -> list[Var]:
    return [b.var for block in seq.blocks for b in block.bindings if not isinstance(b.var, DataflowVar)]


def _after(site: Site) -> Site:
    """The gap after the binding before which the gap is."""
    return Site(site.name, site.owner, site.seq, site.block, site.index + 1, site.variables, site.shape_vars)


@TABLE.declare("E2003", text=UNDEFINED)
def use_variable_before_its_binding(module: IRModule, choices: Choices) -> IRModule | None:
    """Use a variable that a later binding of the same scope binds."""
    found: list[tuple[Bound, int, Var]] = []
    for bound in scan(module).bindings:
        later = [v for v in bound.site.after if v is not bound.binding.var]
        if not bound.site.in_dataflow:
            later = [v for v in later if not isinstance(v, DataflowVar)]
        found += [(bound, i, v) for i, _ in operands(bound.value) for v in later]
    chosen = pick(choices, found)
    return None if chosen is None else _with_operand(module, *chosen)


def _operand(places: Places, choices: Choices) -> tuple[Bound, int, Var] | None:
    """A variable that a binding's value uses as an argument or field."""
    return pick(choices, [(b, i, v) for b in places.bindings for i, v in operands(b.value)])


def _with_operand(module: IRModule, bound: Bound, index: int, new: Var) -> IRModule:
    return change(module, bound.binding, value=with_operand(bound.value, index, new))


# ------------------------------------------------------------------------------- 4, 5, 6: shape variables


@TABLE.declare("E2004")
def return_annotation_uses_unbound_size(module: IRModule, choices: Choices) -> IRModule | None:
    """Say in a return annotation a size that nothing binds."""
    known = pick(choices, scan(module).functions)
    if known is None:
        return None
    info = TensorStructInfo((new_size(),), "float32", span=known.function.span)
    return change(module, known.function, ret_struct_info=info)


@TABLE.declare("E2004")
def return_annotation_uses_size_of_a_match_cast(module: IRModule, choices: Choices) -> IRModule | None:
    """Say in a return annotation a size that only a match_cast in the body binds."""
    found = [(b.site.owner, size) for b in _casts(scan(module)) for size in _new_sizes(b)]
    chosen = pick(choices, found)
    if chosen is None:
        return None
    function, size = chosen
    info = ShapeStructInfo((size,)) if size.dtype == "int64" else PrimStructInfo(value=size)
    return change(module, function, ret_struct_info=info.replace(span=function.span))


@TABLE.declare("E2005")
def use_unbound_size(module: IRModule, choices: Choices) -> IRModule | None:
    """Make a shape of a size that nothing binds."""
    site = pick(choices, scan(module).sites)
    if site is None:
        return None
    return insert(module, site, site.bind("shape", ShapeExpr([new_size()])))


@TABLE.declare("E2005")
def use_size_before_its_match_cast(module: IRModule, choices: Choices) -> IRModule | None:
    """Make a shape of a size before the match_cast that binds it."""
    found = [(b.site, size) for b in _casts(scan(module)) for size in _new_sizes(b)]
    chosen = pick(choices, found)
    if chosen is None:
        return None
    site, size = chosen
    value = ShapeExpr([size + 1]) if size.dtype == "int64" else PrimValue(size)
    return insert(module, site, site.bind("shape", value))


@TABLE.declare("E2005")
def use_size_before_it_within_a_match_cast(module: IRModule, choices: Choices) -> IRModule | None:
    """Write a match_cast that mentions a size in one dimension and binds it in the next."""
    site = pick(choices, scan(module).sites)
    if site is None:
        return None
    size = new_size()
    info = TensorStructInfo((size + 1, size), "float32", span=site.span)
    var = site.new_var("cast")
    return insert(module, site, MatchCast(var, any_tensor(choices, site), info, span=site.span))


@TABLE.declare("E2005")
def sinfo_args_mention_unbound_size(module: IRModule, choices: Choices) -> IRModule | None:
    """Let the sinfo_args of a call mention a size that is not in scope: they never bind."""
    places = scan(module)
    info = TensorStructInfo((new_size(),), "float32")
    calls = [call for _, call in places.calls() if call.sinfo_args]
    if calls and choices.chance(50):
        return change(module, pick(choices, calls), sinfo_args=(info,))
    site = pick(choices, places.sites)
    if site is None:
        return None
    call = call_pure_packed("differential.unknown", any_tensor(choices, site), sinfo_args=info)
    return insert(module, site, site.bind("called", call))


def _casts(places: Places) -> list[Bound]:
    return [b for b in places.bindings if isinstance(b.binding, MatchCast)]


def _new_sizes(bound: Bound) -> list:
    """The sizes that a match_cast is the first to bind, in its scope."""
    return [v for v in bound_in(bound.binding.struct_info) if v not in bound.site.shape_vars]


@TABLE.declare("E2006")
def size_never_alone_in_signature(module: IRModule, choices: Choices) -> IRModule | None:
    """Give a function a parameter whose size is an expression over a variable that no parameter binds."""
    known = pick(choices, scan(module).functions)
    if known is None:
        return None
    size = new_size()
    dims = choices.pick([(2 * size,), (4, size + 1), (size * size,)])
    param = Var("extra", TensorStructInfo(dims, "float32"), span=known.function.span)
    return rewrite(module, {known.function: with_param(known.function, param)})


# ------------------------------------------------------------------------------- 7, 8: control flow, recursion


@TABLE.declare("E2007", text={"E1010"})
def if_in_dataflow_block(module: IRModule, choices: Choices) -> IRModule | None:
    """Put an if into a dataflow block."""
    site = pick(choices, scan(module).dataflow)
    if site is None:
        return None
    value = any_tensor(choices, site)
    branch = If(Constant(True), SeqExpr((), value), SeqExpr((), value))
    return insert(module, site, site.bind("chosen", branch))


@TABLE.declare("E2007")
def recursive_call_in_dataflow_block(module: IRModule, choices: Choices) -> IRModule | None:
    """Let a function call itself in a dataflow block of its own."""
    site = pick(choices, [s for s in scan(module).dataflow if _is_global(module, s) and _annotated(module, s.name)])
    if site is None:
        return None
    call = Call(module.get_global_var(site.name), site.owner.params)
    return insert(module, site, site.bind("again", call))


@TABLE.declare("E2007")
def mutually_recursive_call_in_dataflow_block(module: IRModule, choices: Choices) -> IRModule | None:
    """Let a function call, in a dataflow block, another one that leads back to it."""
    helper = GlobalVar("leads_back")
    sites = [s for s in scan(module).dataflow if _is_global(module, s) and _annotated(module, s.name)]
    site = pick(choices, sites)
    if site is None or helper.name_hint in module:
        return None
    owner = site.owner
    params = tuple(Var(p.name_hint, p.struct_info_, span=p.span) for p in owner.params)
    back = SeqExpr([BindingBlock([VarBinding(Var("back"), Call(module.get_global_var(site.name), params))])], Tuple(()))
    there = Function(params, back, ObjectStructInfo(), owner.is_pure, {}, span=owner.span)
    broken = insert(module, site, site.bind("there", Call(helper, owner.params)))
    return broken.with_function(helper, copy_with_new_vars(there))


@TABLE.declare("E2007")
def local_recursion_in_dataflow_block(module: IRModule, choices: Choices) -> IRModule | None:
    """Let a local function call itself in a dataflow block of its own."""
    site = pick(choices, scan(module).ordinary)
    if site is None:
        return None
    f, p = site.new_var("rec"), Var("p", ObjectStructInfo())
    again = Var("again")
    block = DataflowBlock([VarBinding(again, Call(f, [p]), span=site.span)])
    function = Function([p], SeqExpr([block], again), ObjectStructInfo(), site.owner.is_pure, {}, span=site.span)
    return insert(module, site, VarBinding(f, function, span=site.span))


@TABLE.declare("E2008")
def recursive_function_without_annotation(module: IRModule, choices: Choices) -> IRModule | None:
    """Let a global function call itself and drop its return annotation."""
    known = pick(choices, [k for k in scan(module).functions if isinstance(k.var, GlobalVar)])
    if known is None:
        return None
    function = known.function
    recursive = any(known.name in group for group in recursive_groups(call_graph(module)))
    if not recursive:
        end = _end(module, function)
        call = Call(known.var, function.params)
        function = insert(IRModule({known.name: function}), end, end.bind("again", call))[known.name]
    return rewrite(module, {known.function: function.replace(ret_struct_info=None)})


@TABLE.declare("E2008")
def recursive_local_function_without_annotation(module: IRModule, choices: Choices) -> IRModule | None:
    """Let a local function call itself, without a return annotation."""
    places = scan(module)
    # A function that a DataflowVar holds would capture that by calling itself, which breaks rule 11 as well.
    existing = [
        k for k in places.functions if k.site is not None and _unannotated(k) and not isinstance(k.var, DataflowVar)
    ]
    known = pick(choices, existing) if existing and choices.chance(50) else None
    if known is not None:
        end = _end(module, known.function)
        call = end.bind("again", Call(known.var, known.function.params))
        blocks = (*known.function.body.blocks, BindingBlock([call]))
        body = known.function.body.replace(blocks=blocks)
        return change(module, known.function, body=body, ret_struct_info=None)
    site = pick(choices, places.ordinary)
    if site is None:
        return None
    f, p, again = site.new_var("rec"), Var("p", ObjectStructInfo()), Var("again")
    body = SeqExpr([BindingBlock([VarBinding(again, Call(f, [p]), span=site.span)])], again)
    function = Function([p], body, None, site.owner.is_pure, {}, span=site.span)
    return insert(module, site, VarBinding(f, function, span=site.span))


def _unannotated(known: Known) -> bool:
    return isinstance(known.var, Var) and known.var.annotation is None


def _end(module: IRModule, function: Function) -> Site:
    """The gap at the end of a function's body."""
    return next(end for seq, end in scan(module).sequences if seq is function.body)


def _annotated(module: IRModule, name: str) -> bool:
    function = module[name]
    return isinstance(function, Function) and function.ret_struct_info is not None


def _is_global(module: IRModule, site: Site) -> bool:
    """Whether a place stands in a global function itself, not in a local one."""
    return site.name in module and module[site.name] is site.owner


# ------------------------------------------------------------------------------- 9, 11, 18: values


@TABLE.declare("E2100", text=LOST)
def part_is_missing(module: IRModule, choices: Choices) -> IRModule | None:
    """Leave out what a node must have: the value of a projection, a branch of an if, the value of a binding."""
    site = pick(choices, scan(module).ordinary)
    if site is None:
        return None
    nothing: Any = None
    if choices.chance(30):
        return insert(module, site, VarBinding(site.new_var("nothing"), nothing, span=site.span))
    values = [TupleGetItem(nothing, 0), If(Constant(True), SeqExpr((), nothing), SeqExpr((), Tuple(())))]
    return insert(module, site, site.bind("nothing", choices.pick(values)))


@TABLE.declare("E2009")
def operator_as_a_value(module: IRModule, choices: Choices) -> IRModule | None:
    """Put an operator into a tuple, or bind it, or give it to a call."""
    site = pick(choices, scan(module).sites)
    if site is None:
        return None
    operator = Op.get("relax.exp")
    values = [Tuple([operator]), with_operand(negative(any_tensor(choices, site)), 0, operator)]
    return insert(module, site, site.bind("operator", choices.pick(values)))


@TABLE.declare("E2011")
def closure_captures_dataflow_variable(module: IRModule, choices: Choices) -> IRModule | None:
    """Let a function literal in a dataflow block mention a dataflow variable."""
    found = [(s, v) for s in scan(module).dataflow for v in s.variables if isinstance(v, DataflowVar)]
    chosen = pick(choices, found)
    if chosen is None:
        return None
    site, var = chosen
    body = SeqExpr((), Tuple([var]), span=site.span)
    literal = Function([Var("p", ObjectStructInfo())], body, None, True, {}, span=site.span)
    return insert(module, site, VarBinding(site.new_var("capture"), literal, span=site.span))


@TABLE.declare("E2018", text={"E2018", "E1005"})
def prim_value_of_no_number(module: IRModule, choices: Choices) -> IRModule | None:
    """Make a prim value of a scalar that is a handle."""
    site = pick(choices, scan(module).sites)
    if site is None:
        return None
    return insert(module, site, site.bind("handle", PrimValue(PrimString("text"))))


# ------------------------------------------------------------------------------- 12, 13, 21: functions


@TABLE.declare("E2012")
def no_entry_point(module: IRModule, choices: Choices) -> IRModule | None:
    """Make every function private."""
    edits = {f: f.without_attr("global_symbol") for f in module.functions.values()}
    return rewrite(module, edits)


@TABLE.declare("E2013")
def global_symbol_is_another_name(module: IRModule, choices: Choices) -> IRModule | None:
    """Let the global_symbol of a function differ from its name."""
    found = [f for f in module.functions.values() if "global_symbol" in f.attrs and not isinstance(f, PrimFunc)]
    function = pick(choices, found)
    if function is None:
        return None
    symbol = choices.pick(["other", "Main", ""])
    return rewrite(module, {function: function.with_attr("global_symbol", symbol)})


@TABLE.declare("E2021")
def forced_pure_but_impure(module: IRModule, choices: Choices) -> IRModule | None:
    """Give an impure function the attribute relax.force_pure."""
    known = pick(choices, scan(module).functions)
    if known is None:
        return None
    function = known.function.replace(is_pure=False, attrs={**known.function.attrs, FORCE_PURE: True})
    return rewrite(module, {known.function: function})


__all__ = ["TABLE"]
