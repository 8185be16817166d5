"""Base class of the compilers of expressions to closures: a subexpression that occurs several times runs once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from ..prim import Let, PrimExpr, post_order, sub_expressions
from ..prim.traits import has_effects

S = TypeVar("S")


class ClosureCompiler(ABC, Generic[S]):
    """Compile expressions to closures over a state of type `S`, which holds the results of shared subexpressions."""

    def __init__(self) -> None:
        self.exact = False
        """True while sizes are compiled: int64 overflow raises OverflowError."""
        self._shared: dict[PrimExpr, Callable[[S], Any] | None] | None = None
        """During a compilation: the closures of objects that occur several times in the expression (None: not yet
        compiled).
        """

    @abstractmethod
    def fresh(self, expr: PrimExpr) -> Callable[[S], Any]:
        """Compile an expression without looking it up among the shared ones."""

    @abstractmethod
    def cached(self, expr: PrimExpr, value: Callable[[S], Any]) -> Callable[[S], Any]:
        """Return a closure that evaluates `value` once and keeps the result in the state, under the key `expr`."""

    @abstractmethod
    def without_cached(self, shared: Sequence[PrimExpr], value: Callable[[S], Any]) -> Callable[[S], Any]:
        """Return a closure that discards the kept results of `shared`, then evaluates `value`."""

    def expr(self, expr: PrimExpr) -> Callable[[S], Any]:
        """Compile an expression. An object that occurs several times is compiled and evaluated once."""
        if self._shared is not None:
            if expr not in self._shared:
                return self.fresh(expr)
            compiled = self._shared[expr]
            if compiled is None:
                compiled = self._shared[expr] = self.cached(expr, self.fresh(expr))
            return compiled
        shared = _shared_objects(expr)
        self._shared = dict.fromkeys(shared)
        try:
            value = self.fresh(expr)
        finally:
            self._shared = None
        return self.without_cached(shared, value) if shared else value

    @contextmanager
    def exactly(self, exact: bool = True) -> Generator[None]:
        """Context manager: compile expressions as sizes, whose int64 overflow raises OverflowError."""
        outside, self.exact = self.exact, exact
        try:
            yield
        finally:
            self.exact = outside


def _shared_objects(expr: PrimExpr) -> list[PrimExpr]:
    """Return the objects that occur several times in an expression and may be evaluated once.

    Empty if an effect or a Let occurs in the expression.
    """
    counts: dict[PrimExpr, int] = {}
    varied = False

    def visit(node: PrimExpr) -> None:
        nonlocal varied
        varied = varied or isinstance(node, Let) or has_effects(node)
        for below in sub_expressions(node):
            counts[below] = counts.get(below, 0) + 1

    post_order(expr, visit)
    if varied:
        return []
    return [node for node, count in counts.items() if count > 1 and sub_expressions(node)]
