"""Variables that a program fragment uses: Relax and shape variables, annotations included.

A shape expression in an annotation, in sinfo_args or in derived struct info is a use of its variables: a pass
that moves or drops bindings by these sets never parts a dimension from what binds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field

from ..expr import Binding, Function, Var
from ..ir import Node, RelaxExpr, StructInfo, set_slot, walk
from ..prim import Var as ShapeVar
from ..runtime.records import dataclass


@dataclass
class Uses:
    """Variables in order of first occurrence."""

    variables: dict[Var, None] = field(default_factory=dict[Var, None])
    shape_variables: dict[ShapeVar, None] = field(default_factory=dict[ShapeVar, None])

    def add(self, item: Node | None) -> None:
        """Everything used in a node, below it, and in the struct info of its expressions."""
        if item is not None:
            walk(item, self._visit)

    def add_definition(self, var: Var) -> None:
        """Add the variables that the struct info of a bound variable uses."""
        if var.annotation is not None:
            self.add_info(var.annotation)
        if var.struct_info_ is not None:
            self.add_info(var.struct_info_)

    def _visit(self, item: Node) -> bool | None:
        if isinstance(item, ShapeVar):
            self.shape_variables[item] = None
        elif isinstance(item, Var):
            self.variables[item] = None
        elif isinstance(item, RelaxExpr) and item.struct_info_ is not None:
            self.add_info(item.struct_info_)
        elif isinstance(item, Binding):
            self.add_definition(item.var)
        if isinstance(item, Function):
            for param in item.params:
                self.add_definition(param)
        return None

    def add_info(self, info: StructInfo) -> None:
        """Add the variables that struct info uses."""
        variables, shape_variables = _used_in(info)
        self.variables.update(variables)
        self.shape_variables.update(shape_variables)


def _used_in(info: StructInfo) -> tuple[dict[Var, None], dict[ShapeVar, None]]:
    """Return the Relax and shape variables of struct info, cached in it: many expressions share one."""
    try:
        return info._uses  # type: ignore[reportPrivateUsage]
    except AttributeError:
        uses = Uses()
        walk(info, uses._visit)  # type: ignore[reportPrivateUsage]
        set_slot(info, "_uses", (uses.variables, uses.shape_variables))
        return uses.variables, uses.shape_variables


def uses_of(*items: Node | None) -> Uses:
    """The variables used in some nodes."""
    uses = Uses()
    for item in items:
        uses.add(item)
    return uses


def times_used(bindings: Iterable[Binding]) -> Counter[Var]:
    """The number of times that the values of bindings use each Relax variable; at least that, of nested functions."""
    uses: Counter[Var] = Counter()

    def visit(node: Node) -> None:
        if isinstance(node, Var):
            uses[node] += 1

    for binding in bindings:
        walk(binding.value, visit)
    return uses


def bound_variables(item: Node) -> dict[Var, None]:
    """The Relax variables bound below a node: parameters and bindings, those of local functions included."""
    variables: dict[Var, None] = {}

    def visit(node: Node) -> None:
        if isinstance(node, Binding):
            variables[node.var] = None
        elif isinstance(node, Function):
            variables.update((param, None) for param in node.params)

    walk(item, visit)
    return variables


def free_variables(item: Node) -> list[Var]:
    """The Relax variables used below a node and not bound there, in order of first use."""
    bound = bound_variables(item)
    return [var for var in uses_of(item).variables if var not in bound]
