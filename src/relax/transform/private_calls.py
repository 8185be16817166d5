"""Private functions whose calls are all known, so that signatures can change together with the calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..derive.normalize import normalize_module
from ..derive.substitution import Substitution
from ..expr import Call, Function
from ..ir import GlobalVar, IRModule, Node, RelaxExpr, StructInfo, children_of

Rewrite = Callable[[Call], RelaxExpr]
"""A function from a call, whose arguments have been rewritten, to its replacement."""


def calls_of_private(mod: IRModule) -> dict[str, list[Call]]:
    """The calls of each private Relax function that is called only: no value, and no caller outside of the module."""
    calls: dict[str, list[Call]] = {
        g.name_hint: [] for g, f in mod.functions.items() if isinstance(f, Function) and "global_symbol" not in f.attrs
    }
    values: set[str] = set()
    pending: list[Node] = [f for f in mod.functions.values() if isinstance(f, Function)]
    while pending:
        node = pending.pop()
        children = list(children_of(node))
        if isinstance(node, Call) and isinstance(node.op, GlobalVar):
            calls.get(node.op.name_hint, []).append(node)
            children = [child for child in children if child is not node.op]
        if isinstance(node, GlobalVar):
            values.add(node.name_hint)
        pending += [child for child in children if not isinstance(child, StructInfo)]
    return {name: uses for name, uses in calls.items() if name not in values}


def with_calls(mod: IRModule, functions: Mapping[str, Function], rewrites: Mapping[str, Rewrite]) -> IRModule:
    """The module with these functions changed, and their calls everywhere; in normal form, derived anew."""
    changed = {
        g: Calls(rewrites).node(functions.get(g.name_hint, f)) if isinstance(f, Function) else f
        for g, f in mod.functions.items()
    }
    return normalize_module(mod.with_functions(changed))  # type: ignore[arg-type]


class Calls(Substitution):
    """Rewrites the calls of some global functions."""

    def __init__(self, rewrites: Mapping[str, Rewrite]) -> None:
        super().__init__({}, {})
        self.rewrites = rewrites

    def carry(self, old: Node, new: Node) -> Node:
        if isinstance(new, Call) and isinstance(new.op, GlobalVar) and new.op.name_hint in self.rewrites:
            return self.rewrites[new.op.name_hint](new)
        return super().carry(old, new)
