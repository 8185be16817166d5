"""relax_backend: compiler of the graphs that torch.compile captures, forward and backward.

AOTAutograd of torch makes graphs of ATen operators without effects, and splits training steps into a forward and a
backward graph. Operators with a converter are kept whole, others are taken apart by torch. Of each graph, what relax
imports is compiled in pieces; eager torch runs the rest.
"""

from __future__ import annotations

import importlib
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

from ....ir import Diagnostic, DiagnosticError, IRModule
from .. import registry
from ..emitter import node_span, node_title, origin
from .conjugates import conjugates_resolved
from .convolutions import input_gradients_apart
from .options import BackendOptions, read_options
from .piece import CompiledPiece, NotImported, import_piece
from .pieces import Piece, reason_against, split
from .resizing import resizing_kept
from .sizes import sizes_from_inputs
from .warning import warn_of

NAME = "relax"


def relax_backend(
    graph_module: Any,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph of torch.compile: ``torch.compile(module, backend=relax_backend)``, or ``backend="relax"``.

    Parameters
    ----------
    graph_module, example_inputs
        The graph and its inputs, tensors without data, as torch passes them.
    mode
        A mode of torch.compile; all but ``"default"`` build in full.
    options
        ``tier`` and ``target`` of `relax.build`; ``fallback``, False to raise an error instead of running something in
        eager torch.

    Returns
    -------
    Callable
        A function of the inputs of the graph.

    Raises
    ------
    ValueError
        If a mode or an option is not known.
    DiagnosticError
        If the option ``fallback`` is False, and an operator is not supported.
    """
    chosen = read_options(mode, options)
    aot: Any = importlib.import_module("torch._dynamo.backends.common").aot_autograd
    partitioners: Any = importlib.import_module("torch._functorch.partitioners")
    compiler = _compiler(chosen)
    with resizing_kept():
        return aot(
            fw_compiler=compiler,
            bw_compiler=compiler,
            inference_compiler=compiler,
            decompositions=_decompositions(),
            partition_fn=partitioners.min_cut_rematerialization_partition,
        )(graph_module, example_inputs)


def _decompositions() -> dict[Any, Any]:
    """Torch's decompositions of the operators that have no converter."""
    dispatcher: Any = importlib.import_module("torch._C")
    composite = dispatcher._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
    table = _all_decompositions(frozenset(composite))
    return {target: function for target, function in table.items() if registry.find(str(target)) is None}


@lru_cache(maxsize=1)
def _all_decompositions(composite: frozenset[str]) -> dict[Any, Any]:
    """Torch's decompositions, for the names of all composite operators; to collect them takes 30 milliseconds."""
    del composite
    return dict(importlib.import_module("torch._decomp").core_aten_decompositions())


def _compiler(options: BackendOptions) -> Callable[[Any, Sequence[Any]], Any]:
    def compile_graph(graph_module: Any, example_inputs: Sequence[Any]) -> Any:
        boxed: Any = importlib.import_module("torch._functorch.aot_autograd").make_boxed_func
        return boxed(compiled_graph(graph_module, options))

    return compile_graph


def compiled_graph(graph_module: Any, options: BackendOptions) -> Any:
    """Return a graph module that computes what a graph of ATen operators without effects does."""
    for node in graph_module.graph.nodes:
        if node.op == "get_attr" and "val" not in node.meta:
            held: Any = getattr(graph_module, node.target, None)
            node.meta["val"] = held if hasattr(held, "dtype") else None
    sizes_from_inputs(graph_module)
    input_gradients_apart(graph_module)
    conjugates_resolved(graph_module)
    pieces, outer, imported, refused = _imported(graph_module)
    reasons = {node: reason for node in graph_module.graph.nodes if (reason := reason_against(node))} | refused
    if reasons and not options.fallback:
        raise DiagnosticError(_refusals(graph_module, reasons))
    warn_of(reasons)
    called = {
        f"piece{index}": CompiledPiece(f"piece{index}", piece, graph_module, *imported[piece.key], options)
        for index, piece in enumerate(pieces)
    }
    for node in outer.nodes:
        if node.op == "call_module":
            node.op, node.target = "call_function", called[node.target]
    return sys.modules["torch"].fx.GraphModule(graph_module, outer)


def _imported(graph_module: Any) -> tuple[list[Piece], Any, dict[Any, tuple[IRModule, list[int]]], dict[Any, str]]:
    """Return the pieces of a graph, the graph that calls them, their programs, and reasons of nodes that are refused.

    Each round refuses the nodes that the importer has found to be out of its reach, and splits the graph again.
    """
    refused: dict[Any, str] = {}
    imported: dict[Any, tuple[IRModule, list[int]]] = {}
    while True:
        pieces, outer = split(graph_module, refused)
        failures = len(refused)
        for piece in pieces:
            if piece.key in imported:
                continue
            try:
                imported[piece.key] = import_piece(piece, graph_module)
            except NotImported as error:
                node = piece.original.get(error.node)
                while node is not None and node.target is operator.getitem:
                    node = node.args[0]
                culprits = [node] if node is not None and node.op == "call_function" else list(piece.original.values())
                refused.update(dict.fromkeys(culprits, str(error)))
        if len(refused) == failures:
            return pieces, outer, imported, refused


def _refusals(graph_module: Any, reasons: Mapping[Any, str]) -> list[Diagnostic]:
    """Return a diagnostic for each node that would run in eager torch, at the node and the user's line."""
    hint = "register a converter (relax.frontend.torch.converter), or leave out the option fallback=False"
    return [
        Diagnostic(
            "E6001", f"{node_title(node)}: {reasons[node]}", node_span("graph", index, node), "", origin(node), hint
        )
        for index, node in enumerate(graph_module.graph.nodes, 1)
        if node in reasons
    ]


def register() -> None:
    """Make ``torch.compile(..., backend="relax")`` known to torch, if that is loaded and no entry point says it.

    An installed package has the entry point; a source tree on the path has not.
    """
    if "torch" not in sys.modules or entry_points(group="torch_dynamo_backends", name=NAME):
        return
    backends: Any = importlib.import_module("torch._dynamo")
    if NAME not in backends.list_backends():
        backends.register_backend(relax_backend, name=NAME)
