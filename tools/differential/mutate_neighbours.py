"""Changes that look suspicious and keep a program valid, with the same meaning: what must not be refused.

`same` says how much stays: "structure" (the module is structurally equal), "functions" (every function is, in another
order), or "results" (other code that computes the same).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from relax.derive.call_graph import global_vars_in
from relax.expr import Constant, Function, If, MatchCast, SeqExpr, Tuple, Var, VarBinding
from relax.info.mapping import shape_expressions
from relax.ir import GlobalVar, IRModule, Node, StructInfo, set_slot, walk
from relax.struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo

from .choices import Choices
from .mutate_tree import Bound, Mutate, change, insert, operands, pick, rewrite, scan, with_operand


@dataclass(frozen=True)
class Neighbour:
    """A change that keeps a program valid."""

    name: str
    apply: Mutate
    doc: str
    same: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


NEIGHBOURS: list[Neighbour] = []


def declare(same: str) -> Callable[[Mutate], Mutate]:
    """The decorator of a change that keeps a program valid."""

    def add(function: Mutate) -> Mutate:
        doc = (function.__doc__ or "").strip().splitlines()[0]
        NEIGHBOURS.append(Neighbour(function.__name__, function, doc, same))
        return function

    return add


# ------------------------------------------------------------------------------------------- names


def renamed(var: Var, name: str) -> Var:
    """The same variable under another name."""
    new = type(var)(name, var.annotation, span=var.span)
    if var.struct_info_ is not None:
        set_slot(new, "_struct_info", var.struct_info_)
    return new


def variables_of(module: IRModule) -> list[Var]:
    """Every Relax variable, in the order of the text. Those that hold shapes are left out: annotations name them."""
    found: dict[Var, None] = {}

    def visit(node: Node) -> None:
        if isinstance(node, Var) and not isinstance(node.struct_info_, ShapeStructInfo):
            found[node] = None

    for function in module.functions.values():
        if isinstance(function, Function):
            walk(function, visit)
    return list(found)


@declare("structure")
def rename_all_variables(module: IRModule, choices: Choices) -> IRModule | None:
    """Give every variable another name."""
    return rewrite(module, {v: renamed(v, f"v{i}") for i, v in enumerate(variables_of(module))})


@declare("structure")
def give_all_variables_one_name(module: IRModule, choices: Choices) -> IRModule | None:
    """Give all variables the same name: they are told by identity, and printed under names of their own."""
    name = choices.pick(["x", "n", "R", "main", "_", "lv", "class"])
    return rewrite(module, {v: renamed(v, name) for v in variables_of(module)})


@declare("structure")
def shadow_a_parameter(module: IRModule, choices: Choices) -> IRModule | None:
    """Bind a local variable under the name of a parameter."""
    places = scan(module)
    found = [(b.binding.var, p) for b in places.bindings for p in b.site.owner.params]
    chosen = pick(choices, [(v, p) for v, p in found if not isinstance(v.struct_info_, ShapeStructInfo)])
    return None if chosen is None else rewrite(module, {chosen[0]: renamed(chosen[0], chosen[1].name_hint)})


# ------------------------------------------------------------------------------------------- order


@declare("functions")
def reorder_functions(module: IRModule, choices: Choices) -> IRModule | None:
    """Write the functions of a module in another order."""
    items = module.items()
    if len(items) < 2:
        return None
    shuffled = []
    while items:
        shuffled.append(items.pop(choices.integer(0, len(items) - 1)))
    return module.replace(functions=dict(shuffled))


@declare("results")
def exchange_independent_bindings(module: IRModule, choices: Choices) -> IRModule | None:
    """Exchange neighbouring bindings of a dataflow block, neither of which uses the other."""
    found = []
    for site in scan(module).dataflow:
        bindings = site.block.bindings if site.block is not None else ()
        pair = bindings[site.index : site.index + 2]
        if len(pair) == 2 and not _depends(*pair):
            found.append(site)
    site = pick(choices, found)
    if site is None or site.block is None:
        return None
    b, i = site.block.bindings, site.index
    return change(module, site.block, bindings=(*b[:i], b[i + 1], b[i], *b[i + 2 :]))


def _depends(first: object, second: object) -> bool:
    """Whether the second binding uses what the first binds; match_casts bind shape variables too."""
    if not isinstance(first, VarBinding) or not isinstance(second, VarBinding):
        return True
    uses = []
    walk(second.value, lambda node: uses.append(node is first.var))
    return any(uses)


# ------------------------------------------------------------------------------------------- annotations


@declare("results")
def annotate_with_what_was_derived(module: IRModule, choices: Choices) -> IRModule | None:
    """Annotate a variable with the struct info that derivation gave it."""
    found = [b.binding.var for b in scan(module).bindings]
    # What is known of other variables names those that hold shapes: they stay the objects they are.
    held = {part for v in found if v.struct_info_ is not None for part in shape_expressions(v.struct_info_)}
    var = pick(choices, [v for v in found if not (v.annotation or v.struct_info_ is None or v in held)])
    return None if var is None else rewrite(module, {var: type(var)(var.name_hint, var.struct_info, span=var.span)})


def weaker(info: StructInfo) -> list[StructInfo]:
    """Struct info that says less, and of which the given one is a case."""
    found: list[StructInfo] = [ObjectStructInfo()]
    match info:
        case TensorStructInfo(_, dtype, vdevice, ndim):
            found.append(TensorStructInfo(None, dtype, vdevice, ndim))
            if vdevice is None:
                found += [TensorStructInfo(None, dtype), TensorStructInfo(None, "")]
        case ShapeStructInfo(_, ndim):
            found += [ShapeStructInfo(ndim=ndim), ShapeStructInfo()]
        case PrimStructInfo(dtype):
            found.append(PrimStructInfo(dtype))
        case TupleStructInfo(fields):
            found.append(TupleStructInfo([ObjectStructInfo() for _ in fields]))
        case _:
            pass
    return found


@declare("results")
def use_through_a_weaker_annotation(module: IRModule, choices: Choices) -> IRModule | None:
    """Give a value a second name that says less of it, and a third that says all again, and use that."""
    found: list[tuple[Bound, int, Var]] = []
    for bound in scan(module).bindings:
        for i, var in operands(bound.value):
            if not isinstance(var.struct_info_, ObjectStructInfo | None) and isinstance(bound.binding, VarBinding):
                found.append((bound, i, var))
    chosen = pick(choices, [f for f in found if isinstance(f[2].struct_info_, TensorStructInfo)])
    if chosen is None:
        return None
    bound, index, var = chosen
    site = bound.site
    weak = site.bind("weak", var, choices.pick(weaker(var.struct_info)))
    strong = MatchCast(site.new_var("strong"), weak.var, var.struct_info, span=site.span)
    used = bound.binding.replace(value=with_operand(bound.value, index, strong.var))
    assert site.block is not None
    b, i = site.block.bindings, site.index
    return change(module, site.block, bindings=(*b[:i], weak, strong, used, *b[i + 1 :]))


@declare("results")
def weaken_a_return_annotation(module: IRModule, choices: Choices) -> IRModule | None:
    """Declare less of what a function returns that nobody in the module calls."""
    called = {g for f in module.functions.values() if isinstance(f, Function) for g in global_vars_in(f)}
    found = [k for k in scan(module).functions if isinstance(k.var, GlobalVar) and k.name not in called]
    known = pick(choices, found)
    if known is None:
        return None
    info = choices.pick(weaker(known.function.body.struct_info))
    return change(module, known.function, ret_struct_info=info)


# ------------------------------------------------------------------------------------------- structure


@declare("results")
def name_a_value_twice(module: IRModule, choices: Choices) -> IRModule | None:
    """Use a second name of a value in the place of the first."""
    found = [
        (b, i, v) for b in scan(module).bindings for i, v in operands(b.value) if isinstance(b.binding, VarBinding)
    ]
    chosen = pick(choices, found)
    if chosen is None:
        return None
    bound, index, var = chosen
    again = bound.site.bind("again", var)
    used = bound.binding.replace(value=with_operand(bound.value, index, again.var))
    block, i = bound.site.block, bound.site.index
    assert block is not None
    return change(module, block, bindings=(*block.bindings[:i], again, used, *block.bindings[i + 1 :]))


@declare("results")
def add_an_unused_function(module: IRModule, choices: Choices) -> IRModule | None:
    """Bind a function that nobody calls, whose parameter shadows another."""
    site = pick(choices, scan(module).ordinary)
    if site is None:
        return None
    name = site.owner.params[0].name_hint if site.owner.params else "p"
    p = Var(name, ObjectStructInfo(), span=site.span)
    function = Function([p], SeqExpr((), Tuple([p])), TupleStructInfo([ObjectStructInfo()]), True, {}, span=site.span)
    return insert(module, site, VarBinding(site.new_var("unused"), function, span=site.span))


@declare("results")
def branch_on_a_constant(module: IRModule, choices: Choices) -> IRModule | None:
    """Bind an if both of whose branches give the same value, in the scope where that is visible."""
    found = [(s, v) for s in scan(module).ordinary for v in s.tensors()]
    chosen = pick(choices, found)
    if chosen is None:
        return None
    site, var = chosen
    return insert(module, site, site.bind("same", If(Constant(True), SeqExpr((), var), SeqExpr((), var))))


__all__ = ["NEIGHBOURS", "Neighbour"]
