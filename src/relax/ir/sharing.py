"""Size of a node's text: nodes form a graph of shared objects, but text is a tree of occurrences.

Sixty times ``e = e + e`` is sixty objects with 2**60 occurrences. Code that writes nodes as text checks the size here
first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from .node import Node, children_of

Children = Callable[[Node], Iterable[Node]]


def written_depth(node: Node, limit: int) -> int | None:
    """Number of levels of a node that can be written with at most `limit` occurrences; None if all can."""
    level = [node]
    occurrences = depth = 0
    while level:
        occurrences += len(level)
        if occurrences > limit:
            return depth
        depth += 1
        level = [child for above in level if not above.__is_variable__ for child in children_of(above)]
    return None


def is_excessive(node: Node, limit: int, children: Children = children_of) -> bool:
    """True if a node has more than `limit` occurrences, mostly because of shared objects."""
    order = parts_first(node, children)
    return _occurrences(order, children) > max(limit, 4 * len(order))


def is_large(node: Node, limit: int, children: Children = children_of) -> bool:
    """True if a node has more than `limit` occurrences in its text, shared or not."""
    return _occurrences(parts_first(node, children), children) > limit


def _occurrences(order: list[Node], children: Children) -> int:
    """Number of occurrences in the last of the ordered objects, counting shared ones repeatedly."""
    occurrences: dict[int, int] = {}
    for node in order:
        occurrences[id(node)] = 1 + sum(occurrences[id(below)] for below in _below(node, children))
    return occurrences[id(order[-1])]


def shared_parts(node: Node, children: Children) -> list[Node]:
    """Shared parts of a node that have parts themselves, inner ones first."""
    order = parts_first(node, children)
    uses = Counter(id(below) for part in order for below in _below(part, children))
    return [part for part in order if uses[id(part)] > 1 and any(True for _ in _below(part, children))]


def parts_first(node: Node, children: Children) -> list[Node]:
    """All objects of a node once, in postorder."""
    order: list[Node] = []
    seen: set[int] = set()
    pending = [(node, False)]
    while pending:
        part, entered = pending.pop()
        if entered:
            order.append(part)
        elif id(part) not in seen:
            seen.add(id(part))
            pending.append((part, True))
            pending.extend((below, False) for below in _below(part, children))
    return order


def _below(node: Node, children: Children) -> Iterable[Node]:
    if node.__is_variable__:
        return ()
    return [child for child in children(node) if isinstance(child, Node)]  # pyright: ignore[reportUnnecessaryIsInstance]
