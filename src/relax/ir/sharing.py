"""Sizes of what may be one object in many places: a node is a graph, and written out it is a tree.

``e = e + e``, sixty times, is sixty nodes and 2**60 places. Whatever writes a node asks here first how much there is to
write, and writes no more than `WRITTEN` places of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .node import Node, children_of

WRITTEN = 2_000
"""How many places of a node are written out before its shared parts are left out or given names."""


def written_depth(
    node: Node, limit: int = WRITTEN, children: Callable[[Node], Iterable[Node]] = children_of
) -> int | None:
    """How many levels of a node can be written out in at most `limit` places; None if all of it can."""
    level = [node]
    places = depth = 0
    while level:
        places += len(level)
        if places > limit:
            return depth
        depth += 1
        level = [part for above in level for part in _below(above, children)]
    return None


def _below(node: Node, children: Callable[[Node], Iterable[Node]]) -> Iterable[Node]:
    return () if node.__is_variable__ else children(node)
