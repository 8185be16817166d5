"""Answers about nodes, kept as long as the nodes live.

Passes and schedule rules ask the same of a statement one after another: whether it is a nest, which buffers it reads.
Nodes do not change, so the answer to a question about a node alone does not either.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ..ir import Node
from .analyzer import has_facts_in_scope
from .expr import nonnegative_epoch

NodeT = TypeVar("NodeT", bound=Node)
T = TypeVar("T")


def per_node(function: Callable[[NodeT], T]) -> Callable[[NodeT], T]:
    """Decorator: cache a function of a node that asks the prover nothing.

    The result must not refer to the node, which would keep it alive, and the caller must not change it.
    """
    known: WeakKeyDictionary[Any, T] = WeakKeyDictionary()

    @wraps(function)
    def answer(node: NodeT) -> T:
        try:
            return known[node]
        except KeyError:
            result = known[node] = function(node)
            return result

    return answer


def proved_per_node(function: Callable[[NodeT], T]) -> Callable[[NodeT], T]:
    """Decorator: cache a function of a node that asks the prover; see `per_node`.

    Answers are dropped when a variable is marked as non-negative, since more can be proved then. Under facts in scope
    (`facts_in_scope`) the function is called each time.
    """
    known: WeakKeyDictionary[Any, tuple[int, T]] = WeakKeyDictionary()

    @wraps(function)
    def answer(node: NodeT) -> T:
        if has_facts_in_scope():
            return function(node)
        epoch = nonnegative_epoch()
        entry = known.get(node)
        if entry is None or entry[0] != epoch:
            entry = known[node] = epoch, function(node)
        return entry[1]

    return answer
