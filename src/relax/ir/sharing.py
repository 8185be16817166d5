"""The size of a node's text: a node is a graph of objects, and text is a tree of places.

``e = e + e``, sixty times, is sixty objects in 2**60 places. Whatever writes a node asks here first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from .node import Node, children_of

Children = Callable[[Node], Iterable[Node]]


def written_depth(node: Node, limit: int) -> int | None:
    """The number of levels of a node that can be written in at most `limit` places; None if all can."""
    level = [node]
    places = depth = 0
    while level:
        places += len(level)
        if places > limit:
            return depth
        depth += 1
        level = [part for above in level if not above.__is_variable__ for part in children_of(above)]
    return None


def is_excessive(node: Node, limit: int, children: Children = children_of) -> bool:
    """True if a node takes more than `limit` places, and most of them only because objects stand in several."""
    order = parts_first(node, children)
    return _places(order, children) > max(limit, 4 * len(order))


def is_large(node: Node, limit: int, children: Children = children_of) -> bool:
    """True if a node takes more than `limit` places in a text, whether objects stand in several of them or not."""
    return _places(parts_first(node, children), children) > limit


def _places(order: list[Node], children: Children) -> int:
    """The places that the last of some objects takes, an object that stands in several counted in each."""
    places: dict[int, int] = {}
    for part in order:
        places[id(part)] = 1 + sum(places[id(below)] for below in _below(part, children))
    return places[id(order[-1])]


def shared_parts(node: Node, children: Children) -> list[Node]:
    """The parts of a node that stand in several places and have parts of their own, inner ones first."""
    order = parts_first(node, children)
    uses = Counter(id(below) for part in order for below in _below(part, children))
    return [part for part in order if uses[id(part)] > 1 and any(True for _ in _below(part, children))]


def parts_first(node: Node, children: Children) -> list[Node]:
    """Every object of a node once, each behind its parts."""
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
    return [part for part in children(node) if isinstance(part, Node)]  # pyright: ignore[reportUnnecessaryIsInstance]
