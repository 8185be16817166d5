"""Values of the variables of a function that is being written."""

from __future__ import annotations

from typing import Any, TypeAlias

from ....expr import Var
from .graph import Graph

Value: TypeAlias = Any
"""A tensor, sizes, a list of values for a tuple, or None for the null object."""


class Locals:
    """Values of the variables that a function or branch sees, and the functions that are being inlined."""

    def __init__(self, graph: Graph, values: dict[Var, Value], calls: tuple[str, ...]) -> None:
        self.graph, self.values, self.calls = graph, values, calls

    def inner(self, graph: Graph) -> Locals:
        """Independent copy for a branch, which is written into another graph."""
        return Locals(graph, dict(self.values), self.calls)
