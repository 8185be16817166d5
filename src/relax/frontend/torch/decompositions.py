"""Programs of torch without effects, in operators that have converters; diagnostics of what has none.

    program = supported(torch.export.export(module.eval(), (x,)))

Torch derives the results of all nodes again on the way: what it rejects in a program is a diagnostic with the node.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ...ir import Diagnostic, DiagnosticError
from ..unexpected import summary
from . import pairs
from .effects import hidden_views, idle_dropouts_as_aliases, is_direct, rederives
from .emitter import node_span, node_title, origin

IGNORED = (
    "aten._assert_scalar",
    "aten._assert_async",
    "aten._assert_tensor_metadata",
    "aten.sym_constrain_range",
    "aten.sym_constrain_range_for_size",
)
"""Operators that only assert assumptions of torch."""


_ENUMERATIONS = {"dtype": "torch.dtype", "memory_format": "torch.memory_format", "layout": "torch.layout"}
"""Arguments of which torch reads numbers as elements of an enumeration, without a check."""

_REJECTED_AT = re.compile(r"While executing %(\w+)")
"""Name of the node at which torch raised an exception, in its message."""


def supported(program: Any) -> Any:
    """Return the program without effects, in operators that have converters; itself if that is what it is.

    Raises DiagnosticError for operators without one, and for nodes that torch rejects.
    """
    broken = [_broken(*place) for place in crashing(program.graph_module)]
    if broken:
        raise DiagnosticError(broken)
    if is_direct(program.graph_module) and _rederives(program.graph_module):
        return program
    table = sys.modules["torch"].export.default_decompositions()
    nodes = nodes_of(program.graph_module)
    with idle_dropouts_as_aliases(nodes):
        program = _decomposed(program, {target: table[target] for target in hidden_views(nodes)})
    for _ in range(4):  # what an operator is made of may be without converter, too
        missing = {node.target for node in _missing(program.graph_module)}
        chosen = {target: table[target] for target in missing if target in table}
        if not chosen:
            break
        program = _decomposed(program, chosen)
    missing_nodes: dict[str, list[Any]] = {}
    for node in _missing(program.graph_module):
        missing_nodes.setdefault(str(node.target), []).append(node)
    if missing_nodes:
        raise DiagnosticError([unsupported(target, nodes) for target, nodes in missing_nodes.items()])
    return program


def _rederives(graph_module: Any) -> bool:
    """True if torch derives what the graph says; where it raises an exception, decomposing tells at which node."""
    try:
        return rederives(graph_module)
    except Exception:  # noqa: BLE001 (whatever torch raises for a node)
        return False


def crashing(graph_module: Any) -> Iterator[tuple[int, Any, str]]:
    """Yield (place, node, message) of each argument that torch would not reject, but crash on."""
    for index, node in enumerate(nodes_of(graph_module), 1):
        arguments: Sequence[Any] = getattr(getattr(node.target, "_schema", None), "arguments", ())
        for place, argument in enumerate(arguments):
            if place >= len(node.args) and argument.name not in node.kwargs:
                continue
            value: Any = node.args[place] if place < len(node.args) else node.kwargs[argument.name]
            kind, enumeration = str(argument.type), _ENUMERATIONS.get(argument.name)
            is_list = kind == "List[Tensor]" and isinstance(value, (list, tuple))
            values = cast("Sequence[Any]", value) if is_list else ()
            if (kind == "Tensor" and value is None) or None in values:
                yield index, node, f"the argument {argument.name} is None, expected a tensor"
            elif enumeration is not None and isinstance(value, int):
                yield index, node, f"the argument {argument.name} is {value}, expected a {enumeration}"


def _broken(index: int, node: Any, message: str) -> Diagnostic:
    hint = "correct the node, or export the module again"
    return Diagnostic(
        "E6002", f"{node_title(node)}: {message}", node_span("program", index, node), "", origin(node), hint
    )


def _decomposed(program: Any, table: Mapping[Any, Any]) -> Any:
    """Return the program with the operators of `table` decomposed."""
    _drop_derived_ranges(program)
    try:
        return program.run_decompositions(table)
    except Exception as error:
        raise DiagnosticError(rejected(program.graph_module, error)) from error


def _drop_derived_ranges(program: Any) -> None:
    """Remove ranges of expressions, such as 8*s, from what torch knows of symbols.

    A program that was loaded from a file has them there, and torch's decomposition asserts that it has not. The ranges
    of the symbols themselves are kept.
    """
    values = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    modes = [value.fake_mode for value in values if hasattr(value, "fake_mode")]
    if modes and modes[0].shape_env is not None:
        ranges: dict[Any, Any] = modes[0].shape_env.var_to_range
        for expr in [expr for expr in ranges if not expr.is_Symbol]:
            del ranges[expr]


def rejected(graph_module: Any, error: Exception) -> Diagnostic:
    """Return the diagnostic of an exception of torch, at the node that its message names."""
    match = _REJECTED_AT.search(str(error))
    name = "" if match is None else match[1]
    places = enumerate(nodes_of(graph_module), 1)
    index, node = next(((index, node) for index, node in places if node.name == name), (0, None))
    message = f"torch rejects it: {summary(error)}"
    hint = "correct the node, or export the module again; the error's __cause__ is torch's exception"
    if node is None:
        return Diagnostic("E6002", f"the program: {message}", hint=hint)
    return Diagnostic(
        "E6002", f"{node_title(node)}: {message}", node_span("program", index, node), "", origin(node), hint
    )


def nodes_of(graph_module: Any) -> list[Any]:
    """Return the nodes of a graph and its subgraphs."""
    nodes: list[Any] = []
    for node in graph_module.graph.nodes:
        inner: Any = getattr(graph_module, node.target) if node.op == "get_attr" else None
        nodes += [node] if not hasattr(inner, "graph") else nodes_of(inner)
    return nodes


def _missing(graph_module: Any) -> list[Any]:
    """Return the unsupported nodes of a graph and its subgraphs."""
    return [node for node in nodes_of(graph_module) if node.op == "call_function" and not _importable(node)]


def _importable(node: Any) -> bool:
    name = str(node.target)
    return (
        node.target is operator.getitem
        or is_scalar(node.meta.get("val"))
        or name.rpartition(".")[0] in IGNORED
        or pairs.find(node) is not None
    )


def unsupported(target: str, nodes: Sequence[Any]) -> Diagnostic:
    """Return the diagnostic of an operator without a converter."""
    if any(map(pairs.is_complex, nodes)):
        hint = "compute it of the real and the imaginary part: x.real, x.imag, torch.complex"
        return _refused(f"the operator {target} is not supported for complex tensors", nodes, hint)
    hint = f"register a converter: relax.frontend.torch.converter({target!r})"
    if target.partition(".")[2].partition(".")[0].endswith("_backward"):
        hint = "export what computes the result alone: gradients are not imported"
    return _refused(f"the operator {target} is not supported", nodes, hint)


def _refused(message: str, nodes: Sequence[Any], hint: str) -> Diagnostic:
    names = ", ".join(node.name for node in nodes[:5])
    more = f" and {len(nodes) - 5} more" if len(nodes) > 5 else ""
    return Diagnostic("E6001", message, node_span("program", 0, nodes[0]), "", (f"nodes: {names}{more}",), hint)


def is_scalar(value: Any) -> bool:
    """True for a number of the program's shapes, rather than a tensor."""
    return type(value).__name__ in ("SymInt", "SymFloat", "SymBool") or isinstance(value, (bool, int, float))
