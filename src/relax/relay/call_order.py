"""Call-graph order of global functions (callees first), and detection of recursive ones."""

from __future__ import annotations

from typing import Any, cast

from ..derive.call_graph import components
from ..ir import BaseFunc, GlobalVar, IRModule
from .expr import Expr, Function
from .parts import parts_of
from .scopes import nodes_with_parts


def callees_first(mod: IRModule) -> list[str]:
    """Names of a module's Relay functions, callees before callers; the order within a cycle is arbitrary."""
    return [name for group in components(_graph(mod)) for name in group]


def recursive_functions(mod: IRModule) -> set[str]:
    """Names of a module's Relay functions that are recursive, directly or mutually."""
    graph = _graph(mod)
    circles = {name for group in components(graph) if len(group) > 1 for name in group}
    return circles | {name for name, callees in graph.items() if name in callees}


def _graph(mod: IRModule) -> dict[str, list[str]]:
    functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function)}
    return {name: _globals_in(function, functions) for name, function in functions.items()}


def _globals_in(function: BaseFunc, functions: dict[str, Any]) -> list[str]:
    order = nodes_with_parts(cast(Expr, function))
    parts = (part for node in order for part in parts_of(node))
    return [p.name_hint for p in parts if isinstance(p, GlobalVar) and p.name_hint in functions]
