"""Pieces of a graph: which nodes are compiled together, and the graph that calls them.

    pieces, outer = split(graph_module, unfit)

A node is compiled if it has a converter and is not in `unfit`. Nodes are counted by level: a compiled node has the
level of the pieces it reads from, and one more than the eager nodes it reads from; an eager node has the highest level
that it reads from. The compiled nodes of one level are one piece. Between pieces, eager nodes keep their order.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Container, Mapping, Sequence
from typing import Any, cast

from ....runtime.records import dataclass
from .. import pairs, registry
from ..decompositions import IGNORED, is_scalar
from ..operators.fft import is_by_matrix
from ..symbols import symbol_name


def _is_view(node: Any) -> bool:
    """True for an operator that reads no element in torch: its results alias its operand. Also for one of those."""
    if node.target is operator.getitem:
        return node.op == "call_function" and _is_view(node.args[0])
    schema = getattr(node.target, "_schema", None)
    aliases = [result.alias_info for result in getattr(schema, "returns", ())]
    return bool(aliases) and all(alias is not None and not alias.is_write for alias in aliases)


LEFT_TO_TORCH = frozenset(
    f"aten.{name}"
    for name in [
        "convolution_backward.default",
        "max_pool2d_with_indices_backward.default",
        "max_pool3d_with_indices_backward.default",
        "grid_sampler_2d_backward.default",
        "grid_sampler_3d_backward.default",
    ]
)
"""Operators of backward graphs that torch's kernels compute 2 to 6 times faster than ours: torch runs them unsaid."""

_TRANSFORMS = frozenset(["aten._fft_c2c.default", "aten._fft_r2c.default", "aten._fft_c2r.default"])
"""Fourier transforms: of axes for which a converter calls NumPy, torch's library is 1.3 to 5 times faster and runs."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Nodes that are compiled together, as a graph of their own, and its inputs and outputs in the graph it is of."""

    graph: Any
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    original: Mapping[Any, Any]
    """Nodes of the graph that it is of, by the nodes of its own."""

    @property
    def key(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of its nodes and of its outputs, by which it is told from the other pieces of its graph."""
        return tuple(node.name for node in self.original.values()), tuple(node.name for node in self.outputs)


def reason_against(node: Any) -> str | None:
    """Say why a node runs in eager torch; None if it may be compiled, "" if torch is meant to run it."""
    name = str(node.target)
    if node.op != "call_function":
        return ""
    if node.target is operator.getitem or is_scalar(node.meta.get("val")) or name.rpartition(".")[0] in IGNORED:
        return ""
    if not registry.is_pure(name) or name == "aten.native_dropout.default":
        return ""  # random numbers are torch's
    if name == "with_effects" and not getattr(node.args[1], "_schema", node).returns:
        return ""  # an assertion or a message, in the order of others
    has_converter = pairs.find(node) is not None
    if name in LEFT_TO_TORCH or (not has_converter and _is_random(node)):
        return ""
    if name in _TRANSFORMS and not is_by_matrix(node):
        return ""
    for value in (node.meta.get("val"), *(item.meta.get("val") for item in node.all_input_nodes)):
        for tensor in _leaves(value):
            reason = _unfit_tensor(tensor)
            if reason is not None:
                return reason
    if not has_converter:
        return "it has no converter for complex tensors" if pairs.is_complex(node) else "it has no converter"
    if any(_reason_against_graph(held_graph(item)) for item in node.all_input_nodes):
        return "a graph among its operands has nodes that are not compiled"
    schema = getattr(node.target, "_schema", None)
    return "it writes in place" if schema is not None and schema.is_mutable else None


def held_graph(node: Any) -> Any:
    """Return the graph module that a node refers to, an operand of torch.cond or a loop; None for other nodes."""
    held: Any = getattr(node.graph.owning_module, node.target, None) if node.op == "get_attr" else None
    return held if hasattr(held, "graph") else None


def _reason_against_graph(graph_module: Any) -> bool:
    """True if a graph has a node that eager torch runs, or whose results differ from call to call."""
    nodes = () if graph_module is None else graph_module.graph.nodes
    calls = [node for node in nodes if node.op == "call_function"]
    return any(reason_against(node) or _is_random(node) or not registry.is_pure(str(node.target)) for node in calls)


def _leaves(value: Any) -> Sequence[Any]:
    """Return the results of an operator: one, or several."""
    return cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else (value,)


def _is_random(node: Any) -> bool:
    return any("nondeterministic" in str(tag) for tag in getattr(node.target, "tags", ()))


def _unfit_tensor(tensor: Any) -> str | None:
    if not hasattr(tensor, "shape"):
        return None
    if str(tensor.dtype) == "torch.complex32":
        return "its tensors are complex32"
    if str(tensor.layout) != "torch.strided":
        return f"its tensors have the layout {tensor.layout}"
    return None if tensor.device.type == "cpu" else f"its tensors are on the device {tensor.device}"


def split(graph_module: Any, unfit: Container[Any]) -> tuple[list[Piece], Any]:
    """Return the pieces of a graph, and a graph that calls them: targets ``piece0``, ``piece1``, ..."""
    nodes = list(graph_module.graph.nodes)
    compiled, levels = _levels(nodes, unfit)
    groups: dict[int, list[Any]] = {}
    for node in nodes:
        if node in compiled:
            groups.setdefault(levels[node], []).append(node)
    for level, group in list(groups.items()):
        if all(map(_is_view, group)):
            compiled.difference_update(groups.pop(level))
    apart = _views_of_inputs(nodes, compiled, levels)
    sources = _symbol_sources(nodes)
    pieces = [_piece(group, apart, sources) for _, group in sorted(groups.items())]
    return pieces, _outer(nodes, compiled - apart, levels, sorted(groups), pieces)


def _levels(nodes: Sequence[Any], unfit: Container[Any]) -> tuple[set[Any], dict[Any, int]]:
    compiled: set[Any] = set()
    levels: dict[Any, int] = {}
    last_effect = 0
    for node in nodes:
        if node.target is operator.getitem and node.op == "call_function":
            fits = node.args[0] in compiled
        else:
            fits = node not in unfit and reason_against(node) is None
        if fits:
            compiled.add(node)
            levels[node] = max((levels[item] + (item not in compiled) for item in node.all_input_nodes), default=1)
            levels[node] = max(levels[node], 1)
            continue
        levels[node] = max((levels[item] for item in node.all_input_nodes), default=0)
        if _has_effect(node):  # random numbers are drawn in torch's order
            last_effect = levels[node] = max(levels[node], last_effect)
    return compiled, levels


def _has_effect(node: Any) -> bool:
    if node.op in ("placeholder", "output"):
        return True
    if node.op != "call_function" or node.target is operator.getitem or is_scalar(node.meta.get("val")):
        return False
    schema = getattr(node.target, "_schema", None)
    asserts = str(node.target).rpartition(".")[0] in IGNORED
    return schema is None or schema.is_mutable or _is_random(node) or asserts


def _views_of_inputs(nodes: Sequence[Any], compiled: Container[Any], levels: Mapping[Any, int]) -> set[Any]:
    """Compiled nodes that are views of inputs and are returned: torch makes those, without a copy."""
    views: set[Any] = set()
    for node in nodes:
        if node not in compiled or not _is_view(node):
            continue
        if all(item in views or (item not in compiled and levels[item] == 0) for item in node.all_input_nodes):
            views.add(node)
    chosen: set[Any] = set()
    for node in reversed(nodes):
        if node in views and any(user.op == "output" or user in chosen for user in node.users):
            chosen.add(node)
    return chosen


def _symbol_sources(nodes: Sequence[Any]) -> dict[str, Any]:
    """Inputs of a graph by the names of the symbols that they tell: sizes, else tensors with such a dimension."""
    sources: dict[str, Any] = {}
    placeholders = [node for node in nodes if node.op == "placeholder"]
    for node in sorted(placeholders, key=lambda node: not is_scalar(node.meta.get("val"))):
        for name in _bound(node.meta.get("val")):
            sources.setdefault(name, node)
    return sources


def _numbers(value: Any) -> Sequence[Any]:
    if isinstance(value, (list, tuple)):
        return [number for item in _leaves(value) for number in _numbers(item)]
    return list(value.shape) if hasattr(value, "shape") else [value]


def _bound(value: Any) -> list[str]:
    """Names of the symbols that an input tells as they are."""
    names = [symbol_name(number.node.expr) for number in _numbers(value) if hasattr(number, "node")]
    return [name for name in names if name is not None]


def _free(value: Any) -> set[str]:
    """Names of all symbols in the shapes of a value."""
    return {str(s) for number in _numbers(value) if hasattr(number, "node") for s in number.node.expr.free_symbols}


def bound_symbols(node: Any) -> list[str]:
    """Return the names of the symbols that a node tells as they are: those of its sizes, or the one that it is."""
    return _bound(node.meta.get("val"))


def symbols_of_sizes(graph: Any) -> set[str]:
    """Return the names of all symbols in the sizes of the tensors of a graph."""
    values = [value for node in graph.nodes for value in _leaves(node.meta.get("val"))]
    return set[str]().union(*(_free(value) for value in values if hasattr(value, "shape")))


def _piece(group: Sequence[Any], apart: Container[Any], sources: Mapping[str, Any]) -> Piece:
    inside = set(group)
    outputs = [
        node
        for node in group
        if node not in apart and any(user not in inside and user not in apart for user in node.users)
    ]
    read = dict.fromkeys(item for node in group for item in node.all_input_nodes if item not in inside)
    inputs = [item for item in read if held_graph(item) is None]
    bound = {name for node in inputs for name in _bound(node.meta.get("val"))}
    free = set[str]().union(*(_free(node.meta.get("val")) for node in [*inputs, *group]))
    inputs += dict.fromkeys(sources[name] for name in sorted(free - bound) if name in sources)
    graph, place = sys.modules["torch"].fx.Graph(), dict[Any, Any]()
    for node in inputs:
        place[node] = graph.placeholder(node.name)
        place[node].meta = dict(node.meta)
    for node in read:
        if node not in place:
            place[node] = graph.get_attr(node.target)
    for node in group:
        place[node] = graph.node_copy(node, place.__getitem__)
    graph.output([place[node] for node in outputs])
    graph.eliminate_dead_code()
    return Piece(graph, inputs, outputs, {copy: node for node, copy in place.items()})


def _outer(
    nodes: Sequence[Any],
    compiled: Container[Any],
    levels: Mapping[Any, int],
    starts: Sequence[int],
    pieces: Sequence[Piece],
) -> Any:
    """Return the graph of the nodes that are not compiled, and of calls of pieces, each before its own level."""
    outer, place = sys.modules["torch"].fx.Graph(), dict[Any, Any]()
    ranks = dict(levels)
    for node in nodes:
        if node.op in ("placeholder", "get_attr"):
            ranks[node] = -1
        elif node.op == "output":
            ranks[node] = len(nodes)
        elif node not in compiled and _is_view(node):
            reads_inputs = all(item not in compiled and ranks[item] <= 0 for item in node.all_input_nodes)
            ranks[node] = 0 if reads_inputs else ranks[node]
    pending = list(enumerate(zip(starts, pieces, strict=True)))
    for node in sorted((node for node in nodes if node not in compiled), key=ranks.__getitem__):
        while pending and pending[0][1][0] <= ranks[node]:
            index, (_, piece) = pending.pop(0)
            called = outer.call_module(f"piece{index}", tuple(place[item] for item in piece.inputs))
            for position, made in enumerate(piece.outputs):
                place[made] = outer.call_function(operator.getitem, (called, position))
                place[made].meta = dict(made.meta)
        place[node] = outer.node_copy(node, place.__getitem__)
    return outer
