"""Sizes of intermediate tensors, computed from those of the inputs.

    pool = max_pool2d(x, …)                      pool = max_pool2d(x, …)
    size = sym_size(pool, 2)            gives    size = s1 // 2                   s1 is an input of the graph
    y = group_norm(pool, …, size * …)            y = group_norm(pool, …, size * …)

Scalars are computed between pieces that are compiled: one that depends on a tensor would end a piece.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any


def sizes_from_inputs(graph_module: Any) -> None:
    """Replace the sizes, strides and offsets of tensors in a graph that are expressions of its scalar inputs."""
    graph = graph_module.graph
    known = _scalar_inputs(graph)
    made: dict[Any, Any] = {}
    for node in list(graph.nodes):
        expr = _expression(node)
        if expr is None or not str(node.target).startswith("aten.sym_") or not expr.free_symbols <= known.keys():
            continue
        if expr not in made:
            with graph.inserting_before(node):
                made[expr] = _computed(graph, known, expr)
        if made[expr] is not None:
            node.replace_all_uses_with(made[expr])
            graph.erase_node(node)


def _expression(node: Any) -> Any:
    """Torch's expression of a node's value; None for one that is no open size."""
    value = node.meta.get("val")
    return value.node.expr if type(value).__name__ == "SymInt" else None


def _scalar_inputs(graph: Any) -> dict[Any, Any]:
    """The inputs of a graph that are sizes, by their symbols."""
    inputs: dict[Any, Any] = {}
    for node in graph.nodes:
        expr = _expression(node) if node.op == "placeholder" else None
        if expr is not None and expr.is_Symbol:
            inputs.setdefault(expr, node)
    return inputs


def _computed(graph: Any, known: dict[Any, Any], expr: Any) -> Any:
    """Add nodes that compute an expression, and return the last one; None for functions that torch cannot write so."""
    torch: Any = sys.modules["torch"]
    interpreted: Any = importlib.import_module("torch.utils._sympy.interp").sympy_interp
    analysis: Any = importlib.import_module("torch.utils._sympy.reference").PythonReferenceAnalysis
    before = set(graph.nodes)
    tracer = torch.fx.proxy.GraphAppendingTracer(graph)  # one: torch.sym_min takes no operands of several
    try:
        proxies = {symbol: torch.fx.Proxy(known[symbol], tracer) for symbol in expr.free_symbols}
        proxy = interpreted(analysis, proxies, expr)
        for node in graph.nodes:
            if node not in before:
                node.meta["val"] = node.target(*(getattr(item, "meta", {}).get("val", item) for item in node.args))
    except (AttributeError, LookupError, NotImplementedError, TypeError):
        for node in reversed(list(graph.nodes)):
            if node not in before:
                graph.erase_node(node)
        return None
    return proxy.node
