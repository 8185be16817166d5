"""Names of the leaves of a tree that torch has flattened, from the structure that it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast


def child_keys(spec: Any) -> list[str]:
    """Return the names of the children of a structure: keys of a dict, fields of a class, else positions."""
    count: int = spec.num_children
    context: Any = spec.context
    if hasattr(context, "_fields"):
        return [str(key) for key in context._fields]
    if isinstance(context, (list, tuple)):
        keys = cast("Sequence[Any]", context)
        first = cast("Sequence[Any]", keys[0]) if keys and isinstance(keys[0], (list, tuple)) else ()
        for candidate in (keys, first):
            if count and len(candidate) == count and all(isinstance(key, (str, int)) for key in candidate):
                return [str(key) for key in candidate]
    return [str(index) for index in range(count)]


def leaf_names(spec: Any) -> list[str]:
    """Return a name for each leaf of a structure: ``logits``, ``past_key_values.0.1``; empty for a single leaf."""
    if spec.is_leaf():
        return [""]
    names: list[str] = []
    for key, child in zip(child_keys(spec), spec.children(), strict=True):
        names += [f"{key}.{rest}" if rest else key for rest in leaf_names(child)]
    return names


def output_names(spec: Any, nodes: Sequence[str]) -> list[str]:
    """Return the names of a program's outputs: those of leaves that have a key, else those of the graph's nodes.

    Equal names are numbered, so that each names one output.
    """
    found: list[str] = []
    for name, node in zip(leaf_names(spec), nodes, strict=True):
        chosen = node if not name or name.replace(".", "").isdigit() else name
        unique, count = chosen, 1
        while unique in found:
            unique, count = f"{chosen}_{count}", count + 1
        found.append(unique)
    return found
