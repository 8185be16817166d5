"""Graphs that are complete: nodes that no output depends on are removed, values get other names."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import GraphProto, NodeProto


def prune(graph: GraphProto) -> set[str]:
    """Remove nodes whose outputs are not read, also in the graphs of nodes; return the names that are read."""
    needed = {output.name for output in graph.output}
    kept: list[NodeProto] = []
    for node in reversed(graph.node):
        if any(name in needed for name in node.output):
            kept.append(node)
            needed.update(node.input)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    needed |= prune(attribute.g)
    if len(kept) < len(graph.node):
        copies = GraphProto(node=kept[::-1])
        del graph.node[:]
        graph.node.extend(copies.node)
    return needed


def rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename values in a graph, and in the graphs of its nodes."""
    for node in graph.node:
        for values in (node.input, node.output):
            for index, value in enumerate(values):
                if value in names:
                    values[index] = names[value]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                rename(attribute.g, names)
    for output in graph.output:
        output.name = names.get(output.name, output.name)
