"""Programs that need no decomposition: every operator has a converter, and writes in place touch one value only.

Torch's functionalisation traces a program twice, which takes most of the time of an import. `is_direct` recognises a
program that the reader can take as torch.export made it. `rederives` has torch derive its results once, so that a graph
that was edited after the export is not taken for what its notes say.
"""

from __future__ import annotations

import importlib
import operator
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, cast

from . import registry

_FRESH = (
    "aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.conv_transpose1d", "aten.conv_transpose2d",
    "aten.conv_transpose3d", "aten.linear", "aten.batch_norm", "aten.layer_norm", "aten.group_norm",
    "aten.instance_norm", "aten.scaled_dot_product_attention",
)  # fmt: skip
"""Operators that torch composes of others, and whose result is a new tensor in any case."""

_HIDDEN_VIEWS = ("aten.einsum", "aten.meshgrid")
"""Composed operators that may return views of operands, of which their schemas say nothing."""


def functional_name(target: Any) -> str | None:
    """Return the name of the operator that computes what an operator writes in place; None if it writes nothing.

    ``aten.relu.default`` for ``aten.relu_.default``.
    """
    schema: Any = getattr(target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return None
    name, _, overload = str(target).rpartition(".")
    return f"{name.removesuffix('_')}.{overload}" if name.endswith("_") and not name.endswith("__") else ""


def is_direct(graph_module: Any) -> bool:
    """True if the reader can take the graph as it is.

    Each operator has a converter; no result is complex or of a size that depends on data; no graph is an operand. What
    is written in place is the new result of an operator, of which no node has a view.
    """
    for node in graph_module.graph.nodes:
        if node.op == "get_attr" and hasattr(getattr(graph_module, node.target, None), "graph"):
            return False
        if node.op == "placeholder" and _is_special(node.meta.get("val")):
            return False
        if node.op == "call_function" and not _is_direct(node):
            return False
    return True


def hidden_views(nodes: Sequence[Any]) -> set[Any]:
    """Return the operators to decompose before writes in place are removed, as torch would take views for copies.

    None where nothing is written.
    """
    if not any(functional_name(node.target) is not None for node in nodes):
        return set()
    return {node.target for node in nodes if str(node.target).rpartition(".")[0] in _HIDDEN_VIEWS}


@contextmanager
def idle_dropouts_as_aliases(nodes: Sequence[Any]) -> Generator[None]:
    """Context manager: dropouts in the mode eval, which return their operand, are ``aten.alias`` nodes.

    Torch's removal of writes in place takes the result of a dropout for a copy of the operand.
    """
    alias = sys.modules["torch"].ops.aten.alias.default
    dropouts = [node for node in nodes if str(node.target) == "aten.dropout.default" and not _trains(node)]
    saved = [(node, node.target, node.args, node.kwargs) for node in dropouts]
    try:
        for node in dropouts:
            operand = node.args[0] if node.args else node.kwargs["input"]
            node.target, node.args, node.kwargs = alias, (operand,), {}
        yield
    finally:
        for node, target, args, kwargs in saved:
            node.target, node.args, node.kwargs = target, args, kwargs


def _is_direct(node: Any) -> bool:
    value = node.meta.get("val")
    if _is_special(value) or "unbacked_bindings" in node.meta:
        return False
    if node.target is operator.getitem or type(value).__name__ in ("SymInt", "SymFloat", "SymBool"):
        return True
    name, functional = str(node.target), functional_name(node.target)
    if _trains(node):
        return False
    if functional is not None:
        return registry.find(functional) is not None and registry.is_pure(functional) and _writes_its_own(node)
    return registry.find(name) is not None


def _is_special(value: Any) -> bool:
    """True for complex tensors, and for tensors of a subclass or a layout of their own."""
    values = cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else [value]
    return any(hasattr(item, "dtype") and (item.dtype.is_complex or item.is_sparse) for item in values)  # type: ignore[reportUnknownMemberType]


def _trains(node: Any) -> bool:
    """True for a normalisation or a dropout in the mode train, which changes buffers or draws random numbers."""
    schema: Any = getattr(node.target, "_schema", None)
    for place, argument in enumerate(() if schema is None else schema.arguments):
        if argument.name in ("train", "training", "use_input_stats"):
            value = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name, False)
            if value is not False:
                return True
    return False


def _writes_its_own(node: Any) -> bool:
    """True if the tensor that a node writes is the new result of an operator, of which there is no view."""
    root = written_root(node)
    if root is None or root.op != "call_function" or not _is_fresh(root):
        return False
    return not any(_may_share(user) for alias in aliases(root) for user in alias.users)


def written_root(node: Any) -> Any:
    """Return the node that made the tensor which a node writes in place; None if that is no operand of its own."""
    while functional_name(node.target) is not None:
        node = node.args[0] if node.args else None
        if type(node).__name__ != "Node":
            return None
    return node


def aliases(root: Any) -> list[Any]:
    """Return a node and those that write its result in place, and stand for it too."""
    found = [root]
    for alias in found:
        found += [user for user in alias.users if functional_name(user.target) is not None and user.args[0] is alias]
    return found


def _is_fresh(node: Any) -> bool:
    """True if the result of a node shares memory with none of its operands."""
    return not _may_share(node)


def _may_share(node: Any) -> bool:
    """True unless an operator's schema and kernel exclude that its result shares memory with an operand."""
    if node.op == "output" or type(node.meta.get("val")).__name__ in ("SymInt", "SymFloat", "SymBool"):
        return False
    schema: Any = getattr(node.target, "_schema", None)
    if schema is None:
        return True
    if functional_name(node.target):
        return False  # the result is the tensor itself, and stands for it from then on
    if any(result.alias_info is not None for result in schema.returns):
        return True
    torch = sys.modules["torch"]
    composed = torch._C._dispatch_has_kernel_for_dispatch_key(
        schema.name + _suffix(schema), "CompositeImplicitAutograd"
    )
    return composed and str(node.target).rpartition(".")[0] not in _FRESH


def _suffix(schema: Any) -> str:
    return f".{schema.overload_name}" if schema.overload_name else ""


def rederives(graph_module: Any) -> bool:
    """True if torch derives the results that a graph's notes say, from the operands. Raises what torch raises."""
    torch = sys.modules["torch"]
    tensors = [node.meta.get("val") for node in graph_module.graph.nodes if node.op == "placeholder"]
    mode: Any = next((value.fake_mode for value in tensors if hasattr(value, "fake_mode")), None)
    if mode is None:
        return False
    dispatch: Any = importlib.import_module("torch._dispatch.python")
    values: dict[Any, Any] = {}
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(mode)
        stack.enter_context(dispatch.enable_python_dispatcher())
        if mode.shape_env is not None:
            stack.enter_context(mode.shape_env.suppress_guards())
        for node in graph_module.graph.nodes:
            if node.op == "placeholder":
                values[node] = node.meta.get("val")
            elif node.op == "get_attr":
                values[node] = mode.from_tensor(getattr(graph_module, node.target))
            elif node.op == "call_function":
                args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*args, **kwargs)
                if not _same(values[node], node.meta.get("val")):
                    return False
    return True


def _same(value: Any, noted: Any) -> bool:
    """True if a derived result has the dtype and the sizes that a node's notes say."""
    if isinstance(value, (list, tuple)):
        if not isinstance(noted, (list, tuple)) or len(value) != len(noted):  # type: ignore[reportUnknownArgumentType]
            return False
        return all(_same(a, b) for a, b in zip(value, noted, strict=True))  # type: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if hasattr(value, "dtype"):
        if not hasattr(noted, "dtype") or value.dtype != noted.dtype or value.dim() != noted.dim():
            return False
        return all(_same(a, b) for a, b in zip(value.shape, noted.shape, strict=True))
    if hasattr(value, "node") and hasattr(noted, "node"):
        return value.node.expr == noted.node.expr
    return hasattr(value, "node") == hasattr(noted, "node") and value == noted
