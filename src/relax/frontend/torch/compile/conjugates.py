"""Pass over FX graphs: compute lazy conjugates before a view of complex numbers as real ones.

    x = view_as_real(z)    gives    r = resolve_conj(z)
                                    x = view_as_real(r)

Torch conjugates lazily: the result of ``z.conj()`` shares the memory of z, and view_as_real rejects it. A graph is
traced with plain tensors, but called with lazily conjugated ones if the gradient of a result happens to be one.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from ..pairs import has_complex_dtype

_VIEWS: Final = frozenset(["aten.view_as_real.default", "aten.view.dtype"])


def conjugates_resolved(graph_module: Any) -> None:
    """Insert resolve_conj before each node of a graph that views complex numbers as real ones."""
    graph, resolve = graph_module.graph, sys.modules["torch"].ops.aten.resolve_conj.default
    for node in list(graph.nodes):
        if node.op != "call_function" or str(node.target) not in _VIEWS:
            continue
        operand = node.args[0]
        if has_complex_dtype(operand.meta.get("val")):
            with graph.inserting_before(node):
                resolved = graph.call_function(resolve, (operand,))
            resolved.meta = {**node.meta, "val": operand.meta["val"]}
            node.replace_input_with(operand, resolved)
