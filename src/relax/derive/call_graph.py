"""Call graph of global functions: derivation order, recursion, reachability."""

from __future__ import annotations

from collections.abc import Mapping

from ..expr import ExternFunc, Function, Var
from ..ir import BaseFunc, GlobalVar, IRModule, Node, StructInfo, walk
from ..prim import StringImm
from ..prim.per_node import per_node


def global_vars_in(function: Node) -> dict[str, GlobalVar]:
    """The global functions a function mentions, by name, in order of first occurrence."""
    mentioned: dict[str, GlobalVar] = {}

    def visit(item: Node) -> bool:
        if isinstance(item, GlobalVar):
            mentioned.setdefault(item.name_hint, item)
        return not isinstance(item, (Var, StructInfo))

    walk(function, visit)
    return mentioned


def call_graph(mod: IRModule) -> dict[str, list[str]]:
    """For each Relax function of a module, the functions of the module it mentions."""
    names = {g.name_hint for g in mod.functions}
    return {
        g.name_hint: [n for n in global_vars_in(f) if n in names] if isinstance(f, Function) else []
        for g, f in mod.functions.items()
    }


def references(func: BaseFunc, names: set[str]) -> set[str]:
    """The known functions that a function mentions, in Relax or TIR.

    A packed function named by an ExternFunc, or by a string in a TIR call, may be a PrimFunc of the module.
    """
    return names & _mentioned(func)


@per_node
def _mentioned(func: BaseFunc) -> frozenset[str]:
    """The names of functions, and texts that may be such names, that a function mentions."""
    mentioned: set[str] = set()

    def visit(item: Node) -> bool:
        if isinstance(item, GlobalVar):
            mentioned.add(item.name_hint)
        elif isinstance(item, ExternFunc):
            mentioned.add(item.global_symbol)
        elif isinstance(item, StringImm):
            mentioned.add(item.value)
        return not isinstance(item, (Var, StructInfo))

    walk(func, visit, (GlobalVar, ExternFunc, StringImm, Var, StructInfo))
    return frozenset(mentioned)


def reachable(mod: IRModule, entries: set[str]) -> set[str]:
    """The names of the functions that `entries` reach, themselves included."""
    names, pending = set(entries), list(entries)
    rest = {g.name_hint for g in mod.functions} - names
    while pending and rest:
        reached = references(mod[pending.pop()], rest)
        names |= reached
        rest -= reached
        pending.extend(reached)
    return names


def components(graph: Mapping[str, list[str]]) -> list[list[str]]:
    """The strongly connected components of a graph, each after those it leads to (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    on_path: dict[str, None] = {}
    groups: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        on_path[root] = None
        while work:
            name, rest = work[-1]
            for below in rest:
                if below not in index:
                    index[below] = low[below] = len(index)
                    on_path[below] = None
                    work.append((below, iter(graph[below])))
                    break
                if below in on_path:
                    low[name] = min(low[name], index[below])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    groups.append(_pop_component(on_path, name))
    return groups


def _pop_component(on_path: dict[str, None], root: str) -> list[str]:
    component: list[str] = []
    while True:
        name, _ = on_path.popitem()
        component.append(name)
        if name == root:
            return component[::-1]


def recursive_groups(graph: Mapping[str, list[str]]) -> list[list[str]]:
    """Return the groups of mutually recursive functions."""
    return [c for c in components(graph) if len(c) > 1 or c[0] in graph[c[0]]]


def callees_first(mod: IRModule) -> list[tuple[GlobalVar, BaseFunc]]:
    """The functions of a module in an order in which their results can be derived: callees first.

    Only a Relax function without a return annotation makes the order matter.
    """
    if all(not isinstance(f, Function) or f.ret_struct_info is not None for f in mod.functions.values()):
        return mod.items()
    table = {g.name_hint: (g, f) for g, f in mod.functions.items()}
    return [table[name] for component in components(call_graph(mod)) for name in component]
