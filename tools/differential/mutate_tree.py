"""What mutations are made with: a map of a program's places, and changes at one of them that leave the rest alone.

A mutation is a function ``(module, choices) -> IRModule | None``. It looks for the places where it applies, chooses one,
and returns the module with that place broken; None where the program has no such place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
)
from relax.info.mapping import bound_in
from relax.ir import GlobalVar, IRModule, Node, RelaxExpr, Span, StructInfo, map_children
from relax.op.known import deferred_errors
from relax.prim import PrimExpr
from relax.prim.expr import Var as PrimVar
from relax.struct_info import TensorStructInfo
from relax.tir import PrimFunc

from .choices import Choices

T = TypeVar("T")
_ONES = np.ones(2, "float32")
Mutate = Callable[[IRModule, Choices], "IRModule | None"]


def pick(choices: Choices, items: Sequence[T]) -> T | None:
    """One of the items; None if there is none."""
    return choices.pick(items) if items else None


# ---------------------------------------------------------------------------------- mutations, declared


SAME = "same"
"""The printed text of the mutated module says the same, and is rejected with the same code."""
LOST = "lost"
"""Text cannot say this: printed, the module is another program, which may be valid."""


@dataclass(frozen=True)
class Mutation:
    """A way to break one rule.

    `code` is that of every diagnostic the broken program gets. `stage` says who notices: the rules, derivation, or the
    build. `text` says what becomes of the break in the printed text: SAME, LOST, or the codes the parser answers with.
    """

    name: str
    code: str
    apply: Mutate
    doc: str
    stage: str = "rules"
    text: str | frozenset[str] = SAME

    @property
    def rule(self) -> int | None:
        """The number of the well-formedness rule that is broken, None for the errors of derivation."""
        return int(self.code[3:]) if self.code.startswith("E20") else None

    def __repr__(self) -> str:
        return f"<{self.name}: {self.code}>"


class Table(list[Mutation]):
    """Mutations in the order they are declared."""

    def declare(self, code: str, *, stage: str = "rules", text: str | set[str] = SAME) -> Callable[[Mutate], Mutate]:
        """The decorator of a mutation; its name is the function's, its description the docstring's first line."""

        def add(function: Mutate) -> Mutate:
            doc = (function.__doc__ or "").strip().splitlines()[0]
            codes = text if isinstance(text, str) else frozenset(text)

            @functools.wraps(function)
            def mutate(module: IRModule, choices: Choices) -> IRModule | None:
                with deferred_errors():  # of operands that do not fit: normalisation is to find them
                    return function(module, choices)

            self.append(Mutation(function.__name__, code, mutate, doc, stage, codes))
            return function

        return add


# ------------------------------------------------------------------------------------------- places


@dataclass(frozen=True, eq=False)
class Site:
    """A gap before a binding, or at the end of a block or SeqExpr, and what is visible there.

    `block` is None where a block of its own would be added at the end of the SeqExpr.
    """

    name: str
    owner: Function
    seq: SeqExpr
    block: BindingBlock | None
    index: int
    variables: tuple[Var, ...]
    shape_vars: tuple[PrimVar, ...]
    after: tuple[Var, ...] = ()
    """What the rest of the block and the later ones of this SeqExpr bind, in order, if it could be seen here."""

    @property
    def in_dataflow(self) -> bool:
        return isinstance(self.block, DataflowBlock)

    @property
    def span(self) -> Span | None:
        """Where a new binding points to in the source."""
        bindings = self.block.bindings if self.block is not None else ()
        near = bindings[self.index : self.index + 1] or bindings[-1:]
        for node in (*near, *(b.var for b in near), self.block, self.seq, self.seq.body, self.owner):
            if node is not None and node.span is not None:
                return node.span
        return None

    def new_var(self, name: str, info: StructInfo | None = None) -> Var:
        """A variable to bind here."""
        return (DataflowVar if self.in_dataflow else Var)(name, info, span=self.span)

    def bind(self, name: str, value: RelaxExpr, info: StructInfo | None = None) -> VarBinding:
        """A binding to insert here; value and variable point to where it stands."""
        if value.span is None and not isinstance(value, Var):
            value = value.replace(span=self.span)
        return VarBinding(self.new_var(name, info), value, span=self.span)

    def tensors(self) -> list[Var]:
        """The visible variables known to be tensors, of a known rank."""
        return [v for v in self.variables if isinstance(v.struct_info_, TensorStructInfo) and v.struct_info_.ndim >= 0]


@dataclass(frozen=True, eq=False)
class Bound:
    """A binding, and the gap before it."""

    binding: Binding
    site: Site

    @property
    def value(self) -> RelaxExpr:
        return self.binding.value  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Known:
    """A function, with the GlobalVar or Var it is bound to; `site` is None for a global one."""

    function: Function
    var: Var | GlobalVar | None
    name: str
    site: Site | None


@dataclass
class Places:
    """All places of a module."""

    module: IRModule
    sites: list[Site] = field(default_factory=list)
    bindings: list[Bound] = field(default_factory=list)
    functions: list[Known] = field(default_factory=list)
    sequences: list[tuple[SeqExpr, Site]] = field(default_factory=list)
    """Every SeqExpr with the gap at its end."""

    @property
    def ordinary(self) -> list[Site]:
        """The gaps outside dataflow blocks."""
        return [s for s in self.sites if not s.in_dataflow]

    @property
    def dataflow(self) -> list[Site]:
        """The gaps inside dataflow blocks."""
        return [s for s in self.sites if s.in_dataflow]

    def calls(self) -> list[tuple[Bound, Call]]:
        """The calls that are bound to variables."""
        return [(b, b.value) for b in self.bindings if isinstance(b.value, Call)]


def scan(module: IRModule) -> Places:
    """The places of a module in normal form."""
    places = Places(module)
    for global_var, function in module.functions.items():
        if isinstance(function, Function):
            _function(places, function, global_var, global_var.name_hint, None, (), ())
    return places


def _function(
    places: Places,
    function: Function,
    var: Var | GlobalVar | None,
    name: str,
    site: Site | None,
    variables: tuple[Var, ...],
    shape_vars: tuple[PrimVar, ...],
) -> None:
    places.functions.append(Known(function, var, name, site))
    infos = [p.struct_info_ for p in function.params if p.struct_info_ is not None]
    own = tuple(v for v in bound_in(*infos) if v not in shape_vars)
    _sequence(places, function.body, name, function, (*variables, *function.params), (*shape_vars, *own))


def _sequence(
    places: Places,
    seq: RelaxExpr,
    name: str,
    owner: Function,
    variables: tuple[Var, ...],
    shape_vars: tuple[PrimVar, ...],
) -> None:
    if not isinstance(seq, SeqExpr):
        return
    rest = [_all_bound(block) for block in seq.blocks]
    for number, block in enumerate(seq.blocks):
        inside = variables
        later = tuple(v for bound in rest[number + 1 :] for v in bound if not isinstance(v, DataflowVar))
        for i, binding in enumerate(block.bindings):
            site = Site(name, owner, seq, block, i, inside, shape_vars, (*_bound_from(block, i), *later))
            places.sites.append(site)
            places.bindings.append(Bound(binding, site))
            _value(places, binding, site)
            if isinstance(binding, MatchCast):
                shape_vars = (*shape_vars, *(v for v in bound_in(binding.struct_info) if v not in shape_vars))
            inside = (*inside, binding.var)
        end = Site(name, owner, seq, block, len(block.bindings), inside, shape_vars, later)
        places.sites.append(end)
        variables = tuple(v for v in inside if v in variables or not isinstance(v, DataflowVar))
    end = Site(name, owner, seq, None, 0, variables, shape_vars)
    places.sites.append(end)
    places.sequences.append((seq, end))


def _all_bound(block: BindingBlock) -> tuple[Var, ...]:
    return _bound_from(block, 0)


def _bound_from(block: BindingBlock, index: int) -> tuple[Var, ...]:
    return tuple(binding.var for binding in block.bindings[index:])


def _value(places: Places, binding: Binding, site: Site) -> None:
    match binding:
        case VarBinding(var, Function() as function):
            visible = tuple(v for v in (*site.variables, var) if not isinstance(v, DataflowVar))
            _function(places, function, var, var.name_hint, site, visible, site.shape_vars)
        case VarBinding(_, If(_, yes, no)):
            for branch in (yes, no):
                _sequence(places, branch, site.name, site.owner, site.variables, site.shape_vars)
        case _:
            return


# ------------------------------------------------------------------------------------------ changes


def rewrite(root: Node, edits: Mapping[Node, Node]) -> Any:
    """A tree with some nodes, told by identity, replaced everywhere they occur. What is not above them is shared."""

    made: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        found = edits.get(node)
        if found is None:
            found = made.get(id(node))
        if found is not None:
            return found
        new = node if isinstance(node, PrimFunc | PrimExpr) else map_children(node, visit)
        made[id(node)] = new
        return new

    return visit(root)


def insert(module: IRModule, site: Site, *bindings: Binding) -> IRModule:
    """The module with bindings put into a gap."""
    if site.block is None:
        seq = site.seq.replace(blocks=(*site.seq.blocks, BindingBlock(bindings, span=site.span)))
        return rewrite(module, {site.seq: seq})
    old = site.block.bindings
    return rewrite(
        module, {site.block: site.block.replace(bindings=(*old[: site.index], *bindings, *old[site.index :]))}
    )


def change(module: IRModule, node: Node, **fields: Any) -> IRModule:
    """The module with some fields of one node changed."""
    return rewrite(module, {node: node.replace(**fields)})


def new_size(name: str = "k") -> PrimVar:
    """A shape variable nobody binds."""
    return PrimVar(name, "int64")


def operands(value: RelaxExpr) -> Iterator[tuple[int, Var]]:
    """The arguments of a call, or fields of a tuple, that are variables."""
    parts = value.args if isinstance(value, Call) else value.fields if isinstance(value, Tuple) else ()
    for i, part in enumerate(parts):
        if isinstance(part, Var):
            yield i, part


def with_operand(value: Any, index: int, new: RelaxExpr) -> RelaxExpr:
    """A call or tuple with one argument or field replaced."""
    name = "args" if isinstance(value, Call) else "fields"
    parts = getattr(value, name)
    return value.replace(**{name: (*parts[:index], new, *parts[index + 1 :])})


def any_tensor(choices: Choices, site: Site) -> RelaxExpr:
    """A tensor visible at a place; a constant if there is none."""
    found = pick(choices, site.tensors())
    return found if found is not None else Constant(_ONES)


def tensor_info(expr: RelaxExpr) -> TensorStructInfo:
    """The struct info of a tensor."""
    info = expr.struct_info
    assert isinstance(info, TensorStructInfo)
    return info


def with_param(function: Function, param: Var) -> Function:
    """The function with one more parameter."""
    return function.replace(params=(*function.params, param))


__all__ = [
    "LOST",
    "SAME",
    "Bound",
    "Known",
    "Mutate",
    "Mutation",
    "Places",
    "Site",
    "Table",
    "any_tensor",
    "change",
    "insert",
    "new_size",
    "operands",
    "pick",
    "rewrite",
    "scan",
    "tensor_info",
    "with_operand",
    "with_param",
]
